/**
 * The providers that users may name, by name, alias and host. `base/config/KnownProviders` has them as data.
 *
 * Source: `hermes-llm.md` §2 and §5.1.
 */
import * as KnownProviders from "../../base/config/KnownProviders.ts"
import * as Similarity from "../../base/domain/Similarity.ts"
import { parseAddress, isUnder } from "../../base/domain/EndpointAddress.ts"

/** One provider. */
export interface Entry {
  readonly name: string
  readonly displayName: string
  /** Absent for providers without an address, or whose address the user must provide. */
  readonly baseUrl?: string
  readonly authentication: KnownProviders.Authentication
  /** Environment variables that may hold the key; the first that is set wins, and the first is the one to recommend. */
  readonly keyVariables: ReadonlyArray<string>
  readonly aliases: ReadonlyArray<string>
  /**
   * Domains of the provider, in addition to the domain in `baseUrl`. Keys from the environment are sent only to these.
   */
  readonly domains: ReadonlyArray<string>
  /** Serves models of many vendors under `vendor/model` ids. */
  readonly aggregator: boolean
  /** Beginnings of the ids of the provider's own models. */
  readonly families: ReadonlyArray<string>
  /** `hermes model login` can get a credential in place of its key. */
  readonly login: boolean
}

const makeEntry = ([name, row]: readonly [string, KnownProviders.Row]): Entry => {
  const own = parseAddress(row.baseUrl).host
  return {
    name,
    displayName: row.displayName,
    ...(row.baseUrl === undefined ? {} : { baseUrl: row.baseUrl }),
    authentication: row.authentication ?? "key",
    keyVariables: row.keys ?? [],
    aliases: row.aliases ?? [],
    domains: own === "" ? (row.domains ?? []) : [own, ...(row.domains ?? [])],
    aggregator: row.aggregator ?? false,
    families: row.families ?? [],
    login: row.login ?? false
  }
}

/** An endpoint of an unknown provider. */
export const custom: Entry = makeEntry(["custom", KnownProviders.custom])

/** Every known provider. */
export const entries: ReadonlyArray<Entry> = [...Object.entries(KnownProviders.rows).map(makeEntry), custom]

const byName: ReadonlyMap<string, Entry> = new Map(
  entries.flatMap((entry) => [entry.name, ...entry.aliases].map((name): [string, Entry] => [name, entry]))
)

/** The provider of a name or alias, in any case. */
export const findProvider = (name: string): Entry | undefined => byName.get(name.trim().toLowerCase())

/** Names of a provider. */
export interface ProviderNames {
  readonly name: string
  readonly aliases?: ReadonlyArray<string> | undefined
}

/** Finds the entry with the given name or alias, ignoring case. */
export const findNamed = <A extends ProviderNames>(some: ReadonlyArray<A>, name: string): A | undefined => {
  const wanted = name.trim().toLowerCase()
  return some.find(({ aliases = [], name }) =>
    [name, ...aliases].some((other) => other.trim().toLowerCase() === wanted)
  )
}

/** Returns whether a host is one of the provider's own. */
const isOwnHost = (entry: Entry, host: string): boolean => entry.domains.some((domain) => isUnder(host, domain))

/** Names of this very machine. */
const loopback = new Set(["127.0.0.1", "localhost", "[::1]"])

/** Returns whether an address is the provider's own. On this machine only the provider's own port counts. */
export const isOwn = (entry: Entry, baseUrl: string | undefined): boolean => {
  const { host } = parseAddress(baseUrl)
  if (!loopback.has(host)) return isOwnHost(entry, host)
  const here = URL.parse(baseUrl ?? "")
  const own = URL.parse(entry.baseUrl ?? "")
  return own !== null && loopback.has(own.hostname) && here?.port === own.port && here.protocol === own.protocol
}

/** The provider that a public host belongs to. Local hosts say nothing about who listens there. */
export const findByHost = (host: string): Entry | undefined =>
  entries.find((entry) => entry.authentication !== "optional" && isOwnHost(entry, host))

/** The known name or alias that looks most like `name`; undefined when none is near. */
export const findNearestName = (name: string, others: ReadonlyArray<string> = []): string | undefined =>
  Similarity.findNearest(name.trim(), [...byName.keys(), ...others])
