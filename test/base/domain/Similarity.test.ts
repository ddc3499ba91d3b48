import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { findClosest, distance, findNearest, ratio, similarity } from "../../../src/base/domain/Similarity.ts"
import { prop } from "../../support/property.ts"

describe("Similarity", () => {
  it("counts insertions, deletions, replacements and swapped neighbours", () => {
    for (const [a, b, edits] of [
      ["", "", 0],
      ["abc", "abc", 0],
      ["abc", "", 3],
      ["abc", "abxc", 1],
      ["agent", "agnet", 1],
      ["kitten", "sitting", 3]
    ] as const) {
      assert.strictEqual(distance(a, b), edits, `${a} ${b}`)
    }
    assert.strictEqual(similarity("", ""), 1)
    assert.strictEqual(similarity("abcd", "abcx"), 0.75)
  })

  it("the ratio is that of Ratcliff and Obershelp", () => {
    assert.strictEqual(ratio("", ""), 1)
    assert.strictEqual(ratio("abcd", "bcde"), 0.75)
    assert.strictEqual(ratio("abc", "xyz"), 0)
    assert.closeTo(ratio("read_fil", "read_file"), 16 / 17, 1e-9)
  })

  it("finds what was meant, and nothing that is far away", () => {
    const names = ["agent", "approvals", "model", "memory", "max_turns"]
    assert.strictEqual(findNearest("agnet", names), "agent")
    assert.strictEqual(findNearest("Modell", names), "model")
    assert.strictEqual(findNearest("maxturns", names), "max_turns")
    assert.isUndefined(findNearest("xyz", names))
    assert.isUndefined(findNearest("", names))
  })

  it("lists the closest names, best first, in the given order where they are equally close", () => {
    assert.deepStrictEqual(findClosest("SESION", ["models", "session", "sessions", "version"], 2), [
      "session",
      "sessions"
    ])
    assert.deepStrictEqual(findClosest("ab", ["abd", "abc"], 3), ["abd", "abc"])
    assert.deepStrictEqual(findClosest("xyz", ["models"], 3), [])
  })

  prop(
    "both measures are 1 for equal texts only, and stay within 0 and 1",
    [Schema.String, Schema.String],
    ([a, b]) => {
      for (const measure of [similarity, ratio]) {
        assert.isTrue(measure(a, b) >= 0 && measure(a, b) <= 1)
        assert.strictEqual(measure(a, b) === 1, a === b)
      }
      assert.strictEqual(distance(a, b), distance(b, a))
    }
  )
})
