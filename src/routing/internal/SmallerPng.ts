/**
 * Makes a PNG smaller: fewer pixels, each the mean of those that it stands for. No codec is at hand but zlib, which is all
 * that PNG needs; screenshots, the large images of agents, are PNGs.
 *
 * **Gotchas**
 *
 * Eight bits a channel, not interlaced: what nearly every program writes. Other PNGs and other formats are not understood.
 * A large image takes a second or two of the processor.
 */
import { crc32, deflate, inflate } from "../../platform/Compression.ts"

/** Limits of an image. */
export interface Bounds {
  readonly bytes: number
  /** Pixels of its longer side. */
  readonly side: number
}

interface Pixels {
  readonly width: number
  readonly height: number
  readonly channels: number
  readonly data: Uint8Array
}

interface Chunks {
  readonly header: Buffer
  readonly palette: Buffer | undefined
  readonly transparency: Buffer | undefined
  readonly data: ReadonlyArray<Buffer>
}

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
/** A picture that wants more memory than this is not opened. */
const mostPixels = 64_000_000
const mostTries = 6

const chunksOf = (file: Buffer): Chunks | undefined => {
  if (!file.subarray(0, 8).equals(signature)) return undefined
  let header: Buffer | undefined
  let palette: Buffer | undefined
  let transparency: Buffer | undefined
  const data: Array<Buffer> = []
  for (let at = 8; at + 12 <= file.length;) {
    const length = file.readUInt32BE(at)
    const body = file.subarray(at + 8, at + 8 + length)
    const type = file.toString("latin1", at + 4, at + 8)
    if (type === "IHDR") header = body
    if (type === "PLTE") palette = body
    if (type === "tRNS") transparency = body
    if (type === "IDAT") data.push(body)
    at += 12 + length
  }
  return header === undefined || header.length < 13 ? undefined : { header, palette, transparency, data }
}

const channelsOf: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 }
/** The colour type of so many channels. */
const typeOf: Readonly<Record<number, number>> = { 1: 0, 2: 4, 3: 2, 4: 6 }

const paeth = (left: number, up: number, corner: number): number => {
  const guess = left + up - corner
  const a = Math.abs(guess - left)
  const b = Math.abs(guess - up)
  const c = Math.abs(guess - corner)
  return a <= b && a <= c ? left : b <= c ? up : corner
}

const predict = (filter: number, left: number, up: number, corner: number): number => {
  switch (filter) {
    case 1:
      return left
    case 2:
      return up
    case 3:
      return (left + up) >> 1
    case 4:
      return paeth(left, up, corner)
    default:
      return 0
  }
}

/** Takes the filters off the rows. */
const unfiltered = (rows: Uint8Array, stride: number, height: number, step: number): Uint8Array => {
  const out = new Uint8Array(stride * height)
  for (let y = 0; y < height; y++) {
    const from = y * (stride + 1)
    const filter = rows[from] ?? 0
    const to = y * stride
    for (let x = 0; x < stride; x++) {
      const left = x < step ? 0 : out[to + x - step] ?? 0
      const up = y === 0 ? 0 : out[to + x - stride] ?? 0
      const corner = x < step || y === 0 ? 0 : out[to + x - stride - step] ?? 0
      out[to + x] = (rows[from + 1 + x] ?? 0) + predict(filter, left, up, corner)
    }
  }
  return out
}

/** The colours behind the numbers of a palette. */
const coloured = (numbers: Uint8Array, palette: Buffer, transparency: Buffer | undefined): Uint8Array => {
  const channels = transparency === undefined ? 3 : 4
  const out = new Uint8Array(numbers.length * channels)
  for (const [index, number] of numbers.entries()) {
    for (let channel = 0; channel < 3; channel++) out[index * channels + channel] = palette[number * 3 + channel] ?? 0
    if (transparency !== undefined) out[index * channels + 3] = transparency[number] ?? 255
  }
  return out
}

const decode = (file: Buffer): Pixels | undefined => {
  const chunks = chunksOf(file)
  if (chunks === undefined) return undefined
  const { data, header, palette, transparency } = chunks
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)]
  const [depth, type = -1, , , interlace] = header.subarray(8)
  const channels = channelsOf[type]
  const isIndexed = type === 3
  if (channels === undefined || depth !== 8 || interlace !== 0 || (isIndexed && palette === undefined)) return undefined
  if (width === 0 || height === 0 || width * height > mostPixels) return undefined
  const stride = width * channels
  const rows = inflate(Buffer.concat(data), (stride + 1) * height)
  const plain = unfiltered(rows, stride, height, channels)
  return isIndexed && palette !== undefined
    ? { width, height, channels: transparency === undefined ? 3 : 4, data: coloured(plain, palette, transparency) }
    : { width, height, channels, data: plain }
}

/** One pixel for `factor` in each direction. */
const reduced = ({ channels, data, height, width }: Pixels, factor: number): Pixels => {
  const [columns, rows] = [Math.ceil(width / factor), Math.ceil(height / factor)]
  const out = new Uint8Array(columns * rows * channels)
  for (let row = 0; row < rows; row++) {
    const bottom = Math.min(height, (row + 1) * factor)
    for (let column = 0; column < columns; column++) {
      const right = Math.min(width, (column + 1) * factor)
      const count = (bottom - row * factor) * (right - column * factor)
      for (let channel = 0; channel < channels; channel++) {
        let sum = 0
        for (let y = row * factor; y < bottom; y++) {
          for (let x = column * factor; x < right; x++) sum += data[(y * width + x) * channels + channel] ?? 0
        }
        out[(row * columns + column) * channels + channel] = Math.round(sum / count)
      }
    }
  }
  return { width: columns, height: rows, channels, data: out }
}

const chunk = (type: string, body: Uint8Array): Buffer => {
  const named = Buffer.concat([Buffer.from(type, "latin1"), body])
  const out = Buffer.alloc(named.length + 8)
  out.writeUInt32BE(body.length, 0)
  named.copy(out, 4)
  out.writeUInt32BE(crc32(named), named.length + 4)
  return out
}

const encode = ({ channels, data, height, width }: Pixels): Uint8Array => {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, typeOf[channels] ?? 6, 0, 0, 0], 8)
  const stride = width * channels
  const rows = Buffer.alloc((stride + 1) * height)
  for (let y = 0; y < height; y++) {
    const to = y * (stride + 1)
    rows[to] = 4
    for (let x = 0; x < stride; x++) {
      const at = y * stride + x
      const left = x < channels ? 0 : data[at - channels] ?? 0
      const up = y === 0 ? 0 : data[at - stride] ?? 0
      const corner = x < channels || y === 0 ? 0 : data[at - stride - channels] ?? 0
      rows[to + 1 + x] = ((data[at] ?? 0) - paeth(left, up, corner)) & 255
    }
  }
  return Buffer.concat([signature, chunk("IHDR", header), chunk("IDAT", deflate(rows)), chunk("IEND", Buffer.alloc(0))])
}

const opened = (file: Buffer): Pixels | undefined => {
  try {
    return decode(file)
  } catch {
    // Damaged data: it is not understood, as other formats are not.
    return undefined
  }
}

/** The image within its bounds; undefined for one that is not understood, or cannot be made to fit. */
export const shrink = (image: Uint8Array, bounds: Bounds): Uint8Array | undefined => {
  const pixels = opened(Buffer.from(image.buffer, image.byteOffset, image.byteLength))
  if (pixels === undefined) return undefined
  const bySide = Math.ceil(Math.max(pixels.width, pixels.height) / bounds.side)
  if (bySide <= 1 && image.byteLength <= bounds.bytes) return image
  const least = Math.max(2, bySide)
  for (let factor = least; factor < least + mostTries; factor++) {
    const smaller = encode(reduced(pixels, factor))
    if (smaller.byteLength <= bounds.bytes) return smaller
  }
  return undefined
}
