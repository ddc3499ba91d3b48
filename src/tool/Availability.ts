/**
 * Whether a tool can be used at the moment, by a check of its own: a service that answers, a program that is installed. One
 * that can not is left out of what the model is told.
 *
 * **Details**
 *
 * A result holds for {@link holds}. A failure soon after a success ({@link flake}) is taken for a flake, and the tool stays. A
 * check that fails, dies or takes longer than {@link deadline} says no.
 *
 * Source: `hermes-product.md` §2.1, case 38.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** Milliseconds that a result holds. */
export const holds = 30_000
/** Milliseconds after a success in which a failure does not count. */
export const flake = 60_000
/** Time that a check may take. */
export const deadline = "5 seconds"

/** The answer of now, which may be that of a moment ago. */
export type Watch = Effect.Effect<boolean>

/** Watches one tool. */
export const watch = (tool: string, check: Effect.Effect<boolean, unknown>): Watch => {
  let known: { readonly at: number; readonly isAvailable: boolean } | undefined
  let succeeded: number | undefined
  const ask = check.pipe(
    Effect.timeoutOrElse({ duration: deadline, orElse: () => Effect.succeed(false) }),
    Effect.catchCause((cause) =>
      Effect.as(Effect.logDebug(`the check of the tool ${tool} failed, so it is not offered`, cause), false))
  )
  return Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    if (known !== undefined && now - known.at < holds) return known.isAvailable
    const answer = yield* ask
    if (answer) succeeded = now
    const isAvailable = answer || succeeded !== undefined && now - succeeded < flake
    known = { at: now, isAvailable }
    return isAvailable
  })
}
