/**
 * Messages of a conversation as chat completions write them.
 *
 * **Details**
 *
 * Each message is converted once for each dialect and kept beside the message object, which never changes. Only fields of
 * the protocol are written: strict endpoints refuse all others (`hermes-llm.md` §4.1).
 *
 * - Several texts of one message are joined by a blank line; a message of text alone has string content, which every
 *   endpoint understands.
 * - A tool message holds text. Images among the results follow in a user message after the last result, because a tool
 *   message can not hold them.
 * - An assistant message of reasoning alone is left out.
 * - `options.chat_completions.cache_control` of a message marks its last part for the prompt cache.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../domain/Json.ts"
import * as Arguments from "../Arguments.ts"
import * as FileData from "../FileData.ts"
import * as Raw from "../Raw.ts"
import type { Dialect } from "./Dialect.ts"
import * as Reasoning from "./Reasoning.ts"

/** A message on the wire. */
export type WireMessage = Raw.Fields
type WirePart = Raw.Fields

/** What one message becomes; `files` wait for the end of a run of tool messages. */
interface Converted {
  readonly messages: ReadonlyArray<WireMessage>
  readonly files: ReadonlyArray<WirePart>
}

const own = (options: Prompt.ProviderOptions): Raw.Fields => Raw.fields(options["chat_completions"])

const textPart = (text: string): WirePart => ({ type: "text", text: text.toWellFormed() })

const audioFormats: Readonly<Record<string, string>> = {
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3"
}

const filePart = (part: Prompt.FilePart): WirePart => {
  const { detail } = own(part.options)
  if (part.mediaType.startsWith("image/")) {
    return { type: "image_url", image_url: { url: FileData.url(part), ...(detail === undefined ? {} : { detail }) } }
  }
  const format = Object.hasOwn(audioFormats, part.mediaType) ? audioFormats[part.mediaType] : undefined
  const bytes = FileData.base64(part)
  if (format !== undefined && bytes !== undefined) {
    return { type: "input_audio", input_audio: { data: bytes, format } }
  }
  if (part.mediaType.startsWith("text/") && bytes !== undefined) return textPart(FileData.text(bytes))
  return { type: "file", file: { filename: part.fileName ?? "file", file_data: FileData.url(part) } }
}

/** Content as text where that is enough, else as parts; the last part carries the mark of the prompt cache. */
const content = (parts: ReadonlyArray<WirePart>, options: Prompt.ProviderOptions): string | ReadonlyArray<WirePart> => {
  const { cache_control } = own(options)
  const last = parts.at(-1)
  if (cache_control !== undefined && last !== undefined) return [...parts.slice(0, -1), { ...last, cache_control }]
  return parts.every((part) => part["type"] === "text") ? parts.map((part) => part["text"]).join("\n\n") : parts
}

const toolCall = (part: Prompt.ToolCallPart, dialect: Dialect): Raw.Fields => {
  const { extra_content } = own(part.options)
  return {
    id: part.id,
    type: "function",
    function: { name: part.name, arguments: Arguments.toText(part.params) },
    ...(dialect.signatures && extra_content !== undefined ? { extra_content } : {})
  }
}

const assistant = (message: Prompt.AssistantMessage, dialect: Dialect): ReadonlyArray<WireMessage> => {
  const texts: Array<WirePart> = []
  const calls: Array<Raw.Fields> = []
  const reasoning: Array<Prompt.ReasoningPart> = []
  for (const part of message.content) {
    if (part.type === "text" && part.text !== "") texts.push(textPart(part.text))
    else if (part.type === "reasoning") reasoning.push(part)
    else if (part.type === "tool-call" && !part.providerExecuted) calls.push(toolCall(part, dialect))
  }
  if (texts.length === 0 && calls.length === 0) return []
  return [{
    role: "assistant",
    content: texts.length === 0 ? null : content(texts, message.options),
    ...Reasoning.replay(reasoning, calls.length > 0, dialect.replay),
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }]
}

const noConversion: Converted = { messages: [], files: [] }

const toolResult = (part: Prompt.ToolResultPart): Converted => {
  const output = part.modelOutput
  const files = output?.filter((item) => item.type === "file") ?? []
  const text = output === undefined
    ? Json.toText(part.result)
    : output.flatMap((item) => item.type === "text" ? [item.text] : []).join("\n")
  return {
    messages: [{
      role: "tool",
      tool_call_id: part.id,
      content: (text === "" && files.length > 0 ? "See the files that follow." : text).toWellFormed()
    }],
    files: files.length === 0 ? [] : [textPart(`Files from the result of ${part.name}:`), ...files.map(filePart)]
  }
}

const tool = (message: Prompt.ToolMessage): Converted => {
  const results = message.content.flatMap((part) => part.type === "tool-result" ? [toolResult(part)] : [])
  const [only] = results
  return only !== undefined && results.length === 1 ? only : {
    messages: results.flatMap((result) => result.messages),
    files: results.flatMap((result) => result.files)
  }
}

const convert = (message: Prompt.Message, dialect: Dialect): Converted => {
  switch (message.role) {
    case "system":
      return {
        messages: [{ role: dialect.systemRole, content: content([textPart(message.content)], message.options) }],
        files: []
      }
    case "user": {
      const parts = message.content.map((part) => part.type === "text" ? textPart(part.text) : filePart(part))
      return parts.length === 0
        ? noConversion
        : { messages: [{ role: "user", content: content(parts, message.options) }], files: [] }
    }
    case "assistant":
      return { messages: assistant(message, dialect), files: [] }
    case "tool":
      return tool(message)
  }
}

const kept = new WeakMap<Dialect, WeakMap<Prompt.Message, Converted>>()

const keptFor = (dialect: Dialect): WeakMap<Prompt.Message, Converted> => {
  const found = kept.get(dialect)
  if (found !== undefined) return found
  const made = new WeakMap<Prompt.Message, Converted>()
  kept.set(dialect, made)
  return made
}

/** The messages of a request. */
export const toWire = (messages: ReadonlyArray<Prompt.Message>, dialect: Dialect): Array<WireMessage> => {
  const known = keptFor(dialect)
  const out: Array<WireMessage> = []
  let files: Array<WirePart> = []
  for (const message of messages) {
    let converted = known.get(message)
    if (converted === undefined) {
      converted = convert(message, dialect)
      known.set(message, converted)
    }
    if (files.length > 0 && message.role !== "tool") {
      out.push({ role: "user", content: files })
      files = []
    }
    out.push(...converted.messages)
    if (converted.files.length > 0) files.push(...converted.files)
  }
  if (files.length > 0) out.push({ role: "user", content: files })
  return out
}
