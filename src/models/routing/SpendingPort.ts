/**
 * Port to a ledger that bounds the spending of model calls. `Spending` describes its use. Without a ledger nothing is
 * reserved.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { SessionStoreError, TenantRefused } from "../../base/domain/AgentError.ts"
import type * as Usage from "../../base/domain/Usage.ts"
import type { TenantRoutes } from "./TenantRoutes.ts"

/** A model call that is about to be made. */
export interface PlannedCall {
  readonly provider: string
  readonly model: string
  /** Number of prompt tokens: an upper bound, and an estimate with a margin. */
  readonly prompt: { readonly bound: number; readonly estimate: number }
  /** Largest number of output tokens. */
  readonly wantedOutput: number
  /** Output tokens without which the request cannot be sent, because it has no lower limit. */
  readonly requiredOutput?: number | undefined
  /**
   * Computes the cost of usage in nanodollars; `undefined` if the price is unknown. Calls with the same prices have the
   * same function, and the cost of tokens is their number times their price.
   */
  readonly computeNanos: (usage: Usage.Usage) => number | undefined
  /** Reports that the call waits for the limits of the tenant. */
  readonly reportWait: (millis: number) => Effect.Effect<void>
}

/** Usage of a call that has ended. */
export interface UsedTokens {
  readonly usage: Usage.Usage
  /** Nanodollars; `undefined` if the price is unknown. */
  readonly nanos: number | undefined
  /**
   * Largest number of output tokens of a call whose usage the provider did not report; `undefined` if it did. `usage`
   * is then an estimate.
   */
  readonly mostOutput: number | undefined
}

/** A reservation for a model call. */
export interface Grant {
  /** Maximum number of output tokens. */
  readonly output: number
  /** Ends the reservation, with `undefined` if no request was sent. Further calls have no effect. */
  readonly settle: (used: UsedTokens | undefined) => Effect.Effect<void>
}

/** Ledger of the spending of one run. */
export interface Spending {
  /** Name of the tenant that pays. */
  readonly tenant: string
  /** Routes and keys of the tenant; `undefined` if its calls use the routes of the runtime. */
  readonly routes?: TenantRoutes | undefined
  /** Reserves the cost of a call. Fails if no allowance is left for it. */
  readonly reserve: (call: PlannedCall) => Effect.Effect<Grant, TenantRefused | SessionStoreError>
}

/** Ledger of the current fiber's model calls; `undefined` if their spending is not bounded. */
export const CurrentSpending = Context.Reference<Spending | undefined>("hermes-effect/routing/CurrentSpending", {
  defaultValue: () => undefined
})

/** True within a model call that holds a reservation. Another call within it does not wait for reservations. */
export const HoldsReservation = Context.Reference<boolean>("hermes-effect/routing/HoldsReservation", {
  defaultValue: () => false
})
