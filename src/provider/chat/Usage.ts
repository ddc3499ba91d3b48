/**
 * Token counts of chat completions, under all the names that compatible endpoints give them (`hermes-llm.md` §12.2).
 *
 * @since 0.1.0
 */
import type * as Response from "effect/ai/Response"
import { count, toResponse } from "../../domain/Usage.ts"
import * as Raw from "../Raw.ts"

/** The first that is a count and not zero. */
const first = (...values: ReadonlyArray<unknown>): number => {
  for (const value of values) {
    const number = count(value)
    if (number > 0) return number
  }
  return 0
}

/** The `usage` object of a body or chunk. Anything may be missing or garbage. */
export const fromWire = (value: unknown): Response.Usage => {
  const usage = Raw.fields(value)
  const prompt = Raw.fields(usage["prompt_tokens_details"])
  const cacheRead = first(
    prompt["cached_tokens"],
    usage["cache_read_input_tokens"],
    usage["prompt_cache_hit_tokens"],
    usage["cached_tokens"]
  )
  const cacheWrite = first(prompt["cache_write_tokens"], usage["cache_creation_input_tokens"])
  return toResponse({
    input: first(usage["prompt_tokens"], usage["input_tokens"]) - cacheRead - cacheWrite,
    output: first(usage["completion_tokens"], usage["output_tokens"]),
    cacheRead,
    cacheWrite,
    reasoning: first(
      Raw.fields(usage["output_tokens_details"])["reasoning_tokens"],
      Raw.fields(usage["completion_tokens_details"])["reasoning_tokens"]
    )
  })
}

/**
 * US dollars that the `usage` object of OpenRouter says the answer cost, with what a provider of the user's own key charges
 * beside it; undefined where it does not say.
 */
export const costOf = (value: unknown): number | undefined => {
  const usage = Raw.fields(value)
  const { cost } = usage
  if (typeof cost !== "number" || !Number.isFinite(cost) || cost < 0) return undefined
  const upstream = Raw.fields(usage["cost_details"])["upstream_inference_cost"]
  const own = usage["is_byok"] === true && typeof upstream === "number" && Number.isFinite(upstream) && upstream > 0 ? upstream : 0
  return cost + own
}
