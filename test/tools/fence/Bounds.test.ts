// How much of a result reaches a model, and where the rest is.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as ResultText from "../../../src/tools/ResultText.ts"

const result = (chars: number, tool = "web_extract", callId = `call-${chars}`): ResultText.Result => ({
  callId,
  tool,
  text: "line of text\n".repeat(Math.ceil(chars / 13)).slice(0, chars)
})

describe("Bounds", () => {
  it.effect("lets a result pass that fits, itself", () =>
    Effect.gen(function* () {
      const given = result(100_000)
      assert.strictEqual(yield* ResultText.boundResult(given), given.text)
    })
  )

  it.effect("keeps a long result in a file that is named after the call, and shows its beginning", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const given = result(150_000, "web_extract", "../../call/1")
      const text = yield* ResultText.boundResult(given).pipe(
        Effect.provide(ResultText.layerFile(`${directory}/results`))
      )
      const path = /saved to: (.+)/.exec(text)?.[1] ?? ""
      assert.strictEqual(path, `${directory}/results/______call_1.txt`)
      assert.strictEqual(yield* fs.readFileString(path), given.text)
      assert.include(text, "150000 characters")
      assert.include(text, "read_file")
      assert.isAtMost(text.length, 2_000)
      assert.strictEqual(Number((yield* fs.stat(path)).mode) & 0o077, 0)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("never keeps what read_file reads", () =>
    Effect.gen(function* () {
      for (const given of [result(150_000, "read_file")]) {
        assert.strictEqual(yield* ResultText.boundResult(given), given.text)
      }
    })
  )

  it.effect("cuts, and says so, when nothing can be kept", () =>
    Effect.gen(function* () {
      const text = yield* ResultText.boundResult(result(150_000))
      assert.include(text, "[Truncated: the result has 150000 characters")
      assert.isAtMost(text.length, 1_800)
    })
  )

  it.effect("keeps the largest of a batch until the rest is within the budget", () =>
    Effect.gen(function* () {
      const texts = yield* ResultText.boundAll([
        result(90_000, "a", "1"),
        result(95_000, "b", "2"),
        result(90_000, "c", "3")
      ])
      assert.deepStrictEqual(
        texts.map((text) => text.length > 10_000),
        [true, false, true]
      )
      assert.isAtMost(
        texts.reduce((sum, text) => sum + text.length, 0),
        200_000
      )
    })
  )

  it("cuts a preview at a line end that keeps more than half of it, and never in a character", () => {
    assert.strictEqual(ResultText.takePreview(`${"a".repeat(1_000)}\n${"b".repeat(1_000)}`), "a".repeat(1_000))
    assert.isTrue(ResultText.takePreview("😀".repeat(2_000)).isWellFormed())
    assert.strictEqual(ResultText.takePreview(`x\n${"b".repeat(3_000)}`).length, 1_500)
  })

  it("scales with the window, within bounds", () => {
    assert.deepStrictEqual(ResultText.computeLimits(undefined), ResultText.defaultLimits)
    assert.deepStrictEqual(ResultText.computeLimits(4_000), { perResult: 8_000, perTurn: 16_000 })
    assert.deepStrictEqual(ResultText.computeLimits(32_000), { perResult: 19_200, perTurn: 38_400 })
    assert.deepStrictEqual(ResultText.computeLimits(1_000_000), ResultText.defaultLimits)
    assert.strictEqual(ResultText.resolveLimit("terminal", 50_000, ResultText.defaultLimits), 50_000)
  })
})
