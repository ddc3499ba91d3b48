/**
 * Converts prompts of an editor to messages for the agent: text, images, files that are open in the editor, and links
 * to files.
 *
 * **Details**
 *
 * An embedded file follows the text as `<file path="…">`. Its secrets are masked, as in results of the file tools. A
 * link is replaced by its path or address, so that the agent can read it. A prompt with unsupported content (audio,
 * bytes that are not an image) is refused, and nothing is sent.
 *
 * Source: Agent Client Protocol, `session/prompt`.
 */
import type { ContentBlock } from "@agentclientprotocol/sdk/unstable"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../../../agent/RunInput.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"

/** Maximum length of a Base64-encoded image, in characters. */
const mostImageChars = 28_000_000

/** Media types of images that models can read. */
const imageTypes: ReadonlyArray<string> = ["image/png", "image/jpeg", "image/gif", "image/webp"]

/** A message for the agent. `shown` is its text without embedded files. */
export interface AcpMessage {
  readonly prompt: RunInput["prompt"]
  readonly shown: string
}

/** A part of a message. */
interface Part {
  readonly text: string
  /** An embedded file, which is placed after the text. */
  readonly file?: string
  readonly image?: Prompt.FilePart
}

/** Returns the path of a `file:` address. Returns any other address unchanged. */
const resolveAddress = Effect.fnUntraced(function* (uri: string): Effect.fn.Return<string, never, Path.Path> {
  const paths = yield* Path.Path
  const url = URL.canParse(uri) ? new URL(uri) : undefined
  return url?.protocol === "file:" ? yield* Effect.orElseSucceed(paths.fromFileUrl(url), () => uri) : uri
})

const decodeBase64 = Schema.decodeOption(Schema.Uint8ArrayFromBase64)

const toImagePart = (data: string, mediaType: string): Effect.Effect<Prompt.FilePart, string> => {
  if (!imageTypes.includes(mediaType))
    return Effect.fail(`Images of the type ${mediaType} are not supported. Send one of ${imageTypes.join(", ")}.`)
  if (data.length > mostImageChars) return Effect.fail("The image is larger than 20 MiB. Send a smaller one.")
  const bytes = Option.filter(decodeBase64(data), ({ length }) => length > 0)
  return Option.isNone(bytes)
    ? Effect.fail("The image is empty or not base64.")
    : Effect.succeed(Prompt.filePart({ mediaType, data: bytes.value }))
}

const toMessagePart = Effect.fnUntraced(function* (block: ContentBlock): Effect.fn.Return<Part, string, Path.Path> {
  switch (block.type) {
    case "text":
      return { text: block.text }
    case "image":
      return { text: "", image: yield* toImagePart(block.data, block.mimeType) }
    case "resource_link":
      return { text: `@${yield* resolveAddress(block.uri)}` }
    case "resource": {
      const { resource } = block
      const place = yield* resolveAddress(resource.uri)
      if ("blob" in resource)
        return {
          text: `@${place}`,
          image: yield* toImagePart(resource.blob, resource.mimeType ?? "application/octet-stream")
        }
      const content = Redaction.redactText(resource.text).replace(/\n?$/, "\n")
      return { text: `@${place}`, file: `<file path=${JSON.stringify(place)}>\n${content}</file>` }
    }
    case "audio":
      return yield* Effect.fail("Audio is not supported. Send text or an image.")
  }
})

/** Reads a prompt. Fails with a message that names the unsupported part. */
export const read = Effect.fnUntraced(function* (
  blocks: ReadonlyArray<ContentBlock>
): Effect.fn.Return<AcpMessage, string, Path.Path> {
  const parts = yield* Effect.forEach(blocks, toMessagePart)
  const shown = parts
    .map(({ text }) => text)
    .join("")
    .trim()
  const files = parts.flatMap(({ file }) => file ?? [])
  const images = parts.flatMap(({ image }) => image ?? [])
  if (shown === "" && images.length === 0) return yield* Effect.fail("The prompt is empty.")
  const text = [shown, ...files].join("\n\n")
  return {
    shown: shown === "" ? images.map(({ mediaType }) => `[${mediaType}]`).join(" ") : shown,
    prompt: images.length === 0 ? text : [...(text === "" ? [] : [Prompt.textPart({ text })]), ...images]
  }
})
