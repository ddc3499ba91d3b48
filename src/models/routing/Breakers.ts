/**
 * Circuit breakers, one for each key (a route), which prevent repeated requests to an unavailable provider. They are
 * intended for callers that have another route: an open circuit is reported as a failure and does not cause a wait.
 *
 * **Details**
 *
 * The caller decides which outcomes count. After several consecutive failures the circuit opens for some time. Then one
 * call is allowed as a probe, whose outcome closes or reopens the circuit, while all other calls are still rejected.
 * Outcomes that do not count, and interruption, change nothing.
 *
 * Source: `nexau.md` §2 (threshold and recovery time), `hermes-llm.md` §17; the state machine is Effect's
 * `CircuitBreaker`.
 */
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"

/**
 * Limits of a circuit: the number of consecutive failures after which it opens, and the time for which it stays open.
 */
export interface Policy {
  readonly failures: number
  readonly openFor: Duration.Input
}

/** Default policy: a circuit opens after three failures, for one minute. */
export const defaults: Policy = { failures: 3, openFor: "1 minute" }

/** Failure of a call that was not made, because its circuit is open. */
export class Rejected extends Data.TaggedError("Rejected")<{}> {}

/** Effect of an outcome on the circuit. */
export type Verdict = "success" | "failure" | "ignored"

/** Circuit breakers by key. */
export interface Breakers {
  /** Executes the call unless the key's circuit is open. An interrupted call does not count. */
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

/** Creates circuits that are initially closed. Their state is in memory, and no resource has to be released. */
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
          // Any other error was raised by the call itself.
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
