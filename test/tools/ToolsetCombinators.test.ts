// Functions that change a toolset work in a pipe and with the toolset first.
import { assert, describe, it } from "vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Toolset from "../../src/tools/Toolset.ts"
import { root } from "../support/sources.ts"

const toolset = Toolset.fromBound("none", [], Effect.succeed([]))

const isToolset = (value: unknown): boolean => typeof value === "object" && value !== null && "bind" in value

describe("combinators of toolsets", () => {
  it("are dual", () => {
    const combinators = Object.entries(Toolset).filter(([name]) => name.startsWith("with"))
    assert.isAbove(combinators.length, 1)
    for (const [name, combine] of combinators) {
      const change: unknown = Effect.succeed(() => undefined)
      // Each takes a toolset and an Effect, in either form.
      const call = combine as (...args: ReadonlyArray<unknown>) => unknown
      const later = call(change) as (toolset: unknown) => unknown
      assert.isTrue(isToolset(call(toolset, change)) && isToolset(later(toolset)), name)
    }
  })

  it("are all functions of the package that take a toolset and something else", () => {
    const api = readFileSync(join(root, "test/api.md"), "utf8").split("\n")
    const single = api.filter((line) => /^const \w+ = (?:<[^=]*>)?\(\s*\w+: (?:Toolset\.)?Toolset<[^>]*>, /u.test(line))
    assert.deepStrictEqual(
      single.map((line) => line.split(" ")[1]),
      // It makes a subject of tests, not a toolset.
      ["bindSubject"]
    )
  })
})
