/**
 * Decodes the body of a Messages answer, and encodes parts as such a body, without the SDK. Any value from a server or
 * middleware becomes either a model response or an `AiError` that describes the problem.
 *
 * **Details**
 *
 * Text, thinking and calls are read; blocks of tools that the API executed itself are only available in `raw`. A body
 * without content is an answer only if it has a stop reason other than a tool call.
 *
 * The `metadata.anthropic_messages` of a reasoning part (`options.anthropic_messages` in a prompt) contains the
 * `signature` of its text, or `redacted`, the opaque data sent in place of the text.
 *
 * Source: `hermes-llm.md` §4.2, §12.2, §14.5.
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type * as Schema from "effect/Schema"
import * as Json from "../../../base/domain/Json.ts"
import type { ContentPart, ModelResponse } from "../../../base/domain/ModelCall.ts"
import { toCount, toResponse } from "../../../base/domain/Usage.ts"
import * as AnswerSources from "../AnswerSources.ts"
import * as BlockAnswers from "../BlockAnswers.ts"
import * as SdkError from "../SdkError.ts"
import * as Endpoint from "./Endpoint.ts"

// Metadata

/** Key of this provider's data in `options` and `metadata`. */
const namespace = "anthropic_messages"

/** Returns this provider's data from the options of a message or part. */
export const readOwnData = (options: Prompt.ProviderOptions): Readonly<Record<string, Schema.Json>> => {
  const data = options[namespace]
  // The cast is safe: a JSON value that is an object and not an array is a record of JSON values.
  return Predicate.isObject(data) ? (data as Readonly<Record<string, Schema.Json>>) : {}
}

const readNonEmptyText = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

/** Reads the signature of a reasoning part's text. */
export const readSignature = (options: Prompt.ProviderOptions): string | undefined =>
  readNonEmptyText(readOwnData(options)["signature"])

/** Reads the opaque data of a reasoning part. */
export const readRedacted = (options: Prompt.ProviderOptions): string | undefined =>
  readNonEmptyText(readOwnData(options)["redacted"])

/** Creates metadata for a part of an answer from `data` of this provider. */
export const makeMetadata = (data: Readonly<Record<string, string>>): Response.ProviderMetadata => ({
  [namespace]: data
})

/** Creates the metadata of a thinking block. An empty signature is omitted. */
export const makeThinkingMetadata = (signature: string): Response.ProviderMetadata =>
  signature === "" ? {} : makeMetadata({ signature })

// Parts

/** Returns the id of a tool call. If the API sent no id, it is derived from the index of the block. */
export const chooseCallId = (id: unknown, index: number): string => Json.readWord(id) || `toolu_${index}`

const decodeBlock = (block: Json.Fields, index: number, names: Endpoint.ToolNames): ReadonlyArray<ContentPart> => {
  switch (block["type"]) {
    case "text":
      return BlockAnswers.makeText(Json.readWord(block["text"]))
    case "thinking":
      return BlockAnswers.makeReasoning(
        Json.readWord(block["thinking"]),
        makeThinkingMetadata(Json.readWord(block["signature"]))
      )
    case "redacted_thinking": {
      const redacted = Json.readWord(block["data"])
      return redacted === "" ? [] : BlockAnswers.makeReasoning("", makeMetadata({ redacted }))
    }
    case "tool_use":
      return [
        BlockAnswers.makeToolCall(
          chooseCallId(block["id"], index),
          names.fromWire(Json.readWord(block["name"])),
          block["input"]
        )
      ]
    default:
      return []
  }
}

// Usage

/** Decodes the `usage` object. Its `input_tokens` already excludes cached tokens. Invalid counts become zero. */
export const decodeUsage = (raw: unknown): Response.Usage => {
  const fields = Json.readFields(raw)
  const output = Json.readFields(fields["output_tokens_details"])
  const reasoning = [
    output["reasoning_tokens"],
    output["thinking_tokens"],
    Json.readFields(fields["completion_tokens_details"])["reasoning_tokens"]
  ]
  return toResponse({
    input: fields["input_tokens"],
    output: fields["output_tokens"],
    cacheRead: fields["cache_read_input_tokens"],
    cacheWrite: fields["cache_creation_input_tokens"],
    reasoning: reasoning.find((value) => toCount(value) > 0)
  })
}

/**
 * Merges the usage counts of a stream. The counts of the last event are cumulative; counts that are missing or zero
 * there retain their initial value.
 */
export const mergeUsage = (first: Json.Fields, last: Json.Fields): Json.Fields => {
  const out = { ...first }
  for (const [name, value] of Object.entries(last)) {
    const says = typeof value === "number" ? value > 0 : value !== null && value !== undefined
    if (says || out[name] === undefined) out[name] = value
  }
  return out
}

// Decode

/** Returns the response in a body, or a description of the error in it. */
export const decode = (
  raw: unknown,
  context: SdkError.Context,
  names = Endpoint.sameNames
): Result.Result<ModelResponse, AiError.AiError> => {
  const invalid = SdkError.failInvalidBody(raw, context)
  const body = Json.readBody(raw)
  if (typeof body === "string") return invalid(body)
  if (body["type"] === "error" || Json.isFields(body["error"]))
    return Result.fail(SdkError.fromBody({ ...context, body }))
  const { content } = body
  if (!Array.isArray(content)) return invalid("the answer is no Messages body: check that the base URL serves this API")
  return BlockAnswers.makeResponse(
    {
      content,
      stopReason: body["stop_reason"],
      usage: decodeUsage(body["usage"]),
      ...AnswerSources.readMember(...content.map((block) => Json.readFields(block)["citations"])),
      model: Json.readWord(body["model"]) || undefined,
      id: Json.readWord(body["id"]) || undefined,
      raw
    },
    context,
    (block, index) => decodeBlock(block, index, names)
  )
}

// Encode

const encodePart = (part: ContentPart, names: Endpoint.ToolNames): ReadonlyArray<unknown> => {
  switch (part.type) {
    case "text":
      return [{ type: "text", text: part.text }]
    case "reasoning": {
      const data = readRedacted(part.metadata)
      if (data !== undefined) return [{ type: "redacted_thinking", data }]
      const signed = readSignature(part.metadata)
      return [{ type: "thinking", thinking: part.text, ...(signed === undefined ? {} : { signature: signed }) }]
    }
    case "tool-call":
      return [{ type: "tool_use", id: part.id, name: names.toWire(part.name), input: part.params }]
    case "file":
      return []
  }
}

/** Encodes a streamed answer as the body that the API would have sent without streaming. */
export const encode = (
  answer: {
    readonly parts: ReadonlyArray<ContentPart>
    readonly id: string | undefined
    readonly model: string | undefined
    readonly stopReason: string | null
    readonly stopSequence: string | null
    readonly usage: Json.Fields
  },
  names: Endpoint.ToolNames
): unknown => ({
  id: answer.id,
  type: "message",
  role: "assistant",
  model: answer.model,
  content: answer.parts.flatMap((part) => encodePart(part, names)),
  stop_reason: answer.stopReason,
  stop_sequence: answer.stopSequence,
  usage: answer.usage
})
