// The package for pictures is optional. In a file of its own, because a module that was loaded stays.
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { vi } from "vitest"
import { photograph, show } from "../support/strictPictures.ts"

vi.mock("sharp", () => {
  throw Object.assign(new Error("Cannot find package 'sharp'"), { code: "ERR_MODULE_NOT_FOUND" })
})

it.live("a photograph of 12 MB is left out where sharp is not installed, and one line says what to install", () =>
  Effect.gen(function* () {
    const { notices, sent, text } = yield* show(new Uint8Array(photograph), "image/jpeg")
    assert.strictEqual(text, "seen")
    assert.deepStrictEqual(sent.slice(1), ["What is it?\n\n[photo: left out, this model cannot take it]"])
    assert.deepStrictEqual(
      notices.filter((line) => line.includes("npm install")),
      [
        "Images that are too large cannot be scaled: the package sharp is not installed. Install it to send them: npm install sharp"
      ]
    )
  })
)
