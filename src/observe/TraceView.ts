/**
 * HTML page of a run, or of two runs and their difference. It shows a timeline as a tree with parallel calls in lanes,
 * every request, response, tool call and approval, and tokens and cost, and it supports search and filters.
 *
 * **Details**
 *
 * The page is one file. Its content security policy allows only its own script and style, by hash, and denies network
 * access. The data of a run is embedded as JSON and shown as text, so that it cannot become markup or code. Only
 * visible rows exist in the DOM; a message that several requests repeat is embedded once. `npm run build:page` builds
 * the script and the style from the modules in `trace/page`.
 */
import { script, style } from "#pages/trace"
import * as Effect from "effect/Effect"
import { redactText } from "../base/domain/Redaction.ts"
import { toNonEmptyText } from "./atif/Value.ts"
import * as Trace from "./Trace.ts"
import * as Diff from "./trace/Diff.ts"
import type { Data, Sum } from "./trace/PageData.ts"
import * as Pool from "./trace/Pool.ts"
import type { Row } from "./trace/Row.ts"
import * as TraceStats from "./TraceStats.ts"

/** A trace and its title on the page. */
export interface NamedTrace {
  readonly name: string
  readonly trace: Trace.Trace
}

const makeSum = (value: string | number, name: string, bad = false): Sum => ({ value: String(value), name, bad })

const format = new Intl.NumberFormat("en")

const makeCountSum = (count: number, one: string): Sum => makeSum(format.format(count), count === 1 ? one : `${one}s`)

const formatDuration = (millis: number): string =>
  millis < 1000
    ? `${Math.round(millis)} ms`
    : millis < 60_000
      ? `${(millis / 1000).toFixed(1)} s`
      : `${format.format(Math.floor(millis / 60_000))} min ${Math.floor((millis % 60_000) / 1000)} s`

const summarizeRows = (rows: ReadonlyArray<Row>): ReadonlyArray<Sum> => {
  const all = TraceStats.computeStats(rows)
  const failed = all.failedModelCalls + all.failedToolCalls
  return [
    makeCountSum(all.modelCalls, "model call"),
    makeCountSum(all.toolCalls, "tool call"),
    ...(failed > 0 ? [makeSum(failed, "failed", true)] : []),
    ...(all.agents > 1 ? [makeCountSum(all.agents, "agent")] : []),
    ...(all.approvals > 0 ? [makeCountSum(all.approvals, "approval")] : []),
    makeSum(`${format.format(all.promptTokens)} → ${format.format(all.completionTokens)}`, "tokens"),
    ...(all.cachedTokens > 0
      ? [makeSum(`${Math.round((all.cachedTokens / Math.max(1, all.promptTokens)) * 100)} %`, "cached")]
      : []),
    ...(all.costUsd === undefined ? [] : [makeSum(`$${all.costUsd.toFixed(4)}`, "")]),
    ...(all.millis > 0 ? [makeSum(formatDuration(all.millis), "")] : [])
  ]
}

const countChanges = (diff: ReadonlyArray<Diff.Change>): ReadonlyArray<Sum> =>
  (["same", "changed", "removed", "added"] as const).map((state) =>
    makeSum(diff.filter((change) => change.state === state).length, state)
  )

/** Removes secrets from a row, because pages are shared and traces of other programs may contain secrets. */
const redactRow = (row: Row): Row => ({
  ...row,
  name: redactText(row.name),
  text: redactText(row.text),
  details: row.details.map((one) => ({ ...one, text: redactText(one.text) }))
})

const findSessionId = (trace: Trace.Trace): string | undefined =>
  trace._tag === "Trajectory"
    ? (trace.trajectory.session_id ?? undefined)
    : toNonEmptyText(trace.events[0]?.metadata?.["session_id"])

/** Makes the names of traces unique by adding their sessions to equal names, or else their positions. */
const disambiguateNames = (traces: ReadonlyArray<NamedTrace>): ReadonlyArray<NamedTrace> => {
  const isTwice = ({ name }: NamedTrace): boolean => traces.filter((one) => one.name === name).length > 1
  const bySession = traces.map((one) => {
    const session = isTwice(one) ? findSessionId(one.trace) : undefined
    return session === undefined || session === one.name ? one : { ...one, name: `${one.name} (${session})` }
  })
  return bySession.map((one, index) =>
    bySession.some((other) => other !== one && other.name === one.name)
      ? { ...one, name: `${one.name} #${index + 1}` }
      : one
  )
}

/** Builds the data of a page: rows and totals of each trace, and the changes from the first to the second. */
export const buildData = (traces: ReadonlyArray<NamedTrace>): Data => {
  const pool = Pool.make()
  const runs = disambiguateNames(traces).map(({ name, trace }) => {
    const rows = Trace.buildRows(trace, pool).map(redactRow)
    return { name, sums: summarizeRows(rows), rows }
  })
  const texts = pool.texts.map((text) => redactText(text))
  const [first, second] = runs
  if (first === undefined || second === undefined) return { runs, pool: texts }
  const diff = Diff.compareRows(first.rows, second.rows)
  return { runs, pool: texts, diff, changes: countChanges(diff) }
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

const escapeHtml = (text: string): string => text.replace(/[&<>"']/gu, (character) => entities[character] ?? "")

/** Encodes JSON for a script element. Characters that could begin a tag or a comment are escaped. */
const encodeForScript = (value: unknown): string =>
  JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  )

const hashForPolicy = (text: string): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))),
    (bytes) => `'sha256-${btoa(String.fromCharCode(...new Uint8Array(bytes)))}'`
  )

/** Builds the page of one trace, or of two and their difference, as HTML. */
export const renderPage = (traces: ReadonlyArray<NamedTrace>): Effect.Effect<string> =>
  Effect.map(
    Effect.all([hashForPolicy(script), hashForPolicy(style)]),
    ([scriptHash, styleHash]) =>
      `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src ${scriptHash}; style-src ${styleHash}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(traces.map(({ name }) => name).join(" ↔ "))}</title>
<style>${style}</style>
</head>
<body>
<script type="application/json" id="data">${encodeForScript(buildData(traces))}</script>
<script>${script}</script>
</body>
</html>
`
  )
