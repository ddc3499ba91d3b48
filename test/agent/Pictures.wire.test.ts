import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Pictures from "../support/pictures.ts"
import { photograph, show } from "../support/strictPictures.ts"

describe("a photograph of 12 MB", () => {
  for (const format of ["jpeg", "webp"] as const) {
    it.live(`${format}: is scaled where sharp is installed`, () =>
      Effect.gen(function* () {
        const image = yield* Effect.promise(() => Pictures.make(format, 4_000, 3_000, photograph))
        const { notices, sent, text } = yield* show(image, `image/${format}`)
        assert.deepStrictEqual([text, sent.length, notices.length], ["seen", 2, 1])
        const {
          format: found,
          height,
          isRed,
          width
        } = yield* Effect.promise(() => Pictures.look(Buffer.from(sent[1] ?? "", "base64")))
        assert.deepStrictEqual([found, width, height, isRed], [format, 2_000, 1_500, true])
      })
    )
  }
})
