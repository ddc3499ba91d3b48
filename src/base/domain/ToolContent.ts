/**
 * A tool result with images and files, which the model sees as such.
 *
 * **Details**
 *
 * A tool with {@link ToolContent} as its success schema, or a tool function without a schema, returns content made by
 * {@link joinContent}, {@link fromImage} or {@link fromFile}. The model receives its parts in the form of its provider.
 * Every other reader (listeners, exporters, the events and the result of the run) receives a text, in which each image
 * and file is described by its type and size.
 *
 * Bytes and base64 texts are sent with the request, and an address is loaded by the provider. A result has at most
 * {@link maxFiles} images and files of {@link maxBytes} each; the model receives a description of the others. A model
 * that takes no images receives a description of each image.
 *
 * **Example** (A tool that takes a screenshot)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { ToolContent, Toolset } from "hermes-effect/tools"
 *
 * const Screenshot = Tool.make("screenshot", {
 *   description: "Shows the screen",
 *   success: ToolContent.ToolContent
 * })
 * const toolkit = Toolkit.make(Screenshot)
 * const png = Uint8Array.of(0x89, 0x50, 0x4e, 0x47)
 * const handlers = toolkit.toLayer({
 *   screenshot: () => Effect.succeed(ToolContent.joinContent("The screen:", ToolContent.fromImage(png)))
 * })
 * export const toolset = Toolset.make("screen", toolkit, handlers)
 *
 * console.log(ToolContent.toText(ToolContent.joinContent(ToolContent.fromImage(png))))
 * // => [image/png, 4 bytes]
 * ```
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import { findImageType } from "./ImageType.ts"
import type { ToolOutput } from "./ToolOutput.ts"

const TypeId = "~hermes-effect/domain/ToolContent"

/** Maximum number of images and files of a result. */
export const maxFiles = 8

/** Maximum size of an image or file, in bytes. */
export const maxBytes = 6_000_000

/** Data of an image or file: bytes, base64 text, a data URL or an `https:` address. */
export type Data = string | URL | Uint8Array

/** A part of a result. */
export type Part =
  | { readonly type: "text"; readonly text: string }
  | {
      readonly type: "file"
      readonly mediaType: string
      /** Base64 text, or an address. */
      readonly data: string | URL
      readonly fileName: string | undefined
    }

/** Content of a result; see the top of this file. */
export interface ToolContent {
  readonly [TypeId]: typeof TypeId
  readonly parts: ReadonlyArray<Part>
}

const fromParts = (parts: ReadonlyArray<Part>): ToolContent => ({ [TypeId]: TypeId, parts })

/** Tests whether a value is content of a result. */
export const isToolContent = (value: unknown): value is ToolContent => Predicate.hasProperty(value, TypeId)

/** Joins texts and content to the content of one result, in their order. */
export const joinContent = (...content: ReadonlyArray<string | ToolContent>): ToolContent =>
  fromParts(
    content.flatMap((one): ReadonlyArray<Part> => (typeof one === "string" ? [{ type: "text", text: one }] : one.parts))
  )

interface ReadData {
  readonly data: string | URL
  readonly mediaType: string | undefined
}

/** Characters of base64 text that contain the first bytes of an image. */
const signatureLength = 16

const readBase64 = (text: string): ReadData => {
  const bytes = Base64.decode(text.slice(0, signatureLength))
  return { data: text, mediaType: bytes._tag === "Success" ? findImageType(bytes.success) : undefined }
}

const readText = (text: string): ReadData => {
  const [, type, data] = /^data:([^;,]*)[^,]*;base64,([^]*)$/iu.exec(text) ?? []
  if (data !== undefined) return { data, mediaType: type === "" ? undefined : type }
  return /^https?:/iu.test(text) ? { data: new URL(text), mediaType: undefined } : readBase64(text)
}

const readData = (data: Data): ReadData =>
  data instanceof Uint8Array
    ? { data: Base64.encode(data), mediaType: findImageType(data) }
    : readText(data instanceof URL ? data.href : data)

/** Makes an image. Without a media type, it is read from the data. */
export const fromImage = (data: Data, mediaType?: string): ToolContent => {
  const found = readData(data)
  return fromParts([
    { type: "file", data: found.data, mediaType: mediaType ?? found.mediaType ?? "image/*", fileName: undefined }
  ])
}

/** Makes a file, such as a PDF document. Providers accept other types of files than images to a different extent. */
export const fromFile = (data: Data, mediaType: string, fileName?: string): ToolContent =>
  fromParts([{ type: "file", data: readData(data).data, mediaType, fileName }])

type FilePart = Extract<Part, { readonly type: "file" }>

const countBytes = (data: string): number => Math.floor((data.replace(/=+$/u, "").length * 3) / 4)

const describeFile = ({ data, fileName, mediaType }: FilePart): string =>
  `[${mediaType}${fileName === undefined ? "" : ` ${fileName}`}, ${
    data instanceof URL ? data.href : `${countBytes(data)} bytes`
  }]`

/** Returns the content as text, in which images and files are described. */
export const toText = ({ parts }: ToolContent): string =>
  parts.map((part) => (part.type === "text" ? part.text : describeFile(part))).join("\n")

/** Returns the parts for the model, with descriptions of files beyond the limits. */
export const toModelOutput = ({ parts }: ToolContent): ReadonlyArray<Prompt.ToolModelOutputPart> => {
  let files = 0
  return parts.map((part) => {
    if (part.type === "text") return Prompt.textPart({ text: part.text })
    const isSmall = part.data instanceof URL || countBytes(part.data) <= maxBytes
    if (!isSmall || ++files > maxFiles) return Prompt.textPart({ text: `${describeFile(part)} (not shown)` })
    const { data, fileName, mediaType } = part
    return Prompt.filePart({ data, mediaType, ...(fileName === undefined ? {} : { fileName }) })
  })
}

/** Returns the output of a call with this content. */
export const toToolOutput = (content: ToolContent): ToolOutput => ({
  output: toText(content),
  isFailure: false,
  modelOutput: toModelOutput(content)
})

/** Schema of the results of a tool that returns content. Its encoded form is the description of the content. */
export const ToolContent = Schema.String.pipe(
  Schema.decodeTo(
    Schema.declare(isToolContent),
    SchemaTransformation.transform({ decode: (text) => joinContent(text), encode: toText })
  )
)
