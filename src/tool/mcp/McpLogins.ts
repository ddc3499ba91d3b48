/**
 * Logins at MCP servers that ask for OAuth: what was registered there and the tokens, by server. In memory, unless a runtime
 * brings the file of its home directory, which only its owner can read.
 *
 * Source: `hermes-product.md` §2.4 (oauth).
 */
import type { OAuthClientProvider } from "@modelcontextprotocol/client"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { Home } from "../../config/Environment.ts"
import { registered } from "../../domain/Secrets.ts"
import * as HomeFile from "../../routing/HomeFile.ts"
import * as OptionalPackage from "../../platform/OptionalPackage.ts"
import { McpError } from "./Connection.ts"
import * as SdkFailure from "./SdkFailure.ts"
import type { Http, ServerConfig } from "./ServerConfig.ts"

/** A login, as the client that made it wants it back. */
const Login = Schema.Struct({
  /** The server's address: another one is another server, whatever its name. */
  url: Schema.String,
  client: Schema.optionalKey(Schema.Unknown),
  tokens: Schema.optionalKey(Schema.Unknown)
})
/** See {@link Login}. */
type Login = typeof Login.Type

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

// OAuth at an MCP server, by the official client: its tokens are used and renewed while runs use the server, and a login gets
// the first ones from a user with a browser. The only place that knows that part of the client.
//
// **Details**
//
// A run never opens a browser: where a login is needed its connection fails, and says how to log in. A login registers this
// program at the server, unless the configuration names a client, with an address on this machine to come back to; who comes
// back must bring the state that was given out.
//
// Source: `hermes-product.md` §2.4 (oauth).

/** Address for the user, and the one that they come back to. */
interface Asking {
  readonly redirectUrl: string
  readonly state: string
  readonly open: (url: URL) => void
}

/** Address that a run comes back to: none that answers. */
const nowhere = "http://127.0.0.1/callback"

type Client = Awaited<ReturnType<OAuthClientProvider["clientInformation"]>>
type Tokens = Awaited<ReturnType<OAuthClientProvider["tokens"]>>

/** Makes the client's login provider. The promises are those of the client. */
const providerOf = (
  { name }: Pick<ServerConfig, "name">,
  { oauth = {}, url }: Pick<Http, "oauth" | "url">,
  logins: Service,
  asking: Asking | undefined
): OAuthClientProvider => {
  const { clientId, clientSecret, scope } = oauth
  const redirectUrl = asking?.redirectUrl ?? nowhere
  let verifier = ""
  // A login at another address is none at this one.
  const saved = Effect.map(logins.get(name), (login): Login => login?.url === url.href ? login : { url: url.href })
  const change = (part: Partial<Login>): Promise<void> =>
    Effect.runPromise(Effect.flatMap(saved, (login) => logins.set(name, { ...login, ...part })))
  return {
    redirectUrl,
    clientMetadata: {
      redirect_uris: [redirectUrl],
      client_name: "hermes",
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: clientSecret === undefined ? "none" : "client_secret_post",
      ...(scope === undefined ? {} : { scope })
    },
    ...(asking === undefined ? {} : { state: () => asking.state }),
    clientInformation: () =>
      clientId === undefined
        // The saved value is the one that the client gave.
        ? Effect.runPromise(Effect.map(saved, ({ client }) => client as Client))
        : { client_id: clientId, ...(clientSecret === undefined ? {} : { client_secret: Redacted.value(clientSecret) }) },
    ...(clientId === undefined ? { saveClientInformation: (client: unknown) => change({ client }) } : {}),
    // As above.
    tokens: () => Effect.runPromise(Effect.map(saved, ({ tokens }) => tokens as Tokens)),
    saveTokens: (tokens) => change({ tokens }),
    redirectToAuthorization: (url) => {
      if (asking === undefined) throw new Error(`login required: run \`hermes mcp login ${name}\``)
      asking.open(url)
    },
    saveCodeVerifier: (code) => {
      verifier = code
    },
    codeVerifier: () => verifier
  }
}

/** Uses and renews the tokens of a login that was made before. */
export const stored = (config: ServerConfig, http: Http): Effect.Effect<OAuthClientProvider> =>
  Effect.map(Logins, (logins) => providerOf(config, http, logins, undefined))

/** Surroundings of a login. */
interface Browser {
  /** Address that the user comes back to. */
  readonly redirectUrl: string
  /** Nobody can guess it. */
  readonly state: string
  /** Shows the page to the user. */
  readonly open: (url: URL) => void
  /** Parameters with which the user came back. */
  readonly returned: Effect.Effect<URLSearchParams>
}

const refused = (server: string, message: string) => new McpError({ server, reason: "unauthorized", message: `MCP server "${server}": ${message}` })

/** Logs a user in. What was known of an earlier login is forgotten first. */
export const login = Effect.fn("McpLogin.login")(function*(
  config: ServerConfig,
  http: Http,
  browser: Browser
): Effect.fn.Return<void, McpError> {
  const { name } = config
  const sdk = yield* Effect.mapError(
    OptionalPackage.load("logins at MCP servers need the package", ["@modelcontextprotocol/client"], () => import("@modelcontextprotocol/client").catch(OptionalPackage.absent)),
    ({ message }) => new McpError({ server: name, reason: "config", message })
  )
  const logins = yield* Logins
  yield* logins.set(name, undefined)
  const { state } = browser
  const provider = providerOf(config, http, logins, browser)
  const step = (more: { readonly authorizationCode?: string; readonly iss?: string }) =>
    Effect.tryPromise({
      try: () => sdk.auth(provider, { serverUrl: http.url, ...more }),
      catch: SdkFailure.of(name, "logging in")
    })
  if ((yield* step({})) === "AUTHORIZED") return
  const answer = yield* browser.returned
  const error = answer.get("error")
  if (error !== null) return yield* refused(name, `the login was refused (${answer.get("error_description") ?? error})`)
  if (answer.get("state") !== state) return yield* refused(name, "the login was completed for another request: try again")
  const code = answer.get("code")
  if (code === null) return yield* refused(name, "the login brought no code: try again")
  const iss = answer.get("iss")
  yield* step({ authorizationCode: code, ...(iss === null ? {} : { iss }) })
})
