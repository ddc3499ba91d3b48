/**
 * Token counts with the same names for every provider (`hermes-llm.md` §12.1). Providers report `Response.Usage` of
 * `effect/ai`; this module converts and adds usage, and renames its fields for documents and exporters.
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
 * `inputTokens` excludes tokens that were read from or written to a prompt cache; `reasoningTokens` are part of
 * `outputTokens`.
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

/** Usage without tokens and requests. */
export const zero: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  requestCount: 0
}

/**
 * Converts any value to a counter. Never throws: a missing, malformed or negative value becomes 0, and a fraction is
 * rounded down.
 */
export const toCount = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) && value > 0 ? Math.floor(value) : 0

/** Converts the usage of one request as reported by the provider. */
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

/** Adds two usages field by field. */
export const add = (a: Usage, b: Usage): Usage => ({
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  cacheReadTokens: a.cacheReadTokens + b.cacheReadTokens,
  cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
  reasoningTokens: a.reasoningTokens + b.reasoningTokens,
  requestCount: a.requestCount + b.requestCount
})

/** Returns the number of prompt tokens: uncached input plus both cache counts. */
export const countPromptTokens = (usage: Usage): number =>
  usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens

/** Returns the sum of {@link countPromptTokens} and the output tokens. */
export const countTotalTokens = (usage: Usage): number => countPromptTokens(usage) + usage.outputTokens

/**
 * Returns the share of the prompt that came from the cache, in percent; 0 if there was no prompt (`hermes-llm.md`
 * §7.4).
 */
export const computeCacheHitPercent = (usage: Usage): number => {
  const prompt = countPromptTokens(usage)
  return prompt === 0 ? 0 : (usage.cacheReadTokens / prompt) * 100
}

/**
 * Returns usage with the field names of `seeds/004…` and the hook payloads, including the aliases in `seeds/004…`
 * (`ARCHITECTURE.md` §7).
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
 * Creates the usage of a provider from its raw counters.
 *
 * **Details**
 *
 * `input` counts tokens that were neither read from nor written to a cache. Every argument may be invalid; see
 * {@link toCount}.
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
  // Created without its constructor, which would parse counts that `toCount` has already validated.
  return Object.assign(Object.create(Response.Usage.prototype), {
    inputTokens: { uncached, total: uncached + cacheRead + cacheWrite, cacheRead, cacheWrite },
    outputTokens: { total, text: Math.max(0, total - reasoning), reasoning }
  })
}
