/**
 * `hermes insights`: the usage of recent sessions by day, model and tool, with cost, cache hits and errors.
 *
 * **Details**
 *
 * The figures are the same as in the studio: sums over the run record of the period, including sub-agents, side tasks,
 * retries and failed runs. A session that used several models counts for each of them.
 *
 * Source: `hermes-product.md` §1.9.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Home } from "../../base/config/Environment.ts"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Aggregation from "../../observe/studio/Aggregation.ts"
import * as SessionFacts from "../../observe/studio/SessionFacts.ts"
import * as SessionIndex from "../../observe/studio/SessionIndex.ts"
import * as SessionQueries from "../../observe/studio/SessionQueries.ts"
import type { Aggregates, CostBucket } from "../../observe/studio/StudioSums.ts"
import { type Period, SessionActivity, type SpokenCounts } from "../../store/SessionActivity.ts"
import type { SessionStore } from "../../store/SessionStore.ts"
import { makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { printLine, Output } from "./ProgramOutput.ts"
import * as TextCharts from "./render/TextCharts.ts"
import * as SafeText from "./render/SafeText.ts"
import * as ToolText from "./render/ToolText.ts"
import { abbreviateCount, formatDollars, formatMiss, formatQuantity, renderPairs } from "./render/UsageText.ts"
import * as Width from "./render/Width.ts"
import { forReading, withStore } from "./SessionChoice.ts"

/** Usage figures of a period. Times are in epoch milliseconds. */
export interface Insights {
  readonly days: number
  readonly since: number
  readonly until: number
  /** Time zone of the days, in minutes east of UTC. */
  readonly utcOffset: number
  readonly figures: Aggregates
}

const dayMillis = 86_400_000
const minuteMillis = 60_000

type GatheredSessions = { readonly world: SessionQueries.World; readonly spoken: ReadonlyMap<string, SpokenCounts> }

/** Reads all sessions of the store, and the messages of a period. */
const readSessions = (period: Period) =>
  Effect.gen(function* (): Effect.fn.Return<GatheredSessions, SessionStoreError, SessionActivity | SessionStore> {
    const { refresh } = yield* SessionIndex.make(Effect.succeed(true))
    const activity = yield* SessionActivity
    return { world: yield* refresh, spoken: yield* activity.spoken(period) }
  })

const toPeriod = (days: number, now: number) => {
  const utcOffset =
    DateTime.zonedOffset(DateTime.makeZonedUnsafe(now, { timeZone: DateTime.zoneMakeLocal() })) / minuteMillis
  const today = Math.floor((now + utcOffset * minuteMillis) / dayMillis) * dayMillis - utcOffset * minuteMillis
  return { since: today - (days - 1) * dayMillis, until: today + dayMillis, utcOffset }
}

const formatPercent = (share: number | undefined): string =>
  share === undefined ? "none" : `${Math.round(share * 100)}%`

const formatCost = (cost: number | undefined): string => (cost === undefined ? "unknown" : formatDollars(cost))

/** Lists every day of the period, including days without activity. */
const listAllDays = ({ days, figures, since, utcOffset }: Insights): ReadonlyArray<TextCharts.Point> => {
  const known = new Map(figures.days.map((one) => [one.day, SessionFacts.countTokens(one.tokens)]))
  return Array.from({ length: days }, (_, index) => {
    const name = new Date(since + index * dayMillis + utcOffset * minuteMillis).toISOString().slice(0, 10)
    return { name, value: known.get(name) ?? 0 }
  })
}

/** Returns the largest number of consecutive days with activity. */
const countStreak = (active: ReadonlySet<string>, days: ReadonlyArray<TextCharts.Point>): number =>
  days.reduce(
    ({ best, now }, { name }) => {
      const next = active.has(name) ? now + 1 : 0
      return { best: Math.max(best, next), now: next }
    },
    { best: 0, now: 0 }
  ).best

/** Lists the hours of the day with the most model calls. */
const listPeakHours = ({ hours }: Aggregates): ReadonlyArray<TextCharts.Bar> =>
  hours
    .map((value, hour) => ({ name: `${String(hour).padStart(2, "0")}:00`, value, note: String(value) }))
    .filter(({ value }) => value > 0)
    .toSorted((a, b) => b.value - a.value)
    .slice(0, most.hours)

/** Lists costs by kind: actual, estimated, included and unknown. */
const listCosts = ({
  costs: { actual, estimated, included, unknown }
}: Aggregates): ReadonlyArray<readonly [string, string]> => {
  const makeCostRow = (name: string, { calls }: CostBucket, amount: string) =>
    calls === 0 ? [] : [[name, `${amount}, ${formatQuantity(calls, "call")}`] as const]
  return [
    ...makeCostRow("Reported", actual, formatCost(actual.cost)),
    ...makeCostRow("Estimated", estimated, formatCost(estimated.cost)),
    ...makeCostRow("Included", included, "free or part of a subscription"),
    ...makeCostRow("Unknown price", unknown, "not counted")
  ]
}

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]

const countByWeekday = ({ days }: Aggregates): ReadonlyArray<TextCharts.Bar> =>
  [1, 2, 3, 4, 5, 6, 0].map((number) => {
    const value = days
      .filter(({ day }) => new Date(`${day}T00:00:00Z`).getUTCDay() === number)
      .reduce((sum, { modelCalls }) => sum + modelCalls, 0)
    return { name: weekdays[number] ?? "", value, note: String(value) }
  })

/** Maximum numbers of rows in the lists. */
const most = { models: 10, tools: 15, skills: 10, failures: 10, hours: 5, middleware: 15 }

/** Formats the average of a number per session, with one decimal. */
const formatAverage = (count: number, sessions: number): string =>
  (count / Math.max(1, sessions)).toFixed(1).replace(/\.0$/u, "")

const describeMiddleware = ({
  calls,
  faults,
  kind,
  name,
  ownMillis
}: Aggregates["middleware"][number]): readonly [string, string] => [
  SafeText.toLine(name),
  `${kind}, ${formatQuantity(calls, "call")}${faults === 0 ? "" : `, ${formatQuantity(faults, "fault")}`}, ` +
    `${ToolText.formatDuration(ownMillis)} of its work`
]

const listSkills = ({ skills }: Aggregates, utcOffset: number): ReadonlyArray<readonly [string, string]> =>
  skills
    .slice(0, most.skills)
    .map(({ edits, lastUsed, loads, name }) => [
      SafeText.toLine(name),
      `${formatQuantity(loads, "load")} · ${formatQuantity(edits, "edit")} · last used ` +
        `${new Date(lastUsed + utcOffset * minuteMillis).toISOString().slice(0, 10)}`
    ])

/** The figures of a report, and the room for it. */
interface Report {
  readonly figures: Aggregates
  readonly insights: Insights
  readonly room: TextCharts.Room
  /** Tokens of each day of the period. */
  readonly points: ReturnType<typeof listAllDays>
}

const renderOverview = ({ figures, points }: Report): ReadonlyArray<string> => {
  const { cost, messages, sessions, tokens, unpriced } = figures
  const active = new Set(figures.days.map(({ day }) => day))
  return renderPairs([
    ["Sessions", formatQuantity(sessions, "session")],
    ["Runs", formatQuantity(figures.runs, "run")],
    [
      "Messages",
      `${formatQuantity(messages, "message")}, ${figures.userMessages} from users, ` +
        `${formatAverage(messages, sessions)} in a session`
    ],
    ["Model calls", formatQuantity(figures.modelCalls, "call")],
    ["Tool calls", formatQuantity(figures.toolCalls, "call")],
    [
      "Tokens",
      `${abbreviateCount(tokens.input + tokens.cacheRead + tokens.cacheWrite)} in, ` +
        `${abbreviateCount(tokens.output)} out, ${formatTokens(tokens)} in all`
    ],
    ["Cache hits", `${formatPercent(figures.cacheHit)} of the prompt tokens`],
    ["Cost", `${formatCost(cost)}${unpriced === 0 ? "" : ` (${formatQuantity(unpriced, "call")} without a price)`}`],
    ["Errors", formatQuantity(figures.errors, "error")],
    [
      "Time",
      `${ToolText.formatDuration(figures.active)}, ` +
        `${ToolText.formatDuration(figures.active / Math.max(1, sessions))} in a session`
    ],
    [
      "Active",
      `${formatQuantity(active.size, "day")}, best streak ${formatQuantity(countStreak(active, points), "day")}`
    ]
  ])
}

const formatTokens = (tokens: Parameters<typeof SessionFacts.countTokens>[0]): string =>
  abbreviateCount(SessionFacts.countTokens(tokens))

const renderModels = ({ figures, room }: Report): ReadonlyArray<string> =>
  TextCharts.renderBars(
    figures.models
      .slice(0, most.models)
      .map((one) => ({
        name: SafeText.toLine(one.name),
        value: SessionFacts.countTokens(one.tokens),
        note:
          `${formatTokens(one.tokens)} · ${formatQuantity(one.calls, "call")} · ` +
          `${formatQuantity(one.sessions, "session")} · ${formatCost(one.cost)}`
      })),
    room
  )

/** Renders the platforms, unless all sessions were started at the terminal. */
const renderPlatforms = ({ figures: { sources }, room }: Report): ReadonlyArray<string> =>
  sources.every(({ name }) => name === "cli")
    ? []
    : TextCharts.renderBars(
        sources.map((one) => ({
          name: SafeText.toLine(one.name),
          value: one.calls,
          note: `${formatQuantity(one.calls, "call")} · ${formatTokens(one.tokens)}`
        })),
        room
      )

const renderTenants = ({ figures, room }: Report): ReadonlyArray<string> =>
  TextCharts.renderBars(
    figures.tenants
      .slice(0, most.tools)
      .map((one) => ({
        name: SafeText.toLine(one.name),
        value: one.calls,
        note: `${formatQuantity(one.calls, "call")} · ${formatTokens(one.tokens)} · ${formatCost(one.cost)}`
      })),
    room
  )

const renderTools = ({ figures: { toolCalls, tools }, room }: Report): ReadonlyArray<string> => {
  const formatShare = (calls: number): string => formatPercent(toolCalls === 0 ? 0 : calls / toolCalls)
  return TextCharts.renderBars(
    tools
      .slice(0, most.tools)
      .map((one) => ({
        name: SafeText.toLine(one.name),
        value: one.calls,
        note: `${one.calls} · ${formatShare(one.calls)}${one.errors === 0 ? "" : ` · ${one.errors} failed`}`
      })),
    room,
    "green"
  )
}

const renderFailures = ({ figures, room }: Report): ReadonlyArray<string> =>
  TextCharts.renderBars(
    figures.failures
      .slice(0, most.failures)
      .map((one) => ({
        name: SafeText.toLine(`${one.name}: ${one.reason}`),
        value: one.count,
        note: String(one.count)
      })),
    room,
    "red"
  )

const renderNotable = ({ figures }: Report): ReadonlyArray<string> =>
  renderPairs(
    figures.notable.map(({ name, session }) => [
      name,
      `${session.id}  ${ToolText.formatDuration(session.duration)}, ` +
        `${formatQuantity(session.messages, "message")}, ${abbreviateCount(session.tokens)} tokens, ` +
        `${formatQuantity(session.toolCalls, "tool call")}`
    ])
  )

/** Sections of the report in their order. A section without lines is omitted. */
const sections: ReadonlyArray<readonly [title: string, render: (report: Report) => ReadonlyArray<string>]> = [
  ["Overview", renderOverview],
  ["Cost", ({ figures }) => renderPairs(listCosts(figures))],
  ["Tokens by day", ({ points, room }) => TextCharts.renderTimeline(points, room, abbreviateCount)],
  ["Models", renderModels],
  ["Platforms", renderPlatforms],
  ["Tenants", renderTenants],
  ["Tools", renderTools],
  ["Skills", ({ figures, insights }) => renderPairs(listSkills(figures, insights.utcOffset))],
  [
    "Model calls by weekday",
    ({ figures, room }) => (figures.modelCalls === 0 ? [] : TextCharts.renderBars(countByWeekday(figures), room))
  ],
  ["Busiest hours", ({ figures, room }) => TextCharts.renderBars(listPeakHours(figures), room)],
  ["Errors", renderFailures],
  ["Cache misses", ({ figures }) => renderPairs(figures.misses.map(formatMiss))],
  ["Middleware", ({ figures }) => renderPairs(figures.middleware.slice(0, most.middleware).map(describeMiddleware))],
  ["Notable sessions", renderNotable]
]

/** Renders the insights as lines that fit the given width. */
export const render = (insights: Insights, room: TextCharts.Room): ReadonlyArray<string> => {
  const { columns, paint } = room
  const report: Report = { insights, figures: insights.figures, room, points: listAllDays(insights) }
  const lines = sections.flatMap(([title, renderSection]) => {
    const section = renderSection(report)
    return section.length === 0 ? [] : ["", paint.text(title, "bold"), ...section]
  })
  return [`Insights: the last ${formatQuantity(insights.days, "day")}`, ...lines].map((text) =>
    Width.measure(text) > columns ? Width.cut(text, columns) : text
  )
}

/** Minimum width of the report in columns, even on a narrower terminal. */
const narrowest = 40
const widest = 140

/** Gathers the figures of the last days, including today, from the store of the home directory. */
const gatherInsights = Effect.fnUntraced(function* (days: number, source?: string, tenant?: string) {
  const now = yield* Clock.currentTimeMillis
  const period = toPeriod(days, now)
  const { spoken, world } = yield* withStore<GatheredSessions, SessionStoreError>(
    readSessions(period),
    Effect.succeed({ world: SessionQueries.nowhere, spoken: new Map() }),
    forReading
  )
  const found = SessionQueries.find(
    world,
    {
      ...period,
      ...(source === undefined ? {} : { source: [source] }),
      ...(tenant === undefined ? {} : { tenant: [tenant] })
    },
    new Set()
  )
  const insights: Insights = { days, ...period, figures: yield* Aggregation.aggregate(world, found, period, spoken) }
  return insights
}, Effect.provide(Home.layer))

const describeEmpty = (days: number): string => `There are no sessions in the last ${formatQuantity(days, "day")}.`

/** Renders the insights of the last days as lines, for `/insights`. */
export const renderLines = Effect.fnUntraced(function* (days: number, room: TextCharts.Room) {
  const found = yield* gatherInsights(days)
  return found.figures.sessions === 0
    ? [describeEmpty(days)]
    : render(found, { ...room, columns: Math.max(narrowest, Math.min(widest, room.columns)) })
})

/** Number of days shown by default. */
export const defaultDays = 30

/** Maximum length of a period, in days. */
export const mostDays = 3650

/** Returns true if a number of days can be shown. */
export const isPeriod = (days: number): boolean => Number.isInteger(days) && days >= 1 && days <= mostDays

/** `hermes insights`: prints a usage report of the stored sessions. */
export const command = Command.make(
  "insights",
  {
    days: Flags.takeLast(
      Flag.Int("days").pipe(Flag.withMetavar("N")),
      `Number of days up to today; default: ${defaultDays}`
    ),
    source: Flags.makeText("source", "TAG", "Only sessions with this label: cli, oneshot, batch, …"),
    tenant: Flags.makeText("tenant", "NAME", "Only sessions of this tenant"),
    json: Flags.makeSwitch("json", "Print JSON")
  },
  Effect.fn("hermes insights")(function* ({ days = defaultDays, json, source, tenant }) {
    if (!isPeriod(days)) return yield* makeUsageFailure(`--days must be a number from 1 to ${mostDays}`)
    const found = yield* gatherInsights(days, source, tenant)
    if (json) {
      const { figures, ...period } = found
      return yield* printLine(
        SafeText.toJson(
          { period, ...figures, notable: figures.notable.map(({ name, session }) => ({ name, id: session.id })) },
          2
        )
      )
    }
    if (found.figures.sessions === 0) return yield* printLine(describeEmpty(days))
    const { streams } = yield* Output
    const columns = Math.max(narrowest, Math.min(widest, streams.answer.terminal ? streams.size().columns : 80))
    const text = render(found, { columns, paint: streams.answer.paint }).join("\n")
    // The text is already safe to print, and `printLine` would remove its colours.
    if (streams.answer.terminal) return yield* Effect.sync(() => streams.answer.write(`${text}\n`))
    yield* printLine(text)
  })
).pipe(Command.withDescription("Show the usage of recent sessions"))
