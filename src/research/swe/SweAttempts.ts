/**
 * Attempts at software engineering tasks in the form of an evaluation, for reports, leaderboards and pages.
 *
 * **Details**
 *
 * Each run of tasks writes the list of its tasks beside its results, so that every task counts later: a task that
 * failed or was not started is an attempt without a result. Only tasks with an evaluation are attempts. The score of
 * an attempt is the share of its tests that passed, or 0 or 1 if the tests have no names; an attempt passes if its
 * task is resolved.
 *
 * **Example** (Reading the list of tasks of a run)
 *
 * ```ts
 * import { SweAttempts } from "hermes-effect/swe"
 *
 * const list = SweAttempts.parseTasks({ name: "small model", tasks: [{ id: "fix-1", prompt: "Fix the parser." }] })
 *
 * console.log(list?.name, list?.tasks.length)
 * // => small model 1
 * ```
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Json from "../../base/domain/Json.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import type * as RowJournal from "../batch/RowJournal.ts"
import * as RowPool from "../batch/RowPool.ts"
import * as EvalReport from "../eval/EvalReport.ts"
import * as SwePool from "./SwePool.ts"
import type { SweTask } from "./SweTask.ts"

/** Name of the scorer in reports. */
export const scorerName = "tests"

/** A task of a run. */
export interface ListedTask extends RowJournal.RowKey {
  readonly prompt: string
  /** Command and names of the tests that a solution has to pass. */
  readonly expected: string
}

/** The tasks of a run, and its configuration. */
export interface TaskList {
  /** Name of the configuration in reports. */
  readonly name: string
  readonly tasks: ReadonlyArray<ListedTask>
  /** Number of attempts at each task. Defaults to 1. */
  readonly runs?: number | undefined
}

/** Maximum number of characters of a prompt in the list. */
const listedChars = 4000

/** Makes the list of the tasks that have an evaluation. */
export const listTasks = (name: string, tasks: ReadonlyArray<SweTask>, runs = 1): TaskList => ({
  name,
  ...(runs === 1 ? {} : { runs }),
  tasks: tasks.flatMap(({ check, digest, id, instruction }) =>
    check === undefined
      ? []
      : {
          id,
          digest,
          prompt: TextCut.cutMiddle(instruction, listedChars),
          expected: [check.command, ...check.expected.failToPass].join("\n").slice(0, listedChars)
        }
  )
})

/** Parses a list of tasks. Returns `undefined` for any other value. */
export const parseTasks = (value: unknown): TaskList | undefined => {
  const fields = Json.readFields(value)
  const name = Json.readString(fields["name"])
  if (name === undefined || !Array.isArray(fields["tasks"])) return undefined
  const tasks = fields["tasks"]
    .map(Json.readFields)
    .flatMap(({ digest, expected, id, prompt }) =>
      typeof id === "string"
        ? {
            id,
            digest: Json.readString(digest),
            prompt: Json.readString(prompt) ?? "",
            expected: Json.readString(expected) ?? ""
          }
        : []
    )
  const { runs } = fields
  return { name, tasks, ...(typeof runs === "number" && Number.isInteger(runs) && runs > 1 ? { runs } : {}) }
}

/** An attempt at a listed task. */
interface ListedAttempt extends RowJournal.RowKey {
  readonly task: ListedTask
  readonly run: number
}

const listAttempts = ({ runs = 1, tasks }: TaskList): ReadonlyArray<ListedAttempt> =>
  Array.from({ length: runs }, (_, index) => index + 1).flatMap((run) =>
    tasks.map((task) => ({ task, run, id: SwePool.formatAttemptId(task.id, run), digest: task.digest }))
  )

/** Returns the share of named tests that passed, or 0 or 1 without names. */
const computeScore = ({ failToPass, passToPass, status }: SwePool.ScoredRow): number => {
  const total = failToPass.total + passToPass.total
  return total === 0 ? Number(status === "resolved") : (failToPass.passed + passToPass.passed) / total
}

/** Converts the row of a task with an evaluation to an attempt. */
export const toAttempt = (
  { expected, prompt }: Pick<ListedTask, "expected" | "prompt">,
  row: SwePool.ScoredRow
): EvalReport.AttemptResult => {
  const hasResult = SwePool.withoutResult.every((status) => status !== row.status)
  const passed = row.status === "resolved"
  return {
    item: row.id,
    run: row.run,
    passed,
    kind: row.kind,
    scores: new Map(hasResult ? [[scorerName, { passed, score: computeScore(row), detail: row.detail }]] : []),
    opinions: [],
    label: undefined,
    prompt,
    expected,
    answer: row.patch === "" ? row.detail : row.patch,
    exit: hasResult ? row.exit : EvalReport.noResult,
    model: row.model,
    seconds: hasResult ? row.seconds : undefined,
    inputTokens: row.inputTokens,
    outputTokens: row.outputTokens,
    costUsd: row.costUsd,
    judgeCostUsd: undefined
  }
}

/** Makes the attempts of a run from its rows. A task without a row was not run. */
export const toAttempts = (
  list: TaskList,
  rows: ReadonlyArray<SwePool.ScoredRow>
): ReadonlyArray<EvalReport.AttemptResult> => {
  const found = new Map(rows.map((row) => [SwePool.formatAttemptId(row.id, row.run), row]))
  return listAttempts(list).map(({ id, run, task }) =>
    toAttempt(task, found.get(id) ?? { ...SwePool.makeEmptyRow(task.id, "not_run", ""), run })
  )
}

/** Reads the list of tasks beside a results file. Returns `undefined` for a file without a list. */
export const readTasks = Effect.fnUntraced(function* ({ tasks }: SwePool.Files) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.option(fs.readFileString(tasks))
  return parseTasks(Option.getOrUndefined(Option.flatMap(text, Json.parse)))
})

/** Reads the attempts of a run from its files. */
export const readAttempts = Effect.fnUntraced(function* (files: SwePool.Files, list: TaskList) {
  const journal = yield* SwePool.openJournal(files)
  const attempts = listAttempts(list)
  const failedRows = yield* SwePool.readFailedRows(files, attempts)
  const lines = new Map((yield* Stream.runCollect(journal.results)).map((line) => [line.id, line]))
  const rows = attempts.flatMap((attempt) => {
    const { id, run, task } = attempt
    const line = lines.get(id)
    if (line !== undefined && RowPool.isSameRow(line, attempt)) return SwePool.toScoredRow(line)
    const last = journal.attempts.get(id)
    if (last?.failure === undefined || !RowPool.isSameRow(last, attempt)) return []
    const { kind, message } = last.failure
    return { ...SwePool.addWork(SwePool.makeEmptyRow(task.id, "failed", message, kind), failedRows.get(id)), run }
  })
  return toAttempts(list, rows)
})
