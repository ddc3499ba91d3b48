/**
 * Reports failures of middleware itself: one warning per distinct fault, so that a broken plugin does not flood the log
 * in a loop of a thousand calls.
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

/** Receives fault reports. */
export interface Faults {
  readonly report: (fault: Fault) => Effect.Effect<void>
}

/** Maximum number of distinct faults that are stored. Further faults are reported each time. */
const remembered = 1_000

/** Returns a printable form of any thrown value. */
export const describeError = (error: unknown): string => {
  if (error instanceof Error) return error.message === "" ? error.name : error.message
  try {
    return Json.toText(error)
  } catch {
    return "a value that cannot be printed"
  }
}

/** Creates a reporter with a separate record of faults. Repeated faults are logged at debug level. */
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
