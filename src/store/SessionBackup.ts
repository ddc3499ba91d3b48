/**
 * The port that copies all sessions of a store to a backup and back: sessions, messages, usage, starts of calls, the
 * run record, and the questions of suspended runs with the results of their steps.
 *
 * **Details**
 *
 * Rows are copied as they are stored, so that a restored session is the same in every view. The search index, leases
 * and bookkeeping are left out: each store has its own. Rows have the same form for SQLite and Postgres, and move
 * between them.
 *
 * **Example** (Counting the rows of a store, table by table)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { SessionBackup } from "hermes-effect/sessions"
 *
 * export const countRows = Effect.gen(function*() {
 *   const counts = new Map<string, number>()
 *   const backup = yield* SessionBackup.SessionBackup
 *   yield* backup.read(({ rows, table }) =>
 *     Effect.sync(() => void counts.set(table, (counts.get(table) ?? 0) + rows.length))
 *   )
 *   return counts
 * })
 * ```
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { SessionBusy, SessionStoreError } from "../base/domain/AgentError.ts"

/** Tables of a backup, in the order in which their rows are restored. */
export const tableNames = [
  "sessions",
  "messages",
  "session_model_usage",
  "begun_calls",
  "run_record",
  "questions",
  "call_steps"
] as const

/** See {@link tableNames}. */
export type TableName = (typeof tableNames)[number]

/** Values of a row, by the names of their columns. */
export type Row = Readonly<Record<string, string | number | null>>

/** Some rows of a table, in their order. */
export interface TableRows {
  readonly table: TableName
  readonly rows: ReadonlyArray<Row>
}

/** Functions that copy a store. */
export interface Service {
  /**
   * Reads all rows in one state of the store, while other processes write. `onRows` receives them in the order of
   * {@link tableNames}.
   */
  readonly read: <E, R>(
    onRows: (part: TableRows) => Effect.Effect<void, E, R>
  ) => Effect.Effect<void, E | SessionStoreError, R>
  /**
   * Adds rows in one transaction: all of them or none. With `replace`, the sessions of the store are removed in the
   * same transaction; otherwise it fails if there are sessions. Fails with `SessionBusy` while a process uses a
   * session. If the connection to a server is lost, the stream is read again.
   */
  readonly write: <E, R>(
    parts: Stream.Stream<TableRows, E, R>,
    options: { readonly replace: boolean }
  ) => Effect.Effect<void, E | SessionBusy | SessionStoreError, R>
  /** Number of stored sessions. */
  readonly count: Effect.Effect<number, SessionStoreError>
}

/** Backup of a session store. */
export class SessionBackup extends Context.Service<SessionBackup, Service>()("hermes-effect/session/SessionBackup") {}
