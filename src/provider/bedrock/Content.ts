/**
 * Texts and files of a prompt as blocks of a Converse request.
 *
 * **Details**
 *
 * Converse takes pictures and documents in place only. What it does not take (a picture by address, an archive) becomes a
 * line that names it, because refusing it would refuse every later request of the conversation too.
 *
 * Source: `hermes-llm.md` §4.4.
 *
 * @since 0.1.0
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../domain/Json.ts"
import * as FileData from "../FileData.ts"
import type * as Wire from "./Wire.ts"

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

/** The bytes of a file that has them in place. */
const bytesOf = (part: Prompt.FilePart): Uint8Array | undefined => {
  if (part.data instanceof Uint8Array) return part.data
  const data = FileData.base64(part)
  return data === undefined ? undefined : Result.getOrUndefined(Base64.decode(data))
}

/** A document's name in the characters that Converse takes. */
const documentName = (fileName: string | undefined): string => {
  const name = (fileName ?? "").replace(/\.[^.]*$/, "").replaceAll(/[^\w\-()[\]]+/g, " ").replaceAll("_", "-").trim()
  return name === "" ? "document" : name
}

const file = (part: Prompt.FilePart): Wire.ContentBlock => {
  const bytes = bytesOf(part)
  const image = imageFormats[part.mediaType]
  const document = documentFormats[part.mediaType]
  if (bytes !== undefined && image !== undefined) return { image: { format: image, source: { bytes } } }
  if (bytes !== undefined && document !== undefined) {
    return { document: { format: document, name: documentName(part.fileName), source: { bytes } } }
  }
  return { text: `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`} omitted]` }
}

/** A text or file; nothing of a blank text. */
export const of = (part: Prompt.TextPart | Prompt.FilePart): ReadonlyArray<Wire.ContentBlock> => {
  if (part.type === "file") return [file(part)]
  return part.text.trim() === "" ? [] : [{ text: part.text.toWellFormed() }]
}

/** What stands for a result without any text. */
export const noOutput = "(no output)"

/** A tool's result: its own form for models where it has one, else its value as text. */
export const toolResult = (part: Prompt.ToolResultPart): ReadonlyArray<Wire.ContentBlock> => {
  const text = part.modelOutput === undefined ? Json.toText(part.result).toWellFormed() : ""
  const blocks = part.modelOutput?.flatMap(of) ?? (text.trim() === "" ? [] : [{ text }])
  return blocks.length === 0 ? [{ text: noOutput }] : blocks
}
