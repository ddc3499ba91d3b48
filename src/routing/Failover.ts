/**
 * One call over a chain of lanes: from the lane that its session is on to the end of the chain, then over those that were
 * passed over on the way.
 *
 * Source: `hermes-llm.md` §17.3, §17.6.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import type { Breakers } from "./Breakers.ts"
import type { Reason } from "./classification/Reason.ts"
import type { Manner, Shared } from "./RouteCallState.ts"
import * as ManagedRoute from "./ManagedRoute.ts"
import * as RouteRetry from "./RouteRetry.ts"
import type { RouteState } from "./RouteState.ts"

/** What all calls over a chain share. */
export interface Chain {
  readonly shared: Shared
  readonly lanes: ReadonlyArray<ManagedRoute.ManagedRoute>
  readonly breakers: Breakers
  readonly sessions: RouteState
}

/** The session of a call, as far as it is known, and where in the chain it is. */
interface Place {
  position: number
  /** Why it left the lane before. */
  reason: Reason | undefined
}

const placeOf = ({ info: { model, provider } }: ManagedRoute.ManagedRoute) => ({ provider, model })

const rejected = { _tag: "Rejected" } as const

const isReady = ({ pool }: ManagedRoute.ManagedRoute): Effect.Effect<boolean> =>
  pool === undefined || pool.size < 2 ? Effect.succeed(true) : pool.isReady

/** Asks a lane, unless its keys are all set aside or its circuit is open. */
const ask = <E, R>({ breakers, shared }: Chain, lane: ManagedRoute.ManagedRoute, call: RouteRetry.Call<E, R>, manner: Manner) => {
  const asked = breakers.guard(lane.id, RouteRetry.run(shared, lane, call, manner))
  return manner.hasNext
    ? Effect.flatMap(isReady(lane), (ready) => ready ? asked : Effect.succeed(rejected))
    : asked
}

/** See the module. */
export const run = Effect.fnUntraced(function*<E, R>(
  chain: Chain,
  call: RouteRetry.Call<E, R>
): Effect.fn.Return<ModelAnswer, AiError.AiError | E, R> {
  const { lanes, sessions, shared } = chain
  const { notify, turn } = call.about
  const from = turn === undefined ? 0 : sessions.position(turn, yield* Clock.currentTimeMillis)
  const place: Place = { position: from, reason: undefined }
  const passedOver: Array<number> = []
  let failure: AiError.AiError | undefined

  /** The session stays on this lane for the rest of its turn. */
  const settle = (position: number): Effect.Effect<void> => {
    if (turn === undefined || position === place.position || position >= lanes.length) return Effect.void
    place.position = position
    return Effect.map(Clock.currentTimeMillis, (now) => sessions.move(turn, position, place.reason, now))
  }

  const leaves = (lane: ManagedRoute.ManagedRoute, why: string, reason: string, to: ManagedRoute.ManagedRoute | undefined): Effect.Effect<void> =>
    notify === undefined || to === undefined
      ? Effect.void
      : notify([
        { _tag: "RouteChanged", from: placeOf(lane), to: placeOf(to), reason },
        { _tag: "Notice", level: "warning", message: `${ManagedRoute.name(lane)} ${why}: going on with ${ManagedRoute.name(to)}` }
      ])

  for (const [position, lane] of lanes.entries()) {
    if (position < from) continue
    const next = lanes[position + 1]
    const manner = { hasNext: next !== undefined || passedOver.length > 0, isPrimary: position === 0 }
    const outcome = yield* ask(chain, lane, call, manner)
    switch (outcome._tag) {
      case "Answered":
        yield* settle(position)
        return outcome.answer
      case "GivenUp":
        return yield* Effect.fail(outcome.error)
      case "Rejected":
        passedOver.push(position)
        yield* leaves(lane, "is left alone for now", "circuit_open", next)
        break
      case "Elsewhere":
        failure = outcome.error
        place.reason = outcome.decision.reason
        yield* leaves(lane, `can not answer (${place.reason})`, place.reason, next)
        yield* settle(position + 1)
        break
    }
  }
  for (const position of passedOver) {
    const lane = lanes[position]
    if (lane === undefined) continue
    const manner = { hasNext: position !== passedOver.at(-1), isPrimary: position === 0 }
    const outcome = yield* RouteRetry.run(shared, lane, call, manner)
    if (outcome._tag === "Answered") {
      yield* settle(position)
      return outcome.answer
    }
    failure = outcome.error
  }
  return failure === undefined ? yield* Effect.die("a chain without routes") : yield* Effect.fail(failure)
})
