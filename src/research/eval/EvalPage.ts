/**
 * Renders the results of evaluations as a self-contained HTML page without scripts, links or external files.
 *
 * **Details**
 *
 * The page shows the statistics of each configuration, a comparison if there are two, a leaderboard if there are more,
 * and every attempt. Prompt, expected answer and score are visible; the whole texts and verdicts open by a click. Text
 * from models and datasets is escaped. Long text is cut after {@link shownChars} characters.
 */
import * as Redaction from "../../base/domain/Redaction.ts"
import { isCompletedExit } from "../../base/domain/RunEvent.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as Outcome from "../batch/Outcome.ts"
import type { AttemptResult, Comparison, Report } from "./EvalReport.ts"
import type { Experiment, Standing } from "./Experiment.ts"
import * as EvalStatistics from "./EvalStatistics.ts"

/** Maximum number of characters that are shown of each prompt and each answer. */
export const shownChars = 20_000

/** Maximum number of attempts on a page. Failed attempts come first. */
export const shownAttempts = 2000

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => entities[char] ?? char)

const renderText = (text: string): string => escapeHtml(Redaction.redactText(TextCut.cutMiddle(text, shownChars)))

const formatCount = (value: number): string => value.toLocaleString("en-US")

/** Formats a share as a percentage. */
export const formatPercent = (share: number): string => `${(share * 100).toFixed(1)} %`

/** Returns the display name of the method used to compute an interval. */
export const getMethodName = ({ method }: Pick<EvalStatistics.Interval, "method">): string =>
  method === "wilson" ? "Wilson" : method

/** Formats an interval. Returns an empty string if it is `undefined`. */
export const formatInterval = (interval: EvalStatistics.Interval | undefined): string =>
  interval === undefined ? "" : `${formatPercent(interval.low)} to ${formatPercent(interval.high)}`

/** Formats a cost for display. */
export const formatCost = (usd: number | undefined): string =>
  usd === undefined ? "unknown" : `$${usd.toFixed(usd > 0 && usd < 0.01 ? 5 : 2)}`

/** Lists the outcomes that are not results, and the pass rate without failures of the infrastructure. */
const listOutcomes = (outcomes: Outcome.Summary): ReadonlyArray<readonly [name: string, value: string]> => {
  const failures = Outcome.describeFailures(outcomes)
  const { counts, rateWithoutInfrastructure } = outcomes
  const rest = rateWithoutInfrastructure === undefined ? "undefined" : formatPercent(rateWithoutInfrastructure)
  return [
    ...(failures === "" ? [] : [["failures", failures] as const]),
    ...(counts.infrastructure === 0
      ? []
      : [["infrastructure", `${counts.infrastructure} failed; passed without them: ${rest}`] as const])
  ]
}

/** Formats a rate with its interval, if it has one. */
const formatRate = ({ interval, value }: Report["passRate"]): string =>
  formatPercent(value) +
  (interval === undefined ? "" : ` (95 %: ${formatInterval(interval)}, ${getMethodName(interval)})`)

/** Lists facts about a configuration, each with its name and value. */
export const listFacts = (report: Report): ReadonlyArray<readonly [name: string, value: string]> => [
  ["model", report.models.join(", ")],
  ["rows", report.attempts === report.items ? String(report.items) : `${report.items}, ${report.attempts} attempts`],
  ["passed", formatRate(report.passRate)],
  // pass@1 is omitted because it equals the pass rate.
  ...report.passAtK.filter(({ k }) => k > 1).map((rate) => [`pass@${rate.k}`, formatRate(rate)] as const),
  ...(report.scorers.length < 2 && report.scorers.every(({ meanScore, passRate }) => meanScore === passRate)
    ? []
    : report.scorers.map(
        ({ meanScore, name, passRate }) =>
          [name, `${formatPercent(passRate)} passed, mean score ${meanScore.toFixed(3)}`] as const
      )),
  ...report.agreements.map(
    ({ between, items, kappa, share }) =>
      [
        `${between.join(" and ")} agree`,
        `on ${formatPercent(share)} of ${items}, kappa ${kappa === undefined ? "undefined" : kappa.toFixed(2)}`
      ] as const
  ),
  ...(report.incomplete === 0 ? [] : [["incomplete", `${report.incomplete} runs ended early`] as const]),
  ...(report.withoutResult === 0
    ? []
    : [["no result", `${report.withoutResult} of ${report.attempts} attempts, which count as not passed`] as const]),
  ...listOutcomes(report.outcomes),
  ["tokens", `${formatCount(report.inputTokens)} read, ${formatCount(report.outputTokens)} written`],
  [
    "cost",
    formatCost(report.costUsd) +
      (report.judgeCostUsd === undefined ? "" : `, judges ${formatCost(report.judgeCostUsd)}`)
  ],
  ...(report.latency === undefined
    ? []
    : [["latency", `p50 ${report.latency.p50.toFixed(1)} s, p95 ${report.latency.p95.toFixed(1)} s`] as const])
]

const testNames: Readonly<Record<NonNullable<Comparison["test"]>["method"], string>> = {
  mcnemar: "exact McNemar test",
  sign_flip: "exact sign-flip test",
  sign_flip_sampled: "sampled sign-flip test"
}

/** Formats a p-value. */
export const formatP = (p: number): string => (p < 0.001 ? p.toExponential(1) : p.toFixed(3))

/** Formats a difference of rates in points. */
export const formatPoints = (value: number): string => `${value >= 0 ? "+" : "-"}${Math.abs(value * 100).toFixed(1)}`

/** Describes the result of a comparison in a sentence. */
export const describeComparison = ({ better, commonItems, difference, test, worse }: Comparison): string => {
  if (difference === undefined || test === undefined) return "The two results have no row in common."
  const { hasTooFewRows, interval } = difference
  const range =
    interval === undefined
      ? ""
      : ` (95 %: ${formatPoints(interval.low)} to ${formatPoints(interval.high)}, errors over rows)`
  return (
    `${formatPoints(difference.mean)} points on ${commonItems} common rows${range}; ` +
    `better on ${better.length}, worse on ${worse.length}; ` +
    `p = ${formatP(test.p)} (${testNames[test.method]})` +
    (hasTooFewRows ? `; too few rows: a difference needs at least ${EvalStatistics.leastRows} to be significant` : "")
  )
}

const style = [
  ":root{color-scheme:light dark;--line:#8884}",
  "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}",
  "table{border-collapse:collapse;margin:1rem 0}th,td{border-bottom:1px solid var(--line);padding:.3rem " +
    ".8rem .3rem 0;text-align:left;vertical-align:top}",
  "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8881;padding:.6rem;margin:.3rem 0}",
  "details{border-bottom:1px solid var(--line);padding:.3rem 0}summary{cursor:pointer}",
  ".head{display:inline-grid;grid-template-columns:10rem 4rem minmax(0,3fr) minmax(0,2fr);gap:.2rem 1rem;" +
    "width:calc(100% - 1.5rem);vertical-align:top}",
  ".head>*{overflow-wrap:anywhere;white-space:pre-wrap}.limit::before,.none::before{content:'– ';color:#c80}",
  ".pass::before{content:'✓ ';color:#2a2}.fail::before{content:'✗ ';color:#c33}"
].join("")

const renderRow = (cells: ReadonlyArray<string>, tag: "td" | "th" = "td"): string =>
  `<tr>${cells.map((cell) => `<${tag}>${cell}</${tag}>`).join("")}</tr>`

/** Renders the facts of configurations side by side. */
const renderNumbers = (reports: ReadonlyArray<Report>): string => {
  const facts = reports.map((report) => new Map(listFacts(report)))
  const names = Array.from(new Set(facts.flatMap((one) => Array.from(one.keys()))))
  const head = renderRow(["", ...reports.map(({ name }) => escapeHtml(name))], "th")
  const rows = names.map((name) =>
    renderRow([escapeHtml(name), ...facts.map((one) => escapeHtml(one.get(name) ?? ""))])
  )
  return `<table>${head}${rows.join("")}</table>`
}

/** Maximum number of characters of a prompt and of an expected answer that are visible without opening an attempt. */
const visibleChars = 300

const renderStart = (text: string): string => escapeHtml(Redaction.redactText(TextCut.shorten(text, visibleChars)))

/** Returns the class of an outcome, which selects its mark. */
const getMark = (kind: Outcome.Kind): string => (kind === "passed" ? "pass" : kind === "failed" ? "fail" : "none")

/** Formats the mean score of an attempt. An attempt without a result has its outcome instead. */
const formatScore = ({ kind, scores }: AttemptResult): string =>
  scores.size === 0
    ? Outcome.formatKind(kind)
    : EvalStatistics.mean(Array.from(scores.values(), ({ score }) => score)).toFixed(2)

const renderAttempt = (attempt: AttemptResult): string => {
  const { answer, exit, expected, item, kind, prompt, run, scores } = attempt
  const verdicts = Array.from(scores, ([name, { detail, passed, score }]) =>
    renderRow([
      `<span class="${passed ? "pass" : "fail"}">${escapeHtml(name)}</span>`,
      score.toFixed(2),
      renderText(detail)
    ])
  ).join("")
  const isUsual = isCompletedExit(exit) || exit === "recorded" || scores.size === 0
  const ending = isUsual ? "" : ` (${escapeHtml(exit)})`
  const cells = [
    `<span class="${getMark(kind)}">${escapeHtml(item)} #${run}${ending}</span>`,
    `<span>${escapeHtml(formatScore(attempt))}</span>`,
    `<span>${renderStart(prompt)}</span>`,
    `<span>${renderStart(expected)}</span>`
  ]
  const full = [prompt, expected, answer].map((text) => (text === "" ? "" : `<pre>${renderText(text)}</pre>`)).join("")
  const summary = `<summary><span class="head">${cells.join("")}</span></summary>`
  return `<details>${summary}${full}<table>${verdicts}</table></details>`
}

/** A configuration with its attempts. */
export interface Part {
  readonly report: Report
  readonly attempts: ReadonlyArray<AttemptResult>
}

const renderSection = ({ attempts, report }: Part): string => {
  const ordered = attempts.toSorted((a, b) => Number(a.passed) - Number(b.passed))
  const hidden = ordered.slice(shownAttempts)
  const failed = hidden.filter(({ passed }) => !passed).length
  const names = ["attempt", "score", "prompt", "expected"].map((name) => `<strong>${name}</strong>`).join("")
  const shown = ordered.slice(0, shownAttempts).map(renderAttempt).join("\n")
  const rest =
    hidden.length === 0
      ? ""
      : `<p>${hidden.length} more attempts are in results.jsonl: ${failed} did not pass, ` +
        `${hidden.length - failed} passed.</p>`
  return `<h2>${escapeHtml(report.name)}</h2><p class="head">${names}</p>${shown}${rest}`
}

const renderPage = (title: string, body: ReadonlyArray<string>): string =>
  [
    "<!doctype html>",
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
    `<title>${escapeHtml(title)}</title><style>${style}</style></head><body>`,
    `<h1>${escapeHtml(title)}</h1>`,
    ...body,
    "</body></html>",
    ""
  ].join("\n")

/** Maximum number of rows in a list of ids. */
const shownItems = 200

const listItems = (name: string, items: ReadonlyArray<string>): ReadonlyArray<string> => {
  const more = items.length > shownItems ? ` and ${items.length - shownItems} more` : ""
  return items.length === 0 ? [] : [`<p>${name}: ${items.slice(0, shownItems).map(escapeHtml).join(", ")}${more}</p>`]
}

/** Renders the page of one configuration, or of two with their comparison. */
export const render = (title: string, parts: ReadonlyArray<Part>, comparison?: Comparison): string =>
  renderPage(title, [
    renderNumbers(comparison === undefined ? parts.map(({ report }) => report) : [comparison.first, comparison.second]),
    ...(comparison === undefined
      ? []
      : [
          `<p>${escapeHtml(comparison.second.name)} against ${escapeHtml(comparison.first.name)}: ` +
            `${escapeHtml(describeComparison(comparison))}</p>`,
          ...listItems("Better", comparison.better),
          ...listItems("Worse", comparison.worse)
        ]),
    ...parts.map(renderSection)
  ])

/** Column names of a leaderboard. */
export const leaderboardColumns = ["", "CONFIGURATION", "PASSED", "95 %", "DIFFERENCE", "P", "FAILURES", "COST"]

/** Returns the cells of a configuration in a leaderboard. Difference and p-value compare it with the first one. */
export const listStanding = ({ adjustedP, difference, rank, report }: Standing): ReadonlyArray<string> => [
  String(rank),
  report.name,
  formatPercent(report.passRate.value),
  formatInterval(report.passRate.interval),
  difference === undefined ? "" : formatPoints(difference.mean),
  adjustedP === undefined ? "" : formatP(adjustedP),
  Outcome.describeFailures(report.outcomes),
  formatCost(report.costUsd)
]

/** Notes under a leaderboard: the number of tasks, the test, and the limits of both. */
export const listLeaderboardNotes = ({ leftOut, standings, tasks }: Experiment): ReadonlyArray<string> => [
  `${tasks.length} tasks, every attempt counts. Differences are in points from the first configuration; p-values are ` +
    "of the exact sign-flip test over tasks, adjusted for the comparisons of all pairs (Holm).",
  ...(leftOut === 0 ? [] : [`${leftOut} tasks that not all configurations have are left out.`]),
  ...(standings.some(({ difference }) => difference?.hasTooFewRows === true)
    ? [`Too few tasks: a difference needs at least ${EvalStatistics.leastRows} to be significant.`]
    : [])
]

/** Maximum number of tasks in the table of outcomes. */
const shownTasks = 1000

/** Renders the outcomes of all tasks: one row for a task, one column for a configuration. */
const renderOutcomes = ({ outcomes, standings, tasks }: Experiment): string => {
  const names = standings.map(({ report }) => report.name)
  const renderCell = (task: string, name: string): string =>
    (outcomes.get(name)?.get(task) ?? [])
      .map((kind) => `<span class="${getMark(kind)}" title="${Outcome.formatKind(kind)}"></span>`)
      .join("")
  const rows = tasks
    .slice(0, shownTasks)
    .map((task) => renderRow([escapeHtml(task), ...names.map((name) => renderCell(task, name))]))
  const more = tasks.length > shownTasks ? `<p>${tasks.length - shownTasks} more tasks are not in this table.</p>` : ""
  return `<table>${renderRow(["task", ...names.map(escapeHtml)], "th")}${rows.join("")}</table>${more}`
}

/** Renders the leaderboard of an experiment, with the outcome of every task and the attempts of every configuration. */
export const renderLeaderboard = (title: string, experiment: Experiment, parts: ReadonlyArray<Part>): string =>
  renderPage(title, [
    `<table>${renderRow(leaderboardColumns, "th")}${experiment.standings
      .map((standing) => renderRow(listStanding(standing).map(escapeHtml)))
      .join("")}</table>`,
    ...listLeaderboardNotes(experiment).map((note) => `<p>${escapeHtml(note)}</p>`),
    renderOutcomes(experiment),
    ...parts.map(renderSection)
  ])
