/**
 * Directory of the known providers, by name, alias and host. The data is in `base/config/KnownProviders`.
 *
 * Source: `hermes-llm.md` §2 and §5.1.
 */
import * as KnownProviders from "../../base/config/KnownProviders.ts"
import * as Similarity from "../../base/domain/Similarity.ts"
import { parseAddress, isUnder } from "../../base/domain/EndpointAddress.ts"

/** Entry of one provider. */
export interface Entry {
  readonly name: string
  readonly displayName: string
  /** Base URL of the API; `undefined` if the provider has no fixed address or the user must specify it. */
  readonly baseUrl?: string
  readonly authentication: KnownProviders.Authentication
  /**
   * Environment variables that may contain the key. The first variable that is set is used; the first in the list is
   * recommended to users.
   */
  readonly keyVariables: ReadonlyArray<string>
  readonly aliases: ReadonlyArray<string>
  /**
   * Domains of the provider, in addition to the domain in `baseUrl`. Keys from the environment are sent only to the
   * provider's domains.
   */
  readonly domains: ReadonlyArray<string>
  /** True if the provider serves models of many vendors under `vendor/model` ids. */
  readonly aggregator: boolean
  /** Prefixes of the ids of the provider's own models. */
  readonly families: ReadonlyArray<string>
  /** True if `hermes model login` can obtain a credential that replaces the key. */
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

/** Entry for an endpoint of an unknown provider. */
export const custom: Entry = makeEntry(["custom", KnownProviders.custom])

/** Entries of all known providers. */
export const entries: ReadonlyArray<Entry> = [...Object.entries(KnownProviders.rows).map(makeEntry), custom]

const byName: ReadonlyMap<string, Entry> = new Map(
  entries.flatMap((entry) => [entry.name, ...entry.aliases].map((name): [string, Entry] => [name, entry]))
)

/** Returns the provider with the given name or alias, ignoring case, or `undefined`. */
export const findProvider = (name: string): Entry | undefined => byName.get(name.trim().toLowerCase())

/** Name and aliases of a provider. */
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

/** Tests whether a host belongs to the provider. */
const isOwnHost = (entry: Entry, host: string): boolean => entry.domains.some((domain) => isUnder(host, domain))

/** Host names of the local machine. */
const loopback = new Set(["127.0.0.1", "localhost", "[::1]"])

/** Tests whether an address belongs to the provider. On the local machine the port must also match. */
export const isOwn = (entry: Entry, baseUrl: string | undefined): boolean => {
  const { host } = parseAddress(baseUrl)
  if (!loopback.has(host)) return isOwnHost(entry, host)
  const here = URL.parse(baseUrl ?? "")
  const own = URL.parse(entry.baseUrl ?? "")
  return own !== null && loopback.has(own.hostname) && here?.port === own.port && here.protocol === own.protocol
}

/** Returns the provider to which a public host belongs, or `undefined`. A local host does not identify a provider. */
export const findByHost = (host: string): Entry | undefined =>
  entries.find((entry) => entry.authentication !== "optional" && isOwnHost(entry, host))

/** Returns the known name or alias that is most similar to `name`, or `undefined` if no name is similar. */
export const findNearestName = (name: string, others: ReadonlyArray<string> = []): string | undefined =>
  Similarity.findNearest(name.trim(), [...byName.keys(), ...others])
