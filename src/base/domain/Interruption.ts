/**
 * Distinguishes an interruption of the current fiber from an interruption that inner code raised itself
 * (`Effect.interrupt`) or took over from another fiber (`Fiber.join` of an interrupted fiber). Only the former
 * interrupts the run; the latter is a failure of the inner code.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"

/** Error that replaces an interruption of inner code whose fiber was not interrupted. */
export class SelfInterrupted extends Error {
  override readonly name = "SelfInterrupted"
  constructor(what: string) {
    super(`${what} interrupted itself, or waited for a fiber that was interrupted`)
  }
}

/** Ends with an interruption if this fiber was interrupted, even in an uninterruptible region; succeeds otherwise. */
const check: Effect.Effect<void> = Effect.interruptible(Effect.void)

/**
 * Continues with `orElse` if a cause contains an interruption but the fiber was not interrupted. An interruption of
 * this fiber propagates, as does every cause without an interruption.
 */
const orElse = <E, A2, E2, R2>(
  cause: Cause.Cause<E>,
  orElse: () => Effect.Effect<A2, E2, R2>
): Effect.Effect<A2, E | E2, R2> =>
  Cause.hasInterrupts(cause) ? Effect.andThen(check, Effect.suspend(orElse)) : Effect.failCause(cause)

/**
 * Turns an interruption of another fiber into a failure. If the cause also contains a failure or a defect, only the
 * interruption is removed from the cause.
 */
export const contain =
  <E2>(failure: () => E2) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | E2, R> =>
    Effect.catchCause(effect, (cause) => containCause(cause, failure))

/** {@link contain} for an effect that failed with a cause. */
export const containCause = <E, E2>(cause: Cause.Cause<E>, failure: () => E2): Effect.Effect<never, E | E2> =>
  orElse(cause, (): Effect.Effect<never, E | E2> => {
    const reasons = cause.reasons.filter((reason) => !Cause.isInterruptReason(reason))
    return reasons.length === 0 ? Effect.fail(failure()) : Effect.failCause(Cause.fromReasons(reasons))
  })
