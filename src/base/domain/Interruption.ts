/**
 * Tells the interruption of the fiber that runs from one that code below made up by itself (`Effect.interrupt`) or took
 * over from another fiber (`Fiber.join` of one that was interrupted). Only the first is an interruption of the run; the
 * second is a failure of that code.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"

/** Code that was not interrupted ended with an interruption. */
export class SelfInterrupted extends Error {
  override readonly name = "SelfInterrupted"
  constructor(what: string) {
    super(`${what} interrupted itself, or waited for a fiber that was interrupted`)
  }
}

/** Ends with the interruption of this fiber if there is one, also in an uninterruptible region; succeeds otherwise. */
const check: Effect.Effect<void> = Effect.interruptible(Effect.void)

/**
 * Continues with `orElse` when a cause with an interruption reached a fiber that is not interrupted. An interruption of
 * this fiber propagates, as does every cause without one.
 */
const orElse = <E, A2, E2, R2>(
  cause: Cause.Cause<E>,
  orElse: () => Effect.Effect<A2, E2, R2>
): Effect.Effect<A2, E | E2, R2> =>
  Cause.hasInterrupts(cause) ? Effect.andThen(check, Effect.suspend(orElse)) : Effect.failCause(cause)

/**
 * Turns an interruption that is not this fiber's into a failure. A cause that also contains a failure or a defect
 * retains it, and loses the interruption.
 */
export const contain =
  <E2>(failure: () => E2) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | E2, R> =>
    Effect.catchCause(effect, (cause) =>
      orElse(cause, (): Effect.Effect<A, E | E2> => {
        const reasons = cause.reasons.filter((reason) => !Cause.isInterruptReason(reason))
        return reasons.length === 0 ? Effect.fail(failure()) : Effect.failCause(Cause.fromReasons(reasons))
      })
    )
