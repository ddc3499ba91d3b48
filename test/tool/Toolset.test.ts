import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Toolset from "../../src/tool/Toolset.ts"
import { callTool } from "../support/callTool.ts"

const double = Tool.make("double", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Finite })
const toolkit = Toolkit.make(double)
const handlers = toolkit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) })

describe("Toolset", () => {
  it.effect("is made of a toolkit with a layer of handlers, of one whose handlers are around, and of bound handlers", () =>
    Effect.gen(function*() {
      const made = Toolset.make("maths", toolkit, handlers)
      const around = Toolset.fromToolkit("maths", toolkit)
      const bound = Toolset.fromHandlers("maths", yield* Effect.provide(toolkit, handlers))
      const results = [
        yield* callTool(made, "double", { n: 1 }),
        yield* callTool(around, "double", { n: 2 }).pipe(Effect.provide(handlers)),
        yield* callTool(bound, "double", { n: 3 })
      ]
      assert.deepStrictEqual(results.map(({ text }) => text), ["2", "4", "6"])
      for (const { name, tools } of [made, around, bound]) assert.deepStrictEqual([name, tools.map(({ name }) => name)], ["maths", ["double"]])
    }))
})
