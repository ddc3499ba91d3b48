/**
 * Key state that several processes on several machines share: keys that are set aside, accounts that have used up their
 * limits, and keys that were just refused. Absent in a single process: files of the home directory hold the first two,
 * and each process learns the third.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { PoolStore } from "./PoolStore.ts"
import type { RateGuard } from "./RateGuard.ts"

/** Reports that a provider refused a key, and for how many milliseconds. Keys are names of routes and fingerprints. */
export type Refusal = (key: string, closedFor: number) => void

/** Refusals for a rate, as they happen in any process. */
export interface Refusals {
  /**
   * Calls `heard` for each refusal that another process or another participant in this process reports, until the scope
   * closes. Returns the function that reports refusals to them.
   */
  readonly join: (heard: Refusal) => Effect.Effect<Refusal, never, Scope.Scope>
}

/** All of these facts. */
export interface Marks {
  readonly pools: PoolStore
  readonly guard: RateGuard
  readonly refusals: Refusals
}

/** Key state of a cluster, or `undefined` in a single process. */
export const SharedMarks = Context.Reference<Marks | undefined>("hermes-effect/routing/SharedMarks", {
  defaultValue: () => undefined
})
