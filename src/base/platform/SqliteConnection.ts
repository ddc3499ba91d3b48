/**
 * Connections of `effect/sql` to an open SQLite database, and the failures of its statements.
 *
 * **Details**
 *
 * A connection runs statements directly one after the other, also those that are part of a transaction.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Connection } from "effect/sql/SqlConnection"
import { classifySqliteError, isSqlError, SqlError } from "effect/sql/SqlError"
import type { Database, Row } from "./SqliteFile.ts"

/** Converts what a statement throws to a typed failure of an operation. */
export const toSqlError =
  (operation: string) =>
  (thrown: unknown): SqlError => {
    if (isSqlError(thrown)) return thrown
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    // Node stores SQLite's result code in `errcode`, but the classifier reads `errno`.
    const cause =
      thrown instanceof Error && "errcode" in thrown ? Object.assign(thrown, { errno: thrown.errcode }) : thrown
    return new SqlError({ reason: classifySqliteError(cause, { message, operation }) })
  }

/** Tests whether an error means that another connection has locked the file. */
export const isLocked = (error: unknown): boolean => isSqlError(error) && error.reason._tag === "LockTimeoutError"

/** Creates a connection. `before` runs before each statement. */
export const makeConnection = (database: Database, before: () => void): Connection => {
  const tryRows = (rows: () => ReadonlyArray<Row>) =>
    Effect.try({
      try: () => {
        before()
        return rows()
      },
      catch: toSqlError("execute")
    })
  const execute: Connection["execute"] = (sql, parameters, transformRows) =>
    tryRows(() => {
      const rows = database.all(sql, parameters)
      return transformRows === undefined ? rows : transformRows(rows)
    })
  return {
    execute,
    executeRaw: (sql, parameters) => tryRows(() => database.all(sql, parameters)),
    executeStream: (sql, parameters, transformRows) =>
      Stream.fromIterableEffect(execute(sql, parameters, transformRows)),
    executeValues: (sql, parameters) =>
      Effect.map(
        tryRows(() => database.all(sql, parameters)),
        (rows) => rows.map(Object.values)
      ),
    executeValuesUnprepared: (sql, parameters) =>
      Effect.map(
        tryRows(() => database.once(sql, parameters)),
        (rows) => rows.map(Object.values)
      ),
    executeUnprepared: (sql, parameters, transformRows) =>
      tryRows(() => {
        const rows = database.once(sql, parameters)
        return transformRows === undefined ? rows : transformRows(rows)
      })
  }
}
