/** Outcomes of runs that failed, were cancelled, or broke off. */
import * as Cause from "effect/Cause"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { Outcome } from "./RunForms.ts"

/** Makes the outcome of a run that failed. `isPassing` is true if another attempt may succeed. */
export const makeFailedOutcome = (message: string, isPassing: boolean): Outcome => ({
  status: "failed",
  message: Redaction.redactText(message),
  isPassing
})

/** Outcome of a run that was cancelled. */
export const cancelledOutcome: Outcome = {
  status: "failed",
  message: "the run was cancelled",
  isPassing: false,
  isCancelled: true
}

/** Makes the outcome of a run whose workflow failed unexpectedly because of a program defect or a database failure. */
export const makeBrokenOutcome = (cause: Cause.Cause<unknown>): Outcome => {
  const error = Cause.squash(cause)
  const reason = (error instanceof Error ? error.message || error.name : String(error)).replaceAll(/\s+/g, " ")
  return { ...makeFailedOutcome(`the run broke off: ${reason}`, true), isBroken: true }
}
