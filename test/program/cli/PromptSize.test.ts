// `hermes prompt size`: what each request of a session contains before the conversation.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { machine } from "../../support/hermesInProcess.ts"

interface Weight {
  readonly layer: string
  readonly characters: number
  readonly tokens: number
}

describe("hermes prompt size", () => {
  it.live("counts the layers of the prompt and the tools, which are most of it; fewer tools weigh less", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const read = (...args: ReadonlyArray<string>) =>
        Effect.map(hermes([...args, "prompt", "size", "--json"]), ({ code, stderr, stdout }) => {
          assert.strictEqual(code, 0, stderr)
          return JSON.parse(stdout) as {
            readonly layers: ReadonlyArray<Weight>
            readonly prompt: Weight
            readonly tools: ReadonlyArray<Weight>
            readonly total: Weight
          }
        })
      const { layers, prompt, tools, total } = yield* read()
      assert.include(
        layers.map(({ layer }) => layer),
        "identity"
      )
      assert.include(
        tools.map(({ layer }) => layer),
        "read_file"
      )
      const ofTools = tools.reduce((sum, { characters }) => sum + characters, 0)
      assert.strictEqual(total.characters, prompt.characters + ofTools)
      assert.isAbove(ofTools, prompt.characters)
      // Every request of every session contains them, so the bound only falls.
      assert.isAtMost(ofTools / 4, 4_100)
      const few = yield* read("--toolsets", "file")
      assert.isBelow(few.tools.length, tools.length)
      assert.isBelow(few.total.tokens, total.tokens)
      const { stdout } = yield* hermes(["prompt", "size"])
      assert.match(stdout, new RegExp(`^${tools.length} tools +\\d+ +${ofTools}$`, "m"))
    })
  )
})
