/**
 * Runs work for each row of a dataset: so many at a time, each row finished once, over crashes and restarts.
 *
 * **Details**
 *
 * A row with a result in the journal is skipped, unless its digest has changed. A row whose attempt was cut off by the
 * end of the process runs with the same attempt number and {@link Attempt.goesOn}, so that the work can continue from
 * its stored state. A failed row runs with the next number. A result is written and synced before the row counts;
 * interruption (Ctrl-C) writes nothing of rows in flight. A journal that cannot be written (disk full) ends the run.
 *
 * {@link Limits} of cost, tokens and time apply while rows run. They cover usage reported so far and the usage of
 * failed attempts.
 *
 * A failure of a row, a defect too, is retried with growing waits and then noted; the other rows go on, and the next
 * run tries it again.
 *
 * **Example** (Two rows, of which one was finished before)
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
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import type * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { Journal, JournalError, RowKey } from "./RowJournal.ts"

/** A row took longer than its limit. */
export class RowTimeout extends Schema.TaggedError<RowTimeout>("hermes-effect/RowTimeout")("RowTimeout", {
  seconds: Schema.Finite
}) {
  override get message(): string {
    return `the row took longer than its limit of ${this.seconds} s`
  }
}

/** One attempt at a row. */
export interface Attempt {
  /** From 1, over all runs. */
  readonly number: number
  /** True when a process ended during this attempt. Its stored state is available. */
  readonly goesOn: boolean
}

/** Use of a row, for sums and estimates. */
export interface RowUsage {
  readonly costUsd?: number | undefined
  readonly tokens?: number | undefined
}

/** Takes what a row uses on the way. */
export type UsageReporter = (used: RowUsage) => Effect.Effect<void>

/** Result of a row. */
export type Result = RowUsage & {
  readonly fields: Json.Fields
  /** Reason why the row counts as done and has no result. */
  readonly discarded?: string | undefined
}

/** A row with a result. */
export const makeFinishedResult = (fields: Json.Fields, used: RowUsage = {}): Result => ({ ...used, fields })

/** A row that is done without a result, and is not run again. */
export const makeDiscardedResult = (reason: string, fields: Json.Fields = {}, used: RowUsage = {}): Result => ({
  ...used,
  fields,
  discarded: reason
})

/** Counts of a run, live and at its end. */
export interface Progress {
  readonly total: number
  /** Rows that were done before this run. */
  readonly before: number
  readonly finished: number
  readonly discarded: number
  readonly failed: number
  readonly running: number
  readonly retried: number
  readonly millis: number
  /** Rows of this run in a minute; 0 before the first one. */
  readonly ratePerMinute: number
  /** Milliseconds until the end at this rate; undefined before the first row. */
  readonly remainingMillis: number | undefined
  readonly tokens: number
  /** Cost of the rows of this run so far, or undefined if unknown. */
  readonly costUsd: number | undefined
  /** Cost of all rows of this run at this rate. */
  readonly expectedCostUsd: number | undefined
}

/** A row that failed for good in this run. */
export interface FailedRow {
  readonly id: string
  readonly attempts: number
  readonly message: string
}

/** End of a run. */
export interface Summary extends Progress {
  readonly failures: ReadonlyArray<FailedRow>
  /** Reason why no further row was begun, although there were some. */
  readonly stopped: string | undefined
}

/** `retry`: again after a wait; `fail`: this row is given up; `stop`: no other row is begun either. */
export type Decision = "retry" | "fail" | "stop"

/**
 * Limits of a run, over which nothing goes on: rows in flight are interrupted, as by Ctrl-C, and go on in the next run;
 * the others are not begun.
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
  /** Does the work of a row. `tell` reports usage during the work; the result includes that usage. */
  readonly run: (row: Row, attempt: Attempt, tell: UsageReporter) => Effect.Effect<Result, E, R>
  /** Rows at a time; 4 when absent. */
  readonly concurrency?: number | undefined
  /** Rows with the same key run one after another, in order. */
  readonly sequentialBy?: ((row: Row) => string | number) | undefined
  /** Retries of a row in this run; 2 when absent. */
  readonly retries?: number | undefined
  /** Wait before the first retry, doubled with each; one second when absent. */
  readonly retryDelay?: Duration.Input | undefined
  /** Limit of one attempt at a row. */
  readonly timeout?: Duration.Input | undefined
  /** Decision on a failure; `retry` when absent. Defects and {@link RowTimeout} are failures as well. */
  readonly onFailure?: ((error: E | RowTimeout | Cause.UnknownError, row: Row) => Decision) | undefined
  /** Told of each change; the rows wait for it. */
  readonly onProgress?: ((progress: Progress) => Effect.Effect<void>) | undefined
  /** Told of each row that is over. */
  readonly onRow?: ((row: Row, end: RowEnd) => Effect.Effect<void, JournalError, R>) | undefined
  /** Limits of the whole run. */
  readonly limits?: Limits | undefined
  /** A reason to begin no further row, asked before each. */
  readonly stopWhen?: ((progress: Progress) => string | undefined) | undefined
}

/** The way in which a row ended. */
export type RowEnd = "finished" | "discarded" | "failed"

/** The failure of an attempt; interruption of the pool itself never gets here, and leaves the attempt open. */
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
 * True if two states of a row are the same. A row without a digest, as in results of earlier versions, is known by its
 * id alone.
 */
export const isSameRow = (one: Pick<RowKey, "digest">, other: Pick<RowKey, "digest">): boolean =>
  one.digest === undefined || other.digest === undefined || one.digest === other.digest

/** Rows that have to run: they have no result for their current content. */
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
  keyOf: ((row: Row) => string | number) | undefined
): ReadonlyArray<ReadonlyArray<Row>> =>
  keyOf === undefined ? rows.map((row) => [row]) : Array.from(Map.groupBy(rows, keyOf).values())

interface Counts {
  finished: number
  discarded: number
  failed: number
  running: number
  retried: number
  tokens: number
  costUsd: number | undefined
}

/** Adds to the usage of a run. */
const addUsage = (counts: { tokens: number; costUsd: number | undefined }, { costUsd, tokens = 0 }: RowUsage): void => {
  counts.tokens += tokens
  if (costUsd !== undefined) counts.costUsd = (counts.costUsd ?? 0) + costUsd
}

/** Use of a result, but for the part that was told before. */
const subtractReported = ({ costUsd, tokens = 0 }: RowUsage, told: RowUsage): RowUsage => ({
  tokens: Math.max(0, tokens - (told.tokens ?? 0)),
  costUsd: costUsd === undefined ? undefined : Math.max(0, costUsd - (told.costUsd ?? 0))
})

const computeProgress = (counts: Counts, total: number, before: number, millis: number): Progress => {
  const { costUsd, discarded, failed, finished } = counts
  const done = finished + discarded + failed
  const left = total - before - done
  return {
    ...counts,
    total,
    before,
    millis,
    ratePerMinute: millis === 0 ? 0 : (done * 60_000) / millis,
    remainingMillis: done === 0 ? undefined : (left * millis) / done,
    expectedCostUsd: costUsd === undefined || done === 0 ? undefined : (costUsd * (total - before)) / done
  }
}

/** Runs the rows that have no result yet. */
export const run = Effect.fn("RowPool.run")(function* <Row extends RowKey, E, R>({
  concurrency = 4,
  journal,
  limits = {},
  onFailure,
  onProgress,
  onRow,
  retries = 2,
  retryDelay = "1 second",
  run,
  rows,
  sequentialBy,
  stopWhen,
  timeout
}: Options<Row, E, R>): Effect.fn.Return<Summary, JournalError, R> {
  const began = yield* Clock.currentTimeMillis
  const todo = selectRemaining(rows, journal)
  const counts: Counts = { finished: 0, discarded: 0, failed: 0, running: 0, retried: 0, tokens: 0, costUsd: undefined }
  const failures: Array<FailedRow> = []
  const before = rows.length - todo.length
  const turn = yield* Semaphore.make(1)
  let stopped: string | undefined

  const progress = Effect.map(Clock.currentTimeMillis, (now) =>
    computeProgress(counts, rows.length, before, now - began)
  )
  const tell = onProgress === undefined ? Effect.void : turn.withPermits(1)(Effect.flatMap(progress, onProgress))
  const limit = timeout === undefined ? undefined : Duration.fromInputUnsafe(timeout)

  const halted = yield* Deferred.make<void>()
  const halt = (reason: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      stopped ??= reason
      return Effect.asVoid(Deferred.succeed(halted, undefined))
    })
  const describeExceededLimit = (): string | undefined => {
    if (limits.costUsd !== undefined && (counts.costUsd ?? 0) >= limits.costUsd)
      return `the limit of $${limits.costUsd} is reached`
    return limits.tokens !== undefined && counts.tokens >= limits.tokens
      ? `the limit of ${limits.tokens} tokens is reached`
      : undefined
  }
  /** Counts what was used; does nothing more when that is too much. */
  const countUsage = (used: RowUsage): Effect.Effect<void> =>
    Effect.suspend(() => {
      addUsage(counts, used)
      const reason = describeExceededLimit()
      return reason === undefined ? Effect.void : halt(reason)
    })

  const runAttempt = (
    row: Row,
    attempt: Attempt,
    told: { tokens: number; costUsd: number | undefined }
  ): Effect.Effect<Result, E | RowTimeout, R> => {
    const work = run(row, attempt, (used) =>
      Effect.suspend(() => {
        addUsage(told, used)
        return countUsage(used)
      })
    )
    return limit === undefined
      ? work
      : Effect.timeoutOrElse(work, {
          duration: limit,
          orElse: () => Effect.fail(new RowTimeout({ seconds: Duration.toSeconds(limit) }))
        })
  }

  const storeResult = Effect.fnUntraced(function* (row: Row, { discarded, fields, ...used }: Result, told: RowUsage) {
    yield* discarded === undefined ? journal.finish(row, fields) : journal.discard(row, discarded, fields)
    const end = discarded === undefined ? "finished" : "discarded"
    counts[end]++
    yield* countUsage(subtractReported(used, told))
    yield* onRow?.(row, end) ?? Effect.void
  }, Effect.uninterruptible)

  const giveUp = Effect.fnUntraced(function* (row: Row, attempts: number, message: string) {
    counts.failed++
    failures.push({ id: row.id, attempts, message })
    yield* onRow?.(row, "failed") ?? Effect.void
  })

  const runWithRetries = Effect.fnUntraced(function* (row: Row) {
    const first = chooseAttempt(row, journal)
    for (let tried = 0; ; tried++) {
      const attempt = tried === 0 ? first : { number: first.number + tried, goesOn: false }
      yield* journal.begin(row, attempt.number)
      const told = { tokens: 0, costUsd: undefined }
      const exit = yield* Effect.exit(runAttempt(row, attempt, told))
      if (Exit.isSuccess(exit)) return yield* storeResult(row, exit.value, told)
      const error = toFailure(exit.cause)
      const message = describeError(error)
      yield* journal.fail(row, attempt.number, message)
      const decision = onFailure?.(error, row) ?? "retry"
      if (decision === "stop") stopped ??= message
      if (decision !== "retry" || tried >= retries || stopped !== undefined)
        return yield* giveUp(row, tried + 1, message)
      counts.retried++
      yield* tell
      yield* Effect.sleep(Duration.times(Duration.fromInputUnsafe(retryDelay), 2 ** tried))
    }
  })

  const runRow = Effect.fnUntraced(function* (row: Row) {
    stopped ??= describeExceededLimit() ?? (stopWhen === undefined ? undefined : stopWhen(yield* progress))
    if (stopped !== undefined) return
    counts.running++
    yield* tell
    yield* Effect.ensuring(
      runWithRetries(row),
      Effect.sync(() => counts.running--)
    )
    yield* tell
  })

  yield* tell
  const time = limits.duration
  const late =
    time === undefined
      ? Effect.never
      : Effect.andThen(Effect.sleep(time), halt(`the limit of ${Duration.toSeconds(time)} s is reached`))
  yield* Effect.forEach(groupRows(todo, sequentialBy), (group) => Effect.forEach(group, runRow, { discard: true }), {
    concurrency,
    discard: true
  }).pipe(Effect.raceFirst(Deferred.await(halted)), Effect.raceFirst(late))
  return { ...(yield* progress), failures, stopped }
})
