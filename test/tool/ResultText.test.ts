import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as ResultText from "../../src/tool/ResultText.ts"

/** State of a run. */
class RunState extends Context.Service<RunState, { readonly text: string }>()("test/RunState") {}

describe("results that are kept for a while", () => {
  it.live("hold nothing of the run that needed their directory first", () =>
    Effect.gen(function*() {
      setFlagsFromString("--expose-gc")
      const collect = runInNewContext("gc") as () => void
      const { keep } = yield* ResultText.ResultKeeper
      const path = (call: string, state: { readonly text: string }) => Effect.provideService(keep(call, "x".repeat(2_000)), RunState, state)
      const run = Effect.suspend(() => {
        const state = { text: "a conversation" }
        return Effect.as(path("first", state), new WeakRef(state))
      })
      const state = yield* run
      for (let tries = 0; tries < 20 && state.deref() !== undefined; tries++) {
        yield* Effect.promise(() => new Promise((done) => setImmediate(done)))
        collect()
      }
      assert.isUndefined(state.deref())
      assert.include(yield* path("second", { text: "another one" }), "second.txt")
    }).pipe(Effect.provide(ResultText.layerTemporary), Effect.provide(NodeServices.layer)))
})
