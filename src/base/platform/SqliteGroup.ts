/**
 * Groups of transactions that are committed together, for many fibers that write at the same time.
 *
 * **Details**
 *
 * Transactions wait in one line. The first one leads a group: it begins it, runs, and gives way once, so that fibers
 * that are ready can join the line. Then it runs the transactions of the line in their order, each as a savepoint with
 * the context of its fiber, and commits. No transaction returns before its writes are in the log file, or is overtaken
 * by a later one. Effects that follow a transaction run in the order of the writes. A transaction that fails is rolled
 * back alone. If the commit fails, every transaction of the group fails.
 */
import type * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
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

/** A transaction in the line. */
interface Member {
  /** Runs the transaction as a savepoint. */
  readonly runSavepoint: (connection: Connection, onLost: (error: SqlError) => void) => Effect.Effect<void>
  /** Runs the Effects that follow the transaction, if it and the commit succeeded. */
  readonly runFollowing: (committed: Exit.Exit<void, SqlError>) => Effect.Effect<void>
  /** Completed with true if this transaction leads the next group, with false if it is finished. */
  readonly turn: Deferred.Deferred<boolean>
}

/** Maximum number of transactions in a group, which bounds the time for which others wait for the lock of the file. */
const maxMembers = 128

/** Creates a member, and the Effect that returns its result when it is finished. */
const makeMember = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  context: Context.Context<R>,
  runMember: GroupSteps["runMember"]
): readonly [Member, Effect.Effect<Ran<A>, E | SqlError>] => {
  let ran: Exit.Exit<Ran<A>, E | SqlError> | undefined
  const withOwnContext = <B, F>(inner: Effect.Effect<B, F, R>): Effect.Effect<B, F> =>
    Effect.updateContext(inner, () => context)
  const member: Member = {
    turn: Deferred.makeUnsafe(),
    runSavepoint: (connection, onLost) =>
      Effect.map(Effect.exit(withOwnContext(runMember(effect, onLost)(connection))), (exit) => {
        ran = exit
      }),
    runFollowing: (committed) =>
      Effect.suspend(() => {
        if (ran === undefined || Exit.isSuccess(ran)) {
          if (Exit.isFailure(committed)) ran = Exit.failCause(committed.cause)
          else if (ran !== undefined && ran.value.then.length > 0)
            return Effect.map(
              Effect.exit(withOwnContext(Effect.all(ran.value.then, { discard: true }))),
              (followed) => {
                if (Exit.isFailure(followed)) ran = Exit.failCause(followed.cause)
              }
            )
        }
        return Effect.void
      })
  }
  const result = Effect.suspend(() =>
    ran === undefined
      ? Effect.die(new Error("a transaction has no result"))
      : Exit.isFailure(ran)
        ? ran
        : Effect.succeed({ value: ran.value.value, then: [] })
  )
  return [member, result]
}

/** Creates the function that runs an Effect as a transaction of a group. */
export const makeGroupTransaction = ({ begin, borrower, commit, rollback, runMember }: GroupSteps) => {
  let line: Array<Member> = []
  let isLed = false

  /** Runs the transactions of the line, and returns those that ran. */
  const runLine = Effect.fnUntraced(function* (connection: Connection) {
    const members: Array<Member> = []
    let lost: SqlError | undefined
    const onLost = (error: SqlError): void => void (lost ??= error)
    for (let next = line.shift(); next !== undefined; next = line.shift()) {
      members.push(next)
      yield* next.runSavepoint(connection, onLost)
      // Fibers that are ready join the line.
      if (members.length === 1) yield* Effect.yieldNow
      if (lost !== undefined || members.length === maxMembers) break
    }
    return { members, lost }
  })

  /** Finishes members in their order. */
  const finishMembers = (members: ReadonlyArray<Member>, committed: Exit.Exit<void, SqlError>): Effect.Effect<void> =>
    Effect.forEach(
      members,
      ({ runFollowing, turn }) =>
        Effect.map(runFollowing(committed), () => void Deferred.doneUnsafe(turn, Exit.succeed(false))),
      { discard: true }
    )

  /** Fails all transactions of the line. */
  const failLine = (cause: Cause.Cause<SqlError>) =>
    Effect.suspend(() => {
      const members = line
      line = []
      return finishMembers(members, Exit.failCause(cause))
    })
  /** Runs a group. No other transaction begins before the Effects that follow its members have run. */
  const runGroup = borrower((connection) =>
    Effect.flatMap(Effect.exit(begin), (begun) => {
      // All of the line would wait for the same lock. Each is repeated by its own fiber.
      if (Exit.isFailure(begun)) return failLine(begun.cause)
      return Effect.flatMap(runLine(connection), ({ lost, members }) =>
        Effect.flatMap(
          Effect.exit(lost === undefined ? commit(connection) : Effect.andThen(rollback, Effect.fail(lost))),
          (committed) => finishMembers(members, committed)
        )
      )
    })
  )

  const leadGroup = Effect.andThen(
    Effect.catchCause(runGroup, failLine),
    Effect.sync(() => {
      const next = line[0]
      isLed = next !== undefined
      if (next !== undefined) Deferred.doneUnsafe(next.turn, Exit.succeed(true))
    })
  )

  /** Must not be interrupted. */
  const runInGroup = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Ran<A>, E | SqlError, R> =>
    Effect.contextWith((context: Context.Context<R>) => {
      const [member, result] = makeMember(effect, context, runMember)
      line.push(member)
      if (!isLed) {
        isLed = true
        return Effect.andThen(leadGroup, result)
      }
      return Effect.flatMap(Deferred.await(member.turn), (isLeader) =>
        isLeader ? Effect.andThen(leadGroup, result) : result
      )
    })

  return runInGroup
}
