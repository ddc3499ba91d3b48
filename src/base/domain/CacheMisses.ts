/**
 * Finds the model calls of a session that paid again for a prefix that the provider had cached, with the reason and the
 * price of each.
 *
 * **Details**
 *
 * The prompt of a call begins with the prompt of the call before, so its cached tokens should be at least the size of
 * that prompt. If a fifth of them is missing, the call is a miss. Side tasks and models that report no cached tokens
 * are not judged.
 *
 * The price of a miss is the amount that its tokens cost above the price of cached tokens, by the prices that were in
 * use for the route. The missing tokens are at the start of the prompt, so tokens that were written to the cache are
 * counted before other input. An unknown price is `undefined`, never 0.
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { ApiMode } from "./ApiMode.ts"
import type { PromptRates, Status } from "./Cost.ts"
import type { RecordEvent } from "./RecordEvent.ts"
import * as Route from "./Route.ts"

type TaggedEvent<Tag extends RecordEvent["_tag"]> = Extract<RecordEvent, { readonly _tag: Tag }>

/** Prompt tokens of a call by the way in which they were paid. */
export interface PromptTokens {
  readonly input: number
  readonly cacheRead: number
  readonly cacheWrite: number
}

/** A model call of a session, in the order of the record. */
export interface PromptCall {
  /** Start of the call in epoch milliseconds. */
  readonly at: number
  /** Requested provider and model. */
  readonly provider: string
  readonly model: string
  /** Name of the side task that made the request, or `undefined` if the agent made it. */
  readonly task: string | undefined
  /** Hash of the offered tools. */
  readonly tools: string | undefined
  /** Time for which the provider keeps the prefix after the call, in milliseconds. */
  readonly lifetime: number
  /** Duration in milliseconds, or `undefined` until the call has ended. */
  readonly millis: number | undefined
  readonly status: "open" | "answered" | "failed" | "interrupted"
  readonly tokens: PromptTokens
  readonly rates: PromptRates | undefined
  readonly costStatus: Status | undefined
}

/** Reason of a miss. */
type Reason =
  | "another model"
  | "another provider"
  | "other tools"
  | "a pause of more than five minutes"
  | "a pause of more than an hour"
  | "a pause of more than a day"
  | "a compaction"
  | "a changed prefix"

/** A model call that paid again for a cached prefix. */
interface Miss {
  readonly reason: Reason
  /** Tokens that were not read from the cache although an earlier call had sent them. */
  readonly tokens: number
  /**
   * Cost of the tokens above the price of cached tokens in US dollars, `included` if a subscription includes it, or
   * `undefined` if it is unknown.
   */
  readonly price: number | "included" | undefined
}

/** Misses of the same reason. */
export interface MissSum {
  readonly reason: string
  readonly calls: number
  readonly tokens: number
  /** Sum of the known prices in US dollars. Absent if no price is known. */
  readonly price?: number | undefined
  /** Number of calls whose price is unknown. If it is above 0, `price` is a lower bound. */
  readonly unpriced: number
}

const isApiMode = Schema.is(ApiMode)

const fiveMinutes = 300_000
const hour = 3_600_000
const day = 86_400_000

/** Minimum size of a prompt that providers cache, in tokens. */
const leastPrompt = 1_024
/** Minimum share of the expected tokens that is missing in a miss. */
const leastShare = 0.2

/** Counts the tokens of a prompt. */
export const countPrompt = ({ cacheRead, cacheWrite, input }: PromptTokens): number => input + cacheRead + cacheWrite

/**
 * Returns the time in milliseconds for which a provider keeps the prefix of a request: a day or an hour if the request
 * asks for it and the route supports it, otherwise five minutes.
 */
const findLifetime = ({ cacheTtl, parameters, route }: TaggedEvent<"AttemptStarted">): number => {
  if (parameters["prompt_cache_retention"] === "24h") return day
  const { apiMode, baseUrl, model, provider } = route
  const hasMarks = isApiMode(apiMode) && Route.abilities({ apiMode, baseUrl, model, provider }).cacheMarks !== "none"
  return cacheTtl === "1h" && hasMarks ? hour : fiveMinutes
}

/** Creates a call from its first entry in the record. */
export const beginCall = (at: number, event: TaggedEvent<"AttemptStarted">): PromptCall => ({
  at,
  provider: event.route.provider,
  model: event.route.model,
  task: event.task,
  tools: event.tools,
  lifetime: findLifetime(event),
  millis: undefined,
  status: "open",
  tokens: { input: 0, cacheRead: 0, cacheWrite: 0 },
  rates: undefined,
  costStatus: undefined
})

/** Returns a call with its last entry in the record. */
export const endCall = (call: PromptCall, at: number, event: TaggedEvent<"AttemptEnded">): PromptCall => {
  const { cost, promptRates, status, usage } = event
  return {
    ...call,
    millis: at - call.at,
    status,
    rates: promptRates,
    costStatus: cost?.status,
    tokens:
      usage === undefined
        ? call.tokens
        : { input: usage.inputTokens, cacheRead: usage.cacheReadTokens, cacheWrite: usage.cacheWriteTokens }
  }
}

/** Selects the answered calls of the agent itself whose prompt was counted. */
export const selectMainCalls = <Call extends Pick<PromptCall, "status" | "task" | "tokens">>(
  calls: ReadonlyArray<Call>
): ReadonlyArray<Call> =>
  calls.filter(({ status, task, tokens }) => task === undefined && status === "answered" && countPrompt(tokens) > 0)

/** Tests whether a pause after a call is longer than the provider keeps its prefix. */
export const hasExpired = ({ lifetime }: Pick<PromptCall, "lifetime">, idleMillis: number): boolean =>
  idleMillis > lifetime

const describePause = (lifetime: number): Reason =>
  lifetime > hour
    ? "a pause of more than a day"
    : lifetime > fiveMinutes
      ? "a pause of more than an hour"
      : "a pause of more than five minutes"

const findReason = (before: PromptCall, call: PromptCall): Reason => {
  if (call.model !== before.model) return "another model"
  if (call.provider !== before.provider) return "another provider"
  if (hasExpired(before, call.at - before.at - (before.millis ?? 0))) return describePause(before.lifetime)
  if (call.tools !== before.tools) return "other tools"
  return countPrompt(call.tokens) < countPrompt(before.tokens) ? "a compaction" : "a changed prefix"
}

const million = 1_000_000

/**
 * Computes the amount in US dollars that tokens cost above the price of cached tokens. `written` of them are written to
 * the cache.
 */
export const priceTokens = (tokens: number, written: number, rates: PromptRates): number | undefined => {
  if (written > 0 && rates.cacheWrite === undefined) return undefined
  const { cacheRead, cacheWrite = 0, input } = rates
  return (written * (cacheWrite - cacheRead) + (tokens - written) * (input - cacheRead)) / million
}

const priceMiss = (missing: number, { costStatus, rates, tokens }: PromptCall): Miss["price"] => {
  if (costStatus === "included") return "included"
  return rates === undefined ? undefined : priceTokens(missing, Math.min(missing, tokens.cacheWrite), rates)
}

/** Finds the misses among the calls of a session. */
const findMisses = (calls: ReadonlyArray<PromptCall>): ReadonlyArray<Miss> => {
  const main = selectMainCalls(calls)
  if (!main.some(({ tokens }) => tokens.cacheRead > 0)) return []
  return main.flatMap((call, index) => {
    const before = main[index - 1]
    if (before === undefined) return []
    const expected = Math.min(countPrompt(before.tokens), countPrompt(call.tokens))
    const missing = expected - call.tokens.cacheRead
    return expected < leastPrompt || missing < expected * leastShare
      ? []
      : [{ reason: findReason(before, call), tokens: missing, price: priceMiss(missing, call) }]
  })
}

const sumReason = (reason: string, misses: ReadonlyArray<Miss>): MissSum => {
  const prices = misses.flatMap(({ price }) => (price === undefined ? [] : [price]))
  const known = prices.filter(Predicate.isNumber)
  return {
    reason,
    calls: misses.length,
    tokens: misses.reduce((sum, { tokens }) => sum + tokens, 0),
    // Binary fractions cannot represent the sum exactly.
    ...(known.length === 0 ? {} : { price: Math.round(known.reduce((sum, price) => sum + price, 0) * 1e12) / 1e12 }),
    unpriced: misses.length - prices.length
  }
}

/** Sums the misses of several sessions by reason, most tokens first. */
export const sumMisses = (sessions: ReadonlyArray<ReadonlyArray<PromptCall>>): ReadonlyArray<MissSum> =>
  Array.from(
    Map.groupBy(sessions.flatMap(findMisses), ({ reason }) => reason),
    ([reason, misses]) => sumReason(reason, misses)
  ).toSorted((a, b) => b.tokens - a.tokens)
