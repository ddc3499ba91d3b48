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
import type * as Route from "../domain/Route.ts"
import * as Decode from "./chat/Decode.ts"
import * as Request from "./chat/Request.ts"
import * as Stream from "./chat/Stream.ts"
import * as Messages from "./chat/Messages.ts"
import * as Exchange from "./Exchange.ts"
import * as OpenAiClient from "./OpenAiClient.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"

/** A provider of one route. The scope closes its connections. */
export const make = Effect.fn("ChatCompletions.make")(function*(
  route: Route.Route
): Effect.fn.Return<ProviderPort.Service, AiError.AiError | ConfigError, Scope.Scope> {
  const client = yield* OpenAiClient.make(route)
  return Exchange.provider(route, {
    module: "ChatCompletions",
    apiMode: "chat_completions",
    url: client.baseUrl,
    model: route.model,
    timeoutMillis: client.timeoutMillis,
    prepare: (call) => Request.prepare(call, route),
    // Headers of the user's own may say what the body is: then the SDK writes it.
    post: (extras, signal) =>
      client.post("/chat/completions", extras.headers === undefined ? { ...extras, body: Messages.bodyText(extras.body) } : extras, signal),
    decode: Decode.decode,
    machine: Stream.make
  })
})

/** Options of a provider of this protocol. `provider` is `openai` when neither it nor an address is given, else `custom`. */
export type Options = ProviderPort.RouteOptions

/** {@link make} as the run's `Provider`. */
export const layer = (options: Options): Layer.Layer<Provider, AiError.AiError | ConfigError> =>
  Layer.effect(Provider, make(OpenAiClient.routeOf(options, "chat_completions")))
