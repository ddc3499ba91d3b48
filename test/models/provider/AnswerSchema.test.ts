// Schemas that a provider's own field for structured answers cannot enforce are recognized.
import { assert, describe, it } from "@effect/vitest"
import type * as JsonSchema from "effect/JsonSchema"
import * as AnswerSchema from "../../../src/models/provider/AnswerSchema.ts"

const closed = (properties: Record<string, unknown>) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false
})

/** True if Claude enforces a schema, which is then a field of the request. */
const isEnforced = (schema: JsonSchema.JsonSchema): boolean =>
  AnswerSchema.planFormat({ responseFormat: { type: "json", name: "answer", schema } }, true).field !== undefined

describe("what Claude can enforce", () => {
  it("is no schema that refers to itself, also from its root", () => {
    assert.isFalse(isEnforced(closed({ children: { type: "array", items: { $ref: "#" } } })))
    const tree = closed({ children: { type: "array", items: { $ref: "#/$defs/tree" } } })
    assert.isFalse(isEnforced({ ...closed({ root: { $ref: "#/$defs/tree" } }), $defs: { tree } }))
  })

  it("is no tuple, whose items would be lost", () =>
    assert.isFalse(isEnforced(closed({ at: { prefixItems: [{ type: "number" }], items: false } }))))

  it("is decided for definitions that are used again and again", () => {
    const definitions = Array.from({ length: 100 }, (_, index): [string, unknown] => [
      `d${index}`,
      closed({ a: { $ref: `#/$defs/d${index + 1}` }, b: { $ref: `#/$defs/d${index + 1}` } })
    ])
    const $defs = { ...Object.fromEntries(definitions), d100: { type: "string" } }
    assert.isTrue(isEnforced({ ...closed({ a: { $ref: "#/$defs/d0" } }), $defs }))
  })
})

describe("what OpenAI enforces strictly", () => {
  for (const keyword of ["oneOf", "allOf", "prefixItems"])
    it(`is nothing with ${keyword}`, () =>
      assert.isFalse(AnswerSchema.isStrict(closed({ one: { [keyword]: [closed({})] } }))))

  it("is a choice between closed objects", () =>
    assert.isTrue(AnswerSchema.isStrict(closed({ one: { anyOf: [closed({}), { type: "null" }] } }))))
})
