/**
 * Images of a conversation for endpoints that can not take them as they are.
 *
 * **Details**
 *
 * An image that is too large is made smaller where it is a PNG (`internal/SmallerPng`), once; another one, or one that can
 * not be made to fit, is replaced by a note where the user gave it, and not sent where the model made it. An image that is
 * named by its address is not ours to change.
 *
 * Source: `hermes-llm.md` §16.5 (2, 5).
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import * as FileData from "../provider/FileData.ts"
import * as SmallerPng from "./internal/SmallerPng.ts"

/** What every known provider takes: 4 MB as they are sent, in base64, and no side that is longer than where many are sent. */
const bounds: SmallerPng.Bounds = { bytes: 3 * 1024 * 1024, side: 2_000 }

const isImage = (part: { readonly type: string }): part is Prompt.FilePart =>
  part.type === "file" && "mediaType" in part && typeof part.mediaType === "string" && part.mediaType.startsWith("image/")

const noteOf = (part: Prompt.FilePart): Prompt.TextPart =>
  Prompt.textPart({ text: `[${part.fileName ?? "image"}: left out, this model can not take it]` })

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

/** The message with images that every provider takes; the same one for the same message. */
export const smaller = (message: Prompt.Message): Prompt.Message => {
  const before = known.get(message)
  if (before !== undefined) return before
  const made = change(message, fitting)
  known.set(message, made)
  return made
}

/** The message without images. */
export const without = (message: Prompt.Message): Prompt.Message => change(message, () => undefined)
