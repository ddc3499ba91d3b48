/**
 * Circuit breakers, one for each key (a route), so that a provider that is down is not asked by everybody again and
 * again. For callers who have another route to go to: an open circuit is a failure to decide upon, not a wait.
 *
 * **Details**
 *
 * The caller says which outcomes count. After a few failures in a row the circuit opens for a while; then one call is
 * let through as a probe, and its end decides, while all others are still rejected. Outcomes that do not count, and
 * interruption, change nothing.
 *
 * Source: `nexau.md` §2 (threshold and recovery time), `hermes-llm.md` §17; the state machine is effect's.
 */
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"

/** Limits of a circuit: it opens after this many failed calls in a row, for this long. */
export interface Policy {
  readonly failures: number
  readonly openFor: Duration.Input
}

/** Three failures, one minute. */
export const defaults: Policy = { failures: 3, openFor: "1 minute" }

/** Failure of a call that was not made, because its circuit is open. */
export class Rejected extends Data.TaggedError("Rejected")<{}> {}

/** Relation of an outcome to the health of the provider. */
export type Verdict = "success" | "failure" | "ignored"

/** Circuits by key. */
export interface Breakers {
  /** Makes the call unless the circuit of the key is open. An interrupted call is never judged. */
  readonly guard: <A, E, R>(
    key: string,
    call: Effect.Effect<A, E, R>,
    judge: (exit: Exit.Exit<A, E>) => Verdict
  ) => Effect.Effect<A, E | Rejected, R>
  readonly state: (key: string) => Effect.Effect<CircuitBreaker.State["_tag"]>
}

const outcomes: Readonly<Record<Verdict, CircuitBreaker.Outcome>> = {
  success: CircuitBreaker.success,
  failure: CircuitBreaker.failure(),
  ignored: CircuitBreaker.ignored
}

/** Makes closed circuits. Their state lives as long as they do; nothing has to be closed. */
export const make = ({ failures, openFor }: Policy): Breakers => {
  const breaker = Effect.runSync(
    CircuitBreaker.make({ tripPolicy: CircuitBreaker.consecutive(failures), openDuration: openFor }).pipe(
      Effect.provide(CircuitBreaker.layerStoreMemory()),
      Scope.provide(Scope.makeUnsafe())
    )
  )
  return {
    guard: (key, call, judge) =>
      breaker
        .execute(call, {
          key,
          classify: (exit) =>
            outcomes[Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause) ? "ignored" : judge(exit)]
        })
        .pipe(
          // Any other failure is the call's own.
          Effect.mapError((error) =>
            error instanceof CircuitBreaker.CircuitBreakerError
              ? new Rejected()
              : (error as Exclude<typeof error, CircuitBreaker.CircuitBreakerError>)
          )
        ),
    state: (key) =>
      Effect.match(breaker.state(key), { onFailure: () => "Closed" as const, onSuccess: ({ _tag }) => _tag })
  }
}
