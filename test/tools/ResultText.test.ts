import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as ResultText from "../../src/tools/ResultText.ts"

/** State of a run. */
class RunState extends Context.Service<RunState, { readonly text: string }>()("test/RunState") {}

describe("results that are kept for a while", () => {
  it.live("hold nothing of the run that needed their directory first", () =>
    Effect.gen(function* () {
      setFlagsFromString("--expose-gc")
      const collect = runInNewContext("gc") as () => void
      const { keep } = yield* ResultText.ResultKeeper
      const path = (call: string, state: { readonly text: string }) =>
        Effect.provideService(keep(call, "x".repeat(2_000)), RunState, state)
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
    }).pipe(Effect.provide(ResultText.layerTemporary), Effect.provide(NodeServices.layer))
  )
})

describe("the text of a result", () => {
  it("has data of any size and hundreds of levels whole, and a note for what lies deeper", () => {
    const key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    const nested = (levels: number, inmost: unknown): unknown =>
      Array.from({ length: levels }).reduce((inner) => ({ inner }), inmost)
    const textOf = (output: unknown, redact: boolean) =>
      ResultText.renderResult({ output, isFailure: false }, { foreign: false, redact }).output
    for (const redact of [true, false]) {
      assert.strictEqual(textOf(nested(300, "end"), redact), JSON.stringify(nested(300, "end")))
      const rows = Array.from({ length: 120_000 }, (_, row) => ({ row }))
      assert.strictEqual(textOf(rows, redact), JSON.stringify(rows))
      assert.include(textOf(nested(100_000, "end"), redact), "<depth limit>")
    }
    const hidden = textOf(nested(300, key), true)
    assert.notInclude(hidden, key)
    assert.notInclude(hidden, "limit>")
  })

  it("has what JSON has no form for, with the secrets and control characters of every depth taken out", () => {
    const textOf = (output: unknown, redact: boolean) =>
      ResultText.renderResult({ output, isFailure: false }, { foreign: false, redact }).output
    const cyclic: { self?: unknown; readonly list: ReadonlyArray<unknown> } = { list: [1n] }
    cyclic.self = cyclic
    const value = {
      at: new Date(0),
      map: new Map([["k\u0007", new Set(["a\u0007"])]]),
      error: new RangeError("far\u0007"),
      cyclic,
      key: new Map([["password", "hunter22hunter22"]])
    }
    const text = (password: string) =>
      `{"at":"1970-01-01T00:00:00.000Z","map":{"k":["a"]},"error":{"name":"RangeError","message":"far"},"cyclic":{"list":["1"],"self":"<circular>"},"key":{"password":"${password}"}}`
    assert.strictEqual(textOf(value, false), text("hunter22hunter22"))
    assert.strictEqual(textOf(value, true), text("<redacted>"))
    assert.strictEqual(
      textOf(Object.defineProperty({}, "x", { enumerable: true, get: () => assert.fail("read") }), true),
      "<unreadable>"
    )
  })
})
