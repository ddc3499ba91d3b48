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

/** Maximum number of failed rows that are listed. */
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

/** Formats the summary of a run as lines. */
export const formatSummary = (runName: string, directory: string, report: BatchRun.Report): string => {
  const { before, failed, failures, merged, millis, stopped, total } = report
  const left = total - before - report.finished - report.discarded - failed
  const earlier = before > 0 ? `, ${before} of them before` : ""
  const unknown = merged.withUnknownTools
  return [
    `${runName}: ${total - failed - left} of ${total} rows done in ${BatchProgress.formatTime(millis)}${earlier}`,
    ...renderTable(listCounts(report, left)).split("\n"),
    `  ${directory}/${BatchFiles.names.trajectories}: ${formatCount(merged.written, "row")}` +
      (unknown === 0 ? "" : `; ${formatCount(unknown, "row")} with unknown tools left out`),
    ...listFailures(failures),
    ...(stopped === undefined ? [] : [`Stopped: ${stopped}`]),
    ...(failed > 0 || left > 0 ? [formatResumeHint(runName)] : [])
  ]
    .map(SafeText.toPlainText)
    .join("\n")
}
