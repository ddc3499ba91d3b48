/** Formats the results of tasks as text and as JSON. */
import * as Outcome from "../../research/batch/Outcome.ts"
import type * as EvalStatistics from "../../research/eval/EvalStatistics.ts"
import * as SwePool from "../../research/swe/SwePool.ts"
import { renderTable } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

/** Formats a duration in seconds. */
export const formatSeconds = (seconds: number): string => `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`

const formatCost = (usd: number | undefined): string =>
  usd === undefined ? "" : `$${usd.toFixed(usd > 0 && usd < 0.01 ? 4 : 2)}`

/** Formats the status of a task. */
export const formatStatus = (status: string | undefined): string =>
  status === undefined ? "not evaluated" : status.replaceAll("_", " ")

const formatRatio = ({ passed, total }: { readonly passed: number; readonly total: number }): string =>
  total === 0 ? "" : `${passed}/${total}`

const maxName = 32

/** Renders tasks as a table. */
export const renderRows = (rows: ReadonlyArray<SwePool.ScoredRow>): string =>
  renderTable([
    ["TASK", "STATUS", "F2P", "P2P", "CALLS", "TIME", "COST"],
    ...rows.map(({ calls, costUsd, failToPass, id, passToPass, run, seconds, status }) => [
      SafeText.toLine(id.length > maxName ? `${id.slice(0, maxName - 1)}…` : id) + (run === 1 ? "" : `#${run}`),
      formatStatus(status),
      formatRatio(failToPass),
      formatRatio(passToPass),
      String(calls),
      formatSeconds(seconds),
      formatCost(costUsd)
    ])
  ])

const intervalNames: Readonly<Record<EvalStatistics.Interval["method"], string>> = {
  wilson: "Wilson",
  clustered: "Student over tasks",
  bootstrap: "bootstrap"
}

const formatPercent = (share: number): string => `${(share * 100).toFixed(1)} %`

/** Describes the outcomes that are not results, and the rate without failures of the infrastructure. */
const describeUnresolved = (outcomes: Outcome.Summary): string => {
  const failures = Outcome.describeFailures(outcomes)
  const { counts, rateWithoutInfrastructure } = outcomes
  const rest =
    counts.infrastructure === 0 || rateWithoutInfrastructure === undefined
      ? ""
      : ` (${formatPercent(rateWithoutInfrastructure)} without failures of the infrastructure)`
  return failures === "" ? "" : `; not resolved, counted: ${failures}${rest}`
}

/** Formats the score of all tasks as a line. */
export const formatTotals = (rows: ReadonlyArray<SwePool.ScoredRow>): string => {
  const { counted, interval, outcomes, passToPass, failToPass, resolved, runs } = SwePool.sumTotals(rows)
  if (counted === 0)
    return `${rows.length} ${rows.length === 1 ? "task" : "tasks"} done, none evaluated: pass --eval-command`
  const range =
    interval === undefined
      ? ""
      : `, 95 % ${formatPercent(interval.low)} to ${formatPercent(interval.high)} (${intervalNames[interval.method]})`
  const tests =
    failToPass.total + passToPass.total === 0
      ? ""
      : `tests passed: F2P ${formatRatio(failToPass) || "0/0"}, P2P ${formatRatio(passToPass) || "0/0"}`
  return (
    `${resolved} of ${counted} ${runs === 1 ? "" : "attempts "}resolved: ` +
    `${formatPercent(resolved / counted)}${range}${describeUnresolved(outcomes)}\n${tests}`
  ).trimEnd()
}

/** Converts a task to its JSON form. */
export const toRowJson = ({
  calls,
  costUsd,
  detail,
  failToPass,
  id,
  kind,
  model,
  passToPass,
  patch,
  run,
  seconds,
  status
}: SwePool.ScoredRow) => ({
  instance_id: id,
  ...(run === 1 ? {} : { run }),
  status: status ?? null,
  outcome: status === undefined ? null : kind,
  fail_to_pass: failToPass,
  pass_to_pass: passToPass,
  model,
  api_calls: calls,
  seconds,
  cost_usd: costUsd ?? null,
  patch_bytes: new TextEncoder().encode(patch).length,
  detail
})

/** Converts the score of all tasks to its JSON form. */
export const toTotalsJson = (rows: ReadonlyArray<SwePool.ScoredRow>) => {
  const { counted, evaluated, failToPass, interval, outcomes, passToPass, resolved, runs } = SwePool.sumTotals(rows)
  return {
    tasks: new Set(rows.map(({ id }) => id)).size,
    ...(runs === 1 ? {} : { runs, attempts: rows.length }),
    evaluated,
    without_result: counted - evaluated,
    resolved,
    rate: counted === 0 ? null : resolved / counted,
    interval: interval ?? null,
    outcomes: outcomes.counts,
    rate_without_infrastructure: outcomes.rateWithoutInfrastructure ?? null,
    fail_to_pass: failToPass,
    pass_to_pass: passToPass
  }
}
