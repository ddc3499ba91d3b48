/**
 * Why a chat completion ended.
 *
 * @since 0.1.0
 */
import type * as Response from "effect/ai/Response"

const lengths = new Set(["length", "max_tokens", "model_length"])
const filters = new Set(["content_filter", "content-filter", "safety", "refusal", "recitation"])

/**
 * The reason of the protocol's word for it. Words that are none of the protocol's mean a normal end; an end with tool
 * calls in it is one for tools, whatever the word, unless the answer was cut.
 */
export const fromWire = (word: string | undefined, hasCalls: boolean): Response.FinishReason => {
  const name = word?.toLowerCase() ?? ""
  if (lengths.has(name)) return "length"
  if (filters.has(name)) return "content-filter"
  return hasCalls || name === "tool_calls" || name === "function_call" ? "tool-calls" : "stop"
}

/** The protocol's word. */
export const toWire = (reason: Response.FinishReason): string => {
  switch (reason) {
    case "tool-calls":
      return "tool_calls"
    case "length":
      return "length"
    case "content-filter":
      return "content_filter"
    default:
      return "stop"
  }
}
