/**
 * Token counts of the Responses API (`hermes-llm.md` §12.2).
 *
 * @since 0.1.0
 */
import type * as Response from "effect/ai/Response"
import { count, toResponse } from "../../domain/Usage.ts"
import * as Raw from "../Raw.ts"

/** The `usage` object of a response. Anything may be missing or garbage. */
export const fromWire = (value: unknown): Response.Usage => {
  const usage = Raw.fields(value)
  const input = Raw.fields(usage["input_tokens_details"])
  const output = Raw.fields(usage["output_tokens_details"])
  const cacheRead = count(input["cached_tokens"])
  const cacheWrite = count(input["cache_write_tokens"]) || count(input["cache_creation_tokens"])
  return toResponse({
    input: count(usage["input_tokens"]) - cacheRead - cacheWrite,
    output: usage["output_tokens"],
    cacheRead,
    cacheWrite,
    reasoning: count(output["reasoning_tokens"]) ||
      Raw.fields(usage["completion_tokens_details"])["reasoning_tokens"]
  })
}
