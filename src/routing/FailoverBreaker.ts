/**
 * A circuit breaker around one route's calls, for those who have another route to go to: an open circuit is a value to
 * decide upon, not a wait.
 *
 * **Details**
 *
 * Only failures that the caller says count do, and only in a row; what does not count, and interruption, changes nothing.
 * After the recovery time one call is let through as a probe, while all others are still skipped.
 *
 * Source: `hermes-llm.md` §17, `nexau.md` §2.5; the state machine is effect's.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"

/** The circuit is open: the call was not made. */
export class Skipped extends Data.TaggedError("Skipped")<{}> {}

/** See the module. */
export interface FailoverBreaker {
  readonly guard: <A, E, R>(
    self: Effect.Effect<A, E, R>,
    counts: (error: E) => boolean
  ) => Effect.Effect<A, E | Skipped, R>
}

/** When a breaker opens, and for how long. */
export interface Options {
  /** Failures in a row. */
  readonly failureThreshold: number
  readonly recovery: Duration.Input
}

const key = "route"

const isOpen = (error: unknown): boolean =>
  error instanceof CircuitBreaker.CircuitBreakerError && error.reason._tag !== "CircuitBreakerStoreError"

const classify = <E>(counts: (error: E) => boolean) => (exit: Exit.Exit<unknown, E>): CircuitBreaker.Outcome => {
  if (Exit.isSuccess(exit)) return CircuitBreaker.success
  if (Cause.hasInterrupts(exit.cause)) return CircuitBreaker.ignored
  const failure = exit.cause.reasons.find(Cause.isFailReason)
  return failure !== undefined && counts(failure.error) ? CircuitBreaker.failure() : CircuitBreaker.ignored
}

/** A closed breaker. Its state lives as long as it does; nothing has to be closed. */
export const make = ({ failureThreshold, recovery }: Options): FailoverBreaker => {
  const breaker = Effect.runSync(
    CircuitBreaker.make({
      tripPolicy: CircuitBreaker.consecutive(failureThreshold),
      openDuration: recovery
    }).pipe(Effect.provide(CircuitBreaker.layerStoreMemory()), Scope.provide(Scope.makeUnsafe()))
  )
  return {
    guard: (self, counts) =>
      breaker.execute(self, { key, classify: classify(counts) }).pipe(
        Effect.mapError((error) => isOpen(error) ? new Skipped() : error as Exclude<typeof error, CircuitBreaker.CircuitBreakerError>)
      )
  }
}
