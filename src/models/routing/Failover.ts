/**
 * Executes a call on a chain of routes: from the current route of its session to the end of the chain, then on the
 * routes that were skipped.
 *
 * **Details**
 *
 * A route is skipped while all of its keys are disabled or its circuit is open.
 *
 * A session starts on the primary. When it has to leave a route it stays on the next one for the rest of the turn; its
 * next turn starts on the primary again, unless the cooldown of the `FallbackPolicy` has not ended yet. Only sessions
 * that left the primary are remembered.
 *
 * Source: `hermes-llm.md` §17.3, §17.6.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Pull from "effect/Pull"
import * as Schedule from "effect/Schedule"
import type * as AiError from "effect/ai/AiError"
import type { TurnId } from "../../base/domain/Ids.ts"
import type { ModelAnswer } from "../../middleware/Middleware.ts"
import * as Breakers from "./Breakers.ts"
import type { Turn } from "./ModelRouter.ts"
import type { FallbackPolicy } from "./FallbackPolicy.ts"
import type { RouteFailure } from "./RetryPolicy.ts"
import { type Call, type ManagedRoute, type Position, formatRouteName } from "./RouteCallState.ts"
import * as RouteRetry from "./RouteRetry.ts"

/** Sessions beyond this number are forgotten, the oldest first. */
const mostSessions = 4_096

interface SessionPosition {
  readonly turn: TurnId
  readonly position: number
  /** Time from which the primary route may be used again, in milliseconds. */
  readonly coolUntil: number
}

/** Positions of sessions in the chain. The primary route has position 0. */
interface Positions {
  /**
   * Returns the position of the route for the turn's next call. A new turn may return the session to the primary route.
   */
  readonly position: (turn: Turn, now: number) => number
  /**
   * Moves the session to another route. `failure` is the failure that caused the move, if a call failed. `now` is in
   * milliseconds.
   */
  readonly move: (turn: Turn, to: number, failure: RouteFailure | undefined, now: number) => Effect.Effect<void>
  /** Resets the session's cooldown, because a call succeeded on the primary route. */
  readonly settle: (turn: Turn) => void
}

type CooldownStep = (now: number, failure: RouteFailure) => Pull.Pull<[unknown, Duration.Duration], never, unknown>

/** Adds an entry, and removes the oldest one of a map that is full. */
const rememberEntry = <A>(map: Map<string, A>, key: string, value: A): void => {
  map.delete(key)
  map.set(key, value)
  const oldest = map.size > mostSessions ? map.keys().next() : undefined
  if (oldest?.done === false) map.delete(oldest.value)
}

/** Creates positions. Every session starts on the primary route. */
const makePositions = ({ cooldown }: FallbackPolicy): Positions => {
  const places = new Map<string, SessionPosition>()
  const cooldowns = new Map<string, CooldownStep>()

  /** Advances the cooldown schedule of a session, and returns the time at which the cooldown ends. */
  const stepCooldown = Effect.fnUntraced(function* (session: string, failure: RouteFailure, now: number) {
    const step = cooldowns.get(session) ?? (yield* Schedule.toStep(cooldown))
    rememberEntry(cooldowns, session, step)
    return yield* step(now, failure).pipe(
      Effect.map(([, duration]) => now + Duration.toMillis(duration)),
      Pull.catchDone(() => Effect.succeed(0))
    )
  })

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
    move: Effect.fnUntraced(function* ({ session, turn }, position, failure, now) {
      const place = places.get(session)
      const leftPrimary = (place?.position ?? 0) === 0
      const coolUntil =
        leftPrimary && failure !== undefined ? yield* stepCooldown(session, failure, now) : (place?.coolUntil ?? 0)
      if (position > 0) rememberEntry(places, session, { turn, position, coolUntil })
      else places.delete(session)
    }),
    settle: ({ session }) => void cooldowns.delete(session)
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
  let left: RouteFailure | undefined
  let failure: AiError.AiError | undefined

  /** Moves the session to this route for the rest of its turn. */
  const settleOnRoute = (index: number): Effect.Effect<void> => {
    if (turn === undefined || index === settled || index >= routes.length) return Effect.void
    settled = index
    return Effect.flatMap(Clock.currentTimeMillis, (now) => positions.move(turn, index, left, now))
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
        if (index === 0 && turn !== undefined) positions.settle(turn)
        return outcome.answer
      case "GivenUp":
        return yield* Effect.fail(outcome.error)
      case "Rejected":
        passedOver.push(index)
        yield* reportRouteChange(route, "is skipped after repeated failures", "circuit_open", next)
        break
      case "NextRoute":
        failure = outcome.error
        left = outcome.failure
        yield* reportRouteChange(route, `cannot answer (${left.reason})`, left.reason, next)
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
export interface Failover extends Pick<Positions, "move" | "position"> {
  readonly call: <E>(call: Call) => Effect.Effect<ModelAnswer, AiError.AiError | E>
  /** Returns the state of a route's circuit. */
  readonly breaker: (route: ManagedRoute) => ReturnType<Breakers.Breakers["state"]>
}

/** Creates the failover for a chain. Initially all circuits are closed, and every session is on the primary route. */
export const make = (
  routes: ReadonlyArray<ManagedRoute>,
  {
    breaker = Breakers.defaults,
    fallback
  }: { readonly breaker: Breakers.Policy | undefined; readonly fallback: FallbackPolicy }
): Failover => {
  const chain: Chain = { routes, breakers: Breakers.make(breaker), positions: makePositions(fallback) }
  return {
    ...chain.positions,
    call: <E>(call: Call) => callThroughChain<E>(chain, call),
    breaker: ({ id }) => chain.breakers.state(id)
  }
}
