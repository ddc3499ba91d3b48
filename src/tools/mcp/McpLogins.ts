/**
 * Stores logins at MCP servers that use OAuth: registrations and tokens, by server. They are stored in memory, unless a
 * runtime provides the file of its home directory, which only its owner can read.
 *
 * Source: `hermes-product.md` §2.4 (oauth).
 */
import type { OAuthClientProvider, OAuthDiscoveryState } from "@modelcontextprotocol/client"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Record from "effect/Record"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { Home } from "../../base/config/Environment.ts"
import { registerSecrets } from "../../base/domain/Secrets.ts"
import * as HomeFile from "../../models/routing/HomeFile.ts"
import * as OptionalPackage from "../../base/platform/OptionalPackage.ts"
import { McpError, toOneLine } from "./McpConnection.ts"
import * as SdkFailure from "./SdkFailure.ts"
import type { Http, ServerConfig } from "./ServerConfig.ts"
import * as ServerFetch from "./ServerFetch.ts"

/** A login, in the form that the client uses. */
const Login = Schema.Struct({
  /** The server's address. A server with a different address is a different server, regardless of its name. */
  url: Schema.String,
  client: Schema.optionalKey(Schema.Unknown),
  tokens: Schema.optionalKey(Schema.Unknown),
  /** Scopes that the server requested while no user could grant them. The next login requests them too. */
  wanted: Schema.optionalKey(Schema.String),
  /** Hosts that took part in the interactive login. Tokens may be renewed at them. */
  hosts: Schema.optionalKey(Schema.Array(Schema.String))
})
/** See {@link Login}. */
type Login = typeof Login.Type

/** Logins at MCP servers that require OAuth. */
export interface Service {
  readonly get: (server: string) => Effect.Effect<Login | undefined, McpError>
  /** Stores a login; `undefined` deletes it. */
  readonly set: (server: string, login: Login | undefined) => Effect.Effect<void, McpError>
}

/** Creates logins in memory that exist until the process ends. */
const makeMemoryLogins = (): Service => {
  const logins = new Map<string, Login>()
  return {
    get: (server) => Effect.sync(() => logins.get(server)),
    set: (server, login) =>
      Effect.sync(() => void (login === undefined ? logins.delete(server) : logins.set(server, login)))
  }
}

/** Name of the file in the home directory. File tools cannot access its folder. */
const fileName = "mcp-tokens/logins.json"

const Saved = Schema.fromJsonString(
  Schema.Struct({ version: Schema.Literal(1), servers: Schema.Record(Schema.String, Login) })
)
type Servers = (typeof Saved.Type)["servers"]

/**
 * Creates logins stored in a home directory. The file is read again for each access, because another process may have
 * renewed a token.
 */
const makeFileLogins = (home: string): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const stored = yield* HomeFile.make(home, fileName)
    const changing = yield* Semaphore.make(1)
    const makeUnusableError = (server: string, what: string) => (cause: unknown) =>
      new McpError({
        server,
        reason: "config",
        message:
          `${stored.path}: cannot be ${what}: correct it, or remove it and log in again with \`hermes mcp login ` +
          `${server}\``,
        cause
      })
    const readServers = (server: string): Effect.Effect<Servers, McpError> =>
      stored.read.pipe(
        Effect.flatMap((text) =>
          text === undefined ? Effect.succeed({ version: 1 as const, servers: {} }) : Schema.decodeEffect(Saved)(text)
        ),
        Effect.mapBoth({ onFailure: makeUnusableError(server, "read"), onSuccess: ({ servers }) => servers })
      )
    return {
      get: (server) =>
        Effect.map(readServers(server), (servers) =>
          Object.hasOwn(servers, server) ? servers[server] : undefined
        ).pipe(Effect.tap(registerSecrets)),
      set: (server, login) =>
        Effect.andThen(
          registerSecrets(login),
          changing.withPermit(
            Effect.flatMap(readServers(server), ({ [server]: _, ...others }) => {
              const servers = login === undefined ? others : { ...others, [server]: login }
              return Schema.encodeEffect(Saved)({ version: 1, servers }).pipe(
                Effect.flatMap(stored.write),
                Effect.mapError(makeUnusableError(server, "written"))
              )
            })
          )
        )
    }
  })

/** Logins at MCP servers that require OAuth. */
export const Logins = Context.Reference<Service>("hermes-effect/tool/mcp/Logins", { defaultValue: makeMemoryLogins })

/** Provides the logins of the home directory. */
export const layer: Layer.Layer<never, never, FileSystem.FileSystem | Home | Path.Path> = Layer.effect(
  Logins,
  Effect.flatMap(Home, ({ root }) => makeFileLogins(root))
)

// OAuth at an MCP server, through the official client. Runs use and renew stored tokens; a login gets the first tokens
// from a user with a browser. Only this module uses the OAuth part of the client.
//
// **Details**
//
// A run never opens a browser: if a login is needed, the connection fails with instructions. A call that needs more
// scopes than the login has fails in the same way; the missing scopes are stored, and the next login requests them
// together with the earlier ones. A login first sends a request that the server refuses, and reads the scopes and
// metadata address from the refusal. The client is identified by `oauth.client_id`, by the document at
// `oauth.client_metadata_url` if the server supports it, or by dynamic registration. The redirect address is on this
// machine, and the redirect must contain the issued state. `oauth.grant: client_credentials` needs no user and
// therefore no login.
//
// Source: `hermes-product.md` §2.4 (oauth).

type Sdk = typeof import("@modelcontextprotocol/client")

/** Address that the user opens, and the redirect address. */
interface Asking {
  readonly redirectUrl: string
  readonly state: string
  readonly open: (url: URL) => void
}

/** Redirect address of a run. No server listens there. */
const nowhere = "http://127.0.0.1/callback"

type Client = Awaited<ReturnType<OAuthClientProvider["clientInformation"]>>
type Tokens = Awaited<ReturnType<OAuthClientProvider["tokens"]>>

const splitScope = (scope: string | undefined): ReadonlyArray<string> =>
  scope?.split(/\s+/).filter((word) => word !== "") ?? []

const readScope = (tokens: unknown): string | undefined =>
  Predicate.hasProperty(tokens, "scope") && typeof tokens.scope === "string" ? tokens.scope : undefined

/** Describes the steps for a request that the login does not cover. */
const describeRequiredLogin = (name: string, tokens: unknown, scope: string | undefined): string => {
  const had = new Set(splitScope(readScope(tokens)))
  const more = had.size === 0 ? [] : splitScope(scope).filter((word) => !had.has(word))
  return more.length === 0
    ? `login required: run \`hermes mcp login ${name}\``
    : `the server wants more rights (${toOneLine(more.join(" "))}): run \`hermes mcp login ${name}\` to give them`
}

/** Identity of this program at the server, in addition to its registration there. */
const buildClientIdentity = (
  sdk: Sdk,
  { clientId, clientMetadataUrl, clientSecret, privateKey, signingAlgorithm = "ES256" }: NonNullable<Http["oauth"]>
) => ({
  ...(clientMetadataUrl === undefined ? {} : { clientMetadataUrl }),
  ...(clientId === undefined || privateKey === undefined
    ? {}
    : {
        addClientAuthentication: sdk.createPrivateKeyJwtAuth({
          issuer: clientId,
          subject: clientId,
          privateKey: Redacted.value(privateKey),
          alg: signingAlgorithm
        })
      }),
  ...(clientId === undefined
    ? {}
    : {
        clientInformation: () => ({
          client_id: clientId,
          ...(clientSecret === undefined ? {} : { client_secret: Redacted.value(clientSecret) })
        })
      })
})

/** Stores the state of a login between its two requests. */
const makeDiscovery = (): Pick<OAuthClientProvider, "discoveryState" | "saveDiscoveryState"> => {
  let found: OAuthDiscoveryState | undefined
  return {
    discoveryState: () => found,
    saveDiscoveryState: (state) => {
      found = state
    }
  }
}

/** Creates the client's login provider. The client's interface requires promises. */
const makeProvider = (
  sdk: Sdk,
  { name }: Pick<ServerConfig, "name">,
  { oauth = {}, url }: Pick<Http, "oauth" | "url">,
  logins: Service,
  asking: Asking | undefined
): OAuthClientProvider => {
  const { clientId, clientSecret, grant, scope } = oauth
  const isAlone = grant === "client_credentials"
  const redirectUrl = asking?.redirectUrl ?? nowhere
  let verifier = ""
  let requested: string | undefined
  // A login for another address is not valid for this address.
  const saved = Effect.map(logins.get(name), (login): Login => (login?.url === url.href ? login : { url: url.href }))
  const changeLogin = (part: Partial<Login>): Promise<void> =>
    Effect.runPromise(Effect.flatMap(saved, (login) => logins.set(name, { ...login, ...part })))
  return {
    redirectUrl: isAlone ? undefined : redirectUrl,
    clientMetadata: {
      redirect_uris: isAlone ? [] : [redirectUrl],
      client_name: "hermes",
      grant_types: isAlone ? ["client_credentials"] : ["authorization_code", "refresh_token"],
      response_types: isAlone ? [] : ["code"],
      token_endpoint_auth_method: clientSecret === undefined ? "none" : "client_secret_post",
      ...(scope === undefined ? {} : { scope })
    },
    ...(asking === undefined ? {} : { state: () => asking.state, ...makeDiscovery() }),
    ...(clientId === undefined ? { saveClientInformation: (client: unknown) => changeLogin({ client }) } : {}),
    // The saved value comes from the client itself.
    clientInformation: () => Effect.runPromise(Effect.map(saved, ({ client }) => client as Client)),
    ...buildClientIdentity(sdk, oauth),
    // As above.
    tokens: () => Effect.runPromise(Effect.map(saved, ({ tokens }) => tokens as Tokens)),
    // Tokens without scopes have the requested scopes.
    saveTokens: (tokens) =>
      Effect.runPromise(
        Effect.flatMap(saved, (login) => {
          const granted = tokens.scope ?? requested ?? readScope(login.tokens)
          return logins.set(name, {
            ...login,
            tokens: { ...tokens, ...(granted === undefined ? {} : { scope: granted }) }
          })
        })
      ),
    redirectToAuthorization: async (page) => {
      requested = page.searchParams.get("scope") ?? undefined
      if (asking !== undefined) return asking.open(page)
      const { tokens } = await Effect.runPromise(saved)
      if (requested !== undefined) await changeLogin({ wanted: requested })
      throw new Error(describeRequiredLogin(name, tokens, requested))
    },
    ...(isAlone
      ? {
          prepareTokenRequest: (rights) =>
            new URLSearchParams({ grant_type: grant, ...(rights === undefined ? {} : { scope: rights }) })
        }
      : {}),
    saveCodeVerifier: (code) => {
      verifier = code
    },
    codeVerifier: () => verifier
  }
}

/** Uses and renews the tokens of an earlier login. */
export const makeStoredProvider = (sdk: Sdk, config: ServerConfig, http: Http): Effect.Effect<OAuthClientProvider> =>
  Effect.map(Logins, (logins) => makeProvider(sdk, config, http, logins, undefined))

/** Returns the hosts that took part in the stored login at a server. */
export const readLoginHosts = (
  { name }: Pick<ServerConfig, "name">,
  { url }: Pick<Http, "url">
): Effect.Effect<() => Promise<ReadonlyArray<string>>> =>
  Effect.map(
    Logins,
    ({ get }) =>
      () =>
        Effect.runPromise(Effect.map(get(name), (login) => (login?.url === url.href ? (login.hosts ?? []) : [])))
  )

/**
 * Reads the scopes and metadata address from the server's refusal. Returns an empty record if the server cannot be
 * reached; the default locations are used then.
 */
const fetchChallenge = (
  sdk: Sdk,
  { headers, url }: Http
): Effect.Effect<ReturnType<Sdk["extractWWWAuthenticateParams"]>> =>
  Effect.tryPromise(async (signal) => {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        ...Record.map(headers, Redacted.value),
        "content-type": "application/json",
        accept: "application/json, text/event-stream"
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }),
      redirect: "manual",
      signal
    })
    await response.body?.cancel()
    return response.status === 401 ? sdk.extractWWWAuthenticateParams(response) : {}
  }).pipe(
    Effect.timeout("10 seconds"),
    Effect.orElseSucceed(() => ({}))
  )

/** Browser and redirect address of a login. */
interface Browser {
  /** Address to which the browser is redirected. */
  readonly redirectUrl: string
  /** Unguessable value that the redirect must contain. */
  readonly state: string
  /** Shows the page to the user. */
  readonly open: (url: URL) => void
  /** Parameters of the redirect. */
  readonly returned: Effect.Effect<URLSearchParams>
}

const makeRefusal = (server: string, message: string) =>
  new McpError({ server, reason: "unauthorized", message: `MCP server "${server}": ${message}` })

/** Logs a user in. Data of an earlier login is deleted first. */
export const logIn = Effect.fn("McpLogin.login")(function* (
  config: ServerConfig,
  http: Http,
  browser: Browser
): Effect.fn.Return<void, McpError> {
  const { name } = config
  const sdk = yield* Effect.mapError(
    OptionalPackage.load("logins at MCP servers need the package", ["@modelcontextprotocol/client"], () =>
      import("@modelcontextprotocol/client").catch(OptionalPackage.rethrowImport)
    ),
    ({ message }) => new McpError({ server: name, reason: "config", message })
  )
  const logins = yield* Logins
  const before = yield* logins.get(name)
  yield* logins.set(name, undefined)
  const { state } = browser
  const provider = makeProvider(sdk, config, http, logins, browser)
  const { resourceMetadataUrl, scope: named } = yield* fetchChallenge(sdk, http)
  const scope = sdk.computeScopeUnion(
    http.oauth?.scope ?? named,
    before?.url === http.url.href ? before.wanted : undefined
  )
  const known = {
    serverUrl: http.url,
    ...(scope === undefined ? {} : { scope }),
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl })
  }
  const hosts = new Set<string>()
  // The user is present and sees the page that the login opens.
  const isAdmitted = (host: string): boolean => {
    hosts.add(host)
    return true
  }
  const fetchFn = ServerFetch.make(fetch, { server: name, url: http.url, isAdmitted })
  const keepHosts = Effect.flatMap(logins.get(name), (login) =>
    login === undefined || hosts.size === 0 ? Effect.void : logins.set(name, { ...login, hosts: [...hosts] })
  )
  const authorize = (more: { readonly authorizationCode?: string; readonly iss?: string }) =>
    Effect.tryPromise({
      try: () => sdk.auth(provider, { ...known, ...more, fetchFn }),
      catch: SdkFailure.toMcpError(name, "logging in")
    })
  if ((yield* authorize({})) === "AUTHORIZED") return yield* keepHosts
  const answer = yield* browser.returned
  // Every user and program of the machine can reach this address, so a result without the correct state is refused.
  if (answer.get("state") !== state)
    return yield* makeRefusal(name, "the login was completed for another request: try again")
  const error = answer.get("error")
  if (error !== null)
    return yield* makeRefusal(name, `the login was refused (${answer.get("error_description") ?? error})`)
  const code = answer.get("code")
  if (code === null) return yield* makeRefusal(name, "the login returned no code: try again")
  const iss = answer.get("iss")
  yield* authorize({ authorizationCode: code, ...(iss === null ? {} : { iss }) })
  yield* keepHosts
})
