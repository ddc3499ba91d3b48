/**
 * Selects a route's API key. A key is sent only to the address for which it was configured.
 *
 * **Details**
 *
 * | key | goes to |
 * | --- | --- |
 * | `api_key`, `key_env` of the route's own section | that route (`RouteStatement` has removed the key if another settings source specifies another route) |
 * | the key of a named endpoint | the endpoint's own address |
 * | a provider's environment variable (`ANTHROPIC_API_KEY`) | the provider's own hosts |
 * | the same variable, for another host | an address that the same source (the process, or `.env`) specifies for that provider |
 * | `OPENAI_API_KEY`, for `custom` | the address in `OPENAI_BASE_URL` from the same source |
 * | a login | the hosts of the provider, or the server that issued the login |
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

/** Source of environment variables: the process or `.env`. */
export type VariableLevel = Extract<Level, "environment" | "env-file">

/** Looks up a variable in the environment, then in `.env`. If `source` is given, only that source is searched. */
export type Lookup = (name: string, source?: VariableLevel) => Redacted.Redacted<string> | undefined

/** Placeholder sent if no key is needed, because the SDKs require one. */
export const noKey = Redacted.make("no-key-required")

/** Credential of a login, which is used instead of a key. */
interface Login {
  readonly key: Redacted.Redacted<string>
  /** Address of the service that issued the login. Defaults to the provider's service. */
  readonly issuer?: string | undefined
}

/** Describes a provider and address for which a key is resolved, and the keys that may be used. */
export interface Claim {
  readonly entry: Directory.Entry
  readonly keyVariables: ReadonlyArray<string>
  /** The source that specifies the address, if the provider's variables from this source may be sent there. */
  readonly pairedWith?: VariableLevel | undefined
  /** Key of a named endpoint, if the route uses the endpoint's own address. */
  readonly endpoint?:
    | {
        readonly apiKey?: Redacted.Redacted<string> | undefined
        readonly keyEnv?: string | undefined
        readonly label: string
      }
    | undefined
  /** True if the environment selected the provider or address, so that a key from another source does not apply. */
  readonly ofEnvironment?: boolean | undefined
}

/** Keys that the user configured for this route. */
export interface RouteCredentials {
  readonly apiKey?: Redacted.Redacted<string> | undefined
  /** Location in the settings where the user specified `apiKey`. */
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

/** Returns the source with the highest precedence that sets a variable, or `undefined` if it is not set. */
export const findSource = (lookup: Lookup, name: string): VariableLevel | undefined =>
  (["environment", "env-file"] as const).find((source) => isGiven(lookup(name, source)))

/** Returns the first of the variables that has a non-empty value. */
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

/** Joins words into a list: `A`, `A or B`, `A, B or C`. */
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

/**
 * Tests whether a login may be sent to an address, which must be a host of the provider or the server that issued the
 * login.
 */
export const mayLogIn = (
  entry: Directory.Entry,
  address: string | undefined,
  { issuer }: Pick<Login, "issuer">
): boolean =>
  issuer === undefined
    ? Directory.isOwn(entry, address)
    : EndpointAddress.readOrigin(issuer) !== undefined &&
      EndpointAddress.readOrigin(issuer) === EndpointAddress.readOrigin(address)

/** Finds the key that the settings name: by a variable, or in the endpoint of the route. */
const findNamedKey = ({ endpoint }: Claim, keyEnv: string | undefined, lookup: Lookup) =>
  findVariable(lookup, keyEnv === undefined ? [] : [keyEnv]) ??
  (isGiven(endpoint?.apiKey) ? { key: endpoint?.apiKey, from: `${endpoint?.label}.api_key` } : undefined) ??
  findVariable(lookup, endpoint?.keyEnv === undefined ? [] : [endpoint.keyEnv])

/** Finds the key of the provider: in its variables, in the paired ones, or of a login. */
const findProviderKey = (
  { entry, keyVariables, pairedWith }: Claim,
  address: string | undefined,
  login: Login | undefined,
  lookup: Lookup
) =>
  (Directory.isOwn(entry, address) ? findVariable(lookup, entry.keyVariables) : undefined) ??
  (pairedWith === undefined ? undefined : findVariable(lookup, keyVariables, pairedWith)) ??
  (login !== undefined && mayLogIn(entry, address, login) ? { key: login.key, from: "hermes model login" } : undefined)

/**
 * Resolves the key for an address. Returns no key if the address does not need one, and fails with an error that
 * explains how to add a missing key.
 */
export const resolveKey = (
  claim: Claim,
  address: string | undefined,
  given: RouteCredentials,
  lookup: Lookup
): KeyResult => {
  const { entry } = claim
  const {
    apiKey,
    apiKeyAt = "model.api_key",
    keyEnv,
    logins
  }: RouteCredentials = claim.ofEnvironment === true ? { logins: given.logins } : given
  if (isGiven(apiKey)) return Result.succeed({ key: apiKey, from: apiKeyAt })
  const explicit = findNamedKey(claim, keyEnv, lookup)
  if (explicit !== undefined) return Result.succeed(explicit)
  if (entry.authentication === "aws") return Result.succeed({ key: undefined, from: "credentials of the AWS SDK" })
  if (entry.authentication === "none") return Result.succeed({ key: undefined, from: "none" })
  if (keyEnv === undefined) {
    const login = logins?.get(entry.name)
    const found = findProviderKey(claim, address, login, lookup)
    if (found !== undefined) return Result.succeed(found)
    if (entry.authentication === "key")
      return failForMissingKey(
        claim,
        EndpointAddress.parseAddress(address).host,
        Directory.isOwn(entry, address) || (entry.login && login === undefined)
      )
  }
  return entry.authentication === "optional" || keyEnv === undefined
    ? Result.succeed({ key: noKey, from: "none" })
    : failWith(keyEnv, `no API key for ${entry.displayName}: set ${keyEnv}`)
}
