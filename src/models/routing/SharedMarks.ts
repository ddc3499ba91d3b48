/**
 * State of keys that processes on several machines share: disabled keys, accounts with exhausted limits, and recent
 * refusals of keys. A single process does not need it: files in the home directory store the first two, and the process
 * itself observes refusals.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { PoolStore } from "./PoolStore.ts"
import type { RateGuard } from "./RateGuard.ts"

/**
 * Reports that a provider refused a key for a number of milliseconds. A key is identified by route name and
 * fingerprint.
 */
export type Refusal = (key: string, closedFor: number) => void

/** Exchanges refusals because of rate limits between processes. */
export interface Refusals {
  /**
   * Calls `heard` for each refusal that another process, or another participant in this process, reports until the
   * scope is closed. Returns a function that reports refusals to the other participants.
   */
  readonly join: (heard: Refusal) => Effect.Effect<Refusal, never, Scope.Scope>
}

/** The shared state of keys. */
export interface Marks {
  readonly pools: PoolStore
  readonly guard: RateGuard
  readonly refusals: Refusals
}

/** Reference to the key state of a cluster. It is `undefined` in a single process. */
export const SharedMarks = Context.Reference<Marks | undefined>("hermes-effect/routing/SharedMarks", {
  defaultValue: () => undefined
})
