/**
 * Decodes a Converse answer, and encodes parts as such an answer, without the SDK. Any value from the service or
 * middleware becomes either a model response or an `AiError` that describes the problem.
 *
 * **Details**
 *
 * The `metadata.bedrock_converse` of a reasoning part (`options.bedrock_converse` in a prompt) contains the `signature`
 * of its text, or `redacted`, the opaque data sent in place of the text, in base64.
 *
 * Source: `hermes-llm.md` §4.4, §12.2.
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Json from "../../../base/domain/Json.ts"
import type { ContentPart, ModelResponse } from "../../../base/domain/ModelCall.ts"
import { toResponse } from "../../../base/domain/Usage.ts"
import * as AnswerSources from "../AnswerSources.ts"
import * as BlockAnswers from "../BlockAnswers.ts"
import * as SdkError from "../SdkError.ts"

// Metadata

/** Key of this provider's data in `options` and `metadata`. */
const namespace = "bedrock_converse"

const readText = (options: Prompt.ProviderOptions, name: string): string | undefined =>
  Json.readWord(Json.readFields(options[namespace])[name]) || undefined

/** Reads the signature of a reasoning part's text. */
export const readSignature = (options: Prompt.ProviderOptions): string | undefined => readText(options, "signature")

/** Reads the opaque data of a reasoning part. */
export const readRedacted = (options: Prompt.ProviderOptions): Uint8Array | undefined => {
  const data = readText(options, "redacted")
  return data === undefined ? undefined : Result.getOrUndefined(Base64.decode(data))
}

/** Creates the metadata of a reasoning part. */
export const makeReasoningMetadata = (thought: {
  readonly signature: string
  readonly redacted: Uint8Array | undefined
}): Response.ProviderMetadata => {
  const data = {
    ...(thought.signature === "" ? {} : { signature: thought.signature }),
    ...(thought.redacted === undefined ? {} : { redacted: Base64.encode(thought.redacted) })
  }
  return Object.keys(data).length === 0 ? {} : { [namespace]: data }
}

/** Reads bytes of an answer: a `Uint8Array`, as the SDK returns them, or base64 text, as in JSON. */
export const toBytes = (value: unknown): Uint8Array | undefined =>
  value instanceof Uint8Array
    ? value
    : typeof value === "string" && value !== ""
      ? Result.getOrUndefined(Base64.decode(value))
      : undefined

// Parts

/** Returns the id of a tool call. If the API sent no id, it is derived from the index of the block. */
export const chooseCallId = (id: unknown, index: number): string => Json.readWord(id) || `tooluse_${index}`

const decodeBlock = (block: Json.Fields, index: number): ReadonlyArray<ContentPart> => {
  if (typeof block["text"] === "string") return BlockAnswers.makeText(block["text"])
  if (Json.isFields(block["citationsContent"])) {
    const texts = Json.readItems(block["citationsContent"]["content"])
    return BlockAnswers.makeText(texts.map((one) => Json.readWord(Json.readFields(one)["text"])).join(""))
  }
  if (Json.isFields(block["reasoningContent"])) {
    const { reasoningText, redactedContent } = block["reasoningContent"]
    const readable = Json.readFields(reasoningText)
    return BlockAnswers.makeReasoning(
      Json.readWord(readable["text"]),
      makeReasoningMetadata({ signature: Json.readWord(readable["signature"]), redacted: toBytes(redactedContent) })
    )
  }
  if (Json.isFields(block["toolUse"])) {
    const { input, name, toolUseId } = block["toolUse"]
    return [BlockAnswers.makeToolCall(chooseCallId(toolUseId, index), Json.readWord(name), input)]
  }
  return []
}

// Usage

/** Decodes the `usage` object. Its `inputTokens` already excludes cached tokens. Invalid counts become zero. */
export const decodeUsage = (raw: unknown): Response.Usage => {
  const fields = Json.readFields(raw)
  return toResponse({
    input: fields["inputTokens"],
    output: fields["outputTokens"],
    cacheRead: fields["cacheReadInputTokens"],
    cacheWrite: fields["cacheWriteInputTokens"]
  })
}

// Decode

/**
 * Returns the response in a body, or a description of the error in it. A Converse answer does not name the model, so
 * the requested model is used.
 */
export const decode = (raw: unknown, context: SdkError.Context): Result.Result<ModelResponse, AiError.AiError> => {
  const invalid = SdkError.failInvalidBody(raw, context)
  const body = Json.readBody(raw)
  if (typeof body === "string") return invalid(body)
  const { content } = Json.readFields(Json.readFields(body["output"])["message"])
  if (!Array.isArray(content)) return invalid("the answer is no Converse body: check that the base URL serves this API")
  return BlockAnswers.makeResponse(
    {
      content,
      stopReason: body["stopReason"],
      usage: decodeUsage(body["usage"]),
      ...AnswerSources.readMember(
        ...content.map((block) => Json.readFields(Json.readFields(block)["citationsContent"])["citations"])
      ),
      model: context.model,
      id: Json.readWord(Json.readFields(body["$metadata"])["requestId"]) || undefined,
      raw
    },
    context,
    decodeBlock
  )
}

// Encode

const encodePart = (part: ContentPart): ReadonlyArray<unknown> => {
  switch (part.type) {
    case "text":
      return [{ text: part.text }]
    case "reasoning": {
      const redactedContent = readRedacted(part.metadata)
      if (redactedContent !== undefined) return [{ reasoningContent: { redactedContent } }]
      const signed = readSignature(part.metadata)
      return [
        {
          reasoningContent: {
            reasoningText: { text: part.text, ...(signed === undefined ? {} : { signature: signed }) }
          }
        }
      ]
    }
    case "tool-call":
      return [{ toolUse: { toolUseId: part.id, name: part.name, input: part.params } }]
    case "file":
      return []
  }
}

/** Encodes a streamed answer as the body that the API would have sent without streaming. */
export const encode = (answer: {
  readonly parts: ReadonlyArray<ContentPart>
  readonly stopReason: string
  readonly usage: Json.Fields
  readonly requestId: string | undefined
}): unknown => ({
  output: { message: { role: "assistant", content: answer.parts.flatMap(encodePart) } },
  stopReason: answer.stopReason,
  usage: answer.usage,
  $metadata: { requestId: answer.requestId }
})
