/**
 * Chat Completions of OpenAI, and everybody who speaks it, through the official SDK.
 *
 * **Details**
 *
 * The form of a request depends on the endpoint (`chat/Endpoint`). The SDK is loaded when the provider
 * is made; see `OpenAiClient` for what it may do, `Exchange` for how answers are read.
 *
 * **Example** (An agent on this protocol)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Redacted from "effect/Redacted"
 * import { ChatCompletions, Provider, Runtime } from "hermes-effect"
 *
 * const provider = ChatCompletions.layer({ model: "gpt-5.1", apiKey: Redacted.make("…") })
 * export const runtime = Runtime.layer({ provider })
 *
 * console.log((await Effect.runPromise(Effect.provide(Provider.Provider, provider))).apiMode)
 * // => chat_completions
 * ```
 *
 * Source: `hermes-llm.md` §4.1, `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import type { ConfigError } from "../domain/AgentError.ts"
import * as Route from "../domain/Route.ts"
import * as Decode from "./chat/Decode.ts"
import * as Request from "./chat/Request.ts"
import * as Stream from "./chat/Stream.ts"
import * as Exchange from "./Exchange.ts"
import * as OpenAiClient from "./OpenAiClient.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"
import type * as SdkError from "./SdkError.ts"

const path = "/chat/completions"

/** A provider of one route. The scope closes its connections. */
export const make = Effect.fn("ChatCompletions.make")(function*(
  route: Route.Route
): Effect.fn.Return<ProviderPort.Service, AiError.AiError | ConfigError, Scope.Scope> {
  const client = yield* OpenAiClient.make(route)
  const context = (method: string): SdkError.Context => ({
    module: "ChatCompletions",
    method,
    url: client.baseUrl,
    model: route.model
  })
  const executing = context("execute")
  const api: Exchange.Api = {
    context: executing,
    send: (extras, signal) => client.post(path, extras, signal).withResponse(),
    open: (extras, signal) => client.post(path, extras, signal).asResponse(),
    decode: (raw) => Decode.decode(raw, executing),
    machine: () => Stream.make(executing)
  }
  return {
    info: Route.info(route),
    apiMode: "chat_completions",
    prepare: (call) => Effect.sync(() => Request.prepare(call, route)),
    execute: (request, options) => Exchange.execute(api, request, options),
    decode: (raw) => Effect.fromResult(Decode.decode(raw, context("decode")))
  }
})

/** Options of a provider of this mode: a route without the fields that the mode fixes. */
export type Options = Omit<Route.Route, "apiMode" | "provider"> & {
  /** Name of the provider that serves the API; `openai` when neither it nor an address is given, else `custom`. */
  readonly provider?: string | undefined
}

/** {@link make} as the run's `Provider`. */
export const layer = (options: Options): Layer.Layer<Provider, AiError.AiError | ConfigError> =>
  Layer.effect(
    Provider,
    make({
      ...options,
      provider: options.provider ?? (options.baseUrl === undefined ? "openai" : "custom"),
      apiMode: "chat_completions"
    })
  )
