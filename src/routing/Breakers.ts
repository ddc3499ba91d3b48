/**
 * Circuit breakers, one for each route, so that a provider that is down is not asked by everybody again and again.
 *
 * **Details**
 *
 * Only failures that tell of the provider's health count: server errors, overloads, timeouts and answers that are none. A
 * refused key, a rate limit or a request that is wrong says nothing about it. After a few in a row the route is skipped for
 * a while; then one call is let through, and its end decides.
 *
 * **Gotchas**
 *
 * A breaker decides which route is asked first, never that none is: the router asks a skipped route after all when no other
 * could answer. The breaker sees one outcome per call, after its retries.
 *
 * Source: `nexau.md` §2 (threshold and recovery time), `style.md` practice 10.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import type * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import type { Decision } from "./Classification.ts"
import type { Reason } from "./classification/Reason.ts"

/** When a circuit opens and for how long. */
export interface Policy {
  /** Failed calls in a row. */
  readonly failures: number
  readonly openFor: Duration.Input
}

/** See {@link Policy}. */
export const defaults: Policy = { failures: 3, openFor: "1 minute" }

/** What a call came to, as far as a breaker is concerned. */
export interface Verdict {
  /** Why it failed; undefined when it did not. */
  readonly decision: Decision | undefined
}

/** The call was not let through. */
export interface Rejected {
  readonly _tag: "Rejected"
}

const rejected: Rejected = { _tag: "Rejected" }

/** See the module. */
export interface Breakers {
  readonly guard: <A extends Verdict, E, R>(key: string, call: Effect.Effect<A, E, R>) => Effect.Effect<A | Rejected, E, R>
  readonly state: (key: string) => Effect.Effect<CircuitBreaker.State["_tag"]>
}

/** Whether a failure tells of the provider's health. */
const isOurs = (reason: Reason): boolean =>
  reason === "server_error" || reason === "overloaded" || reason === "timeout" || reason === "invalid_response"

type Module = typeof CircuitBreaker

const outcomeOf = ({ failure, ignored, success }: Module) => <A extends Verdict, E>(exit: Exit.Exit<A, E>) => {
  if (Exit.isFailure(exit)) return ignored
  const { decision } = exit.value
  if (decision === undefined) return success
  return isOurs(decision.reason) ? failure() : ignored
}

const over = (module: Module, breaker: CircuitBreaker.CircuitBreaker): Breakers => {
  const classify = outcomeOf(module)
  const isRejection = (error: unknown): error is CircuitBreaker.CircuitBreakerError =>
    error instanceof module.CircuitBreakerError
  return {
    guard: <A extends Verdict, E, R>(key: string, call: Effect.Effect<A, E, R>) =>
      Effect.catch(breaker.execute(call, { key, classify }), (error): Effect.Effect<A | Rejected, E> =>
        // What is no rejection is the call's own.
        isRejection(error) ? Effect.succeed(rejected) : Effect.fail(error as E)),
    state: (key) =>
      Effect.match(breaker.state(key), { onFailure: () => "Closed" as const, onSuccess: ({ _tag }) => _tag })
  }
}

/** Closed circuits. */
export const make = (policy: Policy): Effect.Effect<Breakers, never, Scope.Scope> =>
  Effect.flatMap(Effect.promise(() => import("effect/persistence/CircuitBreaker")), (module) =>
    module.make({ tripPolicy: module.consecutive(policy.failures), openDuration: policy.openFor }).pipe(
      Effect.map((breaker) => over(module, breaker)),
      Effect.provide(module.layerStoreMemory())
    ))

/** Lets everything through: for a route that is the only one. */
export const none: Breakers = { guard: (_, call) => call, state: () => Effect.succeed("Closed") }
