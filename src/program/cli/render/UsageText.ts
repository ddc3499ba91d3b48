/**
 * Text about tokens, model calls and their cost: the line below an answer, and the table of `/usage`.
 *
 * Source: `hermes-product.md` §1.9.
 */
import type { MissSum } from "../../../base/domain/CacheMisses.ts"
import * as Cost from "../../../base/domain/Cost.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import * as SafeText from "./SafeText.ts"
import * as Width from "./Width.ts"

/** Formats a number of tokens in short form: `812`, `12.3k`, `1.2M`. */
export const abbreviateCount = (count: number): string => {
  if (count < 1000) return String(count)
  return count < 999_950 ? `${(count / 1000).toFixed(1)}k` : `${(count / 1_000_000).toFixed(1)}M`
}

/** Formats an exact number of tokens: `1,234,567`. */
const formatExact = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ",")

/** Formats a quantity with its noun: `1 call`, `2 calls`. */
export const formatQuantity = (count: number, one: string, many = `${one}s`): string =>
  `${formatExact(count)} ${count === 1 ? one : many}`

/** Formats the usage and cost of an answer in one line. */
export const formatLine = (usage: Usage.Usage, cost: Cost.Spent): string => {
  const cached = Usage.computeCacheHitPercent(usage)
  return [
    `${abbreviateCount(Usage.countPromptTokens(usage))} in${cached > 0 ? ` (${Math.round(cached)}% cached)` : ""}`,
    `${abbreviateCount(usage.outputTokens)} out`,
    formatQuantity(usage.requestCount, "model call"),
    Cost.formatTotal(cost) === "n/a" ? "cost unknown" : Cost.formatTotal(cost)
  ].join(" · ")
}

/** Usage of one model. */
export interface ModelUsage {
  readonly provider: string
  readonly model: string
  readonly usage: Usage.Usage
  readonly cost: Cost.Spent
}

/** Usage of a side task since the program started. */
interface TaskUsage extends Pick<ModelUsage, "usage" | "cost"> {
  readonly task: string
}

/** Formats an amount in US dollars. Amounts below a cent have four decimals. */
export const formatDollars = (amount: number): string =>
  amount > 0 && amount < 0.01 ? `$${amount.toFixed(4)}` : `$${amount.toFixed(2)}`

const formatMissPrice = ({ price, unpriced }: MissSum): string => {
  if (price === undefined) return unpriced === 0 ? "included" : "price unknown"
  return `${unpriced === 0 ? "" : "≥ "}${formatDollars(price)} more`
}

/**
 * Formats cache misses of one reason as a name and a value: their number, the tokens that were paid again, and the cost
 * of these tokens above the price of cached tokens.
 */
export const formatMiss = (miss: MissSum): readonly [name: string, value: string] => [
  SafeText.toLine(miss.reason),
  `${formatQuantity(miss.calls, "call")}, ${abbreviateCount(miss.tokens)} tokens again, ${formatMissPrice(miss)}`
]

/** Total usage of a session. */
interface SessionUsage {
  readonly usage: Usage.Usage
  readonly cost: Cost.Spent
  readonly models: ReadonlyArray<ModelUsage>
  /** Usage of side tasks, which is not part of the session. */
  readonly side?: ReadonlyArray<TaskUsage> | undefined
  /** Time since the session began, in words. */
  readonly duration: string
  /** Formatted fill of the context window. */
  readonly context?: string | undefined
  /** Number of times that the conversation was compacted. */
  readonly compactions?: number | undefined
  /** Cache misses by reason. */
  readonly misses?: ReadonlyArray<MissSum> | undefined
}

/** Renders names and values in two columns. */
export const renderPairs = (rows: ReadonlyArray<readonly [name: string, value: string]>): ReadonlyArray<string> => {
  const width = Math.max(0, ...rows.map(([name]) => Width.measure(name)))
  return rows.map(([name, value]) => `${Width.pad(name, width)}  ${value}`)
}

const describeCost = (cost: Cost.Spent, models: ReadonlyArray<ModelUsage>): string => {
  const label = Cost.formatTotal(cost)
  const unpriced = models
    .filter(({ cost }) => Cost.formatTotal(cost) === "n/a")
    .map(({ model }) => SafeText.toLine(model))
  return label === "n/a"
    ? `unknown (no price${unpriced.length === 0 ? "" : ` for ${[...new Set(unpriced)].join(", ")}`})`
    : cost.status === "estimated"
      ? `${label} (estimated)`
      : label
}

/** Renders the table of `/usage`. */
export const renderUsage = ({
  compactions = 0,
  context,
  cost,
  duration,
  misses = [],
  models,
  side = [],
  usage
}: SessionUsage): ReadonlyArray<string> => {
  const counts: ReadonlyArray<readonly [string, number]> = [
    ["Input", usage.inputTokens],
    ["Cache read", usage.cacheReadTokens],
    ["Cache write", usage.cacheWriteTokens],
    ["Output", usage.outputTokens],
    ["Reasoning", usage.reasoningTokens],
    ["Total", Usage.countTotalTokens(usage)]
  ]
  const width = Math.max(...counts.map(([, count]) => formatExact(count).length))
  const notes: Readonly<Record<string, string>> = {
    "Cache read": ` (${Math.round(Usage.computeCacheHitPercent(usage))}% of the prompts)`,
    Reasoning: " (part of the output)"
  }
  const byModel =
    models.length < 2
      ? []
      : models.map(
          ({ cost, model, provider, usage }) =>
            ["", `${SafeText.toLine(`${provider}/${model}`)}: ${formatLine(usage, cost)}`] as const
        )
  return renderPairs([
    ...counts.map(
      ([name, count]) => [name, `${formatExact(count).padStart(width)} tokens${notes[name] ?? ""}`] as const
    ),
    ["Model calls", formatExact(usage.requestCount)],
    ...byModel,
    ["Cost", describeCost(cost, models)],
    ...misses.map((miss, index) => [index === 0 ? "Cache misses" : "", formatMiss(miss).join(": ")] as const),
    ...side.map(
      ({ cost, task, usage }, index) =>
        [index === 0 ? "Side tasks" : "", `${SafeText.toLine(task)}: ${formatLine(usage, cost)}`] as const
    ),
    ...(context === undefined ? [] : [["Context", context] as const]),
    ...(compactions === 0 ? [] : [["Compactions", formatExact(compactions)] as const]),
    ["Duration", duration]
  ])
}
