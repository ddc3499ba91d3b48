// The line of progress of a run of rows: its facts, and what is left out where there is no room.
import { assert, describe, it } from "@effect/vitest"
import * as BatchProgress from "../../../src/program/cli/render/BatchProgress.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as Width from "../../../src/program/cli/render/Width.ts"

const progress = {
  total: 200,
  before: 40,
  finished: 55,
  discarded: 3,
  failed: 2,
  running: 4,
  suspended: 0,
  retried: 6,
  millis: 120_000,
  ratePerMinute: 30,
  remainingMillis: 200_000,
  tokens: 1,
  costUsd: 0.6,
  expectedCostUsd: 1.6
}
const facts = [
  "100 of 200 rows",
  "2 failed",
  "3 min left",
  "30.0 a minute",
  "$0.60 of about $1.60",
  "3 discarded",
  "6 retried"
]

describe("BatchProgress", () => {
  it("rate, estimate, cost and its estimate, the most important first", () => {
    assert.strictEqual(BatchProgress.renderText(progress), facts.join(", "))
    assert.strictEqual(
      BatchProgress.renderText({
        ...progress,
        remainingMillis: undefined,
        ratePerMinute: 0,
        costUsd: undefined,
        discarded: 0,
        suspended: 0,
        retried: 0,
        failed: 0
      }),
      "95 of 200 rows"
    )
    assert.strictEqual(BatchProgress.listFacts(progress, "tasks")[0], "100 of 200 tasks")
  })

  it("half of the rows are half of the bar, and every width is kept", () => {
    assert.strictEqual(
      BatchProgress.renderBar(progress, 200, Paint.plain),
      `[${"#".repeat(10)}${" ".repeat(10)}] ${facts.join(", ")}`
    )
    assert.strictEqual(
      BatchProgress.renderBar(progress, 59, Paint.plain),
      `[${"#".repeat(10)}${" ".repeat(10)}] 100 of 200 rows, 2 failed`
    )
    for (let columns = 30; columns < 130; columns++)
      assert.isAtMost(Width.measure(BatchProgress.renderBar(progress, columns, Paint.plain)), columns)
    assert.strictEqual(
      BatchProgress.renderBar(
        { ...progress, total: 0, before: 0, finished: 0, discarded: 0, failed: 0 },
        40,
        Paint.plain
      ).slice(0, 22),
      `[${"#".repeat(20)}]`
    )
  })
})
