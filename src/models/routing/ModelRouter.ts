/**
 * The service that sends a run's model calls. It decides which provider is tried, with which key, and how often. The
 * whole attempt, including middleware and hooks, is repeated for every retry and fallback.
 *
 * **Details**
 *
 * A call passes through these layers: `callModel` (wrappers of the whole call), the router with its chain of routes
 * (`Failover`), one route with its keys and waits (`RouteRetry`), one `Attempt`, the provider.
 *
 * **Example** (Reading the model that is tried first)
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
import { type ConfigError, TenantRefused } from "../../base/domain/AgentError.ts"
import type { SessionId, TurnId } from "../../base/domain/Ids.ts"
import type { ExecuteOptions, ModelCall } from "../../base/domain/ModelCall.ts"
import type * as Route from "../../base/domain/Route.ts"
import { formatTenant } from "../../base/domain/Tenant.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as Chain from "../../middleware/Chain.ts"
import type { RunSpending } from "../../middleware/Kind.ts"
import * as Requesters from "../../middleware/Requesters.ts"
import * as ResultContract from "../../middleware/ResultContract.ts"
import type { Interceptors } from "./Interceptors.ts"
import type { CallContext, ModelAnswer, ModelCallParams } from "../../middleware/Middleware.ts"
import type { AnswerProgress } from "./AnswerProgress.ts"
import type { FallbackPolicy } from "./FallbackPolicy.ts"
import type { RetryPolicy } from "./RetryPolicy.ts"
import * as CallTokens from "./CallTokens.ts"
import * as Catalogue from "./CataloguePort.ts"
import type { Failure } from "./Classification.ts"
import type { Spending } from "./SpendingPort.ts"
import type { TenantRoutes } from "./TenantRoutes.ts"
import type { ModelRoute } from "./RouteChain.ts"
import { Provider } from "../provider/Provider.ts"
import type { Open } from "./OpenRoute.ts"
import * as StreamTimeout from "./StreamTimeout.ts"
import type { RouteInfo } from "../../base/domain/Route.ts"
import type { KeyState } from "./CredentialPool.ts"

/**
 * The turn to which a call belongs. A session that had to leave a route does not use it again for the rest of the turn.
 */
export interface Turn {
  readonly session: SessionId
  readonly turn: TurnId
}

/** Log of the attempts to answer a question, across all routes and repetitions. The router updates it. */
export interface AttemptLog {
  /** Number of attempts so far, so that each attempt has a unique id even if a wrapper calls several routes. */
  count: number
  /** The route that the last call specified; `undefined` if the router chose the route. */
  route: Route.Route | undefined
  /** Output limit of the latest prepared request, in tokens; `undefined` if the request sets no limit. */
  outputTokens?: number | undefined
  /** The latest failure of a provider, with its classification. */
  failure?: Failure | undefined
  /** Provider failures that a wrapper translated, with the cause that replaces each of them. */
  readonly translations: Map<AiError.AiError, Cause.Cause<unknown>>
  /** True if parts of a failed attempt were streamed and `discard` has not run since. */
  isDirty?: boolean | undefined
}

/** Creates a log without attempts. */
export const makeLog = (): AttemptLog => ({ count: 0, route: undefined, translations: new Map() })

/** A model call and its context. */
export interface Question {
  readonly call: ModelCall
  /** Route to use instead of the router's choice. */
  readonly route?: Route.Route | undefined
  readonly context: CallContext
  /** The text or parts of the user's message, for hooks. */
  readonly userMessage: unknown
  readonly options: ExecuteOptions | undefined
  /** Log of attempts, set by a caller that may repeat the same question. */
  readonly log?: AttemptLog | undefined
  /**
   * Turn to which the call belongs. The turn determines the position of the call in the chain. A call without a turn
   * starts at the primary route.
   */
  readonly turn?: Turn | undefined
  /** Receives events about waits, and about changes of the key or route. */
  readonly notify?: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  /**
   * Called every 30 seconds while a model sends nothing. Without this function, a model that has no silence limit is
   * not monitored.
   */
  readonly heartbeat?: ((waitedMillis: number) => Effect.Effect<void>) | undefined
  /** Deadline of the run in milliseconds since 1970; `undefined` if the run has no time limit. */
  readonly deadline?: number | undefined
  /** Runs before an attempt if parts of the previous, failed attempt were streamed; those parts must be discarded. */
  readonly discard?: Effect.Effect<void> | undefined
  /** Returns false once parts were passed on that cannot be withdrawn: a failed attempt then ends the call. */
  readonly canRepeat?: (() => boolean) | undefined
  /** Ledger that bounds the spending of the call; `undefined` if nothing bounds it. */
  readonly spending?: Spending | undefined
  /** Returns the usage and cost of the run so far; `undefined` outside of a run. */
  readonly getSpending?: (() => RunSpending) | undefined
  /** Progress of the answer, with the text received so far; `undefined` if the answer is read only when complete. */
  readonly progress?: AnswerProgress | undefined
}

/** Routes the model calls of runs. */
export interface Service {
  /** The route that a call would try first. */
  readonly primary: Effect.Effect<Route.RouteInfo>
  /**
   * The primary route with its key, for middleware that derives other routes from it; `undefined` if the router does
   * not know it.
   */
  readonly primaryRoute?: Effect.Effect<Route.Route> | undefined
  /** Returns the route that the next call of a turn would try first. Defaults to the primary route. */
  readonly current?: ((turn: Turn) => Effect.Effect<Catalogue.RouteIdentity>) | undefined
  /** Catalogue of facts about models; `undefined` if the router has no catalogue. */
  readonly catalogue?: Catalogue.Service | undefined
  /**
   * Makes attempts until one succeeds or all possibilities have been tried; fails with the last failure. `E` contains
   * the errors that the stack's wrappers add (`Middleware.Errors`); such a failure (a veto, a translation) ends the
   * call immediately.
   */
  readonly call: <E = never>(
    interceptors: Interceptors,
    question: Question
  ) => Effect.Effect<ModelAnswer, AiError.AiError | E>
  /**
   * Moves a turn from its route to the next one, because its answers are empty or the conversation does not fit into
   * its model. Returns the route of the turn's next call, or `undefined` if the turn stays on its route.
   */
  readonly advance: (
    turn: Turn,
    why: "context_overflow" | "empty_answers"
  ) => Effect.Effect<Route.RouteInfo | undefined>
  /** Decides when a turn leaves a route whose answers are empty. Defaults to `leave`. */
  readonly emptyAnswers?: FallbackPolicy["emptyAnswers"] | undefined
  /**
   * Uses the router of a tenant's own routes and keys. If absent, calls of tenants with such routes are refused, so
   * that they never use the keys of the runtime.
   */
  readonly forTenant?:
    | (<A, E, R>(
        routes: TenantRoutes,
        use: (router: Service) => Effect.Effect<A, E, R>
      ) => Effect.Effect<A, E | TenantRefused, R>)
    | undefined
  /** Tests whether a call may specify a route. Absent if it may specify every route. */
  readonly mayCall?: ((route: Route.Route) => boolean) | undefined
}

/** Uses the router of a tenant's own routes, or refuses if the router cannot separate them. */
export const useTenantRouter = <A, E, R>(
  { forTenant }: Service,
  routes: TenantRoutes,
  use: (router: Service) => Effect.Effect<A, E, R>
): Effect.Effect<A, E | TenantRefused, R> =>
  forTenant === undefined
    ? Effect.fail(
        new TenantRefused({
          tenant: routes.tenant,
          reason: "route",
          message: `the model router of the runtime does not support the routes of tenant ${formatTenant(routes.tenant)}`
        })
      )
    : forTenant(routes, use)

/** Policies of a router. */
export interface Policies {
  /** Policy for retries on one route. Defaults to `RetryPolicy.default`. */
  readonly retry?: RetryPolicy | undefined
  /** Policy for changes between routes. Defaults to `FallbackPolicy.default`. */
  readonly fallback?: FallbackPolicy | undefined
}

/** Service that routes calls to providers. */
export class ModelRouter extends Context.Service<ModelRouter, Service>()("hermes-effect/routing/ModelRouter") {}

/** Opens a route that a call specifies. The implementation is loaded on demand. */
const openOnDemand: Open = (route) =>
  Effect.flatMap(
    Effect.promise(() => import("./OpenRoute.ts")),
    ({ open }) => open(route)
  )

/** Like {@link layer}, but with another retry policy. */
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
 * Provides a router that uses the single provider in the context, with the retries, waits and adaptations of
 * `RoutedModelRouter`. If a call specifies another route, that route is opened and stays open.
 */
export const layer: Layer.Layer<ModelRouter, never, Provider> = layerWith()

/** Provides a router for the routes of an application, with keys and fallbacks; see `EmbeddedRoutes`. */
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

/** State of a route in the chain, without secrets. */
export interface RouteStatus {
  readonly route: RouteInfo
  readonly keys: ReadonlyArray<KeyState>
  readonly breaker: "Closed" | "Open" | "HalfOpen"
}

/** Service that returns the state of a router's routes, for `hermes doctor`, `/status` and side tasks. */
export class RouterStatus extends Context.Service<
  RouterStatus,
  { readonly routes: Effect.Effect<ReadonlyArray<RouteStatus>> }
>()("hermes-effect/routing/RouterStatus") {}

/** The run to which a fiber belongs. Side tasks that the fiber requests pass the interceptors of the run. */
export interface CallingRunFacts {
  readonly interceptors: Interceptors
  readonly getSpending: () => RunSpending
}

/** The run to which a fiber belongs; `undefined` outside of a run. */
export const CallingRun = Context.Reference<CallingRunFacts | undefined>("hermes-effect/routing/CallingRun", {
  defaultValue: () => undefined
})

const modelCalls = {
  join: Chain.joinOnPart<ModelCallParams, ModelAnswer>({
    get: (answer) => answer.response,
    set: (answer, response) => ({ ...answer, response })
  }),
  contract: ResultContract.answer
}

/** Runs the `wrap_model_call` wrappers around the attempts of a router. */
const callThroughWrappers = <E>(
  router: Service,
  interceptors: Interceptors,
  question: Question
): Effect.Effect<ModelAnswer, AiError.AiError | E> => {
  const { context, discard, getSpending, log = makeLog(), notify } = question
  const begun = log.count
  // A side task is not a part of the turn whose position in the chain is stored.
  const turn =
    question.turn ?? (context.task === undefined ? { session: context.sessionId, turn: context.turnId } : undefined)
  const cacheTenant = question.spending?.tenant
  const askRouter = ({ call: given, route }: ModelCallParams, options: ExecuteOptions | undefined) => {
    log.route = route
    const call = cacheTenant === undefined ? given : { ...given, cacheTenant }
    const asked = router.call<E>(interceptors, { ...question, call, route, options, log, turn })
    return discard === undefined || log.count === begun ? asked : Effect.andThen(discard, asked)
  }
  const { stack } = interceptors
  const params: ModelCallParams = { call: question.call, route: question.route }
  if (stack.wrapModelCall.length === 0) return askRouter(params, question.options)
  const known = { ...context, ...getSpending?.(), notify, primary: router.primaryRoute ?? router.primary }
  // The chain erases the error types of its wrappers; the code that creates the stack states them as `E`.
  const computeDeadline = (): number => StreamTimeout.wrapperMillis(() => CallTokens.estimateTokens(question.call))
  const runChain = (wrappers: typeof stack.wrapModelCall) =>
    Chain.run(
      wrappers,
      modelCalls,
      stack.faults,
      known,
      askRouter,
      computeDeadline
    )(params, question.options) as Effect.Effect<ModelAnswer, AiError.AiError | E>
  return context.task === undefined
    ? runChain(stack.wrapModelCall)
    : Effect.flatMap(Requesters.Requesters, (requesters) =>
        runChain(Requesters.removeRequesters(stack.wrapModelCall, requesters))
      )
}

/**
 * Executes a complete model call: runs the `wrap_model_call` wrappers around the router's attempts. `E` has the same
 * meaning as in `Service.call`.
 */
export const callModel = <E>(
  router: Service,
  interceptors: Interceptors,
  question: Question
): Effect.Effect<ModelAnswer, AiError.AiError | E> => {
  const routes = question.spending?.routes
  return routes === undefined
    ? callThroughWrappers<E>(router, interceptors, question)
    : // A refusal ends the call as failures of middleware do, and the run reads it by its tag.
      (useTenantRouter(router, routes, (own) => callThroughWrappers<E>(own, interceptors, question)) as Effect.Effect<
        ModelAnswer,
        AiError.AiError | E
      >)
}
