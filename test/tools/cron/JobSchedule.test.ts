import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as JobSchedule from "../../../src/tools/cron/JobSchedule.ts"

const now = Date.parse("2026-03-01T10:00:00Z")
const berlin = { now, timezone: "Europe/Berlin" }

const read = (text: string, reading: JobSchedule.Reading = berlin): JobSchedule.Schedule =>
  Result.getOrThrowWith(JobSchedule.parse(text, reading), (message) => new Error(message))

const refusal = (text: string, reading: JobSchedule.Reading = berlin): string =>
  Result.match(JobSchedule.parse(text, reading), { onFailure: (message) => message, onSuccess: () => "" })

const at = (millis: number | undefined): string | undefined =>
  millis === undefined ? undefined : new Date(millis).toISOString()

describe("JobSchedule", () => {
  it("a length of time is once, that long from now", () => {
    for (const [text, expected] of [
      ["30m", "2026-03-01T10:30:00.000Z"],
      ["in 2h", "2026-03-01T12:00:00.000Z"],
      ["1d 12h", "2026-03-02T22:00:00.000Z"],
      ["1 week", "2026-03-08T10:00:00.000Z"]
    ] as const) {
      assert.strictEqual(at(JobSchedule.findFirst(read(text), now)), expected, text)
    }
    assert.isUndefined(JobSchedule.findNextAfter(read("30m"), now + 30 * 60_000))
  })

  it("every counts from when it was set up, and keeps its beat", () => {
    const schedule = read("every 45 minutes")
    assert.strictEqual(at(JobSchedule.findFirst(schedule, now)), "2026-03-01T10:45:00.000Z")
    assert.strictEqual(at(JobSchedule.findNextAfter(schedule, now + 100 * 60_000)), "2026-03-01T12:15:00.000Z")
    assert.strictEqual(at(JobSchedule.findNextAfter(schedule, now - 1_000_000_000)), "2026-03-01T10:45:00.000Z")
    assert.strictEqual(JobSchedule.describe(read("every day")), "every 1d")
    assert.strictEqual(JobSchedule.describe(read("every 90m")), "every 90m")
  })

  it("a cron expression is read in its time zone, over a change of the clock too", () => {
    const schedule = read("30 2 * * *")
    assert.strictEqual(
      at(JobSchedule.findNextAfter(schedule, Date.parse("2026-03-28T12:00:00Z"))),
      "2026-03-29T01:30:00.000Z"
    )
    assert.strictEqual(
      at(JobSchedule.findNextAfter(schedule, Date.parse("2026-10-24T12:00:00Z"))),
      "2026-10-25T00:30:00.000Z"
    )
    assert.strictEqual(
      at(JobSchedule.findNextAfter(schedule, Date.parse("2026-10-25T00:30:00Z"))),
      "2026-10-26T01:30:00.000Z"
    )
    assert.strictEqual(at(JobSchedule.findFirst(read("0 9 * * Mon-Fri"), now)), "2026-03-02T08:00:00.000Z")
    assert.strictEqual(
      at(JobSchedule.findFirst(read("@daily", { now, timezone: "UTC" }), now)),
      "2026-03-02T00:00:00.000Z"
    )
  })

  it("an hourly job runs in both hours when the clock is set back, a daily one once", () => {
    const hourly = read("0 * * * *")
    const times: Array<string | undefined> = []
    let from: number | undefined = Date.parse("2026-10-24T22:30:00Z")
    for (let i = 0; i < 5 && from !== undefined; i++) {
      from = JobSchedule.findNextAfter(hourly, from)
      times.push(at(from))
    }
    assert.deepStrictEqual(
      times,
      [23, 24, 25, 26, 27].map((hour) => new Date(Date.UTC(2026, 9, 24, hour)).toISOString())
    )
    const daily = read("0 2 * * *")
    const first = JobSchedule.findNextAfter(daily, Date.parse("2026-10-24T12:00:00Z"))
    assert.strictEqual(at(first), "2026-10-25T00:00:00.000Z")
    assert.strictEqual(at(JobSchedule.findNextAfter(daily, first ?? 0)), "2026-10-26T01:00:00.000Z")
    const quarterly = read("*/15 */2 * * *")
    assert.strictEqual(
      at(JobSchedule.findNextAfter(quarterly, Date.parse("2026-10-25T00:45:00Z"))),
      "2026-10-25T01:00:00.000Z"
    )
  })

  it("a time without an offset is read in the time zone, one with an offset as it is", () => {
    assert.strictEqual(at(JobSchedule.findFirst(read("2026-03-02T09:00"), now)), "2026-03-02T08:00:00.000Z")
    assert.strictEqual(at(JobSchedule.findFirst(read("2026-03-02 09:00:30+05:30"), now)), "2026-03-02T03:30:30.000Z")
    assert.strictEqual(at(JobSchedule.findFirst(read("2026-03-02t09:00z"), now)), "2026-03-02T09:00:00.000Z")
    assert.strictEqual(at(JobSchedule.findFirst(read("2026-03-29T02:30"), now)), "2026-03-29T01:30:00.000Z")
  })

  it("what has just passed is taken, what is long past is not", () => {
    assert.strictEqual(at(JobSchedule.findFirst(read("2026-03-01T09:59:00Z"), now)), "2026-03-01T09:59:00.000Z")
    assert.include(refusal("2026-03-01T09:50:00Z"), "is in the past")
  })

  it("what means nothing is refused with what to write instead", () => {
    for (const text of [
      "",
      "soon",
      "every",
      "every monday at nine",
      "61 * * * *",
      "0 0 31 2 *",
      "2026-02-30T09:00",
      "every 0m",
      "0m",
      "every 30s",
      "999999999d",
      "every -5m",
      "1e3m",
      "* * *",
      "__proto__",
      "constructor"
    ]) {
      assert.isNotEmpty(refusal(text), text)
      assert.notInclude(refusal(text), "\n")
    }
    assert.include(refusal("0 30 9 * * *"), "omit the seconds")
    assert.include(refusal("30m", { now, timezone: "Mars/Base" }), "no time zone")
  })

  it("the grace is half the way to the next moment, two minutes at least and two hours at most", () => {
    assert.strictEqual(JobSchedule.computeGrace(read("every 1m"), now), 2 * 60_000)
    assert.strictEqual(JobSchedule.computeGrace(read("every 1h"), now), 30 * 60_000)
    assert.strictEqual(JobSchedule.computeGrace(read("0 9 * * *"), now), 120 * 60_000)
    assert.strictEqual(JobSchedule.computeGrace(read("30m"), now), Number.POSITIVE_INFINITY)
  })

  it("a schedule that was written by hand and means nothing has no next moment", () => {
    assert.isUndefined(JobSchedule.findNextAfter({ kind: "cron", expression: "not cron", timezone: "UTC" }, now))
    assert.isUndefined(JobSchedule.findNextAfter({ kind: "once", at: "someday", timezone: "UTC" }, now))
    assert.isUndefined(
      JobSchedule.findNextAfter({ kind: "interval", minutes: 5, anchor: "then", timezone: "UTC" }, now)
    )
  })
})
