/**
 * The service that a run asks its model through. It decides which provider is tried, with which key, and how often; the
 * whole attempt, middleware and hooks included, repeats for every retry and every fallback.
 *
 * **Details**
 *
 * A call goes straight down: `callModel` (wrappers of the whole call), the router with its chain of routes
 * (`Failover`), one route with its keys and waits (`RouteRetry`), one `Attempt`, the provider.
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
 */
import type * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type { SessionId, TurnId } from "../../base/domain/Ids.ts"
import type { ExecuteOptions, ModelCall } from "../../base/domain/ModelCall.ts"
import type * as Route from "../../base/domain/Route.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as Chain from "../../middleware/Chain.ts"
import type { Interceptors } from "./Interceptors.ts"
import type { CallContext, ModelAnswer, ModelCallParams } from "../../middleware/Middleware.ts"
import type { AnswerProgress } from "./AnswerProgress.ts"
import type { FallbackPolicy } from "./FallbackPolicy.ts"
import type { RetryPolicy } from "./RetryPolicy.ts"
import * as CallTokens from "./CallTokens.ts"
import * as Catalogue from "./CataloguePort.ts"
import type { Failure } from "./Classification.ts"
import type { ModelRoute } from "./EmbeddedRoutes.ts"
import { Provider } from "../provider/Provider.ts"
import type { Open } from "./OpenRoute.ts"
import * as StreamTimeout from "./StreamTimeout.ts"
import type { RouteInfo } from "../../base/domain/Route.ts"
import type { KeyState } from "./CredentialPool.ts"

/**
 * The run that a call belongs to. A session that had to leave its route stays away from it for the rest of the turn.
 */
export interface Turn {
  readonly session: SessionId
  readonly turn: TurnId
}

/** Attempts at a question, over all routes and over all times that it is asked; written by the router. */
export interface AttemptLog {
  /** Attempts so far: each has its own id even when a wrapper asks several routes. */
  count: number
  /** The route that was named last; undefined where that was the router's choice. */
  route: Route.Route | undefined
  /** Output limit in tokens of the newest prepared request; undefined if the request sets no limit. */
  outputTokens?: number | undefined
  /** The newest failure of a provider and its classification. */
  failure?: Failure | undefined
  /** Failures of a provider that a wrapper translated, with the cause that it put in their place. */
  readonly translations: Map<AiError.AiError, Cause.Cause<unknown>>
  /** Pieces of an attempt streamed by that belong to no answer, and `discard` has not run since. */
  isDirty?: boolean | undefined
}

/** A log without attempts. */
export const makeLog = (): AttemptLog => ({ count: 0, route: undefined, translations: new Map() })

/** A model call and its context. */
export interface Question {
  readonly call: ModelCall
  /** The route to take instead of the router's own choice. */
  readonly route?: Route.Route | undefined
  readonly context: CallContext
  /** The text or parts of the user's message, for hooks. */
  readonly userMessage: unknown
  readonly options: ExecuteOptions | undefined
  /** Set by a caller that may ask the same question again. */
  readonly log?: AttemptLog | undefined
  /** The turn whose position in the chain is preserved; a call without a turn starts at the primary route. */
  readonly turn?: Turn | undefined
  /** Receives waits, and changes of the key or the route. */
  readonly notify?: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  /**
   * Called every half minute while a silent model is awaited. If absent, a model without a silence limit is not
   * watched.
   */
  readonly heartbeat?: ((waitedMillis: number) => Effect.Effect<void>) | undefined
  /** End of the run's time in milliseconds since 1970; absent where the run has no limit of time. */
  readonly deadline?: number | undefined
  /** Runs before an attempt that follows one of which pieces had streamed by: they belong to no answer. */
  readonly discard?: Effect.Effect<void> | undefined
  /** Progress of the answer, with the part that was read so far; absent if the answer is read only when complete. */
  readonly progress?: AnswerProgress | undefined
}

/** A router. */
export interface Service {
  /** The route that a call would take first. */
  readonly primary: Effect.Effect<Route.RouteInfo>
  /**
   * The same with its key, for middleware that derives other routes from it; absent where the router does not know it.
   */
  readonly primaryRoute?: Effect.Effect<Route.Route> | undefined
  /** The route that the next call of a turn would try first; defaults to the primary route. */
  readonly current?: ((turn: Turn) => Effect.Effect<Catalogue.RouteIdentity>) | undefined
  /** Facts about models, known and learned; absent if the router has no catalogue. */
  readonly catalogue?: Catalogue.Service | undefined
  /**
   * Makes attempts until one succeeds or nothing is left to be tried; fails with the last failure. `E` is what the
   * stack's wrappers add (`Middleware.Errors`): such a failure (a veto, a translation) ends the call at once.
   */
  readonly call: <E = never>(
    interceptors: Interceptors,
    question: Question
  ) => Effect.Effect<ModelAnswer, AiError.AiError | E>
  /**
   * Leaves the route of a turn for the next one, because its answers are empty or the conversation does not fit into
   * its model. Returns the route of the turn's next call, or `undefined` if there is none or the fallback policy stays.
   */
  readonly advance: (
    turn: Turn,
    why: "context_overflow" | "empty_answers"
  ) => Effect.Effect<Route.RouteInfo | undefined>
}

/** Policies of a router. */
export interface Policies {
  /** Repeats failed calls on their route; `RetryPolicy.default` when absent. */
  readonly retry?: RetryPolicy | undefined
  /** Leaves routes and returns to the primary; `FallbackPolicy.default` when absent. */
  readonly fallback?: FallbackPolicy | undefined
}

/** Routes calls to providers. */
export class ModelRouter extends Context.Service<ModelRouter, Service>()("hermes-effect/routing/ModelRouter") {}

/** Opens a route that a call names; loads the implementation on demand. */
const openOnDemand: Open = (route) =>
  Effect.flatMap(
    Effect.promise(() => import("./OpenRoute.ts")),
    ({ open }) => open(route)
  )

/** {@link layer} with another retry policy. */
export const layerWith = ({ retry }: Pick<Policies, "retry"> = {}): Layer.Layer<ModelRouter, never, Provider> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const provider = yield* Provider
      const catalogue = Option.getOrUndefined(yield* Effect.serviceOption(Catalogue.Catalogue))
      const { layer } = yield* Effect.promise(() => import("./RoutedModelRouter.ts"))
      return layer({ retry, chain: [{ route: provider.info, provider }], open: openOnDemand, catalogue })
    })
  )

/**
 * Asks the one provider in the context, with the retries, waits and adaptations of `RoutedModelRouter`. A route that a
 * call names instead is opened, and stays open.
 */
export const layer: Layer.Layer<ModelRouter, never, Provider> = layerWith()

/** Asks the routes of an application, with keys and fallbacks; see `EmbeddedRoutes`. */
export const layerFromRoutes = (
  routes: ReadonlyArray<ModelRoute>,
  policies: Policies = {}
): Layer.Layer<ModelRouter, ConfigError> =>
  Layer.unwrap(
    Effect.map(
      Effect.promise(() => import("./EmbeddedRoutes.ts")),
      ({ layer }) => layer(routes, policies)
    )
  )

/** State of a route of the chain, as it may be shown. */
export interface RouteStatus {
  readonly route: RouteInfo
  readonly keys: ReadonlyArray<KeyState>
  readonly breaker: "Closed" | "Open" | "HalfOpen"
}

/** The state of a router's routes: for `hermes doctor`, `/status`, side tasks. */
export class RouterStatus extends Context.Service<
  RouterStatus,
  { readonly routes: Effect.Effect<ReadonlyArray<RouteStatus>> }
>()("hermes-effect/routing/RouterStatus") {}

const join = Chain.joinOnPart<ModelCallParams, ModelAnswer>({
  get: (answer) => answer.response,
  set: (answer, response) => ({ ...answer, response })
})

/**
 * Makes a whole model call: `wrap_model_call` around the router's attempts. `E` as in `Service.call`.
 */
export const callModel = <E>(
  router: Service,
  interceptors: Interceptors,
  question: Question
): Effect.Effect<ModelAnswer, AiError.AiError | E> => {
  const { context, discard, log = makeLog(), notify } = question
  const begun = log.count
  const turn = { session: context.sessionId, turn: context.turnId }
  const askRouter = ({ call, route }: ModelCallParams, options: ExecuteOptions | undefined) => {
    log.route = route
    const asked = router.call<E>(interceptors, { ...question, call, route, options, log, turn })
    return discard === undefined || log.count === begun ? asked : Effect.andThen(discard, asked)
  }
  const { stack } = interceptors
  const params: ModelCallParams = { call: question.call, route: question.route }
  if (stack.wrapModelCall.length === 0) return askRouter(params, question.options)
  const known = { ...context, notify, primary: router.primaryRoute ?? router.primary }
  // The chain erases the types of its wrappers; the stack's maker states them as `E`.
  const computeDeadline = (): number => StreamTimeout.wrapperMillis(() => CallTokens.estimateTokens(question.call))
  return Chain.run(
    stack.wrapModelCall,
    join,
    stack.faults,
    known,
    askRouter,
    computeDeadline
  )(params, question.options) as Effect.Effect<ModelAnswer, AiError.AiError | E>
}
