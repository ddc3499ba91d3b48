/**
 * Provider for OpenAI's Chat Completions API and compatible endpoints, through the official SDK.
 *
 * **Details**
 *
 * The form of a request depends on the endpoint (`chat/Endpoint`). The SDK is loaded when the provider is created. See
 * `OpenAiClient` for the SDK's configuration and `Exchange` for how answers are read.
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
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type * as Route from "../../base/domain/Route.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"

const service = Effect.promise(() => import("./chat/ChatProvider.ts"))

/** Creates the provider for a route. Its connections are closed when the scope closes. */
export const make = (
  route: Route.Route
): Effect.Effect<ProviderPort.Service, AiError.AiError | ConfigError, Scope.Scope> =>
  Effect.flatMap(service, ({ make }) => make(route))

/**
 * Options for a provider of this protocol. `provider` defaults to `custom` if a base URL is given, otherwise to
 * `openai`.
 */
export type Options = ProviderPort.RouteOptions

/** Provides the result of {@link make} as the run's `Provider`. */
export const layer = (options: Options): Layer.Layer<Provider, AiError.AiError | ConfigError> =>
  Layer.effect(
    Provider,
    Effect.flatMap(service, ({ makeFromOptions }) => makeFromOptions(options))
  )
