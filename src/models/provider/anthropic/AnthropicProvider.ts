/** Provider of the protocol `anthropic_messages`. `AnthropicMessages` loads this module with the first route. */
import type { Anthropic } from "@anthropic-ai/sdk"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import { ConfigError } from "../../../base/domain/AgentError.ts"
import type * as Route from "../../../base/domain/Route.ts"
import { registerSecrets } from "../../../base/domain/Secrets.ts"
import { rethrowImport } from "../../../base/platform/OptionalPackage.ts"
import { withoutVariables } from "../../../base/platform/ProcessVariables.ts"
import * as Decode from "./Decode.ts"
import * as Endpoint from "./Endpoint.ts"
import * as Request from "./Request.ts"
import * as Stream from "./Stream.ts"
import * as Exchange from "../Exchange.ts"
import type * as ProviderPort from "../Provider.ts"
import * as SdkSetup from "../SdkSetup.ts"

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
