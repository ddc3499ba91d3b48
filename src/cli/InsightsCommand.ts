/**
 * `hermes insights`: what the sessions of the last days used: days, models, tools, cost, cache hits and errors.
 *
 * **Details**
 *
 * The figures are the studio's: sums over the run record of what happened in the period, sub-agents, side tasks, retries and failed runs
 * included. A session that used several models counts for each of them.
 *
 * Source: `hermes-product.md` §1.9.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Home } from "../config/Environment.ts"
import type { SessionStoreError } from "../domain/AgentError.ts"
import * as Aggregation from "../observability/studio/Aggregation.ts"
import * as SessionFacts from "../observability/studio/SessionFacts.ts"
import * as SessionIndex from "../observability/studio/SessionIndex.ts"
import * as SessionQueries from "../observability/studio/SessionQueries.ts"
import type { Aggregates, CostBucket, SessionSummary } from "../observability/studio/StudioApi.ts"
import { usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { line, Output } from "./ProgramOutput.ts"
import * as TextCharts from "./render/TextCharts.ts"
import * as SafeText from "./render/SafeText.ts"
import * as ToolText from "./render/ToolText.ts"
import { counted, pairs, short } from "./render/UsageText.ts"
import * as Width from "./render/Width.ts"
import { forReading, stored } from "./SessionChoice.ts"

/** Figures of a period. Times are epoch milliseconds. */
export interface Insights {
  readonly days: number
  readonly since: number
  readonly until: number
  /** Minutes east of UTC that the days are counted by. */
  readonly utcOffset: number
  readonly figures: Aggregates
  /** Conversations with the longest time, the most messages, tokens and tool calls. */
  readonly notable: ReadonlyArray<{ readonly name: string; readonly session: Conversation }>
}

/** A session with those that it goes on from after compactions; the id is the newest one's. */
interface Conversation {
  readonly id: string
  readonly duration: number
  readonly messages: number
  readonly tokens: number
  readonly toolCalls: number
}

const dayMillis = 86_400_000
const minuteMillis = 60_000

const notable = (world: SessionQueries.World, sessions: ReadonlyArray<SessionSummary>): Insights["notable"] => {
  // The newest session of a conversation stands for all of them.
  const conversations = Array.from(Map.groupBy(sessions, ({ id }) => SessionQueries.beginningOf(world, id)).values(), (some): Conversation => {
    const byStart = some.toSorted((a, b) => b.startedAt - a.startedAt)
    return {
      id: byStart[0]?.id ?? "",
      duration: some.reduce((sum, { duration }) => sum + duration, 0),
      messages: Math.max(...some.map(({ id }) => world.sessions.get(id)?.messageCount ?? 0)),
      tokens: some.reduce((sum, { tokens }) => sum + SessionFacts.countOf(tokens), 0),
      toolCalls: some.reduce((sum, { toolCalls }) => sum + toolCalls, 0)
    }
  })
  const best = (name: string, of: (one: Conversation) => number) => {
    const [first] = conversations.toSorted((a, b) => of(b) - of(a))
    return first === undefined || of(first) === 0 ? [] : [{ name, session: first }]
  }
  return [
    ...best("Longest", ({ duration }) => duration),
    ...best("Most messages", ({ messages }) => messages),
    ...best("Most tokens", ({ tokens }) => tokens),
    ...best("Most tool calls", ({ toolCalls }) => toolCalls)
  ]
}

/** All sessions of the store. */
const everything = Effect.flatMap(SessionIndex.make(Effect.succeed(true)), ({ refresh }) => refresh)

const insightsOf = (world: SessionQueries.World, days: number, source: string | undefined, now: number): Insights => {
  const utcOffset = DateTime.zonedOffset(DateTime.makeZonedUnsafe(now, { timeZone: DateTime.zoneMakeLocal() })) / minuteMillis
  const today = Math.floor((now + utcOffset * minuteMillis) / dayMillis) * dayMillis - utcOffset * minuteMillis
  const period = { since: today - (days - 1) * dayMillis, until: today + dayMillis, utcOffset }
  const found = SessionQueries.find(world, { ...period, ...(source === undefined ? {} : { source: [source] }) }, new Set())
  return { days, ...period, figures: Aggregation.aggregate(world, found, period), notable: notable(world, found) }
}

const percent = (share: number | undefined): string => share === undefined ? "none" : `${Math.round(share * 100)}%`

const dollars = (cost: number | undefined): string => {
  if (cost === undefined) return "unknown"
  return cost > 0 && cost < 0.01 ? `$${cost.toFixed(4)}` : `$${cost.toFixed(2)}`
}

/** Every day of the period, also those on which nothing happened. */
const allDays = ({ days, figures, since, utcOffset }: Insights): ReadonlyArray<TextCharts.Point> => {
  const known = new Map(figures.days.map((one) => [one.day, SessionFacts.countOf(one.tokens)]))
  return Array.from({ length: days }, (_, index) => {
    const name = new Date(since + index * dayMillis + utcOffset * minuteMillis).toISOString().slice(0, 10)
    return { name, value: known.get(name) ?? 0 }
  })
}

/** Largest number of days with something on each, one after another. */
const streak = (active: ReadonlySet<string>, days: ReadonlyArray<TextCharts.Point>): number =>
  days.reduce(({ best, now }, { name }) => {
    const next = active.has(name) ? now + 1 : 0
    return { best: Math.max(best, next), now: next }
  }, { best: 0, now: 0 }).best

/** Hours of the day with the most model calls. */
const peakHours = ({ hours }: Aggregates): ReadonlyArray<TextCharts.Bar> =>
  hours.map((value, hour) => ({ name: `${String(hour).padStart(2, "0")}:00`, value, note: String(value) }))
    .filter(({ value }) => value > 0).toSorted((a, b) => b.value - a.value).slice(0, most.hours)

/** Costs by what is known of them. */
const costRows = ({ costs: { actual, estimated, included, unknown } }: Aggregates): ReadonlyArray<readonly [string, string]> => {
  const row = (name: string, { calls }: CostBucket, amount: string) => calls === 0 ? [] : [[name, `${amount}, ${counted(calls, "call")}`] as const]
  return [
    ...row("Reported", actual, dollars(actual.cost)),
    ...row("Estimated", estimated, dollars(estimated.cost)),
    ...row("Included", included, "part of a subscription"),
    ...row("Unknown price", unknown, "not counted")
  ]
}

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]

const byWeekday = ({ days }: Aggregates): ReadonlyArray<TextCharts.Bar> =>
  [1, 2, 3, 4, 5, 6, 0].map((number) => {
    const value = days.filter(({ day }) => new Date(`${day}T00:00:00Z`).getUTCDay() === number).reduce((sum, { modelCalls }) => sum + modelCalls, 0)
    return { name: weekdays[number] ?? "", value, note: String(value) }
  })

/** Rows of the largest lists. */
const most = { models: 10, tools: 15, failures: 10, hours: 5 }

/** The lines of the insights, none wider than the room. */
export const render = (insights: Insights, room: TextCharts.Room): ReadonlyArray<string> => {
  const { columns, paint } = room
  const { days, figures, notable } = insights
  const { active: activeMillis, cacheHit, cost, errors, failures, modelCalls, models, runs, sessions, sources, tokens, toolCalls, tools, unpriced } = figures
  const points = allDays(insights)
  const active = new Set(figures.days.map(({ day }) => day))
  const section = (title: string, lines: ReadonlyArray<string>): ReadonlyArray<string> =>
    lines.length === 0 ? [] : ["", paint.text(title, "bold"), ...lines]
  const lines = [
    `Insights: the last ${counted(days, "day")}`,
    ...section("Overview", pairs([
      ["Sessions", counted(sessions, "session")],
      ["Runs", counted(runs, "run")],
      ["Model calls", counted(modelCalls, "call")],
      ["Tool calls", counted(toolCalls, "call")],
      ["Tokens", `${short(tokens.input + tokens.cacheRead + tokens.cacheWrite)} in, ${short(tokens.output)} out`],
      ["Cache hits", `${percent(cacheHit)} of the prompt tokens`],
      ["Cost", `${dollars(cost)}${unpriced === 0 ? "" : ` (${counted(unpriced, "call")} without a price)`}`],
      ["Errors", counted(errors, "error")],
      ["Time", `${ToolText.duration(activeMillis)}, ${ToolText.duration(activeMillis / Math.max(1, sessions))} in a session`],
      ["Active", `${counted(active.size, "day")}, best streak ${counted(streak(active, points), "day")}`]
    ])),
    ...section("Cost", pairs(costRows(figures))),
    ...section("Tokens by day", TextCharts.timeline(points, room, short)),
    ...section("Models", TextCharts.bars(models.slice(0, most.models).map((one) => ({
      name: SafeText.line(one.name),
      value: SessionFacts.countOf(one.tokens),
      note: `${short(SessionFacts.countOf(one.tokens))} · ${counted(one.calls, "call")} · ${dollars(one.cost)}`
    })), room)),
    ...section("Platforms", sources.every(({ name }) => name === "cli") ? [] : TextCharts.bars(sources.map((one) => ({
      name: SafeText.line(one.name),
      value: one.calls,
      note: `${counted(one.calls, "call")} · ${short(SessionFacts.countOf(one.tokens))}`
    })), room)),
    ...section("Tools", TextCharts.bars(tools.slice(0, most.tools).map((one) => ({
      name: SafeText.line(one.name),
      value: one.calls,
      note: `${one.calls} · ${percent(toolCalls === 0 ? 0 : one.calls / toolCalls)}${one.errors === 0 ? "" : ` · ${one.errors} failed`}`
    })), room, "green")),
    ...section("Model calls by weekday", modelCalls === 0 ? [] : TextCharts.bars(byWeekday(figures), room)),
    ...section("Busiest hours", TextCharts.bars(peakHours(figures), room)),
    ...section("Errors", TextCharts.bars(failures.slice(0, most.failures).map((one) => ({
      name: SafeText.line(`${one.name}: ${one.reason}`),
      value: one.count,
      note: String(one.count)
    })), room, "red")),
    ...section("Notable sessions", pairs(notable.map(({ name, session }) => [
      name,
      `${session.id}  ${ToolText.duration(session.duration)}, ${counted(session.messages, "message")}, ${short(session.tokens)} tokens, ${counted(session.toolCalls, "tool call")}`
    ])))
  ]
  return lines.map((text) => Width.of(text) > columns ? Width.cut(text, columns) : text)
}

/** Columns that are used, whatever the terminal has. */
const narrowest = 40
const widest = 140

/** Figures of the last days up to today, from the store of the home directory. */
const gather = Effect.fnUntraced(function*(days: number, source: string | undefined) {
  const now = yield* Clock.currentTimeMillis
  const world = yield* stored<SessionQueries.World, SessionStoreError>(everything, Effect.succeed(SessionQueries.nowhere), forReading)
  return insightsOf(world, days, source, now)
}, Effect.provide(Home.layer))

const empty = (days: number): string => `There are no sessions in the last ${counted(days, "day")}.`

/** The insights of the last days as lines, for `/insights`. */
export const lines = Effect.fnUntraced(function*(days: number, room: TextCharts.Room) {
  const found = yield* gather(days, undefined)
  return found.figures.sessions === 0 ? [empty(days)] : render(found, { ...room, columns: Math.max(narrowest, Math.min(widest, room.columns)) })
})

/** Days that are shown unless another number is given. */
export const defaultDays = 30

/** The longest period in days. */
export const mostDays = 3650

/** True for a number of days that can be shown. */
export const isPeriod = (days: number): boolean => Number.isInteger(days) && days >= 1 && days <= mostDays

export const command = Command.make("insights", {
  days: Flags.last(Flag.Int("days").pipe(Flag.withMetavar("N")), `Days up to today; default: ${defaultDays}`),
  source: Flags.text("source", "TAG", "Only sessions with this label: cli, oneshot, batch, …"),
  json: Flags.yes("json", "Print JSON")
}, Effect.fn("hermes insights")(function*({ days = defaultDays, json, source }) {
  if (!isPeriod(days)) return yield* usage(`--days is a number of days, 1 to ${mostDays}`)
  const found = yield* gather(days, source)
  if (json) {
    const { figures, notable, ...period } = found
    return yield* line(SafeText.json({ period, ...figures, notable: notable.map(({ name, session }) => ({ name, id: session.id })) }, 2))
  }
  if (found.figures.sessions === 0) return yield* line(empty(days))
  const { streams } = yield* Output
  const columns = Math.max(narrowest, Math.min(widest, streams.answer.terminal ? streams.size().columns : 80))
  const text = render(found, { columns, paint: streams.answer.paint }).join("\n")
  // Names are harmless already, and colours would not come through.
  if (streams.answer.terminal) return yield* Effect.sync(() => streams.answer.write(`${text}\n`))
  yield* line(text)
})).pipe(Command.withDescription("Show what the sessions of the last days used"))
