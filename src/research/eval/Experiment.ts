/**
 * An experiment: the attempts of several configurations at the same tasks, each with its outcome, and their ranking.
 * Pure.
 *
 * **Details**
 *
 * Configurations are ranked by their pass rate over the tasks that all of them have; equal rates have equal ranks.
 * Every attempt counts, with or without a result (`batch/Outcome`). Each configuration is compared with the first one
 * by the exact sign-flip test over tasks, so that several attempts at a task are one cluster. The first one is known
 * only from the results, so the p-values are adjusted by the method of Holm for the comparisons of all pairs.
 *
 * **Example** (Two configurations)
 *
 * ```ts
 * import { EvalReport, Experiment } from "hermes-effect/evaluation"
 *
 * const attempt = (passed: boolean) =>
 *   EvalReport.parseAttempt({ fields: { item: "a", run: 1, passed, exit: "text_response" } })
 * const configure = (name: string, passed: boolean) => ({
 *   name,
 *   attempts: [attempt(passed)].filter((one) => one !== undefined)
 * })
 *
 * const { standings } = Experiment.makeExperiment([configure("base", false), configure("new", true)])
 * console.log(standings.map(({ rank, report }) => `${rank} ${report.name}`).join())
 * // => 1 new,2 base
 * ```
 */
import type * as Outcome from "../batch/Outcome.ts"
import * as EvalReport from "./EvalReport.ts"
import * as EvalStatistics from "./EvalStatistics.ts"

/** A configuration, with all its attempts. */
export interface Configuration {
  readonly name: string
  readonly attempts: ReadonlyArray<EvalReport.AttemptResult>
}

/** A configuration in the ranking. */
export interface Standing {
  readonly rank: number
  readonly report: EvalReport.Report
  /** Difference of its rate from the rate of the first configuration, over tasks. `undefined` for the first one. */
  readonly difference: EvalStatistics.PairedDifference | undefined
  /** Two-sided p-value of the difference, adjusted for the comparisons of all pairs of configurations. */
  readonly adjustedP: number | undefined
}

/** Tasks, configurations and the outcomes of all attempts. */
export interface Experiment {
  /** Ids of the tasks that all configurations have. */
  readonly tasks: ReadonlyArray<string>
  /** Number of tasks that only some configurations have. They are left out. */
  readonly leftOut: number
  /** Configurations by rank. */
  readonly standings: ReadonlyArray<Standing>
  /** Outcomes of the attempts, by the name of the configuration and the id of the task. */
  readonly outcomes: ReadonlyMap<string, ReadonlyMap<string, ReadonlyArray<Outcome.Kind>>>
}

/** Adjusts p-values for their number by the method of Holm. */
export const adjustByHolm = (values: ReadonlyArray<number>): ReadonlyArray<number> => {
  const order = values.map((_, index) => index).toSorted((a, b) => (values[a] ?? 1) - (values[b] ?? 1))
  const adjusted = values.slice()
  let largest = 0
  order.forEach((index, place) => {
    largest = Math.max(largest, Math.min(1, (values[index] ?? 1) * (values.length - place)))
    adjusted[index] = largest
  })
  return adjusted
}

const groupByTask = (attempts: ReadonlyArray<EvalReport.AttemptResult>) => Map.groupBy(attempts, ({ item }) => item)

const computeRate = (attempts: ReadonlyArray<EvalReport.AttemptResult> = []): number =>
  EvalStatistics.mean(attempts.map(({ passed }) => Number(passed)))

/** Makes the experiment of configurations, whose names must differ. */
export const makeExperiment = (configurations: ReadonlyArray<Configuration>): Experiment => {
  const all = Array.from(new Set(configurations.flatMap(({ attempts }) => attempts.map(({ item }) => item))))
  const grouped = configurations.map(({ attempts, name }) => ({ name, byTask: groupByTask(attempts) }))
  const tasks = all.filter((task) => grouped.every(({ byTask }) => byTask.has(task)))
  const ranked = grouped
    .map(({ byTask, name }) => ({
      byTask,
      report: EvalReport.make(
        name,
        tasks.flatMap((task) => byTask.get(task) ?? [])
      )
    }))
    .toSorted((a, b) => b.report.passRate.value - a.report.passRate.value)
  const rates = ranked.map(({ byTask }) => tasks.map((task) => computeRate(byTask.get(task))))
  const compareRanks = (first: number, second: number) =>
    EvalStatistics.comparePairs(tasks.map((_, at) => (rates[second]?.[at] ?? 0) - (rates[first]?.[at] ?? 0)))
  const differences = ranked.slice(1).map((_, index) => compareRanks(0, index + 1))
  const others = ranked.flatMap((_, first) =>
    first === 0 ? [] : ranked.slice(first + 1).map((_, index) => compareRanks(first, first + 1 + index))
  )
  const adjusted = adjustByHolm([...differences, ...others].map((difference) => difference?.p ?? 1))
  return {
    tasks,
    leftOut: all.length - tasks.length,
    standings: ranked.map(({ report }, index) => ({
      rank: 1 + ranked.filter((other) => other.report.passRate.value > report.passRate.value).length,
      report,
      difference: index === 0 ? undefined : differences[index - 1],
      adjustedP: index === 0 || differences[index - 1] === undefined ? undefined : adjusted[index - 1]
    })),
    outcomes: new Map(
      grouped.map(({ byTask, name }) => [
        name,
        new Map(tasks.map((task) => [task, (byTask.get(task) ?? []).map(({ kind }) => kind)]))
      ])
    )
  }
}

/** Converts an experiment to its JSON form. */
export const toWire = ({ leftOut, outcomes, standings, tasks }: Experiment) => ({
  tasks,
  left_out: leftOut,
  configurations: standings.map(({ adjustedP, difference, rank, report }) => ({
    rank,
    ...EvalReport.toWire(report),
    difference: difference?.mean ?? null,
    difference_interval: difference?.interval ?? null,
    standard_error: difference?.standardError ?? null,
    p: difference?.p ?? null,
    adjusted_p: adjustedP ?? null,
    too_few_rows: difference?.hasTooFewRows ?? null
  })),
  outcomes: Object.fromEntries(Array.from(outcomes, ([name, byTask]) => [name, Object.fromEntries(byTask)]))
})
