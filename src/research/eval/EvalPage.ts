/**
 * Renders the results of one or two evaluations as a self-contained HTML page without scripts, links or external files.
 *
 * **Details**
 *
 * The page shows the statistics of each configuration, a comparison if there are two, and every attempt with its
 * prompt, answer and verdicts. Text from models and datasets is escaped. Long text is cut after {@link shownChars}
 * characters.
 */
import * as Redaction from "../../base/domain/Redaction.ts"
import { isCompletedExit } from "../../base/domain/RunEvent.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import type { AttemptResult, Comparison, Report } from "./EvalReport.ts"
import type { Interval } from "./EvalStatistics.ts"

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
export const getMethodName = ({ method }: Pick<Interval, "method">): string =>
  method === "wilson" ? "Wilson" : "bootstrap"

/** Formats an interval. Returns an empty string if it is `undefined`. */
export const formatInterval = (interval: Interval | undefined): string =>
  interval === undefined ? "" : `${formatPercent(interval.low)} to ${formatPercent(interval.high)}`

/** Formats a cost for display. */
export const formatCost = (usd: number | undefined): string =>
  usd === undefined ? "unknown" : `$${usd.toFixed(usd > 0 && usd < 0.01 ? 5 : 2)}`

/** Lists facts about a configuration, each with its name and value. */
export const listFacts = (report: Report): ReadonlyArray<readonly [name: string, value: string]> => [
  ["model", report.models.join(", ")],
  ["rows", report.attempts === report.items ? String(report.items) : `${report.items}, ${report.attempts} attempts`],
  [
    "passed",
    `${formatPercent(report.passRate.value)}${report.passRate.interval === undefined ? "" : ` (95 %: ${formatInterval(report.passRate.interval)}, ${getMethodName(report.passRate.interval)})`}`
  ],
  // pass@1 is omitted because it equals the pass rate.
  ...report.passAtK
    .filter(({ k }) => k > 1)
    .map(
      ({ interval, k, value }) =>
        [
          `pass@${k}`,
          `${formatPercent(value)}${interval === undefined ? "" : ` (95 %: ${formatInterval(interval)}, ${getMethodName(interval)})`}`
        ] as const
    ),
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
  ["tokens", `${formatCount(report.inputTokens)} read, ${formatCount(report.outputTokens)} written`],
  [
    "cost",
    `${formatCost(report.costUsd)}${report.judgeCostUsd === undefined ? "" : `, judges ${formatCost(report.judgeCostUsd)}`}`
  ],
  ...(report.latency === undefined
    ? []
    : [["latency", `p50 ${report.latency.p50.toFixed(1)} s, p95 ${report.latency.p95.toFixed(1)} s`] as const])
]

/** Describes the result of a comparison in a sentence. */
export const describeComparison = ({ better, commonItems, difference, test, worse }: Comparison): string => {
  if (difference === undefined || test === undefined) return "The two results have no row in common."
  const formatPoints = (value: number): string => `${value >= 0 ? "+" : "-"}${Math.abs(value * 100).toFixed(1)}`
  const method = test.method === "mcnemar" ? "exact McNemar test" : "paired bootstrap"
  return (
    `${formatPoints(difference.mean)} points on ${commonItems} common rows (95 %: ` +
    `${formatPoints(difference.interval.low)} to ${formatPoints(difference.interval.high)}, ` +
    "paired bootstrap); " +
    `better on ${better.length}, worse on ${worse.length}; ` +
    `p = ${test.p < 0.001 ? test.p.toExponential(1) : test.p.toFixed(3)} (${method})`
  )
}

const style = [
  ":root{color-scheme:light dark;--line:#8884}",
  "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}",
  "table{border-collapse:collapse;margin:1rem 0}th,td{border-bottom:1px solid var(--line);padding:.3rem " +
    ".8rem .3rem 0;text-align:left;vertical-align:top}",
  "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8881;padding:.6rem;margin:.3rem 0}",
  "details{border-bottom:1px solid var(--line);padding:.3rem 0}summary{cursor:pointer}",
  ".pass::before{content:'✓ ';color:#2a2}.fail::before{content:'✗ ';color:#c33}"
].join("")

const renderRow = (cells: ReadonlyArray<string>, tag: "td" | "th" = "td"): string =>
  `<tr>${cells.map((cell) => `<${tag}>${cell}</${tag}>`).join("")}</tr>`

/** Renders the facts of configurations side by side. */
const renderNumbers = (reports: ReadonlyArray<Report>): string => {
  const facts = reports.map((report) => new Map(listFacts(report)))
  const names = Array.from(new Set(facts.flatMap((one) => Array.from(one.keys()))))
  return `<table>${renderRow(["", ...reports.map(({ name }) => escapeHtml(name))], "th")}${names.map((name) => renderRow([escapeHtml(name), ...facts.map((one) => escapeHtml(one.get(name) ?? ""))])).join("")}</table>`
}

const renderAttempt = ({ answer, exit, item, passed, prompt, run, scores }: AttemptResult): string => {
  const verdicts = Array.from(scores, ([name, { detail, passed, score }]) =>
    renderRow([
      `<span class="${passed ? "pass" : "fail"}">${escapeHtml(name)}</span>`,
      score.toFixed(2),
      renderText(detail)
    ])
  ).join("")
  const ending = isCompletedExit(exit) || exit === "recorded" ? "" : ` (${escapeHtml(exit)})`
  return (
    `<details><summary class="${passed ? "pass" : "fail"}">${escapeHtml(item)} ` +
    `#${run}${ending}</summary><pre>${renderText(prompt)}</pre><pre>${renderText(answer)}</pre><table>${verdicts}</table></details>`
  )
}

/** A configuration with its attempts. */
export interface Part {
  readonly report: Report
  readonly attempts: ReadonlyArray<AttemptResult>
}

const renderSection = ({ attempts, report }: Part): string => {
  const ordered = attempts.toSorted((a, b) => Number(a.passed) - Number(b.passed))
  const left = ordered.length - shownAttempts
  return `<h2>${escapeHtml(report.name)}</h2>${ordered.slice(0, shownAttempts).map(renderAttempt).join("\n")}${left > 0 ? `<p>${left} more attempts that passed are in results.jsonl.</p>` : ""}`
}

/** Renders the page of one configuration, or of two with their comparison. */
export const render = (title: string, parts: ReadonlyArray<Part>, comparison?: Comparison): string =>
  [
    "<!doctype html>",
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
    `<title>${escapeHtml(title)}</title><style>${style}</style></head><body>`,
    `<h1>${escapeHtml(title)}</h1>`,
    renderNumbers(comparison === undefined ? parts.map(({ report }) => report) : [comparison.first, comparison.second]),
    ...(comparison === undefined
      ? []
      : [
          `<p>${escapeHtml(comparison.second.name)} against ${escapeHtml(comparison.first.name)}: ` +
            `${escapeHtml(describeComparison(comparison))}</p>`,
          ...(comparison.better.length === 0
            ? []
            : [`<p>Better: ${comparison.better.slice(0, 200).map(escapeHtml).join(", ")}</p>`]),
          ...(comparison.worse.length === 0
            ? []
            : [`<p>Worse: ${comparison.worse.slice(0, 200).map(escapeHtml).join(", ")}</p>`])
        ]),
    ...parts.map(renderSection),
    "</body></html>",
    ""
  ].join("\n")
