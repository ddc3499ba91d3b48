/**
 * Runs code of others (a listener, a plugin) so that nothing it does can reach its caller: not its failure, not its death, not
 * its own interruption, not its slowness. Describes what went wrong, and warns about the same once.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Json from "../domain/Json.ts"
import * as Redaction from "../domain/Redaction.ts"

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

/** Distinct faults that are remembered; of more, the oldest may be said again. */
const remembered = 256
const shown = 200

/** Describes a failure, in one line of no more than 200 characters and without secrets. */
export const describe = (cause: Cause.Cause<unknown>): string => {
  if (Cause.hasInterruptsOnly(cause)) return "it interrupted itself"
  const error = Cause.squash(cause)
  let text: string
  try {
    text = error instanceof Error ? `${error.name}: ${error.message}` : Json.toText(error)
  } catch {
    text = "something that cannot be shown"
  }
  return Redaction.redactStart(text, shown).replaceAll(/\s+/g, " ")
}

/** Warns about `what` the first time, and logs it at debug level after that. */
type Faults = (what: string) => Effect.Effect<void>

/** A memory of faults. */
export const makeFaults = (): Faults => {
  const seen = new Set<string>()
  return (what) =>
    Effect.suspend(() => {
      if (seen.has(what)) return Effect.logDebug(what)
      if (seen.size >= remembered) {
        for (const oldest of seen) {
          seen.delete(oldest)
          break
        }
      }
      seen.add(what)
      return Effect.logWarning(what)
    })
}
