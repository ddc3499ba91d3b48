/**
 * Decodes the body of a chat completion, and encodes parts as such a body, without the SDK. Any value from a server or
 * middleware becomes either a model response or an `AiError` that describes the problem.
 *
 * **Details**
 *
 * The `metadata.chat_completions` of a reasoning part (`options.chat_completions` in a prompt) contains data beyond its
 * text: `reasoning_content` is `true` if the endpoint sent the part's text in the field of that name, or the content of
 * that field if it differs from the text; `reasoning_details` contains the opaque blocks.
 *
 * Source: `hermes-llm.md` §4, §12.2, §14.3, §15.1.
 */
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import type * as Schema from "effect/Schema"
import * as Response from "effect/ai/Response"
import * as Json from "../../../base/domain/Json.ts"
import type { ContentPart, ModelResponse } from "../../../base/domain/ModelCall.ts"
import { toCount, toResponse } from "../../../base/domain/Usage.ts"
import * as AnswerSources from "../AnswerSources.ts"
import * as SdkError from "../SdkError.ts"
import * as ThinkTags from "../ThinkTags.ts"
import * as ToolCallWire from "../ToolCallWire.ts"
import * as Endpoint from "./Endpoint.ts"

// Metadata

/** Returns the readable text of a reasoning block: its summary, thinking, content or text. */
export const readDetailText = (detail: unknown): string => {
  const { summary, thinking, content, text } = Json.readFields(detail)
  for (const value of [summary, thinking, content, text]) {
    if (typeof value === "string" && value !== "") return value
  }
  return ""
}

/** Converts reasoning blocks that were parsed from JSON to metadata. Returns `undefined` if there are no blocks. */
export const toBlockMetadata = (blocks: ReadonlyArray<unknown>): Schema.Json | undefined =>
  blocks.length === 0 ? undefined : (blocks as Schema.Json)

/** Reasoning of an answer: the readable text, and the metadata that must be sent back with it. */
interface FoundReasoning {
  readonly text: string
  readonly metadata: Response.ProviderMetadata
}

/** Creates the metadata of a reasoning part. */
export const makeReasoningMetadata = (
  text: string,
  content: string | undefined,
  details: Schema.Json | undefined
): Response.ProviderMetadata =>
  content === undefined && details === undefined
    ? {}
    : {
        chat_completions: {
          ...(content === undefined ? {} : { reasoning_content: content === text ? true : content }),
          ...(details === undefined ? {} : { reasoning_details: details })
        }
      }

/** Reads the structured reasoning of an assistant message. Returns `undefined` if the message has no reasoning. */
const readStructuredReasoning = (message: Json.Fields): FoundReasoning | undefined => {
  const content = Json.readString(message["reasoning_content"])
  const blocks = Json.readItems(message["reasoning_details"])
  const texts: Array<string> = []
  for (const text of [Json.readString(message["reasoning"]), content, ...blocks.map(readDetailText)]) {
    if (text !== undefined && text !== "" && !texts.some((known) => known.includes(text))) texts.push(text)
  }
  const text = texts.join("\n\n")
  if (text === "" && content === undefined && blocks.length === 0) return undefined
  return { text, metadata: makeReasoningMetadata(text, content, toBlockMetadata(blocks)) }
}

/**
 * Reads the opaque `extra_content` of a tool call, which contains Gemini's thought signatures. If the model's name does
 * not tell that it has signatures, the route is added, to which they are sent back.
 */
export const readCallMetadata = (call: Json.Fields, { model, url }: SdkError.Context): Response.ProviderMetadata => {
  const extra = call["extra_content"]
  if (!Json.isFields(extra)) return {}
  // The value was parsed from JSON.
  const extra_content = extra as Response.ProviderMetadata
  return Endpoint.hasSignatures(model)
    ? { chat_completions: { extra_content } }
    : { chat_completions: { extra_content, origin: Endpoint.formatOrigin(url, model) } }
}

// Parts

type ToolCall = Response.ToolCallPart<string, unknown>

const decodeToolCalls = (message: Json.Fields, context: SdkError.Context): ReadonlyArray<ToolCall> => {
  const taken = new Set<string>()
  const legacy = message["function_call"]
  const calls = message["tool_calls"] ?? (Json.isFields(legacy) ? [{ function: legacy }] : undefined)
  return Json.readItems(calls).map((item, index) => {
    const call = Json.readFields(item)
    const target = Json.readFields(call["function"])
    const name = Json.readWord(target["name"])
    const id =
      Json.readWord(call["id"]) || ToolCallWire.deriveId(name, ToolCallWire.toPieceText(target["arguments"]), index)
    return Response.makePart("tool-call", {
      id: ToolCallWire.makeUniqueId(taken, id, index),
      name,
      params: ToolCallWire.fromWire(target["arguments"]),
      providerExecuted: false,
      metadata: readCallMetadata(call, context)
    })
  })
}

/** Reads the text of `content`, which is a string or an array of parts. Returns `undefined` for any other value. */
const readContent = (content: unknown): { readonly text: string; readonly thinking: string } | undefined => {
  if (content === null || content === undefined) return { text: "", thinking: "" }
  if (typeof content === "string") return { text: content, thinking: "" }
  if (!Array.isArray(content)) return undefined
  let text = ""
  const thinking: Array<string> = []
  for (const item of content) {
    const part = Json.readFields(item)
    const own = Json.readString(part["text"]) ?? Json.readString(part["refusal"]) ?? ""
    if (part["type"] === "thinking") {
      const thought = part["thinking"]
      thinking.push(
        Json.readString(thought) ??
          Json.readItems(thought)
            .map((one) => Json.readWord(Json.readFields(one)["text"]))
            .join("")
      )
    } else text += own
  }
  return { text, thinking: thinking.join("\n\n") }
}

/**
 * Separates inline reasoning from the text of a message. The inline reasoning is ignored if the message has structured
 * reasoning.
 */
const splitReasoning = (text: string): { readonly text: string; readonly thinking: string } => {
  if (!text.includes("<")) return { text, thinking: "" }
  let visible = ""
  let thinking = ""
  const tags = ThinkTags.make({
    text: (piece) => void (visible += piece),
    reasoning: (piece) => void (thinking += piece)
  })
  tags.read(text)
  tags.end()
  return { text: visible, thinking: thinking.trim() }
}

const decodeParts = (message: Json.Fields, context: SdkError.Context): ReadonlyArray<ContentPart> | string => {
  const content = readContent(message["content"])
  if (content === undefined) return "the content of the message is neither text nor parts"
  const calls = message["tool_calls"]
  if (calls !== undefined && calls !== null && !Array.isArray(calls)) return "tool_calls is no list"
  const { text, thinking } = splitReasoning(content.text)
  const found = readStructuredReasoning(message) ?? { text: content.thinking || thinking, metadata: {} }
  const visible = text === "" ? (Json.readString(message["refusal"]) ?? "") : text
  const parts: Array<ContentPart> = []
  if (found.text !== "" || Object.keys(found.metadata).length > 0) parts.push(Response.makePart("reasoning", found))
  if (visible !== "") parts.push(Response.makePart("text", { text: visible }))
  parts.push(...decodeToolCalls(message, context))
  return parts
}

// Finish reason

const lengths = new Set(["length", "max_tokens", "model_length"])
const filters = new Set(["content_filter", "content-filter", "safety", "refusal", "recitation"])

/**
 * Converts the protocol's finish reason. Unknown reasons become `stop`. An answer with tool calls has the reason
 * `tool-calls`, unless it was cut off or filtered.
 */
export const toFinishReason = (word: string | undefined, hasCalls: boolean): Response.FinishReason => {
  const name = word?.toLowerCase() ?? ""
  if (lengths.has(name)) return "length"
  if (filters.has(name)) return "content-filter"
  return hasCalls || name === "tool_calls" || name === "function_call" ? "tool-calls" : "stop"
}

/** Converts a finish reason to the protocol's value. */
export const toFinishWord = (reason: Response.FinishReason): string => {
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

const readFinishReason = (
  choice: Json.Fields,
  message: Json.Fields,
  parts: ReadonlyArray<ContentPart>
): Response.FinishReason => {
  const refused = typeof message["refusal"] === "string" && message["refusal"] !== ""
  return refused
    ? "content-filter"
    : toFinishReason(
        Json.readString(choice["finish_reason"]),
        parts.some((part) => part.type === "tool-call")
      )
}

// Usage

/** Returns the first value that is a positive count, otherwise 0. */
const findFirstCount = (...values: ReadonlyArray<unknown>): number => {
  for (const value of values) {
    const number = toCount(value)
    if (number > 0) return number
  }
  return 0
}

/** Decodes the `usage` object of a body or chunk. Missing or invalid counts become zero. */
export const decodeUsage = (value: unknown): Response.Usage => {
  const fields = Json.readFields(value)
  const prompt = Json.readFields(fields["prompt_tokens_details"])
  const cacheRead = findFirstCount(
    prompt["cached_tokens"],
    fields["cache_read_input_tokens"],
    fields["prompt_cache_hit_tokens"],
    fields["cached_tokens"]
  )
  const cacheWrite = findFirstCount(prompt["cache_write_tokens"], fields["cache_creation_input_tokens"])
  return toResponse({
    input: findFirstCount(fields["prompt_tokens"], fields["input_tokens"]) - cacheRead - cacheWrite,
    output: findFirstCount(fields["completion_tokens"], fields["output_tokens"]),
    cacheRead,
    cacheWrite,
    reasoning: findFirstCount(
      Json.readFields(fields["output_tokens_details"])["reasoning_tokens"],
      Json.readFields(fields["completion_tokens_details"])["reasoning_tokens"]
    )
  })
}

/**
 * Reads the cost of the answer in US dollars from OpenRouter's `usage` object, including the charges of a provider
 * called with the user's own key. Returns `undefined` if the cost is not reported.
 */
export const readCost = (value: unknown): number | undefined => {
  const fields = Json.readFields(value)
  const { cost } = fields
  if (typeof cost !== "number" || !Number.isFinite(cost) || cost < 0) return undefined
  const upstream = Json.readFields(fields["cost_details"])["upstream_inference_cost"]
  const own =
    fields["is_byok"] === true && typeof upstream === "number" && Number.isFinite(upstream) && upstream > 0
      ? upstream
      : 0
  return cost + own
}

// Decode

/** Returns the response in a body, or a description of the error in it. */
export const decode = (raw: unknown, context: SdkError.Context): Result.Result<ModelResponse, AiError.AiError> => {
  const invalid = SdkError.failInvalidBody(raw, context)
  const body = Json.readBody(raw)
  if (typeof body === "string") return invalid(body)
  const choice = Json.readFields(Json.readItems(body["choices"])[0])
  const error = body["error"] ?? choice["error"]
  if (error !== undefined && error !== null) return Result.fail(SdkError.fromBody({ ...context, body: { error } }))
  const { message } = choice
  if (!Json.isFields(message)) {
    return invalid(
      Array.isArray(body["choices"]) && body["choices"].length > 0
        ? "the first choice has no message"
        : "the answer has no choices"
    )
  }
  const parts = decodeParts(message, context)
  if (typeof parts === "string") return invalid(parts)
  const reportedCost = readCost(body["usage"])
  return Result.succeed({
    parts,
    finishReason: readFinishReason(choice, message, parts),
    usage: decodeUsage(body["usage"]),
    ...AnswerSources.readMember(message["annotations"], body["citations"]),
    ...(reportedCost === undefined ? {} : { reportedCost }),
    model: Json.readString(body["model"]),
    id: Json.readString(body["id"]),
    raw: body
  })
}

// Encode

/** Fields of a body that its parts do not contain. */
interface Frame {
  readonly id: string | undefined
  readonly model: string | undefined
  readonly created?: unknown
  /** Finish reason as the protocol's value. */
  readonly finishReason: string
  /** The API's `usage` object; `undefined` if the API did not send usage. */
  readonly usage: unknown
}

const encodeReasoning = (parts: ReadonlyArray<ContentPart>): Json.Fields => {
  const reasoning = parts.filter((part) => part.type === "reasoning")
  if (reasoning.length === 0) return {}
  const own = reasoning.map((part) => ({ text: part.text, ...Json.readFields(part.metadata["chat_completions"]) }))
  const contents = own.flatMap(({ text, reasoning_content: content }: Json.Fields) =>
    content === true ? [Json.readWord(text)] : typeof content === "string" ? [content] : []
  )
  const details = own.flatMap((fields: Json.Fields) => Json.readItems(fields["reasoning_details"]))
  const text = own
    .map((fields) => fields.text)
    .filter((text) => text !== "")
    .join("\n\n")
  const content = contents.join("")
  return {
    ...(text === "" || (contents.length > 0 && text === content) ? {} : { reasoning: text }),
    ...(contents.length === 0 ? {} : { reasoning_content: content }),
    ...(details.length === 0 ? {} : { reasoning_details: details })
  }
}

const encodeCalls = (parts: ReadonlyArray<ContentPart>): ReadonlyArray<Json.Fields> =>
  parts.flatMap((part) => {
    if (part.type !== "tool-call") return []
    const { extra_content } = Json.readFields(part.metadata["chat_completions"])
    return [
      {
        id: part.id,
        type: "function",
        function: {
          name: part.name,
          arguments: typeof part.params === "string" ? part.params : JSON.stringify(part.params)
        },
        ...(extra_content === undefined ? {} : { extra_content })
      }
    ]
  })

/**
 * Encodes the parts of a streamed answer as the body that the API would have sent without streaming. {@link decode}
 * converts it back to the same parts.
 */
export const encode = (parts: ReadonlyArray<ContentPart>, frame: Frame): Json.Fields => {
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []))
  const calls = encodeCalls(parts)
  return {
    ...(frame.id === undefined ? {} : { id: frame.id }),
    object: "chat.completion",
    ...(typeof frame.created === "number" ? { created: frame.created } : {}),
    ...(frame.model === undefined ? {} : { model: frame.model }),
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: texts.length === 0 ? null : texts.join(""),
          ...encodeReasoning(parts),
          ...(calls.length === 0 ? {} : { tool_calls: calls })
        },
        finish_reason: frame.finishReason
      }
    ],
    ...(frame.usage === undefined ? {} : { usage: frame.usage })
  }
}
