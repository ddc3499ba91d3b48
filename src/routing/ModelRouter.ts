/**
 * Where a run asks its model. The router decides which provider is tried, and how often; each try is one attempt, which
 * the caller brings along, so that the whole attempt repeats for every retry and every fallback.
 *
 * Source: `ARCHITECTURE.md` §4.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import type { ModelResponse } from "../domain/Model.ts"
import type * as Route from "../domain/Route.ts"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import { Provider, type Service as ProviderService } from "../provider/Provider.ts"

/** Which try of a model call an attempt is. */
export interface Try {
  readonly provider: ProviderService
  /** 0 for the first try of this call, then counting up over retries and fallbacks. */
  readonly retryCount: number
  /** How many tries the call may have in all on this route. */
  readonly maxRetries: number
}

/** See the module. */
export interface Service {
  /** The route that a call would take first. */
  readonly primary: Effect.Effect<Route.RouteInfo>
  /**
   * Runs the attempt until one succeeds or the policy gives up; fails with the last failure. Failures that are not
   * `AiError`s are the attempt's own (a veto, a translation of middleware) and end the call at once. `route` is taken
   * instead of the router's choice.
   */
  readonly call: <E, R>(
    attempt: (at: Try) => Effect.Effect<ModelResponse, AiError.AiError | E, R>,
    route?: Route.Route
  ) => Effect.Effect<ModelAnswer, AiError.AiError | E, R>
}

const cannotOpen = (route: Route.Route): AiError.AiError =>
  AiError.make({
    module: "ModelRouter",
    method: "call",
    reason: new AiError.InvalidRequestError({
      description: `this runtime has one provider and can not open a route to ${route.provider} (${route.model})`
    })
  })

/** See the module. */
export class ModelRouter extends Context.Service<ModelRouter, Service>()("hermes-effect/routing/ModelRouter") {
  /** Always the one provider, tried once. A call that names a route of its own needs a router that can open it. */
  static readonly layer: Layer.Layer<ModelRouter, never, Provider> = Layer.effect(
    ModelRouter,
    Effect.map(Provider, (provider) => {
      const info = provider.info
      const at: Try = { provider, retryCount: 0, maxRetries: 0 }
      return {
        primary: Effect.succeed(info),
        call: (attempt, route) =>
          route === undefined
            ? Effect.map(attempt(at), (response) => ({ response, route: info, attempt: 0 }))
            : Effect.fail(cannotOpen(route))
      }
    })
  )
}
