/**
 * Requests and answers in the one form that API events have, regardless of the provider's protocol. Plain values:
 * `Sanitizer` redacts and bounds them.
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

/** The `request` of an event. */
export const toRequestFields = (effective: ModelRequest): { readonly method: "POST"; readonly body: ModelRequest } => ({
  method: "POST",
  body: Object.fromEntries(Object.entries(effective).filter(([name]) => !transport.has(name)))
})

/** `finish_reason` as consumers know it. */
export const formatFinishReason = (reason: Response.FinishReason): string => reason.replaceAll("-", "_")

/** `usage` of an event; null when the provider reported none. */
export const toUsageCounters = (reported: Response.Usage): UsageCounters | null =>
  reported.inputTokens.total === undefined &&
  reported.inputTokens.uncached === undefined &&
  reported.outputTokens.total === undefined
    ? null
    : // The names are those of the counters; `toWire` is typed by what they have in common.
      (Usage.toWire(Usage.fromResponse(reported)) as UsageCounters)

/** Visible text of an answer. */
const joinVisibleText = (parts: ReadonlyArray<ContentPart>): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")

/** The answer as a message: text, reasoning, and tool calls in the form of chat completions. */
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

/** Fields about an answer. */
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
 * Returns the fields of a `post_api_request` about its answer. Fields other than numbers and names are computed when
 * they are read.
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

/** Reasons that say that an answer could not be read; the contract has one name for them. */
const malformed: ReadonlySet<string> = new Set(["InvalidResponseError", "InvalidOutputError", "StructuredOutputError"])

/** The `error` of an event. */
export const toErrorFields = (cause: unknown): { readonly type: string; readonly message: string } => {
  if (AiError.isAiError(cause)) {
    const { _tag, message } = cause.reason
    return { type: malformed.has(_tag) ? "InvalidAPIResponse" : _tag, message }
  }
  return cause instanceof Error
    ? { type: cause.name, message: cause.message }
    : { type: typeof cause, message: Json.toText(cause) }
}
