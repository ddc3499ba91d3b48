/**
 * Texts and files of a prompt as blocks of a Messages request.
 *
 * **Details**
 *
 * The API refuses blank text and half surrogate pairs: the one is left out, the others are replaced. Pictures, PDFs and
 * text files are sent; a file of any other kind becomes a line that names it, because refusing it would refuse every
 * later request of the conversation too.
 *
 * Source: `hermes-llm.md` §4.2.
 *
 * @since 0.1.0
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../domain/Json.ts"
import * as Wire from "./Wire.ts"

/** A text, picture or document. */
export type ContentBlock = Wire.TextBlock | Wire.ImageBlock | Wire.DocumentBlock

const none: ReadonlyArray<never> = []

const isWebAddress = (address: string): boolean => /^https?:\/\//i.test(address)

const source = (data: Prompt.FilePart["data"], mediaType: string): Wire.Source => {
  if (data instanceof Uint8Array) return { type: "base64", media_type: mediaType, data: Base64.encode(data) }
  const address = typeof data === "string" ? data : data.href
  if (isWebAddress(address)) return { type: "url", url: address }
  const inline = /^data:([^;,]*)[^,]*;base64,/i.exec(address)
  return inline === null
    ? { type: "base64", media_type: mediaType, data: address }
    : { type: "base64", media_type: inline[1] || mediaType, data: address.slice(inline[0].length) }
}

const plainText = (data: Wire.Source): Wire.Source =>
  data.type === "base64"
    ? {
      type: "text",
      media_type: "text/plain",
      data: Result.getOrElse(Base64.decodeString(data.data), () => data.data)
    }
    : data

const file = (part: Prompt.FilePart): ContentBlock => {
  const title = part.fileName === undefined ? {} : { title: part.fileName }
  if (part.mediaType.startsWith("image/")) {
    const mediaType = part.mediaType === "image/*" ? "image/jpeg" : part.mediaType
    return { type: "image", source: source(part.data, mediaType) }
  }
  if (part.mediaType === "application/pdf") {
    return { type: "document", source: source(part.data, part.mediaType), ...title }
  }
  if (part.mediaType.startsWith("text/")) {
    return { type: "document", source: plainText(source(part.data, part.mediaType)), ...title }
  }
  return { type: "text", text: `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`} omitted]` }
}

const withMarker = (block: ContentBlock, options: Prompt.ProviderOptions): ContentBlock => {
  const marker = Wire.cacheControl(options)
  return marker === undefined ? block : { ...block, cache_control: marker }
}

/** A text or file; nothing of a blank text. */
export const of = (part: Prompt.TextPart | Prompt.FilePart): ReadonlyArray<ContentBlock> => {
  if (part.type === "file") return [withMarker(file(part), part.options)]
  return part.text.trim() === "" ? none : [withMarker({ type: "text", text: part.text.toWellFormed() }, part.options)]
}

/** What stands for a result without any text. */
export const noOutput = "(no output)"

/** A tool's result: its own form for models where it has one, else its value as text. */
export const toolResult = (part: Prompt.ToolResultPart): Wire.ToolResultBlock["content"] => {
  if (part.modelOutput === undefined) {
    const text = Json.toText(part.result).toWellFormed()
    return text.trim() === "" ? noOutput : text
  }
  const blocks = part.modelOutput.flatMap(of)
  return blocks.length === 0 ? noOutput : blocks
}
