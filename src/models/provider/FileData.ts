/**
 * Encodes file contents for the OpenAI protocols.
 *
 * **Details**
 *
 * `data` of a file part is bytes, a `URL`, or a string: a URL, a data URL or base64.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"

const isAddress = (text: string): boolean => /^(https?|data):/i.test(text)

/** Returns the content of a file in base64, or `undefined` if the file is only a remote URL. */
export const readBase64 = (part: Prompt.FilePart): string | undefined => {
  const { data } = part
  if (data instanceof URL) return extractBase64(data.href)
  if (typeof data !== "string") return Base64.encode(data)
  return isAddress(data) ? extractBase64(data) : data
}

const extractBase64 = (url: string): string | undefined => /^data:[^,]*;base64,(.*)$/is.exec(url)?.[1]

/** `image/*` means an image of unknown type, which is sent as JPEG. */
const resolveMediaType = (mediaType: string): string => (mediaType === "image/*" ? "image/jpeg" : mediaType)

/** Returns the URL of a file. For inline content, this is a data URL. */
export const toUrl = (part: Prompt.FilePart): string => {
  const { data } = part
  if (data instanceof URL) return data.href
  if (typeof data === "string" && isAddress(data)) return data
  return `data:${resolveMediaType(part.mediaType)};base64,${typeof data === "string" ? data : Base64.encode(data)}`
}

/** Returns the text of a text file: decoded, or unchanged if it is not base64. */
export const decodeText = (data: string): string => Result.getOrElse(Base64.decodeString(data), () => data)
