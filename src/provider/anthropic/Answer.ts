/**
 * What an answer says about itself, whole or streamed: why it stopped and what it used.
 *
 * Source: `hermes-llm.md` §4.2 and §12.2.
 *
 * @since 0.1.0
 */
import type * as Response from "effect/ai/Response"
import { count, toResponse } from "../../domain/Usage.ts"
import * as Raw from "../Raw.ts"

const finishReasons: Readonly<Record<string, Response.FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "tool-calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content-filter"
}

/** From `stop_reason`; one that nobody knows is a stop. */
export const finishReason = (stopReason: unknown): Response.FinishReason => {
  const name = Raw.word(stopReason)
  return Object.hasOwn(finishReasons, name) ? finishReasons[name] ?? "stop" : "stop"
}

/** From the `usage` object; `input_tokens` excludes the cache already. Garbage counts nothing. */
export const usage = (raw: unknown): Response.Usage => {
  const fields = Raw.fields(raw)
  const output = Raw.fields(fields["output_tokens_details"])
  const reasoning = [
    output["reasoning_tokens"],
    output["thinking_tokens"],
    Raw.fields(fields["completion_tokens_details"])["reasoning_tokens"]
  ]
  return toResponse({
    input: fields["input_tokens"],
    output: fields["output_tokens"],
    cacheRead: fields["cache_read_input_tokens"],
    cacheWrite: fields["cache_creation_input_tokens"],
    reasoning: reasoning.find((value) => count(value) > 0)
  })
}

/** The counters of a stream: the last event's are cumulative, and those it leaves out or at nothing stay as they began. */
export const laterUsage = (
  first: Raw.Fields,
  last: Raw.Fields
): Raw.Fields => {
  const out = { ...first }
  for (const [name, value] of Object.entries(last)) {
    const says = typeof value === "number" ? value > 0 : value !== null && value !== undefined
    if (says || out[name] === undefined) out[name] = value
  }
  return out
}
