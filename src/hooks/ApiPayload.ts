/**
 * Converts requests and answers to the uniform format of API events, regardless of the provider's protocol. `Sanitizer`
 * redacts and limits the resulting plain values.
 *
 * Source: `hermes-contract.md` §2.3 and §2.8, `ARCHITECTURE.md` §7.
 */
import * as AiError from "effect/ai/AiError"
import type * as Response from "effect/ai/Response"
import * as Json from "../base/domain/Json.ts"
import type { ContentPart, ModelRequest, ModelResponse } from "../base/domain/ModelCall.ts"
import * as Usage from "../base/domain/Usage.ts"
import type { UsageCounters } from "./PayloadTable.ts"

/** Fields of a request that are not part of its body. */
const transport: ReadonlySet<string> = new Set(["timeout", "http_client"])

/** Converts a request to the `request` of an event. */
export const toRequestFields = (effective: ModelRequest): { readonly method: "POST"; readonly body: ModelRequest } => ({
  method: "POST",
  body: Object.fromEntries(Object.entries(effective).filter(([name]) => !transport.has(name)))
})

/** Formats the `finish_reason` of an event. */
export const formatFinishReason = (reason: Response.FinishReason): string => reason.replaceAll("-", "_")

/** Converts usage to the `usage` of an event. Returns null if the provider reported no usage. */
export const toUsageCounters = (reported: Response.Usage): UsageCounters | null =>
  reported.inputTokens.total === undefined &&
  reported.inputTokens.uncached === undefined &&
  reported.outputTokens.total === undefined
    ? null
    : // The names are those of the counters; `toWire` is typed by what they have in common.
      (Usage.toWire(Usage.fromResponse(reported)) as UsageCounters)

/** Returns the visible text of an answer. */
const joinVisibleText = (parts: ReadonlyArray<ContentPart>): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")

/** Converts an answer to a message: text, reasoning, and tool calls in the format of chat completions. */
const toAssistantMessage = (parts: ReadonlyArray<ContentPart>): Readonly<Record<string, unknown>> => {
  const reasoning = parts.flatMap((part) => (part.type === "reasoning" ? [part.text] : [])).join("")
  const calls = parts.flatMap((part) =>
    part.type === "tool-call"
      ? [{ id: part.id, type: "function", function: { name: part.name, arguments: Json.toText(part.params) } }]
      : []
  )
  return {
    role: "assistant",
    content: joinVisibleText(parts),
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
}

/** Returns the fields of an event that describe an answer. */
export const toAnswerFields = (response: ModelResponse) => {
  const message = toAssistantMessage(response.parts)
  const counters = toUsageCounters(response.usage)
  const reason = formatFinishReason(response.finishReason)
  return {
    finish_reason: reason,
    response_model: response.model ?? null,
    response: { model: response.model ?? null, finish_reason: reason, assistant_message: message, usage: counters },
    usage: counters,
    assistant_message: message
  }
}

/**
 * Returns the fields of a `post_api_request` about its answer. Fields that are neither numbers nor names are computed
 * when they are first read.
 */
export const makeLazyAnswerFields = (response: ModelResponse) => {
  let whole: ReturnType<typeof toAnswerFields> | undefined
  const getAnswerFields = () => (whole ??= toAnswerFields(response))
  return {
    finish_reason: formatFinishReason(response.finishReason),
    response_model: response.model ?? null,
    response: () => getAnswerFields().response,
    usage: () => getAnswerFields().usage,
    assistant_message: () => getAnswerFields().assistant_message,
    assistant_content_chars: response.parts.reduce(
      (sum, part) => (part.type === "text" ? sum + part.text.length : sum),
      0
    ),
    assistant_tool_call_count: response.parts.reduce((sum, part) => (part.type === "tool-call" ? sum + 1 : sum), 0)
  }
}

/** Failure reasons for an unreadable answer. The hook specification uses a single name for all of them. */
const malformed: ReadonlySet<string> = new Set(["InvalidResponseError", "InvalidOutputError", "StructuredOutputError"])

/** Converts a failure to the `error` of an event. */
export const toErrorFields = (cause: unknown): { readonly type: string; readonly message: string } => {
  if (AiError.isAiError(cause)) {
    const { _tag, message } = cause.reason
    return { type: malformed.has(_tag) ? "InvalidAPIResponse" : _tag, message }
  }
  return cause instanceof Error
    ? { type: cause.name, message: cause.message }
    : { type: typeof cause, message: Json.toText(cause) }
}
