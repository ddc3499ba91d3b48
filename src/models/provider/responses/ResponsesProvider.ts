/** Creates providers for the Responses protocol. They send their requests through the SDK's client. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import type { ConfigError } from "../../../base/domain/AgentError.ts"
import type * as Route from "../../../base/domain/Route.ts"
import * as Exchange from "../Exchange.ts"
import { provideFetch } from "../../../base/platform/ModelTransport.ts"
import * as OpenAiClient from "../OpenAiClient.ts"
import type * as ProviderPort from "../Provider.ts"
import * as Decode from "./Decode.ts"
import * as Endpoint from "./Endpoint.ts"
import * as Request from "./Request.ts"
import * as Stream from "./Stream.ts"

/** Creates the provider for a route. Its connections are closed when the scope closes. */
export const make = Effect.fn("CodexResponses.make")(function* (
  route: Route.Route
): Effect.fn.Return<ProviderPort.Service, AiError.AiError | ConfigError, Scope.Scope> {
  const client = yield* OpenAiClient.make({ ...route, headers: { ...Endpoint.makeHeaders(route), ...route.headers } })
  return Exchange.makeProvider(route, {
    module: "CodexResponses",
    apiMode: "codex_responses",
    url: client.baseUrl,
    model: route.model,
    timeoutMillis: client.timeoutMillis,
    prepare: (call) => Request.prepare(call, route),
    check: Request.findUnknownField,
    post: (extras, signal) => {
      if (!("compact" in extras.body)) return client.post("/responses", extras, signal)
      const { body, path } = Request.resolveRequestPath(extras.body)
      return client.post(path, { ...extras, body }, signal)
    },
    decode: Decode.decode,
    machine: Stream.make
  })
})

/** Creates the provider for the route that the options describe. */
export const makeFromOptions = (options: ProviderPort.RouteOptions) =>
  provideFetch(options.fetch)(make(OpenAiClient.makeRoute(options, "codex_responses")))
