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
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../domain/Json.ts"
import * as FileData from "../FileData.ts"
import * as Wire from "./Wire.ts"

/** A text, picture or document. */
export type ContentBlock = Wire.TextBlock | Wire.ImageBlock | Wire.DocumentBlock

const none: ReadonlyArray<never> = []

const source = (part: Prompt.FilePart, mediaType: string): Wire.Source => {
  const data = FileData.base64(part)
  return data === undefined
    ? { type: "url", url: FileData.url(part) }
    : { type: "base64", media_type: mediaType, data }
}

const textSource = (part: Prompt.FilePart): Wire.Source => {
  const data = FileData.base64(part)
  return data === undefined
    ? { type: "url", url: FileData.url(part) }
    : { type: "text", media_type: "text/plain", data: FileData.text(data) }
}

const file = (part: Prompt.FilePart): ContentBlock => {
  const title = part.fileName === undefined ? {} : { title: part.fileName }
  const { mediaType } = part
  if (mediaType.startsWith("image/")) {
    return { type: "image", source: source(part, mediaType === "image/*" ? "image/jpeg" : mediaType) }
  }
  if (mediaType === "application/pdf") return { type: "document", source: source(part, mediaType), ...title }
  if (mediaType.startsWith("text/")) return { type: "document", source: textSource(part), ...title }
  return { type: "text", text: `[${mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`} omitted]` }
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
