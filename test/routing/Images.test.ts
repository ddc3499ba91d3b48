import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { crc32, deflateSync, inflateSync } from "node:zlib"
import * as Adaptation from "../../src/routing/Adaptation.ts"
import * as SmallerPng from "../../src/routing/internal/SmallerPng.ts"
import * as Fake from "../support/fakeModel.ts"
import * as S from "./support.ts"

const chunk = (type: string, body: Uint8Array): Buffer => {
  const named = Buffer.concat([Buffer.from(type, "latin1"), body])
  const out = Buffer.alloc(named.length + 8)
  out.writeUInt32BE(body.length, 0)
  named.copy(out, 4)
  out.writeUInt32BE(crc32(named), named.length + 4)
  return out
}

interface Drawing {
  readonly width: number
  readonly height: number
  readonly type: number
  readonly channels: number
  /** The filter of a row. */
  readonly filter?: (y: number) => number
  readonly value: (x: number, y: number, channel: number) => number
  readonly chunks?: ReadonlyArray<Buffer>
}

/** A PNG as other programs write it, with every kind of filter. */
const png = ({ channels, chunks = [], filter = () => 0, height, type, value, width }: Drawing): Buffer => {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, type, 0, 0, 0], 8)
  const stride = width * channels
  const at = (x: number, y: number): number => x < 0 || y < 0 ? 0 : value(Math.floor(x / channels), y, x % channels)
  const rows = Buffer.alloc((stride + 1) * height)
  for (let y = 0; y < height; y++) {
    rows[y * (stride + 1)] = filter(y)
    for (let x = 0; x < stride; x++) {
      const [left, up, corner] = [at(x - channels, y), at(x, y - 1), x < channels ? 0 : at(x - channels, y - 1)]
      const guess = left + up - corner
      const near = [left, up, corner].toSorted((a, b) => Math.abs(guess - a) - Math.abs(guess - b))
      const paeth = [left, up, corner].find((one) => Math.abs(guess - one) === Math.abs(guess - (near[0] ?? 0))) ?? 0
      const predicted = [0, left, up, (left + up) >> 1, paeth][filter(y)] ?? 0
      rows[y * (stride + 1) + 1 + x] = (at(x, y) - predicted) & 255
    }
  }
  const signature = Buffer.from("89504e470d0a1a0a", "hex")
  return Buffer.concat([signature, chunk("IHDR", header), ...chunks, chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))])
}

const sizeOf = (image: Uint8Array) => {
  const file = Buffer.from(image)
  return { width: file.readUInt32BE(16), height: file.readUInt32BE(20), type: file[25] }
}

/** The pixel in the middle, of an image that is filtered by Paeth alone and all of one colour. */
const firstRow = (image: Uint8Array, channels: number) => {
  const file = Buffer.from(image)
  const at = file.indexOf("IDAT")
  return [...inflateSync(file.subarray(at + 4, at + 4 + file.readUInt32BE(at - 4))).subarray(1, 1 + channels)]
}

const noise = (x: number, y: number, channel: number) => (x * 7919 + y * 104_729 + channel * 31 + x * y * 17) & 255

describe("SmallerPng", () => {
  const bounds = { bytes: 1_000, side: 16 }

  for (const [what, type, channels] of [["grey", 0, 1], ["colours", 2, 3], ["grey with alpha", 4, 2], ["colours with alpha", 6, 4]] as const) {
    it(`${what}: fewer pixels, each the mean of those that it stands for, whatever the filters`, () => {
      const flat = png({ width: 32, height: 20, type, channels, filter: (y) => y % 5, value: (x, _, channel) => channel * 40 + (x % 2) * 20 })
      const smaller = SmallerPng.shrink(flat, bounds)
      assert(smaller !== undefined)
      assert.deepStrictEqual(sizeOf(smaller), { width: 16, height: 10, type })
      assert.deepStrictEqual(firstRow(smaller, channels), Array.from({ length: channels }, (_, channel) => channel * 40 + 10))
    })
  }

  it("a palette becomes colours", () => {
    const chunks = [chunk("PLTE", Buffer.from([10, 20, 30, 50, 60, 70])), chunk("tRNS", Buffer.from([200]))]
    const indexed = png({ width: 32, height: 2, type: 3, channels: 1, value: () => 0, chunks })
    const smaller = SmallerPng.shrink(indexed, bounds)
    assert(smaller !== undefined)
    assert.deepStrictEqual([sizeOf(smaller).type, firstRow(smaller, 4)], [6, [10, 20, 30, 200]])
  })

  it("is made smaller until it fits, and stays as it is where it does", () => {
    const large = png({ width: 60, height: 60, type: 2, channels: 3, value: noise })
    assert.isAbove(large.byteLength, 5_000)
    const smaller = SmallerPng.shrink(large, { bytes: 2_000, side: 2_000 })
    assert(smaller !== undefined)
    assert.isAtMost(smaller.byteLength, 2_000)
    assert.strictEqual(SmallerPng.shrink(large, { bytes: 100_000, side: 60 }), large)
    assert.isUndefined(SmallerPng.shrink(large, { bytes: 10, side: 60 }))
  })

  it("what is not understood is left to others", () => {
    const good = png({ width: 32, height: 32, type: 2, channels: 3, value: noise })
    const [broken, deep, interlaced, huge] = [1, 2, 3, 4].map(() => Buffer.from(good))
    assert(broken !== undefined && deep !== undefined && interlaced !== undefined && huge !== undefined)
    broken.fill(0, broken.indexOf("IDAT") + 8)
    deep[24] = 16
    interlaced[28] = 1
    huge.writeUInt32BE(100_000, 16)
    huge.writeUInt32BE(100_000, 20)
    for (const image of [broken, deep, interlaced, huge, Buffer.from("GIF89a"), Buffer.alloc(0), good.subarray(0, 30)]) {
      assert.isUndefined(SmallerPng.shrink(image, bounds))
    }
  })
})

describe("images that are too large", () => {
  const wide = png({ width: 4_001, height: 3, type: 0, channels: 1, value: noise })
  const file = (data: Prompt.FilePart["data"], mediaType = "image/png") => Prompt.filePart({ mediaType, data, fileName: "shot.png" })
  const message = (...content: ReadonlyArray<Prompt.FilePart>) => Prompt.userMessage({ content: [...content] })

  it("are made smaller in every form, once; small ones and addresses stay, others become a note", () => {
    const small = file(png({ width: 4, height: 4, type: 0, channels: 1, value: noise }))
    const away = file("https://example.com/a.png")
    const jpeg = file(new Uint8Array(4_000_000), "image/jpeg")
    const original = message(file(new Uint8Array(wide)), file(wide.toString("base64")), file(new URL(`data:image/png;base64,${wide.toString("base64")}`)), small, away, jpeg)
    const changed = Adaptation.withSmallerImages(original)
    assert.strictEqual(Adaptation.withSmallerImages(original), changed)
    assert(changed.role === "user")
    const [one, two, three, ...rest] = changed.content
    for (const part of [one, two, three]) {
      assert(part?.type === "file" && part.data instanceof Uint8Array)
      assert.strictEqual(sizeOf(part.data).width, 1_334)
      assert.strictEqual(part.fileName, "shot.png")
    }
    assert.deepStrictEqual(rest.map((part) => part.type === "text" ? part.text : part), [small, away, "[shot.png: left out, this model cannot take it]"])
  })

  it.effect("are sent smaller after a refusal, at once, and so from then on; then without", () =>
    Effect.gen(function*() {
      const refused = S.fails(S.http(400, "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"))
      const { asked, open, prepared } = S.world({ a: [refused, Fake.text("seen"), refused, Fake.text("not seen")] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
      const call = { ...S.question, messages: [message(file(new Uint8Array(wide)))] }
      yield* S.asking(router, { call }).answer
      yield* S.asking(router, { call }).answer
      assert.strictEqual(asked.length, 4)
      const sent = prepared.map(({ messages: [first] }) => {
        const part = first?.role === "user" ? first.content[0] : undefined
        return part?.type === "file" && part.data instanceof Uint8Array ? sizeOf(part.data).width : part?.type
      })
      assert.deepStrictEqual(sent, [4_001, 1_334, 1_334, "text"])
    }))
})
