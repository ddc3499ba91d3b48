/**
 * A `SqlClient` for Node's SQLite: one connection, shared through a semaphore. A transaction takes the write lock when
 * it begins, so that it never has to be repeated because of a write by another process.
 *
 * **Details**
 *
 * SQLite is loaded when the first database is opened. A missing file is created, readable only by its owner.
 *
 * {@link Client.transaction} and {@link Client.statements} are for writes at every step of a run, without the Effects
 * and spans that `effect/sql` creates for each statement.
 *
 * While many runs write ({@link Client.writer}), transactions of the same moment share a commit; see `SqliteGroup`.
 * With {@link Sharing}, the writes within a short period share one transaction. Each write is a savepoint in it, and is
 * visible at once to all users of the same client. If the process is killed, the latest writes may be lost, but an
 * earlier write is never lost while a later one survives. {@link Client.committed} is for data that must not be lost.
 * After a failed commit, all later writes fail.
 *
 * {@link configure} selects the journal of the file. {@link retryWhileLocked} waits for a locked file: one second
 * inside SQLite, then with retries after pauses of 20 to 150 ms, up to 15 seconds.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import { isLocked, makeConnection, toSqlError } from "./SqliteConnection.ts"
import * as SqliteFile from "./SqliteFile.ts"
import * as SqliteGroup from "./SqliteGroup.ts"

/** An open database. */
export type Database = SqliteFile.Database

export type Row = SqliteFile.Row

/** An active transaction. */
export interface Transaction {
  /**
   * Defers statements until the client runs its next statement or the transaction ends. Several calls of
   * {@link Client.statements} can therefore change one row with a single statement. If the transaction is rolled back,
   * they never run.
   */
  readonly putOff: (write: (all: Database["all"]) => void) => void
  readonly run: Database["run"]
}

export type Statements<A> = (all: Database["all"], transaction: Transaction) => A

/** A client that can also run transactions and statements with few Effects. */
export interface Client extends SqlClient.SqlClient {
  /**
   * Runs an Effect in one transaction. The transaction contains all statements that the fiber runs through the client
   * or through {@link Client.statements}. The transaction is uninterruptible and must not be nested in another
   * transaction.
   */
  readonly transaction: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | SqlError, R>
  /**
   * Announces a run that writes until the scope closes. While there are many, transactions of the same moment share
   * a commit.
   */
  readonly writer: Effect.Effect<void, never, Scope.Scope>
  /** Tests whether a fiber is inside a transaction. */
  readonly isWithin: (fiber: Fiber.Fiber<unknown, unknown>) => boolean
  /** Runs statements without interruption by others. Must be called inside a transaction of the fiber. */
  readonly statements: <A>(body: Statements<A>) => Effect.Effect<A, SqlError>
  /** Synchronous version of {@link Client.statements}. */
  readonly statementsUnsafe: <A>(body: Statements<A>) => Result.Result<A, SqlError>
  /** Number of transactions and savepoints that were rolled back. Facts from before a rollback may be wrong. */
  readonly rollbacks: () => number
  /**
   * Runs an Effect after the {@link Client.transaction} of the fiber, or at once outside a transaction. Such Effects
   * run in the order of the transactions. Unless commits are shared, they must not use the client.
   */
  readonly afterTransaction: <E extends SqlError = never>(effect: Effect.Effect<void, E>) => Effect.Effect<void, E>
  /** Commits all writes made so far; absent if each write is committed separately. */
  readonly committed: Effect.Effect<void, SqlError> | undefined
}

/** Options for a shared commit of all writes within a short period. */
export interface Sharing {
  /** Maximum time between a write and its commit. */
  readonly within: Duration.Input
  /** Scope of the client. */
  readonly scope: Scope.Scope
}

const beginTransaction = "BEGIN IMMEDIATE"

/** The steps of a transaction. */
interface Bounds {
  readonly enter: (all: Database["all"]) => void
  readonly leave: (all: Database["all"]) => void
  readonly onLeaveFailure: (error: SqlError) => Effect.Effect<void, SqlError>
  readonly takeBack: (cause: Cause.Cause<unknown>) => Effect.Effect<void, SqlError>
}

/** Returns the result of a transaction, from its value and the Effects that follow it. */
type Finish<A, B> = (value: A, then: SqliteGroup.Ran<A>["then"]) => Effect.Effect<B, SqlError>

/** Runs the Effects that follow a transaction. */
const follow: <A>(...ran: Parameters<Finish<A, A>>) => Effect.Effect<A, SqlError> = (value, then) =>
  then.length === 0 ? Effect.succeed(value) : Effect.as(Effect.all(then, { discard: true }), value)

const toRan: <A>(...ran: Parameters<Finish<A, A>>) => Effect.Effect<SqliteGroup.Ran<A>> = (value, then) =>
  Effect.succeed({ value, then })

/**
 * Number of runs from which transactions of the same moment share a commit. A group costs each of its transactions a
 * wait, which few runs do not gain back.
 */
const groupFrom = 8

const savepoint = "one_write"

/** Creates the client of an open database. */
export const make = Effect.fnUntraced(function* (database: Database, sharing?: Sharing): Effect.fn.Return<Client> {
  /** Deferred statements of the active transaction. */
  let late: Array<(all: Database["all"]) => void> = []
  const runLateWrites = (): void => {
    for (let write = late[0]; write !== undefined; write = late[0]) {
      // If a deferred statement fails, the transaction fails too.
      write(database.all)
      late.shift()
    }
  }
  const putOff: Transaction["putOff"] = (write) => void late.push(write)
  const makeTransaction = (): Transaction => ({ putOff, run: database.run })
  /** The active transaction. Only one transaction is active at a time. A new object is created for each transaction. */
  let current = makeTransaction()
  const renewTransaction = (): void => {
    late = []
    current = makeTransaction()
  }

  const connection = makeConnection(database, runLateWrites)
  const semaphore = yield* Semaphore.make(1)
  const acquirers = SqlClient.makeSqliteAcquirers({
    connection: Effect.succeed(connection),
    semaphore,
    isTransaction: () => database.isTransaction()
  })
  /** True after a failed commit whose transaction could not be rolled back. */
  let isUnclean = false
  const onCommitFailure: typeof acquirers.onCommitFailure = (failing) =>
    Effect.tapCause(acquirers.onCommitFailure(failing), () => Effect.sync(() => void (isUnclean = true)))
  const client = yield* SqlClient.make({
    ...acquirers,
    onCommitFailure,
    compiler: Statement.makeCompilerSqlite(),
    driver: "node:sqlite",
    spanAttributes: [["db.system.name", "sqlite"]],
    beginTransaction,
    prepareTransactionControls: true
  }).pipe(Effect.provide(Reactivity.layer))

  const isWithin: Client["isWithin"] = (fiber) =>
    Context.getOrUndefined(fiber.context, client.transactionService) !== undefined
  const failed = toSqlError("execute")
  const statementsUnsafe: Client["statementsUnsafe"] = (body) =>
    Result.try({ try: () => body(database.all, current), catch: failed })
  const statements: Client["statements"] = (body) => Effect.suspend(() => Effect.fromResult(statementsUnsafe(body)))

  let rollbacks = 0
  /** Effects that run after the active transaction. */
  let afterwards: Array<Effect.Effect<void, SqlError>> = []
  const startTransaction = (all: Database["all"]): void => {
    if (isUnclean && database.isTransaction()) all("ROLLBACK", [])
    isUnclean = false
    all(beginTransaction, [])
    afterwards = []
  }
  const commitTransaction = (all: Database["all"]): void => void all("COMMIT", [])
  const rollback = Effect.orDie(
    statements((all) => {
      rollbacks++
      // SQLite ends a transaction itself after some failures.
      if (database.isTransaction()) all("ROLLBACK", [])
    })
  )

  const runWithin = <A, B, E, R>(
    { enter, leave, onLeaveFailure, takeBack }: Bounds,
    effect: Effect.Effect<A, E, R>,
    finish: Finish<A, B>
  ): Effect.Effect<B, E | SqlError, R> =>
    Effect.suspend(() => {
      try {
        enter(database.all)
      } catch (thrown) {
        return Effect.fail(failed(thrown))
      }
      renewTransaction()
      const giveUp = <F>(cause: Cause.Cause<F>): Effect.Effect<never, F | SqlError> => {
        renewTransaction()
        return Effect.andThen(takeBack(cause), Effect.failCause(cause))
      }
      return Effect.matchCauseEffect(Effect.provideService(effect, client.transactionService, [connection, 0]), {
        onFailure: giveUp<E>,
        onSuccess: (value): Effect.Effect<B, SqlError> => {
          try {
            runLateWrites()
          } catch (thrown) {
            return giveUp(Cause.fail(failed(thrown)))
          }
          try {
            leave(database.all)
          } catch (thrown) {
            const error = failed(thrown)
            return Effect.andThen(onLeaveFailure(error), Effect.fail(error))
          }
          return finish(value, afterwards)
        }
      })
    })

  const undoCommit = Effect.suspend(() => {
    rollbacks++
    return Effect.orDie(onCommitFailure(connection))
  })
  const single: Bounds = {
    enter: startTransaction,
    leave: commitTransaction,
    onLeaveFailure: () => undoCommit,
    takeBack: () => rollback
  }
  /** Runs a transaction, and then the Effects that follow it. No other transaction begins before the end. */
  const alone: Client["transaction"] = (effect) =>
    Effect.uninterruptible(semaphore.withPermit(runWithin(single, effect, follow)))

  const leaveSavepoint = (all: Database["all"]): void => void all(`RELEASE ${savepoint}`, [])
  const undoSavepoint = Effect.orDie(
    statements((all) => {
      rollbacks++
      all(`ROLLBACK TO ${savepoint}`, [])
      all(`RELEASE ${savepoint}`, [])
    })
  )

  /** A transaction of a group, which rolls back the group if the transaction fails. */
  const flat: Bounds = {
    enter: () => void (afterwards = []),
    leave: () => {},
    onLeaveFailure: () => Effect.void,
    takeBack: () => Effect.void
  }
  const makeSavepoint = (onLost: (error: SqlError) => void): Bounds => ({
    enter: (all) => {
      all(`SAVEPOINT ${savepoint}`, [])
      afterwards = []
    },
    leave: leaveSavepoint,
    onLeaveFailure: (error) => Effect.sync(() => onLost(error)),
    takeBack: (cause) =>
      // SQLite ends the whole transaction after some failures, as on a full disk.
      database.isTransaction() ? undoSavepoint : Effect.sync(() => onLost(failed(Cause.squash(cause))))
  })
  let writers = 0
  const runInGroup = SqliteGroup.makeGroupTransaction({
    hold: semaphore.withPermit,
    begin: statements(startTransaction),
    commit: Effect.tapError(statements(commitTransaction), () => undoCommit),
    rollback,
    runFlat: (effect) => runWithin(flat, effect, toRan),
    runSavepoint: (effect, onLost) => runWithin(makeSavepoint(onLost), effect, toRan)
  })
  const runSeparately: Client["transaction"] = (effect) =>
    Effect.suspend(() => (writers >= groupFrom ? Effect.uninterruptible(runInGroup(effect)) : alone(effect)))

  const shareCommits = ({ scope, within }: Sharing) => {
    let isOpen = false
    let isDue = false
    let lost: SqlError | undefined

    /**
     * Records that the shared transaction ended without a commit. Data that callers regard as written is therefore
     * missing.
     */
    const loseTransaction = (error: SqlError) =>
      Effect.andThen(
        rollback,
        Effect.suspend(() => {
          isOpen = false
          return Effect.fail((lost ??= error))
        })
      )
    const commitOpen = Effect.suspend(() => {
      if (lost !== undefined) return Effect.fail(lost)
      if (!isOpen) return Effect.void
      return Effect.matchEffect(statements(commitTransaction), {
        onSuccess: () => Effect.sync(() => void (isOpen = false)),
        // If the file is locked, the transaction remains open and the commit is retried.
        onFailure: (error) => (isLocked(error) ? Effect.fail(error) : loseTransaction(error))
      })
    })
    const inLine = acquirers.borrower(() => commitOpen)
    const committed = Effect.suspend(() =>
      isOpen || lost !== undefined
        ? Effect.uninterruptible(
            Effect.catch(retryWhileLocked(inLine), (error) => acquirers.borrower(() => loseTransaction(error)))
          )
        : Effect.void
    )
    const later = Effect.sleep(within).pipe(
      Effect.andThen(Effect.sync(() => void (isDue = false))),
      // The failure is ignored here, because the next write reports it.
      Effect.andThen(Effect.ignore(committed))
    )
    const one: Bounds = {
      enter: (all) => {
        if (lost !== undefined) throw lost
        if (!isOpen) startTransaction(all)
        isOpen = true
        all(`SAVEPOINT ${savepoint}`, [])
        afterwards = []
      },
      leave: leaveSavepoint,
      onLeaveFailure: loseTransaction,
      takeBack: (cause) => {
        // SQLite ends the whole transaction after some failures, as on a full disk.
        if (!database.isTransaction()) return loseTransaction(failed(Cause.squash(cause)))
        return undoSavepoint
      }
    }
    /** Runs what follows without the connection, because a commit takes it. */
    const runOne: Client["transaction"] = (effect) =>
      Effect.uninterruptible(
        Effect.flatMap(semaphore.withPermit(runWithin(one, effect, toRan)), ({ then, value }) => follow(value, then))
      )
    const due = Effect.suspend(() => {
      if (isDue || !isOpen) return Effect.void
      isDue = true
      return Effect.asVoid(Effect.forkIn(later, scope))
    })
    const transaction: Client["transaction"] = (effect) => Effect.ensuring(runOne(effect), due)
    return { committed, transaction }
  }

  const { committed, transaction } =
    sharing === undefined ? { committed: undefined, transaction: runSeparately } : shareCommits(sharing)

  return Object.assign(client, {
    transaction,
    writer: Effect.acquireRelease(
      Effect.sync(() => void writers++),
      () => Effect.sync(() => void writers--)
    ),
    isWithin,
    rollbacks: () => rollbacks,
    statements,
    statementsUnsafe,
    committed,
    afterTransaction: <E extends SqlError = never>(effect: Effect.Effect<void, E>) =>
      Effect.withFiber<void, E>((fiber) => {
        if (!isWithin(fiber)) return effect
        afterwards.push(effect)
        return Effect.void
      })
  })
})

const openClient = Effect.fnUntraced(function* (
  file: () => Promise<Database>,
  within?: Duration.Input
): Effect.fn.Return<Client, SqlError, Scope.Scope> {
  const database = yield* Effect.acquireRelease(
    Effect.tryPromise({ try: file, catch: toSqlError("open") }),
    (database) => Effect.sync(() => database.close())
  )
  if (within === undefined) return yield* make(database)
  const scope = yield* Effect.scope
  const client = yield* make(database, { within, scope })
  const { committed = Effect.void } = client
  yield* Scope.addFinalizer(
    scope,
    Effect.catch(committed, ({ message }) => Effect.logWarning(`The last writes are not kept: ${message}`))
  )
  return client
})

/**
 * Opens the client of the database in a file, which is closed with the scope. If `within` is set, the writes within
 * that time share a commit.
 */
export const open = (path: string, within?: Duration.Input) => openClient(() => SqliteFile.openFile(path), within)

/** Opens an existing file for reading only; neither the file nor its directory need be writable. */
export const openForReading = (path: string) => openClient(() => SqliteFile.openFileForReading(path))

const contention = Schedule.forever.pipe(
  Schedule.addDelay(() => Random.nextIntBetween(20, 150)),
  Schedule.upTo({ duration: "15 seconds" })
)

/**
 * Repeats statements while another process has locked the file, for at most 15 seconds. `failed` is the failure of a
 * first attempt, if there was one.
 */
export const retryWhileLocked = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  failed?: Cause.Cause<E>
): Effect.Effect<A, E, R> =>
  Effect.catchIf(failed === undefined ? effect : Effect.failCause(failed), isLocked, (error) => {
    let first: Effect.Effect<A, E, R> | undefined = Effect.fail(error)
    const again = Effect.suspend(() => {
      const next = first ?? effect
      first = undefined
      return next
    })
    return Effect.retry(again, { while: isLocked, schedule: contention })
  })

/** Selects a write-ahead log, or a rollback journal if the file system does not support a write-ahead log. */
export const configure = Effect.fnUntraced(function* (sql: SqlClient.SqlClient): Effect.fn.Return<void, SqlError> {
  const [journal] = yield* sql<{ readonly journal_mode: string }>`PRAGMA journal_mode = WAL`.pipe(
    Effect.catchIf(
      (error) => !isLocked(error),
      () => sql<{ readonly journal_mode: string }>`PRAGMA journal_mode = DELETE`
    )
  )
  yield* journal?.journal_mode === "wal" ? sql`PRAGMA synchronous = NORMAL` : sql`PRAGMA synchronous = FULL`
})
