/**
 * Token counts under one set of names for every provider (`hermes-llm.md` §12.1). Providers report `Response.Usage` of
 * `effect/ai`; this module reads it, sums it, and names it as documents and exporters expect.
 *
 * **Example** (The tokens of two calls)
 *
 * ```ts
 * import { Usage } from "hermes-effect"
 *
 * const call: Usage.Usage = { ...Usage.zero, inputTokens: 100, cacheReadTokens: 300, outputTokens: 20 }
 *
 * console.log(Usage.countTotalTokens(Usage.add(call, call)), Usage.computeCacheHitPercent(call))
 * // => 840 75
 * ```
 */
import * as Schema from "effect/Schema"
import * as Response from "effect/ai/Response"

const Count = Schema.Natural

/**
 * Canonical counters. All are non-negative integers.
 *
 * **Details**
 *
 * `inputTokens` excludes what was read from or written to a prompt cache; `reasoningTokens` are part of `outputTokens`.
 */
export const Usage = Schema.Struct({
  inputTokens: Count,
  outputTokens: Count,
  cacheReadTokens: Count,
  cacheWriteTokens: Count,
  reasoningTokens: Count,
  requestCount: Count
})
/** Type of {@link Usage}. */
export type Usage = typeof Usage.Type

/** No tokens, no request. */
export const zero: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  requestCount: 0
}

/**
 * Any value as a counter: missing, malformed, negative or fractional garbage never throws and counts 0 or its floor.
 */
export const toCount = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) && value > 0 ? Math.floor(value) : 0

/** The usage of one request as the provider reported it. */
export const fromResponse = (usage: Response.Usage): Usage => {
  const cacheReadTokens = toCount(usage.inputTokens.cacheRead)
  const cacheWriteTokens = toCount(usage.inputTokens.cacheWrite)
  return {
    inputTokens:
      usage.inputTokens.uncached === undefined
        ? Math.max(0, toCount(usage.inputTokens.total) - cacheReadTokens - cacheWriteTokens)
        : toCount(usage.inputTokens.uncached),
    outputTokens: toCount(usage.outputTokens.total),
    cacheReadTokens,
    cacheWriteTokens,
    reasoningTokens: toCount(usage.outputTokens.reasoning),
    requestCount: 1
  }
}

/** Field by field. */
export const add = (a: Usage, b: Usage): Usage => ({
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  cacheReadTokens: a.cacheReadTokens + b.cacheReadTokens,
  cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
  reasoningTokens: a.reasoningTokens + b.reasoningTokens,
  requestCount: a.requestCount + b.requestCount
})

/** Everything the model read: fresh input plus both cache counts. */
export const countPromptTokens = (usage: Usage): number =>
  usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens

/** {@link countPromptTokens} plus output. */
export const countTotalTokens = (usage: Usage): number => countPromptTokens(usage) + usage.outputTokens

/** Share of the prompt that came from the cache, in percent; 0 when there was no prompt (`hermes-llm.md` §7.4). */
export const computeCacheHitPercent = (usage: Usage): number => {
  const prompt = countPromptTokens(usage)
  return prompt === 0 ? 0 : (usage.cacheReadTokens / prompt) * 100
}

/**
 * The names that `seeds/004…` and the hook payloads use, with the seed's aliases (`ARCHITECTURE.md` §7).
 */
export const toWire = (usage: Usage): Readonly<Record<string, number>> => ({
  input_tokens: usage.inputTokens,
  output_tokens: usage.outputTokens,
  cache_read_tokens: usage.cacheReadTokens,
  cache_write_tokens: usage.cacheWriteTokens,
  reasoning_tokens: usage.reasoningTokens,
  request_count: usage.requestCount,
  prompt_tokens: countPromptTokens(usage),
  total_tokens: countTotalTokens(usage),
  completion_tokens: usage.outputTokens,
  cache_creation_tokens: usage.cacheWriteTokens
})

/**
 * Usage as providers build it from their raw counters.
 *
 * **Details**
 *
 * `input` is what was neither read from nor written to a cache. Every argument may be garbage, see {@link toCount}.
 */
export const toResponse = (raw: {
  readonly input: unknown
  readonly output: unknown
  readonly cacheRead?: unknown
  readonly cacheWrite?: unknown
  readonly reasoning?: unknown
}): Response.Usage => {
  const uncached = toCount(raw.input)
  const cacheRead = toCount(raw.cacheRead)
  const cacheWrite = toCount(raw.cacheWrite)
  const total = toCount(raw.output)
  const reasoning = toCount(raw.reasoning)
  // Made without its constructor, which parses counts that `toCount` has made sound.
  return Object.assign(Object.create(Response.Usage.prototype), {
    inputTokens: { uncached, total: uncached + cacheRead + cacheWrite, cacheRead, cacheWrite },
    outputTokens: { total, text: Math.max(0, total - reasoning), reasoning }
  })
}
