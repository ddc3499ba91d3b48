/**
 * Scales down pictures to bounds that every provider accepts. Supports PNG, JPEG, WebP, and all other formats that the
 * library can read.
 *
 * **Details**
 *
 * The package `sharp` is optional and loaded with the first picture that is too large. PNG, JPEG and WebP retain their
 * format; any other format becomes a PNG of the first frame. The picture is rotated according to its orientation tag;
 * its metadata (place, time, device) is removed. Scaling runs outside of the JavaScript thread.
 *
 * **Example** (Pictures are scaled by a library of the application)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { ImageScaling } from "hermes-effect/routing"
 *
 * const half: ImageScaling.Scale = (image) => Effect.succeed({ data: image.subarray(0, image.length >> 1), mediaType: "image/png" })
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(Effect.provideService(ImageScaling.ImageScaler, half))
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer()))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-llm.md` §16.5 (5).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** Limits of a picture. */
export interface Bounds {
  readonly bytes: number
  /** Maximum length of the longer side, in pixels. */
  readonly side: number
}

/** A picture and its format. */
export interface Picture {
  readonly data: Uint8Array
  readonly mediaType: string
}

/** The image library is not installed, or not available for this platform. */
export class NoImageLibrary extends Schema.TaggedError<NoImageLibrary>("hermes-effect/routing/NoImageLibrary")(
  "NoImageLibrary",
  { message: Schema.String, cause: Schema.Defect() }
) {}

/**
 * Scales a picture down to the bounds. Returns the same bytes if they are already within the bounds, and `undefined` if
 * the picture cannot be read or scaled.
 */
export type Scale = (image: Uint8Array, bounds: Bounds) => Effect.Effect<Picture | undefined, NoImageLibrary>

/** Media types of the formats that are retained, keyed by the library's format name. */
const kept: Readonly<Record<string, string>> = { jpeg: "image/jpeg", png: "image/png", webp: "image/webp" }

/** Maximum number of pixels of a picture. Larger pictures are not opened, to limit memory use. */
const mostPixels = 64_000_000
const mostTries = 6

/** Methods of the image library that this module uses. */
interface Pipeline {
  readonly metadata: () => Promise<{ readonly format?: string; readonly width?: number; readonly height?: number }>
  readonly autoOrient: () => Pipeline
  readonly resize: (options: { width: number; height: number; fit: "inside"; withoutEnlargement: true }) => Pipeline
  readonly toFormat: (format: string) => Pipeline
  readonly toBuffer: () => Promise<Uint8Array>
}

type Open = (image: Uint8Array, options: { limitInputPixels: number }) => Pipeline

/**
 * Name of the package, in a constant instead of the `import`, so that programs without the package can be built and
 * type-checked. Bundlers leave the import as it is, because the package contains native code.
 */
const packageName = "sharp"

const load = Effect.tryPromise({
  // The cast replaces the package's types, which are available only if it is installed.
  try: async () => {
    const module = await import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ packageName)
    return (module as { readonly default: Open }).default
  },
  catch: (cause) =>
    new NoImageLibrary({
      message:
        "Images that are too large cannot be scaled: the package sharp is not installed. Install it to send them: npm install sharp",
      cause
    })
})

const scalePicture = async (open: Open, image: Uint8Array, bounds: Bounds): Promise<Picture | undefined> => {
  const openPicture = (): Pipeline => open(image, { limitInputPixels: mostPixels })
  const { format = "", height = 0, width = 0 } = await openPicture().metadata()
  const mediaType = kept[format]
  const longer = Math.max(width, height)
  if (longer <= bounds.side && image.byteLength <= bounds.bytes)
    return { data: image, mediaType: mediaType ?? `image/${format}` }
  let side = Math.min(longer, bounds.side)
  for (let tries = 0; tries < mostTries; tries++) {
    const data = await openPicture()
      .autoOrient()
      .resize({ width: side, height: side, fit: "inside", withoutEnlargement: true })
      .toFormat(mediaType === undefined ? "png" : format)
      .toBuffer()
    if (data.byteLength <= bounds.bytes) return { data, mediaType: mediaType ?? "image/png" }
    // The size in bytes is roughly proportional to the area. A safety factor makes two attempts sufficient in most
    // cases.
    side = Math.max(1, Math.floor(side * Math.min(0.8, 0.95 * Math.sqrt(bounds.bytes / data.byteLength))))
  }
  return undefined
}

/** Scales pictures down with the package `sharp`. */
export const withSharp: Scale = (image, bounds) =>
  Effect.flatMap(load, (open) =>
    Effect.tryPromise(() => scalePicture(open, image, bounds)).pipe(
      // The picture is damaged or not a picture; the endpoint's refusal is reported to the user.
      Effect.catch((error) => Effect.as(Effect.logDebug("a picture could not be scaled", error), undefined))
    )
  )

/**
 * Reference to the function that scales down pictures that an endpoint rejected because of their size. Defaults to the
 * package `sharp`.
 */
export const ImageScaler = Context.Reference<Scale>("hermes-effect/routing/ImageScaler", {
  defaultValue: () => withSharp
})
