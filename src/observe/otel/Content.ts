/**
 * Pure functions that convert messages to the form of the GenAI conventions: a role and parts, as JSON text without
 * secrets.
 *
 * **Details**
 *
 * Text, reasoning, calls and results are complete; a request repeats a bounded part of the conversation. An image or
 * other file is represented by its media type and size, without its bytes. A request that middleware rewrote is read in
 * the wire format of any protocol.
 *
 * Source: OpenTelemetry, "GenAI input messages", "GenAI output messages".
 */
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../base/domain/Json.ts"
import { redactValue } from "../../base/domain/Redaction.ts"
import type { AnswerPart } from "../../base/domain/RecordEvent.ts"
import type { SentMessages } from "../RunContents.ts"
import { makeGrowingParts, type GrowingParts, JoinedText, makeParts, type TextPart } from "../JoinedText.ts"

type Fields = Readonly<Record<string, Schema.Json>>
/** A part of a message. */
export type Part = Fields

/** A message in the form of the conventions. */
export interface Message {
  readonly role: string
  readonly parts: ReadonlyArray<Part>
  readonly finish_reason?: string
}

const unbounded = { nodes: Number.POSITIVE_INFINITY }

/** Returns a value as JSON text without secrets. */
export const toJsonText = (value: unknown): string => JSON.stringify(redactValue(value, unbounded)) ?? "null"

// `Array.isArray` does not narrow a readonly list.
const toList = (value: Schema.Json | undefined): ReadonlyArray<Schema.Json> => (Array.isArray(value) ? value : [])

const toObject = (value: Schema.Json | undefined): Fields | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? // JSON that is neither a primitive, null nor a list is an object.
      (value as Fields)
    : undefined

const makeTextPart = (content: Schema.Json): Part => ({ type: "text", content })

const makeCallPart = (id: Schema.Json, name: Schema.Json, args: Schema.Json): Part => ({
  type: "tool_call",
  id,
  name,
  // If parsing succeeds, the result is a JSON value.
  arguments: typeof args === "string" ? (Option.getOrElse(Json.parse(args), () => args) as Schema.Json) : args
})

const makeResponsePart = (id: Schema.Json, response: Schema.Json): Part => ({
  type: "tool_call_response",
  id,
  response
})

const isText = ({ type }: Fields): boolean => type === undefined || String(type).endsWith("text")

/** Reads a part in the format of any provider. A part of an unknown type is returned unchanged. */
const readWirePart = (value: Schema.Json): Part => {
  const part = toObject(value)
  if (part === undefined) return makeTextPart(value)
  // The type of a Bedrock part is the name of its property.
  const [use, result] = [toObject(part["toolUse"]), toObject(part["toolResult"])]
  if (use !== undefined) return makeCallPart(use["toolUseId"] ?? "", use["name"] ?? "", use["input"] ?? {})
  if (result !== undefined) return makeResponsePart(result["toolUseId"] ?? "", result["content"] ?? "")
  switch (part["type"]) {
    case "tool_use":
      return makeCallPart(part["id"] ?? "", part["name"] ?? "", part["input"] ?? {})
    case "tool_result":
      return makeResponsePart(part["tool_use_id"] ?? "", part["content"] ?? "")
    case "thinking":
      return { type: "reasoning", content: part["thinking"] ?? "" }
    default:
      return part["text"] !== undefined && isText(part) ? makeTextPart(part["text"]) : { type: "unknown", ...part }
  }
}

const readToolCalls = (value: Schema.Json | undefined): ReadonlyArray<Part> =>
  toList(value).flatMap((one) => {
    const call = toObject(one)
    const inner = toObject(call?.["function"])
    return call === undefined ? [] : [makeCallPart(call["id"] ?? "", inner?.["name"] ?? "", inner?.["arguments"] ?? {})]
  })

const readWireParts = (content: Schema.Json | undefined): ReadonlyArray<Part> =>
  content === undefined || content === null || content === ""
    ? []
    : Array.isArray(content)
      ? toList(content).map(readWirePart)
      : [readWirePart(content)]

const readWireMessage = (value: Schema.Json): ReadonlyArray<Message> => {
  const message = toObject(value)
  if (message === undefined) return [{ role: "user", parts: readWireParts(value) }]
  // Messages of the Responses API are items with a type.
  if (message["type"] === "function_call") {
    return [
      {
        role: "assistant",
        parts: [makeCallPart(message["call_id"] ?? "", message["name"] ?? "", message["arguments"] ?? {})]
      }
    ]
  }
  if (message["type"] === "function_call_output") {
    return [{ role: "tool", parts: [makeResponsePart(message["call_id"] ?? "", message["output"] ?? "")] }]
  }
  const role = typeof message["role"] === "string" ? message["role"] : "user"
  return role === "tool"
    ? [{ role, parts: [makeResponsePart(message["tool_call_id"] ?? "", message["content"] ?? "")] }]
    : [{ role, parts: [...readWireParts(message["content"]), ...readToolCalls(message["tool_calls"])] }]
}

const isSystem = ({ role }: Message): boolean => role === "system" || role === "developer"

/** Parts of the system prompt, and all other messages. */
export interface WireRequest {
  readonly system: ReadonlyArray<Part>
  readonly messages: ReadonlyArray<Message>
}

/** Reads a request in the wire format of a provider. */
export const readRequest = (request: unknown): WireRequest => {
  const body = toObject(toJson(request)) ?? {}
  const given = body["messages"] ?? body["input"]
  const messages = (Array.isArray(given) ? toList(given) : given === undefined ? [] : [given]).flatMap(readWireMessage)
  const system = body["system"] ?? body["instructions"]
  return {
    system: [...readWireParts(system), ...messages.filter(isSystem).flatMap(({ parts }) => parts)],
    messages: messages.filter((message) => !isSystem(message))
  }
}

type AnyPart = Exclude<Prompt.Message["content"], string>[number]

const describeFileSize = (data: Prompt.FilePart["data"]): Fields =>
  data instanceof URL ? { uri: data.protocol === "data:" ? "data:" : data.href } : { size: data.length }

const toParts = (part: AnyPart): ReadonlyArray<Part> => {
  switch (part.type) {
    case "text":
      return part.text === "" ? [] : [makeTextPart(part.text)]
    case "reasoning":
      return part.text === "" ? [] : [{ type: "reasoning", content: part.text }]
    case "file":
      return [
        {
          type: "file",
          modality: part.mediaType.split("/")[0] ?? "",
          mime_type: part.mediaType,
          ...describeFileSize(part.data)
        }
      ]
    case "tool-call":
      // `part.params` was parsed from JSON.
      return [makeCallPart(part.id, part.name, part.params as Schema.Json)]
    case "tool-result":
      return [makeResponsePart(part.id, toJson(part.result))]
    default:
      return [{ type: part.type }]
  }
}

/** Returns a tool result as JSON, with `undefined` as `null`. */
const toJson = (value: unknown): Schema.Json => {
  const said: string | undefined = typeof value === "string" ? undefined : JSON.stringify(value)
  // `said` is valid JSON, so parsing does not fail.
  return typeof value === "string" ? value : said === undefined ? null : (JSON.parse(said) as Schema.Json)
}

/** Converts a message of the record to the form of the conventions. */
export const toMessage = ({ content, role }: Prompt.Message): Message => ({
  role,
  parts: typeof content === "string" ? [makeTextPart(content)] : content.flatMap(toParts)
})

/** Cached JSON text of messages, because requests repeat them. */
const texts = new WeakMap<Prompt.Message, TextPart>()

/** Returns a message as JSON text. For a system prompt, returns only its parts. */
const getMessageText = (message: Prompt.Message): TextPart => {
  const known = texts.get(message)
  if (known !== undefined) return known
  const said = toMessage(message)
  const made = { text: message.role === "system" ? toJsonText(said.parts).slice(1, -1) : toJsonText(said) }
  texts.set(message, made)
  return made
}

/**
 * Maximum number of characters of earlier messages that a request repeats, newest first. Because of this limit, the
 * size of a span does not grow with its session.
 */
export const maxRepeatedChars = 32_768

/** Attributes for the input of an attempt. */
interface Input {
  readonly "gen_ai.input.messages"?: string | JoinedText
  readonly "gen_ai.system_instructions"?: string | JoinedText
  /** Number of earlier messages that are left out. */
  readonly "hermes.input.omitted_messages"?: number
}

/** JSON text of the messages in successive requests. Each request begins with the messages of the previous one. */
interface RepeatedTexts {
  /** Number of messages read so far. */
  read: number
  readonly texts: GrowingParts
  /** Number of characters before each message text, and the total number. */
  readonly chars: Array<number>
  /** Number of message texts up to the last answer. Later ones are new. */
  known: number
  /** Index of the first message text that is shown. */
  first: number
}

const repeated = new WeakMap<ReturnType<SentMessages["messages"]>, RepeatedTexts>()

/** Adds the messages of a request. {@link makeInputAttributes} describes the messages that are shown. */
const updateRepeatedTexts = (messages: ReturnType<SentMessages["messages"]>): RepeatedTexts => {
  const state = repeated.get(messages) ?? { read: 0, texts: makeGrowingParts(), chars: [0], known: 0, first: 0 }
  repeated.set(messages, state)
  const { chars, texts } = state
  for (; state.read < messages.length; state.read++) {
    const message = messages[state.read]
    if (message === undefined || message.role === "system") continue
    const part = getMessageText(message)
    texts.add(part)
    chars.push((chars.at(-1) ?? 0) + part.text.length)
    if (message.role === "assistant") state.known = texts.length()
  }
  const end = chars[state.known] ?? 0
  while (state.first < state.known && end - (chars[state.first] ?? 0) > maxRepeatedChars) state.first++
  return state
}

/**
 * Returns the attributes for the input of an attempt: all messages after the last answer, as many earlier ones as fit
 * into {@link maxRepeatedChars}, and any older message that is new, such as the summary of a compaction. The span of
 * the first attempt that sent a message contains it in full.
 */
export const makeInputAttributes = (sent: SentMessages, rewritten: unknown): Input => {
  if (rewritten !== undefined) {
    const asked = readRequest(rewritten)
    return {
      "gen_ai.input.messages": toJsonText(asked.messages),
      ...(asked.system.length === 0 ? {} : { "gen_ai.system_instructions": toJsonText(asked.system) })
    }
  }
  const system = sent.system.map(getMessageText).filter(({ text }) => text !== "")
  const { first, texts } = updateRepeatedTexts(sent.messages())
  const last = texts.from(first)
  const shown = new Set(sent.fresh.length === 0 ? [] : last.list())
  const before = sent.fresh.map(getMessageText).filter((part) => !shown.has(part))
  const omitted = first - before.length
  return {
    "gen_ai.input.messages": new JoinedText(
      "[",
      before.length === 0 ? last : makeParts([...before, ...last.list()]),
      "]"
    ),
    ...(omitted === 0 ? {} : { "hermes.input.omitted_messages": omitted }),
    ...(system.length === 0 ? {} : { "gen_ai.system_instructions": new JoinedText("[", makeParts(system), "]") })
  }
}

const toAnswerPart = (part: AnswerPart): Part => {
  switch (part.type) {
    case "text":
      return makeTextPart(part.text)
    case "reasoning":
      return { type: "reasoning", content: part.text }
    case "tool-call":
      return makeCallPart(part.id, part.name, toJson(part.params))
    case "file":
      return { type: "file", mime_type: part.mediaType }
  }
}

/** Converts an answer to the form of the conventions. */
export const makeAnswerMessage = (parts: ReadonlyArray<AnswerPart>, finishReason: string): Message => {
  const all = parts.map(toAnswerPart)
  return {
    role: "assistant",
    parts: [...all.filter(({ type }) => type === "reasoning"), ...all.filter(({ type }) => type !== "reasoning")],
    finish_reason: finishReason
  }
}

/** Creates a message that consists only of text. */
export const makePlainMessage = (role: "user" | "assistant", content: string): Message => ({
  role,
  parts: content === "" ? [] : [makeTextPart(content)]
})
