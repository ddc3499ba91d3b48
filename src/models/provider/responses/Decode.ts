/**
 * Decodes a body of the Responses API, and encodes parts as its output. Any value from a server or middleware becomes
 * either a model response or an `AiError` that describes the problem. The SDK is not used.
 *
 * **Details**
 *
 * `metadata.codex_responses` (`options.codex_responses` in a prompt) contains the fields of an item that are sent back:
 *
 * - of a reasoning item: `encrypted_content`, and `summary` if it has more than one piece;
 * - of a message item: `id`, `status` and `phase`, which are sent back unchanged to preserve the prompt cache;
 * - of a function call: `id`, its `fc_…` id, which it has in addition to the call id;
 * - of a compacted conversation: `compaction`, its encrypted form.
 *
 * | the response | finish reason |
 * | --- | --- |
 * | was cut off by the output limit | `length` |
 * | was stopped by the filter, or is a refusal | `content-filter` |
 * | has tool calls | `tool-calls` |
 * | is incomplete for another reason, or contains only reasoning | `pause`: the model has to continue |
 * | in all other cases | `stop` |
 *
 * Source: `hermes-llm.md` §4.3, §12.2, §14.5, §15.1.
 */
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Json from "../../../base/domain/Json.ts"
import type { ContentPart, ModelResponse } from "../../../base/domain/ModelCall.ts"
import { toCount, toResponse } from "../../../base/domain/Usage.ts"
import * as AnswerSources from "../AnswerSources.ts"
import * as SdkError from "../SdkError.ts"
import * as ToolCallWire from "../ToolCallWire.ts"

// Metadata

/** Decoded item whose content is text. */
export interface TextItem {
  readonly text: string
  readonly metadata: Response.ProviderMetadata
}

/** Decoded item that is a tool call. */
interface CallItem {
  readonly id: string
  readonly name: string
  readonly params: unknown
  readonly metadata: Response.ProviderMetadata
}

type Own = Record<string, string | ReadonlyArray<string>>

const makeMetadata = (own: Own): Response.ProviderMetadata =>
  Object.keys(own).length === 0 ? {} : { codex_responses: own }

const readTexts = (list: unknown): ReadonlyArray<string> =>
  Json.readItems(list).flatMap((item) => {
    const text = Json.readString(Json.readFields(item)["text"])
    return text === undefined || text === "" ? [] : [text]
  })

const selectNamed = (item: Json.Fields, ...names: ReadonlyArray<string>): Own =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = Json.readString(item[name])
      return value === undefined || value === "" ? [] : [[name, value]]
    })
  )

/** Decodes a `reasoning` item: its summary, or the reasoning text that open models return. */
export const decodeReasoning = (item: Json.Fields): TextItem => {
  const summary = readTexts(item["summary"])
  const own = selectNamed(item, "id", "encrypted_content")
  return {
    text: (summary.length > 0 ? summary : readTexts(item["content"])).join("\n\n"),
    metadata:
      own["encrypted_content"] === undefined ? {} : makeMetadata({ ...own, ...(summary.length > 1 ? { summary } : {}) })
  }
}

/** Tests whether a `message` item contains a refusal. */
const isRefusal = (item: Json.Fields): boolean =>
  Json.readItems(item["content"]).some((part) => Json.readFields(part)["type"] === "refusal")

/** Decodes a `message` item. */
export const decodeMessage = (item: Json.Fields): TextItem => ({
  text: Json.readItems(item["content"])
    .map((part) => {
      const { text, refusal } = Json.readFields(part)
      return Json.readString(text) ?? Json.readString(refusal) ?? ""
    })
    .join(""),
  metadata: item["id"] === undefined ? {} : makeMetadata(selectNamed(item, "id", "status", "phase"))
})

/** Reads the metadata of a `function_call` item. */
export const readCallMetadata = (item: Json.Fields): Response.ProviderMetadata => {
  const id = Json.readWord(item["id"])
  return id.startsWith("fc_") ? makeMetadata({ id }) : {}
}

/** Decodes a `function_call` item. */
export const decodeCall = (item: Json.Fields, index: number): CallItem => {
  const name = Json.readWord(item["name"])
  return {
    id:
      Json.readWord(item["call_id"]) || ToolCallWire.deriveId(name, ToolCallWire.toPieceText(item["arguments"]), index),
    name,
    params: ToolCallWire.fromWire(item["arguments"]),
    metadata: readCallMetadata(item)
  }
}

// Parts

/** Tests whether an item has neither text nor metadata. */
const isEmpty = ({ metadata, text }: TextItem): boolean => text === "" && Object.keys(metadata).length === 0

/** Converts an output item to a part. Returns `undefined` for items of other types and for empty items. */
const decodeItem = (item: Json.Fields, index: number, taken: Set<string>): ContentPart | undefined => {
  switch (item["type"]) {
    case "reasoning": {
      const found = decodeReasoning(item)
      return isEmpty(found) ? undefined : Response.makePart("reasoning", found)
    }
    case "compaction": {
      const encrypted = Json.readString(item["encrypted_content"])
      return encrypted === undefined
        ? undefined
        : Response.makePart("reasoning", { text: "", metadata: makeMetadata({ compaction: encrypted }) })
    }
    case "message": {
      // The output of a compaction repeats the user's messages.
      if (item["role"] === "user") return undefined
      const found = decodeMessage(item)
      return found.text === "" ? undefined : Response.makePart("text", found)
    }
    case "function_call": {
      const made = decodeCall(item, index)
      const id = ToolCallWire.makeUniqueId(taken, made.id, index)
      return Response.makePart("tool-call", { ...made, id, providerExecuted: false })
    }
    default:
      return undefined
  }
}

const decodeOutput = (body: Json.Fields): ReadonlyArray<ContentPart> => {
  const taken = new Set<string>()
  const parts = Json.readItems(body["output"]).flatMap(
    (item, index) => decodeItem(Json.readFields(item), index, taken) ?? []
  )
  const text = Json.readString(body["output_text"]) ?? ""
  return parts.length === 0 && text !== "" ? [Response.makePart("text", { text })] : parts
}

// Finish reason

const unfinished = new Set(["incomplete", "in_progress", "queued"])
const lengths = new Set(["max_output_tokens", "max_tokens", "length"])

/** Returns the finish reason of a response. `refused` is true if a refusal was streamed. */
export const chooseFinishReason = (
  body: Json.Fields,
  parts: ReadonlyArray<{ readonly type: ContentPart["type"] }>,
  refused: boolean
): Response.FinishReason => {
  const output = Json.readItems(body["output"]).map(Json.readFields)
  const why = Json.readWord(Json.readFields(body["incomplete_details"])["reason"])
  if (lengths.has(why)) return "length"
  if (why === "content_filter" || refused || output.some(isRefusal)) return "content-filter"
  if (parts.some((part) => part.type === "tool-call")) return "tool-calls"
  if (unfinished.has(Json.readWord(body["status"]))) return "pause"
  if (output.some((item) => unfinished.has(Json.readWord(item["status"])))) return "pause"
  return parts.length > 0 && parts.every((part) => part.type === "reasoning") ? "pause" : "stop"
}

/** Returns the failure that a response reports, or `undefined`. */
export const findFailure = (body: Json.Fields, context: SdkError.Context): AiError.AiError | undefined => {
  const { error, status } = body
  if (error !== undefined && error !== null) return SdkError.fromBody({ ...context, body: { error } })
  return status === "failed" || status === "cancelled"
    ? SdkError.fromBody({ ...context, body: { error: { message: `the response was ${status}` } } })
    : undefined
}

// Usage

/** Decodes the `usage` object of a response. Missing or invalid counts become zero. */
export const decodeUsage = (value: unknown): Response.Usage => {
  const fields = Json.readFields(value)
  const input = Json.readFields(fields["input_tokens_details"])
  const output = Json.readFields(fields["output_tokens_details"])
  const cacheRead = toCount(input["cached_tokens"])
  const cacheWrite = toCount(input["cache_write_tokens"]) || toCount(input["cache_creation_tokens"])
  return toResponse({
    input: toCount(fields["input_tokens"]) - cacheRead - cacheWrite,
    output: fields["output_tokens"],
    cacheRead,
    cacheWrite,
    reasoning:
      toCount(output["reasoning_tokens"]) || Json.readFields(fields["completion_tokens_details"])["reasoning_tokens"]
  })
}

// Decode

/** Returns the response in a body, or a description of the error in it. */
export const decode = (raw: unknown, context: SdkError.Context): Result.Result<ModelResponse, AiError.AiError> => {
  const invalid = SdkError.failInvalidBody(raw, context)
  const body = Json.readBody(raw)
  if (typeof body === "string") return invalid(body)
  const failed = findFailure(body, context)
  if (failed !== undefined) return Result.fail(failed)
  const { output } = body
  if (output !== undefined && output !== null && !Array.isArray(output)) return invalid("output is not an array")
  const parts = decodeOutput(body)
  if (Json.readItems(output).length === 0 && parts.length === 0 && body["status"] !== "incomplete") {
    return invalid("the answer has no output")
  }
  return Result.succeed({
    parts,
    finishReason: chooseFinishReason(body, parts, false),
    usage: decodeUsage(body["usage"]),
    ...AnswerSources.readMember(AnswerSources.listAnnotations(output)),
    model: Json.readString(body["model"]),
    id: Json.readString(body["id"]),
    raw: body
  })
}

// Encode

/** Encodes parts as output items. {@link decode} converts them back to the same parts. */
export const encode = (parts: ReadonlyArray<ContentPart>): ReadonlyArray<Json.Fields> =>
  parts.flatMap((part): ReadonlyArray<Json.Fields> => {
    const own = Json.readFields(part.metadata["codex_responses"])
    switch (part.type) {
      case "reasoning": {
        const { compaction, summary, ...rest } = own
        if (compaction !== undefined) return [{ type: "compaction", encrypted_content: compaction }]
        const texts = summary === undefined ? (part.text === "" ? [] : [part.text]) : Json.readItems(summary)
        return [{ type: "reasoning", ...rest, summary: texts.map((text) => ({ type: "summary_text", text })) }]
      }
      case "text":
        return [
          {
            type: "message",
            role: "assistant",
            status: "completed",
            ...own,
            content: [{ type: "output_text", text: part.text, annotations: [] }]
          }
        ]
      case "tool-call":
        return [
          {
            type: "function_call",
            ...own,
            call_id: part.id,
            name: part.name,
            arguments: typeof part.params === "string" ? part.params : JSON.stringify(part.params),
            status: "completed"
          }
        ]
      default:
        return []
    }
  })
