/**
 * How a response ended, and whether it is one.
 *
 * **Details**
 *
 * | the response | reason |
 * | --- | --- |
 * | was cut by the output limit | `length` |
 * | was stopped by the filter, or is a refusal | `content-filter` |
 * | has tool calls | `tool-calls` |
 * | is incomplete otherwise, or thought and said nothing | `pause`: the model is to go on |
 * | else | `stop` |
 *
 * Source: `hermes-llm.md` §4.3, §15.1.
 *
 * @since 0.1.0
 */
import type * as AiError from "effect/ai/AiError"
import type * as Response from "effect/ai/Response"
import type { ContentPart } from "../../domain/Model.ts"
import * as Raw from "../Raw.ts"
import * as SdkError from "../SdkError.ts"
import * as Items from "./Items.ts"

const unfinished = new Set(["incomplete", "in_progress", "queued"])
const lengths = new Set(["max_output_tokens", "max_tokens", "length"])

/** Why a response ended; `refused` where a refusal streamed by. */
export const finishReason = (
  body: Raw.Fields,
  parts: ReadonlyArray<{ readonly type: ContentPart["type"] }>,
  refused: boolean
): Response.FinishReason => {
  const output = Raw.items(body["output"]).map(Raw.fields)
  const why = Raw.word(Raw.fields(body["incomplete_details"])["reason"])
  if (lengths.has(why)) return "length"
  if (why === "content_filter" || refused || output.some(Items.isRefusal)) return "content-filter"
  if (parts.some((part) => part.type === "tool-call")) return "tool-calls"
  if (unfinished.has(Raw.word(body["status"]))) return "pause"
  if (output.some((item) => unfinished.has(Raw.word(item["status"])))) return "pause"
  return parts.length > 0 && parts.every((part) => part.type === "reasoning") ? "pause" : "stop"
}

/** The failure that a response reports of itself. */
export const failure = (body: Raw.Fields, context: SdkError.Context): AiError.AiError | undefined => {
  const { error, status } = body
  if (error !== undefined && error !== null) return SdkError.fromBody({ ...context, body: { error } })
  return status === "failed" || status === "cancelled"
    ? SdkError.fromBody({ ...context, body: { error: { message: `the response was ${status}` } } })
    : undefined
}
