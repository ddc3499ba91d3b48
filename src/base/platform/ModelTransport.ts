/**
 * The HTTP requests of model calls. In Node they are sent by `HttpTransport`, elsewhere by the global `fetch`. An
 * application replaces the transport by another `fetch` or by Effect's `HttpClient`: for a gateway with its own
 * TLS, to sign requests, or to intercept them in tests.
 *
 * **Details**
 *
 * Limits apply with every transport: time limits of requests and of silent streams, the size of an answer, and
 * redirects, which are followed to the same origin only. Requests of a closed provider are aborted.
 *
 * **Example** (Answers without a network)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, ChatCompletions, Runtime } from "hermes-effect"
 * import { ModelTransport } from "hermes-effect/agent"
 *
 * const answer = { choices: [{ index: 0, message: { role: "assistant", content: "canned" }, finish_reason: "stop" }] }
 * const transport = ModelTransport.layerFetch(async () => Response.json(answer))
 * const provider = ChatCompletions.layer({ model: "m", baseUrl: "http://models.test/v1" })
 * const runtime = Runtime.layer({ provider: Layer.provide(provider, transport) })
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Hello?" }), runtime))).text)
 * // => canned
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { HttpClient } from "effect/http/HttpClient"

/** A function like the global `fetch`. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

/** An answer that may know its whole text: `undefined` if the body has not arrived completely. */
export interface ReceivedAnswer extends Response {
  readonly arrivedText?: () => string | undefined
}

/** A `fetch` function with its own connections. */
export interface HttpTransport {
  /**
   * `answerMillis` is a time limit in milliseconds, counted from the call; no limit if absent. A 2xx answer has to
   * begin, and any other answer has to be complete, within this time.
   */
  (input: string | URL | Request, init?: RequestInit, answerMillis?: number): Promise<Response>
  /** Encodes headers once for use in many requests. The headers must not change afterwards. */
  readonly fixed: (headers: Headers) => Headers
  /** Closes all connections, including those in use. */
  readonly close: () => void
}

/** Time limits of a transport, in milliseconds. */
export interface Options {
  /** Maximum time between two bytes of an event stream; no limit if absent. */
  readonly readTimeoutMillis?: number | undefined
  /** Time limit for opening a connection, including TLS; defaults to 30,000. The global `fetch` has its own limit. */
  readonly connectTimeoutMillis?: number | undefined
}

/** Creates the transport of one client. Its connections are closed when the scope closes. */
export type Service = (options: Options) => Effect.Effect<HttpTransport, never, Scope.Scope>

const makeScoped = (open: () => Promise<HttpTransport>): Effect.Effect<HttpTransport, never, Scope.Scope> =>
  Effect.acquireRelease(Effect.promise(open), (transport) => Effect.sync(transport.close))

/** Creates transports that send with a function. */
const fromFetch =
  (fetch: Fetch): Service =>
  (options) =>
    makeScoped(async () => (await import("./FetchTransport.ts")).fromFetch(fetch, options))

/** Bun replaces undici by a stub that sends nothing; its `fetch` ends requests after five minutes unless told. */
const isBun = (): boolean => process.versions["bun"] !== undefined

/** Loads the function that creates transports of this place: of Node, or of the global `fetch`. */
export const loadForPlace = async (): Promise<(options: Options) => HttpTransport> => {
  if (process.versions.node !== "" && !isBun()) return (await import("./HttpTransport.ts")).loadTransport()
  const FetchTransport = await import("./FetchTransport.ts")
  const settings = isBun() ? { timeout: false } : {}
  return (options) =>
    FetchTransport.fromFetch((input, init) => globalThis.fetch(input, { ...init, ...settings }), options)
}

const makeForPlace: Service = (options) => makeScoped(async () => (await loadForPlace())(options))

/**
 * The transport of the providers that are made with it. A router reads lists of models through it if the application
 * replaced it.
 *
 * @see {@link layerFetch} and {@link layerHttpClient} to replace it.
 */
export const ModelTransport = Context.Reference<Service>("hermes-effect/platform/ModelTransport", {
  defaultValue: () => makeForPlace
})

/**
 * Creates a transport for other requests to the endpoints of models, such as their lists of models. Returns `undefined`
 * if the application did not replace the transport.
 */
export const makeReplaced: Effect.Effect<HttpTransport | undefined, never, Scope.Scope> = Effect.flatMap(
  ModelTransport,
  (make) => (make === makeForPlace ? Effect.undefined : make({}))
)

/** Sends the requests of model calls with a function. */
export const layerFetch = (fetch: Fetch): Layer.Layer<never> => Layer.succeed(ModelTransport, fromFetch(fetch))

/** Sends the requests of model calls with Effect's `HttpClient`. */
export const layerHttpClient: Layer.Layer<never, never, HttpClient> = Layer.effect(
  ModelTransport,
  Effect.flatMap(
    Effect.promise(() => import("./HttpClientFetch.ts")),
    ({ make }) => Effect.map(make, fromFetch)
  )
)

/** Creates a provider that sends with the given function, or with the transport of the context if it is `undefined`. */
export const provideFetch =
  (fetch: Fetch | undefined) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    fetch === undefined ? self : Effect.provideService(self, ModelTransport, fromFetch(fetch))
