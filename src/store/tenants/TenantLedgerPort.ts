/**
 * Ledger of the tenants' spending. The largest possible cost of a model call is reserved before the call and settled
 * after it, so that calls in flight cannot overrun a limit.
 *
 * **Details**
 *
 * A reservation and the settlements of earlier calls are one statement of the store. A reservation that is not settled
 * before it expires, because its process died, is counted as spent: the provider may have charged for it. If its
 * settlement arrives later, it corrects the sum.
 *
 * Days and months are in UTC, by the clock of the store: of the server for Postgres, otherwise of the process. A period
 * never moves backwards.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import type { Amounts } from "../../base/domain/Tenant.ts"

/** Limits of a tenant's periods. An absent limit does not apply. */
export interface Limits {
  readonly dayTokens?: number | undefined
  readonly dayNanos?: number | undefined
  readonly monthTokens?: number | undefined
  readonly monthNanos?: number | undefined
  /** Maximum number of model calls that begin in a minute. */
  readonly callsPerMinute?: number | undefined
}

/** The end of a model call. */
export interface Settlement {
  /** Id of the reservation. */
  readonly id: string
  readonly model: string
  /** Tokens of the call by kind, and its cost in nanodollars. All are 0 if the provider did not accept the call. */
  readonly inputTokens: number
  readonly outputTokens: number
  readonly nanos: number
  /**
   * Amounts that count against the limits instead, if the provider did not report the usage of the call. The fields
   * above are then an estimate for figures.
   */
  readonly atMost?: Amounts | undefined
}

/** Request for a reservation. */
export interface ReserveRequest {
  readonly tenant: string
  /** Id of the reservation, unique over all processes. */
  readonly id: string
  readonly limits: Limits
  /** Largest cost of the prompt. */
  readonly prompt: Amounts
  /** Price of one output token in nanodollars. */
  readonly outputNanos: number
  /** Least number of output tokens for which the call is worth its price. */
  readonly leastOutput: number
  /** Largest number of output tokens of the call. */
  readonly wantedOutput: number
  /** Time until the reservation expires, in milliseconds. */
  readonly expiresIn: number
  /** Ends of earlier calls of the tenant. */
  readonly settled: ReadonlyArray<Settlement>
  /**
   * Treatment of a call for which calls in flight leave too little room: `wait` refuses it with `Held`, `shrink` grants
   * the room that is left.
   */
  readonly whenHeld: "wait" | "shrink"
}

/** A limit that leaves no room for a call. */
export interface Spent {
  readonly _tag: "Spent"
  readonly period: "day" | "month"
  readonly kind: "tokens" | "cost"
  /** Time in milliseconds since 1970 at which the period ends. */
  readonly freeAt: number
}

/** Answer to a request for a reservation. */
export type Decision =
  | {
      readonly _tag: "Reserved"
      /** Maximum number of output tokens that the call may request. */
      readonly output: number
    }
  | Spent
  /** Calls in flight hold the room for the call. It may be asked for again when one of them ends. */
  | { readonly _tag: "Held" }
  | { readonly _tag: "Paced"; readonly waitMillis: number }

/** Sums of a tenant. */
export interface Balance {
  /** UTC day of the sums, such as `2026-11-29`. */
  readonly day: string
  readonly spentToday: Amounts
  readonly spentThisMonth: Amounts
  /** Amounts that calls in flight may still cost. */
  readonly reserved: Amounts
}

/** Usage of a tenant on one day with one model. */
export interface UsageRow {
  readonly tenant: string
  readonly day: string
  readonly model: string
  readonly calls: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly nanos: number
}

/** Selection of {@link UsageRow}s. Days are inclusive. */
export interface UsageFilter {
  readonly tenant?: string | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
}

/** Ledger of the tenants' spending. */
export interface Service {
  /** Settles earlier calls, and reserves the cost of another one if the limits leave room for it. */
  readonly reserve: (request: ReserveRequest) => Effect.Effect<Decision, SessionStoreError>
  /**
   * Settles calls of a tenant. A call that is settled twice is counted once. Reservations of other tenants are not
   * changed.
   */
  readonly settle: (tenant: string, settled: ReadonlyArray<Settlement>) => Effect.Effect<void, SessionStoreError>
  /** Extends the reservations of calls that are still in flight. */
  readonly renew: (ids: ReadonlyArray<string>, expiresIn: number) => Effect.Effect<void, SessionStoreError>
  /** Reads the sums of a tenant; zeros if it is unknown. */
  readonly balance: (tenant: string) => Effect.Effect<Balance, SessionStoreError>
  /** Lists usage by day and model, for figures and bills. */
  readonly usage: (filter?: UsageFilter) => Effect.Effect<ReadonlyArray<UsageRow>, SessionStoreError>
  /**
   * Takes a place for a run among `most`. Returns false if none is free. A place expires like a reservation.
   */
  readonly enter: (
    tenant: string,
    id: string,
    most: number,
    expiresIn: number
  ) => Effect.Effect<boolean, SessionStoreError>
  /** Returns the place of a run. */
  readonly leave: (id: string) => Effect.Effect<void, SessionStoreError>
  /** Removes all data of a tenant. */
  readonly remove: (tenant: string) => Effect.Effect<void, SessionStoreError>
}

/** Service of the ledger. */
export class TenantLedger extends Context.Service<TenantLedger, Service>()("hermes-effect/store/TenantLedger") {}
