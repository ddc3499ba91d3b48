/**
 * Groups of transactions that are committed together, for many fibers that write at the same time.
 *
 * **Details**
 *
 * The first transaction of a group begins it and gives way once. Transactions of fibers that are ready to run
 * meanwhile join it, each as a savepoint. Then the group is committed, and all of its transactions return: none returns
 * before its writes are in the log file. Effects that follow a transaction run in the order of the writes. A transaction
 * that fails is rolled back alone. If the commit fails, every transaction of the group fails.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
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

/** A transaction that joined a group, after its writes. */
interface Member {
  readonly then: Ran<unknown>["then"]
  /** Completed after the commit and after `then`. */
  readonly finished: Deferred.Deferred<void, SqlError>
}

/** A transaction that others may join. */
interface Group {
  readonly connection: Connection
  /** In the order of their writes. */
  readonly members: Array<Member>
  /** Error of the member with which SQLite ended the whole transaction. */
  lost: SqlError | undefined
}

/** Runs the Effects that follow the transactions of a group, one transaction after the other. */
const finishMembers = (members: ReadonlyArray<Member>, committed: Exit.Exit<void, SqlError>): Effect.Effect<void> =>
  Effect.forEach(
    members,
    ({ finished, then }) =>
      Effect.flatMap(
        Exit.isFailure(committed) ? Effect.succeed(committed) : Effect.exit(Effect.all(then, { discard: true })),
        (exit) => Deferred.done(finished, exit)
      ),
    { discard: true }
  )

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
        return group.lost === undefined ? commit(group.connection) : Effect.andThen(rollback, Effect.fail(group.lost))
      })
    )

  /** Returns the result of the first transaction, after the Effects that follow all transactions of the group. */
  const finishGroup = <A, E>(
    own: Exit.Exit<Ran<A>, E | SqlError>,
    committed: Exit.Exit<void, SqlError>,
    members: ReadonlyArray<Member>
  ): Effect.Effect<Ran<A>, E | SqlError> => {
    const finishOthers = finishMembers(members, committed)
    if (Exit.isFailure(committed)) return Effect.andThen(finishOthers, Effect.failCause(committed.cause))
    if (Exit.isFailure(own)) return Effect.andThen(finishOthers, Effect.failCause(own.cause))
    const { then, value } = own.value
    const finished = Effect.ensuring(Effect.all(then, { discard: true }), finishOthers)
    return Effect.as(finished, { value, then: [] })
  }

  const leadGroup = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Ran<A>, E | SqlError, R> =>
    borrower((connection) =>
      Effect.andThen(
        begin,
        Effect.suspend(() => {
          const group: Group = { connection, members: [], lost: undefined }
          open = group
          return line.withPermit(Effect.exit(runMember(effect, loseGroup(group))(connection))).pipe(
            // Fibers that are ready join the group.
            Effect.tap(() => Effect.yieldNow),
            Effect.flatMap((own) =>
              // No other transaction begins before these Effects have run.
              Effect.flatMap(Effect.exit(endGroup(group)), (committed) => finishGroup(own, committed, group.members))
            )
          )
        })
      )
    )

  const joinGroup = <A, E, R>(group: Group, effect: Effect.Effect<A, E, R>) =>
    Effect.map(runMember(effect, loseGroup(group))(group.connection), ({ then, value }) => {
      const finished = Deferred.makeUnsafe<void, SqlError>()
      group.members.push({ then, finished })
      return { value, finished }
    })

  const runInGroup = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Ran<A>, E | SqlError, R> =>
    Effect.suspend((): Effect.Effect<Ran<A>, E | SqlError, R> => {
      const group = open
      if (group === undefined) return leadGroup(effect)
      const joined = line.withPermit(
        Effect.suspend(() => (open === group ? joinGroup(group, effect) : Effect.undefined))
      )
      return Effect.flatMap(joined, (member) =>
        // The group ended while this transaction was in the line.
        member === undefined
          ? runInGroup(effect)
          : Effect.as(Deferred.await(member.finished), { value: member.value, then: [] })
      )
    })

  return runInGroup
}
