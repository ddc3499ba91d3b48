/**
 * Determines the prices of models by route, and the cost of usage at a price.
 *
 * **Details**
 *
 * | route | billing |
 * | --- | --- |
 * | the main model, if `model.price` is set | the price in the settings |
 * | ChatGPT's Codex backend, the offline model | included |
 * | OpenRouter, Nous Portal and endpoints that list prices | the price in their model list |
 * | Anthropic, OpenAI, Google, DeepSeek, MiniMax, Bedrock | the bundled table |
 * | all other routes | unknown |
 *
 * Without a known provider, a `vendor/model` id is looked up in that vendor's prices.
 *
 * Source: `hermes-llm.md` §12.3.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as Option from "effect/Option"
import type { Values } from "../../base/config/Settings.ts"
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

/** Parts of a route that determine its price. */
type PricedRoute = Pick<Route, "provider" | "model" | "baseUrl">

/** Source of a route's prices. */
type BillingMode = "subscription_included" | "official_models_api" | "official_docs_snapshot" | "unknown"

/** Source of a price. */
type Source = Exclude<CostSource, "none" | "subagent" | "provider_usage">

/** Prices in US dollars per million tokens of each kind; `undefined` if a price is unknown. */
export interface Pricing {
  readonly input: BigDecimal.BigDecimal | undefined
  readonly output: BigDecimal.BigDecimal | undefined
  readonly cacheRead: BigDecimal.BigDecimal | undefined
  readonly cacheWrite: BigDecimal.BigDecimal | undefined
  /** Price of one request in US dollars. */
  readonly request: BigDecimal.BigDecimal | undefined
  readonly source: Source
  readonly url: string | undefined
  /** Version of the price source, if known. */
  readonly version: string | undefined
}

/**
 * Parses a decimal number. Returns `undefined` for other text, and for negative numbers, which mean that the price
 * varies.
 */
export const parseDecimal = (value: unknown): BigDecimal.BigDecimal | undefined => {
  const text = typeof value === "number" ? String(value) : typeof value === "string" ? value.trim() : ""
  const number = text === "" ? undefined : Option.getOrUndefined(BigDecimal.fromString(text))
  return number === undefined || BigDecimal.isNegative(number) ? undefined : number
}

const toPricePerMillion = (price: string | undefined): BigDecimal.BigDecimal | undefined => {
  const amount = parseDecimal(price)
  return amount === undefined ? undefined : BigDecimal.make(amount.value, amount.scale - 6)
}

/** Returns the price from a model list, or `undefined`. */
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

/** Returns the price that the user set for the main model, or `undefined`. */
export const toConfiguredPrice = ({
  cacheRead,
  cacheWrite,
  input,
  output,
  request
}: NonNullable<Values["model"]["price"]>): Pricing | undefined =>
  [cacheRead, cacheWrite, input, output, request].every((rate) => rate === undefined)
    ? undefined
    : {
        input: parseDecimal(input),
        output: parseDecimal(output),
        cacheRead: parseDecimal(cacheRead),
        cacheWrite: parseDecimal(cacheWrite),
        request: parseDecimal(request),
        source: "user_override",
        url: undefined,
        version: undefined
      }

const tabled = new Set(["anthropic", "openai", "google", "gemini", "deepseek", "minimax", "minimax-cn", "bedrock"])
const isTabled = (provider: string): boolean => tabled.has(provider)

/** Returns the billing mode of a route. */
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
 * Returns the provider whose price table contains the model: the route's provider, or the vendor in the model id if the
 * route specifies no provider.
 */
const findPriceTable = ({ model, provider }: PricedRoute): string => {
  if (isTabled(provider)) return provider
  const vendor = model.slice(0, Math.max(0, model.indexOf("/"))).toLowerCase()
  return provider === "" && vendors.has(vendor) ? vendor : provider
}

/** Returns the price in the bundled table, or `undefined`. */
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
/** Divides by one million exactly. */
const divideByMillion = ({ scale, value }: BigDecimal.BigDecimal): BigDecimal.BigDecimal =>
  BigDecimal.make(value, scale + 6)

const unreconciled = "an estimate by the list of prices, until the provider's own account of the call is read"

/**
 * Computes the cost of usage at a price, in exact decimal numbers: tokens times rate divided by one million, plus the
 * price of the request. Reasoning is part of the output. If any tokens have no rate, the cost is unknown; it is never
 * estimated (`hermes-llm.md` §12.4).
 */
export const estimateCost = (usage: Usage, pricing: Pricing | undefined, billing: BillingMode): Cost => {
  if (billing === "subscription_included" && pricing?.source !== "user_override") return included
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
