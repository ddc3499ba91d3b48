import { assert, describe, it } from "@effect/vitest"
import { makeStreamedText } from "../../../src/serve/host/StreamedText.ts"

describe("streamedText", () => {
  it("texts of different steps are set apart by a blank line", () => {
    const shown = makeStreamedText(true)
    shown.step(1)
    const pieces = [shown.delta("Let me "), shown.delta("look.")]
    shown.step(2)
    pieces.push(shown.delta("It is "), shown.delta("red."), shown.rest("It is red."))
    assert.deepStrictEqual(pieces, ["Let me ", "look.", "\n\nIt is ", "red.", ""])
    assert.strictEqual(shown.all(), pieces.join(""))
  })

  it("whitespace of the model is kept", () => {
    const shown = makeStreamedText(true)
    assert.strictEqual(shown.delta("  a\n") + shown.delta("\n b "), "  a\n\n b ")
  })

  it("a final text that did not stream by is shown at the end", () => {
    const shown = makeStreamedText(true)
    shown.step(1)
    assert.strictEqual(shown.rest("Stopped."), "Stopped.")
    assert.strictEqual(shown.all(), "Stopped.")
  })

  it("a text that may still be replaced is held back", () => {
    const shown = makeStreamedText(false)
    shown.step(1)
    assert.strictEqual(shown.delta("secret"), "")
    assert.strictEqual(shown.rest("[removed]"), "[removed]")
    assert.strictEqual(shown.all(), "[removed]")
  })
})
