// What a person is asked about has no hidden character, and none is lost.
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as VisibleText from "../../../src/base/domain/VisibleText.ts"
import { prop } from "../../support/property.ts"

const hidden = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\u{FE00}-\u{FE0F}\u{E0100}-\u{E01EF}]/u

describe("VisibleText", () => {
  it("marks what hides, moves or reorders characters", () => {
    const cases: ReadonlyArray<readonly [string, string]> = [
      ["echo \u202Etxt.hs\u202C", "echo \\u{202E}txt.hs\\u{202C}"],
      ["a\u2066b\u2069", "a\\u{2066}b\\u{2069}"],
      ["ls\rrm -rf x", "ls\\u{D}rm -rf x"],
      ["a\u001B[2K\b\u009B1A", "a\\u{1B}[2K\\u{8}\\u{9B}1A"],
      ["r\u200Bm\u2060 \uFEFFx\u00AD", "r\\u{200B}m\\u{2060} \\u{FEFF}x\\u{AD}"],
      ["x\u{E0041}\u{E007F}", "x\\u{E0041}\\u{E007F}"],
      ["x\uFE0F\u{E0100}", "x\\u{FE0F}\\u{E0100}"],
      ["😀\u{E0101}\u{E0102}", "😀\\u{E0101}\\u{E0102}"],
      ["rm\u3000a\u00A0b\u2028c", "rm\\u{3000}a\\u{A0}b\\u{2028}c"],
      ["\uD800", "\\u{D800}"]
    ]
    for (const [given, shown] of cases) assert.strictEqual(VisibleText.showLines(given), shown)
  })

  it("leaves letters of all scripts and emoji alone", () => {
    const emoji = "👩‍💻 ❤️ ✨️ 1️⃣ 🇩🇪 👍🏽 🏃‍♂ 🏳️‍🌈 🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}"
    for (const text of ["plain ASCII\n\tindented", emoji, "é ü ß 日本 العربية"])
      assert.strictEqual(VisibleText.showLines(text), text)
  })

  it("has no line ends in one line", () => {
    assert.strictEqual(VisibleText.showLine("a\n\tb"), "a\\u{A}\\u{9}b")
  })

  prop("leaves nothing hidden in any text", [Schema.String], ([text]) => {
    assert.notMatch(VisibleText.showLines(text), hidden)
  })
})
