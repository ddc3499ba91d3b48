/**
 * Totals of the sessions that match the filters: figures, charts over days, and tables of models, tools, agents and
 * failures.
 */
import { el, make } from "../../trace/page/Elements.ts"
import { dollars, duration, exact, short } from "../../trace/page/Figures.ts"
import type { Aggregates, Day, ErrorShare, Percentiles, Share, SkillShare } from "../StudioSums.ts"
import { type Chart, charts } from "./Charts.ts"
import { link, route, toSession } from "./Router.ts"
import { toServerQuery, type SessionFilters } from "./SessionFilters.ts"
import * as StudioClient from "./StudioClient.ts"
import {
  allTokens,
  cacheShare,
  type Column,
  formatCost,
  figure,
  describeFailure,
  notice,
  table,
  time,
  tokenFlow
} from "./Widgets.ts"

/** Maximum number of models and tools with a separate line in a chart. */
const mostLines = 4

const lineColours = ["llm", "tool", "user", "approval"] as const

const percentiles = (given: Percentiles | undefined, name: string): ReadonlyArray<HTMLElement> =>
  given === undefined
    ? []
    : figure(
        `${duration(given.p50) || "0"} / ${duration(given.p90) || "0"} / ${duration(given.p99) || "0"}`,
        `${name}: median / p90 / p99`
      )

/** Returns the chart lines of the models or tools with the most errors. */
const errorLines = (days: ReadonlyArray<Day>, shares: ReadonlyArray<Share>): Chart["series"] =>
  shares
    .filter(({ errors }) => errors > 0)
    .toSorted((a, b) => b.errors - a.errors)
    .slice(0, mostLines)
    .map((share, index) => {
      const counts = new Map(share.days.map(({ day, errors }) => [day, errors]))
      return {
        label: share.name,
        colour: lineColours[index] ?? "dim",
        values: days.map(({ day }) => counts.get(day) ?? 0)
      }
    })

const buildCharts = ({ days, models, tools }: Aggregates): ReadonlyArray<Chart> => {
  const base = { days: days.map(({ day }) => day) }
  const values = (read: (day: Day) => number | null) => days.map(read)
  const count = (value: number): string => (Number.isInteger(value) ? short(value) : "")
  const hasCost = days.some(({ cost = 0 }) => cost > 0)
  const all: ReadonlyArray<Chart> = [
    {
      ...base,
      title: "Tokens",
      kind: "bars",
      value: short,
      series: [
        { label: "prompt read from the cache", colour: "user", values: values(({ tokens }) => tokens.cacheRead) },
        {
          label: "prompt at full price",
          colour: "llm",
          values: values(({ tokens }) => tokens.input + tokens.cacheWrite)
        },
        { label: "answers", colour: "tool", values: values(({ tokens }) => tokens.output) }
      ]
    },
    ...(hasCost
      ? [
          {
            ...base,
            title: "Cost",
            kind: "bars",
            value: (value: number) => dollars(value) || "$0",
            series: [{ label: "cost", colour: "system", values: values(({ cost }) => cost ?? null) }]
          } as const
        ]
      : []),
    {
      ...base,
      title: "Latency of model calls",
      kind: "lines",
      value: (value) => duration(value) || "0",
      series: [
        { label: "median", colour: "user", values: values(({ latency }) => latency?.p50 ?? null) },
        { label: "slowest tenth from (p90)", colour: "system", values: values(({ latency }) => latency?.p90 ?? null) },
        { label: "slowest hundredth from (p99)", colour: "bad", values: values(({ latency }) => latency?.p99 ?? null) }
      ]
    },
    {
      ...base,
      title: "Prompt read from the cache",
      kind: "lines",
      top: 100,
      value: (value) => `${Math.round(value)} %`,
      series: [
        {
          label: "of the prompt",
          colour: "user",
          values: values(({ tokens }) => {
            const prompt = tokens.input + tokens.cacheRead + tokens.cacheWrite
            return prompt === 0 ? null : (tokens.cacheRead / prompt) * 100
          })
        }
      ]
    },
    { ...base, title: "Errors of models", kind: "bars", value: count, series: errorLines(days, models) },
    { ...base, title: "Errors of tools", kind: "bars", value: count, series: errorLines(days, tools) }
  ]
  return all.filter(({ series }) => series.length > 0)
}

const shareColumns = (what: string): ReadonlyArray<Column<Share>> => [
  { head: what, cell: ({ name }) => name, left: true },
  { head: "Calls", cell: ({ calls }) => exact(calls) },
  { head: "Sessions", cell: ({ sessions }) => exact(sessions) },
  { head: "Errors", cell: ({ errors }) => (errors === 0 ? "" : el("span", "bad", exact(errors))) },
  {
    head: "Failed",
    cell: ({ calls, errors }) => (errors === 0 ? "" : `${((errors / Math.max(1, calls)) * 100).toFixed(1)} %`)
  },
  { head: "Tokens", cell: ({ tokens }) => tokenFlow(tokens) },
  { head: "Cached", cell: ({ tokens }) => cacheShare(tokens) },
  { head: "Cost", cell: (share) => formatCost(share) },
  { head: "p50", cell: ({ latency }) => duration(latency?.p50 ?? 0) },
  { head: "p90", cell: ({ latency }) => duration(latency?.p90 ?? 0) },
  { head: "p99", cell: ({ latency }) => duration(latency?.p99 ?? 0) }
]

const failureColumns: ReadonlyArray<Column<ErrorShare>> = [
  { head: "Error", cell: ({ reason }) => reason, left: true },
  { head: "Of", cell: ({ kind, name }) => `${kind} ${name}`, left: true },
  { head: "Count", cell: ({ count }) => exact(count) },
  { head: "Latest", cell: ({ message, session }) => link(message ?? session, toSession(session)), left: true }
]

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]

/** A name with the number of its model calls. */
interface Calls {
  readonly name: string
  readonly calls: number
}

const byWeekday = ({ days }: Aggregates): ReadonlyArray<Calls> =>
  [1, 2, 3, 4, 5, 6, 0].map((number) => ({
    name: weekdays[number] ?? "",
    calls: days.reduce(
      (sum, { day, modelCalls }) => (new Date(`${day}T00:00:00Z`).getUTCDay() === number ? sum + modelCalls : sum),
      0
    )
  }))

const peakHours = ({ hours }: Aggregates): ReadonlyArray<Calls> =>
  hours
    .map((calls, hour) => ({ name: `${String(hour).padStart(2, "0")}:00`, calls }))
    .filter(({ calls }) => calls > 0)
    .toSorted((a, b) => b.calls - a.calls)
    .slice(0, 5)

const callColumns = (what: string): ReadonlyArray<Column<Calls>> => [
  { head: what, cell: ({ name }) => name, left: true },
  { head: "Model calls", cell: ({ calls }) => exact(calls) }
]

const skillColumns: ReadonlyArray<Column<SkillShare>> = [
  { head: "Skill", cell: ({ name }) => name, left: true },
  { head: "Loads", cell: ({ loads }) => exact(loads) },
  { head: "Edits", cell: ({ edits }) => (edits === 0 ? "" : exact(edits)) },
  { head: "Last used", cell: ({ lastUsed }) => time(lastUsed) }
]

const missColumns: ReadonlyArray<Column<Aggregates["misses"][number]>> = [
  { head: "Cache miss after", cell: ({ reason }) => reason, left: true },
  { head: "Model calls", cell: ({ calls }) => exact(calls) },
  { head: "Tokens paid again", cell: ({ tokens }) => short(tokens) },
  { head: "Price", cell: ({ price, unpriced }) => formatCost({ cost: price, unpriced }) }
]

const middlewareColumns: ReadonlyArray<Column<Aggregates["middleware"][number]>> = [
  { head: "Middleware", cell: ({ name }) => name, left: true },
  { head: "Kind", cell: ({ kind }) => kind, left: true },
  { head: "Calls", cell: ({ calls }) => exact(calls) },
  { head: "Faults", cell: ({ faults }) => (faults === 0 ? "" : exact(faults)) },
  { head: "Own time", cell: ({ ownMillis }) => duration(ownMillis) }
]

const notableColumns: ReadonlyArray<Column<Aggregates["notable"][number]>> = [
  { head: "Notable session", cell: ({ name }) => name, left: true },
  { head: "Session", cell: ({ session }) => link(session.title ?? session.id, toSession(session.id)), left: true },
  { head: "Time", cell: ({ session }) => duration(session.duration) },
  { head: "Messages", cell: ({ session }) => exact(session.messages) },
  { head: "Tokens", cell: ({ session }) => short(session.tokens) },
  { head: "Tool calls", cell: ({ session }) => exact(session.toolCalls) }
]

const costNames = [
  ["actual", "reported"],
  ["estimated", "estimated"],
  ["included", "free or part of a subscription"],
  ["unknown", "unknown price"]
] as const

const costRows = ({ costs }: Aggregates) =>
  costNames.flatMap(([key, name]) => (costs[key].calls === 0 ? [] : [{ name, ...costs[key] }]))

const costColumns: ReadonlyArray<Column<ReturnType<typeof costRows>[number]>> = [
  { head: "Cost", cell: ({ name }) => name, left: true },
  { head: "Calls", cell: ({ calls }) => exact(calls) },
  { head: "Amount", cell: ({ cost }) => dollars(cost) }
]

/** Returns the largest number of consecutive days with activity. */
const streak = (days: ReadonlyArray<Day>): number =>
  days.reduce(
    ({ best, last, now }, { day }) => {
      const at = Date.parse(day)
      const next = at - last === 86_400_000 ? now + 1 : 1
      return { best: Math.max(best, next), last: at, now: next }
    },
    { best: 0, last: 0, now: 0 }
  ).best

/** Renders a table unless it is empty. */
const renderTableUnlessEmpty = <A>(
  name: string,
  rows: ReadonlyArray<A>,
  columns: ReadonlyArray<Column<A>>
): ReadonlyArray<HTMLElement> => (rows.length === 0 ? [] : [table(name, rows, columns)])

const tables = (sums: Aggregates): ReadonlyArray<HTMLElement> => [
  ...renderTableUnlessEmpty("Models", sums.models, shareColumns("Model")),
  ...renderTableUnlessEmpty("Tools", sums.tools, shareColumns("Tool")),
  ...renderTableUnlessEmpty("Skills", sums.skills.slice(0, 10), skillColumns),
  ...renderTableUnlessEmpty("Agents", sums.agents, shareColumns("Agent")),
  ...renderTableUnlessEmpty(
    "Platforms",
    sums.sources.every(({ name }) => name === "cli") ? [] : sums.sources,
    shareColumns("Platform")
  ),
  ...renderTableUnlessEmpty("Tenants", sums.tenants, shareColumns("Tenant")),
  ...renderTableUnlessEmpty("Cost", costRows(sums), costColumns),
  ...renderTableUnlessEmpty("Failures", sums.failures, failureColumns),
  ...renderTableUnlessEmpty("Cache misses", sums.misses, missColumns),
  ...renderTableUnlessEmpty("Middleware", sums.middleware, middlewareColumns),
  ...renderTableUnlessEmpty("Notable sessions", sums.notable, notableColumns),
  ...renderTableUnlessEmpty("Weekdays", sums.modelCalls === 0 ? [] : byWeekday(sums), callColumns("Weekday")),
  ...renderTableUnlessEmpty("Busiest hours", peakHours(sums), callColumns("Hour"))
]

/** Creates the page that shows the totals for the filters in the address. */
export const insights = (filters: SessionFilters): { readonly element: HTMLElement; readonly close: () => void } => {
  const aborter = new AbortController()
  const element = make("section", { class: "panel insights" }, notice("Calculating …"))
  let close = (): void => undefined
  const load = async (): Promise<void> => {
    const query = toServerQuery(route().parameters)
    for (const name of ["sort", "order"]) query.delete(name)
    const [sums, list] = await Promise.all([
      StudioClient.aggregates(query, aborter.signal),
      StudioClient.sessions(new URLSearchParams({ limit: "1" }), aborter.signal)
    ])
    filters.offer(list.known)
    const figures = make(
      "div",
      { class: "tiles" },
      ...figure(exact(sums.sessions), sums.sessions === 1 ? "session" : "sessions"),
      ...figure(exact(sums.runs), sums.runs === 1 ? "run" : "runs"),
      ...figure(sums.messages === 0 ? "" : exact(sums.messages), `messages, ${exact(sums.userMessages)} of users`),
      ...figure(
        sums.messages === 0 ? "" : (sums.messages / Math.max(1, sums.sessions)).toFixed(1),
        "messages in a session"
      ),
      ...figure(duration(sums.active), "active time"),
      ...figure(duration(sums.active / Math.max(1, sums.sessions)), "of it in a session"),
      ...figure(
        sums.days.length === 0 ? "" : exact(sums.days.length),
        sums.days.length === 1 ? "active day" : `active days, best streak ${streak(sums.days)}`
      ),
      ...figure(exact(sums.modelCalls), "model calls"),
      ...figure(exact(sums.toolCalls), "tool calls"),
      ...figure(exact(sums.errors), sums.errors === 1 ? "error" : "errors", sums.errors > 0),
      ...figure(allTokens(sums.tokens) === 0 ? "" : tokenFlow(sums.tokens), "tokens"),
      ...figure(sums.cacheHit === undefined ? "" : `${Math.round(sums.cacheHit * 100)} %`, "cached"),
      ...figure(formatCost(sums), "cost"),
      ...percentiles(sums.modelLatency, "model call"),
      ...percentiles(sums.firstPart, "first part of an answer"),
      ...percentiles(sums.toolLatency, "tool call")
    )
    if (sums.sessions === 0)
      return element.replaceChildren(el("p", "empty", "No session matches. Clear the search and the filters."))
    const drawn = charts(buildCharts(sums))
    close = drawn.close
    element.replaceChildren(figures, drawn.element, ...tables(sums))
  }
  load().catch((error: unknown) => {
    if (!aborter.signal.aborted) element.replaceChildren(notice(describeFailure(error), "bad"))
  })
  return {
    element,
    close: () => {
      aborter.abort()
      close()
    }
  }
}
