/**
 * Runs code that may never end, and that may refuse to be stopped.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

/**
 * Runs an effect for at most `deadline`; gives its exit, or undefined when it took longer. It runs in a fiber of its own,
 * which is told to stop at the deadline or when whoever waits is interrupted, and not waited for.
 */
export const after = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  deadline: Duration.Duration
): Effect.Effect<Exit.Exit<A, E> | undefined, never, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(Effect.interruptible(effect), { startImmediately: true }), (fiber) =>
      restore(Effect.timeoutOption(Fiber.await(fiber), deadline)).pipe(
        Effect.map(Option.getOrUndefined),
        Effect.onExit(() => Effect.sync(() => fiber.interruptUnsafe()))
      ))
  )
