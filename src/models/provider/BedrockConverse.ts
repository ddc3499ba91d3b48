/**
 * Provider for the Converse API of Amazon Bedrock, through the official SDK.
 *
 * **Details**
 *
 * The SDK is loaded when the provider is created. The SDK's own retries and logging are disabled. The request is the
 * input of the SDK's command, plus the additional key `stream`, which selects Converse or ConverseStream. `extra_body`
 * is merged into the request: fields that Converse knows replace the request's fields, all others are passed to the
 * underlying model (`additionalModelRequestFields`). `extra_headers` and `extra_query` are added before the request is
 * signed.
 *
 * All parts of a streamed answer that have arrived are passed to `onPart` together. Interruption closes the connection.
 * The answer consists of the parts that `onPart` returns; `raw` is the original body, assembled on first use. Bytes in
 * requests and bodies are `Uint8Array`, as in the SDK; `decode` also accepts base64.
 *
 * **Gotchas**
 *
 * Without an API key, the AWS credential chain is used: environment (`ProcessVariables`), profile, container, instance.
 * Outside of an EC2 instance, looking for instance credentials takes a few seconds.
 *
 * **Example** (An agent on this protocol)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { BedrockConverse, Provider, Runtime } from "hermes-effect"
 *
 * const provider = BedrockConverse.layer({ model: "us.anthropic.claude-sonnet-4-5-v1:0", region: "us-east-1" })
 * export const runtime = Runtime.layer({ provider })
 *
 * console.log((await Effect.runPromise(Effect.provide(Provider.Provider, provider))).apiMode)
 * // => bedrock_converse
 * ```
 *
 * Source: `hermes-llm.md` §4.4, `ARCHITECTURE.md` §5.
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

const service = Effect.promise(() => import("./bedrock/BedrockProvider.ts"))

/** Creates the provider for a route. Its connections are closed when the scope closes. */
export const make = (
  route: Route.Route
): Effect.Effect<ProviderPort.Service, AiError.AiError | ConfigError, Scope.Scope> =>
  Effect.flatMap(service, ({ make }) => make(route))

/** Options for a provider of this protocol. `provider` defaults to `bedrock`. */
export type Options = ProviderPort.RouteOptions

/** Provides the result of {@link make} as the run's `Provider`. */
export const layer = ({
  fetch,
  provider = "bedrock",
  ...options
}: Options): Layer.Layer<Provider, AiError.AiError | ConfigError> =>
  Layer.effect(Provider, provideFetch(fetch)(make({ ...options, provider, apiMode: "bedrock_converse" })))
