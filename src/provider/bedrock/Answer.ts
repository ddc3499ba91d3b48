/**
 * What an answer says about itself, whole or streamed: why it stopped and what it used.
 *
 * Source: `hermes-llm.md` §4.4 and §12.2.
 *
 * @since 0.1.0
 */
import type * as Response from "effect/ai/Response"
import { toResponse } from "../../domain/Usage.ts"
import * as Raw from "../Raw.ts"

const finishReasons: Readonly<Record<string, Response.FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "tool-calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  guardrail_intervened: "content-filter",
  content_filtered: "content-filter"
}

/** From `stopReason`; one that nobody knows is a stop. */
export const finishReason = (stopReason: unknown): Response.FinishReason => {
  const name = Raw.word(stopReason)
  return Object.hasOwn(finishReasons, name) ? finishReasons[name] ?? "stop" : "stop"
}

/** From the `usage` object; `inputTokens` excludes the cache already. Garbage counts nothing. */
export const usage = (raw: unknown): Response.Usage => {
  const fields = Raw.fields(raw)
  return toResponse({
    input: fields["inputTokens"],
    output: fields["outputTokens"],
    cacheRead: fields["cacheReadInputTokens"],
    cacheWrite: fields["cacheWriteInputTokens"]
  })
}
