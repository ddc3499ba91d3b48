/**
 * Groups of transactions that are committed together, for many fibers that write at the same time.
 *
 * **Details**
 *
 * Transactions wait in one line. The first one leads a group: it begins it, runs, and gives way once, so that fibers
 * that are ready can join the line. Then it runs the transactions of the line in their order, with the context of each
 * fiber, and commits. No transaction returns before its writes are in the log file, or is overtaken by a later one.
 * Effects that follow a transaction run in the order of the writes. If a transaction fails, the group is rolled back,
 * and its transactions run again, each as a savepoint, so that the failed one is rolled back alone. If the commit
 * fails, every transaction of the group fails.
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { SqlError } from "effect/sql/SqlError"

/** Result of a transaction, with the Effects that run after its commit. */
export interface Ran<A> {
  readonly value: A
  readonly then: ReadonlyArray<Effect.Effect<void, SqlError>>
}

/** The steps of which a group consists. */
interface GroupSteps {
  /** Runs an Effect while it holds the connection. */
  readonly hold: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly begin: Effect.Effect<void, SqlError>
  /** Runs an Effect in the transaction. The transaction must be rolled back if that fails. */
  readonly runFlat: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<Ran<A>, E | SqlError, R>
  /** Runs an Effect as a savepoint. `onLost` is called if the whole transaction ended because the Effect failed. */
  readonly runSavepoint: <A, E, R>(
    effect: Effect.Effect<A, E, R>,
    onLost: (error: SqlError) => void
  ) => Effect.Effect<Ran<A>, E | SqlError, R>
  /** Commits the transaction. It is rolled back if that fails. */
  readonly commit: Effect.Effect<void, SqlError>
  readonly rollback: Effect.Effect<void>
}

/** A transaction in the line. */
interface Member {
  /** Runs the transaction, and returns true if it succeeded. */
  readonly runFlat: Effect.Effect<boolean>
  /** Runs the transaction as a savepoint. */
  readonly runSavepoint: (onLost: (error: SqlError) => void) => Effect.Effect<boolean>
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
  { runFlat, runSavepoint }: Pick<GroupSteps, "runFlat" | "runSavepoint">
): readonly [Member, Effect.Effect<A, E | SqlError>] => {
  let ran: Exit.Exit<Ran<A>, E | SqlError> | undefined
  const withOwnContext = <B, F>(inner: Effect.Effect<B, F, R>): Effect.Effect<B, F> =>
    Effect.updateContext(inner, () => context)
  const noteEnd = (run: Effect.Effect<Ran<A>, E | SqlError, R>): Effect.Effect<boolean> =>
    Effect.matchCause(withOwnContext(run), {
      onFailure: (cause) => {
        ran = Exit.failCause(cause)
        return false
      },
      onSuccess: (value) => {
        ran = Exit.succeed(value)
        return true
      }
    })
  const member: Member = {
    turn: Deferred.makeUnsafe(),
    runFlat: noteEnd(runFlat(effect)),
    runSavepoint: (onLost) => noteEnd(runSavepoint(effect, onLost)),
    runFollowing: (committed) => {
      if (ran !== undefined && Exit.isFailure(ran)) return Effect.void
      if (Exit.isFailure(committed)) ran = Exit.failCause(committed.cause)
      else if (ran !== undefined && ran.value.then.length > 0)
        return Effect.matchCause(withOwnContext(Effect.all(ran.value.then, { discard: true })), {
          onFailure: (cause) => void (ran = Exit.failCause(cause)),
          onSuccess: () => {}
        })
      return Effect.void
    }
  }
  const result = Effect.suspend(() =>
    ran === undefined ? Effect.die(new Error("a transaction has no result")) : Exit.map(ran, ({ value }) => value)
  )
  return [member, result]
}

/** Creates the function that runs an Effect as a transaction of a group. */
export const makeGroupTransaction = ({ begin, commit, hold, rollback, ...runs }: GroupSteps) => {
  let line: Array<Member> = []
  let isLed = false

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

  /** Runs the transactions of the line until one fails. Returns those that ran. */
  const runLine = Effect.fnUntraced(function* () {
    const members: Array<Member> = []
    let isDone = true
    for (let next = line.shift(); next !== undefined; next = line.shift()) {
      members.push(next)
      isDone = yield* next.runFlat
      // Fibers that are ready join the line.
      if (isDone && members.length === 1) yield* Effect.yieldNow
      if (!isDone || members.length === maxMembers) break
    }
    return { isDone, members }
  })

  /** Runs transactions again, each as a savepoint. Later ones return to the line if the transaction is lost. */
  const runAgain = Effect.fnUntraced(function* (members: Array<Member>): Effect.fn.Return<void, SqlError> {
    yield* begin
    let lost: SqlError | undefined
    for (const [index, member] of members.entries()) {
      yield* member.runSavepoint((error) => void (lost ??= error))
      if (lost === undefined) continue
      line.unshift(...members.splice(index + 1))
      return yield* Effect.andThen(rollback, Effect.fail(lost))
    }
    yield* commit
  })

  const runMembers = Effect.flatMap(Effect.suspend(runLine), ({ isDone, members }) => {
    const ended = isDone
      ? commit
      : // A transaction that fails without others has its result.
        Effect.andThen(rollback, members.length === 1 ? Effect.void : runAgain(members))
    return Effect.flatMap(Effect.exit(ended), (committed) => finishMembers(members, committed))
  })

  /** Runs a group. No other transaction begins before the Effects that follow its members have run. */
  const runGroup = hold(
    // If the file is locked, all of the line would wait for it. Each is repeated by its own fiber.
    Effect.matchCauseEffect(begin, { onFailure: failLine, onSuccess: () => runMembers })
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
  const runInGroup = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError, R> =>
    Effect.contextWith((context: Context.Context<R>) => {
      const [member, result] = makeMember(effect, context, runs)
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
