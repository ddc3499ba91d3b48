/**
 * A Converse answer as parts, and parts as a Converse answer.
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

/** Id of a call; one that came without gets one from its place. */
export const callId = (id: unknown, index: number): string => Raw.word(id) || `tooluse_${index}`

const partOf = (block: Raw.Fields, index: number): ReadonlyArray<ContentPart> => {
  if (typeof block["text"] === "string") {
    return block["text"] === "" ? [] : [Response.makePart("text", { text: block["text"] })]
  }
  if (Raw.isFields(block["reasoningContent"])) {
    const { reasoningText, redactedContent } = block["reasoningContent"]
    const readable = Raw.fields(reasoningText)
    const metadata = Wire.metadata({
      signature: Raw.word(readable["signature"]),
      redacted: Wire.bytes(redactedContent)
    })
    const text = Raw.word(readable["text"])
    return text === "" && Object.keys(metadata).length === 0 ? [] : [Response.makePart("reasoning", { text, metadata })]
  }
  if (Raw.isFields(block["toolUse"])) {
    const { input, name, toolUseId } = block["toolUse"]
    return [Response.makePart("tool-call", {
      id: callId(toolUseId, index),
      name: Raw.word(name),
      params: Arguments.fromWire(input),
      providerExecuted: false
    })]
  }
  return []
}

/** An answer, or what is wrong with it. Converse does not name the model: it is the one that was asked. */
export const decode = (raw: unknown, context: SdkError.Context): Result.Result<ModelResponse, AiError.AiError> => {
  const invalid = (description: string): Result.Result<ModelResponse, AiError.AiError> =>
    Result.fail(SdkError.invalidResponse({ ...context, description, body: raw }))
  const body = Body.read(raw)
  if (typeof body === "string") return invalid(body)
  const { content } = Raw.fields(Raw.fields(body["output"])["message"])
  if (!Array.isArray(content)) return invalid("the answer is no Converse body: check that the base URL serves this API")
  const stopReason = Raw.word(body["stopReason"])
  if (content.length === 0 && (stopReason === "" || stopReason === "tool_use")) {
    return invalid("the answer has no content")
  }
  return Result.succeed({
    parts: content.flatMap((block, index) => partOf(Raw.fields(block), index)),
    finishReason: Answer.finishReason(stopReason),
    usage: Answer.usage(body["usage"]),
    model: context.model,
    id: Raw.word(Raw.fields(body["$metadata"])["requestId"]) || undefined,
    raw
  })
}

const blockOf = (part: ContentPart): ReadonlyArray<unknown> => {
  switch (part.type) {
    case "text":
      return [{ text: part.text }]
    case "reasoning": {
      const redactedContent = Wire.redacted(part.metadata)
      if (redactedContent !== undefined) return [{ reasoningContent: { redactedContent } }]
      const signature = Wire.signature(part.metadata)
      return [{
        reasoningContent: { reasoningText: { text: part.text, ...(signature === undefined ? {} : { signature }) } }
      }]
    }
    case "tool-call":
      return [{ toolUse: { toolUseId: part.id, name: part.name, input: part.params } }]
    case "file":
      return []
  }
}

/** The body that a streamed answer would have been. */
export const encode = (answer: {
  readonly parts: ReadonlyArray<ContentPart>
  readonly stopReason: string
  readonly usage: Raw.Fields
  readonly requestId: string | undefined
}): unknown => ({
  output: { message: { role: "assistant", content: answer.parts.flatMap(blockOf) } },
  stopReason: answer.stopReason,
  usage: answer.usage,
  $metadata: { requestId: answer.requestId }
})
