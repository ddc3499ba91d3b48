/**
 * What a call cost: its usage at the price of its model, in exact decimal numbers.
 *
 * **Details**
 *
 * The sum over input, output, cache reads and cache writes of tokens times rate over a million, plus a price for each
 * request. Reasoning is part of the output and not charged again. Tokens without a rate make the amount unknown: it is
 * never guessed, and an unknown amount never changes a total.
 *
 * Source: `hermes-llm.md` §12.4.
 *
 * @since 0.1.0
 */
import * as BigDecimal from "effect/BigDecimal"
import { type Cost, included, label, unknown } from "../domain/Cost.ts"
import type { Usage } from "../domain/Usage.ts"
import type { BillingMode, Pricing } from "./Pricing.ts"

const zero = BigDecimal.fromBigInt(0n)
/** A millionth, exactly. */
const millionth = ({ scale, value }: BigDecimal.BigDecimal): BigDecimal.BigDecimal => BigDecimal.make(value, scale + 6)

const unreconciled = "an estimate by the list of prices, until the provider's own account of the call is read"

/** The cost of usage at a price; see the module. */
export const estimate = (usage: Usage, pricing: Pricing | undefined, billing: BillingMode): Cost => {
  if (billing === "subscription_included") return included
  if (pricing === undefined) return unknown("nobody names a price for this model")
  const buckets = [
    ["input", usage.inputTokens, pricing.input],
    ["output", usage.outputTokens, pricing.output],
    ["cache read", usage.cacheReadTokens, pricing.cacheRead],
    ["cache write", usage.cacheWriteTokens, pricing.cacheWrite]
  ] as const
  let amount = BigDecimal.multiply(BigDecimal.fromBigInt(BigInt(usage.requestCount)), pricing.request ?? zero)
  for (const [name, tokens, rate] of buckets) {
    if (tokens === 0) continue
    if (rate === undefined) return unknown(`there are ${name} tokens, and no price for them`)
    const cost = BigDecimal.multiply(BigDecimal.fromBigInt(BigInt(tokens)), rate)
    amount = BigDecimal.sum(amount, millionth(cost))
  }
  return {
    amount,
    status: "estimated",
    label: label(amount, "estimated"),
    source: pricing.source,
    notes: pricing.source === "provider_models_api" ? [unreconciled] : []
  }
}
