import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { nodeLayer, workspace } from "../support/fileTools.ts"

layer(nodeLayer)("hermes-product: files", (it) => {
  it.effect("34 a multi-file V4A patch whose last hunk does not match changes no file", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "one\n")
      yield* w.put("b.txt", "two\n")
      yield* w.put("c.txt", "three\n")
      const before = yield* w.tree
      const { isFailure, body } = yield* w.call("patch", {
        mode: "patch",
        patch: [
          "*** Begin Patch",
          "*** Add File: new/d.txt",
          "+four",
          "*** Update File: a.txt",
          "-one",
          "+1",
          "*** Delete File: b.txt",
          "*** Update File: c.txt",
          "-three",
          "+3",
          "@@",
          "-not there",
          "+anything",
          "*** End Patch"
        ].join("\n")
      })
      assert.isTrue(isFailure)
      assert.strictEqual(body["success"], false)
      assert.include(String(body["error"]), "c.txt")
      assert.deepStrictEqual(yield* w.tree, before)
    })
  )

  it.effect("35 an old string that occurs twice without replace_all is an error and no change", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "x = 1\ny = 2\nx = 1\n")
      const { isFailure, body } = yield* w.call("patch", { path: "a.txt", old_string: "x = 1", new_string: "x = 3" })
      assert.isTrue(isFailure)
      assert.include(String(body["error"]), "lines 1, 3")
      assert.strictEqual(yield* w.get("a.txt"), "x = 1\ny = 2\nx = 1\n")
    })
  )
})
