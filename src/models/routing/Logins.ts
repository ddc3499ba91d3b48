/**
 * Loads credentials obtained by logins, which routes built from settings use instead of keys.
 *
 * **Details**
 *
 * A token that expires within five minutes is renewed first. If the renewal fails, the old token is used and a warning
 * is logged: the provider may still accept it, and otherwise the pool renews it or uses the next key.
 *
 * Source: `hermes-llm.md` §2.4, §16.5 (7), §17.2.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type * as CodexLogin from "./CodexLogin.ts"
import type { Credential } from "./CredentialPool.ts"
import * as TokenStore from "./TokenStore.ts"

/** Renewable credentials by provider. */
export type Logins = ReadonlyMap<string, Credential>

/** Empty map, for use without logins. */
export const none: Logins = new Map()

const store = Effect.flatMap(Home, ({ root }) => TokenStore.openFile(root))

/** Creates the login service for the user. Its modules are loaded on first use. */
export const makeCodexLogin = Effect.fnUntraced(function* ({
  providers
}: Pick<Values, "providers">): Effect.fn.Return<CodexLogin.Service, never, Home | FileSystem.FileSystem | Path.Path> {
  const [Codex, FetchHttpClient, HttpClient] = yield* Effect.promise(() =>
    Promise.all([import("./CodexLogin.ts"), import("effect/http/FetchHttpClient"), import("effect/http/HttpClient")])
  )
  const client = yield* Effect.provide(HttpClient.HttpClient, FetchHttpClient.layer)
  return Codex.make(
    yield* store,
    Codex.fromHttpClient(client),
    Codex.makeEndpoints(providers[TokenStore.codex]?.loginBaseUrl)
  )
})

/** Returns the stored tokens of the login, and an effect that removes them. */
export const kept = Effect.map(store, ({ get, remove }) => ({
  stored: get(TokenStore.codex),
  logout: remove(TokenStore.codex)
}))

/** Reads the stored logins without renewing them. */
export const look: Effect.Effect<Logins, ConfigError, Home | FileSystem.FileSystem | Path.Path> = Effect.map(
  Effect.flatMap(kept, ({ stored }) => stored),
  (tokens) =>
    tokens === undefined ? none : new Map([[TokenStore.codex, { key: tokens.access, issuer: tokens.issuer }]])
)

/** Loads the user's logins, and renews tokens that are about to expire. */
export const loadLogins = Effect.fnUntraced(function* (
  settings: Pick<Values, "providers">
): Effect.fn.Return<Logins, ConfigError, Home | FileSystem.FileSystem | Path.Path> {
  const stored = yield* Effect.flatMap(kept, ({ stored }) => stored)
  if (stored === undefined) return none
  const login = yield* makeCodexLogin(settings)
  const token = yield* Effect.catchTag(login.token, "LoginError", ({ message }) =>
    Effect.as(Effect.logWarning(message), stored.access)
  )
  return token === undefined
    ? none
    : new Map([[TokenStore.codex, { key: token, refresh: login.refresh, issuer: stored.issuer }]])
})
