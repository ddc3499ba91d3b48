/**
 * Selects a route's API key. A key is sent only to the address that it was given for.
 *
 * **Details**
 *
 * | key | goes to |
 * | --- | --- |
 * | `api_key`, `key_env` of the route's own section | that route (`RouteStatement` has removed it where another source names another one) |
 * | of a named endpoint | the endpoint's own address |
 * | a variable of a provider (`ANTHROPIC_API_KEY`) | the provider's own hosts |
 * | the same, elsewhere | an address that the same source (the process, or `.env`) names for that provider |
 * | `OPENAI_API_KEY`, for `custom` | the address of `OPENAI_BASE_URL` of the same source |
 * | a login | the hosts of the provider that issued it, or the server that did |
 *
 * Local servers are not an exception: a process that listens on a local port is not the provider.
 *
 * Source: `hermes-llm.md` §2.3, `ARCHITECTURE.md` §7.
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { Level } from "../../base/config/SettingSources.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as EndpointAddress from "../../base/domain/EndpointAddress.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as Directory from "./ProviderDirectory.ts"

/** A source of variables. */
export type VariableLevel = Extract<Level, "environment" | "env-file">

/** Looks up a variable in the environment, then in `.env`; with a source, only in that one. */
export type Lookup = (name: string, source?: VariableLevel) => Redacted.Redacted<string> | undefined

/** Sent if no key is needed, because the SDKs require one. */
export const noKey = Redacted.make("no-key-required")

/** Credential of a login, in place of a key. */
interface Login {
  readonly key: Redacted.Redacted<string>
  /** The address of the service that issued it; the provider's own when absent. */
  readonly issuer?: string | undefined
}

/** The keys that a chosen provider and address may have. */
export interface Claim {
  readonly entry: Directory.Entry
  readonly keyVariables: ReadonlyArray<string>
  /** The source that names the address, where its variables may follow it. */
  readonly pairedWith?: VariableLevel | undefined
  /** Key of a named endpoint at its own address. */
  readonly endpoint?:
    | {
        readonly apiKey?: Redacted.Redacted<string> | undefined
        readonly keyEnv?: string | undefined
        readonly label: string
      }
    | undefined
  /** The environment selected the provider or address: a key from another source does not apply to it. */
  readonly ofEnvironment?: boolean | undefined
}

/** The keys that the user gave for this very route. */
export interface RouteCredentials {
  readonly apiKey?: Redacted.Redacted<string> | undefined
  /** Place in which the user wrote `apiKey`. */
  readonly apiKeyAt?: string | undefined
  readonly keyEnv?: string | undefined
  /** Logins by provider. */
  readonly logins?: ReadonlyMap<string, Login> | undefined
}

/** A key and the name of its source. */
interface FoundKey {
  readonly key: Route["apiKey"]
  readonly from: string
}

type KeyResult = Result.Result<FoundKey, ConfigError>

const failWith = (path: string, message: string): KeyResult => Result.fail(new ConfigError({ path, message }))

const isGiven = (key: Route["apiKey"]): boolean => key !== undefined && Redacted.value(key).trim() !== ""

/** The source of a variable, the stronger one first; undefined when neither has it. */
export const findSource = (lookup: Lookup, name: string): VariableLevel | undefined =>
  (["environment", "env-file"] as const).find((source) => isGiven(lookup(name, source)))

/** The first of some variables that is set to something. */
export const findFirstSet = (
  lookup: Lookup,
  names: ReadonlyArray<string>,
  source?: VariableLevel
): Redacted.Redacted<string> | undefined => names.map((name) => lookup(name, source)).find(isGiven)

const findVariable = (lookup: Lookup, names: ReadonlyArray<string>, only?: VariableLevel): FoundKey | undefined => {
  const name = names.find((name) => isGiven(lookup(name, only)))
  if (name === undefined) return undefined
  const source = only ?? findSource(lookup, name)
  return { key: lookup(name, only), from: source === "env-file" ? `.env: ${name}` : name }
}

/** Words as a list: `A`, `A or B`, `A, B or C`. */
export const joinAlternatives = (words: ReadonlyArray<string>): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`

const failForMissingKey = ({ entry, keyVariables }: Claim, host: string, own: boolean): KeyResult => {
  const variables = joinAlternatives(keyVariables)
  const login = entry.login ? "run `hermes model login`, or " : ""
  return own
    ? failWith(
        keyVariables[0] ?? "model.api_key",
        `no API key for ${entry.displayName}: ${login}set ${variables} (or model.api_key)`
      )
    : failWith(
        "model.api_key",
        `no API key for ${host}: set model.api_key (${variables} goes to ${joinAlternatives(entry.domains)} only)`
      )
}

/** Returns whether a login may be sent to an address: the provider's own hosts, or the server that issued it. */
export const mayLogIn = (
  entry: Directory.Entry,
  address: string | undefined,
  { issuer }: Pick<Login, "issuer">
): boolean =>
  issuer === undefined
    ? Directory.isOwn(entry, address)
    : EndpointAddress.readOrigin(issuer) !== undefined &&
      EndpointAddress.readOrigin(issuer) === EndpointAddress.readOrigin(address)

/**
 * Resolves the key for an address: a key, no key if the address needs none, or an error that explains how to add the
 * missing one.
 */
export const resolveKey = (
  claim: Claim,
  address: string | undefined,
  given: RouteCredentials,
  lookup: Lookup
): KeyResult => {
  const { endpoint, entry, keyVariables, pairedWith } = claim
  const {
    apiKey,
    apiKeyAt = "model.api_key",
    keyEnv,
    logins
  }: RouteCredentials = claim.ofEnvironment === true ? { logins: given.logins } : given
  if (isGiven(apiKey)) return Result.succeed({ key: apiKey, from: apiKeyAt })
  const explicit =
    findVariable(lookup, keyEnv === undefined ? [] : [keyEnv]) ??
    (isGiven(endpoint?.apiKey) ? { key: endpoint?.apiKey, from: `${endpoint?.label}.api_key` } : undefined) ??
    findVariable(lookup, endpoint?.keyEnv === undefined ? [] : [endpoint.keyEnv])
  if (explicit !== undefined) return Result.succeed(explicit)
  if (entry.authentication === "aws") return Result.succeed({ key: undefined, from: "credentials of the AWS SDK" })
  if (entry.authentication === "none") return Result.succeed({ key: undefined, from: "none" })
  if (keyEnv === undefined) {
    const own = Directory.isOwn(entry, address)
    const login = logins?.get(entry.name)
    const found =
      (own ? findVariable(lookup, entry.keyVariables) : undefined) ??
      (pairedWith === undefined ? undefined : findVariable(lookup, keyVariables, pairedWith)) ??
      (login !== undefined && mayLogIn(entry, address, login)
        ? { key: login.key, from: "hermes model login" }
        : undefined)
    if (found !== undefined) return Result.succeed(found)
    if (entry.authentication === "key")
      return failForMissingKey(
        claim,
        EndpointAddress.parseAddress(address).host,
        own || (entry.login && login === undefined)
      )
  }
  return entry.authentication === "optional" || keyEnv === undefined
    ? Result.succeed({ key: noKey, from: "none" })
    : failWith(keyEnv, `no API key for ${entry.displayName}: set ${keyEnv}`)
}
