/**
 * Waits for a session that another run owns. Durable work names its session, so a busy session means "not yet": the
 * owner is still running, or its process died and the lease has not expired. Counting that as a failed attempt would do
 * the work twice.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { SessionBusy } from "../base/domain/AgentError.ts"

const isBusy = <E>(error: E): error is Extract<E, SessionBusy> => error instanceof SessionBusy

/** Schedule for checking a busy session: first after half a second, then at growing intervals of up to five seconds. */
const looks = Schedule.min([Schedule.exponential("500 millis", 1.5), Schedule.spaced("5 seconds")])

/**
 * Runs work on a session as soon as the session is free. While it fails with `SessionBusy`, it is retried without a
 * time limit; the first wait is logged. Other failures propagate. `work` receives true after a wait: the owner may then
 * have done the same work, and the stored session shows its progress.
 */
export const waitForSession = <A, E, R>(
  work: (hasWaited: boolean) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  const waited = Effect.retry(
    Effect.suspend(() => work(true)),
    { while: isBusy, schedule: looks }
  )
  return Effect.catchIf(work(false), isBusy, (error) =>
    Effect.logDebug(`${error.message}. Waiting until it is free.`).pipe(
      Effect.andThen(Effect.sleep("500 millis")),
      Effect.andThen(waited)
    )
  )
}
