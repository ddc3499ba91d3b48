// References in the values of agent files, and the lines of errors.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as ConfigFile from "../../../src/base/config/ConfigFile.ts"

const variable = (name: string) => ({ KEY: "k-1", NUMBER: "7" })[name]

const expand = (tree: unknown, variables?: unknown) => ConfigFile.expand(tree, { folder: "/w", variable, variables })

describe("ConfigFile", () => {
  it("replaces references in values; a whole one to variables keeps its type", () => {
    const { missing, tree } = expand(
      {
        a: "${env:KEY}-${env.NUMBER}",
        b: ["${this_file_dir}/x"],
        c: "${variables.deep.n}",
        d: "n=${variables.deep.n}",
        e: "${HOME} $${env.KEY} ${env.KEY:-d}",
        f: 3
      },
      { deep: { n: 5 } }
    )
    assert.deepStrictEqual(missing, [])
    assert.deepStrictEqual(tree, {
      a: "k-1-7",
      b: ["/w/x"],
      c: 5,
      d: "n=5",
      e: "${HOME} ${env.KEY} ${env.KEY:-d}",
      f: 3
    })
  })

  it("T130 an unset variable is missed at its place; one of a value that is brought in is not replaced", () => {
    assert.deepStrictEqual(expand({ a: { b: ["${env.NONE}"] } }).missing, [
      { path: ["a", "b", 0], message: "${env.NONE} is not set: set NONE in the environment or in .env" }
    ])
    assert.deepStrictEqual(
      expand({ a: "${variables.x.y} and ${variables.z}" }, { x: {}, z: {} }).missing.map(({ message }) => message),
      ["${variables.x.y}: variables has no value x.y", "${variables.z}: variables has no value z that fits into a text"]
    )
    assert.deepStrictEqual(expand("${variables.x}").tree, "${variables.x}")
    assert.deepStrictEqual(expand("${variables.constructor.name}", {}).missing.length, 1)
    assert.deepStrictEqual(expand("a ${variables.x}", { x: "${env.KEY}" }).tree, "a ${env.KEY}")
  })

  it.live("an error has the line of its place, or of the nearest one above it", () =>
    Effect.gen(function* () {
      const file = {
        name: "agent.yaml",
        folder: "/w",
        text: Effect.succeed("type: agent\nlist:\n- a: 1\n- b:\n    c: 2\n")
      }
      const line = (path: ConfigFile.Path) =>
        Effect.map(ConfigFile.makeError(file, path, "wrong"), ({ message }) => message)
      assert.strictEqual(yield* line(["list", 1, "b", "c"]), "agent.yaml: line 5: list[1].b.c: wrong")
      assert.strictEqual(yield* line(["list", 0]), "agent.yaml: line 3: list[0]: wrong")
      assert.strictEqual(yield* line(["list", 1, "b", "none", "x"]), "agent.yaml: line 4: list[1].b.none.x: wrong")
      assert.strictEqual(yield* line([]), "agent.yaml: wrong")
    })
  )
})
