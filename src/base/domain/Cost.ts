/**
 * Known costs of calls. They are exact decimals internally, and plain numbers of US dollars in events.
 *
 * **Details**
 *
 * An unknown amount is never guessed and never changes a total. A total has the status and source of its last call.
 * `models/routing/Pricing` computes costs from usage and prices.
 *
 * **Example** (The cost of a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { Cost } from "hermes-effect/routing"
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(Effect.map(({ cost }) => Cost.formatTotal(cost)))
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer())))
 * // => included
 * ```
 *
 * Source: `hermes-llm.md` §12.4.
 */
import * as BigDecimal from "effect/BigDecimal"
import { memoize } from "effect/Function"
import * as Schema from "effect/Schema"
import * as Usage from "./Usage.ts"

/** Reliability of a cost amount. */
export const Status = Schema.Literals(["included", "estimated", "actual", "unknown"])
/** Type of {@link Status}. */
export type Status = typeof Status.Type

/**
 * Source of the price: `provider_usage` if the provider reported the amount with its answer, `subagent` for the cost of
 * a child agent.
 */
export const Source = Schema.Literals([
  "provider_usage",
  "provider_models_api",
  "official_docs_snapshot",
  "user_override",
  "subagent",
  "none"
])
/** Type of {@link Source}. */
export type Source = typeof Source.Type

/** Cost in US dollars by kind of tokens; a kind without tokens is absent. */
export const Parts = Schema.Struct({
  input: Schema.optionalKey(Schema.Finite),
  output: Schema.optionalKey(Schema.Finite),
  cacheRead: Schema.optionalKey(Schema.Finite),
  cacheWrite: Schema.optionalKey(Schema.Finite)
})
/** Type of {@link Parts}. */
export type Parts = typeof Parts.Type

/** Prices of prompt tokens in US dollars per million tokens. */
export const PromptRates = Schema.Struct({
  input: Schema.Finite,
  cacheRead: Schema.Finite,
  /** Absent if the price of writing to the cache is unknown. */
  cacheWrite: Schema.optionalKey(Schema.Finite)
})
/** Type of {@link PromptRates}. */
export type PromptRates = typeof PromptRates.Type

/** Cost of one call. */
export interface Cost {
  /** Amount in US dollars; `undefined` if unknown. */
  readonly amount: BigDecimal.BigDecimal | undefined
  readonly status: Status
  /** Readable form of the cost: `~$1.23`, `included`, `n/a`. */
  readonly label: string
  readonly source: Source
  /** Remarks about the amount. */
  readonly notes: ReadonlyArray<string>
  /** Cost by kind of tokens; present only if the amount was computed from the price list. */
  readonly parts?: Parts | undefined
}

/** Cost of several calls: the sum of the known amounts, with the status and source of the last call. */
export interface Total extends Pick<Cost, "status" | "source"> {
  readonly amount: BigDecimal.BigDecimal
}

/** A cost or a total in the form that events contain. */
export const Spent = Schema.Struct({
  /** Cost in US dollars; `null` if nothing is known. The known part if only some calls have an unknown cost. */
  usd: Schema.NullOr(Schema.Finite),
  status: Status,
  source: Source
})
/** Type of {@link Spent}. */
export type Spent = typeof Spent.Type

const zero = BigDecimal.fromBigInt(0n)
const cent = BigDecimal.make(1n, 2)
const smallest = BigDecimal.make(1n, 4)

/** The total before the first call. */
export const nothing: Total = { amount: zero, status: "unknown", source: "none" }

/** Creates an unknown cost, with the reason. */
export const makeUnknown = (note: string): Cost => ({
  amount: undefined,
  status: "unknown",
  label: "n/a",
  source: "none",
  notes: [note]
})

/** The cost of a call that is included in a subscription. */
export const included: Cost = { amount: zero, status: "included", label: "included", source: "none", notes: [] }

const million = 1_000_000

const computePromptRates = memoize((computeCost: (usage: Usage.Usage) => Cost): PromptRates | null => {
  const input = computeCost({ ...Usage.zero, inputTokens: million })
  const cacheRead = computeCost({ ...Usage.zero, cacheReadTokens: million })
  const cacheWrite = computeCost({ ...Usage.zero, cacheWriteTokens: million })
  if (input.amount === undefined || cacheRead.amount === undefined || input.status === "included") return null
  return {
    input: BigDecimal.toNumberUnsafe(input.amount),
    cacheRead: BigDecimal.toNumberUnsafe(cacheRead.amount),
    ...(cacheWrite.amount === undefined ? {} : { cacheWrite: BigDecimal.toNumberUnsafe(cacheWrite.amount) })
  }
})

/**
 * Returns the prices of prompt tokens by which a function computes costs, or `undefined` if a price is unknown or if
 * the tokens are included in a subscription. The result is cached for each function, which must always return the same
 * cost for the same usage.
 */
export const findPromptRates = (computeCost: (usage: Usage.Usage) => Cost): PromptRates | undefined =>
  computePromptRates(computeCost) ?? undefined

/** Creates the cost of a call from the amount in US dollars that its provider reported. */
export const fromReportedUsd = (usd: number): Cost => {
  const amount = BigDecimal.fromNumberUnsafe(usd)
  return { amount, status: "actual", label: formatAmount(amount, "actual"), source: "provider_usage", notes: [] }
}

/** Adds a cost to an amount. An unknown cost adds nothing. */
export const add = (total: BigDecimal.BigDecimal, { amount }: Pick<Cost, "amount">): BigDecimal.BigDecimal =>
  amount === undefined ? total : BigDecimal.sum(total, amount)

/** Returns a total with one more call. */
export const addCall = (total: Total, cost: Pick<Cost, "amount" | "status" | "source">): Total => ({
  amount: add(total.amount, cost),
  status: cost.status,
  source: cost.source
})

/** Adds the total cost of a child agent to a total (`hermes-product.md` §3.4). */
export const withChild = (total: Total, child: Pick<Cost, "amount" | "status">): Total =>
  addCall(total, { amount: child.amount, status: child.status, source: "subagent" })

/** Creates the form that events contain. An unknown cost of 0 is not an amount. */
export const makeSpent = (usd: number | null, status: Status, source: Source): Spent => {
  const known = status === "unknown" && usd === 0 ? null : usd
  return known === null || known === 0 ? shareSpent(known, status, source) : { usd: known, status, source }
}

/** Costs without an amount, by their text. Most records of calls of free and of unknown models share one. */
const withoutAmount = new Map<string, Spent>()

const shareSpent = (usd: 0 | null, status: Status, source: Source): Spent => {
  const key = `${usd} ${status} ${source}`
  const known = withoutAmount.get(key)
  if (known !== undefined) return known
  const spent: Spent = Object.freeze({ usd, status, source })
  withoutAmount.set(key, spent)
  return spent
}

/** Converts a cost or a total to the form that events contain. */
export const toSpent = ({ amount, source, status }: Pick<Cost, "amount" | "status" | "source">): Spent =>
  makeSpent(amount === undefined ? null : BigDecimal.toNumberUnsafe(amount), status, source)

/** Creates a total that starts with a cost. */
export const toTotal = (cost: Spent): Total => addCall(nothing, fromSpent(cost))

/** Adds two costs in the form that events contain. The sum has the status and source of the second cost. */
export const sum = (a: Spent, b: Spent): Spent => {
  const [before, more] = [a.usd ?? 0, b.usd ?? 0]
  // Exact addition is not needed if one amount is 0, as for free models and first calls.
  return before === 0 || more === 0
    ? makeSpent(before + more, b.status, b.source)
    : toSpent(addCall(toTotal(a), fromSpent(b)))
}

/** Converts a cost from the form that events contain. */
export const fromSpent = ({ source, status, usd }: Spent): Pick<Cost, "amount" | "status" | "source"> => ({
  amount: usd === null ? undefined : BigDecimal.fromNumberUnsafe(usd),
  status,
  source
})

/** Returns a cost with the field names of results, hook payloads and the session database (`hermes-llm.md` §3). */
export const toWire = ({ source, status, usd }: Spent) => ({
  estimated_cost_usd: usd,
  cost_status: status,
  cost_source: source
})

const formatFixed = (amount: BigDecimal.BigDecimal, digits: number): string => {
  const rounded = BigDecimal.round(amount, { scale: digits, mode: "half-from-zero" })
  const text = String(BigDecimal.scale(rounded, digits).value).padStart(digits + 1, "0")
  return `${text.slice(0, -digits)}.${text.slice(-digits)}`
}

/** Formats an amount for people. */
export const formatAmount = (amount: BigDecimal.BigDecimal | undefined, status: Status): string => {
  if (status === "included") return "included"
  if (amount === undefined || status === "unknown") return "n/a"
  if (BigDecimal.isZero(amount)) return "$0.00"
  const about = status === "actual" ? "$" : "~$"
  if (BigDecimal.isLessThan(amount, smallest)) return `${about}<0.0001`
  return `${about}${formatFixed(amount, BigDecimal.isLessThan(amount, cent) ? 4 : 2)}`
}

/** Formats a total for people: the known part, and a mark if other costs are unknown. */
export const formatTotal = ({ status, usd }: Spent): string => {
  const amount = fromSpent({ usd: usd ?? 0, status, source: "none" }).amount
  if (amount === undefined || BigDecimal.isZero(amount)) return formatAmount(amount, status)
  return `${formatAmount(amount, status === "actual" ? status : "estimated")}${status === "unknown" ? " and more" : ""}`
}
