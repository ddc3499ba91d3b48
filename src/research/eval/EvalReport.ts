/**
 * Statistics of an evaluation: pass rate and pass@k with intervals, scores of each scorer, agreement of judges, cost,
 * tokens and latency. Also compares two configurations on the rows that both answered. Pure.
 *
 * **Details**
 *
 * The pass rate is computed from the share of passed attempts in each row. It is the mean of these shares, so that
 * every row has the same weight. An attempt that failed or was not started has no result. {@link addMissing} counts it
 * as not passed, so that rates are not computed only from attempts with a result. Wilson intervals are used if every
 * row counts 0 or 1 (one attempt each), otherwise Student's interval over rows, whose attempts are one cluster. pass@k
 * counts rows with at least `k` attempts.
 *
 * Two configurations are compared by the exact McNemar test if every common row has one attempt in both, otherwise by
 * the sign-flip test of the differences between their rates.
 *
 * **Example** (The report and the page of stored attempts)
 *
 * ```ts
 * import { EvalPage, EvalReport } from "hermes-effect/evaluation"
 *
 * const fields = { item: "a", run: 1, passed: true, scores: {}, answer: "4", exit: "text_response", model: "m" }
 * const attempts = [EvalReport.parseAttempt({ fields })].filter((attempt) => attempt !== undefined)
 * const report = EvalReport.make("base", attempts)
 *
 * console.log(report.passRate.value, EvalPage.render("base", [{ report, attempts }]).startsWith("<!doctype html>"))
 * // => 1 true
 * ```
 */
import * as Json from "../../base/domain/Json.ts"
import { isCompletedExit } from "../../base/domain/RunEvent.ts"
import * as Outcome from "../batch/Outcome.ts"
import type { AttemptFailure, ResultLine } from "../batch/RowJournal.ts"
import * as EvalStatistics from "./EvalStatistics.ts"
import * as JudgeScorer from "./JudgeScorer.ts"

/** A finished attempt. */
export interface AttemptResult {
  readonly item: string
  readonly run: number
  readonly passed: boolean
  readonly kind: Outcome.Kind
  readonly scores: ReadonlyMap<string, { readonly passed: boolean; readonly score: number; readonly detail: string }>
  readonly opinions: ReadonlyArray<JudgeScorer.Opinion>
  readonly label: boolean | undefined
  readonly prompt: string
  /** References or pattern of the row, or an empty string. */
  readonly expected: string
  readonly answer: string
  readonly exit: string
  readonly model: string
  readonly seconds: number | undefined
  readonly inputTokens: number
  readonly outputTokens: number
  readonly costUsd: number | undefined
  readonly judgeCostUsd: number | undefined
}

/** Estimate of a share, with its interval. */
export interface Estimate {
  readonly value: number
  readonly interval: EvalStatistics.Interval | undefined
}

/** Statistics of one configuration. */
export interface Report {
  readonly name: string
  readonly models: ReadonlyArray<string>
  readonly items: number
  readonly attempts: number
  readonly passRate: Estimate
  /** Number of attempts by outcome, and the share of passed attempts. */
  readonly outcomes: Outcome.Summary
  readonly passAtK: ReadonlyArray<Estimate & { readonly k: number; readonly items: number }>
  readonly scorers: ReadonlyArray<{ readonly name: string; readonly passRate: number; readonly meanScore: number }>
  readonly agreements: ReadonlyArray<JudgeScorer.JudgeAgreement>
  /** Number of attempts whose run did not end with an answer. */
  readonly incomplete: number
  /** Number of attempts without a result, which count as not passed. */
  readonly withoutResult: number
  readonly inputTokens: number
  readonly outputTokens: number
  /** Cost in US dollars, or `undefined` if no cost is known. */
  readonly costUsd: number | undefined
  readonly judgeCostUsd: number | undefined
  readonly latency: { readonly mean: number; readonly p50: number; readonly p95: number } | undefined
}

/** Test of a comparison. */
export interface ComparisonTest {
  /** `sign_flip_sampled` is the permutation test on a sample of the permutations. */
  readonly method: "mcnemar" | "sign_flip" | "sign_flip_sampled"
  /** Two-sided p-value. */
  readonly p: number
}

/** Comparison of two configurations on their common rows. */
export interface Comparison {
  readonly first: Report
  readonly second: Report
  readonly commonItems: number
  /** Pass rate of the second configuration minus the pass rate of the first. */
  readonly difference: EvalStatistics.PairedDifference | undefined
  readonly test: ComparisonTest | undefined
  /** Ids of the rows in which the second configuration passed a larger share of attempts than the first. */
  readonly better: ReadonlyArray<string>
  readonly worse: ReadonlyArray<string>
}

const toNumber = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined

/** Parses an attempt from a result line. Returns `undefined` if the line does not contain an attempt. */
export const parseAttempt = ({ fields }: Pick<ResultLine, "fields">): AttemptResult | undefined => {
  const item = Json.readString(fields["item"])
  const run = toNumber(fields["run"])
  if (item === undefined || run === undefined) return undefined
  const usage = Json.readFields(fields["usage"])
  const passed = fields["passed"] === true
  const exit = Json.readString(fields["exit"]) ?? ""
  return {
    item,
    run,
    passed,
    kind: Outcome.classifyResult({ passed, exit }),
    scores: new Map(
      Object.entries(Json.readFields(fields["scores"])).map(([name, value]) => {
        const { detail, passed, score } = Json.readFields(value)
        return [name, { passed: passed === true, score: toNumber(score) ?? 0, detail: Json.readString(detail) ?? "" }]
      })
    ),
    opinions: Json.readItems(fields["opinions"])
      .map(Json.readFields)
      .map(({ judge, passed, reason }) => ({
        judge: Json.readWord(judge),
        passed: passed === true,
        reason: Json.readString(reason) ?? ""
      })),
    label: typeof fields["label"] === "boolean" ? fields["label"] : undefined,
    prompt: Json.readString(fields["prompt"]) ?? "",
    expected: Json.readString(fields["expected"]) ?? "",
    answer: Json.readString(fields["answer"]) ?? "",
    exit,
    model: Json.readString(fields["model"]) ?? "",
    seconds: toNumber(fields["seconds"]),
    inputTokens: toNumber(usage["prompt_tokens"]) ?? 0,
    outputTokens: toNumber(usage["completion_tokens"]) ?? 0,
    costUsd: toNumber(fields["cost_usd"]),
    judgeCostUsd: toNumber(fields["judge_cost_usd"])
  }
}

/** Value of `exit` for an attempt without a result, which failed or was not started. */
export const noResult = "no_result"

/** Prompt and expected answer of a row. */
export type RowText = Pick<AttemptResult, "expected" | "item" | "prompt">

/** Makes the entry for an attempt without a result, given its id (`<row>#<number>`). */
const makeMissingAttempt = (
  id: string,
  cause: AttemptFailure | undefined,
  texts: ReadonlyMap<string, RowText>
): AttemptResult => {
  const place = id.lastIndexOf("#")
  const item = place === -1 ? id : id.slice(0, place)
  const { expected = "", prompt = "" } = texts.get(item) ?? {}
  return {
    item,
    run: place === -1 ? 1 : Number(id.slice(place + 1)),
    passed: false,
    kind: cause?.kind ?? "not_run",
    scores: new Map(),
    opinions: [],
    label: undefined,
    prompt,
    expected,
    answer: cause?.message ?? "",
    exit: noResult,
    model: "",
    seconds: undefined,
    inputTokens: 0,
    outputTokens: 0,
    costUsd: undefined,
    judgeCostUsd: undefined
  }
}

/**
 * Adds an entry, which counts as not passed, for each id (`<row>#<number>`) without a result. `causes` contains the
 * known failures by id, and `texts` prompts and expected answers by row.
 */
export const addMissing = (
  attempts: ReadonlyArray<AttemptResult>,
  ids: ReadonlyArray<string>,
  causes: ReadonlyMap<string, AttemptFailure> = new Map(),
  texts: ReadonlyMap<string, RowText> = new Map()
): ReadonlyArray<AttemptResult> => {
  const found = new Set(attempts.map(({ item, run }) => `${item}#${run}`))
  return [...attempts, ...ids.filter((id) => !found.has(id)).map((id) => makeMissingAttempt(id, causes.get(id), texts))]
}

/** Groups attempts by row. */
const groupByItem = (attempts: ReadonlyArray<AttemptResult>): ReadonlyMap<string, ReadonlyArray<AttemptResult>> =>
  Map.groupBy(attempts, ({ item }) => item)

const computeRate = (attempts: ReadonlyArray<AttemptResult>): number =>
  EvalStatistics.mean(attempts.map(({ passed }) => Number(passed)))

/** Returns the sum of the known values, or `undefined` if all values are unknown. */
const sumKnown = (values: ReadonlyArray<number | undefined>): number | undefined => {
  const known = values.filter((value) => value !== undefined)
  return known.length === 0 ? undefined : known.reduce((sum, value) => sum + value, 0)
}

const computePassAtK = (items: ReadonlyArray<ReadonlyArray<AttemptResult>>, k: number) => {
  const values = items.flatMap(
    (attempts) => EvalStatistics.passAtK(attempts.length, attempts.filter(({ passed }) => passed).length, k) ?? []
  )
  return values.length === 0
    ? []
    : [
        {
          k,
          items: values.length,
          value: EvalStatistics.mean(values),
          interval: EvalStatistics.estimateInterval(values)
        }
      ]
}

/** Returns the default values of k: powers of two up to the number of attempts. */
export const listUsualK = (runs: number): ReadonlyArray<number> =>
  Array.from({ length: 12 }, (_, power) => 2 ** power).filter((k) => k <= runs)

/** Makes the report of a configuration. */
export const make = (name: string, attempts: ReadonlyArray<AttemptResult>, ks?: ReadonlyArray<number>): Report => {
  const items = Array.from(groupByItem(attempts).values())
  const rates = items.map(computeRate)
  const most = items.reduce((most, { length }) => Math.max(most, length), 0)
  const seconds = attempts.flatMap(({ seconds }) => seconds ?? [])
  const scorers = Array.from(new Set(attempts.flatMap(({ scores }) => Array.from(scores.keys()))))
  return {
    name,
    models: Array.from(new Set(attempts.flatMap(({ exit, model }) => (exit === noResult ? [] : [model])))),
    items: items.length,
    attempts: attempts.length,
    passRate: { value: EvalStatistics.mean(rates), interval: EvalStatistics.estimateInterval(rates) },
    outcomes: Outcome.summarizeKinds(attempts.map(({ kind }) => kind)),
    passAtK: (ks ?? (most > 1 ? listUsualK(most) : [])).flatMap((k) => computePassAtK(items, k)),
    scorers: scorers.map((scorer) => {
      const verdicts = attempts.flatMap(({ scores }) => scores.get(scorer) ?? [])
      // An attempt without a score is counted with score 0.
      const computeShare = (sum: number): number => sum / attempts.length
      return {
        name: scorer,
        passRate: computeShare(verdicts.filter(({ passed }) => passed).length),
        meanScore: computeShare(verdicts.reduce((sum, { score }) => sum + score, 0))
      }
    }),
    agreements: JudgeScorer.computeAgreements(attempts.filter(({ opinions }) => opinions.length > 0)),
    incomplete: attempts.filter(({ exit }) => !isCompletedExit(exit) && exit !== "recorded" && exit !== noResult)
      .length,
    withoutResult: attempts.filter(({ exit }) => exit === noResult).length,
    inputTokens: attempts.reduce((sum, { inputTokens }) => sum + inputTokens, 0),
    outputTokens: attempts.reduce((sum, { outputTokens }) => sum + outputTokens, 0),
    costUsd: sumKnown(attempts.map(({ costUsd }) => costUsd)),
    judgeCostUsd: sumKnown(attempts.map(({ judgeCostUsd }) => judgeCostUsd)),
    latency:
      seconds.length === 0
        ? undefined
        : {
            mean: EvalStatistics.mean(seconds),
            p50: EvalStatistics.quantile(seconds, 0.5) ?? 0,
            p95: EvalStatistics.quantile(seconds, 0.95) ?? 0
          }
  }
}

/** Compares two configurations on their common rows. */
export const compare = (
  first: { readonly name: string; readonly attempts: ReadonlyArray<AttemptResult> },
  second: { readonly name: string; readonly attempts: ReadonlyArray<AttemptResult> }
): Comparison => {
  const [a, b] = [groupByItem(first.attempts), groupByItem(second.attempts)]
  const common = Array.from(a.keys()).filter((item) => b.has(item))
  const pairs = common.map((item) => {
    const [before, after] = [a.get(item) ?? [], b.get(item) ?? []]
    return {
      item,
      isSingle: before.length === 1 && after.length === 1,
      difference: computeRate(after) - computeRate(before)
    }
  })
  const difference = EvalStatistics.comparePairs(pairs.map((pair) => pair.difference))
  const better = pairs.filter((pair) => pair.difference > 0).map(({ item }) => item)
  const worse = pairs.filter((pair) => pair.difference < 0).map(({ item }) => item)
  const selectCommon = (attempts: ReadonlyArray<AttemptResult>) =>
    attempts.filter(({ item }) => a.has(item) && b.has(item))
  return {
    first: make(first.name, selectCommon(first.attempts)),
    second: make(second.name, selectCommon(second.attempts)),
    commonItems: common.length,
    difference,
    test:
      difference === undefined
        ? undefined
        : pairs.every(({ isSingle }) => isSingle)
          ? { method: "mcnemar", p: EvalStatistics.testMcNemar(worse.length, better.length) }
          : { method: difference.method === "exact" ? "sign_flip" : "sign_flip_sampled", p: difference.p },
    better,
    worse
  }
}

/** Converts a report to its JSON form. */
export const toWire = (report: Report) => ({
  name: report.name,
  models: report.models,
  items: report.items,
  attempts: report.attempts,
  incomplete: report.incomplete,
  without_result: report.withoutResult,
  pass_rate: report.passRate.value,
  pass_rate_interval: report.passRate.interval ?? null,
  outcomes: report.outcomes.counts,
  pass_rate_without_infrastructure: report.outcomes.rateWithoutInfrastructure ?? null,
  pass_at_k: report.passAtK.map(({ interval, items, k, value }) => ({ k, value, interval: interval ?? null, items })),
  scorers: report.scorers.map(({ meanScore, name, passRate }) => ({
    name,
    pass_rate: passRate,
    mean_score: meanScore
  })),
  agreement: report.agreements.map(({ between, items, kappa, share }) => ({
    between,
    items,
    share,
    kappa: kappa ?? null
  })),
  input_tokens: report.inputTokens,
  output_tokens: report.outputTokens,
  cost_usd: report.costUsd ?? null,
  judge_cost_usd: report.judgeCostUsd ?? null,
  latency_seconds: report.latency ?? null
})

/** Converts a comparison to its JSON form. */
export const toWireComparison = ({ better, commonItems, difference, first, second, test, worse }: Comparison) => ({
  first: toWire(first),
  second: toWire(second),
  common_items: commonItems,
  difference:
    difference === undefined
      ? null
      : {
          mean: difference.mean,
          standard_error: difference.standardError ?? null,
          interval: difference.interval ?? null,
          too_few_rows: difference.hasTooFewRows
        },
  test: test ?? null,
  better,
  worse
})
