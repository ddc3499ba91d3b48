// Model calls that paid again for a prefix that the provider had cached: their reasons and prices.
import { assert, describe, it } from "@effect/vitest"
import * as CacheMisses from "../../../src/base/domain/CacheMisses.ts"
import * as Cost from "../../../src/base/domain/Cost.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"

const minute = 60_000
const rates: Cost.PromptRates = { input: 3, cacheRead: 0.3, cacheWrite: 3.75 }

const call = (
  at: number,
  cacheRead: number,
  input: number,
  more: Partial<CacheMisses.PromptCall> = {}
): CacheMisses.PromptCall => ({
  at,
  millis: 1_000,
  provider: "p",
  model: "m",
  status: "answered",
  task: undefined,
  tools: "t",
  lifetime: 5 * minute,
  tokens: { cacheRead, cacheWrite: 0, input },
  rates: undefined,
  costStatus: "unknown",
  ...more
})

const started: Parameters<typeof CacheMisses.beginCall>[1] = {
  _tag: "AttemptStarted",
  apiRequestId: "r",
  step: 1,
  attempt: 0,
  route: { provider: "anthropic", model: "claude-opus-4-6", apiMode: "anthropic_messages" },
  messages: [],
  parameters: {}
}

describe("cache misses", () => {
  it("have a reason: the model, the tools, a pause, a compaction, or a prefix that changed", () => {
    const other = { model: "other" }
    const session = [
      call(0, 0, 10_000),
      call(1 * minute, 10_000, 500),
      call(2 * minute, 0, 11_000, other),
      call(3 * minute, 11_000, 100, other),
      call(10 * minute, 0, 12_000, other),
      call(11 * minute, 2_000, 4_000, other),
      call(12 * minute, 1_000, 6_000, other),
      call(13 * minute, 0, 7_500, { ...other, tools: "others" }),
      call(14 * minute, 0, 7_500, { ...other, provider: "q", tools: "others" })
    ]
    assert.deepStrictEqual(CacheMisses.sumMisses([session]), [
      { reason: "a pause of more than five minutes", calls: 1, tokens: 11_100, unpriced: 1 },
      { reason: "another model", calls: 1, tokens: 10_500, unpriced: 1 },
      { reason: "another provider", calls: 1, tokens: 7_500, unpriced: 1 },
      { reason: "other tools", calls: 1, tokens: 7_000, unpriced: 1 },
      { reason: "a changed prefix", calls: 1, tokens: 5_000, unpriced: 1 },
      { reason: "a compaction", calls: 1, tokens: 4_000, unpriced: 1 }
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
    assert.deepStrictEqual(CacheMisses.sumMisses(sessions), [])
  })

  it("cost what their tokens cost above the price of cached tokens; what was written counts first", () => {
    const priced = { rates, costStatus: "estimated" } as const
    const session = [
      call(0, 0, 100_000, priced),
      call(1 * minute, 100_000, 0, priced),
      call(2 * minute, 0, 200_000, priced),
      call(3 * minute, 0, 0, { ...priced, tokens: { input: 60_000, cacheRead: 0, cacheWrite: 160_000 } })
    ]
    const miss = { reason: "a changed prefix", unpriced: 0 }
    assert.deepStrictEqual(CacheMisses.sumMisses([session.slice(0, 3)]), [
      { ...miss, calls: 1, tokens: 100_000, price: 0.27 }
    ])
    // 160,000 tokens at 3.45 more and 40,000 at 2.7 more.
    assert.deepStrictEqual(CacheMisses.sumMisses([session]), [{ ...miss, calls: 2, tokens: 300_000, price: 0.93 }])
  })

  it("have no price where it is unknown, and cost nothing more in a subscription", () => {
    const session = (more: Partial<CacheMisses.PromptCall>) => [
      call(0, 0, 10_000),
      call(minute, 10_000, 0),
      call(2 * minute, 0, 10_000, more)
    ]
    assert.deepStrictEqual(
      [
        session({}),
        session({ costStatus: "included" }),
        session({ rates: { input: 3, cacheRead: 0.3 }, tokens: { input: 0, cacheRead: 0, cacheWrite: 10_000 } })
      ].map((calls) => CacheMisses.sumMisses([calls]).map(({ price, unpriced }) => [price, unpriced])),
      [[[undefined, 1]], [[undefined, 0]], [[undefined, 1]]]
    )
    const [sum] = CacheMisses.sumMisses([session({}), session({ rates, costStatus: "estimated" })])
    assert.deepInclude(sum, { calls: 2, price: 0.027, unpriced: 1 })
    assert.notProperty(CacheMisses.sumMisses([session({})])[0], "price")
  })

  it("follow the lifetime of the prefix: five minutes, an hour where the route has marks, a day", () => {
    const reasonOf = (lifetime: number, pause: number) =>
      CacheMisses.sumMisses([
        [call(0, 0, 10_000), call(minute, 10_000, 0, { lifetime }), call(minute + 1_000 + pause, 0, 10_000)]
      ])[0]?.reason
    const hour = 60 * minute
    assert.strictEqual(reasonOf(5 * minute, 5 * minute + 1), "a pause of more than five minutes")
    assert.strictEqual(reasonOf(hour, 6 * minute), "a changed prefix")
    assert.strictEqual(reasonOf(hour, hour + 1), "a pause of more than an hour")
    assert.strictEqual(reasonOf(24 * hour, 25 * hour), "a pause of more than a day")
    const lifetimeOf = (more: Partial<typeof started>) => CacheMisses.beginCall(0, { ...started, ...more }).lifetime
    assert.strictEqual(lifetimeOf({}), 5 * minute)
    assert.strictEqual(lifetimeOf({ cacheTtl: "1h" }), hour)
    const gpt = { provider: "openai", model: "gpt-4o", apiMode: "codex_responses" }
    assert.strictEqual(lifetimeOf({ cacheTtl: "1h", route: gpt }), 5 * minute)
    assert.strictEqual(lifetimeOf({ route: gpt, parameters: { prompt_cache_retention: "24h" } }), 24 * hour)
  })
})

describe("prices of prompt tokens", () => {
  const price = (usage: Usage.Usage): Cost.Cost =>
    usage.cacheWriteTokens > 0
      ? Cost.makeUnknown("no price for writes")
      : Cost.fromReportedUsd((usage.inputTokens * 3 + usage.cacheReadTokens * 0.3) / 1_000_000)

  it("are those by which the cost of a call is computed", () => {
    assert.deepStrictEqual(Cost.findPromptRates(price), { input: 3, cacheRead: 0.3 })
    assert.isUndefined(Cost.findPromptRates(() => Cost.makeUnknown("no price")))
    assert.isUndefined(Cost.findPromptRates(() => Cost.included))
  })
})
