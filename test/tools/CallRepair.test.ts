import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as ArgumentRepair from "../../src/tools/calls/ArgumentRepair.ts"
import * as NameRepair from "../../src/tools/calls/NameRepair.ts"
import { prop } from "../support/property.ts"

const tools = (...names: ReadonlyArray<string>): ReadonlyArray<NameRepair.Candidate> =>
  names.map((name) => ({ name, destructive: name === "terminal" }))

describe("names", () => {
  const known = tools("todo", "patch", "browser_click", "read_file", "terminal")
  const meantBy = NameRepair.makeNameFinder(known)

  it("T89 (overridden by the architecture §7: the own part, the same verb, one winner) repair", () => {
    const cases: ReadonlyArray<readonly [string, string | undefined]> = [
      ["TodoTool_tool", "todo"],
      ["Patch", "patch"],
      ["Patch_tool", "patch"],
      ["BrowserClick_tool", "browser_click"],
      ["read-file", "read_file"],
      ["Read File", "read_file"],
      ["read_fil", "read_file"],
      ["xyz", undefined],
      ["", undefined],
      ["   ", undefined]
    ]
    for (const [asked, meant] of cases) assert.strictEqual(meantBy(asked), meant, asked)
  })

  it("similarity never lands on a destructive tool, an exact spelling may", () => {
    assert.strictEqual(meantBy("termnal"), undefined)
    assert.strictEqual(meantBy("Terminal"), "terminal")
    assert.strictEqual(meantBy("terminal_tool"), "terminal")
  })

  it("names of objects are names of no tool", () => {
    for (const name of ["constructor", "__proto__", "toString"]) assert.strictEqual(meantBy(name), undefined)
  })

  prop("any name is repaired to a known one or to none", [Schema.String], ([name]) => {
    const meant = meantBy(name)
    assert.isTrue(meant === undefined || known.some((tool) => tool.name === meant))
  })
})

describe("arguments", () => {
  const args = (text: string): unknown => {
    const repaired = ArgumentRepair.repair(text)
    return repaired._tag === "Repaired" ? repaired.args : repaired._tag
  }

  it("T91 empty, blank and null arguments are an empty object", () => {
    for (const text of ["", "  \n", "null", "None"]) assert.deepStrictEqual(args(text), {})
  })

  it("T94 cut arguments are never taken for whole ones", () => {
    for (const text of ['{"path": "a', '{"path":', '{"a":1,', '{"a":tru', '{"a":{"b":1', '{"text":"ends with }']) {
      assert.strictEqual(args(text), "Truncated", text)
    }
  })

  it("T95 (decided: closed in nesting order, and only where the text ends with a closer) repairable texts", () => {
    assert.deepStrictEqual(args('{"a":1,}'), { a: 1 })
    assert.deepStrictEqual(args('{"a":[1,2,],}'), { a: [1, 2] })
    assert.deepStrictEqual(args('{"a":{"b":1}'), { a: { b: 1 } })
    assert.deepStrictEqual(args('{"a":[1,2]'), { a: [1, 2] })
    assert.deepStrictEqual(args('{"a":1}}'), { a: 1 })
    assert.deepStrictEqual(args('{"a":"line\nbreak\tand tab"}'), { a: "line\nbreak\tand tab" })
    assert.deepStrictEqual(args('"{\\"a\\":1}"'), { a: 1 })
  })

  it("what is no object is malformed", () => {
    for (const text of ["[1,2]", "5", '"text"', "{a:1}", "{'a':1}", "}{}"])
      assert.strictEqual(args(text), "Malformed", text)
  })

  prop("an object survives as it is", [Schema.Record(Schema.String, Schema.Json)], ([value]) => {
    assert.deepStrictEqual(args(JSON.stringify(value)), JSON.parse(JSON.stringify(value)))
  })

  prop(
    "a prefix of an object is never executed as something else",
    [Schema.Record(Schema.String, Schema.Json), Schema.Finite],
    ([value, cut]) => {
      const text = JSON.stringify(value)
      const prefix = text.slice(0, 1 + Math.floor(Math.abs(cut) % Math.max(1, text.length - 1)))
      const repaired = ArgumentRepair.repair(prefix)
      if (repaired._tag !== "Repaired" || prefix === text) return
      // What is read out of a cut text is whole: nothing in it was invented, and no member was changed.
      for (const [key, member] of Object.entries(repaired.args)) {
        if (typeof member === "string") assert.isTrue(JSON.stringify(value).includes(JSON.stringify(member)), key)
      }
    }
  )

  it("text with very many open brackets is not repaired", () => {
    const reason = "it has too many open brackets"
    assert.deepStrictEqual(ArgumentRepair.repair(`${'{"a":['.repeat(6_000)}}`), { _tag: "Malformed", reason })
    assert.strictEqual(ArgumentRepair.repair(`{"a":${"[".repeat(200)}1${"]".repeat(200)},}`)._tag, "Repaired")
  })

  prop("garbage never throws", [Schema.String], ([text]) => {
    ArgumentRepair.repair(text)
  })
})
