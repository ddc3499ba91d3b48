/**
 * The toolset `vision`, which describes an image with the model that the settings name for it.
 *
 * **Details**
 *
 * The image is a file (under the rules of `read_file`), an http(s) address (under the rules of `web_extract`) or a data
 * URL. Its media type is detected from its bytes, not from its name.
 *
 * **Example** (Detecting the type of a file)
 *
 * ```ts
 * import { Vision } from "hermes-effect/tools/vision"
 *
 * console.log(Vision.detectMediaType(Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a)))
 * // => image/png
 * ```
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Base64 from "effect/encoding/Base64"
import { findImageType } from "../../base/domain/ImageType.ts"
import type { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import { Timeout } from "../Annotations.ts"
import * as EgressGate from "../fence/EgressGate.ts"
import { ToolContext } from "../ToolContext.ts"
import * as Toolset from "../Toolset.ts"
import type { PathRoots } from "./file/PathRoots.ts"
import * as Problem from "./file/Problem.ts"
import { Targets } from "./file/Fence.ts"
import { SideModel } from "./SideModel.ts"
import * as Fetch from "../fence/Fetch.ts"

/** Maximum size of an image, in bytes. */
export const maxBytes = 20 * 1024 * 1024

/** The tool `vision_analyze`. */
export const tool = Tool.make("vision_analyze", {
  description: "Looks at an image (PNG, JPEG, GIF or WebP) and answers a question about it.",
  parameters: Schema.Struct({
    image_url: Schema.String.annotate({ description: "Path, http(s) URL or data: URL" }),
    question: Schema.optionalKey(Schema.String.annotate({ description: "Default: describe everything" }))
  }),
  success: Schema.Struct({ success: Schema.Literal(true), analysis: Schema.String }),
  failure: Problem.Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)
  .annotate(Timeout, Duration.infinity)

/** Detects the media type from the first bytes. Pure. */
export const detectMediaType = findImageType

const tooLarge = Problem.fail(`the image is larger than ${maxBytes / 1024 / 1024} MB: make it smaller first`)

const fromUrl = (url: string): Effect.Effect<Uint8Array, Problem.Problem> =>
  Fetch.download(url, maxBytes).pipe(
    Effect.matchEffect({
      onFailure: ({ message }) => Problem.fail(message, { hint: "give the address of the image itself" }),
      onSuccess: ({ body, truncated }) => (truncated ? tooLarge : Effect.succeed(body))
    })
  )

const fromFile = Effect.fnUntraced(function* (name: string) {
  const fs = yield* FileSystem.FileSystem
  const { path, real } = yield* Effect.flatMap(Targets, (targets) => targets.resolve(name, "read"))
  const { size, type } = yield* fs.stat(real)
  if (type !== "File") return yield* Problem.fail(`${path} is no file`)
  return Number(size) > maxBytes ? yield* tooLarge : yield* fs.readFile(real)
})

const fromData = (url: string): Effect.Effect<Uint8Array, Problem.Problem> =>
  Option.match(Result.getSuccess(Base64.decode(url.slice(url.indexOf(",") + 1))), {
    onNone: () => Problem.fail("the data URL is not valid base64"),
    onSome: (bytes) => (bytes.length > maxBytes ? tooLarge : Effect.succeed(bytes))
  })

const loadImage = (image: string) =>
  image.startsWith("data:") ? fromData(image) : /^[a-z][a-z+.-]*:\/\//i.test(image) ? fromUrl(image) : fromFile(image)

const toolkit = Toolkit.make(tool)

const handlers = toolkit.toLayer(
  Effect.gen(function* () {
    const services = yield* Effect.context<FileSystem.FileSystem | Targets>()
    return {
      vision_analyze: Effect.fnUntraced(function* ({ image_url, question }) {
        const ask = yield* SideModel
        if (ask === undefined) {
          return yield* Problem.fail("no model for images is available", {
            hint: "the user can name one in auxiliary.vision"
          })
        }
        const call = yield* ToolContext
        const bytes = yield* Effect.provideContext(loadImage(image_url), services)
        const type = detectMediaType(bytes)
        if (type === undefined) return yield* Problem.fail("this is no PNG, JPEG, GIF or WebP image")
        const text = question?.trim() || "Describe everything that is in this image, with all text in it."
        const content = [Prompt.textPart({ text }), Prompt.filePart({ mediaType: type, data: bytes })]
        const analysis = yield* ask("vision", [Prompt.userMessage({ content })], call).pipe(
          Effect.catch(({ message }) => Problem.fail(`the image could not be examined: ${message}`))
        )
        return { success: true as const, analysis }
      }, Problem.mapToFailure)
    }
  })
)

const bound = Toolset.make("vision", toolkit, Layer.provide(handlers, Targets.layer))

const offered: Toolset.Toolset<never, CommandEnvironment | FileSystem.FileSystem | Path.Path | PathRoots> =
  EgressGate.guardAddresses(
    Toolset.fromBound(
      "vision",
      [tool],
      Effect.flatMap(SideModel, (ask) => (ask === undefined ? Effect.succeed([]) : bound.bind))
    )
  )

/** The toolset `vision`, for files of the environment. Without a side model, the tool is not available. */
export const toolset: Toolset.Toolset<never, CommandEnvironment | Path.Path | PathRoots> =
  Toolset.inEnvironment(offered)
