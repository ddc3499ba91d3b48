/**
 * One page that shows a run, or two and their difference: a timeline with what is in what and what ran side by side, every
 * request, answer, tool call and approval, tokens and cost, search and filters.
 *
 * **Details**
 *
 * The page is one file and needs no network; its own policy forbids it any. What a run said is in it as data, and gets to the
 * screen as text: nothing of it can become markup or code. Only rows in sight exist, so that ten thousand are as quick as
 * ten. A message that many requests repeat is there once.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Trace from "./Trace.ts"
import * as Diff from "./trace/Diff.ts"
import { script } from "./trace/PageScript.ts"
import { style } from "./trace/PageStyle.ts"
import * as Pool from "./trace/Pool.ts"
import type { Row } from "./trace/Row.ts"
import * as TraceStats from "./TraceStats.ts"

/** A trace and what to call it. */
export interface Named {
  readonly name: string
  readonly trace: Trace.Trace
}

/** What the page shows. */
export interface Data {
  readonly runs: ReadonlyArray<{ readonly name: string; readonly sums: string; readonly rows: ReadonlyArray<Row> }>
  /** Texts that rows point to. */
  readonly pool: ReadonlyArray<string>
  /** Of the first two runs. */
  readonly diff?: ReadonlyArray<Diff.Change> | undefined
  /** The difference in numbers. */
  readonly changes?: string | undefined
}

const sums = (rows: ReadonlyArray<Row>): string => {
  const { completionTokens, costUsd, millis, modelCalls, promptTokens, toolCalls } = TraceStats.of(rows)
  return [
    `${modelCalls} model calls`,
    `${toolCalls} tool calls`,
    `${promptTokens} → ${completionTokens} tokens`,
    ...(costUsd === undefined ? [] : [`$${costUsd.toFixed(4)}`]),
    ...(millis > 0 ? [`${(millis / 1000).toFixed(1)} s`] : [])
  ].join(", ")
}

const counts = (diff: ReadonlyArray<Diff.Change>): string =>
  (["same", "changed", "removed", "added"] as const)
    .map((state) => `${diff.filter((change) => change.state === state).length} ${state}`).join(", ")

/** What a page of these traces shows. */
export const data = (traces: ReadonlyArray<Named>): Data => {
  const pool = Pool.make()
  const runs = traces.map(({ name, trace }) => {
    const rows = Trace.rows(trace, pool)
    return { name, sums: sums(rows), rows }
  })
  const [first, second] = runs
  if (first === undefined || second === undefined) return { runs, pool: pool.texts }
  const diff = Diff.diff(first.rows, second.rows)
  return { runs, pool: pool.texts, diff, changes: counts(diff) }
}

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;", "'": "&#39;" }

const escaped = (text: string): string => text.replace(/[&<>"']/gu, (character) => entities[character] ?? "")

/** JSON that can stand in a script element: no character of it begins a tag or a comment. */
const embedded = (value: unknown): string =>
  JSON.stringify(value).replace(/[<>&\u2028\u2029]/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`)

const digest = (text: string): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))),
    (bytes) => `'sha256-${btoa(String.fromCharCode(...new Uint8Array(bytes)))}'`
  )

/** The page of one trace, or of two and their difference. */
export const page = (traces: ReadonlyArray<Named>): Effect.Effect<string> =>
  Effect.map(Effect.all([digest(script), digest(style)]), ([scriptHash, styleHash]) =>
    `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src ${scriptHash}; style-src ${styleHash}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width">
<title>${escaped(traces.map(({ name }) => name).join(" ↔ "))}</title>
<style>${style}</style>
</head>
<body>
<header><h1>hermes trace</h1><nav id="views"></nav><span id="sums"></span></header>
<div id="tools"><input id="search" type="search" placeholder="Search everything" aria-label="Search"><span id="kinds"></span><button id="failed" aria-pressed="false">only failures</button><span id="count"></span></div>
<canvas id="map" aria-hidden="true"></canvas>
<main><div id="list" tabindex="0" aria-label="Timeline"><div id="room"></div></div><div id="detail" aria-live="polite"></div></main>
<script type="application/json" id="data">${embedded(data(traces))}</script>
<script>${script}</script>
</body>
</html>
`)
