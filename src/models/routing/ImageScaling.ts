/**
 * Scaling of pictures to the bounds that every provider accepts: PNG, JPEG, WebP, and all other formats that the
 * library reads.
 *
 * **Details**
 *
 * The package `sharp` is optional and loaded with the first picture that is too large. PNG, JPEG and WebP retain their
 * format; anything else becomes a PNG of its first frame. The picture is turned as its camera says; its metadata
 * (place, time, device) is left out. Work is done outside of the thread of JavaScript.
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
  /** Pixels of its longer side. */
  readonly side: number
}

/** A picture and its format. */
export interface Picture {
  readonly data: Uint8Array
  readonly mediaType: string
}

/** No library for pictures is installed here, or not for this machine. */
export class NoImageLibrary extends Schema.TaggedError<NoImageLibrary>("hermes-effect/routing/NoImageLibrary")(
  "NoImageLibrary",
  { message: Schema.String, cause: Schema.Defect() }
) {}

/**
 * Scales a picture to its bounds. Returns the same bytes if they are within the bounds already, and undefined if the
 * picture cannot be read or made to fit.
 */
export type Scale = (image: Uint8Array, bounds: Bounds) => Effect.Effect<Picture | undefined, NoImageLibrary>

/** Formats that stay as they are, by the library's name. */
const kept: Readonly<Record<string, string>> = { jpeg: "image/jpeg", png: "image/png", webp: "image/webp" }

/** A picture that wants more memory than this is not opened. */
const mostPixels = 64_000_000
const mostTries = 6

/** Members of the library that are used here. */
interface Pipeline {
  readonly metadata: () => Promise<{ readonly format?: string; readonly width?: number; readonly height?: number }>
  readonly autoOrient: () => Pipeline
  readonly resize: (options: { width: number; height: number; fit: "inside"; withoutEnlargement: true }) => Pipeline
  readonly toFormat: (format: string) => Pipeline
  readonly toBuffer: () => Promise<Uint8Array>
}

type Open = (image: Uint8Array, options: { limitInputPixels: number }) => Pipeline

/** Named here and not in the `import`, so that a program without the package is built and checked like any other. */
const packageName = "sharp"

const load = Effect.tryPromise({
  // The package exports one function; its types are available only if it is installed.
  try: async () => ((await import(packageName)) as { readonly default: Open }).default,
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
    // The size goes with the area; a little less, so that two tries are enough for most.
    side = Math.max(1, Math.floor(side * Math.min(0.8, 0.95 * Math.sqrt(bounds.bytes / data.byteLength))))
  }
  return undefined
}

/** Scales by the package `sharp`. */
export const withSharp: Scale = (image, bounds) =>
  Effect.flatMap(load, (open) =>
    Effect.tryPromise(() => scalePicture(open, image, bounds)).pipe(
      // Damaged or no picture at all: the endpoint that refused it says so.
      Effect.catch((error) => Effect.as(Effect.logDebug("a picture could not be scaled", error), undefined))
    )
  )

/** Scales pictures that an endpoint refused for their size; uses the package `sharp` by default. */
export const ImageScaler = Context.Reference<Scale>("hermes-effect/routing/ImageScaler", {
  defaultValue: () => withSharp
})
