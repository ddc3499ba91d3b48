/**
 * Reports of middleware that failed by itself: one warning per distinct fault, so that a broken plugin in a loop of a
 * thousand calls does not bury the log.
 *
 * Source: `hermes-contract.md` §1.8 and §1.11.
 */
import * as Effect from "effect/Effect"
import * as Json from "../base/domain/Json.ts"
import type { Kind, PhaseKind } from "./Kind.ts"

/** One failure of one middleware. */
interface Fault {
  readonly kind: Kind | PhaseKind
  readonly name: string
  /** Consequence for the call, in words that complete "… failed; ". */
  readonly consequence: string
  readonly error: unknown
}

/** Takes reports. */
export interface Faults {
  readonly report: (fault: Fault) => Effect.Effect<void>
}

/** Distinct faults that are remembered; beyond that, each is reported again. */
const remembered = 1_000

/** The printable form of anything that was thrown. */
export const describeError = (error: unknown): string => {
  if (error instanceof Error) return error.message === "" ? error.name : error.message
  try {
    return Json.toText(error)
  } catch {
    return "a value that cannot be printed"
  }
}

/** A reporter with its own memory. Repeats are logged at debug level. */
export const make = (): Faults => {
  const seen = new Set<string>()
  return {
    report: ({ consequence, error, kind, name }) => {
      const text = describeError(error)
      const key = `${kind}|${name}|${consequence}|${text.slice(0, 200)}`
      const line = `${kind} middleware "${name}" failed (${text}); ${consequence}`
      if (seen.has(key)) return Effect.logDebug(line)
      if (seen.size >= remembered) seen.clear()
      seen.add(key)
      return Effect.logWarning(line)
    }
  }
}
