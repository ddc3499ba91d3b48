/**
 * Says once what is wrong with a listener, and nothing more about the same.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Json from "../../domain/Json.ts"
import * as Redaction from "../../domain/Redaction.ts"

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
export type Faults = (what: string) => Effect.Effect<void>

/** A memory of faults. */
export const make = (): Faults => {
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
