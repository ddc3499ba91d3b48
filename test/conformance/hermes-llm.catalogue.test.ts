import { assert, describe, it } from "@effect/vitest"
import * as BigDecimal from "effect/BigDecimal"
import * as Costs from "../../src/base/domain/Cost.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as ModelTables from "../../src/models/routing/catalogue/ModelTables.ts"
import * as Pricing from "../../src/models/routing/Pricing.ts"

const rates = (input: string, output: string, cacheRead?: string, cacheWrite?: string): Pricing.Pricing => ({
  input: Pricing.parseDecimal(input),
  output: Pricing.parseDecimal(output),
  cacheRead: Pricing.parseDecimal(cacheRead),
  cacheWrite: Pricing.parseDecimal(cacheWrite),
  request: undefined,
  source: "official_docs_snapshot",
  url: undefined,
  version: undefined
})

const usage: Usage.Usage = {
  inputTokens: 1_000_000,
  outputTokens: 100_000,
  cacheReadTokens: 2_000_000,
  cacheWriteTokens: 400_000,
  reasoningTokens: 50_000,
  requestCount: 1
}

describe("hermes-llm catalogue and cost", () => {
  it("T83 cost is the exact sum over the four kinds of tokens", () => {
    const cost = Pricing.estimateCost(usage, rates("5", "25", "0.5", "6.25"), "official_docs_snapshot")
    assert.strictEqual(BigDecimal.format(cost.amount ?? BigDecimal.fromBigInt(-1n)), "11")
    assert.deepInclude(cost, { status: "estimated", label: "~$11.00" })
    assert.deepStrictEqual(cost.parts, { input: 5, output: 2.5, cacheRead: 1, cacheWrite: 2.5 })
  })

  it("T84 tokens without a rate make the amount unknown, and say which rate is missing", () => {
    const cost = Pricing.estimateCost(usage, rates("5", "25", "0.5"), "official_docs_snapshot")
    assert.deepInclude(cost, { amount: undefined, status: "unknown", label: "n/a" })
    assert.include(cost.notes[0], "cache write")
    const total = BigDecimal.fromBigInt(3n)
    assert.strictEqual(Costs.add(total, cost), total)
  })

  it("T85 a subscription includes it", () => {
    const billing = Pricing.findBillingMode({ provider: "openai-codex", model: "gpt-5.2-codex", baseUrl: undefined })
    const cost = Pricing.estimateCost(usage, undefined, billing)
    assert.deepInclude(cost, { status: "included", label: "included" })
    assert.isTrue(cost.amount !== undefined && BigDecimal.isZero(cost.amount))
  })

  it("T86 ids are found in the form of every provider", () => {
    assert.deepInclude(ModelTables.findPrice("anthropic", "anthropic/claude-opus-4.6")?.row, {
      input: "5",
      output: "25"
    })
    assert.deepInclude(ModelTables.findPrice("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0")?.row, {
      input: "3"
    })
    assert.deepInclude(ModelTables.findPrice("bedrock", "anthropic.claude-3-haiku-20240307-v1:0")?.row, {
      input: "0.25"
    })
    assert.deepInclude(ModelTables.findPrice("anthropic", "claude-3-5-sonnet-20241022")?.row, { output: "15" })
    assert.deepInclude(ModelTables.findPrice("bedrock", "amazon.nova-pro-v1:0")?.row, { input: "0.80" })
    assert.isUndefined(ModelTables.findPrice("anthropic", "claude-opus-9"))
  })

  it("T88 labels below a cent have four decimals", () => {
    const label = (text: string) => Costs.formatAmount(Pricing.parseDecimal(text), "estimated")
    assert.strictEqual(label("0.0046"), "~$0.0046")
    assert.strictEqual(label("0"), "$0.00")
    assert.strictEqual(label("0.00001"), "~$<0.0001")
    assert.strictEqual(label("1.235"), "~$1.24")
    assert.strictEqual(label("0.01"), "~$0.01")
    assert.strictEqual(Costs.formatAmount(Pricing.parseDecimal("2.5"), "actual"), "$2.50")
  })
})
