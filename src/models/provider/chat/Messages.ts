/**
 * Encodes the messages of a conversation for chat completions.
 *
 * **Details**
 *
 * Each message is converted once for each endpoint and cached by the message object, which never changes. Only fields
 * of the protocol are sent, because strict endpoints refuse all others (`hermes-llm.md` §4.1).
 *
 * - Several text parts of one message are joined by a blank line. A message that contains only text has string content,
 *   which every endpoint understands. On a route that takes cache marks, messages that may carry a mark have their text
 *   in a part instead, so that their bytes are the same with and without a mark.
 * - A tool message can contain only text. Images in tool results follow in a user message after the last result,
 *   because a tool message cannot contain them.
 * - `options.chat_completions.cache_control` of a message marks its last part for the prompt cache.
 * - A reasoning part is sent back as its metadata specifies; see `Decode`.
 *
 * Source: `hermes-llm.md` §4.1, §14.5.
 */
import { memoize } from "effect/Function"
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../../base/domain/GrowingList.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as CacheMarks from "../CacheMarks.ts"
import type { CacheControl } from "../CacheMarks.ts"
import * as FileData from "../FileData.ts"
import * as ToolCallWire from "../ToolCallWire.ts"
import { anyOrigin, type Endpoint } from "./Endpoint.ts"

// Parts

/** A message in the format of the API. */
export type WireMessage = Json.Fields
type WirePart = Json.Fields

/** Result of encoding one message. `files` is sent after the last of several consecutive tool messages. */
interface ConvertedMessage {
  readonly messages: ReadonlyArray<WireMessage>
  readonly files: ReadonlyArray<WirePart>
}

const readOwnOptions = (options: Prompt.ProviderOptions): Json.Fields => Json.readFields(options["chat_completions"])

const toTextPart = (text: string): WirePart => ({ type: "text", text: text.toWellFormed() })

const audioFormats: Readonly<Record<string, string>> = {
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3"
}

const toFilePart = (part: Prompt.FilePart): WirePart => {
  const { detail } = readOwnOptions(part.options)
  if (part.mediaType.startsWith("image/")) {
    return { type: "image_url", image_url: { url: FileData.toUrl(part), ...(detail === undefined ? {} : { detail }) } }
  }
  const format = Object.hasOwn(audioFormats, part.mediaType) ? audioFormats[part.mediaType] : undefined
  const bytes = FileData.readBase64(part)
  if (format !== undefined && bytes !== undefined) {
    return { type: "input_audio", input_audio: { data: bytes, format } }
  }
  if (part.mediaType.startsWith("text/") && bytes !== undefined) return toTextPart(FileData.decodeText(bytes))
  return { type: "file", file: { filename: part.fileName ?? "file", file_data: FileData.toUrl(part) } }
}

/** Form of messages with text only: a string, or a part that may carry a cache mark. */
export type TextForm = "string" | "part"

/**
 * Returns content as a string if possible and wanted, otherwise as parts. A prompt cache mark is set on the last part.
 */
const toContent = (
  parts: ReadonlyArray<WirePart>,
  options: Prompt.ProviderOptions,
  form: TextForm
): string | ReadonlyArray<WirePart> => {
  const { cache_control } = readOwnOptions(options)
  const last = parts.at(-1)
  if (cache_control !== undefined && last !== undefined) return [...parts.slice(0, -1), { ...last, cache_control }]
  if (!parts.every((part) => part["type"] === "text")) return parts
  const text = parts.map((part) => part["text"]).join("\n\n")
  return form === "string" ? text : [toTextPart(text)]
}

// Reasoning

/** Returns `reasoning_content` as the endpoint sent it, or `undefined` if the reasoning was sent in another field. */
const readReasoningContent = (parts: ReadonlyArray<Prompt.ReasoningPart>): string | undefined => {
  let found: string | undefined
  for (const part of parts) {
    const content = readOwnOptions(part.options)["reasoning_content"]
    const text = content === true ? part.text : Json.readString(content)
    if (text !== undefined) found = (found ?? "") + text
  }
  return found
}

const chooseReasoningContent = (
  parts: ReadonlyArray<Prompt.ReasoningPart>,
  hasCalls: boolean,
  required: boolean
): string | undefined => {
  const content = readReasoningContent(parts)
  if (content !== undefined) return content === "" && required ? " " : content
  // Another provider's reasoning before a tool call is not valid here, so a placeholder is sent.
  if (required && hasCalls) return " "
  const text = parts
    .map((part) => part.text)
    .filter((text) => text !== "")
    .join("\n\n")
  return text !== "" ? text : required ? " " : undefined
}

/** Creates the fields of an assistant message that send its reasoning back to the provider. */
const makeReasoningFields = (
  parts: ReadonlyArray<Prompt.ReasoningPart>,
  hasCalls: boolean,
  rule: Endpoint["replay"]
): Json.Fields => {
  if (rule.content !== "required" && parts.length === 0) return {}
  const details = rule.details
    ? parts.flatMap((part) => Json.readItems(readOwnOptions(part.options)["reasoning_details"]))
    : []
  const required = rule.content === "required"
  const content =
    rule.content === "never" || (details.length > 0 && !required)
      ? undefined
      : chooseReasoningContent(parts, hasCalls, required)
  return {
    ...(content === undefined ? {} : { reasoning_content: content.toWellFormed() }),
    ...(details.length === 0 ? {} : { reasoning_details: details })
  }
}

// Messages

const toWireCall = (part: Prompt.ToolCallPart, endpoint: Endpoint): Json.Fields => {
  const { extra_content, origin } = readOwnOptions(part.options)
  const isWanted = endpoint.signatures || origin === endpoint.origin || origin === anyOrigin
  return {
    id: part.id,
    type: "function",
    function: { name: part.name, arguments: ToolCallWire.toText(part.params) },
    ...(isWanted && extra_content !== undefined ? { extra_content } : {})
  }
}

const convertAssistant = (message: Prompt.AssistantMessage, endpoint: Endpoint): ReadonlyArray<WireMessage> => {
  const texts: Array<WirePart> = []
  const calls: Array<Json.Fields> = []
  const thoughts: Array<Prompt.ReasoningPart> = []
  for (const part of message.content) {
    if (part.type === "text" && part.text !== "") texts.push(toTextPart(part.text))
    else if (part.type === "reasoning") thoughts.push(part)
    else if (part.type === "tool-call" && !part.providerExecuted) calls.push(toWireCall(part, endpoint))
  }
  if (texts.length === 0 && calls.length === 0) return []
  return [
    {
      role: "assistant",
      content: texts.length === 0 ? null : toContent(texts, message.options, "string"),
      ...makeReasoningFields(thoughts, calls.length > 0, endpoint.replay),
      ...(calls.length === 0 ? {} : { tool_calls: calls })
    }
  ]
}

const noConversion: ConvertedMessage = { messages: [], files: [] }

const convertToolResult = (part: Prompt.ToolResultPart, form: TextForm): ConvertedMessage => {
  const output = part.modelOutput
  const files = output?.filter((item) => item.type === "file") ?? []
  const text =
    output === undefined
      ? Json.toText(part.result)
      : output.flatMap((item) => (item.type === "text" ? [item.text] : [])).join("\n")
  const content = (text === "" && files.length > 0 ? "See the files that follow." : text).toWellFormed()
  return {
    messages: [
      {
        role: "tool",
        tool_call_id: part.id,
        content: form === "string" || content === "" ? content : [toTextPart(content)]
      }
    ],
    files: files.length === 0 ? [] : [toTextPart(`Files from the result of ${part.name}:`), ...files.map(toFilePart)]
  }
}

const convertToolMessage = (message: Prompt.ToolMessage, form: TextForm): ConvertedMessage => {
  const results = message.content.flatMap((part) =>
    part.type === "tool-result" ? [convertToolResult(part, form)] : []
  )
  const [only] = results
  return only !== undefined && results.length === 1
    ? only
    : { messages: results.flatMap((result) => result.messages), files: results.flatMap((result) => result.files) }
}

const convertMessage = (message: Prompt.Message, endpoint: Endpoint, form: TextForm): ConvertedMessage => {
  switch (message.role) {
    case "system":
      return {
        messages: [
          { role: endpoint.systemRole, content: toContent([toTextPart(message.content)], message.options, form) }
        ],
        files: []
      }
    case "user": {
      const parts = message.content.map((part) => (part.type === "text" ? toTextPart(part.text) : toFilePart(part)))
      return parts.length === 0
        ? noConversion
        : { messages: [{ role: "user", content: toContent(parts, message.options, form) }], files: [] }
    }
    case "assistant":
      return { messages: convertAssistant(message, endpoint), files: [] }
    case "tool":
      return convertToolMessage(message, form)
  }
}

/**
 * The messages of a request that have been encoded so far. `files` is sent after the last of several consecutive tool
 * messages.
 */
interface Wire {
  readonly out: Array<WireMessage>
  files: ReadonlyArray<WirePart>
}

/** Encoded messages created by this module, which never change. */
const converted = new WeakSet<WireMessage>()

const longestKept = 4_096

/** Number of messages whose JSON is joined into one string. */
const together = 16

/**
 * The JSON of a conversation. Several short messages share one string. A long message is serialized for each request,
 * so that its text is not stored twice.
 */
interface WrittenConversation {
  readonly pieces: Array<string | WireMessage>
  /** JSON of the newest messages, which have not been joined yet. */
  open: Array<string>
  /** Number of messages in the conversation. */
  count: number
}

/**
 * Cached JSON of messages. A fold adds a new message first to a copy of its state and later to the state itself, so
 * each message is needed twice.
 */
const writtenOnce = new WeakMap<WireMessage, string>()

const stringifyMessage = (message: WireMessage): string => {
  const known = writtenOnce.get(message)
  if (known !== undefined) {
    writtenOnce.delete(message)
    return known
  }
  const text = JSON.stringify(message)
  if (text.length <= longestKept) writtenOnce.set(message, text)
  return text
}

/** Immutable values of requests, with their JSON after the first use. */
const constants = new WeakMap<object, { text: string | undefined }>()

/** Marks a value as immutable, so that it is serialized only once. */
export const markConstant = <A extends object>(value: A): A => {
  constants.set(value, { text: undefined })
  return value
}

const stringifyMember = (value: unknown): string | undefined => {
  const known = typeof value === "object" && value !== null ? constants.get(value) : undefined
  return known === undefined ? JSON.stringify(value) : (known.text ??= JSON.stringify(value))
}

const closeGroup = (written: WrittenConversation): void => {
  if (written.open.length === 0) return
  written.pieces.push(written.open.join(","))
  written.open = []
}

const getWritten = GrowingList.fold<WireMessage, WrittenConversation>({
  begin: () => ({ pieces: [], open: [], count: 0 }),
  add: (written, message) => {
    if (!Json.isFields(message)) return
    written.count++
    const text = converted.has(message) ? stringifyMessage(message) : undefined
    if (text === undefined || text.length > longestKept) {
      closeGroup(written)
      written.pieces.push(message)
    } else if (written.open.push(text) === together) closeGroup(written)
  },
  copy: ({ count, open, pieces }) => ({ pieces: pieces.slice(), open: open.slice(), count })
})

/** Adds the items of a list whose `[` has already been added. */
const addList = (out: Array<string>, texts: ReadonlyArray<string>): void => {
  for (const text of texts) {
    if (out.at(-1) !== "[") out.push(",")
    out.push(text)
  }
}

const addMessages = (out: Array<string>, messages: ReadonlyArray<unknown>): void => {
  // The fold processes only new items and counts the messages. The first item is checked to see whether the list
  // contains messages.
  const { count, open, pieces } = getWritten(Json.isFields(messages[0]) ? (messages as ReadonlyArray<WireMessage>) : [])
  // Messages of a request that this module did not build are serialized unchanged.
  if (count !== messages.length) return void out.push(JSON.stringify(messages))
  out.push("[")
  addList(
    out,
    pieces.map((piece) => (typeof piece === "string" ? piece : JSON.stringify(piece)))
  )
  addList(out, open)
  out.push("]")
}

/**
 * Returns the JSON of a request. Messages that an earlier request had at the same position are not serialized again.
 */
export const stringifyBody = (body: Json.Fields): string => {
  // The pieces are joined once, at the end.
  const out: Array<string> = []
  for (const name of Object.keys(body)) {
    const value = body[name]
    const isConversation = name === "messages" && Array.isArray(value)
    const text = isConversation ? "" : stringifyMember(value)
    if (text === undefined) continue
    out.push(out.length === 0 ? "{" : ",", JSON.stringify(name), ":")
    if (isConversation) addMessages(out, value)
    else out.push(text)
  }
  out.push(out.length === 0 ? "{}" : "}")
  return out.join("")
}

const makeWriter = (endpoint: Endpoint, form: TextForm): ((messages: ReadonlyArray<Prompt.Message>) => Wire) => {
  // The fold holds the encoded messages while their conversation is in use.
  const known = new WeakMap<Prompt.Message, WeakRef<ReturnType<typeof convertMessage>>>()
  const getConverted = (message: Prompt.Message) => {
    const before = known.get(message)?.deref()
    if (before !== undefined) return before
    const made = convertMessage(message, endpoint, form)
    for (const one of made.messages) converted.add(one)
    known.set(message, new WeakRef(made))
    return made
  }
  return GrowingList.fold<Prompt.Message, Wire>({
    begin: () => ({ out: [], files: [] }),
    add: (wire, message) => {
      const { files, messages } = getConverted(message)
      if (wire.files.length > 0 && message.role !== "tool") {
        wire.out.push({ role: "user", content: wire.files })
        wire.files = []
      }
      wire.out.push(...messages)
      if (files.length > 0) wire.files = [...wire.files, ...files]
    },
    copy: ({ files, out }) => ({ out: out.slice(), files })
  })
}

const getWriters = memoize((endpoint: Endpoint) => ({
  string: makeWriter(endpoint, "string"),
  part: makeWriter(endpoint, "part")
}))

/**
 * Adds a cache mark to the last part of a message. Returns `undefined` for an answer, whose text is a string, and for a
 * message without content.
 */
const markMessage = (message: WireMessage, marker: CacheControl): WireMessage | undefined => {
  const { content, role } = message
  if (role === "assistant" || content === null || content === "") return undefined
  const parts = typeof content === "string" ? [toTextPart(content)] : Json.readItems(content)
  return {
    ...message,
    content: [...parts.slice(0, -1), { ...Json.readFields(parts.at(-1)), cache_control: { ...marker } }]
  }
}

/**
 * Adds prompt cache marks to a conversation; see `CacheMarks`. Tools get no marks, because they are cached with the
 * system prompt.
 */
export const markForCache = (
  messages: ReadonlyArray<WireMessage>,
  marker: CacheControl,
  hasTools: boolean
): ReadonlyArray<WireMessage> => {
  const [first, ...rest] = messages
  const hasSystem = first !== undefined && first["role"] !== "user" && first["role"] !== "assistant"
  const system = hasSystem ? markMessage(first, marker) : undefined
  const written = CacheMarks.markConversation<WireMessage>(
    hasSystem ? rest : messages,
    { before: system === undefined ? 0 : 1, hasTools },
    (message) => markMessage(message, marker)
  )
  return hasSystem ? [system ?? first, ...written] : written
}

/** Encodes the messages of a request. */
export const toWire = (
  messages: ReadonlyArray<Prompt.Message>,
  endpoint: Endpoint,
  form: TextForm
): Array<WireMessage> => {
  const { files, out } = getWriters(endpoint)[form](messages)
  if (files.length > 0) out.push({ role: "user", content: files })
  return out
}
