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
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as BatchRow from "../batch/BatchRow.ts"
import * as Outcome from "../batch/Outcome.ts"
import * as RowJournal from "../batch/RowJournal.ts"
import * as RowPool from "../batch/RowPool.ts"
import * as EvalStatistics from "../eval/EvalStatistics.ts"
import * as SweRun from "./SweRun.ts"
import type { SweTask } from "./SweTask.ts"
import * as TestReport from "./TestReport.ts"
import * as WorkingCopy from "./WorkingCopy.ts"

/** Absolute paths of the files of a run. */
export interface Files {
  readonly results: string
  readonly predictions: string
  readonly failed: string
  /** List of the tasks of the run, so that a task without a result also counts in a comparison (`SweAttempts`). */
  readonly tasks: string
  /** Page with the attempts of the run. */
  readonly page: string
  /** Store for the sessions of the tasks, separate from the user's sessions. */
  readonly sessions: string
}

/** Returns the paths of a results file and of the files that accompany it. */
export const nameFiles = (results: string): Files => {
  const stem = results.replace(/\.jsonl$/, "")
  return {
    results,
    predictions: `${stem}.predictions.jsonl`,
    failed: `${stem}.failed.jsonl`,
    tasks: `${stem}.tasks.json`,
    page: `${stem}.report.html`,
    sessions: `${stem}.sessions.db`
  }
}

/** Opens the journal of a results file. */
export const openJournal = Effect.fnUntraced(function* ({ results }: Files) {
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

/** The score of a task, as read from its result row. */
export interface ScoredRow {
  readonly id: string
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

/** Reads the score of a task from its result row. */
export const toScoredRow = ({ fields, id }: Pick<RowJournal.ResultLine, "fields" | "id">): ScoredRow => {
  const evaluation = Json.readFields(fields["evaluation"])
  const usage = Json.readFields(fields["usage"])
  const exit = Json.readString(fields["exit"]) ?? ""
  const usd = Json.readFields(fields["cost"])["estimated_cost_usd"]
  const status = Json.readString(evaluation["status"])
  return {
    id,
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
 * Reads the rows of tasks in the order of the tasks. If a task has changed since its result was written, the result is
 * omitted.
 */
export const readRows = Effect.fnUntraced(function* (
  journal: RowJournal.Journal,
  tasks: ReadonlyArray<Pick<SweTask, "digest" | "id">>
) {
  const lines = new Map((yield* Stream.runCollect(journal.results)).map((line) => [line.id, line]))
  return tasks.flatMap((task) => {
    const line = lines.get(task.id)
    return line === undefined || !RowPool.isSameRow(line, task) ? [] : [toScoredRow(line)]
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

/** Rows of failed tasks by id, with the work done until then. */
type FailedRows = ReadonlyMap<string, ScoredRow>

/** Reads the last row of each failed task. Rows of tasks that have changed since are left out. */
export const readFailedRows = Effect.fnUntraced(function* ({ failed }: Files, tasks: ReadonlyArray<RowJournal.RowKey>) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.orElseSucceed(fs.readFileString(failed), () => "")
  const digests = new Map(tasks.map(({ digest, id }) => [id, digest]))
  const rows = new Map<string, ScoredRow>()
  for (const line of text.split("\n")) {
    const fields = Json.readFields(Option.getOrUndefined(Json.parse(line)))
    const id = Json.readString(fields["instance_id"])
    if (id !== undefined && digests.has(id) && digests.get(id) === fields["row_digest"])
      rows.set(id, toScoredRow({ id, fields }))
  }
  return rows
})

/** Adds a row for each task that failed or was not started, so that rates cover all tasks. */
const addUnresolved = (
  rows: ReadonlyArray<ScoredRow>,
  tasks: ReadonlyArray<SweTask>,
  failedRows: FailedRows,
  { failures }: Pick<RowPool.Summary, "failures">
): ReadonlyArray<ScoredRow> => {
  const found = new Map(rows.map((row) => [row.id, row]))
  const causes = new Map(failures.map((failure) => [failure.id, failure]))
  return tasks.flatMap((task) => {
    const cause = causes.get(task.id)
    if (cause === undefined) return found.get(task.id) ?? makeUnresolvedRow(task, "not_run", "") ?? []
    const row = makeUnresolvedRow(task, "failed", cause.message, cause.kind)
    return row === undefined ? [] : addWork(row, failedRows.get(task.id))
  })
}

const toWriteError = (path: string) => (error: Parameters<typeof describeReason>[0]) =>
  new RowJournal.JournalError({ path, message: `${path} cannot be written: ${describeReason(error)}`, canResume: true })

/** Writes the predictions of all rows atomically. */
const writePredictions = Effect.fnUntraced(function* ({ predictions }: Files, rows: ReadonlyArray<ScoredRow>) {
  const fs = yield* FileSystem.FileSystem
  const lines = rows.map(
    ({ id, model, patch }) => `${JSON.stringify({ instance_id: id, model_name_or_path: model, model_patch: patch })}\n`
  )
  yield* fs
    .writeFileString(`${predictions}.new`, lines.join(""), { mode: 0o600 })
    .pipe(Effect.andThen(fs.rename(`${predictions}.new`, predictions)), Effect.mapError(toWriteError(predictions)))
})

/** Options of a run. */
export interface Options extends Pick<RowPool.Options<SweTask, never, never>, "limits" | "timeout"> {
  readonly files: Files
  readonly journal: RowJournal.Journal
  readonly tasks: ReadonlyArray<SweTask>
  readonly concurrency: number
  readonly settings: SweRun.Settings
  readonly onProgress?: ((progress: RowPool.Progress) => Effect.Effect<void>) | undefined
  readonly onSolved?: ((solved: SweRun.SolvedTask, seconds: number) => Effect.Effect<void>) | undefined
}

/**
 * Runs the tasks that have no result yet. The rows cover all tasks that have a result or an evaluation. A task that
 * failed or was not started counts as unresolved.
 */
export const run = Effect.fn("SwePool.run")(function* ({
  concurrency,
  files,
  journal,
  limits,
  onProgress,
  onSolved,
  settings,
  tasks,
  timeout
}: Options): Effect.fn.Return<
  { readonly summary: RowPool.Summary; readonly rows: ReadonlyArray<ScoredRow> },
  RowJournal.JournalError,
  SweRun.SweRuntime | WorkingCopy.Needs
> {
  const fs = yield* FileSystem.FileSystem
  const failedRows = yield* readFailedRows(files, tasks)
  const recordFailed =
    ({ digest, id }: SweTask) =>
    (fields: Json.Fields): Effect.Effect<void> => {
      failedRows.set(id, toScoredRow({ id, fields }))
      return fs
        .writeFileString(files.failed, `${JSON.stringify({ ...fields, row_digest: digest })}\n`, {
          flag: "a",
          mode: 0o600
        })
        .pipe(Effect.catch((error) => Effect.logWarning(toWriteError(files.failed)(error).message)))
    }
  const predictions = Effect.flatMap(readRows(journal, tasks), (rows) => {
    const finished = new Set(rows.map(({ id }) => id))
    const partial = Array.from(failedRows.values()).filter(({ id, patch }) => patch !== "" && !finished.has(id))
    return writePredictions(files, [...rows, ...partial])
  })
  const summary = yield* RowPool.run({
    rows: tasks,
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
    run: (task: SweTask, _: RowPool.Attempt, tell: RowPool.UsageReporter) =>
      Effect.scoped(
        Effect.gen(function* () {
          // The row of an earlier run does not describe this attempt.
          failedRows.delete(task.id)
          const solved = yield* SweRun.run(task, settings, recordFailed(task), tell)
          yield* onSolved?.(solved, toNumber(solved.fields["duration_ms"]) / 1000) ?? Effect.void
          return RowPool.makeFinishedResult(solved.fields, {
            tokens: Usage.countTotalTokens(solved.usage),
            costUsd: solved.costUsd
          })
        })
      )
  }).pipe(Effect.onInterrupt(() => Effect.catch(predictions, ({ message }) => Effect.logWarning(message))))
  yield* predictions
  return { summary, rows: addUnresolved(yield* readRows(journal, tasks), tasks, failedRows, summary) }
})

/** Totals over all tasks of a run that have an evaluation. */
export interface Totals {
  /** Number of tasks from which the share of resolved tasks is computed, including tasks without a result. */
  readonly counted: number
  readonly evaluated: number
  readonly resolved: number
  /** Number of these tasks by outcome. */
  readonly outcomes: Outcome.Summary
  /** Confidence interval of the share of resolved tasks, or `undefined` if no task has an evaluation. */
  readonly interval: EvalStatistics.Interval | undefined
  readonly failToPass: { readonly passed: number; readonly total: number }
  readonly passToPass: { readonly passed: number; readonly total: number }
}

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
    interval: EvalStatistics.computeWilsonInterval(resolved, counted.length),
    failToPass: sumPart("failToPass"),
    passToPass: sumPart("passToPass")
  }
}
