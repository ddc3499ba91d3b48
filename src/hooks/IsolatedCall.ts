/**
 * Runs code of others (a listener, a plugin) so that nothing it does can reach its caller: not its failure, not its death, not
 * its own interruption, not its slowness.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

/** Function that `Effect.uninterruptibleMask` hands out. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/**
 * Runs an effect; gives its exit, or undefined when the deadline came first. To be run inside of an
 * uninterruptible mask; only waiting for it is as interruptible as `restore` makes it.
 *
 * **Details**
 *
 * It runs in a fiber of its own, which is told to stop when the deadline comes or when the run is interrupted, and not
 * waited for: it may be uninterruptible. For the same reason it keeps its deadline inside an uninterruptible
 * region. One that is done at once costs no timer.
 */
export const attempt = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  deadline: Duration.Duration,
  restore: Restore
): Effect.Effect<Exit.Exit<A, E> | undefined, never, R> =>
  Effect.flatMap(Effect.forkDetach(effect, { startImmediately: true }), (fiber) => {
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return Effect.succeed(exit)
    const ended: Effect.Effect<Exit.Exit<A, E> | undefined> = Duration.isFinite(deadline)
      ? Effect.map(Effect.timeoutOption(Fiber.await(fiber), deadline), Option.getOrUndefined)
      : Fiber.await(fiber)
    return restore(ended).pipe(
      Effect.onExit(() => Effect.sync(() => fiber.interruptUnsafe()))
    )
  })

/** {@link attempt} for code that may be interrupted wherever it is called from. */
export const interruptible = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  deadline: Duration.Duration
): Effect.Effect<Exit.Exit<A, E> | undefined, never, R> =>
  Effect.uninterruptibleMask((restore) => attempt(Effect.interruptible(effect), deadline, restore))
