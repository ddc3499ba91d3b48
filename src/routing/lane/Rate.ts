/**
 * Keeps a call from being refused for a rate that others have already been refused for.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import * as Backoff from "../Backoff.ts"
import { type Here, wait } from "./Here.ts"

/** A wait that is over sooner is waited for, even where there is another lane. */
const shortWait = Duration.seconds(2)

const tooLong = ({ lane }: Here, delay: Duration.Duration): AiError.AiError =>
  AiError.make({
    module: "ModelRouter",
    method: "call",
    reason: new AiError.RateLimitError({
      retryAfter: delay,
      http: { body: `${lane.info.provider} asked others to wait, and they still do` }
    })
  })

/** Waits until the key may be used; gives a failure instead when that would take too long and there is another lane. */
export const pass = (here: Here): Effect.Effect<AiError.AiError | undefined> => {
  const { lane, manner, shared, state } = here
  return Effect.flatMap(shared.limits.slot(lane.limitKey(state.lease)), (slot) => {
    state.slot = slot
    const { delay } = slot
    if (Duration.isZero(delay)) return Effect.succeed(undefined)
    if (manner.hasNext && Duration.isGreaterThan(delay, shortWait)) return Effect.succeed(tooLong(here, delay))
    const reason = `the rate limit of ${lane.info.provider}`
    const waited = wait(here, { reason, duration: delay, attempt: state.failures + 1 })
    return slot.phase === "cooldown" ? Effect.andThen(waited, Effect.suspend(() => pass(here))) : Effect.as(waited, undefined)
  })
}

/** The key was refused for this long. */
export const refused = ({ lane, shared, state }: Here, duration: Duration.Input): Effect.Effect<void> =>
  state.slot === undefined ? Effect.void : shared.limits.refused(
    lane.limitKey(state.lease),
    state.slot,
    Duration.min(Duration.fromInputUnsafe(duration), Backoff.longestRetryAfter)
  )
