/**
 * Runs many tasks with limited concurrency. Each task is completed only once. The results are written in formats that
 * evaluation harnesses can read.
 *
 * **Details**
 *
 * The results file is the journal of the run (`batch/RowJournal`). Each line records a task that has ended. For a
 * results file `x.jsonl`, two more files are written to the same directory. `x.predictions.jsonl` contains the
 * predictions for SWE-bench (`instance_id`, `model_name_or_path`, `model_patch`) and is rewritten at the end of every
 * run. `x.failed.jsonl` contains the rows of tasks in which the model failed, with the work done until then, such as
 * trajectory, patch, model and calls. The next run tries these tasks again. Until it does, their patches are
 * predictions, too.
 *
 * Each task may have several attempts. The first one has the id of its task in the journal, and attempt `n` has
 * `<task>#<n>`. Its predictions are in `x.run-<n>.predictions.jsonl`, because harnesses take one for each instance.
 *
 * **Example** (Solving tasks with an application's agent)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import type { CommandEnvironment } from "hermes-effect"
 * import { type SweEvaluation, SwePool, SweRun, type SweTask } from "hermes-effect/swe"
 *
 * export const statusOf = ({ status }: SweEvaluation.PatchEvaluation): string => status
 *
 * export const solve = (
 *   tasks: ReadonlyArray<SweTask.SweTask>,
 *   services: Omit<SweRun.Runtime, "environment">,
 *   environment: CommandEnvironment.Service
 * ) =>
 *   Effect.gen(function*() {
 *     const files = SwePool.nameFiles("/tmp/results.jsonl")
 *     const journal = yield* SwePool.openJournal(files)
 *     const settings = { maxIterations: 15, approvals: "deny", setupSeconds: 60 } as const
 *     const { rows } = yield* SwePool.run({ files, journal, tasks, concurrency: 4, settings })
 *     return SwePool.sumTotals(rows).resolved
 *   }).pipe(Effect.provideService(SweRun.SweRuntime, { open: () => Effect.succeed({ ...services, environment }) }))
 * ```
 *
 * Source: `hermes-product.md` §5.3.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import * as Json from "../../base/domain/Json.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as BatchRow from "../batch/BatchRow.ts"
import * as Outcome from "../batch/Outcome.ts"
import * as RowJournal from "../batch/RowJournal.ts"
import * as RowPool from "../batch/RowPool.ts"
import * as EvalStatistics from "../eval/EvalStatistics.ts"
import * as SweFiles from "./SweFiles.ts"
import * as SweRun from "./SweRun.ts"
import type { SweTask } from "./SweTask.ts"
import * as TestReport from "./TestReport.ts"
import * as WorkingCopy from "./WorkingCopy.ts"

export { nameFiles, namePredictions, type Files } from "./SweFiles.ts"

/** Opens the journal of a results file. */
export const openJournal = Effect.fnUntraced(function* ({ results }: SweFiles.Files) {
  const paths = yield* Path.Path
  const name = paths.basename(results)
  return yield* RowJournal.open({
    directory: paths.dirname(results),
    getFile: () => name,
    // Another results file in the directory has the same task ids.
    attemptsFile: `${name.replace(/\.jsonl$/, "")}.attempts.jsonl`,
    isResults: (file) => file === name
  })
})

/** An attempt at a task. */
export interface TaskAttempt extends RowJournal.RowKey {
  readonly task: SweTask
  /** Number of the attempt, counted from 1. */
  readonly number: number
}

/** Returns the id of an attempt in the journal. */
export const formatAttemptId = (task: string, number: number): string => (number === 1 ? task : `${task}#${number}`)

/** Lists the attempts in the order in which they run: one attempt at every task, then the second ones, and so on. */
export const listAttempts = (tasks: ReadonlyArray<SweTask>, runs = 1): ReadonlyArray<TaskAttempt> =>
  Array.from({ length: runs }, (_, index) => index + 1).flatMap((number) =>
    tasks.map((task) => ({ task, number, id: formatAttemptId(task.id, number), digest: task.digest }))
  )

/** The score of an attempt at a task, as read from its result row. */
export interface ScoredRow {
  /** Id of the task. */
  readonly id: string
  /** Number of the attempt, counted from 1. */
  readonly run: number
  readonly model: string
  readonly patch: string
  /** A status of `SweEvaluation`, or one of {@link withoutResult}. `undefined` if the task has no evaluation. */
  readonly status: string | undefined
  readonly kind: Outcome.Kind
  /** Exit of the agent's run, or an empty string. */
  readonly exit: string
  readonly inputTokens: number
  readonly outputTokens: number
  readonly failToPass: TestReport.Part
  readonly passToPass: TestReport.Part
  readonly calls: number
  readonly seconds: number
  readonly costUsd: number | undefined
  readonly detail: string
}

const toNumber = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0)

const toPart = (value: unknown): TestReport.Part => {
  const { missing, passed, total } = Json.readFields(value)
  return { passed: toNumber(passed), total: toNumber(total), missing: Json.readItems(missing).map(Json.readWord) }
}

/** Returns the kind of a result with a status of its evaluation, and the exit of its run. */
export const classifyStatus = (status: string | undefined, exit = ""): Outcome.Kind =>
  status === "error"
    ? "infrastructure"
    : status === "no_prediction" || status === "not_run"
      ? "not_run"
      : Outcome.classifyResult({ passed: status === "resolved", exit })

/** Reads the number of an attempt from its result row. Rows of a first attempt have none. */
const readRun = ({ run }: Json.Fields): number => (typeof run === "number" && Number.isInteger(run) ? run : 1)

/** Reads the score of an attempt from its result row. */
export const toScoredRow = ({ fields, id }: Pick<RowJournal.ResultLine, "fields" | "id">): ScoredRow => {
  const evaluation = Json.readFields(fields["evaluation"])
  const usage = Json.readFields(fields["usage"])
  const exit = Json.readString(fields["exit"]) ?? ""
  const usd = Json.readFields(fields["cost"])["estimated_cost_usd"]
  const status = Json.readString(evaluation["status"])
  return {
    id: Json.readString(fields["instance_id"]) ?? id,
    run: readRun(fields),
    model: Json.readString(Json.readFields(fields["metadata"])["model"]) ?? "",
    patch: Json.readString(fields["model_patch"]) ?? "",
    status,
    kind: classifyStatus(status, exit),
    exit,
    inputTokens: toNumber(usage["prompt_tokens"]),
    outputTokens: toNumber(usage["completion_tokens"]),
    failToPass: toPart(evaluation["fail_to_pass"]),
    passToPass: toPart(evaluation["pass_to_pass"]),
    calls: toNumber(fields["api_calls"]),
    seconds: toNumber(fields["duration_ms"]) / 1000,
    costUsd: typeof usd === "number" ? usd : undefined,
    detail: Json.readString(evaluation["detail"]) ?? ""
  }
}

/**
 * Reads the rows of attempts in their order. If a task has changed since a result was written, the result is omitted.
 */
export const readRows = Effect.fnUntraced(function* (
  journal: RowJournal.Journal,
  attempts: ReadonlyArray<RowJournal.RowKey>
) {
  const lines = new Map((yield* Stream.runCollect(journal.results)).map((line) => [line.id, line]))
  return attempts.flatMap((attempt) => {
    const line = lines.get(attempt.id)
    return line === undefined || !RowPool.isSameRow(line, attempt) ? [] : [toScoredRow(line)]
  })
})

/** Statuses of tasks that have an evaluation but no result. These tasks count as unresolved. */
export const withoutResult = ["failed", "not_run", "no_prediction"] as const

/** Makes the row of a task without a result. */
export const makeEmptyRow = (
  id: string,
  status: (typeof withoutResult)[number],
  detail: string,
  kind: Outcome.Kind = "not_run"
): ScoredRow => ({
  id,
  run: 1,
  model: "",
  patch: "",
  status,
  kind,
  exit: "",
  inputTokens: 0,
  outputTokens: 0,
  failToPass: toPart(undefined),
  passToPass: toPart(undefined),
  calls: 0,
  seconds: 0,
  costUsd: undefined,
  detail
})

/** Makes the scored row of a task without a result. Returns `undefined` if the task has no evaluation. */
export const makeUnresolvedRow = (
  { check, id }: Pick<SweTask, "check" | "id">,
  status: (typeof withoutResult)[number],
  detail: string,
  kind: Outcome.Kind = "not_run"
): ScoredRow | undefined => {
  if (check === undefined) return undefined
  const { failToPass, passToPass } = TestReport.makeUnresolvedScore(check.expected)
  return { ...makeEmptyRow(id, status, detail, kind), failToPass, passToPass }
}

/** Adds the work of a failed task, if there is any, to its row. */
export const addWork = (row: ScoredRow, work: ScoredRow | undefined): ScoredRow => {
  if (work === undefined) return row
  const { calls, costUsd, inputTokens, model, outputTokens, patch, seconds } = work
  return { ...row, calls, costUsd, inputTokens, model, outputTokens, patch, seconds }
}

/** Rows of failed attempts by their ids, with the work done until then. */
type FailedRows = ReadonlyMap<string, ScoredRow>

/** Reads the last row of each failed attempt. Rows of tasks that have changed since are left out. */
export const readFailedRows = Effect.fnUntraced(function* (
  { failed }: SweFiles.Files,
  attempts: ReadonlyArray<RowJournal.RowKey>
) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.orElseSucceed(fs.readFileString(failed), () => "")
  const digests = new Map(attempts.map(({ digest, id }) => [id, digest]))
  const rows = new Map<string, ScoredRow>()
  for (const line of text.split("\n")) {
    const fields = Json.readFields(Option.getOrUndefined(Json.parse(line)))
    const task = Json.readString(fields["instance_id"])
    const id = task === undefined ? undefined : formatAttemptId(task, readRun(fields))
    if (id !== undefined && digests.has(id) && digests.get(id) === fields["row_digest"])
      rows.set(id, toScoredRow({ id, fields }))
  }
  return rows
})

/** Adds a row for each attempt that failed or was not started, so that rates cover all attempts. */
const addUnresolved = (
  rows: ReadonlyArray<ScoredRow>,
  attempts: ReadonlyArray<TaskAttempt>,
  failedRows: FailedRows,
  { failures }: Pick<RowPool.Summary, "failures">
): ReadonlyArray<ScoredRow> => {
  const found = new Map(rows.map((row) => [formatAttemptId(row.id, row.run), row]))
  const causes = new Map(failures.map((failure) => [failure.id, failure]))
  return attempts.flatMap(({ id, number: run, task }) => {
    const known = found.get(id)
    const cause = causes.get(id)
    if (cause === undefined && known !== undefined) return known
    const row =
      cause === undefined
        ? makeUnresolvedRow(task, "not_run", "")
        : makeUnresolvedRow(task, "failed", cause.message, cause.kind)
    return row === undefined ? [] : { ...addWork(row, cause === undefined ? undefined : failedRows.get(id)), run }
  })
}

/** Options of a run. */
export interface Options extends Pick<RowPool.Options<TaskAttempt, never, never>, "limits" | "timeout"> {
  readonly files: SweFiles.Files
  readonly journal: RowJournal.Journal
  readonly tasks: ReadonlyArray<SweTask>
  /** Number of attempts at each task. Defaults to 1. */
  readonly runs?: number | undefined
  /** If set, attempts run in other processes instead of this one. The number is the number of the try. */
  readonly elsewhere?:
    | ((
        attempt: TaskAttempt,
        settings: SweRun.Settings,
        number: RowPool.Attempt
      ) => Effect.Effect<RowPool.Result, Outcome.ReportedFailure>)
    | undefined
  readonly concurrency: number
  readonly settings: SweRun.Settings
  readonly onProgress?: ((progress: RowPool.Progress) => Effect.Effect<void>) | undefined
  /** Called with the row of each attempt that ended with a result. */
  readonly onSolved?: ((row: ScoredRow) => Effect.Effect<void>) | undefined
}

/** Runs an attempt in this process. */
const runHere = Effect.fnUntraced(function* (
  { task }: TaskAttempt,
  settings: SweRun.Settings,
  recordFailed: (fields: Json.Fields) => Effect.Effect<void>,
  tell: RowPool.UsageReporter
) {
  const { costUsd, fields, usage } = yield* SweRun.run(task, settings, recordFailed, tell)
  return RowPool.makeFinishedResult(fields, { tokens: Usage.countTotalTokens(usage), costUsd })
}, Effect.scoped)

/** Makes the writer of rows of failed attempts. The rows are also added to `failedRows`. */
const makeFailureRecorder = Effect.fnUntraced(function* (files: SweFiles.Files, failedRows: Map<string, ScoredRow>) {
  const fs = yield* FileSystem.FileSystem
  return ({ digest, id, number: run }: TaskAttempt) =>
    (given: Json.Fields): Effect.Effect<void> => {
      const fields = run === 1 ? given : { ...given, run }
      failedRows.set(id, toScoredRow({ id, fields }))
      return fs
        .writeFileString(files.failed, `${JSON.stringify({ ...fields, row_digest: digest })}\n`, {
          flag: "a",
          mode: 0o600
        })
        .pipe(Effect.catch((error) => Effect.logWarning(SweFiles.toWriteError(files.failed)(error).message)))
    }
})

/**
 * Runs the attempts that have no result yet. The rows cover all tasks that have a result or an evaluation. An attempt
 * that failed or was not started counts as unresolved.
 */
export const run = Effect.fn("SwePool.run")(function* ({
  concurrency,
  elsewhere,
  files,
  journal,
  limits,
  onProgress,
  onSolved,
  runs = 1,
  settings,
  tasks,
  timeout
}: Options): Effect.fn.Return<
  { readonly summary: RowPool.Summary; readonly rows: ReadonlyArray<ScoredRow> },
  RowJournal.JournalError,
  SweRun.SweRuntime | WorkingCopy.Needs
> {
  const attempts = listAttempts(tasks, runs)
  const failedRows = yield* readFailedRows(files, attempts)
  const recordFailed = yield* makeFailureRecorder(files, failedRows)
  const predictions = Effect.flatMap(readRows(journal, attempts), (rows) => {
    const finished = new Set(rows.map(({ id, run }) => formatAttemptId(id, run)))
    const partial = Array.from(failedRows).flatMap(([id, row]) => (row.patch !== "" && !finished.has(id) ? row : []))
    return SweFiles.writePredictions(files, [...rows, ...partial], runs)
  })
  const summary = yield* RowPool.run({
    rows: attempts,
    journal,
    concurrency,
    limits,
    timeout,
    onProgress,
    // Tasks are not retried automatically, because the runtime already retries requests and repeating a whole task is
    // too expensive. If an image cannot be built, only its own task fails.
    onFailure: (error) =>
      BatchRow.decideOnFailure(error) === "stop" && !(error._tag === "ConfigError" && error.path === "image")
        ? "stop"
        : "fail",
    run: (attempt: TaskAttempt, number: RowPool.Attempt, tell: RowPool.UsageReporter) =>
      Effect.gen(function* () {
        const { getSeed } = settings
        const own = getSeed === undefined ? settings : { ...settings, getSeed: () => getSeed({ id: attempt.id }) }
        // The row of an earlier run does not describe this attempt.
        failedRows.delete(attempt.id)
        const result = yield* elsewhere === undefined
          ? runHere(attempt, own, recordFailed(attempt), tell)
          : Effect.tapError(elsewhere(attempt, own, number), ({ fields }) =>
              fields === undefined ? Effect.void : recordFailed(attempt)(fields)
            )
        const fields = attempt.number === 1 ? result.fields : { ...result.fields, run: attempt.number }
        if (result.suspendedIn === undefined) yield* onSolved?.(toScoredRow({ id: attempt.id, fields })) ?? Effect.void
        return { ...result, fields }
      })
  }).pipe(Effect.onInterrupt(() => Effect.catch(predictions, ({ message }) => Effect.logWarning(message))))
  yield* predictions
  return { summary, rows: addUnresolved(yield* readRows(journal, attempts), attempts, failedRows, summary) }
})

/** Totals over all tasks of a run that have an evaluation. */
export interface Totals {
  /** Number of attempts from which the share of resolved ones is computed, including attempts without a result. */
  readonly counted: number
  readonly evaluated: number
  readonly resolved: number
  /** Number of attempts at each task. */
  readonly runs: number
  /** Number of these attempts by outcome. */
  readonly outcomes: Outcome.Summary
  /** Confidence interval of the share of resolved tasks, or `undefined` if no task has an evaluation. */
  readonly interval: EvalStatistics.Interval | undefined
  readonly failToPass: { readonly passed: number; readonly total: number }
  readonly passToPass: { readonly passed: number; readonly total: number }
}

/** Computes the interval of the share of resolved attempts. The attempts at a task are one cluster. */
const estimateResolved = (rows: ReadonlyArray<ScoredRow>): EvalStatistics.Interval | undefined =>
  EvalStatistics.estimateInterval(
    Array.from(Map.groupBy(rows, ({ id }) => id).values(), (attempts) =>
      EvalStatistics.mean(attempts.map(({ status }) => Number(status === "resolved")))
    )
  )

/** Adds up the scores of rows. */
export const sumTotals = (rows: ReadonlyArray<ScoredRow>): Totals => {
  const counted = rows.filter(({ status }) => status !== undefined)
  const evaluated = counted.filter(({ status }) => withoutResult.every((one) => one !== status)).length
  const resolved = counted.filter(({ status }) => status === "resolved").length
  const sumPart = (part: "failToPass" | "passToPass") =>
    counted.reduce((all, row) => ({ passed: all.passed + row[part].passed, total: all.total + row[part].total }), {
      passed: 0,
      total: 0
    })
  return {
    counted: counted.length,
    evaluated,
    resolved,
    outcomes: Outcome.summarizeKinds(counted.map(({ kind }) => kind)),
    runs: rows.reduce((most, { run }) => Math.max(most, run), 1),
    interval: estimateResolved(counted),
    failToPass: sumPart("failToPass"),
    passToPass: sumPart("passToPass")
  }
}
