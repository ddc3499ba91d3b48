/**
 * Reads a chat completion body. Whatever a server or a middleware answers is either a model response or an `AiError` that
 * says what is wrong with it; free of the SDK.
 *
 * Source: `hermes-llm.md` §4, §12.2, §14.3, §15.1.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import type { ContentPart, ModelResponse } from "../../domain/Model.ts"
import * as Arguments from "../Arguments.ts"
import * as Body from "../Body.ts"
import * as CallIds from "../CallIds.ts"
import * as Raw from "../Raw.ts"
import * as SdkError from "../SdkError.ts"
import * as CallSlots from "./CallSlots.ts"
import * as FinishReason from "./FinishReason.ts"
import * as Reasoning from "./Reasoning.ts"
import * as ThinkTags from "./ThinkTags.ts"
import * as Usage from "./Usage.ts"

type ToolCall = Response.ToolCallPart<string, unknown>

const toolCalls = (message: Raw.Fields): ReadonlyArray<ToolCall> => {
  const taken = new Set<string>()
  const legacy = message["function_call"]
  const calls = message["tool_calls"] ?? (Raw.isFields(legacy) ? [{ function: legacy }] : undefined)
  return Raw.items(calls).map((item, index) => {
    const call = Raw.fields(item)
    const target = Raw.fields(call["function"])
    const name = Raw.word(target["name"])
    const id = Raw.word(call["id"]) || CallIds.derive(name, Arguments.pieceOf(target["arguments"]), index)
    return Response.makePart("tool-call", {
      id: CallIds.unique(taken, id, index),
      name,
      params: Arguments.fromWire(target["arguments"]),
      providerExecuted: false,
      metadata: CallSlots.metadata(call)
    })
  })
}

/** The text of `content`, a string or parts; undefined where it is neither. */
const contentText = (content: unknown): { readonly text: string; readonly thinking: string } | undefined => {
  if (content === null || content === undefined) return { text: "", thinking: "" }
  if (typeof content === "string") return { text: content, thinking: "" }
  if (!Array.isArray(content)) return undefined
  let text = ""
  const thinking: Array<string> = []
  for (const item of content) {
    const part = Raw.fields(item)
    const own = Raw.string(part["text"]) ?? Raw.string(part["refusal"]) ?? ""
    if (part["type"] === "thinking") {
      const thought = part["thinking"]
      thinking.push(Raw.string(thought) ?? Raw.items(thought).map((one) => Raw.word(Raw.fields(one)["text"])).join(""))
    } else text += own
  }
  return { text, thinking: thinking.join("\n\n") }
}

/** Separates inline reasoning from a text; structured reasoning makes it redundant. */
const split = (text: string): { readonly text: string; readonly thinking: string } => {
  let visible = ""
  let thinking = ""
  const tags = ThinkTags.make({ text: (piece) => void (visible += piece), reasoning: (piece) => void (thinking += piece) })
  tags.read(text)
  tags.end()
  return { text: visible, thinking: thinking.trim() }
}

const partsOf = (message: Raw.Fields): ReadonlyArray<ContentPart> | string => {
  const content = contentText(message["content"])
  if (content === undefined) return "the content of the message is neither text nor parts"
  const calls = message["tool_calls"]
  if (calls !== undefined && calls !== null && !Array.isArray(calls)) return "tool_calls is no list"
  const { text, thinking } = split(content.text)
  const found = Reasoning.find(message) ?? { text: content.thinking || thinking, metadata: {} }
  const visible = text === "" ? Raw.string(message["refusal"]) ?? "" : text
  const parts: Array<ContentPart> = []
  if (found.text !== "" || Object.keys(found.metadata).length > 0) parts.push(Response.makePart("reasoning", found))
  if (visible !== "") parts.push(Response.makePart("text", { text: visible }))
  parts.push(...toolCalls(message))
  return parts
}

const reasonOf = (choice: Raw.Fields, message: Raw.Fields, parts: ReadonlyArray<ContentPart>): Response.FinishReason => {
  const refused = typeof message["refusal"] === "string" && message["refusal"] !== ""
  return refused
    ? "content-filter"
    : FinishReason.fromWire(
      Raw.string(choice["finish_reason"]),
      parts.some((part) => part.type === "tool-call")
    )
}

/** See the module. */
export const decode = (raw: unknown, context: SdkError.Context): Result.Result<ModelResponse, AiError.AiError> => {
  const invalid = (description: string): Result.Result<ModelResponse, AiError.AiError> =>
    Result.fail(SdkError.invalidResponse({ ...context, description, body: raw }))
  const body = Body.read(raw)
  if (typeof body === "string") return invalid(body)
  const choice = Raw.fields(Raw.items(body["choices"])[0])
  const error = body["error"] ?? choice["error"]
  if (error !== undefined && error !== null) return Result.fail(SdkError.fromBody({ ...context, body: { error } }))
  const { message } = choice
  if (!Raw.isFields(message)) {
    return invalid(
      Array.isArray(body["choices"]) && body["choices"].length > 0
        ? "the first choice has no message"
        : "the answer has no choices"
    )
  }
  const parts = partsOf(message)
  if (typeof parts === "string") return invalid(parts)
  const reportedCost = Usage.costOf(body["usage"])
  return Result.succeed({
    parts,
    finishReason: reasonOf(choice, message, parts),
    usage: Usage.fromWire(body["usage"]),
    ...(reportedCost === undefined ? {} : { reportedCost }),
    model: Raw.string(body["model"]),
    id: Raw.string(body["id"]),
    raw: body
  })
}
