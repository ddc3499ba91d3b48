/**
 * Converts requests and answers of the run record to the form of chat completions, regardless of their protocol:
 * `data_schema` `openai/chat-completions`, version 1. A single reader can thus read every stream.
 *
 * **Details**
 *
 * - A request contains all its messages in the record, its tools, and its other parameters under the provider's names.
 *   If middleware rewrote the request, the new version is included as `rewritten`.
 * - An answer has `choices` and, as in the NeMo Relay document, `assistant_message`. Arguments of calls are always the
 *   text of a JSON object.
 * - An image is represented by its address, or by its type if its bytes were in the request.
 *
 * **Gotchas**
 *
 * Readers reject an answer with neither text nor calls. Such an answer therefore has no data, and its usage is in the
 * metadata.
 *
 * Source: `relay-atof-atif.md` §1.7 (rule 6), §2.6 and §2.7.
 */
import { memoize } from "effect/Function"
import type * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../base/domain/Json.ts"
import * as MessageText from "../atif/Message.ts"
import {
  type Answer,
  readMessageAnswer,
  toContent,
  toJson,
  toSharedJson,
  toMetrics,
  readFinishReason,
  renderToolResult
} from "../atif/RunContent.ts"
import { toArguments } from "../atif/Value.ts"
import type { Attempt, Request } from "../RunTree.ts"

/** Fields of an event. */
export interface Facts {
  readonly [key: string]: Schema.Json
}

/** Name and version of the schema, as events declare them. */
export const schema: Facts = { name: "openai/chat-completions", version: "1" }

/** Cached JSON texts of arguments, by the arguments. */
const argumentsTexts = new WeakMap<object, string>()

/** Returns the arguments of a call as JSON text. The result is cached. */
const getArgumentsText = (params: unknown): string => {
  if (typeof params !== "object" || params === null) return JSON.stringify(toArguments(toJson(params)))
  const known = argumentsTexts.get(params)
  if (known !== undefined) return known
  const made = JSON.stringify(toArguments(toSharedJson(params)))
  argumentsTexts.set(params, made)
  return made
}

const toToolCalls = (calls: Answer["calls"]): Facts =>
  calls.length === 0
    ? {}
    : {
        tool_calls: calls.map(({ id, name, params }) => ({
          id,
          type: "function",
          function: { name, arguments: getArgumentsText(params) }
        }))
      }

/** Returns the message of an answer. */
export const toAssistantMessage = ({ calls, reasoning, text }: Answer): Facts => ({
  role: "assistant",
  content: MessageText.toPlainText(text),
  ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
  ...toToolCalls(calls)
})

/** Tests whether two answers have the same message. */
export const isSameMessage = (one: Answer, other: Answer): boolean =>
  one.reasoning === other.reasoning &&
  one.calls.length === other.calls.length &&
  one.calls.every(({ id, name, params }, index) => {
    const call = other.calls[index]
    return call?.id === id && call.name === name && getArgumentsText(params) === getArgumentsText(call.params)
  }) &&
  MessageText.toPlainText(one.text) === MessageText.toPlainText(other.text)

// Converts content to JSON. Its parts are plain objects that contain only strings.
const toContentJson = (content: Prompt.Message["content"]): Schema.Json => toJson(toContent(content))

const toChatMessages = (message: Prompt.Message): ReadonlyArray<Facts> => {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content }]
    case "user":
      return [{ role: "user", content: toContentJson(message.content) }]
    case "assistant":
      return [toAssistantMessage(readMessageAnswer(message))]
    case "tool":
      return message.content.flatMap((part) =>
        part.type === "tool-result"
          ? [
              {
                role: "tool",
                tool_call_id: part.id,
                name: part.name,
                content: MessageText.toPlainText(renderToolResult(part))
              }
            ]
          : []
      )
  }
}

/** Converts a message to chat messages. The result is cached, because many requests may contain the message. */
export const messages = memoize(toChatMessages)

const toChatTools = memoize((tools: Request["tools"]): ReadonlyArray<Facts> =>
  tools.map(({ description, name, parameters: shape }) => ({
    type: "function",
    function: { name, description, parameters: toSharedJson(shape) }
  }))
)

/** Names of the fields of a provider's request that contain the messages and tools. */
export const spoken: ReadonlySet<string> = new Set([
  "messages",
  "input",
  "system",
  "instructions",
  "tools",
  "toolConfig",
  "prompt",
  "contents"
])

const selectMembers = (value: Readonly<Record<string, unknown>>, wanted: (name: string) => boolean): Facts =>
  Object.fromEntries(
    Object.entries(value).flatMap(([name, item]) => (wanted(name) && item !== undefined ? [[name, toJson(item)]] : []))
  )

/** Returns the request of an attempt with the given messages, or `null` if the record does not contain any messages. */
export const toRequest = (
  { start: { parameters, rewritten, route } }: Attempt,
  messages: ReadonlyArray<Facts>,
  tools: Request["tools"]
): Schema.Json => {
  if (messages.length === 0) return null
  const others = Json.isFields(rewritten) ? rewritten : parameters
  return {
    ...selectMembers(others, (name) => !spoken.has(name) && name !== "content"),
    model: route.model,
    messages,
    ...(tools.length === 0 ? {} : { tools: toChatTools(tools) }),
    ...(Json.isFields(rewritten) ? { rewritten: selectMembers(rewritten, (name) => spoken.has(name)) } : {})
  }
}

/** Returns the usage of an attempt under the names of chat completions, or `null` if it was not reported. */
export const toUsage = (attempt: Attempt): Schema.Json => {
  const metrics = toMetrics(attempt)
  if (metrics === undefined) return null
  const {
    cached_tokens: cached,
    completion_tokens: completion = 0,
    cost_usd: cost,
    extra,
    prompt_tokens: prompt = 0
  } = metrics
  const { cache_creation_input_tokens: written, reasoning_tokens: reasoning } = extra ?? {}
  return {
    prompt_tokens: prompt ?? 0,
    completion_tokens: completion ?? 0,
    total_tokens: (prompt ?? 0) + (completion ?? 0),
    ...(cached === undefined ? {} : { prompt_tokens_details: { cached_tokens: cached } }),
    ...(reasoning === undefined ? {} : { completion_tokens_details: { reasoning_tokens: reasoning } }),
    ...(written === undefined ? {} : { cache_creation_input_tokens: written }),
    ...(cost === undefined ? {} : { cost_usd: cost })
  }
}

/** Returns true if an answer contains text or calls, as readers require. */
const hasSubstance = ({ calls, text }: Answer): boolean => calls.length > 0 || MessageText.toPlainText(text) !== ""

/**
 * Returns the message in the form used by the NeMo Relay document, in which a call has its id, name and arguments in
 * one object.
 */
const toPrintedMessage = (answer: Answer, message: Facts): Facts =>
  answer.calls.length === 0
    ? message
    : {
        ...message,
        tool_calls: answer.calls.map(({ id, name, params }) => ({ id, name, arguments: getArgumentsText(params) }))
      }

/**
 * Returns the answer of an attempt, or the received part of an interrupted answer. Returns `null` if it contains
 * neither text nor calls.
 */
export const toResponse = (attempt: Attempt, answer: Answer): Schema.Json => {
  if (!hasSubstance(answer)) return null
  const message = toAssistantMessage(answer)
  const finish_reason = readFinishReason(attempt)
  return {
    ...(attempt.end?.responseId === undefined ? {} : { id: attempt.end.responseId }),
    object: "chat.completion",
    model: attempt.end?.model ?? attempt.start.route.model,
    choices: [{ index: 0, message, finish_reason }],
    usage: toUsage(attempt),
    assistant_message: toPrintedMessage(answer, message),
    finish_reason
  }
}
