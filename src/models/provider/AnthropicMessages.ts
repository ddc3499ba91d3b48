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
import type { Anthropic } from "@anthropic-ai/sdk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type * as Route from "../../base/domain/Route.ts"
import { registerSecrets } from "../../base/domain/Secrets.ts"
import { provideFetch } from "../../base/platform/ModelTransport.ts"
import { rethrowImport } from "../../base/platform/OptionalPackage.ts"
import { withoutVariables } from "../../base/platform/ProcessVariables.ts"
import * as Decode from "./anthropic/Decode.ts"
import * as Endpoint from "./anthropic/Endpoint.ts"
import * as Request from "./anthropic/Request.ts"
import * as Stream from "./anthropic/Stream.ts"
import * as Exchange from "./Exchange.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"
import * as SdkSetup from "./SdkSetup.ts"

const defaultTimeoutMillis = 900_000
/**
 * The SDK requires a key and would search the environment and the disk for one. The real key is sent in the request
 * headers.
 */
const noKey = "unused"

const findMisconfiguration = (route: Route.Route, endpoint: Endpoint.Endpoint): ConfigError | undefined => {
  if (route.provider.trim().toLowerCase() === "bedrock") {
    return new ConfigError({
      path: "model.api_mode",
      message: "provider bedrock speaks bedrock_converse: set model.api_mode to bedrock_converse or leave it out"
    })
  }
  const headers = Endpoint.makeHeaders(route, endpoint)
  return endpoint.native && headers["x-api-key"] === null && headers["authorization"] === null
    ? new ConfigError({
        path: "ANTHROPIC_API_KEY",
        message: "Anthropic needs a key: set ANTHROPIC_API_KEY, or model.base_url for another endpoint"
      })
    : undefined
}

const makeClient = (
  sdk: typeof import("@anthropic-ai/sdk"),
  route: Route.Route,
  endpoint: Endpoint.Endpoint,
  fetch: typeof globalThis.fetch
): Anthropic =>
  withoutVariables(
    "ANTHROPIC_",
    [],
    () =>
      new sdk.Anthropic({
        apiKey: noKey,
        baseURL: endpoint.baseUrl,
        defaultHeaders: Endpoint.makeHeaders(route, endpoint),
        defaultQuery: { ...route.query },
        timeout: SdkSetup.computeTimeout(route, defaultTimeoutMillis),
        maxRetries: 0,
        logLevel: "off",
        openTelemetry: false,
        dangerouslyAllowBrowser: route.allowBrowser === true,
        fetch
      })
  )

/** Creates the provider for a route. Its connections are closed when the scope closes. */
export const make = Effect.fn("AnthropicMessages.make")(function* (
  route: Route.Route
): Effect.fn.Return<ProviderPort.Service, AiError.AiError | ConfigError, Scope.Scope> {
  yield* registerSecrets(route)
  const endpoint = Endpoint.fromRoute(route)
  const misconfigured = findMisconfiguration(route, endpoint)
  if (misconfigured !== undefined) return yield* misconfigured
  const [sdk, fetch] = yield* SdkSetup.loadSdk(route, "@anthropic-ai/sdk", () =>
    import("@anthropic-ai/sdk").catch(rethrowImport)
  )
  const client = makeClient(sdk, route, endpoint, fetch)
  const names = Endpoint.makeToolNames(endpoint)
  return Exchange.makeProvider(route, {
    module: "AnthropicMessages",
    apiMode: "anthropic_messages",
    url: endpoint.baseUrl,
    model: endpoint.model,
    timeoutMillis: client.timeout,
    prepare: Request.make(route),
    // `post` is used because the SDK's `messages.create` prints warnings about models and refuses long answers that are
    // not streamed.
    post: ({ body, headers, query }, signal) => client.post<unknown>("/v1/messages", { body, headers, query, signal }),
    decode: (raw, context) => Decode.decode(raw, context, names),
    machine: (context) => Stream.make(context, names)
  })
})

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
