/**
 * Costs of calls, as far as they are known: exact decimal numbers inside, US dollars as plain numbers in events.
 *
 * **Details**
 *
 * An amount that is not known is never guessed, and never changes a total; a total has the status and source of its
 * last call. `models/routing/Pricing` makes costs of usage and prices.
 *
 * **Example** (What a run cost)
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
import * as Schema from "effect/Schema"

/** Reliability of an amount. */
export const Status = Schema.Literals(["included", "estimated", "actual", "unknown"])
/** Type of {@link Status}. */
export type Status = typeof Status.Type

/**
 * Source of the price: `provider_usage` where the provider reported the amount with its answer, `subagent` for the
 * spending of a child.
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

/** US dollars of an amount by kind of tokens; a kind without tokens is absent. */
export const Parts = Schema.Struct({
  input: Schema.optionalKey(Schema.Finite),
  output: Schema.optionalKey(Schema.Finite),
  cacheRead: Schema.optionalKey(Schema.Finite),
  cacheWrite: Schema.optionalKey(Schema.Finite)
})
/** Type of {@link Parts}. */
export type Parts = typeof Parts.Type

/** Cost of one call. */
export interface Cost {
  /** US dollars; undefined when unknown. */
  readonly amount: BigDecimal.BigDecimal | undefined
  readonly status: Status
  /** For people: `~$1.23`, `included`, `n/a`. */
  readonly label: string
  readonly source: Source
  /** Remarks about the amount. */
  readonly notes: ReadonlyArray<string>
  /** Of an amount that was computed by the list of prices. */
  readonly parts?: Parts | undefined
}

/** Cost of several calls: the sum of the known amounts, with the status and source of the last. */
export interface Total extends Pick<Cost, "status" | "source"> {
  readonly amount: BigDecimal.BigDecimal
}

/** A cost or a total as events carry it. */
export const Spent = Schema.Struct({
  /** US dollars; null for a call whose cost is not known. */
  usd: Schema.NullOr(Schema.Finite),
  status: Status,
  source: Source
})
/** Type of {@link Spent}. */
export type Spent = typeof Spent.Type

const zero = BigDecimal.fromBigInt(0n)
const cent = BigDecimal.make(1n, 2)
const smallest = BigDecimal.make(1n, 4)

/** Before the first call. */
export const nothing: Total = { amount: zero, status: "unknown", source: "none" }

/** An unknown cost, with the reason. */
export const makeUnknown = (note: string): Cost => ({
  amount: undefined,
  status: "unknown",
  label: "n/a",
  source: "none",
  notes: [note]
})

/** Part of a subscription. */
export const included: Cost = { amount: zero, status: "included", label: "included", source: "none", notes: [] }

/** Cost of a call as its provider reports it, in US dollars. */
export const fromReportedUsd = (usd: number): Cost => {
  const amount = BigDecimal.fromNumberUnsafe(usd)
  return { amount, status: "actual", label: formatAmount(amount, "actual"), source: "provider_usage", notes: [] }
}

/** Adds a cost to an amount. An unknown cost adds nothing. */
export const add = (total: BigDecimal.BigDecimal, { amount }: Pick<Cost, "amount">): BigDecimal.BigDecimal =>
  amount === undefined ? total : BigDecimal.sum(total, amount)

/** A total with one more call. */
export const addCall = (total: Total, cost: Pick<Cost, "amount" | "status" | "source">): Total => ({
  amount: add(total.amount, cost),
  status: cost.status,
  source: cost.source
})

/** A total with all that a child spent (`hermes-product.md` §3.4). */
export const withChild = (total: Total, child: Pick<Cost, "amount" | "status">): Total =>
  addCall(total, { amount: child.amount, status: child.status, source: "subagent" })

/** In the form of events. */
export const toSpent = ({ amount, source, status }: Pick<Cost, "amount" | "status" | "source">): Spent => ({
  usd: amount === undefined ? null : BigDecimal.toNumberUnsafe(amount),
  status,
  source
})

/** A cost as the beginning of a total. */
export const toTotal = (cost: Spent): Total => addCall(nothing, fromSpent(cost))

/** Two costs in the form of events as one, with the status and source of the second. */
export const sum = (a: Spent, b: Spent): Spent => {
  const [before, more] = [a.usd ?? 0, b.usd ?? 0]
  // Nothing to add exactly: most calls of a free model, and the first of every other.
  return before === 0 || more === 0
    ? { usd: before + more, status: b.status, source: b.source }
    : toSpent(addCall(toTotal(a), fromSpent(b)))
}

/** Back from the form of events. */
export const fromSpent = ({ source, status, usd }: Spent): Pick<Cost, "amount" | "status" | "source"> => ({
  amount: usd === null ? undefined : BigDecimal.fromNumberUnsafe(usd),
  status,
  source
})

/** The names that results, hook payloads and the session database have for it (`hermes-llm.md` §3). */
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

/** An amount for people. */
export const formatAmount = (amount: BigDecimal.BigDecimal | undefined, status: Status): string => {
  if (status === "included") return "included"
  if (amount === undefined || status === "unknown") return "n/a"
  if (BigDecimal.isZero(amount)) return "$0.00"
  const about = status === "actual" ? "$" : "~$"
  if (BigDecimal.isLessThan(amount, smallest)) return `${about}<0.0001`
  return `${about}${formatFixed(amount, BigDecimal.isLessThan(amount, cent) ? 4 : 2)}`
}

/** A total for people: the known part of it, and whether there is more. */
export const formatTotal = ({ status, usd }: Spent): string => {
  const amount = fromSpent({ usd: usd ?? 0, status, source: "none" }).amount
  if (amount === undefined || BigDecimal.isZero(amount)) return formatAmount(amount, status)
  return `${formatAmount(amount, status === "actual" ? status : "estimated")}${status === "unknown" ? " and more" : ""}`
}
