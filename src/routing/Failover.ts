/**
 * One call over a chain of routes: from the route that its session is on to the end of the chain, then over those that were
 * passed over on the way.
 *
 * **Details**
 *
 * A route is passed over while its keys are all set aside or its circuit is open. The session stays on the route that
 * answered for the rest of its turn (`RouteState`).
 *
 * Source: `hermes-llm.md` §17.3, §17.6.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as AiError from "effect/ai/AiError"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import { type Breakers, Rejected, type Verdict } from "./Breakers.ts"
import type { Reason } from "./Recovery.ts"
import * as ManagedRoute from "./ManagedRoute.ts"
import type { Call, Position } from "./RouteCallState.ts"
import * as RouteRetry from "./RouteRetry.ts"
import type { RouteState } from "./RouteState.ts"

/** Routes in order, and what all calls over them share. */
export interface Chain {
  readonly routes: ReadonlyArray<ManagedRoute.ManagedRoute>
  readonly breakers: Breakers
  readonly sessions: RouteState
}

const placeOf = ({ info: { model, provider } }: ManagedRoute.ManagedRoute) => ({ provider, model })

const rejected = { _tag: "Rejected" } as const

const isReady = ({ pool }: ManagedRoute.ManagedRoute): Effect.Effect<boolean> =>
  pool === undefined || pool.size < 2 ? Effect.succeed(true) : pool.isReady

/**
 * Judges a call, after its retries, for the breaker. Only failures that tell of the provider's health count: a refused key, a
 * rate limit or a wrong request says nothing about it.
 */
const judge = (exit: Exit.Exit<RouteRetry.Outcome, unknown>): Verdict => {
  if (Exit.isFailure(exit)) return "ignored"
  if (exit.value._tag === "Answered") return "success"
  const { reason } = exit.value.decision
  return reason === "server_error" || reason === "overloaded" || reason === "timeout" || reason === "invalid_response"
    ? "failure"
    : "ignored"
}

/** Asks a route, unless its keys are all set aside or its circuit is open. */
const ask = <E>({ breakers }: Chain, call: Call, route: ManagedRoute.ManagedRoute, position: Position) => {
  const asked: Effect.Effect<RouteRetry.Outcome | typeof rejected, E> = Effect.catch(
    breakers.guard(route.id, RouteRetry.run<E>(call, route, position), judge),
    (error) => error instanceof Rejected ? Effect.succeed(rejected) : Effect.fail(error)
  )
  return position.hasNext
    ? Effect.flatMap(isReady(route), (ready) => ready ? asked : Effect.succeed(rejected))
    : asked
}

/** Makes a call over the chain. */
export const run = Effect.fnUntraced(function*<E>(chain: Chain, call: Call): Effect.fn.Return<ModelAnswer, AiError.AiError | E> {
  const { routes, sessions } = chain
  const { notify, turn } = call.question
  const from = turn === undefined ? 0 : sessions.position(turn, yield* Clock.currentTimeMillis)
  const passedOver: Array<number> = []
  let settled = from
  let reason: Reason | undefined
  let failure: AiError.AiError | undefined

  /** Keeps the session on this route for the rest of its turn. */
  const settle = (index: number): Effect.Effect<void> => {
    if (turn === undefined || index === settled || index >= routes.length) return Effect.void
    settled = index
    return Effect.map(Clock.currentTimeMillis, (now) => sessions.move(turn, index, reason, now))
  }

  const leave = (
    route: ManagedRoute.ManagedRoute,
    why: string,
    reason: string,
    to: ManagedRoute.ManagedRoute | undefined
  ): Effect.Effect<void> =>
    notify === undefined || to === undefined
      ? Effect.void
      : notify([
        { _tag: "RouteChanged", from: placeOf(route), to: placeOf(to), reason },
        { _tag: "Notice", level: "warning", message: `${ManagedRoute.name(route)} ${why}: going on with ${ManagedRoute.name(to)}` }
      ])

  for (const [index, route] of routes.entries()) {
    if (index < from) continue
    const next = routes[index + 1]
    const position = { hasNext: next !== undefined || passedOver.length > 0, isPrimary: index === 0 }
    const outcome = yield* ask<E>(chain, call, route, position)
    switch (outcome._tag) {
      case "Answered":
        yield* settle(index)
        return outcome.answer
      case "GivenUp":
        return yield* Effect.fail(outcome.error)
      case "Rejected":
        passedOver.push(index)
        yield* leave(route, "is left alone for now", "circuit_open", next)
        break
      case "NextRoute":
        failure = outcome.error
        reason = outcome.decision.reason
        yield* leave(route, `cannot answer (${reason})`, reason, next)
        yield* settle(index + 1)
        break
    }
  }
  for (const index of passedOver) {
    const route = routes[index]
    if (route === undefined) continue
    const position = { hasNext: index !== passedOver.at(-1), isPrimary: index === 0 }
    const outcome = yield* RouteRetry.run<E>(call, route, position)
    if (outcome._tag === "Answered") {
      yield* settle(index)
      return outcome.answer
    }
    failure = outcome.error
  }
  return failure === undefined ? yield* Effect.die("a chain without routes") : yield* Effect.fail(failure)
})
