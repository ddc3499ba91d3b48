/**
 * Logins at MCP servers that ask for OAuth: what was registered there and the tokens, by server. In memory, unless a runtime
 * brings the file of its home directory, which only its owner can read.
 *
 * Source: `hermes-product.md` §2.4 (oauth).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { Home } from "../../config/Home.ts"
import { registered } from "../../domain/Secrets.ts"
import * as HomeFile from "../../routing/HomeFile.ts"
import { McpError } from "./Connection.ts"

/** A login, as the client that made it wants it back. */
export const Login = Schema.Struct({
  /** The server's address: another one is another server, whatever its name. */
  url: Schema.String,
  client: Schema.optionalKey(Schema.Unknown),
  tokens: Schema.optionalKey(Schema.Unknown)
})
/** See {@link Login}. */
export type Login = typeof Login.Type

/** Logins at MCP servers that ask for OAuth. */
export interface Service {
  readonly get: (server: string) => Effect.Effect<Login | undefined, McpError>
  /** Keeps a login; undefined forgets it. */
  readonly set: (server: string, login: Login | undefined) => Effect.Effect<void, McpError>
}

/** Logins that are gone with the process. */
const memory = (): Service => {
  const logins = new Map<string, Login>()
  return {
    get: (server) => Effect.sync(() => logins.get(server)),
    set: (server, login) => Effect.sync(() => void (login === undefined ? logins.delete(server) : logins.set(server, login)))
  }
}

/** The name of the file in the home directory; no file tool reaches what is in that folder. */
const fileName = "mcp-tokens/logins.json"

const Saved = Schema.fromJsonString(
  Schema.Struct({ version: Schema.Literal(1), servers: Schema.Record(Schema.String, Login) })
)
type Servers = (typeof Saved.Type)["servers"]

/** Logins in a home directory; the file is read anew each time, as another process may have renewed a token. */
const file = (home: string): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const stored = yield* HomeFile.make(home, fileName)
    const changing = yield* Semaphore.make(1)
    const unusable = (server: string, what: string) => (cause: unknown) =>
      new McpError({
        server,
        reason: "config",
        message: `${stored.path}: cannot be ${what}: correct it, or remove it and log in again by \`hermes mcp login ${server}\``,
        cause
      })
    const read = (server: string): Effect.Effect<Servers, McpError> =>
      stored.read.pipe(
        Effect.flatMap((text) =>
          text === undefined ? Effect.succeed({ version: 1 as const, servers: {} }) : Schema.decodeEffect(Saved)(text)),
        Effect.mapBoth({ onFailure: unusable(server, "read"), onSuccess: ({ servers }) => servers })
      )
    return {
      get: (server) =>
        Effect.map(read(server), (servers) => Object.hasOwn(servers, server) ? servers[server] : undefined).pipe(Effect.tap(registered)),
      set: (server, login) =>
        Effect.andThen(registered(login), changing.withPermit(Effect.flatMap(read(server), ({ [server]: _, ...others }) => {
          const servers = login === undefined ? others : { ...others, [server]: login }
          return Schema.encodeEffect(Saved)({ version: 1, servers }).pipe(
            Effect.flatMap(stored.write),
            Effect.mapError(unusable(server, "written"))
          )
        })))
    }
  })

/** Logins at MCP servers that ask for OAuth. */
export const Logins = Context.Reference<Service>("hermes-effect/tool/mcp/Logins", { defaultValue: memory })

/** The logins of the home directory. */
export const layer: Layer.Layer<never, never, FileSystem.FileSystem | Home | Path.Path> = Layer.effect(
  Logins,
  Effect.flatMap(Home, ({ root }) => file(root))
)
