// Pictures made and looked at with the optional package `sharp`; its types are there only where it is installed.
interface Color {
  readonly width: number
  readonly height: number
  readonly channels: 3
  readonly background: string
  readonly noise?: { readonly type: "gaussian"; readonly mean: number; readonly sigma: number }
}

interface Sharp {
  composite(layers: ReadonlyArray<{ readonly input: Uint8Array; readonly left: number; readonly top: number }>): Sharp
  withMetadata(metadata: { readonly orientation: number }): Sharp
  toFormat(format: string): Sharp
  raw(): Sharp
  toBuffer(): Promise<Buffer>
  metadata(): Promise<Partial<Record<"exif" | "format" | "height" | "orientation" | "width", unknown>>>
}

const name = "sharp"
const sharp = ((await import(name)) as { readonly default: (input: Uint8Array | { readonly create: Color }) => Sharp })
  .default

/** Format of a picture. */
export type Format = "gif" | "jpeg" | "png" | "webp"

/** A picture in blue, orange in its left half; `bytes` of nothing behind it make the file as large as a photograph. */
export const make = async (format: Format, width: number, height: number, bytes = 0): Promise<Uint8Array> => {
  const left = await sharp({ create: { width: width >> 1, height, channels: 3, background: "#ff8000" } })
    .toFormat("png")
    .toBuffer()
  const whole = sharp({ create: { width, height, channels: 3, background: "#0000ff" } }).composite([
    { input: left, left: 0, top: 0 }
  ])
  const made = await whole.toFormat(format).toBuffer()
  return new Uint8Array(Buffer.concat([made, Buffer.alloc(Math.max(0, bytes - made.length))]))
}

/** A PNG that cannot be compressed. */
export const noise = (side: number): Promise<Uint8Array> =>
  sharp({
    create: {
      width: side,
      height: side,
      channels: 3,
      background: "red",
      noise: { type: "gaussian", mean: 128, sigma: 60 }
    }
  })
    .toFormat("png")
    .toBuffer()

/** A JPEG that its camera held upright: turned by 90 degrees for whoever looks at it. */
export const upright = (width: number, height: number): Promise<Uint8Array> =>
  sharp({ create: { width, height, channels: 3, background: "red" } })
    .withMetadata({ orientation: 6 })
    .toFormat("jpeg")
    .toBuffer()

/** Format and size of a picture, what else its file says, and true where its first pixel is red. */
export const look = async (data: Uint8Array) => {
  const { exif, format, height, orientation, width } = await sharp(data).metadata()
  const [red] = await sharp(data).raw().toBuffer()
  return { format, width, height, orientation, exif, isRed: (red ?? 0) > 200 }
}
