/**
 * Where a run asks its model. The router decides which provider is tried, and how often; each try is one attempt, which
 * the caller brings along, so that the whole attempt repeats for every retry and every fallback.
 *
 * **Example** (Which model is asked first)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { ModelRouter, Runtime } from "hermes-effect"
 *
 * const program = Effect.flatMap(ModelRouter.ModelRouter, ({ primary }) => primary)
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer()))).model)
 * // => offline
 * ```
 *
 * Source: `ARCHITECTURE.md` §4.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import type { Cost } from "../domain/Cost.ts"
import type { SessionId, TurnId } from "../domain/Ids.ts"
import type { ModelCall, ModelResponse } from "../domain/Model.ts"
import type * as Route from "../domain/Route.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type * as Usage from "../domain/Usage.ts"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import type { Limits } from "./Backoff.ts"
import * as Catalogue from "./Catalogue.ts"
import type { Facts } from "./classification/Evidence.ts"
import { Provider, type Service as ProviderService } from "../provider/Provider.ts"
import * as OpenRoute from "./OpenRoute.ts"
import type { Delivered } from "./PartialAnswer.ts"

/** Which try of a model call an attempt is. */
export interface Try {
  readonly provider: ProviderService
  /** 0 for the first try of this call, then counting up over retries and fallbacks. */
  readonly retryCount: number
  /** How many tries the call may have in all on this route. */
  readonly maxRetries: number
  /** Put around the execution with its wrappers: ends it when the provider has been silent for too long. */
  readonly within?:
    | (<A, E, R>(execution: Effect.Effect<A, E, R>) => Effect.Effect<A, E | AiError.AiError, R>)
    | undefined
  /** How large the call is, for those who have to judge its failure. */
  readonly facts?: (() => Facts) | undefined
  /** What an answer of the route's model costs, by its usage and by what the provider says of it. */
  readonly cost?: ((usage: Usage.Usage, reported?: number) => Cost) | undefined
}

/** The run that a call belongs to. A session that had to leave its route stays away from it for the rest of the turn. */
export interface Turn {
  readonly session: SessionId
  readonly turn: TurnId
}

/** What a router may know of a call besides its attempt. */
export interface About {
  /** A call without one starts at the primary route. */
  readonly turn?: Turn | undefined
  /** What is asked: how large it is tells one failure from another. */
  readonly call?: ModelCall | undefined
  /** Told of waits, of changes of the key or the route, and that a silent model is still waited for. */
  readonly notify?: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  /** When the time of its run is up, in milliseconds since 1970; absent where the run has no limit of time. */
  readonly deadline?: number | undefined
  /** Run before an attempt that follows one of which pieces had streamed by: they belong to no answer. */
  readonly discard?: Effect.Effect<void> | undefined
  /** What was read of the answer so far; absent where nobody reads it before it is whole. */
  readonly delivered?: Delivered | undefined
}

/** See the module. */
export interface Service {
  /** The route that a call would take first. */
  readonly primary: Effect.Effect<Route.RouteInfo>
  /** The same with its key, for middleware that derives other routes from it; absent where the router does not know it. */
  readonly primaryRoute?: Effect.Effect<Route.Route> | undefined
  /** The route that the next call of a turn would take first; the primary one where it is absent. */
  readonly current?: ((turn: Turn) => Effect.Effect<Catalogue.Asked>) | undefined
  /** What it knows of models, and learns of them; absent where it knows nothing. */
  readonly catalogue?: Catalogue.Service | undefined
  /**
   * Runs the attempt until one succeeds or the policy gives up; fails with the last failure. Failures that are not
   * `AiError`s are the attempt's own (a veto, a translation of middleware) and end the call at once. `route` is taken
   * instead of the router's choice.
   */
  readonly call: <E, R>(
    attempt: (at: Try) => Effect.Effect<ModelResponse, AiError.AiError | E, R>,
    route?: Route.Route,
    about?: About
  ) => Effect.Effect<ModelAnswer, AiError.AiError | E, R>
  /**
   * Leaves the route that a turn is on for the next one, because its answers are no use (they are empty). The route that
   * the turn's next call takes, or undefined when there is no other.
   */
  readonly advance: (turn: Turn, why: string) => Effect.Effect<Route.RouteInfo | undefined>
}

/** How often a failing provider is asked again, and after which waits. */
export interface Retry {
  /** Attempts on one route that failures may cost; 3 when absent. Refusals for the rate cost none while the run has time. */
  readonly maxAttempts?: number | undefined
  /** Five seconds, doubled with each failure up to two minutes, when absent. */
  readonly backoff?: Limits | undefined
}

/** Routes calls to providers; see the module. */
export class ModelRouter extends Context.Service<ModelRouter, Service>()("hermes-effect/routing/ModelRouter") {
  /**
   * Asks the one provider of the surroundings, with the retries, waits and adaptations of `RoutedModelRouter`. A route that a
   * call names instead is opened, and stays open.
   */
  static readonly layer: Layer.Layer<ModelRouter, never, Provider> = ModelRouter.layerWith()

  /** {@link layer} with retries of the application's own. */
  static layerWith(retry: Retry = {}): Layer.Layer<ModelRouter, never, Provider> {
    return Layer.unwrap(Effect.gen(function*() {
      const provider = yield* Provider
      const catalogue = Option.getOrUndefined(yield* Effect.serviceOption(Catalogue.Catalogue))
      const { layer } = yield* Effect.promise(() => import("./RoutedModelRouter.ts"))
      return layer({ ...retry, chain: [{ route: provider.info, provider }], open: OpenRoute.open, catalogue })
    }))
  }
}
