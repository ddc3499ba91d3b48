/**
 * Other forms of a call, for endpoints that cannot take it as it is. What an endpoint cannot take is remembered with its
 * route, so it is found out once.
 *
 * **Details**
 *
 * An image that is too large is made smaller where it is a PNG (`internal/SmallerPng`), once; another one, or one that cannot
 * be made to fit, is replaced by a note where the user gave it, and not sent where the model made it. An image that is
 * named by its address stays as it is.
 *
 * Source: `hermes-llm.md` §15.5, §16.5 (2, 5).
 */
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall, ToolDefinition } from "../domain/Model.ts"
import * as Result from "effect/Result"
import * as Base64 from "effect/encoding/Base64"
import * as FileData from "../provider/FileData.ts"
import * as SmallerPng from "./internal/SmallerPng.ts"

/** Change of a call; the words follow "send it". */
export type Change =
  | "without_images"
  | "with_smaller_images"
  | "without_reasoning"
  | "without_patterns"
  | "without_stream"

const mapMessages = (call: ModelCall, change: (message: Prompt.Message) => Prompt.Message): ModelCall => ({
  ...call,
  messages: call.messages.map(change)
})

const withoutReasoning = (call: ModelCall): ModelCall =>
  mapMessages(call, (message) =>
    message.role === "assistant" && message.content.some((part) => part.type === "reasoning")
      ? Prompt.assistantMessage({
        content: message.content.filter((part) => part.type !== "reasoning"),
        options: message.options
      })
      : message)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** A schema without `pattern` and `format`, which stay where they are names of properties. */
const plain = (schema: unknown, isProperties: boolean): unknown => {
  if (Array.isArray(schema)) return schema.map((item) => plain(item, false))
  if (!isRecord(schema)) return schema
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (!isProperties && (key === "pattern" || key === "format") && typeof value === "string") continue
    out[key] = plain(value, !isProperties && (key === "properties" || key === "$defs" || key === "definitions"))
  }
  return out
}

const plainTools = new WeakMap<ReadonlyArray<ToolDefinition>, ReadonlyArray<ToolDefinition>>()

const withoutPatterns = (call: ModelCall): ModelCall => {
  let tools = plainTools.get(call.tools)
  if (tools === undefined) {
    // What `plain` leaves of an object schema is an object schema.
    tools = call.tools.map((tool) => ({ ...tool, parameters: plain(tool.parameters, false) as ToolDefinition["parameters"] }))
    plainTools.set(call.tools, tools)
  }
  return { ...call, tools }
}

const changes: Readonly<Record<Change, (call: ModelCall) => ModelCall>> = {
  without_images: (call) => mapMessages(call, withoutImages),
  with_smaller_images: (call) => mapMessages(call, withSmallerImages),
  without_reasoning: withoutReasoning,
  without_patterns: withoutPatterns,
  without_stream: (call) => ({ ...call, stream: false })
}

/** Changes of calls for a route. */
export interface Adaptations {
  readonly changes: ReadonlySet<Change>
  /** The longest answer to ask for. */
  readonly outputCap: number | undefined
  /** Tokens that the model holds. */
  readonly contextWindow: number
}

/** A call as a route can take it. */
export const apply = (call: ModelCall, { changes: wanted, contextWindow, outputCap }: Adaptations): ModelCall => {
  let adapted: ModelCall = { ...call, contextWindow }
  for (const change of wanted) adapted = changes[change](adapted)
  return outputCap === undefined || (call.maxOutputTokens ?? Infinity) <= outputCap
    ? adapted
    : { ...adapted, maxOutputTokens: outputCap }
}

/** Bounds that every known provider takes: 4 MB as they are sent, in base64, and no side that is longer than where many are sent. */
const bounds: SmallerPng.Bounds = { bytes: 3 * 1024 * 1024, side: 2_000 }

const isImage = (part: { readonly type: string }): part is Prompt.FilePart =>
  part.type === "file" && "mediaType" in part && typeof part.mediaType === "string" && part.mediaType.startsWith("image/")

const noteOf = (part: Prompt.FilePart): Prompt.TextPart =>
  Prompt.textPart({ text: `[${part.fileName ?? "image"}: left out, this model cannot take it]` })

/** The bytes of an image that is here and not elsewhere. */
const bytesOf = (part: Prompt.FilePart): Uint8Array | undefined => {
  const { data } = part
  if (data instanceof Uint8Array) return data
  const text = FileData.base64(part)
  return text === undefined ? undefined : Result.getOrUndefined(Base64.decode(text))
}

/** The same image within the bounds; undefined where there is no such. */
const fitting = (part: Prompt.FilePart): Prompt.FilePart | undefined => {
  const bytes = bytesOf(part)
  if (bytes === undefined) return part
  const smaller = SmallerPng.shrink(bytes, bounds)
  if (smaller === undefined) return bytes.byteLength > bounds.bytes ? undefined : part
  return smaller === bytes
    ? part
    : Prompt.filePart({ mediaType: "image/png", data: smaller, fileName: part.fileName, options: part.options })
}

type Fit = (part: Prompt.FilePart) => Prompt.FilePart | undefined

const change = (message: Prompt.Message, fit: Fit): Prompt.Message => {
  if ((message.role !== "user" && message.role !== "assistant") || !message.content.some(isImage)) return message
  return message.role === "user"
    ? Prompt.userMessage({
      content: message.content.map((part) => isImage(part) ? fit(part) ?? noteOf(part) : part),
      options: message.options
    })
    : Prompt.assistantMessage({
      content: message.content.map((part) => isImage(part) ? fit(part) : part).filter((part) => part !== undefined),
      options: message.options
    })
}

const known = new WeakMap<Prompt.Message, Prompt.Message>()

/** Returns the message with images that every provider takes; the same one for the same message. */
export const withSmallerImages = (message: Prompt.Message): Prompt.Message => {
  const before = known.get(message)
  if (before !== undefined) return before
  const made = change(message, fitting)
  known.set(message, made)
  return made
}

/** Returns the message without images. */
export const withoutImages = (message: Prompt.Message): Prompt.Message => change(message, () => undefined)
