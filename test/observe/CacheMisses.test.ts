// Model calls that paid again for a prefix that the provider had cached.
import { assert, describe, it } from "@effect/vitest"
import { type JudgedCall, noTokens, sumMisses } from "../../src/observe/studio/SessionFacts.ts"

const minute = 60_000

const call = (at: number, cacheRead: number, input: number, more: Partial<JudgedCall> = {}): JudgedCall => ({
  at,
  millis: 1_000,
  model: "m",
  status: "answered",
  task: undefined,
  tokens: { ...noTokens, cacheRead, input },
  ...more
})

describe("cache misses", () => {
  it("have a reason: the model, a pause, a compaction, or a prefix that changed", () => {
    const session = [
      call(0, 0, 10_000),
      call(1 * minute, 10_000, 500),
      call(2 * minute, 0, 11_000, { model: "other" }),
      call(3 * minute, 11_000, 100, { model: "other" }),
      call(10 * minute, 0, 12_000, { model: "other" }),
      call(11 * minute, 2_000, 4_000, { model: "other" }),
      call(12 * minute, 1_000, 6_000, { model: "other" })
    ]
    assert.deepStrictEqual(sumMisses([session]), [
      { reason: "a pause of more than five minutes", calls: 1, tokens: 11_100 },
      { reason: "another model", calls: 1, tokens: 10_500 },
      { reason: "a changed prefix", calls: 1, tokens: 5_000 },
      { reason: "a compaction", calls: 1, tokens: 4_000 }
    ])
  })

  it("are none where the provider reports no cache, in side tasks, in failed calls, and for small prompts", () => {
    const sessions = [
      [call(0, 0, 10_000), call(minute, 0, 10_500)],
      [call(0, 0, 10_000), call(minute, 9_000, 1_500), call(2 * minute, 0, 9_000, { task: "title" })],
      [call(0, 0, 10_000), call(minute, 0, 10_500, { status: "failed" }), call(2 * minute, 10_000, 700)],
      [call(0, 0, 900), call(minute, 0, 950), call(2 * minute, 900, 100)],
      [call(0, 10, 0)]
    ]
    assert.deepStrictEqual(sumMisses(sessions), [])
  })
})
