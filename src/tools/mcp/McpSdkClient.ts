/**
 * Connects MCP servers through the official client, which supports every revision of the protocol from 2024 to 2026.
 * Only this module uses the client. The only place that knows it.
 *
 * **Details**
 *
 * `effect/ai` `McpClient` accepts one revision for each kind of connection and does not forward notifications, so a
 * changed tool list would go unnoticed. Therefore the official client is used. It is loaded when the first server is
 * connected. It is loaded when the first server is connected.
 *
 * A program is first contacted with the 2025 revision, because some old programs crash on unknown requests, and with
 * the 2026 revision if it refuses. A server with an address is asked for its revision. If it refuses the current HTTP
 * transport, the 2024 transport is tried.
 *
 * **Example** (Using the tools of a server in an application)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Runtime } from "hermes-effect"
 * import { McpSdkClient, McpServers } from "hermes-effect/tools/mcp"
 *
 * const servers = McpServers.layer({}).pipe(
 *   Layer.provide(McpSdkClient.layer),
 *   Layer.provideMerge(Runtime.layer()),
 *   Layer.provide(NodeServices.layer)
 * )
 *
 * const program = Effect.flatMap(McpServers.McpServers, ({ status }) => status)
 *
 * console.log(await Effect.runPromise(Effect.provide(program, servers)))
 * // => []
 * ```
 *
 * Source: `hermes-product.md` §2.4.
 */
import type { Client, Transport, VersionNegotiationMode } from "@modelcontextprotocol/client"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Json from "../../base/domain/Json.ts"
import * as OptionalPackage from "../../base/platform/OptionalPackage.ts"
import * as Urls from "../fence/Urls.ts"
import { McpConnector, McpError } from "./McpConnection.ts"
import * as Questions from "./ServerRequests.ts"
import * as SdkFailure from "./SdkFailure.ts"
import type { Fetch } from "./ServerFetch.ts"
import * as ServerFetch from "./ServerFetch.ts"
import * as McpLogins from "./McpLogins.ts"
import type { Http, ServerConfig, Stdio } from "./ServerConfig.ts"
import * as StdioPipe from "./StdioPipe.ts"
import { makeConnection } from "./SdkConnection.ts"

const newline = 0x0a

const carriageReturn = 0x0d

/** Fails the body if more than `maxBytes` arrive in total or, with `perEvent`, without a blank line. */
const makeSizeLimit = (maxBytes: number, perEvent: boolean): TransformStream<Uint8Array, Uint8Array> => {
  let bytes = 0
  let lineIsEmpty = true
  return new TransformStream({
    transform: (chunk, controller) => {
      if (perEvent) {
        for (const byte of chunk) {
          bytes = byte === newline && lineIsEmpty ? 0 : bytes + 1
          if (byte !== carriageReturn) lineIsEmpty = byte === newline
        }
      } else {
        bytes += chunk.length
      }
      if (bytes > maxBytes) {
        controller.error(
          new Error(`the answer is larger than ${maxBytes / 1024 / 1024} MB and was not kept: request less`)
        )
      } else {
        controller.enqueue(chunk)
      }
    }
  })
}

/**
 * Returns a `fetch` with responses of limited size. In an event stream the limit applies to each event, because the
 * stream itself may last for days. In an event stream the bound applies to each event, because the stream itself may
 * last for days.
 */
export const makeBoundedFetch =
  (fetch: Fetch, maxBytes: number): Fetch =>
  async (url, init) => {
    const response = await fetch(url, init)
    if (response.body === null) return response
    const perEvent = response.headers.get("content-type")?.includes("text/event-stream") ?? false
    const { headers, status, statusText } = response
    return new Response(response.body.pipeThrough(makeSizeLimit(maxBytes, perEvent)), { headers, status, statusText })
  }

const traced = /"_meta":\{[^{}]*"traceparent":"/u

/**
 * Returns a `fetch` that also sends the trace context of a message in headers, so that proxies can attribute the
 * request.
 */
const makeTracedFetch =
  (fetch: Fetch): Fetch =>
  (url, init) => {
    const body = init?.body
    if (typeof body !== "string" || !traced.test(body)) return fetch(url, init)
    const message = Option.getOrUndefined(Json.parse(body))
    const meta =
      Predicate.hasProperty(message, "params") && Predicate.hasProperty(message.params, "_meta")
        ? message.params._meta
        : undefined
    const headers = new Headers(init?.headers)
    for (const name of ["traceparent", "tracestate"]) {
      const value = Predicate.hasProperty(meta, name) ? meta[name] : undefined
      if (typeof value === "string") headers.set(name, value)
    }
    return fetch(url, { ...init, headers })
  }

type Sdk = typeof import("@modelcontextprotocol/client")

const loadSdk = (server: string): Effect.Effect<Sdk, McpError> =>
  Effect.mapError(
    OptionalPackage.load("MCP servers need the package", ["@modelcontextprotocol/client"], () =>
      import("@modelcontextprotocol/client").catch(OptionalPackage.rethrowImport)
    ),
    ({ message }) => new McpError({ server, reason: "config", message })
  )

/** The newest revision, requested from programs that refuse the earlier revisions. */
const newest = "2026-07-28"

const revealHeaders = (values: Http["headers"]): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Redacted.value(value)]))

/** Creates a client transport from a pipe. */
const makeStdioTransport = Effect.fnUntraced(function* (
  server: string,
  stdio: Stdio,
  ended: Deferred.Deferred<McpError>
): Effect.fn.Return<Transport, McpError, ChildProcessSpawner | FileSystem.FileSystem | Scope.Scope> {
  const transport: Transport = {
    start: () => Promise.resolve(),
    close: () => {
      transport.onclose?.()
      return Promise.resolve()
    },
    send: (message) => {
      pipe.send(message)
      return Promise.resolve()
    }
  }
  const pipe = yield* StdioPipe.open(server, stdio, {
    // The client validates incoming messages.
    message: (message) => transport.onmessage?.(message as Parameters<NonNullable<Transport["onmessage"]>>[0]),
    closed: (error) => {
      Deferred.doneUnsafe(ended, Effect.succeed(error))
      transport.onclose?.()
    }
  })
  return transport
})

const makeHttpTransport = (sdk: Sdk, config: ServerConfig, http: Http, kind: "streamable" | "sse") =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const { headers, oauth, url } = http
      const isAdmitted = ServerFetch.makeHostTest(yield* Urls.UrlPolicy, yield* McpLogins.readLoginHosts(config, http))
      const within = ServerFetch.make(fetch, { server: config.name, url, isAdmitted })
      const options = {
        ...(oauth === undefined ? {} : { authProvider: yield* McpLogins.makeStoredProvider(sdk, config, http) }),
        requestInit: { headers: revealHeaders(headers) },
        fetch: makeTracedFetch(makeBoundedFetch(within, StdioPipe.maxMessageBytes))
      }
      return kind === "sse"
        ? new sdk.SSEClientTransport(url, options)
        : new sdk.StreamableHTTPClientTransport(url, options)
    }),
    (transport) =>
      "terminateSession" in transport && transport.sessionId !== undefined
        ? // The server forgets the session by itself if it is not told.
          Effect.ignore(
            Effect.timeout(
              Effect.tryPromise(() => transport.terminateSession()),
              "1 second"
            )
          )
        : Effect.void
  )

/** A method of connecting to a server: the transport, and the negotiation of the revision. */
interface Way {
  readonly mode: VersionNegotiationMode
  readonly transport: (
    ended: Deferred.Deferred<McpError>
  ) => Effect.Effect<Transport, McpError, ChildProcessSpawner | FileSystem.FileSystem | Scope.Scope>
}

/** Returns the methods of connecting to a server, each with the failure after which it is tried. */
const listWays = (sdk: Sdk, config: ServerConfig): readonly [Way, Way, (error: McpError) => boolean] => {
  const { name, transport } = config
  if (transport._tag === "Stdio") {
    const openStdio = (ended: Deferred.Deferred<McpError>) => makeStdioTransport(name, transport, ended)
    return [
      { mode: "legacy", transport: openStdio },
      { mode: { pin: newest }, transport: openStdio },
      ({ reason }) => reason === "refused"
    ]
  }
  return [
    { mode: "auto", transport: () => makeHttpTransport(sdk, config, transport, "streamable") },
    { mode: "legacy", transport: () => makeHttpTransport(sdk, config, transport, "sse") },
    ({ cause }) => [400, 404, 405, 406, 415].includes(SdkFailure.readStatus(cause) ?? 0)
  ]
}

/** Registers handlers for the server requests that the configuration allows. */
const registerAnswers = (
  { elicitation, sampling }: ServerConfig,
  client: Client,
  questions: Questions.Questions
): void => {
  if (elicitation) {
    client.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
      const url = "url" in params && typeof params.url === "string" ? params.url : undefined
      const requestedSchema = "requestedSchema" in params ? params.requestedSchema : undefined
      return { ...(await questions.elicit({ message: params.message, requestedSchema, url }, mcpReq.signal)) }
    })
  }
  if (sampling) {
    client.setRequestHandler("sampling/createMessage", async ({ params }, { mcpReq }) => ({
      role: "assistant",
      content: { type: "text", text: await questions.sample(params, mcpReq.signal) },
      model: "auxiliary",
      stopReason: "endTurn"
    }))
  }
}

const connectBy = Effect.fnUntraced(function* (sdk: Sdk, config: ServerConfig, way: Way) {
  const ended = yield* Deferred.make<McpError>()
  const changed = yield* Queue.sliding<void>(1)
  const transport = yield* way.transport(ended)
  const client = yield* Effect.acquireRelease(
    Effect.sync(
      () =>
        new sdk.Client(
          { name: "hermes", version: "0.1.0" },
          {
            capabilities: {
              ...(config.elicitation ? { elicitation: { form: {}, url: {} } } : {}),
              ...(config.sampling ? { sampling: {} } : {})
            },
            versionNegotiation: { mode: way.mode, probe: { timeoutMs: config.connectTimeoutMillis } },
            listChanged: {
              tools: {
                autoRefresh: false,
                debounceMs: 100,
                onChanged: () => void Queue.offerUnsafe(changed, undefined)
              }
            }
          }
        )
    ),
    // Failures to close an abandoned connection are ignored.
    (client) => Effect.ignore(Effect.tryPromise(() => client.close()))
  )
  const questions = Questions.make(config)
  registerAnswers(config, client, questions)
  yield* Effect.tryPromise({
    try: (signal) => client.connect(transport, { signal, timeout: config.connectTimeoutMillis }),
    catch: SdkFailure.toMcpError(config.name, "connecting")
  }).pipe(
    Effect.timeoutOrElse({
      duration: config.connectTimeoutMillis,
      orElse: () => Effect.fail(SdkFailure.makeTimeoutError(config.name, config.connectTimeoutMillis))
    }),
    // The exit of a program explains the failure; the error of its pending request does not.
    Effect.catch((error) =>
      Effect.flatMap(Deferred.poll(ended), (known) =>
        Option.match(known, { onNone: () => Effect.fail(error), onSome: Effect.flatMap(Effect.fail) })
      )
    )
  )
  // These handlers are set only now: the client closes a failed transport, and that close is not a separate reason.
  Object.assign(client, {
    onclose: () => Deferred.doneUnsafe(ended, Effect.succeed(SdkFailure.makeClosedError(config.name)))
  })
  return makeConnection({ config, client, questions }, ended, changed)
})

/** Tries one connection method in a separate scope, so that a failure releases its resources. */
const attemptWay = Effect.fnUntraced(function* (sdk: Sdk, config: ServerConfig, way: Way) {
  const scope = yield* Scope.fork(yield* Effect.scope, "sequential")
  return yield* connectBy(sdk, config, way).pipe(
    Scope.provide(scope),
    Effect.onExit((exit) => (Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void))
  )
})

/** Provides connections through the official client. */
export const layer: Layer.Layer<McpConnector, never, ChildProcessSpawner | FileSystem.FileSystem> = Layer.effect(
  McpConnector,
  Effect.map(Effect.context<ChildProcessSpawner | FileSystem.FileSystem>(), (context) => ({
    connect: Effect.fn("McpConnector.connect")(function* (config: ServerConfig) {
      const sdk = yield* loadSdk(config.name)
      const [first, second, isWorth] = listWays(sdk, config)
      return yield* attemptWay(sdk, config, first).pipe(
        Effect.catchIf(isWorth, () => attemptWay(sdk, config, second)),
        Effect.updateContext((input: Context.Context<Scope.Scope>) => Context.merge(context, input))
      )
    })
  }))
)
