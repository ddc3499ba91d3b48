/**
 * Runs work for each row of a dataset with limited concurrency. Each row is finished once, across crashes and restarts.
 *
 * **Details**
 *
 * A row with a result in the journal is skipped, unless its digest has changed. If the process ended during an attempt,
 * the row runs again with the same attempt number and with {@link Attempt.goesOn} set, so that the work can continue
 * from its stored state. A failed row runs with the next attempt number. A result is written and synced before the row
 * counts as done. Interruption (Ctrl-C) writes no results for active rows. The run ends if the journal cannot be
 * written (disk full).
 *
 * {@link Limits} on cost, tokens and time are checked while rows run. They include the usage that active rows have
 * reported so far, and the usage of failed attempts.
 *
 * A row whose run waits for answers has no result and is not retried. The next run continues the same attempt.
 *
 * If {@link mostDeaths} processes die during one attempt, the row is recorded as failed.
 *
 * A failed row is retried with increasing delays and then recorded as failed. A defect counts as a failure. The other
 * rows continue, and the next run tries the failed row again.
 *
 * **Example** (Two rows, one of them already finished)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import { RowJournal, RowPool } from "hermes-effect/batch"
 *
 * const program = Effect.gen(function*() {
 *   const journal = yield* RowJournal.open({ directory: "pool-run" })
 *   yield* journal.finish({ id: "a" }, { answer: 1 })
 *   return yield* RowPool.run({
 *     rows: [{ id: "a" }, { id: "b" }],
 *     journal,
 *     concurrency: 2,
 *     run: ({ id }) => Effect.succeed(RowPool.makeFinishedResult({ answer: id.length }, { costUsd: 0.01 }))
 *   })
 * })
 *
 * const { before, finished } = await Effect.runPromise(Effect.provide(program, NodeServices.layer))
 * console.log(before, finished)
 * // => 1 1
 * ```
 *
 * Source: `hermes-product.md` §5.1, `hermes-llm.md` §20.1.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import type * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as Outcome from "./Outcome.ts"
import type { AttemptFailure } from "./RowAttempts.ts"
import type { Journal, JournalError, RowKey } from "./RowJournal.ts"

/** Error raised when a row exceeds its time limit. */
export class RowTimeout extends Schema.TaggedError<RowTimeout>("hermes-effect/RowTimeout")("RowTimeout", {
  seconds: Schema.Finite
}) {
  override get message(): string {
    return `the row took longer than its limit of ${this.seconds} s`
  }
}

/** One attempt at a row. */
export interface Attempt {
  /** Attempt number, counted from 1 over all runs. */
  readonly number: number
  /** True if an earlier process ended during this attempt. The stored state of the attempt is then available. */
  readonly goesOn: boolean
}

/** Usage of a row, for totals and estimates. */
export interface RowUsage {
  readonly costUsd?: number | undefined
  readonly tokens?: number | undefined
}

/** Reports usage while a row is running. */
export type UsageReporter = (used: RowUsage) => Effect.Effect<void>

/** Result of a row. */
export type Result = RowUsage & {
  readonly fields: Json.Fields
  /** Reason why the row counts as done without a result. */
  readonly discarded?: string | undefined
  /** Session that waits for answers. The row has no result yet, and the next run continues it. */
  readonly suspendedIn?: string | undefined
}

/** Makes the result of a finished row. */
export const makeFinishedResult = (fields: Json.Fields, used: RowUsage = {}): Result => ({ ...used, fields })

/** Makes the result of a discarded row, which is not run again. */
export const makeDiscardedResult = (reason: string, fields: Json.Fields = {}, used: RowUsage = {}): Result => ({
  ...used,
  fields,
  discarded: reason
})

/** Makes the result of a row whose run waits for answers in a session. */
export const makeSuspendedResult = (sessionId: string, used: RowUsage = {}): Result => ({
  ...used,
  fields: {},
  suspendedIn: sessionId
})

/** Counts of a run, during the run and at its end. */
export interface Progress {
  readonly total: number
  /** Number of rows that were done before this run. */
  readonly before: number
  readonly finished: number
  readonly discarded: number
  readonly failed: number
  /** Number of rows that wait for answers. */
  readonly suspended: number
  readonly running: number
  readonly retried: number
  readonly millis: number
  /** Rows completed per minute in this run, or 0 before the first one. */
  readonly ratePerMinute: number
  /** Estimated milliseconds until the end at this rate, or `undefined` before the first row. */
  readonly remainingMillis: number | undefined
  readonly tokens: number
  /** Cost of the rows of this run so far, or undefined if unknown. */
  readonly costUsd: number | undefined
  /** Estimated cost of all rows of this run, at the average cost so far. */
  readonly expectedCostUsd: number | undefined
}

/** A row that failed in this run after all retries. */
export interface FailedRow {
  readonly id: string
  readonly attempts: number
  readonly message: string
  readonly kind: Outcome.Kind
}

/** A row that waits for answers to the questions of a session. */
export interface SuspendedRow {
  readonly id: string
  readonly sessionId: string
}

/** Final counts of a run. */
export interface Summary extends Progress {
  readonly failures: ReadonlyArray<FailedRow>
  readonly waiting: ReadonlyArray<SuspendedRow>
  /** Reason why the run stopped before all rows were started, or `undefined`. */
  readonly stopped: string | undefined
}

/**
 * Handling of a failure. `retry`: try the row again after a delay. `fail`: give up this row. `stop`: give up this row
 * and start no others.
 */
export type Decision = "retry" | "fail" | "stop"

/**
 * Limits of a run. If a limit is exceeded, no more rows are started. Active rows are interrupted, as with Ctrl-C, and
 * continue in the next run.
 */
export interface Limits {
  readonly costUsd?: number | undefined
  readonly tokens?: number | undefined
  readonly duration?: Duration.Duration | undefined
}

/** Options of {@link run}. */
export interface Options<Row extends RowKey, E, R> {
  readonly rows: ReadonlyArray<Row>
  readonly journal: Journal
  /** Executes the work of a row. `tell` reports usage during the work, and the final result includes that usage. */
  readonly run: (row: Row, attempt: Attempt, tell: UsageReporter) => Effect.Effect<Result, E, R>
  /** Maximum number of concurrent rows. Defaults to 4. */
  readonly concurrency?: number | undefined
  /** Rows with the same key run one after another, in order. */
  readonly sequentialBy?: ((row: Row) => string | number) | undefined
  /** Number of retries of a row in this run. Defaults to 2. */
  readonly retries?: number | undefined
  /** Delay before the first retry, doubled for each later retry. Defaults to one second. */
  readonly retryDelay?: Duration.Input | undefined
  /** Time limit of one attempt at a row. */
  readonly timeout?: Duration.Input | undefined
  /** Decides how a failure is handled. Defaults to `retry`. Defects and {@link RowTimeout} are failures as well. */
  readonly onFailure?: ((error: E | RowTimeout | Cause.UnknownError, row: Row) => Decision) | undefined
  /** Called after each change of the counts. Rows wait until it returns. */
  readonly onProgress?: ((progress: Progress) => Effect.Effect<void>) | undefined
  /** Called for each row that has ended. */
  readonly onRow?: ((row: Row, end: RowEnd) => Effect.Effect<void, JournalError, R>) | undefined
  /** Limits of the whole run. */
  readonly limits?: Limits | undefined
  /** Called before each row. If it returns a reason, this row and all later rows are not started. */
  readonly stopWhen?: ((progress: Progress) => string | undefined) | undefined
}

/** Final state of a row. */
export type RowEnd = "finished" | "discarded" | "failed" | "suspended"

/**
 * Returns the failure of an attempt. If the pool is interrupted, this function is not called, and the attempt remains
 * open.
 */
const toFailure = <E>(cause: Cause.Cause<E>): E | Cause.UnknownError => {
  if (Cause.hasInterruptsOnly(cause)) return new Cause.UnknownError(undefined, "the row was interrupted")
  return (
    cause.reasons.find(Cause.isFailReason)?.error ??
    new Cause.UnknownError(Cause.squash(cause), describeError(Cause.squash(cause)))
  )
}

const describeError = (error: unknown): string => {
  const text = error instanceof Error ? error.message || error.name : String(error)
  return Redaction.redactText(text.replaceAll(/\s+/g, " ").trim())
}

/**
 * Returns true if two versions of the row with one id have the same content. If a digest is missing, as in results
 * written by earlier versions of the program, they count as the same.
 */
export const isSameRow = (one: Pick<RowKey, "digest">, other: Pick<RowKey, "digest">): boolean =>
  one.digest === undefined || other.digest === undefined || one.digest === other.digest

/** Returns the rows that must run because they have no result for their current content. */
export const selectRemaining = <Row extends RowKey>(
  rows: ReadonlyArray<Row>,
  { entries }: Journal
): ReadonlyArray<Row> =>
  rows.filter((row) => {
    const entry = entries.get(row.id)
    return entry === undefined || !isSameRow(entry, row)
  })

const chooseAttempt = (row: RowKey, { attempts }: Journal): Attempt => {
  const last = attempts.get(row.id)
  if (last === undefined) return { number: 1, goesOn: false }
  const isSame = isSameRow(last, row)
  return last.isOpen && isSame ? { number: last.number, goesOn: true } : { number: last.number + 1, goesOn: false }
}

const groupRows = <Row>(
  rows: ReadonlyArray<Row>,
  getKey: ((row: Row) => string | number) | undefined
): ReadonlyArray<ReadonlyArray<Row>> =>
  getKey === undefined ? rows.map((row) => [row]) : Array.from(Map.groupBy(rows, getKey).values())

/** Numbers of rows by state. */
interface RowCounts {
  readonly finished: number
  readonly discarded: number
  readonly failed: number
  readonly suspended: number
  readonly running: number
  readonly retried: number
}

/** Total usage so far. */
interface UsageSums {
  tokens: number
  costUsd: number | undefined
}

/** Adds the usage of a row to the totals of a run. */
const addUsage = (sums: UsageSums, { costUsd, tokens = 0 }: RowUsage): void => {
  sums.tokens += tokens
  if (costUsd !== undefined) sums.costUsd = (sums.costUsd ?? 0) + costUsd
}

/** Returns the usage of a result without the part that was already reported. */
const subtractReported = ({ costUsd, tokens = 0 }: RowUsage, told: RowUsage): RowUsage => ({
  tokens: Math.max(0, tokens - (told.tokens ?? 0)),
  costUsd: costUsd === undefined ? undefined : Math.max(0, costUsd - (told.costUsd ?? 0))
})

/** Totals of an active pool. */
interface PoolState {
  readonly usage: UsageSums
  readonly failures: Array<FailedRow>
  readonly waiting: Array<SuspendedRow>
  counts: RowCounts
  /** Reason why no more rows are started, or `undefined`. */
  stopped: string | undefined
}

/** An active pool of rows. */
interface Pool<Row extends RowKey, E, R> extends PoolState {
  readonly options: Options<Row, E, R>
  /** Number of rows that were done before this run. */
  readonly before: number
  /** Start time in milliseconds since 1970. */
  readonly began: number
  /** Ensures that progress reports are made one at a time. */
  readonly turn: Semaphore.Semaphore
  readonly halted: Deferred.Deferred<void>
}

const changeCount = (state: PoolState, name: keyof RowCounts, change: 1 | -1): void => {
  state.counts = { ...state.counts, [name]: state.counts[name] + change }
}

const readProgress = <Row extends RowKey, E, R>({
  before,
  began,
  counts,
  options: { rows },
  usage
}: Pool<Row, E, R>): Effect.Effect<Progress> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const millis = now - began
    const total = rows.length
    const { discarded, failed, finished, suspended } = counts
    const { costUsd } = usage
    const done = finished + discarded + failed + suspended
    const left = total - before - done
    return {
      ...counts,
      ...usage,
      total,
      before,
      millis,
      ratePerMinute: millis === 0 ? 0 : (done * 60_000) / millis,
      remainingMillis: done === 0 ? undefined : (left * millis) / done,
      expectedCostUsd: costUsd === undefined || done === 0 ? undefined : (costUsd * (total - before)) / done
    }
  })

const reportProgress = <Row extends RowKey, E, R>(pool: Pool<Row, E, R>): Effect.Effect<void> => {
  const { onProgress } = pool.options
  if (onProgress === undefined) return Effect.void
  const progress = Effect.suspend(() => readProgress(pool))
  return pool.turn.withPermits(1)(Effect.flatMap(progress, onProgress))
}

/** Ends the pool, and interrupts active rows. */
const haltPool = <Row extends RowKey, E, R>(pool: Pool<Row, E, R>, reason: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    pool.stopped ??= reason
    return Effect.asVoid(Deferred.succeed(pool.halted, undefined))
  })

const describeExceededLimit = <Row extends RowKey, E, R>({
  options: { limits = {} },
  usage
}: Pool<Row, E, R>): string | undefined => {
  if (limits.costUsd !== undefined && (usage.costUsd ?? 0) >= limits.costUsd)
    return `the limit of $${limits.costUsd} is reached`
  return limits.tokens !== undefined && usage.tokens >= limits.tokens
    ? `the limit of ${limits.tokens} tokens is reached`
    : undefined
}

/** Adds usage to the totals, and ends the pool if a limit is exceeded. */
const countUsage = <Row extends RowKey, E, R>(pool: Pool<Row, E, R>, used: RowUsage): Effect.Effect<void> =>
  Effect.suspend(() => {
    addUsage(pool.usage, used)
    const reason = describeExceededLimit(pool)
    return reason === undefined ? Effect.void : haltPool(pool, reason)
  })

const runAttempt = <Row extends RowKey, E, R>(
  pool: Pool<Row, E, R>,
  row: Row,
  attempt: Attempt,
  told: UsageSums
): Effect.Effect<Result, E | RowTimeout, R> => {
  const { run, timeout } = pool.options
  const work = run(row, attempt, (used) =>
    Effect.suspend(() => {
      addUsage(told, used)
      return countUsage(pool, used)
    })
  )
  if (timeout === undefined) return work
  const limit = Duration.fromInputUnsafe(timeout)
  return Effect.timeoutOrElse(work, {
    duration: limit,
    orElse: () => Effect.fail(new RowTimeout({ seconds: Duration.toSeconds(limit) }))
  })
}

const storeResult = Effect.fnUntraced(function* <Row extends RowKey, E, R>(
  pool: Pool<Row, E, R>,
  row: Row,
  attempt: Attempt,
  { discarded, fields, suspendedIn, ...used }: Result,
  told: RowUsage
): Effect.fn.Return<void, JournalError, R> {
  const { journal, onRow } = pool.options
  const end = suspendedIn !== undefined ? "suspended" : discarded === undefined ? "finished" : "discarded"
  if (suspendedIn !== undefined) {
    yield* journal.suspend(row, attempt.number, suspendedIn)
    pool.waiting.push({ id: row.id, sessionId: suspendedIn })
  } else yield* discarded === undefined ? journal.finish(row, fields) : journal.discard(row, discarded, fields)
  changeCount(pool, end, 1)
  yield* countUsage(pool, subtractReported(used, told))
  yield* onRow?.(row, end) ?? Effect.void
})

const giveUp = Effect.fnUntraced(function* <Row extends RowKey, E, R>(
  pool: Pool<Row, E, R>,
  row: Row,
  { attempts, kind, message }: FailedAttempt
): Effect.fn.Return<void, JournalError, R> {
  changeCount(pool, "failed", 1)
  pool.failures.push({ id: row.id, attempts, message, kind })
  yield* pool.options.onRow?.(row, "failed") ?? Effect.void
})

/** A failed attempt at a row. */
class FailedAttempt {
  /** Number of attempts at the row so far. */
  readonly attempts: number
  readonly message: string
  readonly kind: Outcome.Kind
  readonly isFinal: boolean

  constructor(attempts: number, { kind, message }: AttemptFailure, isFinal: boolean) {
    this.attempts = attempts
    this.message = message
    this.kind = kind
    this.isFinal = isFinal
  }
}

/** Number of processes that may die during one attempt at a row, before the row itself is considered the cause. */
const mostDeaths = 5

/** Gives up a row whose attempt ended process after process. The next run begins another attempt. */
const abandonRow = Effect.fnUntraced(function* <Row extends RowKey, E, R>(
  pool: Pool<Row, E, R>,
  row: Row,
  attempt: number
): Effect.fn.Return<void, JournalError, R> {
  const message = `the process ended ${mostDeaths} times during this attempt; it is not continued`
  yield* pool.options.journal.fail(row, attempt, { message, kind: "infrastructure" })
  yield* giveUp(pool, row, new FailedAttempt(1, { message, kind: "infrastructure" }, true))
})

/** Makes one attempt at a row. The number of the attempts before it is the attempt of the schedule. */
const attemptRow = Effect.fnUntraced(function* <Row extends RowKey, E, R>(
  pool: Pool<Row, E, R>,
  row: Row,
  first: Attempt
): Effect.fn.Return<void, JournalError | FailedAttempt, R> {
  const { journal, onFailure } = pool.options
  const { attempt: tried } = yield* Schedule.CurrentMetadata
  const attempt = tried === 0 ? first : { number: first.number + tried, goesOn: false }
  yield* journal.begin(row, attempt.number)
  const told: UsageSums = { tokens: 0, costUsd: undefined }
  const exit = yield* runAttempt(pool, row, attempt, told).pipe(
    // The process does not die during this attempt.
    Effect.onInterrupt(() => Effect.ignore(journal.leave(row, attempt.number))),
    Effect.exit
  )
  if (Exit.isSuccess(exit)) return yield* Effect.uninterruptible(storeResult(pool, row, attempt, exit.value, told))
  const error = toFailure(exit.cause)
  const failure = { message: describeError(error), kind: Outcome.classifyFailure(error) }
  yield* journal.fail(row, attempt.number, failure)
  const decision = onFailure?.(error, row) ?? "retry"
  if (decision === "stop") pool.stopped ??= failure.message
  return yield* Effect.fail(new FailedAttempt(tried + 1, failure, decision !== "retry" || pool.stopped !== undefined))
})

/** Creates the schedule of a row's attempts: the delay of the options, doubled with each further failure. */
const scheduleAttempts = <Row extends RowKey, E, R>(pool: Pool<Row, E, R>) => {
  const { retries = 2, retryDelay = "1 second" } = pool.options
  return Schedule.exponential(retryDelay).pipe(
    Schedule.setInputType<JournalError | FailedAttempt>(),
    Schedule.upTo({ times: retries }),
    Schedule.while(({ input }) => Effect.succeed(input instanceof FailedAttempt && !input.isFinal)),
    Schedule.tap(() => {
      changeCount(pool, "retried", 1)
      return reportProgress(pool)
    })
  )
}

const runWithRetries = <Row extends RowKey, E, R>(
  pool: Pool<Row, E, R>,
  row: Row
): Effect.Effect<void, JournalError, R> =>
  Effect.suspend(() =>
    Effect.retryOrElse(
      attemptRow(pool, row, chooseAttempt(row, pool.options.journal)),
      scheduleAttempts(pool),
      (error) => (error instanceof FailedAttempt ? giveUp(pool, row, error) : Effect.fail(error))
    )
  )

const runRow = Effect.fnUntraced(function* <Row extends RowKey, E, R>(
  pool: Pool<Row, E, R>,
  row: Row
): Effect.fn.Return<void, JournalError, R> {
  const { stopWhen } = pool.options
  pool.stopped ??=
    describeExceededLimit(pool) ?? (stopWhen === undefined ? undefined : stopWhen(yield* readProgress(pool)))
  if (pool.stopped !== undefined) return
  changeCount(pool, "running", 1)
  yield* reportProgress(pool)
  const { attempts } = pool.options.journal
  const last = attempts.get(row.id)
  yield* Effect.ensuring(
    last !== undefined && last.isOpen && last.deaths >= mostDeaths
      ? abandonRow(pool, row, last.number)
      : runWithRetries(pool, row),
    Effect.sync(() => changeCount(pool, "running", -1))
  )
  yield* reportProgress(pool)
})

/** Runs the rows that have no result yet. */
export const run = Effect.fn("RowPool.run")(function* <Row extends RowKey, E, R>(
  options: Options<Row, E, R>
): Effect.fn.Return<Summary, JournalError, R> {
  const { concurrency = 4, journal, limits = {}, rows, sequentialBy } = options
  const began = yield* Clock.currentTimeMillis
  const remaining = selectRemaining(rows, journal)
  const pool: Pool<Row, E, R> = {
    options,
    before: rows.length - remaining.length,
    began,
    turn: yield* Semaphore.make(1),
    halted: yield* Deferred.make<void>(),
    usage: { tokens: 0, costUsd: undefined },
    failures: [],
    waiting: [],
    counts: { finished: 0, discarded: 0, failed: 0, suspended: 0, running: 0, retried: 0 },
    stopped: undefined
  }
  yield* reportProgress(pool)
  const time = limits.duration
  const late =
    time === undefined
      ? Effect.never
      : Effect.andThen(Effect.sleep(time), haltPool(pool, `the limit of ${Duration.toSeconds(time)} s is reached`))
  yield* Effect.forEach(
    groupRows(remaining, sequentialBy),
    (group) => Effect.forEach(group, (row) => runRow(pool, row), { discard: true }),
    { concurrency, discard: true }
  ).pipe(Effect.raceFirst(Deferred.await(pool.halted)), Effect.raceFirst(late))
  return { ...(yield* readProgress(pool)), failures: pool.failures, waiting: pool.waiting, stopped: pool.stopped }
})
