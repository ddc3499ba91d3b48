/**
 * Provider for Anthropic's Messages API and compatible endpoints, through the official SDK.
 *
 * **Details**
 *
 * The SDK is loaded when the provider is created. The SDK does not retry, log, trace or read the environment. The key,
 * address, headers and query come from the route. A request fails if its answer does not begin within the route's
 * timeout (15 minutes by default, `hermes-llm.md` §4.2). See `Exchange` for how answers are read.
 *
 * **Gotchas**
 *
 * Claude on Bedrock uses `bedrock_converse`; a route with provider `bedrock` in this mode fails with a `ConfigError`.
 *
 * **Example** (An agent on this protocol)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Redacted from "effect/Redacted"
 * import { AnthropicMessages, Provider, Runtime } from "hermes-effect"
 *
 * const provider = AnthropicMessages.layer({ model: "claude-sonnet-4-5", apiKey: Redacted.make("…") })
 * export const runtime = Runtime.layer({ provider })
 *
 * console.log((await Effect.runPromise(Effect.provide(Provider.Provider, provider))).apiMode)
 * // => anthropic_messages
 * ```
 *
 * Source: `hermes-llm.md` §4.2, `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type * as Route from "../../base/domain/Route.ts"
import { provideFetch } from "../../base/platform/ModelTransport.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"

const service = Effect.promise(() => import("./anthropic/AnthropicProvider.ts"))

/** Creates the provider for a route. Its connections are closed when the scope closes. */
export const make = (
  route: Route.Route
): Effect.Effect<ProviderPort.Service, AiError.AiError | ConfigError, Scope.Scope> =>
  Effect.flatMap(service, ({ make }) => make(route))

/** Options for a provider of this protocol. `provider` defaults to `anthropic`. */
export type Options = ProviderPort.RouteOptions

/**
 * Provides the result of {@link make} as the run's `Provider`. The key is an option; it is never read from the
 * environment.
 */
export const layer = ({
  fetch,
  provider = "anthropic",
  ...options
}: Options): Layer.Layer<Provider, AiError.AiError | ConfigError> =>
  Layer.effect(Provider, provideFetch(fetch)(make({ ...options, provider, apiMode: "anthropic_messages" })))
