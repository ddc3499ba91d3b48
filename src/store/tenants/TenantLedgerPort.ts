/**
 * Ledger of the tenants' spending. The largest possible cost of a model call is reserved before the call and settled
 * after it, so that calls in flight cannot overrun a limit.
 *
 * **Details**
 *
 * A reservation and the settlements of earlier ones are one transaction of the store. A reservation that is not settled
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

/** Usage of ended model calls of one model, for figures and bills. */
export interface ModelUsage {
  readonly model: string
  readonly calls: number
  /**
   * Tokens by kind, and the cost in nanodollars. They are 0 for a call that the provider did not accept, and an
   * estimate for a call whose usage it did not report.
   */
  readonly inputTokens: number
  readonly outputTokens: number
  readonly nanos: number
}

/** The end of a reservation. */
export interface Settlement {
  /** Id of the reservation. */
  readonly id: string
  /** Usage of its calls. */
  readonly usage: ReadonlyArray<ModelUsage>
  /** Amounts of its calls that count against the limits. */
  readonly spent: Amounts
  /** Reservation that continues this one, for a call that is still in flight. It expires at the same time. */
  readonly rest?: { readonly id: string; readonly held: Amounts } | undefined
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
  /** Ends of earlier reservations of the tenant. */
  readonly settled: ReadonlyArray<Settlement>
  /**
   * Treatment of a call for which calls in flight leave too little room: `wait` refuses it with `Held`, `shrink` grants
   * the room that is left.
   */
  readonly whenHeld: "wait" | "shrink"
  /**
   * Largest number of further calls like this one for which the reservation has room, so that they need no request.
   * Room is granted while all reservations of the tenant take at most a 32nd of the rest of each limit. Defaults to 0.
   */
  readonly spareCalls?: number | undefined
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
      /** Amounts of the reservation, with the room for further calls. */
      readonly held: Amounts
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

/** Sums of a tenant in a backup. */
export interface SumsRow {
  readonly tenant: string
  readonly day: string
  readonly dayTokens: number
  readonly dayNanos: number
  readonly monthTokens: number
  readonly monthNanos: number
}

/** Reservation of a tenant in a backup. */
export interface ReservationRow {
  readonly id: string
  readonly tenant: string
  readonly tokens: number
  readonly nanos: number
  readonly output: number
  /** Time in milliseconds since 1970. */
  readonly expiresAt: number
  /** 1 if it has expired and is part of the sums, otherwise 0. */
  readonly isCounted: number
}

/** Rows of a ledger in a backup. The places of runs and the calls of the current minute are left out. */
export interface LedgerRows {
  readonly sums: ReadonlyArray<SumsRow>
  readonly reservations: ReadonlyArray<ReservationRow>
  readonly usage: ReadonlyArray<UsageRow>
}

/** Ledger of the tenants' spending. */
export interface Service {
  /** Settles earlier reservations, and reserves the cost of another one if the limits leave room for it. */
  readonly reserve: (request: ReserveRequest) => Effect.Effect<Decision, SessionStoreError>
  /**
   * Settles reservations of a tenant. One that is settled twice is counted once. Reservations of other tenants are not
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
  /** Reads all rows in one state of the ledger, for a backup. */
  readonly readRows: Effect.Effect<LedgerRows, SessionStoreError>
  /**
   * Adds the rows of a backup in one transaction. The larger sum and the larger usage of a row remain, and the later
   * day, so that nothing can be spent twice. Reservations are held again until they expire.
   */
  readonly addRows: (rows: LedgerRows) => Effect.Effect<void, SessionStoreError>
  /** Removes all data of a tenant. */
  readonly remove: (tenant: string) => Effect.Effect<void, SessionStoreError>
}

/** Service of the ledger. */
export class TenantLedger extends Context.Service<TenantLedger, Service>()("hermes-effect/store/TenantLedger") {}
