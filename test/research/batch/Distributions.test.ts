import { assert, describe, it } from "@effect/vitest"
import * as Distributions from "../../../src/research/batch/Distributions.ts"
import * as Toolsets from "../../../src/tools/Toolsets.ts"

const rows = Array.from({ length: 2000 }, (_, index) => `row${index}`)

describe("Distributions", () => {
  it("names are those of the contract, and their toolsets are known", () => {
    assert.deepStrictEqual(Distributions.names, [
      "default",
      "image_gen",
      "research",
      "science",
      "development",
      "safe",
      "balanced",
      "minimal",
      "terminal_only",
      "terminal_web",
      "creative",
      "reasoning",
      "browser_use",
      "browser_only",
      "browser_tasks",
      "terminal_tasks",
      "mixed_tasks"
    ])
    for (const { toolsets } of Object.values(Distributions.table)) {
      for (const name of Object.keys(toolsets)) assert.isTrue(Object.hasOwn(Toolsets.catalogue, name), name)
    }
  })

  it("each toolset is drawn with its own probability", () => {
    const draws = rows.map((row) => Distributions.draw({ web: 100, terminal: 40, file: 10, vision: 0 }, "s", row))
    const share = (name: string) => draws.filter((drawn) => drawn.includes(name)).length / draws.length
    assert.strictEqual(share("web"), 1)
    assert.closeTo(share("terminal"), 0.4, 0.04)
    assert.closeTo(share("file"), 0.1, 0.03)
    assert.strictEqual(share("vision"), 0)
    const both = draws.filter((drawn) => drawn.includes("terminal") && drawn.includes("file")).length / draws.length
    assert.closeTo(both, 0.04, 0.02)
  })

  it("a row has the same draw again, and another one with another seed", () => {
    const drawn = (seed: string) =>
      rows.map((row) => Distributions.draw({ web: 50, terminal: 50 }, seed, row).join()).join(";")
    assert.strictEqual(drawn("a"), drawn("a"))
    assert.notStrictEqual(drawn("a"), drawn("b"))
  })

  it("toolsets that have no tools are not drawn", () => {
    assert.deepStrictEqual(
      Distributions.draw({ browser: 100, terminal: 1 }, "s", "r", (name) => name === "terminal"),
      ["terminal"]
    )
    assert.deepStrictEqual(
      Distributions.draw({ browser: 100 }, "s", "r", () => false),
      []
    )
  })

  it("a text is a name or a list; what it is not is told with the nearest name", () => {
    assert.deepStrictEqual(Distributions.find("minimal"), { web: 100 })
    assert.deepStrictEqual(Distributions.find("terminal=90, web=40"), { terminal: 90, web: 40 })
    assert.strictEqual(
      Distributions.find("mixed_task"),
      'there is no distribution "mixed_task": did you mean "mixed_tasks"?'
    )
    assert.strictEqual(
      Distributions.find("constructor"),
      'there is no distribution "constructor": list them with `hermes lab batch run --list-distributions`'
    )
    assert.strictEqual(Distributions.find("terminl=9"), 'there is no toolset "terminl": did you mean "terminal"?')
    assert.strictEqual(Distributions.find("web=200"), '"web=200": expected toolset=PERCENT from 0 to 100')
  })
})
