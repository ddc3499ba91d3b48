/**
 * The Messages API of Anthropic, and everybody who speaks it, through the official SDK.
 *
 * **Details**
 *
 * The SDK is loaded when the provider is made. It retries nothing, logs nothing, traces nothing, and takes nothing from
 * the environment: key, address, headers and query are the route's. A streamed request gives each network read's parts
 * to `onPart` in one step; interruption closes the connection. What `onPart` gives back is what the answer is made of,
 * while `raw` holds what was sent; it is put together on first use.
 *
 * A request that takes longer than the route's timeout (15 minutes when absent, `hermes-llm.md` §4.2) to begin its answer
 * fails.
 *
 * **Gotchas**
 *
 * Claude on Bedrock speaks `bedrock_converse` here; a route of provider `bedrock` in this mode is refused.
 *
 * Source: `hermes-llm.md` §4.2, `ARCHITECTURE.md` §5.
 *
 * @since 0.1.0
 */
import type { Anthropic } from "@anthropic-ai/sdk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import { ConfigError } from "../domain/AgentError.ts"
import * as Assembler from "../domain/Assembler.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../domain/Model.ts"
import * as Route from "../domain/Route.ts"
import * as Decode from "./anthropic/Decode.ts"
import * as Endpoint from "./anthropic/Endpoint.ts"
import * as Request from "./anthropic/Request.ts"
import * as Stream from "./anthropic/Stream.ts"
import * as Subscription from "./anthropic/Subscription.ts"
import * as Extras from "./Extras.ts"
import * as LeanFetch from "./internal/LeanFetch.ts"
import * as SseReader from "./internal/SseReader.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"
import * as SdkError from "./SdkError.ts"

const path = "/v1/messages"
const defaultTimeoutMillis = 900_000
/** The SDK insists on a key and would look for one in the environment and on disk; the real one is in our headers. */
const noKey = "unused"

const asIs = (name: string): string => name

const makeClient = (
  sdk: typeof import("@anthropic-ai/sdk"),
  route: Route.Route,
  endpoint: Endpoint.Endpoint,
  fetch: LeanFetch.LeanFetch
): Anthropic => {
  const headers = Endpoint.headers(route, endpoint)
  const client = new sdk.Anthropic({
    apiKey: noKey,
    webhookKey: null,
    baseURL: endpoint.baseUrl,
    defaultHeaders: headers,
    defaultQuery: { ...route.query },
    timeout: route.requestTimeoutMillis ?? defaultTimeoutMillis,
    maxRetries: 0,
    logLevel: "off",
    openTelemetry: false,
    fetch
  })
  // No option turns ANTHROPIC_CUSTOM_HEADERS off, and they would go to whatever host the route names. The SDK keeps the
  // headers that it made of both in a member that its types hide.
  Reflect.set(Reflect.get(client, "_options"), "defaultHeaders", headers)
  return client
}

/** A provider of one route. The scope closes its connections. */
export const make = Effect.fn("AnthropicMessages.make")(function*(
  route: Route.Route
): Effect.fn.Return<ProviderPort.Service, AiError.AiError | ConfigError, Scope.Scope> {
  if (route.provider.trim().toLowerCase() === "bedrock") {
    return yield* new ConfigError({
      path: "model.api_mode",
      message: "provider bedrock speaks bedrock_converse: set model.api_mode to bedrock_converse or leave it out"
    })
  }
  const endpoint = Endpoint.of(route)
  const fetch = yield* Effect.acquireRelease(
    Effect.sync(LeanFetch.make),
    (fetch) => Effect.sync(() => fetch.close())
  )
  const sdk = yield* Effect.promise(() => import("@anthropic-ai/sdk"))
  const client = makeClient(sdk, route, endpoint, fetch)
  const subscribed = endpoint.auth === "subscription"
  const fromWire = subscribed ? Subscription.fromWire : asIs
  const toWire = subscribed ? Subscription.toWire : asIs
  const context = (method: string): SdkError.Context => ({
    module: "AnthropicMessages",
    method,
    url: endpoint.baseUrl,
    model: endpoint.model
  })

  const ask = <A>(evaluate: () => PromiseLike<A>): Effect.Effect<A, AiError.AiError> =>
    Effect.tryPromise({
      try: evaluate,
      catch: (error) => SdkError.fromSdk({ ...context("execute"), error })
    })

  const refuse = (method: string, refused: Decode.Refused): AiError.AiError =>
    refused.type === "error"
      ? SdkError.fromBody({ ...context(method), body: refused.body })
      : SdkError.invalidResponse({ ...context(method), description: refused.description, body: refused.body })

  const read = (method: string, raw: unknown): Effect.Effect<ModelResponse, AiError.AiError> => {
    const decoded = Decode.decode(raw, fromWire)
    return decoded.type === "answer" ? Effect.succeed(decoded.response) : Effect.fail(refuse(method, decoded))
  }

  const cut = (): AiError.AiError =>
    SdkError.fromSdk({
      ...context("execute"),
      error: Object.assign(new Error("the stream ended before the answer was complete"), { code: "ECONNRESET" })
    })

  const answerOf = (machine: Stream.Machine, sent: Assembler.Assembled, seen: Assembler.Assembled): ModelResponse => {
    const { parts, finishReason, usage, model, id } = seen
    let raw: unknown
    return {
      parts,
      finishReason,
      usage,
      model,
      id,
      get raw() {
        raw ??= Decode.encode({ parts: sent.parts, id: sent.id, model: sent.model, ...machine.ending() }, toWire)
        return raw
      }
    }
  }

  const streamed = Effect.fnUntraced(function*(
    send: () => PromiseLike<Response>,
    onPart: ExecuteOptions["onPart"]
  ) {
    const response = yield* ask(send)
    if (response.headers.get("content-type")?.includes("application/json") === true) {
      yield* read("execute", yield* ask(() => response.json()))
      return yield* SdkError.invalidResponse({
        ...context("execute"),
        description: "a streamed request was answered in one piece: turn streaming off for this endpoint"
      })
    }
    if (response.body === null) return yield* cut()
    const reader = SseReader.read(response.body)
    const machine = Stream.make(fromWire)
    const sent = Assembler.make()
    const seen = onPart === undefined ? sent : Assembler.make()
    while (!machine.finished()) {
      const next = yield* ask(() => reader.next())
      const parts = next.done === true ? machine.end() : machine.step(next.value)
      if (parts.length > 0) {
        sent.add(parts)
        if (onPart !== undefined) seen.add(yield* onPart(parts))
      }
      const refused = machine.refused()
      if (refused !== undefined) return yield* refuse("execute", refused)
      if (next.done === true && !machine.finished()) return yield* cut()
    }
    yield* ask(() => reader.return())
    return answerOf(machine, sent.result(), seen.result())
  })

  const execute = (request: ModelRequest, options?: ExecuteOptions): Effect.Effect<ModelResponse, AiError.AiError> =>
    Effect.suspend(() => {
      const { body, headers, query } = Extras.split(request)
      const abort = new AbortController()
      const send = () => client.post<unknown>(path, { body, headers, query, signal: abort.signal })
      const answer = body["stream"] === true
        ? streamed(() => send().asResponse(), options?.onPart)
        : Effect.flatMap(ask(send), (raw) => read("execute", raw))
      return Effect.onError(answer, () => Effect.sync(() => abort.abort()))
    })

  const prepare = Request.make(route)
  return {
    info: Route.info(route),
    apiMode: "anthropic_messages",
    prepare: (call) => Effect.sync(() => prepare(call)),
    execute,
    decode: (raw) => read("decode", raw)
  }
})

/** What a provider of this mode is made from: a route without what the mode says already. */
export type Options = Omit<Route.Route, "apiMode" | "provider"> & {
  /** Name of who serves the API; `anthropic` when absent. */
  readonly provider?: string | undefined
}

/** {@link make} as the run's `Provider`. The key is an option; it is never looked for in the environment. */
export const layer = (options: Options): Layer.Layer<Provider, AiError.AiError | ConfigError> =>
  Layer.effect(Provider, make({ ...options, provider: options.provider ?? "anthropic", apiMode: "anthropic_messages" }))
