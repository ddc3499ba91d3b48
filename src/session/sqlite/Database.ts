/**
 * The open session database: its settings, and the two ways to use it.
 *
 * **Details**
 *
 * Writers queue: another process that holds the lock is waited for, one second inside SQLite and then again after a pause of
 * 20 to 150 ms, until 15 seconds are over. A transaction is short and is not interrupted; the pauses are.
 *
 * In WAL mode (`synchronous = NORMAL`) a transaction is in the log file when it returns: killing the process loses nothing. A
 * power cut can lose the latest transactions and never leaves half of one; a checkpoint, tried every 50 writes, secures what
 * came before it. Where the file system cannot do WAL the journal is a rollback journal (`synchronous = FULL`), and what
 * returned survives a power cut as well.
 *
 * Source: `hermes-product.md` §4.1, `ARCHITECTURE.md` §8.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../domain/AgentError.ts"
import * as SqliteClient from "../../platform/SqliteClient.ts"
import * as SqlFailure from "../../platform/SqlFailure.ts"
import * as Migrations from "./Migrations.ts"

/** An open session database. */
export interface Database {
  readonly sql: SqlClient
  /** Runs statements that change nothing. */
  readonly read: Run
  /** Runs statements in one transaction: all of them are done or none. */
  readonly write: Run
}

/** Runs statements on behalf of an operation of the store, which its failures name. */
export type Run = <A>(
  operation: string,
  effect: Effect.Effect<A, SqlError | SessionStoreError>
) => Effect.Effect<A, SessionStoreError>

/** Writes between two checkpoints. */
const checkpointEvery = 50

const failureOf = (path: string, operation: string) => (error: SqlError): SessionStoreError =>
  new SessionStoreError({ operation, message: SqlFailure.describe(path, error), cause: error.reason.cause })

/** The database at `path` by its client. Every failure names the path. */
export const make = (path: string, sql: SqlClient): Database => {
  const run: Run = (operation, effect) =>
    SqliteClient.waiting(effect).pipe(
      Effect.catchTag("SqlError", (error) => Effect.fail(failureOf(path, operation)(error)))
    )

  let writes = 0
  const checkpoint = Effect.suspend(() =>
    ++writes % checkpointEvery === 0
      // The log goes on growing without it, and the next checkpoint makes up for it.
      ? Effect.catchTag(sql`PRAGMA wal_checkpoint(PASSIVE)`, "SqlError", (error) =>
        Effect.logDebug("checkpoint failed", error))
      : Effect.void
  )

  return {
    sql,
    read: run,
    write: (operation, effect) =>
      Effect.tap(run(operation, Effect.uninterruptible(sql.withTransaction(effect))), () => checkpoint)
  }
}

/** Opens the database in a file, creating or migrating it where it must be. It is closed with the scope. */
export const open = Effect.fnUntraced(function*(
  path: string,
  migrations: ReadonlyArray<Migrations.Migration> = Migrations.migrations
): Effect.fn.Return<Database, SessionStoreError, Scope.Scope> {
  const sql = yield* Effect.mapError(SqliteClient.open(path), failureOf(path, "open"))
  const database = make(path, sql)
  yield* database.read("open", Effect.andThen(SqliteClient.configure(sql), Migrations.migrate(sql, path, migrations)))
  return database
})
