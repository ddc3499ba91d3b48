/**
 * Converts contents of the run record (messages, answers, arguments and usage) to the JSON of exported documents,
 * without truncation.
 *
 * Source: `relay-atof-atif.md` §2.3 and §2.9.
 */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import * as Json from "../../base/domain/Json.ts"
import type { AnswerPart } from "../../base/domain/RecordEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as Digest from "../../base/platform/Digest.ts"
import { copyField } from "../../hooks/Sanitizer.ts"
import type * as Atif from "../Atif.ts"
import type { Attempt } from "../RunTree.ts"
import * as MessageText from "./Message.ts"

/** Converts a value of the record to JSON. Only values from middleware may need a conversion. */
export const toJson = (value: unknown): Schema.Json => {
  try {
    const text: string | undefined = JSON.stringify(value)
    // `text` is valid JSON, so parsing does not fail.
    return text === undefined ? null : (JSON.parse(text) as Schema.Json)
  } catch {
    // The value contains a cycle, a bigint or thousands of levels. Such parts are replaced by a marker.
    return copyField(value)
  }
}

/** Cached JSON of values, by the value. */
const sharedForms = new WeakMap<object, Schema.Json>()

/**
 * Converts arguments or a schema of the record to JSON. The result is cached, because several events and documents
 * contain the value. Do not change it.
 */
export const toSharedJson = (value: unknown): Schema.Json => {
  if (typeof value !== "object" || value === null) return toJson(value)
  const known = sharedForms.get(value)
  if (known !== undefined) return known
  const made = toJson(value)
  sharedForms.set(value, made)
  return made
}

/** Returns a tool's output as a string: a string unchanged, any other value as JSON. */
export const toOutputText = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : Json.toText(value)

/**
 * Function that saves an image next to a document and returns its relative path, or `undefined` if the image cannot be
 * saved.
 */
export type Pictures = (mediaType: string, bytes: Uint8Array) => string | undefined

/**
 * Function that does not save images, for documents without image files. An image whose bytes are in the conversation
 * is replaced by a note.
 */
export const omitPicture: Pictures = () => undefined

const decodeFileBytes = (data: Prompt.FilePart["data"]): Uint8Array | undefined => {
  if (data instanceof URL || (typeof data === "string" && /^https?:/u.test(data))) return undefined
  if (typeof data !== "string") return data
  return Result.getOrElse(Base64.decode(data.replace(/^data:[^,]*,/u, "")), () => new TextEncoder().encode(data))
}

const toFilePart = (part: Prompt.FilePart, pictures: Pictures): unknown => {
  const bytes = decodeFileBytes(part.data)
  if (bytes === undefined) return part
  const { mediaType } = part
  const path = MessageText.isPicture(mediaType) ? pictures(mediaType, bytes) : undefined
  return path === undefined
    ? { type: "text", text: `[${mediaType}: ${bytes.length} bytes that are not in this document]` }
    : { type: "image", source: { media_type: mediaType, path } }
}

/**
 * Returns the whole content of a message. An image file is included as an image if it has an address or `pictures` can
 * save it.
 */
export const toContent = (content: Prompt.Message["content"], pictures: Pictures = omitPicture): Atif.Content =>
  typeof content === "string"
    ? content
    : (MessageText.readWholeContent(
        toJson(content.map((part) => (part.type === "file" ? toFilePart(part, pictures) : part)))
      ) ?? "")

/**
 * Describes the images of a message, or of a tool result, whose bytes are in the conversation: media type, size in
 * bytes, SHA-256 digest, and the path if `pictures` can save the image. Without such images, the result is empty.
 */
export const describeImages = (
  content: Prompt.Message["content"] | NonNullable<Prompt.ToolResultPart["modelOutput"]>,
  pictures: Pictures
): { readonly images?: ReadonlyArray<{ readonly [name: string]: Schema.Json }> } => {
  if (typeof content === "string") return {}
  const images = content.flatMap((part) => {
    if (part.type !== "file" || !part.mediaType.startsWith("image/")) return []
    const { data, mediaType } = part
    const bytes = decodeFileBytes(data)
    if (bytes === undefined) return []
    const path = MessageText.isPicture(mediaType) ? pictures(mediaType, bytes) : undefined
    return [
      {
        media_type: mediaType,
        size: bytes.length,
        digest: `sha256:${Digest.toHex(bytes, 64)}`,
        ...(path === undefined ? {} : { path })
      }
    ]
  })
  return images.length === 0 ? {} : { images }
}

/** Text, reasoning and calls of an answer. */
export interface Answer {
  readonly text: Atif.Content
  readonly reasoning: string
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly params: unknown }>
}

/** Returns the answer in a stored message of the model. */
export const readMessageAnswer = (message: Prompt.AssistantMessage): Answer => ({
  text: message.content.some(({ type }) => type === "file")
    ? toContent(message.content.filter(({ type }) => type === "text" || type === "file"))
    : message.content.map((part) => (part.type === "text" ? part.text : "")).join(""),
  reasoning: message.content.flatMap((part) => (part.type === "reasoning" ? [part.text] : [])).join("\n"),
  calls: message.content.flatMap((part) => (part.type === "tool-call" ? [part] : []))
})

/**
 * Lists the calls of an answer with the ids under which they are stored. A call without an id, or with the same id as a
 * previous call, gets a new id.
 */
const listStoredCalls = (parts: ReadonlyArray<AnswerPart>, step: number): Answer["calls"] => {
  const taken = new Set<string>()
  const made = new Set<string>()
  return parts.flatMap((part, index) => {
    if (part.type !== "tool-call") return []
    const { name, params } = part
    const given = part.id === "" ? `call_${step}_${index}` : part.id
    const content = `${name}\n${Json.toText(params)}`
    // A call that occurs twice in one answer is stored only once.
    if (made.has(content)) return [{ id: given, name, params }]
    made.add(content)
    let id = given
    for (let n = 2; taken.has(id); n++) id = `${given}_${n}`
    taken.add(id)
    return [{ id, name, params }]
  })
}

/** Returns the answer that an attempt received. */
export const readPartsAnswer = (parts: ReadonlyArray<AnswerPart>, step: number): Answer => ({
  text: parts
    .flatMap((part) => (part.type === "text" ? [part.text] : part.type === "file" ? [`[${part.mediaType}]`] : []))
    .join(""),
  reasoning: parts.flatMap((part) => (part.type === "reasoning" ? [part.text] : [])).join("\n"),
  calls: listStoredCalls(parts, step)
})

/** Returns the usage and cost of an attempt, if reported. */
export const toMetrics = ({ end }: Attempt): Atif.Metrics | undefined => {
  if (end?.usage === undefined) return undefined
  const { cost, usage } = end
  const extra = {
    ...(usage.reasoningTokens === 0 ? {} : { reasoning_tokens: usage.reasoningTokens }),
    ...(usage.cacheWriteTokens === 0 ? {} : { cache_creation_input_tokens: usage.cacheWriteTokens })
  }
  return {
    prompt_tokens: Usage.countPromptTokens(usage),
    completion_tokens: usage.outputTokens,
    ...(usage.cacheReadTokens === 0 ? {} : { cached_tokens: usage.cacheReadTokens }),
    ...(cost === undefined || cost.status === "unknown" || cost.usd === null ? {} : { cost_usd: cost.usd }),
    ...(Object.keys(extra).length === 0 ? {} : { extra })
  }
}

const finishReasons: Readonly<Record<string, string>> = {
  "tool-calls": "tool_calls",
  "content-filter": "content_filter"
}

/** Returns the finish reason under its name in chat completions. */
export const readFinishReason = ({ end }: Attempt): string | null => {
  const reason = end?.finishReason
  return reason === undefined ? null : (finishReasons[reason] ?? reason)
}

/** Returns a tool result with the images that the model received with it. */
export const renderToolResult = (
  { modelOutput = [], result }: Prompt.ToolResultPart,
  pictures: Pictures = omitPicture
): Atif.Content => {
  const text = toOutputText(result)
  if (!modelOutput.some(({ type }) => type === "file")) return text
  const more = modelOutput.filter((part) => part.type === "file" || !text.includes(part.text))
  return toContent([...(text === "" ? [] : [Prompt.textPart({ text })]), ...more], pictures)
}

/** A call that has ended. */
interface AnsweredCall {
  readonly end: { readonly output?: string } | undefined
  readonly result: Prompt.ToolResultPart | undefined
}

/**
 * Returns the result of a call as the model received it. For a call made by a tool, returns the result as that tool
 * received it.
 */
export const readCallResult = (
  { end, result }: AnsweredCall,
  pictures: Pictures = omitPicture
): Atif.Content | undefined => (result === undefined ? end?.output : renderToolResult(result, pictures))

/** Returns the reasoning effort that a request specifies. */
export const readEffort = ({ start: { parameters } }: Attempt): string | undefined => {
  const named = parameters["reasoning_effort"]
  const nested: unknown = parameters["reasoning"]
  const inside = typeof nested === "object" && nested !== null && "effort" in nested ? nested.effort : undefined
  return typeof named === "string" ? named : typeof inside === "string" ? inside : undefined
}

const fences = /^(?:<(memory|plugin)-context>[\s\S]*?<\/\1-context>\n?)+/u

/**
 * Returns the context that memory and plugins added to a user's message for one request, or `undefined` if the message
 * does not contain any.
 */
export const extractContext = (said: Atif.Content): string | undefined => {
  const first = typeof said === "string" ? said : said[0]?.type === "text" ? said[0].text : undefined
  return first === undefined ? undefined : fences.exec(first)?.[0].trimEnd()
}
