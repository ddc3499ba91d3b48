/**
 * Encodes the messages of a conversation for a Converse request, in the form of the AWS SDK (bytes as `Uint8Array`).
 *
 * **Details**
 *
 * - Converse accepts pictures and documents only as inline bytes. Unsupported content (a picture URL, an archive)
 *   becomes a line with its name, because an error would also prevent every later request of the conversation.
 * - Converse refuses tool blocks in a request without tools. A second dialect for such requests describes calls and
 *   results as text.
 * - Signed and redacted thinking is sent back unchanged; unsigned thinking is never sent. A message without content to
 *   send becomes a single space.
 *
 * Source: `hermes-llm.md` §4.4.
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../../base/domain/Json.ts"
import type { PromptCache } from "../../../base/domain/ModelCall.ts"
import * as BlockMessages from "../BlockMessages.ts"
import * as FileData from "../FileData.ts"
import * as Decode from "./Decode.ts"

// Blocks

/** Text. */
export interface TextBlock {
  readonly text: string
}
/** A picture. */
interface ImageBlock {
  readonly image: { readonly format: string; readonly source: { readonly bytes: Uint8Array } }
}
/** A document. */
interface DocumentBlock {
  readonly document: { readonly format: string; readonly name: string; readonly source: { readonly bytes: Uint8Array } }
}
/** Thinking, either readable or encrypted. */
interface ReasoningBlock {
  readonly reasoningContent:
    | { readonly reasoningText: { readonly text: string; readonly signature?: string } }
    | { readonly redactedContent: Uint8Array }
}
/** A tool call. */
interface ToolUseBlock {
  readonly toolUse: { readonly toolUseId: string; readonly name: string; readonly input: unknown }
}
/** The result of a tool call. */
interface ToolResultBlock {
  readonly toolResult: {
    readonly toolUseId: string
    readonly content: ReadonlyArray<ContentBlock>
    readonly status?: "error"
  }
}
/** Marks the end of a prefix that is stored in the prompt cache. */
interface CachePoint {
  readonly cachePoint: { readonly type: "default"; readonly ttl?: "1h" }
}
/** A text, image or document block. */
type ContentBlock = TextBlock | ImageBlock | DocumentBlock
/** A content block of a message. */
type Block = ContentBlock | ReasoningBlock | ToolUseBlock | ToolResultBlock | CachePoint

/** Creates a cache point with the lifetime that a call requests. */
export const makeCachePoint = ({ ttl }: PromptCache): CachePoint => ({
  cachePoint: ttl === "1h" ? { type: "default", ttl } : { type: "default" }
})

// Parts

const imageFormats: Readonly<Record<string, string>> = {
  "image/png": "png",
  "image/jpeg": "jpeg",
  "image/jpg": "jpeg",
  "image/*": "jpeg",
  "image/gif": "gif",
  "image/webp": "webp"
}

const documentFormats: Readonly<Record<string, string>> = {
  "application/pdf": "pdf",
  "text/plain": "txt",
  "text/markdown": "md",
  "text/csv": "csv",
  "text/html": "html",
  "application/msword": "doc",
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
  "application/vnd.ms-excel": "xls",
  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx"
}

/** Returns the bytes of a file, or `undefined` if the file has no inline content. */
const readBytes = (part: Prompt.FilePart): Uint8Array | undefined => {
  if (part.data instanceof Uint8Array) return part.data
  const data = FileData.readBase64(part)
  return data === undefined ? undefined : Result.getOrUndefined(Base64.decode(data))
}

/** Converts a file name to a document name with only characters that Converse accepts. */
const toDocumentName = (fileName: string | undefined): string => {
  const name = (fileName ?? "")
    .replace(/\.[^.]*$/, "")
    .replaceAll(/[^\w\-()[\]]+/g, " ")
    .replaceAll("_", "-")
    .trim()
  return name === "" ? "document" : name
}

const toFileBlock = (part: Prompt.FilePart): ContentBlock => {
  const bytes = readBytes(part)
  const image = imageFormats[part.mediaType]
  const document = documentFormats[part.mediaType]
  if (bytes !== undefined && image !== undefined) return { image: { format: image, source: { bytes } } }
  if (bytes !== undefined && document !== undefined) {
    return { document: { format: document, name: toDocumentName(part.fileName), source: { bytes } } }
  }
  return { text: `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`} omitted]` }
}

/** Converts a text or file part to blocks. Blank text is omitted. */
const toContentBlocks = (part: Prompt.TextPart | Prompt.FilePart): ReadonlyArray<ContentBlock> => {
  if (part.type === "file") return [toFileBlock(part)]
  return part.text.trim() === "" ? [] : [{ text: part.text.toWellFormed() }]
}

/** Converts the result of a tool call: its model output if present, otherwise its value as text. */
const toResultContent = (part: Prompt.ToolResultPart): ReadonlyArray<ContentBlock> => {
  const text = part.modelOutput === undefined ? Json.toText(part.result).toWellFormed() : ""
  const blocks = part.modelOutput?.flatMap(toContentBlocks) ?? (text.trim() === "" ? [] : [{ text }])
  return blocks.length === 0 ? [{ text: BlockMessages.noOutput }] : blocks
}

// Reasoning

const toReasoningBlocks = (part: Prompt.ReasoningPart): ReadonlyArray<Block> => {
  const redactedContent = Decode.readRedacted(part.options)
  if (redactedContent !== undefined) return [{ reasoningContent: { redactedContent } }]
  const signature = Decode.readSignature(part.options)
  return signature === undefined ? [] : [{ reasoningContent: { reasoningText: { text: part.text, signature } } }]
}

// Messages

/** Encodes tool calls and results as blocks or as text. */
interface Tooling {
  readonly call: (part: Prompt.ToolCallPart) => ReadonlyArray<Block>
  readonly result: (part: Prompt.ToolResultPart) => ReadonlyArray<Block>
}

const space: TextBlock = { text: " " }
const longestId = 64

/** Converts an id to the characters and length that Converse accepts. Only the end of a longer id is used. */
const toWireId = (id: string): string => {
  const clean = id.replaceAll(/[^\w.:-]/g, "_").slice(-longestId)
  return clean === "" ? "tool_0" : clean
}

const asBlocks: Tooling = {
  call: (part) => [
    { toolUse: { toolUseId: toWireId(part.id), name: part.name, input: BlockMessages.toInput(part.params) } }
  ],
  result: (part) => [
    {
      toolResult: {
        toolUseId: toWireId(part.id),
        content: toResultContent(part),
        ...(part.isFailure ? { status: "error" } : {})
      }
    }
  ]
}

const inWords: Tooling = {
  call: (part) => [{ text: `[called ${part.name} with ${JSON.stringify(BlockMessages.toInput(part.params))}]` }],
  result: (part) => [{ text: `[${part.isFailure ? "failure" : "result"} of ${part.name}:]` }, ...toResultContent(part)]
}

const fillWithSpace = (blocks: ReadonlyArray<Block>): ReadonlyArray<Block> => (blocks.length === 0 ? [space] : blocks)

const toAssistantBlocks = (part: Prompt.AssistantMessagePart, tooling: Tooling): ReadonlyArray<Block> => {
  switch (part.type) {
    case "reasoning":
      return toReasoningBlocks(part)
    case "text":
      return toContentBlocks(part)
    case "file":
      return [{ text: `[${part.mediaType} omitted]` }]
    case "tool-call":
      return part.providerExecuted ? [] : tooling.call(part)
    default:
      return []
  }
}

const makeDialect = (tooling: Tooling): BlockMessages.Dialect<Block> => ({
  convert: BlockMessages.rememberConversions((message) => {
    switch (message.role) {
      case "user":
        return { role: "user", content: fillWithSpace(message.content.flatMap(toContentBlocks)) }
      case "tool":
        return {
          role: "user",
          content: message.content.flatMap((part) =>
            part.type === "tool-result" && !part.providerExecuted ? tooling.result(part) : []
          )
        }
      case "assistant":
        return {
          role: "assistant",
          content: fillWithSpace(message.content.flatMap((part) => toAssistantBlocks(part, tooling)))
        }
    }
  }),
  isCall: (block) => "toolUse" in block,
  isThinking: (block) => "reasoningContent" in block,
  mark: (blocks) => blocks
})

/** Creates the dialect for requests that define tools. */
export const makeToolDialect = (): BlockMessages.Dialect<Block> => makeDialect(asBlocks)

/** Creates the dialect for requests without tools. */
export const makePlainDialect = (): BlockMessages.Dialect<Block> => makeDialect(inWords)

export type Message = BlockMessages.Message<Block>

/** Tests for a user message with more than results of calls, which opens a turn. */
export const opensTurn = ({ content, role }: Message): boolean =>
  role === "user" && content.some((block) => !("toolResult" in block) && !("cachePoint" in block))

const filler: Message = { role: "user", content: [space] }

/**
 * Appends a placeholder message if the last message is not from the user. The history stage ensures that the first
 * message is from the user.
 */
export const endWithUserMessage = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  messages.at(-1)?.role === "user" ? messages : [...messages, filler]
