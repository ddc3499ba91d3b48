import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as TextCut from "../../../src/base/domain/TextCut.ts"
import * as TextHygiene from "../../../src/base/domain/TextHygiene.ts"
import { prop } from "../../support/property.ts"

const family = "👩‍👩‍👧‍👦"

describe("TextCut", () => {
  it("formats whole numbers as the locale of the United States does", () => {
    for (const value of [0, 7, 999, 1_000, 12_345, 128_000, 1_048_576, 20_000_000, -4_200, -100])
      assert.strictEqual(TextCut.formatInteger(value), value.toLocaleString("en-US"))
  })

  it("never cuts a character", () => {
    const text = `ab${family}cd`
    for (let chars = 0; chars <= text.length; chars++) {
      assert.include(["", "a", "ab", `ab${family}`, `ab${family}c`, text], TextCut.takeHead(text, chars))
      assert.include(["", "d", "cd", `${family}cd`, `b${family}cd`, text], TextCut.takeTail(text, chars))
    }
    assert.strictEqual(TextCut.takeHead("e\u0301x", 1), "")
    assert.strictEqual(TextCut.takeHead("a\r\nb", 2), "a")
  })

  prop("keeps within its bound and well formed, for any text", [Schema.String, Schema.Int], ([given, number]) => {
    const text = `${given.toWellFormed()}${family}é`.repeat(5)
    const chars = Math.abs(number) % (text.length + 10)
    for (const cut of [TextCut.takeHead(text, chars), TextCut.takeTail(text, chars), TextCut.cutMiddle(text, chars)]) {
      assert.isAtMost(cut.length, chars)
      assert.isTrue(cut.isWellFormed())
    }
  })

  it("says how much is missing between the beginning and the end", () => {
    const text = "x".repeat(1_000) + "y".repeat(1_000)
    const cut = TextCut.cutMiddle(text, 500)
    assert.isAtMost(cut.length, 500)
    assert.match(cut, /^x+\n\n\.\.\. \[1500 of 2000 characters left out\] \.\.\.\n\ny+$/)
  })
})

describe("TextHygiene", () => {
  it("replaces what stands alone and keeps what is paired", () => {
    assert.strictEqual(TextHygiene.toWellFormed("a\ud83db 😀"), "a\ufffdb 😀")
    const value = { a: ["x\udc00"], "k\ud800": { b: "😀" } }
    assert.deepStrictEqual(TextHygiene.toWellFormedValue(value), { a: ["x\ufffd"], "k\ufffd": { b: "😀" } })
  })

  it("gives its argument itself when there is nothing to do", () => {
    const value = { a: ["x", 1, null, { b: "😀" }] }
    assert.strictEqual(TextHygiene.toWellFormedValue(value), value)
  })

  it("takes control characters out, but for tabs and line ends", () => {
    assert.strictEqual(TextHygiene.withoutControls("a\u0000\tb\r\nc\u001b[1m\u007f"), "a\tb\r\nc[1m")
  })
})
