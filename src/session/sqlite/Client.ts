/**
 * A `SqlClient` over Node's SQLite: one connection, shared through a semaphore. A transaction takes the write lock when it
 * begins, so that it never has to be repeated because another process wrote in between.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { classifySqliteError, SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as NodeSqlite from "../internal/NodeSqlite.ts"

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
