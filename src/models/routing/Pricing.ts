/**
 * Prices of models by route and source, and the cost of usage at a price.
 *
 * **Details**
 *
 * | route | billing |
 * | --- | --- |
 * | ChatGPT's Codex backend, the offline stand-in | included |
 * | OpenRouter, Nous Portal and endpoints that list prices | their list of models |
 * | Anthropic, OpenAI, Google, DeepSeek, MiniMax, Bedrock | the bundled table |
 * | anything else | unknown |
 *
 * `vendor/model` without a known provider is looked up at that vendor.
 *
 * Source: `hermes-llm.md` §12.3.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as Option from "effect/Option"
import type { Route } from "../../base/domain/Route.ts"
import * as RouteDetection from "./RouteDetection.ts"
import type { Listed } from "./catalogue/ModelLists.ts"
import * as ModelData from "./catalogue/ModelData.ts"
import * as ModelTables from "./catalogue/ModelTables.ts"
import {
  type Cost,
  included,
  formatAmount,
  type Parts,
  type Source as CostSource,
  makeUnknown
} from "../../base/domain/Cost.ts"
import type { Usage } from "../../base/domain/Usage.ts"

/** Parts of a route that its price depends on. */
type PricedRoute = Pick<Route, "provider" | "model" | "baseUrl">

/** Source of a route's prices. */
type BillingMode = "subscription_included" | "official_models_api" | "official_docs_snapshot" | "unknown"

/** Place in which a price was found. */
type Source = Exclude<CostSource, "none" | "subagent" | "provider_usage">

/** US dollars per million tokens of each kind; undefined if the price is unknown. */
export interface Pricing {
  readonly input: BigDecimal.BigDecimal | undefined
  readonly output: BigDecimal.BigDecimal | undefined
  readonly cacheRead: BigDecimal.BigDecimal | undefined
  readonly cacheWrite: BigDecimal.BigDecimal | undefined
  /** US dollars for a request. */
  readonly request: BigDecimal.BigDecimal | undefined
  readonly source: Source
  readonly url: string | undefined
  /** Version of the source. */
  readonly version: string | undefined
}

/** Parses a decimal number; undefined for other text, and for negative numbers, which mean "it depends". */
export const parseDecimal = (value: unknown): BigDecimal.BigDecimal | undefined => {
  const text = typeof value === "number" ? String(value) : typeof value === "string" ? value.trim() : ""
  const number = text === "" ? undefined : Option.getOrUndefined(BigDecimal.fromString(text))
  return number === undefined || BigDecimal.isNegative(number) ? undefined : number
}

const toPricePerMillion = (price: string | undefined): BigDecimal.BigDecimal | undefined => {
  const amount = parseDecimal(price)
  return amount === undefined ? undefined : BigDecimal.make(amount.value, amount.scale - 6)
}

/** The price that a list of models names. */
export const toListedPrice = (listed: Listed | undefined, url: string | undefined): Pricing | undefined => {
  const prices = listed?.prices
  return prices === undefined
    ? undefined
    : {
        input: toPricePerMillion(prices.input),
        output: toPricePerMillion(prices.output),
        cacheRead: toPricePerMillion(prices.cacheRead),
        cacheWrite: toPricePerMillion(prices.cacheWrite),
        request: parseDecimal(prices.request),
        source: "provider_models_api",
        url,
        version: undefined
      }
}

const tabled = new Set(["anthropic", "openai", "google", "gemini", "deepseek", "minimax", "minimax-cn", "bedrock"])
const isTabled = (provider: string): boolean => tabled.has(provider)

/** Finds how calls on a route are billed. */
export const findBillingMode = ({ baseUrl, provider }: PricedRoute): BillingMode => {
  const { host } = RouteDetection.parseAddress(baseUrl)
  if (provider === "openai-codex" || provider === "offline") return "subscription_included"
  if (provider === "openrouter" || provider === "nous" || RouteDetection.isUnder(host, "openrouter.ai"))
    return "official_models_api"
  if (isTabled(provider)) return "official_docs_snapshot"
  return host === "" || RouteDetection.isLocal(host) ? "unknown" : "official_models_api"
}

const vendors = new Set(["anthropic", "openai", "google"])

/**
 * Returns the provider whose table lists the model: the route's provider, or the vendor in the model id if the route
 * names no provider.
 */
const findPriceTable = ({ model, provider }: PricedRoute): string => {
  if (isTabled(provider)) return provider
  const vendor = model.slice(0, Math.max(0, model.indexOf("/"))).toLowerCase()
  return provider === "" && vendors.has(vendor) ? vendor : provider
}

/** The price in the bundled table. */
export const findTabledPrice = (route: PricedRoute): Pricing | undefined => {
  const found = ModelTables.findPrice(findPriceTable(route), route.model)
  if (found === undefined) return undefined
  const { row, url } = found
  return {
    input: parseDecimal(row.input),
    output: parseDecimal(row.output),
    cacheRead: parseDecimal(row.cacheRead),
    cacheWrite: parseDecimal(row.cacheWrite),
    request: undefined,
    source: "official_docs_snapshot",
    url,
    version: ModelData.date
  }
}

const zero = BigDecimal.fromBigInt(0n)
/** A millionth, exactly. */
const divideByMillion = ({ scale, value }: BigDecimal.BigDecimal): BigDecimal.BigDecimal =>
  BigDecimal.make(value, scale + 6)

const unreconciled = "an estimate by the list of prices, until the provider's own account of the call is read"

/**
 * Computes the cost of usage at a price, in exact decimal numbers: tokens times rate over a million, plus a price for
 * each request. Reasoning is part of the output. Tokens without a rate make the amount unknown; it is never guessed
 * (`hermes-llm.md` §12.4).
 */
export const estimateCost = (usage: Usage, pricing: Pricing | undefined, billing: BillingMode): Cost => {
  if (billing === "subscription_included") return included
  if (pricing === undefined) return makeUnknown("no price for this model")
  const buckets = [
    ["input", "input", usage.inputTokens, pricing.input],
    ["output", "output", usage.outputTokens, pricing.output],
    ["cache read", "cacheRead", usage.cacheReadTokens, pricing.cacheRead],
    ["cache write", "cacheWrite", usage.cacheWriteTokens, pricing.cacheWrite]
  ] as const
  let amount = BigDecimal.multiply(BigDecimal.fromBigInt(BigInt(usage.requestCount)), pricing.request ?? zero)
  const parts: { -readonly [K in keyof Parts]: Parts[K] } = {}
  for (const [name, kind, tokens, rate] of buckets) {
    if (tokens === 0) continue
    if (rate === undefined) return makeUnknown(`there are ${name} tokens, and no price for them`)
    const cost = divideByMillion(BigDecimal.multiply(BigDecimal.fromBigInt(BigInt(tokens)), rate))
    amount = BigDecimal.sum(amount, cost)
    parts[kind] = BigDecimal.toNumberUnsafe(cost)
  }
  return {
    amount,
    status: "estimated",
    label: formatAmount(amount, "estimated"),
    source: pricing.source,
    notes: pricing.source === "provider_models_api" ? [unreconciled] : [],
    parts
  }
}
