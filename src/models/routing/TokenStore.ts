/**
 * Stores the tokens of logins in `auth.json` in the home directory. Only the owner can read this file.
 *
 * **Details**
 *
 * The file is replaced as a whole, so that it contains either the old or the new tokens after a crash. It is read again
 * for each use: another process may have renewed a token in the meantime, and use of the old token would invalidate the
 * login.
 *
 * **Gotchas**
 *
 * A file that cannot be parsed is an error and is not overwritten: it may contain a login that is still needed.
 *
 * **Example** (Testing whether the user is logged in)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import { TokenStore } from "hermes-effect/routing"
 *
 * const program = Effect.gen(function*() {
 *   const tokens = yield* TokenStore.openFile("home")
 *   return (yield* tokens.get("openai-codex")) !== undefined
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, NodeServices.layer)))
 * // => false
 * ```
 *
 * Source: `hermes-llm.md` §17.2.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { Home } from "../../base/config/Environment.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import { registerSecrets } from "../../base/domain/Secrets.ts"
import * as HomeFile from "./HomeFile.ts"

/** The tokens of one login. */
export interface Tokens {
  readonly access: Redacted.Redacted<string>
  readonly refresh: Redacted.Redacted<string>
  /** Time at which `access` expires, in milliseconds since 1970. */
  readonly expiresAt: number
  /**
   * Address of the service that issued the tokens. Defaults to the provider's service. The tokens are sent to no other
   * address.
   */
  readonly issuer?: string | undefined
}

/** Stores the tokens of logins. */
export interface Service {
  readonly get: (provider: string) => Effect.Effect<Tokens | undefined, ConfigError>
  readonly set: (provider: string, tokens: Tokens) => Effect.Effect<void, ConfigError>
  readonly remove: (provider: string) => Effect.Effect<void, ConfigError>
}

/** Name of the provider to which users can log in. */
export const codex = "openai-codex"

/** Name of the file in the home directory that stores tokens. */
export const fileName = "auth.json"

const Login = Schema.Struct({
  access_token: Schema.String,
  refresh_token: Schema.String,
  expires_at: Schema.Finite,
  issuer: Schema.optionalKey(Schema.String)
})
const Saved = Schema.fromJsonString(
  Schema.Struct({ version: Schema.Literal(1), logins: Schema.Record(Schema.String, Login) })
)
type Logins = (typeof Saved.Type)["logins"]

/** Opens the token store in a home directory. */
export const openFile = (home: string): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const stored = yield* HomeFile.make(home, fileName)
    const changing = yield* Semaphore.make(1)

    const makeFileError = (what: string) => (): ConfigError =>
      new ConfigError({
        path: stored.path,
        message: `${stored.path}: cannot be ${what}: correct it, or remove it and run \`hermes model login\``
      })

    const read: Effect.Effect<Logins, ConfigError> = stored.read.pipe(
      Effect.flatMap((text) =>
        text === undefined
          ? Effect.succeed({})
          : Effect.map(Schema.decodeUnknownEffect(Saved)(text), ({ logins }) => logins)
      ),
      // The content of the file must not appear in an error message.
      Effect.mapError(makeFileError("read"))
    )

    const changeLogins = (next: (logins: Logins) => Logins): Effect.Effect<void, ConfigError> =>
      changing.withPermit(
        Effect.flatMap(read, (logins) =>
          Schema.encodeEffect(Saved)({ version: 1, logins: next(logins) }).pipe(
            Effect.flatMap((text) => stored.write(`${text}\n`)),
            Effect.mapError(makeFileError("written"))
          )
        )
      )

    return {
      get: (provider) =>
        Effect.map(read, (logins) => {
          const login = Object.hasOwn(logins, provider) ? logins[provider] : undefined
          return login === undefined
            ? undefined
            : {
                access: Redacted.make(login.access_token),
                refresh: Redacted.make(login.refresh_token),
                expiresAt: login.expires_at,
                ...(login.issuer === undefined ? {} : { issuer: login.issuer })
              }
        }).pipe(Effect.tap(registerSecrets)),
      set: (provider, { access, expiresAt, issuer, refresh }) =>
        Effect.andThen(
          registerSecrets({ access, refresh }),
          changeLogins((logins) => ({
            ...logins,
            [provider]: {
              access_token: Redacted.value(access),
              refresh_token: Redacted.value(refresh),
              expires_at: expiresAt,
              ...(issuer === undefined ? {} : { issuer })
            }
          }))
        ),
      remove: (provider) =>
        changeLogins((logins) => Object.fromEntries(Object.entries(logins).filter(([name]) => name !== provider)))
    }
  })

/**
 * Service that stores the user's tokens.
 *
 * @see {@link Service} for its members.
 */
export class TokenStore extends Context.Service<TokenStore, Service>()("hermes-effect/routing/TokenStore") {}

/** Provides the token store of the home directory in the context. */
export const layer: Layer.Layer<TokenStore, never, Home | FileSystem.FileSystem | Path.Path> = Layer.effect(
  TokenStore,
  Effect.flatMap(Home, ({ root }) => openFile(root))
)
