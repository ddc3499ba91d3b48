/**
 * A `SqlClient` over Node's SQLite: one connection, shared through a semaphore. A transaction takes the write lock when it
 * begins, so that it never has to be repeated because another process wrote in between.
 *
 * **Details**
 *
 * {@link configure} chooses the journal of the file, {@link waiting} how long a locked file is waited for: one second inside
 * SQLite and then again after a pause of 20 to 150 ms, until 15 seconds are over.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { classifySqliteError, isSqlError, SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as NodeSqlite from "./NodeSqlite.ts"

const sqlError = (operation: string) => (thrown: unknown): SqlError => {
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  // Node has SQLite's result code in `errcode`, the classifier looks for it in `errno`.
  const cause = thrown instanceof Error && "errcode" in thrown
    ? Object.assign(thrown, { errno: thrown.errcode })
    : thrown
  return new SqlError({ reason: classifySqliteError(cause, { message, operation }) })
}

const connect = (database: NodeSqlite.Database): Connection => {
  const run = (rows: () => ReadonlyArray<NodeSqlite.Row>) => Effect.try({ try: rows, catch: sqlError("execute") })
  const execute: Connection["execute"] = (sql, parameters, transformRows) =>
    run(() => {
      const rows = database.all(sql, parameters)
      return transformRows === undefined ? rows : transformRows(rows)
    })
  return {
    execute,
    executeRaw: (sql, parameters) => run(() => database.all(sql, parameters)),
    executeStream: (sql, parameters, transformRows) =>
      Stream.fromIterableEffect(execute(sql, parameters, transformRows)),
    executeValues: (sql, parameters) =>
      Effect.map(run(() => database.all(sql, parameters)), (rows) => rows.map(Object.values)),
    executeValuesUnprepared: (sql, parameters) =>
      Effect.map(run(() => database.once(sql, parameters)), (rows) => rows.map(Object.values)),
    executeUnprepared: (sql, parameters, transformRows) =>
      run(() => {
        const rows = database.once(sql, parameters)
        return transformRows === undefined ? rows : transformRows(rows)
      })
  }
}

/** The client of an open database. */
export const make = (database: NodeSqlite.Database): Effect.Effect<SqlClient.SqlClient> =>
  Effect.flatMap(Semaphore.make(1), (semaphore) =>
    SqlClient.make({
      ...SqlClient.makeSqliteAcquirers({
        connection: Effect.succeed(connect(database)),
        semaphore,
        isTransaction: () => database.isTransaction()
      }),
      compiler: Statement.makeCompilerSqlite(),
      driver: "node:sqlite",
      spanAttributes: [["db.system.name", "sqlite"]],
      beginTransaction: "BEGIN IMMEDIATE",
      prepareTransactionControls: true
    })).pipe(Effect.provide(Reactivity.layer))

/** The client of the database in a file. It is closed with the scope. */
export const open = (path: string): Effect.Effect<SqlClient.SqlClient, SqlError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.tryPromise({ try: () => NodeSqlite.open(path), catch: sqlError("open") }),
    (database) => Effect.sync(() => database.close())
  ).pipe(Effect.flatMap(make))

/** Tests for a file that another connection holds locked. */
const isLocked = (error: unknown): boolean => isSqlError(error) && error.reason._tag === "LockTimeoutError"

const contention = Schedule.forever.pipe(
  Schedule.addDelay(() => Random.nextIntBetween(20, 150)),
  Schedule.upTo({ duration: "15 seconds" })
)

/** Repeats statements while another process holds the file locked, for 15 seconds at most. */
export const waiting = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.retry(effect, { while: isLocked, schedule: contention })

/** Chooses a write-ahead log, or a rollback journal where the file system cannot do that. */
export const configure = Effect.fnUntraced(function*(sql: SqlClient.SqlClient): Effect.fn.Return<void, SqlError> {
  const [journal] = yield* sql<{ readonly journal_mode: string }>`PRAGMA journal_mode = WAL`.pipe(
    Effect.catchIf((error) => !isLocked(error), () => sql<{ readonly journal_mode: string }>`PRAGMA journal_mode = DELETE`)
  )
  yield* journal?.journal_mode === "wal" ? sql`PRAGMA synchronous = NORMAL` : sql`PRAGMA synchronous = FULL`
})
