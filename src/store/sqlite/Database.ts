/**
 * The open session database: its settings, and its operations for reading and writing.
 *
 * **Details**
 *
 * If another process holds the lock, a writer waits: one second inside SQLite, then again after a pause of 20 to 150
 * ms, for at most 15 seconds in total. A transaction is short and cannot be interrupted; a pause can be interrupted.
 *
 * In WAL mode (`synchronous = NORMAL`) a transaction is in the log file when it returns: killing the process loses
 * nothing. A power failure can lose the latest transactions, but never leaves a partial transaction; a checkpoint,
 * tried one second after a write, makes all earlier transactions safe. It runs in a fiber of the database, so that a
 * turn does not wait for the disk; a log that grows faster is also checkpointed by the writes. If the file system does
 * not support WAL, a rollback journal is used (`synchronous = FULL`), and a transaction that has returned also survives
 * a power failure.
 *
 * A database for many runs ({@link open} with `within`) collects the writes of a short time in one commit, because each
 * commit writes the same index pages again. Runs that use it wait for {@link Database.committed} before a tool begins
 * and before their results are written elsewhere.
 *
 * Source: `hermes-product.md` §4.1, `ARCHITECTURE.md` §8.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import type { Together } from "../../base/domain/RunRecorder.ts"
import * as SqliteClient from "../../base/platform/SqliteClient.ts"
import * as SqlFailure from "../../base/platform/SqlFailure.ts"
import type { Run } from "../sql/SqlStore.ts"
import * as Migrations from "./Migrations.ts"

/** An open session database. */
export interface Database {
  readonly sql: SqliteClient.Client
  /** Runs read-only statements. */
  readonly read: Run
  /**
   * Runs statements in one transaction: all of them or none. Inside {@link Database.together}, they are part of its
   * transaction.
   */
  readonly write: Run
  /**
   * Like `write`, but the statements run directly one after the other, without an Effect for each. It is used for the
   * writes in each step of a run.
   */
  readonly writeDirectly: <A>(
    operation: string,
    body: SqliteClient.Statements<A>
  ) => Effect.Effect<A, SessionStoreError>
  readonly together: Together
  /**
   * Waits until all previous writes are in the log file. `undefined` if every write is already in the file when it
   * returns.
   */
  readonly committed: Effect.Effect<void, SessionStoreError> | undefined
}

/** Time from a write to the checkpoint after it. */
const checkpointAfter = Duration.seconds(1)

/** Number of pages in the log from which a write makes the checkpoint itself: 16 MB. */
const maxLogPages = 4000

/** Size in bytes to which the log file is cut after it grew, for example behind a long read of another process. */
const maxLogBytes = 64 * 1024 * 1024

/** Converts a failure of SQLite to a failure of an operation, which contains the path. */
export const toStoreError =
  (path: string, operation: string) =>
  (error: SqlError): SessionStoreError =>
    new SessionStoreError({ operation, message: SqlFailure.describe(path, error), cause: error.reason.cause })

/**
 * Creates the database at `path` from its client. Every failure contains the path. `onWrite` runs after each commit.
 */
export const make = (path: string, sql: SqliteClient.Client, onWrite: () => void = () => {}): Database => {
  const runStatements: Run = (operation, effect) =>
    SqliteClient.retryWhileLocked(effect).pipe(
      Effect.catchTag("SqlError", (error) => Effect.fail(toStoreError(path, operation)(error)))
    )

  /** Runs a transaction, again while another process has locked the file. */
  const runTransaction = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError, R> => {
    const transaction = sql.transaction(effect)
    return Effect.matchCauseEffect(transaction, {
      onSuccess: (value) => {
        onWrite()
        return Effect.succeed(value)
      },
      onFailure: (cause) => Effect.tap(SqliteClient.retryWhileLocked(transaction, cause), () => Effect.sync(onWrite))
    })
  }

  const write: Run = (operation, effect) =>
    Effect.withFiber((fiber) =>
      Effect.catchTag(sql.isWithin(fiber) ? effect : runTransaction(effect), "SqlError", (error) =>
        Effect.fail(toStoreError(path, operation)(error))
      )
    )

  const writeDirectly: Database["writeDirectly"] = (operation, body) =>
    Effect.withFiber((fiber) =>
      sql.isWithin(fiber)
        ? Effect.fromResult(Result.mapError(sql.statementsUnsafe(body), toStoreError(path, operation)))
        : write(operation, sql.statements(body))
    )

  return {
    sql,
    read: runStatements,
    write,
    committed: sql.committed === undefined ? undefined : Effect.mapError(sql.committed, toStoreError(path, "commit")),
    writeDirectly,
    together: (writes) =>
      Effect.catchIf(runTransaction(writes), isSqlError, (error) => Effect.fail(toStoreError(path, "write")(error)))
  }
}

const configureLog = (sql: SqliteClient.Client): Effect.Effect<void, SqlError> =>
  SqliteClient.configure(sql).pipe(
    Effect.andThen(sql.unsafe(`PRAGMA wal_autocheckpoint = ${maxLogPages}`)),
    Effect.andThen(sql.unsafe(`PRAGMA journal_size_limit = ${maxLogBytes}`)),
    Effect.asVoid
  )

/** Moves the pages of the log into the file. A failure only means that the log grows until the next checkpoint. */
const makeCheckpoint = (sql: SqliteClient.Client): Effect.Effect<void> =>
  Effect.catchTag(Effect.asVoid(sql`PRAGMA wal_checkpoint(PASSIVE)`), "SqlError", (error) =>
    Effect.logDebug("checkpoint failed", error)
  )

/** Makes a checkpoint some time after the latch was opened by a write. It never ends. */
const runCheckpoints = (sql: SqliteClient.Client, written: Latch.Latch): Effect.Effect<never> =>
  written.await.pipe(
    Effect.andThen(Effect.sleep(checkpointAfter)),
    Effect.andThen(written.close),
    Effect.andThen(makeCheckpoint(sql)),
    Effect.forever
  )

/**
 * Opens the database in a file, and creates or migrates it if necessary. If `within` is given, writes within that time
 * share a commit. The database is closed with the scope.
 */
export const open = Effect.fnUntraced(function* (
  path: string,
  migrations: ReadonlyArray<Migrations.Migration> = Migrations.migrations,
  within?: Duration.Input
): Effect.fn.Return<Database, SessionStoreError, Scope.Scope> {
  const sql = yield* Effect.mapError(SqliteClient.open(path, within), toStoreError(path, "open"))
  const written = Latch.makeUnsafe()
  const database = make(path, sql, () => void written.openUnsafe())
  yield* database.read("open", Effect.andThen(configureLog(sql), Migrations.migrate(sql, path, migrations)))
  // An open transaction prevents checkpoints. SQLite itself makes them for a database for many runs.
  if (sql.committed === undefined) yield* Effect.forkScoped(runCheckpoints(sql, written))
  return database
})

/**
 * Opens the database in a file as {@link open} does. If that fails (a newer schema, a read-only directory, a full
 * disk), opens it read-only with a warning; if that also fails, returns the original failure.
 */
export const openForReading = (path: string): Effect.Effect<Database, SessionStoreError, Scope.Scope> =>
  Effect.catch(open(path), (failure) =>
    Effect.gen(function* () {
      const sql = yield* SqliteClient.openForReading(path)
      const database = make(path, sql)
      const version = yield* Migrations.readVersion(sql, path, Number.MAX_SAFE_INTEGER)
      // Tables with an older schema lack columns that are read.
      if (version < Migrations.migrations.length) return yield* failure
      yield* Effect.logWarning(`Sessions are opened for reading only: ${failure.message}`)
      return database
    }).pipe(Effect.mapError(() => failure))
  )
