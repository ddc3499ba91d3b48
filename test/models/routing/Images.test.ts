import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import * as Adaptation from "../../../src/models/routing/Adaptation.ts"
import * as ImageScaling from "../../../src/models/routing/ImageScaling.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as Pictures from "../../support/pictures.ts"
import * as S from "./support.ts"

const file = (data: Prompt.FilePart["data"], mediaType = "image/png", fileName = "shot.png") =>
  Prompt.filePart({ mediaType, data, fileName })
const message = (...content: ReadonlyArray<Prompt.FilePart>) => Prompt.userMessage({ content: [...content] })
const asking = (...messages: ReadonlyArray<Prompt.Message>): ModelCall => ({ ...S.question, messages: [...messages] })
/** A picture of a test, and how it looks. */
const made = (...given: Parameters<typeof Pictures.make>) => Effect.promise(() => Pictures.make(...given))
const seen = (data: Uint8Array) => Effect.promise(() => Pictures.look(data))
const scale = (call: ModelCall) => Adaptation.scaleImages(call, ({ message }) => Effect.die(message))

describe("ImageScaling", () => {
  const bounds = { bytes: 60_000, side: 100 }

  for (const [format, to] of [
    ["jpeg", "jpeg"],
    ["webp", "webp"],
    ["png", "png"],
    ["gif", "png"]
  ] as const) {
    it.live(`${format}: fits its bounds, with its proportions`, () =>
      Effect.gen(function* () {
        const image = yield* made(format, 400, 200, 100_000)
        const smaller = yield* ImageScaling.withSharp(image, bounds)
        assert(smaller !== undefined)
        assert.strictEqual(smaller.mediaType, `image/${to}`)
        assert.isAtMost(smaller.data.byteLength, bounds.bytes)
        const { format: found, height, isRed, width } = yield* seen(smaller.data)
        assert.deepStrictEqual([found, width, height, isRed], [to, 100, 50, true])
      })
    )
  }

  it.live("is turned as its camera says, and forgets where it was taken", () =>
    Effect.gen(function* () {
      const smaller = yield* ImageScaling.withSharp(yield* Effect.promise(() => Pictures.upright(400, 200)), bounds)
      assert(smaller !== undefined)
      const { exif, height, orientation, width } = yield* seen(smaller.data)
      assert.deepStrictEqual([width, height, orientation, exif], [50, 100, undefined, undefined])
    })
  )

  it.live("is made smaller until it fits; stays as it is where it does; is left to others where nothing helps", () =>
    Effect.gen(function* () {
      const noise = yield* Effect.promise(() => Pictures.noise(90))
      assert.isAbove(noise.byteLength, 15_000)
      const smaller = yield* ImageScaling.withSharp(noise, { bytes: 8_000, side: 100 })
      assert(smaller !== undefined)
      assert.isAtMost(smaller.data.byteLength, 8_000)
      assert.strictEqual((yield* ImageScaling.withSharp(noise, { bytes: 50_000, side: 90 }))?.data, noise)
      for (const [image, limits] of [
        [noise, { bytes: 10, side: 60 }],
        [Buffer.from("GIF89a"), bounds],
        [Buffer.alloc(0), bounds],
        [noise.subarray(0, 200), { bytes: 100, side: 100 }]
      ] as const) {
        assert.isUndefined(yield* ImageScaling.withSharp(image, limits))
      }
    })
  )
})

describe("images that are too large", () => {
  it.live("are scaled in every form, once; small ones and addresses stay, others become a note", () =>
    Effect.gen(function* () {
      const wide = yield* made("png", 4_001, 3)
      const small = file(yield* made("png", 4, 4))
      const away = file("https://example.com/a.png")
      const damaged = file(new Uint8Array(4_000_000), "image/jpeg")
      const base64 = Buffer.from(wide).toString("base64")
      const original = message(
        file(wide),
        file(base64),
        file(new URL(`data:image/png;base64,${base64}`)),
        small,
        away,
        damaged
      )
      const {
        messages: [changed]
      } = yield* scale(asking(original))
      assert.strictEqual((yield* scale(asking(original))).messages[0], changed)
      assert(changed?.role === "user")
      const [one, two, three, ...rest] = changed.content
      for (const part of [one, two, three]) {
        assert(part?.type === "file" && part.data instanceof Uint8Array)
        const { data } = part
        assert.strictEqual((yield* seen(data)).width, 2_000)
        assert.strictEqual(part.fileName, "shot.png")
      }
      assert.deepStrictEqual(
        rest.map((part) => (part.type === "text" ? part.text : part)),
        [small, away, "[shot.png: left out, this model cannot take it]"]
      )
    })
  )

  it.live("are sent smaller after a refusal, at once, and so from then on; then without", () =>
    Effect.gen(function* () {
      const wide = yield* made("png", 4_001, 3)
      const refused = S.fails(S.http(400, "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"))
      const { asked, open, prepared } = S.world({ a: [refused, Fake.text("seen"), refused, Fake.text("not seen")] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
      const call = asking(message(file(wide)))
      yield* S.asking(router, { call }).answer
      yield* S.asking(router, { call }).answer
      assert.strictEqual(asked.length, 4)
      const sent: Array<unknown> = []
      for (const {
        messages: [first]
      } of prepared) {
        const part = first?.role === "user" ? first.content[0] : undefined
        sent.push(
          part?.type === "file" && part.data instanceof Uint8Array ? (yield* seen(part.data)).width : part?.type
        )
      }
      assert.deepStrictEqual(sent, [4_001, 2_000, 2_000, "text"])
    })
  )
})
