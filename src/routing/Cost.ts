/**
 * What a call cost, as far as it can be known, in exact decimal numbers.
 *
 * **Details**
 *
 * The sum over input, output, cache reads and cache writes of tokens times rate over a million, plus a price for each
 * request. Reasoning is part of the output and not charged again. Tokens without a rate make the amount unknown: it is
 * never guessed, and an unknown amount never changes a total.
 *
 * **Example** (What a call cost)
 *
 * ```ts
 * import { Cost, Usage } from "hermes-effect"
 *
 * const usage = { ...Usage.zero, requestCount: 1, inputTokens: 1_000, outputTokens: 200 }
 *
 * console.log(Cost.estimate(usage, undefined, "subscription_included").label)
 * // => included
 * console.log(Cost.estimate(usage, undefined, "unknown").label)
 * // => n/a
 * ```
 *
 * Source: `hermes-llm.md` §12.4.
 *
 * @since 0.1.0
 */
import * as BigDecimal from "effect/BigDecimal"
import type { Usage } from "../domain/Usage.ts"
import type { BillingMode, Pricing, Source } from "./Pricing.ts"

/** How far an amount can be trusted. */
export type Status = "included" | "estimated" | "actual" | "unknown"

/** See the module. */
export interface Cost {
  /** US dollars; undefined when unknown. */
  readonly amount: BigDecimal.BigDecimal | undefined
  readonly status: Status
  /** For people: `~$1.23`, `included`, `n/a`. */
  readonly label: string
  readonly source: Source | "none"
  /** What there is to say about it. */
  readonly notes: ReadonlyArray<string>
}

const zero = BigDecimal.fromBigInt(0n)
/** A millionth, exactly. */
const millionth = ({ scale, value }: BigDecimal.BigDecimal): BigDecimal.BigDecimal => BigDecimal.make(value, scale + 6)
const cent = BigDecimal.make(1n, 2)
const smallest = BigDecimal.make(1n, 4)

const fixed = (amount: BigDecimal.BigDecimal, digits: number): string => {
  const rounded = BigDecimal.round(amount, { scale: digits, mode: "half-from-zero" })
  const text = String(BigDecimal.scale(rounded, digits).value).padStart(digits + 1, "0")
  return `${text.slice(0, -digits)}.${text.slice(-digits)}`
}

/** An amount for people. */
export const label = (amount: BigDecimal.BigDecimal | undefined, status: Status): string => {
  if (status === "included") return "included"
  if (amount === undefined || status === "unknown") return "n/a"
  if (BigDecimal.isZero(amount)) return "$0.00"
  const about = status === "actual" ? "$" : "~$"
  if (BigDecimal.isLessThan(amount, smallest)) return `${about}<0.0001`
  return `${about}${fixed(amount, BigDecimal.isLessThan(amount, cent) ? 4 : 2)}`
}

const unknown = (note: string): Cost => ({ amount: undefined, status: "unknown", label: "n/a", source: "none", notes: [note] })

const included: Cost = { amount: zero, status: "included", label: "included", source: "none", notes: [] }

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

/** A total with one more cost; what is not known adds nothing. */
export const add = (total: BigDecimal.BigDecimal, { amount }: Cost): BigDecimal.BigDecimal =>
  amount === undefined ? total : BigDecimal.sum(total, amount)
