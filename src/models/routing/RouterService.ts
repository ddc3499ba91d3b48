/** The router service over a chain of managed routes: of the runtime, or of one tenant. */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import { TenantRefused } from "../../base/domain/AgentError.ts"
import * as Route from "../../base/domain/Route.ts"
import type { ModelAnswer } from "../../middleware/Middleware.ts"
import type * as Breakers from "./Breakers.ts"
import type { Failover } from "./Failover.ts"
import type { FallbackPolicy } from "./FallbackPolicy.ts"
import type { Interceptors } from "./Interceptors.ts"
import { makeLog, type Question, type Service } from "./ModelRouter.ts"
import { type Call, formatRouteName, type ManagedRoute, type Shared } from "./RouteCallState.ts"
import * as RouteRetry from "./RouteRetry.ts"

/** Routes in the order in which they are tried. */
export type ManagedChain = readonly [ManagedRoute, ...ReadonlyArray<ManagedRoute>]

/** Parts of a router service. */
export interface Parts {
  readonly shared: Shared
  readonly routes: ManagedChain
  /** Failover between the routes; `undefined` if there is only one. */
  readonly failover: Failover | undefined
  /** Returns the route that a call specifies, or the error that refuses it. */
  readonly findRoute: (route: Route.Route) => ManagedRoute | TenantRefused
}

/** Creates the failover of a chain; `undefined` for a single route, which is always tried. */
export const makeFailover = (
  routes: ManagedChain,
  policies: { readonly breaker: Breakers.Policy | undefined; readonly fallback: FallbackPolicy }
): Effect.Effect<Failover | undefined> =>
  routes.length < 2
    ? Effect.undefined
    : Effect.map(
        Effect.promise(() => import("./Failover.ts")),
        ({ make }) => make(routes, policies)
      )

const alone = { hasNext: false, isPrimary: true }

const callSingleRoute = <E>(call: Call, route: ManagedRoute) =>
  Effect.flatMap(RouteRetry.callRoute<E>(call, route, alone), (outcome) =>
    outcome._tag === "Answered" ? Effect.succeed(outcome.answer) : Effect.fail(outcome.error)
  )

const callNamedRoute = <E>(call: Call, found: ManagedRoute | TenantRefused) =>
  found instanceof TenantRefused
    ? // A refusal ends the call as failures of middleware do, and the run reads it by its tag.
      (Effect.fail(found) as Effect.Effect<never>)
    : callSingleRoute<E>(call, found)

/** Creates the service. */
export const makeService = ({
  failover,
  findRoute,
  routes,
  shared
}: Parts): Required<Omit<Service, "forTenant" | "mayCall">> => {
  const [first] = routes
  const { catalogue, fallback } = shared
  const primaryRoute = first.route
  const primary = Effect.succeed(Route.toInfo(primaryRoute))
  const onPrimary = Effect.succeed(primaryRoute)

  const callModel: Service["call"] = <E>(interceptors: Interceptors, question: Question) =>
    Effect.suspend((): Effect.Effect<ModelAnswer, AiError.AiError | E> => {
      const { log = makeLog(), route } = question
      log.isDirty = false
      const call: Call = { shared, interceptors, question, log }
      const answered =
        route !== undefined && route !== primaryRoute
          ? callNamedRoute<E>(call, findRoute(route))
          : failover === undefined
            ? callSingleRoute<E>(call, first)
            : failover.call<E>(call)
      // If the last failure was translated, the call fails with the translation. `E` contains the errors of the
      // wrappers.
      return Effect.catch(answered, (error) => {
        const translation = AiError.isAiError(error) ? log.translations.get(error) : undefined
        return translation === undefined ? Effect.fail(error) : Effect.failCause(translation as Cause.Cause<E>)
      })
    })

  const advanceRoute: Service["advance"] = Effect.fnUntraced(function* (turn, why) {
    if (why === "empty_answers" && fallback.emptyAnswers === "stay") return undefined
    const now = yield* Clock.currentTimeMillis
    const to = (failover?.position(turn, now) ?? 0) + 1
    const route = routes[to]
    if (route === undefined) return undefined
    yield* failover?.move(turn, to, undefined, now) ?? Effect.void
    yield* Effect.logDebug(`session ${turn.session} continues with ${formatRouteName(route)}: ${why}`)
    return route.info
  })

  return {
    primary,
    primaryRoute: onPrimary,
    current:
      failover === undefined
        ? () => onPrimary
        : (turn) =>
            Effect.map(Clock.currentTimeMillis, (now) => routes[failover.position(turn, now)]?.route ?? primaryRoute),
    catalogue,
    call: callModel,
    advance: advanceRoute,
    emptyAnswers: fallback.emptyAnswers
  }
}
