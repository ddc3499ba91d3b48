/**
 * Encodes the messages of a conversation for a Messages request.
 *
 * **Details**
 *
 * - The API refuses blank text, which is omitted, and lone surrogates, which are replaced. A message that has no
 *   content to send gets a short placeholder, because the API refuses empty messages.
 * - Pictures, PDFs and text files are sent. A file of any other kind becomes a line with its name, because an error
 *   would also prevent every later request of the conversation.
 * - Signed and redacted thinking is sent back unchanged. Unsigned thinking is sent as text to models that get only the
 *   thinking of the current tool loop. It is omitted for models that get all thinking, because it may be of another
 *   model.
 * - `options.anthropic_messages.cache_control` of a message or part sets a prompt cache breakpoint after it. A
 *   message's breakpoint is set on its last block that supports breakpoints. Thinking blocks do not support them.
 *
 * Source: `hermes-llm.md` §4.2, §14.5.
 */
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import type * as Schema from "effect/Schema"
import * as Json from "../../../base/domain/Json.ts"
import * as BlockMessages from "../BlockMessages.ts"
import type * as CacheMarks from "../CacheMarks.ts"
import * as FileData from "../FileData.ts"
import * as Decode from "./Decode.ts"
import type * as Endpoint from "./Endpoint.ts"

// Blocks

/** A cache breakpoint, `{ type: "ephemeral" }` with an optional `ttl`. It is passed on unchanged. */
type CacheControl = CacheMarks.CacheControl | Readonly<Record<string, Schema.Json>>

interface Cacheable {
  readonly cache_control?: CacheControl
}

/** A text block, for any role. */
export interface TextBlock extends Cacheable {
  readonly type: "text"
  readonly text: string
}
/** Source of a picture or document: its content or its URL. */
type Source =
  | { readonly type: "base64"; readonly media_type: string; readonly data: string }
  | { readonly type: "url"; readonly url: string }
  | { readonly type: "text"; readonly media_type: "text/plain"; readonly data: string }
/** A picture. */
interface ImageBlock extends Cacheable {
  readonly type: "image"
  readonly source: Source
}
/** A PDF or a text file. */
interface DocumentBlock extends Cacheable {
  readonly type: "document"
  readonly source: Source
  readonly title?: string
}
/** Thinking signed by the API. */
interface ThinkingBlock {
  readonly type: "thinking"
  readonly thinking: string
  readonly signature: string
}
/** Thinking encrypted by the API. */
interface RedactedBlock {
  readonly type: "redacted_thinking"
  readonly data: string
}
/** A tool call. */
interface ToolUseBlock extends Cacheable {
  readonly type: "tool_use"
  readonly id: string
  readonly name: string
  readonly input: Readonly<Record<string, unknown>>
}
/** The result of a tool call. */
interface ToolResultBlock extends Cacheable {
  readonly type: "tool_result"
  readonly tool_use_id: string
  readonly content: string | ReadonlyArray<TextBlock | ImageBlock | DocumentBlock>
  readonly is_error?: true
}
/** A content block of a message. */
export type Block =
  | TextBlock
  | ImageBlock
  | DocumentBlock
  | ThinkingBlock
  | RedactedBlock
  | ToolUseBlock
  | ToolResultBlock

/** Returns the cache breakpoint of a message or part, or `undefined`. */
export const readCacheControl = (options: Prompt.ProviderOptions): CacheControl | undefined => {
  const marker = Decode.readOwnData(options)["cache_control"]
  // The cast is safe: a JSON value that is an object and not an array is a record of JSON values.
  return Predicate.isObject(marker) ? (marker as CacheControl) : undefined
}

// Parts

/** A text, image or document block. */
type ContentBlock = TextBlock | ImageBlock | DocumentBlock

const none: ReadonlyArray<never> = []

const toSource = (part: Prompt.FilePart, mediaType: string): Source => {
  const data = FileData.readBase64(part)
  return data === undefined
    ? { type: "url", url: FileData.toUrl(part) }
    : { type: "base64", media_type: mediaType, data }
}

const toTextSource = (part: Prompt.FilePart): Source => {
  const data = FileData.readBase64(part)
  return data === undefined
    ? { type: "url", url: FileData.toUrl(part) }
    : { type: "text", media_type: "text/plain", data: FileData.decodeText(data) }
}

const toFileBlock = (part: Prompt.FilePart): ContentBlock => {
  const title = part.fileName === undefined ? {} : { title: part.fileName }
  const { mediaType } = part
  if (mediaType.startsWith("image/")) {
    return { type: "image", source: toSource(part, mediaType === "image/*" ? "image/jpeg" : mediaType) }
  }
  if (mediaType === "application/pdf") return { type: "document", source: toSource(part, mediaType), ...title }
  if (mediaType.startsWith("text/")) return { type: "document", source: toTextSource(part), ...title }
  return { type: "text", text: `[${mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`} omitted]` }
}

const addMarker = <B extends Exclude<Block, ThinkingBlock | RedactedBlock>>(
  block: B,
  options: Prompt.ProviderOptions
): B => {
  const marker = readCacheControl(options)
  return marker === undefined ? block : { ...block, cache_control: marker }
}

/** Converts a text or file part to blocks. Blank text is omitted. */
const toContentBlocks = (part: Prompt.TextPart | Prompt.FilePart): ReadonlyArray<ContentBlock> => {
  if (part.type === "file") return [addMarker(toFileBlock(part), part.options)]
  return part.text.trim() === "" ? none : [addMarker({ type: "text", text: part.text.toWellFormed() }, part.options)]
}

/** Converts the result of a tool call: its model output if present, otherwise its value as text. */
const toResultContent = (part: Prompt.ToolResultPart): ToolResultBlock["content"] => {
  if (part.modelOutput === undefined) {
    const text = Json.toText(part.result).toWellFormed()
    return text.trim() === "" ? BlockMessages.noOutput : text
  }
  const blocks = part.modelOutput.flatMap(toContentBlocks)
  return blocks.length === 0 ? BlockMessages.noOutput : blocks
}

// Reasoning

/** Form of thinking without a signature. */
type Unsigned = "text" | "omitted"

const toThinkingBlocks = (part: Prompt.ReasoningPart, unsigned: Unsigned): ReadonlyArray<Block> => {
  const data = Decode.readRedacted(part.options)
  if (data !== undefined) return [{ type: "redacted_thinking", data }]
  const signature = Decode.readSignature(part.options)
  if (signature !== undefined) return [{ type: "thinking", thinking: part.text, signature }]
  return unsigned === "omitted" || part.text.trim() === "" ? [] : [{ type: "text", text: part.text.toWellFormed() }]
}

// Messages

/** Placeholder text for a message without content that can be sent. */
const placeholder = { user: "(empty message)", assistant: "(empty)" }

export type Message = BlockMessages.Message<Block>

const orPlaceholder = (role: Message["role"], blocks: ReadonlyArray<Block>): Message => ({
  role,
  content: blocks.length === 0 ? [{ type: "text", text: placeholder[role] }] : blocks
})

/** Returns an id that contains only letters, digits, `_` and `-`, as the API requires. */
const toWireId = (id: string): string => {
  const clean = id.replaceAll(/[^\w-]/g, "_")
  return clean === "" ? "tool_0" : clean
}

const toResultBlocks = (message: Prompt.ToolMessage): ReadonlyArray<Block> =>
  message.content.flatMap((part): ReadonlyArray<Block> =>
    part.type !== "tool-result" || part.providerExecuted
      ? []
      : [
          addMarker(
            {
              type: "tool_result",
              tool_use_id: toWireId(part.id),
              content: toResultContent(part),
              ...(part.isFailure ? { is_error: true } : {})
            },
            part.options
          )
        ]
  )

const toAssistantBlocks = (
  part: Prompt.AssistantMessagePart,
  names: Endpoint.ToolNames,
  unsigned: Unsigned
): ReadonlyArray<Block> => {
  switch (part.type) {
    case "reasoning":
      return toThinkingBlocks(part, unsigned)
    case "text":
      return toContentBlocks(part)
    case "file":
      return [{ type: "text", text: `[${part.mediaType} omitted]` }]
    case "tool-call":
      return part.providerExecuted
        ? none
        : [
            addMarker(
              {
                type: "tool_use",
                id: toWireId(part.id),
                name: names.toWire(part.name),
                input: BlockMessages.toInput(part.params)
              },
              part.options
            )
          ]
    default:
      return none
  }
}

const isThinking = (block: Block): block is ThinkingBlock | RedactedBlock =>
  block.type === "thinking" || block.type === "redacted_thinking"

const markLast = (blocks: ReadonlyArray<Block>, marker: CacheControl): ReadonlyArray<Block> | undefined => {
  const at = blocks.findLastIndex((block) => !isThinking(block))
  const block = blocks[at]
  return block !== undefined && !isThinking(block) ? blocks.with(at, { ...block, cache_control: marker }) : undefined
}

/** Tests for a user message with more than results of calls, which opens a turn. */
export const opensTurn = ({ content, role }: Message): boolean =>
  role === "user" && content.some((block) => block.type !== "tool_result")

/**
 * Adds a cache mark to the last block of a message that supports one. Returns `undefined` if there is no such block.
 */
export const addCacheControl = (message: Message, marker: CacheControl): Message | undefined => {
  const content = markLast(message.content, marker)
  return content === undefined ? undefined : { ...message, content }
}

const markMessage = (blocks: ReadonlyArray<Block>, message: BlockMessages.Turn): ReadonlyArray<Block> => {
  const marker = readCacheControl(message.options)
  return marker === undefined ? blocks : (markLast(blocks, marker) ?? blocks)
}

/** Creates the operations on the blocks of this protocol. */
export const makeDialect = (names: Endpoint.ToolNames, unsigned: Unsigned): BlockMessages.Dialect<Block> => ({
  convert: BlockMessages.rememberConversions((message) => {
    switch (message.role) {
      case "user":
        return orPlaceholder("user", message.content.flatMap(toContentBlocks))
      case "tool":
        return { role: "user", content: toResultBlocks(message) }
      case "assistant":
        return orPlaceholder(
          "assistant",
          message.content.flatMap((part) => toAssistantBlocks(part, names, unsigned))
        )
    }
  }),
  isCall: (block) => block.type === "tool_use",
  isThinking,
  mark: markMessage
})
