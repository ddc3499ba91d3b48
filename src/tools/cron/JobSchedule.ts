/**
 * Schedules of jobs: parses the texts that users and models write, and computes the times that they denote. Pure.
 *
 * **Details**
 *
 * | written | meaning |
 * | --- | --- |
 * | `30m`, `in 2h`, `1d 12h` | once, after this time |
 * | `every 30m`, `every 2 hours`, `every day` | repeatedly, counted from the creation of the schedule |
 * | `0 9 * * mon-fri`, `@daily` | a cron expression of five fields, in the schedule's time zone |
 * | `2026-03-01T09:00`, `2026-03-01T09:00:00+01:00` | once; without an offset in the schedule's time zone |
 *
 * The time zone is part of the schedule, so that a schedule keeps its meaning if the machine moves. A time skipped by
 * the clock runs right after the gap. A time that occurs twice runs the first time. An expression with the hour `*`
 * runs both times, so that an hourly job runs every hour.
 *
 * **Gotchas**
 *
 * The resolution of a schedule is one minute, the interval at which jobs are checked.
 *
 * Source: `hermes-product.md` §2.5; the forms are not in it.
 */
import * as Cron from "effect/Cron"
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

/** Schedule of a job. Times are ISO 8601. */
export const Schedule = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("once"), at: Schema.String, timezone: Schema.String }),
  Schema.Struct({
    kind: Schema.Literal("interval"),
    minutes: Schema.Int.check(Schema.isGreaterThan(0)),
    anchor: Schema.String,
    timezone: Schema.String
  }),
  Schema.Struct({ kind: Schema.Literal("cron"), expression: Schema.String, timezone: Schema.String })
])
/** See {@link Schedule}. */
export type Schedule = typeof Schedule.Type

/** Context in which a schedule text is parsed. */
export interface Reading {
  /** Current time, in milliseconds since the epoch. */
  readonly now: number
  /** Name of a time zone (`Europe/Berlin`), or an offset. */
  readonly timezone: string
}

/** Forms of a schedule, for the error message about an invalid text. */
export const forms =
  "30m or in 2h (once), every 30m, a cron expression such as 0 9 * * mon-fri, or a time such as 2026-03-01T09:00"

/** Maximum age of a single time that is still accepted, to allow for the delay of the request. */
const lateMillis = 120_000

const minuteMillis = 60_000
const maxMinutes = 10 * 366 * 24 * 60

const units: Readonly<Record<string, number>> = { m: 1, h: 60, d: 24 * 60, w: 7 * 24 * 60 }
const unit = "(?:m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)"
const span = new RegExp(`^(?:\\d{1,9}\\s*${unit}\\s*)+$`)
const spanPart = new RegExp(`(\\d{1,9})\\s*(${unit})`, "g")

const nicknames: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *"
}

/** Formats a time for storage. */
export const toIso = (millis: number): string => DateTime.formatIso(DateTime.makeUnsafe(millis))

/** Parses a stored time to milliseconds. Returns `undefined` if it is invalid. */
export const toMillis = (text: string): number | undefined =>
  Option.getOrUndefined(Option.map(DateTime.make(text), DateTime.toEpochMillis))

const parseMinutes = (text: string): number | undefined => {
  if (new RegExp(`^${unit}$`).test(text)) return units[text.charAt(0)]
  if (!span.test(text)) return undefined
  let minutes = 0
  for (const [, count = "", name = ""] of text.matchAll(spanPart))
    minutes += Number(count) * (units[name.charAt(0)] ?? 0)
  return minutes
}

const checkBounds = (minutes: number, text: string): Result.Result<number, string> =>
  minutes >= 1 && minutes <= maxMinutes
    ? Result.succeed(minutes)
    : Result.fail(`"${text}" is ${minutes < 1 ? "less than a minute" : "more than ten years"}: ${forms}`)

const time = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,9})?)?)?\s*(Z|[+-]\d\d:?\d\d)?$/i

/** Parses a time to milliseconds. Returns `undefined` if it does not exist in the calendar. */
const parseMoment = (text: string, timezone: string): number | undefined => {
  const [, day, clock = "00:00", seconds = ":00", offset] = time.exec(text) ?? []
  if (day === undefined) return undefined
  const local = `${day}T${clock}${seconds}`
  const asUtc = Option.getOrUndefined(DateTime.make(`${local}Z`))
  // The calendar turns the 30th of February into a date in March.
  if (asUtc === undefined || !DateTime.formatIso(asUtc).startsWith(`${day}T${clock}`)) return undefined
  if (offset !== undefined) {
    return Option.getOrUndefined(Option.map(DateTime.make(`${local}${offset.toUpperCase()}`), DateTime.toEpochMillis))
  }
  const zone = Option.getOrUndefined(DateTime.zoneFromString(timezone))
  if (zone === undefined) return undefined
  const zoned = DateTime.makeZoned(local, { timeZone: zone, adjustForTimeZone: true, disambiguation: "compatible" })
  return Option.getOrUndefined(Option.map(zoned, DateTime.toEpochMillis))
}

/** Returns true if the time zone exists. */
const isTimezone = (name: string): boolean => Option.isSome(DateTime.zoneFromString(name))

/** Returns the name of the machine's time zone. */
export const readLocalTimezone = (): string => DateTime.zoneToString(DateTime.zoneMakeLocal())

const parseCron = (text: string, timezone: string): Result.Result<Schedule, string> => {
  const expression = nicknames[text] ?? text.replaceAll(/\s+/g, " ")
  const schedule: Schedule = { kind: "cron", expression, timezone }
  const parsed = Cron.parse(expression, timezone)
  if (Result.isFailure(parsed))
    return Result.fail(`"${text}" is not a valid cron expression (${parsed.failure.message}): ${forms}`)
  return findNextAfter(schedule, 0) === undefined
    ? Result.fail(`"${text}" never comes: no calendar has that day`)
    : Result.succeed(schedule)
}

/** Parses a written schedule. The error is one line that names valid forms. */
export const parse = (written: string, { now, timezone }: Reading): Result.Result<Schedule, string> => {
  const text = written.trim().toLowerCase()
  if (!isTimezone(timezone)) return Result.fail(`"${timezone}" is no time zone: write one such as Europe/Berlin or UTC`)
  if (text === "") return Result.fail(`the schedule is empty: ${forms}`)
  const repeated = /^every\s+(\S.*)$/.exec(text)?.[1]
  if (repeated !== undefined) {
    const minutes = parseMinutes(repeated)
    if (minutes === undefined) return Result.fail(`"${written}" cannot be read: ${forms}`)
    return Result.map(checkBounds(minutes, written), (minutes): Schedule => ({
      kind: "interval",
      minutes,
      anchor: toIso(now),
      timezone
    }))
  }
  const delay = parseMinutes(text.replace(/^in\s+/, ""))
  if (delay !== undefined) {
    return Result.map(checkBounds(delay, written), (minutes): Schedule => ({
      kind: "once",
      at: toIso(now + minutes * minuteMillis),
      timezone
    }))
  }
  if (time.test(text)) {
    const at = parseMoment(text, timezone)
    if (at === undefined) return Result.fail(`"${written}" is no time of the calendar: ${forms}`)
    return at < now - lateMillis
      ? Result.fail(`${written} is in the past (it is now ${toIso(now)}): give a later time`)
      : Result.succeed({ kind: "once", at: toIso(at), timezone })
  }
  const fields = text.split(/\s+/).length
  if (fields === 6 && /^[\d*/,-]+\s/.test(text)) {
    return Result.fail(`"${written}" has six fields: omit the seconds; the smallest unit is a minute`)
  }
  return fields === 5 || Object.hasOwn(nicknames, text)
    ? parseCron(text, timezone)
    : Result.fail(`"${written}" cannot be read: ${forms}`)
}

/** Returns true if an expression matches in every hour, or in a step of hours. */
const isHourly = (expression: string): boolean => expression.split(" ")[1]?.startsWith("*") ?? false

/** Maximum time by which a clock is set back, in minutes. */
const maxSetBack = 180

/** Finds a time before `next` whose clock time has occurred once already. `Cron.next` skips such times. */
const findRepeatedTime = (cron: Cron.Cron, after: number, next: number | undefined): number | undefined => {
  const first = (Math.floor(after / minuteMillis) + 1) * minuteMillis
  const end = Math.min(next ?? Number.POSITIVE_INFINITY, first + maxSetBack * minuteMillis)
  for (let at = first; at < end; at += minuteMillis) if (Cron.match(cron, at)) return at
  return undefined
}

/** Returns the first time later than `after`, or `undefined`. */
export const findNextAfter = (schedule: Schedule, after: number): number | undefined => {
  switch (schedule.kind) {
    case "once": {
      const at = toMillis(schedule.at)
      return at !== undefined && at > after ? at : undefined
    }
    case "interval": {
      const anchor = toMillis(schedule.anchor)
      if (anchor === undefined) return undefined
      const step = schedule.minutes * minuteMillis
      return anchor + Math.max(1, Math.floor((after - anchor) / step) + 1) * step
    }
    case "cron": {
      const parsed = Cron.parse(schedule.expression, schedule.timezone)
      if (Result.isFailure(parsed)) return undefined
      // `Cron.next` throws if it finds no matching day within its search range.
      const next = Result.getOrUndefined(Result.try(() => Cron.next(parsed.success, after).getTime()))
      return isHourly(schedule.expression) ? (findRepeatedTime(parsed.success, after, next) ?? next) : next
    }
  }
}

/** Returns the first time of a schedule that begins now. A single time that has just passed counts as now. */
export const findFirst = (schedule: Schedule, now: number): number | undefined =>
  schedule.kind === "once" ? toMillis(schedule.at) : findNextAfter(schedule, now)

const leastGrace = 2 * minuteMillis
const mostGrace = 120 * minuteMillis

/**
 * Returns the delay after which a missed time is not made up for: half the time to the next one, between two minutes
 * and two hours. A single time has no limit, so it runs however late it is.
 */
export const computeGrace = (schedule: Schedule, moment: number): number => {
  if (schedule.kind === "once") return Number.POSITIVE_INFINITY
  const next = findNextAfter(schedule, moment)
  return next === undefined ? mostGrace : Math.min(mostGrace, Math.max(leastGrace, (next - moment) / 2))
}

const amounts: ReadonlyArray<readonly [number, string]> = [
  [units["d"] ?? 1, "d"],
  [units["h"] ?? 1, "h"],
  [1, "m"]
]

/** Formats a time for people, in the schedule's time zone. */
export const formatTime = (millis: number, timezone: string): string =>
  Option.match(DateTime.zoneFromString(timezone), {
    onNone: () => toIso(millis),
    onSome: (timeZone) =>
      DateTime.formatIsoOffset(DateTime.makeZonedUnsafe(millis, { timeZone })).replace(/:\d\d\.\d{3}/, "")
  })

/** Describes a schedule in words. */
export const describe = (schedule: Schedule): string => {
  switch (schedule.kind) {
    case "once":
      return `once at ${formatTime(toMillis(schedule.at) ?? 0, schedule.timezone)}`
    case "interval": {
      const [size, name] = amounts.find(([size]) => schedule.minutes % size === 0) ?? [1, "m"]
      return `every ${schedule.minutes / size}${name}`
    }
    case "cron":
      return `${schedule.expression} (${schedule.timezone})`
  }
}
