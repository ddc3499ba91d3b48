/**
 * A Messages body as an answer, and the parts of an answer as a Messages body.
 *
 * **Details**
 *
 * Text, thinking and calls are read; blocks of tools that the API ran itself stay in `raw` only. A body without content
 * is an answer when it says why it stopped, and it is none when it is said to have stopped for a tool.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import type { ContentPart, ModelResponse } from "../../domain/Model.ts"
import * as Arguments from "../Arguments.ts"
import * as Body from "../Body.ts"
import * as Raw from "../Raw.ts"
import * as SdkError from "../SdkError.ts"
import * as Answer from "./Answer.ts"
import * as Wire from "./Wire.ts"

/** Metadata of a thinking block, as its two forms carry it. */
export const thinkingMetadata = (block: Raw.Fields): Response.ProviderMetadata => {
  const signature = Raw.word(block["signature"])
  return signature === "" ? {} : Wire.metadata({ signature })
}

/** Id of a call; one that came without gets one from its place. */
export const callId = (id: unknown, index: number): string => Raw.word(id) || `toolu_${index}`

const partOf = (
  block: Raw.Fields,
  index: number,
  toolName: (wireName: string) => string
): ReadonlyArray<ContentPart> => {
  switch (block["type"]) {
    case "text": {
      const text = Raw.word(block["text"])
      return text === "" ? [] : [Response.makePart("text", { text })]
    }
    case "thinking": {
      const text = Raw.word(block["thinking"])
      const metadata = thinkingMetadata(block)
      return text === "" && Object.keys(metadata).length === 0 ? [] : [Response.makePart("reasoning", { text, metadata })]
    }
    case "redacted_thinking": {
      const redacted = Raw.word(block["data"])
      return redacted === ""
        ? []
        : [Response.makePart("reasoning", { text: "", metadata: Wire.metadata({ redacted }) })]
    }
    case "tool_use":
      return [Response.makePart("tool-call", {
        id: callId(block["id"], index),
        name: toolName(Raw.word(block["name"])),
        params: Arguments.fromWire(block["input"]),
        providerExecuted: false
      })]
    default:
      return []
  }
}

/** See the module. `toolName` gives a tool's own name from the one on the wire. */
export const decode = (
  raw: unknown,
  toolName: (wireName: string) => string,
  context: SdkError.Context
): Result.Result<ModelResponse, AiError.AiError> => {
  const invalid = (description: string): Result.Result<ModelResponse, AiError.AiError> =>
    Result.fail(SdkError.invalidResponse({ ...context, description, body: raw }))
  const body = Body.read(raw)
  if (typeof body === "string") return invalid(body)
  if (body["type"] === "error" || Raw.isFields(body["error"])) return Result.fail(SdkError.fromBody({ ...context, body }))
  const { content } = body
  if (!Array.isArray(content)) return invalid("the answer is no Messages body: check that the base URL serves this API")
  const stopReason = Raw.word(body["stop_reason"])
  if (content.length === 0 && (stopReason === "" || stopReason === "tool_use")) {
    return invalid("the answer has no content")
  }
  return Result.succeed({
    parts: content.flatMap((block, index) => partOf(Raw.fields(block), index, toolName)),
    finishReason: Answer.finishReason(stopReason),
    usage: Answer.usage(body["usage"]),
    model: Raw.word(body["model"]) || undefined,
    id: Raw.word(body["id"]) || undefined,
    raw
  })
}

const blockOf = (part: ContentPart, wireName: (name: string) => string): ReadonlyArray<unknown> => {
  switch (part.type) {
    case "text":
      return [{ type: "text", text: part.text }]
    case "reasoning": {
      const data = Wire.redacted(part.metadata)
      if (data !== undefined) return [{ type: "redacted_thinking", data }]
      const signature = Wire.signature(part.metadata)
      return [{ type: "thinking", thinking: part.text, ...(signature === undefined ? {} : { signature }) }]
    }
    case "tool-call":
      return [{ type: "tool_use", id: part.id, name: wireName(part.name), input: part.params }]
    case "file":
      return []
  }
}

/** The body that a streamed answer would have been. */
export const encode = (answer: {
  readonly parts: ReadonlyArray<ContentPart>
  readonly id: string | undefined
  readonly model: string | undefined
  readonly stopReason: string | null
  readonly stopSequence: string | null
  readonly usage: Raw.Fields
}, wireName: (name: string) => string): unknown => ({
  id: answer.id,
  type: "message",
  role: "assistant",
  model: answer.model,
  content: answer.parts.flatMap((part) => blockOf(part, wireName)),
  stop_reason: answer.stopReason,
  stop_sequence: answer.stopSequence,
  usage: answer.usage
})
