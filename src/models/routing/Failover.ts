/**
 * Executes a call on a chain of routes: from the current route of its session to the end of the chain, then on the
 * routes that were skipped.
 *
 * **Details**
 *
 * A route is skipped while all of its keys are disabled or its circuit is open.
 *
 * A session starts on the primary route. If a route fails, the session uses the next one for the rest of the turn. Its
 * next turn starts on the primary again, unless less than a minute has passed since the primary refused the session
 * because of a rate limit or missing credit. Only sessions that are not on the primary are stored.
 *
 * Source: `hermes-llm.md` §17.3, §17.6.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as AiError from "effect/ai/AiError"
import type { TurnId } from "../../base/domain/Ids.ts"
import type { ModelAnswer } from "../../middleware/Middleware.ts"
import * as Breakers from "./Breakers.ts"
import type { Turn } from "./ModelRouter.ts"
import type { Reason } from "./Recovery.ts"
import { type Call, type ManagedRoute, type Position, formatRouteName } from "./RouteCallState.ts"
import * as RouteRetry from "./RouteRetry.ts"

/** Milliseconds during which a session does not return to a primary route that refused it. */
const cooldownMillis = 60_000

/** Maximum number of stored sessions that are on a fallback. Beyond it, the oldest are removed. */
const mostSessions = 4_096

interface SessionPosition {
  readonly turn: TurnId
  readonly position: number
  /** Time from which the primary route may be used again, in milliseconds. */
  readonly coolUntil: number
}

/** Positions of sessions in the chain. The primary route has position 0. */
interface Positions {
  /** Returns the position of the turn's next call. A new turn may return the session to the primary route. */
  readonly position: (turn: Turn, now: number) => number
  /**
   * Moves the session to another route. `reason` is the reason why it leaves its current route, `now` the time in
   * milliseconds.
   */
  readonly move: (turn: Turn, to: number, reason: Reason | undefined, now: number) => void
}

/** Creates positions in which every session is on the primary route. */
const makePositions = (): Positions => {
  const places = new Map<string, SessionPosition>()
  return {
    position: ({ session, turn }, now) => {
      const place = places.get(session)
      if (place === undefined) return 0
      if (place.turn === turn) return place.position
      if (now >= place.coolUntil) {
        places.delete(session)
        return 0
      }
      places.set(session, { ...place, turn })
      return place.position
    },
    move: ({ session, turn }, position, reason, now) => {
      const place = places.get(session)
      const leftPrimary = (place?.position ?? 0) === 0
      const cools = leftPrimary && (reason === "rate_limit" || reason === "billing")
      const coolUntil = cools ? now + cooldownMillis : (place?.coolUntil ?? 0)
      places.delete(session)
      if (position > 0) places.set(session, { turn, position, coolUntil })
      if (places.size <= mostSessions) return
      const oldest = places.keys().next()
      if (oldest.done !== true) places.delete(oldest.value)
    }
  }
}

interface Chain {
  readonly routes: ReadonlyArray<ManagedRoute>
  readonly breakers: Breakers.Breakers
  readonly positions: Positions
}

const describePlace = ({ info: { model, provider } }: ManagedRoute) => ({ provider, model })

const rejected = { _tag: "Rejected" } as const

const isReady = ({ pool }: ManagedRoute): Effect.Effect<boolean> =>
  pool === undefined || pool.size < 2 ? Effect.succeed(true) : pool.isReady

/**
 * Classifies the outcome of a call, after its retries, for the circuit breaker. Only failures that reflect the
 * provider's health count; a refused key, a rate limit or an invalid request does not.
 */
const judgeOutcome = (exit: Exit.Exit<RouteRetry.Outcome, unknown>): Breakers.Verdict => {
  if (Exit.isFailure(exit)) return "ignored"
  if (exit.value._tag === "Answered") return "success"
  const { reason } = exit.value.decision
  return reason === "server_error" || reason === "overloaded" || reason === "timeout" || reason === "invalid_response"
    ? "failure"
    : "ignored"
}

/** Sends the call to a route, unless all of its keys are disabled or its circuit is open. */
const askRoute = <E>(breakers: Breakers.Breakers, call: Call, route: ManagedRoute, position: Position) => {
  const asked: Effect.Effect<RouteRetry.Outcome | typeof rejected, E> = Effect.catch(
    breakers.guard(route.id, RouteRetry.callRoute<E>(call, route, position), judgeOutcome),
    (error) => (error instanceof Breakers.Rejected ? Effect.succeed(rejected) : Effect.fail(error))
  )
  return position.hasNext
    ? Effect.flatMap(isReady(route), (ready) => (ready ? asked : Effect.succeed(rejected)))
    : asked
}

const callThroughChain = Effect.fnUntraced(function* <E>(
  { breakers, positions, routes }: Chain,
  call: Call
): Effect.fn.Return<ModelAnswer, AiError.AiError | E> {
  const { notify, turn } = call.question
  const from = turn === undefined ? 0 : positions.position(turn, yield* Clock.currentTimeMillis)
  const passedOver: Array<number> = []
  let settled = from
  let reason: Reason | undefined
  let failure: AiError.AiError | undefined

  /** Moves the session to this route for the rest of its turn. */
  const settleOnRoute = (index: number): Effect.Effect<void> => {
    if (turn === undefined || index === settled || index >= routes.length) return Effect.void
    settled = index
    return Effect.map(Clock.currentTimeMillis, (now) => positions.move(turn, index, reason, now))
  }

  const reportRouteChange = (
    route: ManagedRoute,
    why: string,
    reason: string,
    to: ManagedRoute | undefined
  ): Effect.Effect<void> =>
    notify === undefined || to === undefined
      ? Effect.void
      : notify([
          { _tag: "RouteChanged", from: describePlace(route), to: describePlace(to), reason },
          {
            _tag: "Notice",
            level: "warning",
            message: `${formatRouteName(route)} ${why}: continuing with ${formatRouteName(to)}`
          }
        ])

  for (const [index, route] of routes.entries()) {
    if (index < from) continue
    const next = routes[index + 1]
    const position = { hasNext: next !== undefined || passedOver.length > 0, isPrimary: index === 0 }
    const outcome = yield* askRoute<E>(breakers, call, route, position)
    switch (outcome._tag) {
      case "Answered":
        yield* settleOnRoute(index)
        return outcome.answer
      case "GivenUp":
        return yield* Effect.fail(outcome.error)
      case "Rejected":
        passedOver.push(index)
        yield* reportRouteChange(route, "is skipped after repeated failures", "circuit_open", next)
        break
      case "NextRoute":
        failure = outcome.error
        reason = outcome.decision.reason
        yield* reportRouteChange(route, `cannot answer (${reason})`, reason, next)
        yield* settleOnRoute(index + 1)
        break
    }
  }
  for (const index of passedOver) {
    const route = routes[index]
    if (route === undefined) continue
    const position = { hasNext: index !== passedOver.at(-1), isPrimary: index === 0 }
    const outcome = yield* RouteRetry.callRoute<E>(call, route, position)
    if (outcome._tag === "Answered") {
      yield* settleOnRoute(index)
      return outcome.answer
    }
    failure = outcome.error
  }
  return failure === undefined ? yield* Effect.die("a chain without routes") : yield* Effect.fail(failure)
})

/** Executes calls on a chain of routes. */
export interface Failover extends Positions {
  readonly call: <E>(call: Call) => Effect.Effect<ModelAnswer, AiError.AiError | E>
  /** Returns the state of a route's circuit. */
  readonly breaker: (route: ManagedRoute) => ReturnType<Breakers.Breakers["state"]>
}

/** Creates a `Failover` for a chain. Initially all circuits are closed and every session is on the primary route. */
export const make = (routes: ReadonlyArray<ManagedRoute>, policy = Breakers.defaults): Failover => {
  const chain: Chain = { routes, breakers: Breakers.make(policy), positions: makePositions() }
  return {
    ...chain.positions,
    call: <E>(call: Call) => callThroughChain<E>(chain, call),
    breaker: ({ id }) => chain.breakers.state(id)
  }
}
