/**
 * The summary of `hermes batch run`, and its message about an interruption.
 */
import * as BatchFiles from "../../research/batch/BatchFiles.ts"
import type * as BatchRun from "../../research/batch/BatchRun.ts"
import * as Outcome from "../../research/batch/Outcome.ts"
import type { Progress } from "../../research/batch/RowPool.ts"
import * as BatchProgress from "./render/BatchProgress.ts"
import * as SafeText from "./render/SafeText.ts"
import { renderTable } from "./ProgramOutput.ts"
import { formatCount } from "./RunnerCommand.ts"

/** Maximum number of failed rows, and of rows that wait, that are listed. */
const shownFailures = 5

const formatResumeHint = (runName: string): string =>
  `Run the same command with --resume to continue (run "${runName}").`

/** Returns the message about an interruption, or `undefined` if the run had not begun. */
export const describeInterruption = (runName: string, last: Progress | undefined): string | undefined =>
  last === undefined
    ? undefined
    : `Interrupted: ${BatchProgress.listFacts(last)[0] ?? ""} done. Rows in flight are not ` +
      `saved.\n${formatResumeHint(runName)}`

const formatFailed = ({ failed, failures }: Pick<BatchRun.Report, "failed" | "failures">): string => {
  const kinds = Outcome.describeFailures(Outcome.summarizeKinds(failures.map(({ kind }) => kind)))
  return kinds === "" ? String(failed) : `${failed} (${kinds})`
}

const listCounts = (report: BatchRun.Report, left: number) => {
  const {
    costUsd,
    failed,
    statistics: { rows },
    tokens
  } = report
  return [
    [
      "  finished",
      rows.gone === 0
        ? String(rows.finished)
        : `${rows.finished}, including ${rows.gone} of rows that changed or are no longer in the dataset`
    ],
    ...(rows.discarded === 0 ? [] : [["  discarded", `${rows.discarded} (no reasoning in any turn)`]]),
    ...(failed === 0 ? [] : [["  failed", formatFailed(report)]]),
    ...(report.suspended === 0 ? [] : [["  suspended", `${report.suspended} (waiting for answers)`]]),
    ...(left === 0 ? [] : [["  not begun", String(left)]]),
    ["  tokens", tokens.toLocaleString("en-US")],
    ...(costUsd === undefined || costUsd === 0 ? [] : [["  cost", BatchProgress.formatDollars(costUsd)]])
  ]
}

const listFailures = (failures: BatchRun.Report["failures"]): ReadonlyArray<string> => [
  ...failures
    .slice(0, shownFailures)
    .map(({ attempts, id, message }) => `Failed: row ${id} after ${formatCount(attempts, "attempt")}: ${message}`),
  ...(failures.length > shownFailures
    ? [`… and ${formatCount(failures.length - shownFailures, "more row")}: see attempts.jsonl`]
    : [])
]

const listWaiting = ({ waiting }: Pick<BatchRun.Report, "waiting">, sessions: string): ReadonlyArray<string> => [
  ...waiting.slice(0, shownFailures).map(({ id, sessionId }) => `Waiting: row ${id} in session ${sessionId}`),
  ...(waiting.length > shownFailures ? [`… and ${formatCount(waiting.length - shownFailures, "more row")}`] : []),
  ...(waiting.length > 0 ? [`Their questions: hermes sessions waiting${sessions}`] : [])
]

/** Formats the summary of a run as lines. `sessions` are the flags of `hermes sessions` that select its sessions. */
export const formatSummary = (
  runName: string,
  directory: string,
  report: BatchRun.Report,
  sessions: string
): string => {
  const { before, failed, failures, merged, millis, stopped, suspended, total } = report
  const left = total - before - report.finished - report.discarded - failed - suspended
  const earlier = before > 0 ? `, ${before} of them before` : ""
  const unknown = merged.withUnknownTools
  return [
    `${runName}: ${total - failed - suspended - left} of ${total} rows done in ` +
      `${BatchProgress.formatTime(millis)}${earlier}`,
    ...renderTable(listCounts(report, left)).split("\n"),
    `  ${directory}/${BatchFiles.names.trajectories}: ${formatCount(merged.written, "row")}` +
      (unknown === 0 ? "" : `; ${formatCount(unknown, "row")} with unknown tools left out`),
    ...listFailures(failures),
    ...listWaiting(report, sessions),
    ...(stopped === undefined ? [] : [`Stopped: ${stopped}`]),
    ...(failed > 0 || suspended > 0 || left > 0 ? [formatResumeHint(runName)] : [])
  ]
    .map(SafeText.toPlainText)
    .join("\n")
}
