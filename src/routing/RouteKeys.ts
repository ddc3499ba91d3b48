/**
 * Which key a route gets. A key goes to whom it belongs to, and to nobody else.
 *
 * **Details**
 *
 * A key of the environment goes to its provider's own hosts and to local ones only. It follows an address elsewhere when
 * the same environment names that address (`OPENAI_BASE_URL`), and `OPENAI_API_KEY` serves the provider `custom` where
 * the user chose it by name. A key that the user gave for a route (`api_key`, `key_env`) is sent where the route points. What
 * a login gave stands in for a key that nobody gave, and goes where one of the environment would.
 *
 * Source: `hermes-llm.md` §2.3.
 *
 * @since 0.1.0
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { ConfigError } from "../domain/AgentError.ts"
import type { Route } from "../domain/Route.ts"
import * as Detection from "./Detection.ts"
import * as Directory from "./ProviderDirectory.ts"

/** A variable of the environment or of `.env`. */
export type Lookup = (name: string) => Redacted.Redacted<string> | undefined

/** Sent as the key where none is needed, because the SDKs insist on one. */
export const noKey = Redacted.make("no-key-required")

/** What says which keys a route may have. */
export interface Claim {
  readonly entry: Directory.Entry
  readonly keyVariables: ReadonlyArray<string>
  /** Whether the user paired `keyVariables` with the address, wherever it is. */
  readonly paired: boolean
  readonly apiKey?: Redacted.Redacted<string> | undefined
}

/** What the user gave for this very route. */
export interface Given {
  readonly apiKey?: Redacted.Redacted<string> | undefined
  readonly keyEnv?: string | undefined
  /** What logins gave, by provider. */
  readonly logins?: ReadonlyMap<string, Redacted.Redacted<string>> | undefined
}

type Resolved = Result.Result<Route["apiKey"], ConfigError>

const fail = (path: string, message: string): Resolved => Result.fail(new ConfigError({ path, message }))

/** The first of some variables that is set to something. */
export const firstSet = (lookup: Lookup, names: ReadonlyArray<string>): Redacted.Redacted<string> | undefined => {
  for (const name of names) {
    const value = lookup(name)
    if (value !== undefined && Redacted.value(value).trim() !== "") return value
  }
  return undefined
}

/** Words as a list: `A`, `A or B`, `A, B or C`. */
export const either = (words: ReadonlyArray<string>): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`

const missingKey = ({ entry, keyVariables }: Claim, host: string, trusted: boolean): Resolved => {
  const variables = either(keyVariables)
  const login = entry.login ? "run `hermes model login`, or " : ""
  return trusted
    ? fail(
      keyVariables[0] ?? "model.api_key",
      `no API key for ${entry.displayName}: ${login}set ${variables} (or model.api_key)`
    )
    : fail(
      "model.api_key",
      `no API key for ${host}: set model.api_key (${variables} goes to ${either(entry.domains)} only)`
    )
}

const isGiven = (key: Route["apiKey"]): boolean => key !== undefined && Redacted.value(key).trim() !== ""

/** The key for a host, none where none is needed, or what to do about a missing one. */
export const resolve = (claim: Claim, host: string, given: Given, lookup: Lookup): Resolved => {
  const { entry, keyVariables } = claim
  const { keyEnv } = given
  const named = keyEnv === undefined ? undefined : firstSet(lookup, [keyEnv])
  const explicit = [given.apiKey, named, claim.apiKey].find(isGiven)
  if (explicit !== undefined) return Result.succeed(explicit)
  if (entry.authentication === "aws" || entry.authentication === "none") return Result.succeed(undefined)
  if (keyEnv === undefined) {
    const trusted = claim.paired || Directory.owns(entry, host) || Detection.isLocal(host)
    const found = trusted ? firstSet(lookup, keyVariables) ?? given.logins?.get(entry.name) : undefined
    if (found !== undefined) return Result.succeed(found)
    if (entry.authentication === "key") return missingKey(claim, host, trusted)
  }
  return entry.authentication === "optional" || keyEnv === undefined
    ? Result.succeed(noKey)
    : fail(keyEnv, `no API key for ${entry.displayName}: set ${keyEnv}`)
}
