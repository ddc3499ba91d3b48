import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import { coerce } from "../../src/tools/calls/ArgumentRepair.ts"
import { prop } from "../support/property.ts"

const schema = {
  type: "object",
  properties: {
    count: { type: "integer" },
    ratio: { type: "number" },
    on: { type: "boolean" },
    text: { type: "string" },
    any: {},
    maybe: { anyOf: [{ type: "integer" }, { type: "null" }] },
    either: { type: ["number", "string"] },
    lines: { type: "array", items: { type: "integer" } },
    where: { $ref: "#/$defs/place" },
    level: { enum: [1, 2, 3], type: "integer" }
  },
  additionalProperties: { type: "boolean" },
  $defs: { place: { type: "object", properties: { x: { type: "number" }, next: { $ref: "#/$defs/place" } } } }
}

describe("values of another type than the schema's", () => {
  const cases: ReadonlyArray<
    readonly [name: string, given: Record<string, unknown>, expected: Record<string, unknown>]
  > = [
    ["whole numbers", { count: "5", maybe: " 7 ", level: "2" }, { count: 5, maybe: 7, level: 2 }],
    ["numbers", { ratio: "-0.5e2" }, { ratio: -50 }],
    ["booleans", { on: "True", other: "false" }, { on: true, other: false }],
    ["null where it is allowed", { maybe: "null" }, { maybe: null }],
    [
      "lists and objects as JSON text, and what is in them",
      { lines: '[1, "2"]', where: '{"x":"3"}' },
      { lines: [1, 2], where: { x: 3 } }
    ],
    [
      "members of lists and of nested objects",
      { lines: ["1", 2], where: { x: "1", next: { x: "2" } } },
      { lines: [1, 2], where: { x: 1, next: { x: 2 } } }
    ]
  ]
  for (const [name, given, expected] of cases) {
    it(`${name}`, () => assert.deepStrictEqual(coerce(given, schema), expected))
  }

  it("leaves alone, as the same object, what is right, what is not exactly the type, and what may be a text", () => {
    for (const given of [
      { count: 5, on: true, text: "5", any: "5", either: "5", lines: [1], where: { x: 1 } },
      { count: "5.5" },
      { count: "5 files" },
      { count: "0x10" },
      { count: "" },
      { ratio: "NaN" },
      { ratio: "1e999" },
      { count: "9007199254740993" },
      { on: "yes" },
      { on: 1 },
      { text: 5 },
      { lines: "1,2" },
      { where: "[1]" },
      { maybe: "none" }
    ]) {
      assert.strictEqual(coerce<Record<string, unknown>>(given, schema), given, JSON.stringify(given))
    }
  })

  it("reads the schemas that effect makes of tools", () => {
    const tool = Tool.make("t", {
      parameters: Schema.Struct({
        limit: Schema.optionalKey(Schema.Int),
        size: Schema.Number,
        files: Schema.Array(Schema.Struct({ line: Schema.Finite })),
        flag: Schema.NullOr(Schema.Boolean)
      })
    })
    assert.deepStrictEqual(
      coerce<Record<string, unknown>>(
        { limit: "3", size: "2.5", files: [{ line: "7" }], flag: "true" },
        Tool.getJsonSchema(tool)
      ),
      { limit: 3, size: 2.5, files: [{ line: 7 }], flag: true }
    )
  })

  it("ends on schemas and arguments that do not", () => {
    const round = { type: "object", properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: { $ref: "#/$defs/a" } } }
    assert.deepStrictEqual(coerce({ a: "5" }, round), { a: "5" })
    const choice = {
      type: "object",
      properties: { a: { $ref: "#/$defs/a" } },
      $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }] } }
    }
    assert.deepStrictEqual(coerce({ a: "5" }, choice), { a: "5" })
    const nested = { type: "object", properties: { a: { $ref: "#" } } }
    let deep: Record<string, unknown> = { a: "x" }
    for (let i = 0; i < 5_000; i++) deep = { a: deep }
    assert.strictEqual(coerce(deep, nested), deep)
  })

  it("names of objects are names of no parameter", () => {
    const given = JSON.parse('{"__proto__":"5","constructor":"5"}')
    assert.deepStrictEqual(coerce(given, { type: "object", properties: {} }), given)
  })

  prop(
    "what fits stays as it is, whatever the text",
    [Schema.String, Schema.Int, Schema.Boolean],
    ([text, count, on]) => {
      const given = { text, count, on, any: text, either: text }
      assert.strictEqual(coerce<Record<string, unknown>>(given, schema), given)
    }
  )
})
