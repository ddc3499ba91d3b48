// Cases of the LLM document about answers that are none, over several routes.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import * as RoutedModelRouter from "../../src/models/routing/RoutedModelRouter.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as S from "../models/routing/support.ts"
import * as Fake from "../support/fakeModel.ts"

const empty = Fake.text("")

const runOver = (script: S.Script) => {
  const { asked, open } = S.world(script)
  const chain = [{ route: S.route("a") }, { route: S.route("b") }] as const
  const layer = Agent.layer({ cwd: "/tmp" }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(RoutedModelRouter.layer({ chain, open }), SessionStore.layerMemory, ToolRegistry.layer([]))
    )
  )
  return Effect.map(Effect.provide(Agent.run({ prompt: "hi" }), layer), (result) => ({ asked, result }))
}

describe("empty answers", () => {
  it.effect("T124 after three empty retries the fallback is activated, and the count starts again", () =>
    Effect.gen(function* () {
      const { asked, result } = yield* runOver({ a: [empty], b: [empty, empty, empty, Fake.text("At last.")] })
      assert.deepStrictEqual(asked, ["a", "a", "a", "a", "b", "b", "b", "b"])
      assert.deepInclude(result, { exit: "text_response", text: "At last.", provider: "b" })
    })
  )

  it.effect("T124 when the chain is at its end too, the run says that nothing came", () =>
    Effect.gen(function* () {
      const { asked, result } = yield* runOver({ a: [empty], b: [empty] })
      assert.deepStrictEqual(asked, ["a", "a", "a", "a", "b", "b", "b", "b"])
      assert.strictEqual(result.exit, "empty_response_exhausted")
    })
  )
})
