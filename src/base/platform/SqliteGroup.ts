/**
 * Groups of transactions that are committed together, for many fibers that write at the same time.
 *
 * **Details**
 *
 * The first transaction of a group begins it and gives way once. Transactions of fibers that are ready to run
 * meanwhile join it, each as a savepoint. Then the group is committed, and all of its transactions return: none returns
 * before its writes are in the log file. A transaction that fails is rolled back alone. If the commit fails, every
 * transaction of the group fails.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Semaphore from "effect/Semaphore"
import type { Borrower, Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"

/** Result of a transaction, with the Effects that run after its commit. */
export interface Ran<A> {
  readonly value: A
  readonly then: ReadonlyArray<Effect.Effect<void, SqlError>>
}

/** The steps of which a group consists. */
interface GroupSteps {
  readonly borrower: Borrower
  readonly begin: Effect.Effect<void, SqlError>
  /** Runs an Effect as a savepoint. `onLost` is called if the whole transaction ended because the Effect failed. */
  readonly runMember: <A, E, R>(
    effect: Effect.Effect<A, E, R>,
    onLost: (error: SqlError) => void
  ) => (connection: Connection) => Effect.Effect<Ran<A>, E | SqlError, R>
  /** Commits the transaction. It is rolled back if that fails. */
  readonly commit: (connection: Connection) => Effect.Effect<void, SqlError>
  readonly rollback: Effect.Effect<void>
}

/** A transaction that others may join. */
interface Group {
  readonly connection: Connection
  readonly committed: Deferred.Deferred<void, SqlError>
  /** Error of the member with which SQLite ended the whole transaction. */
  lost: SqlError | undefined
}

/** Creates the function that runs an Effect as a transaction of a group. */
export const makeGroupTransaction = ({ begin, borrower, commit, rollback, runMember }: GroupSteps) => {
  let open: Group | undefined
  /** Only one transaction of a group runs at a time. */
  const line = Semaphore.makeUnsafe(1)

  const loseGroup = (group: Group) => (error: SqlError) => {
    group.lost ??= error
    open = undefined
  }

  const endGroup = (group: Group): Effect.Effect<void, SqlError> =>
    line.withPermit(
      Effect.suspend(() => {
        open = undefined
        const end =
          group.lost === undefined ? commit(group.connection) : Effect.andThen(rollback, Effect.fail(group.lost))
        return Effect.onExit(end, (exit) => Effect.asVoid(Deferred.done(group.committed, exit)))
      })
    )

  const leadGroup = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Ran<A>, E | SqlError, R> =>
    borrower((connection) =>
      Effect.andThen(
        begin,
        Effect.suspend((): Effect.Effect<Ran<A>, E | SqlError, R> => {
          const group: Group = { connection, committed: Deferred.makeUnsafe(), lost: undefined }
          open = group
          return line.withPermit(Effect.exit(runMember(effect, loseGroup(group))(connection))).pipe(
            // Fibers that are ready join the group.
            Effect.tap(() => Effect.yieldNow),
            Effect.flatMap((exit: Exit.Exit<Ran<A>, E | SqlError>) => Effect.andThen(endGroup(group), exit))
          )
        })
      )
    )

  const runInGroup = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Ran<A>, E | SqlError, R> =>
    Effect.suspend((): Effect.Effect<Ran<A>, E | SqlError, R> => {
      const group = open
      if (group === undefined) return leadGroup(effect)
      const joined = line.withPermit(
        Effect.suspend(() =>
          open === group ? runMember(effect, loseGroup(group))(group.connection) : Effect.undefined
        )
      )
      return Effect.flatMap(joined, (ran) =>
        // The group ended while this transaction was in the line.
        ran === undefined ? runInGroup(effect) : Effect.as(Deferred.await(group.committed), ran)
      )
    })

  return runInGroup
}
