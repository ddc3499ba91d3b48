/**
 * Repeats work of the workflow engine that failed because the database did not answer. The engine reports such a
 * failure as a defect, and its requests have fixed ids, so that a repetition finds what was stored.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { PersistenceError } from "effect/cluster/ClusterError"
import { isSqlError } from "effect/sql/SqlError"
import * as PostgresFailure from "../../base/platform/PostgresFailure.ts"

const isPersistenceError = Schema.is(PersistenceError)

/** Returns true for a statement that the server did not answer. It is false for a statement that the server refused. */
const isLoss = (error: unknown): boolean => {
  if (!isPersistenceError(error)) return isSqlError(error) && PostgresFailure.isAway(error)
  return !isSqlError(error.cause) || PostgresFailure.isAway(error.cause)
}

/** Returns true if a cause contains a statement that the database did not answer, and no interruption. */
const isStorageLoss = (cause: Cause.Cause<unknown>): boolean =>
  !Cause.hasInterrupts(cause) &&
  cause.reasons.some((reason) =>
    isLoss(Cause.isFailReason(reason) ? reason.error : Cause.isDieReason(reason) ? reason.defect : undefined)
  )

/** Schedule of the repetitions: about as long as other statements wait for the database. */
const repetitions = Schedule.min([Schedule.exponential("200 millis", 1.6), Schedule.spaced("5 seconds")]).pipe(
  Schedule.upTo({ duration: "10 minutes" })
)

/** Runs work again while it fails because the database did not answer, for about ten minutes. */
export const repeatAfterLoss = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.sandbox(work).pipe(
    Effect.retry({ while: isStorageLoss, schedule: repetitions }),
    Effect.catch((cause) => Effect.failCause(cause))
  )
