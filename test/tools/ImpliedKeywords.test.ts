// JSON Schemas of tools without keywords that allow the same values if they are absent.
import { assert, describe, it } from "@effect/vitest"
import { omit } from "../../src/tools/ImpliedKeywords.ts"

describe("the JSON Schema of a tool", () => {
  it("has no open objects and bounds of safe integers that say nothing, at any depth", () => {
    const integer = { type: "integer", minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }
    assert.deepStrictEqual(
      omit({
        type: "object",
        properties: { count: integer, list: { type: "array", items: { anyOf: [{ ...integer, minimum: 0 }] } } },
        required: ["count"],
        additionalProperties: true
      }),
      {
        type: "object",
        properties: {
          count: { type: "integer" },
          list: { type: "array", items: { anyOf: [{ type: "integer", minimum: 0 }] } }
        },
        required: ["count"]
      }
    )
  })

  it("keeps what says something: closed objects, values, and properties with the name of a keyword", () => {
    const schema = {
      type: "object",
      properties: {
        additionalProperties: true,
        maximum: { type: "integer", maximum: 7, default: { additionalProperties: true } },
        record: { type: "object", additionalProperties: { type: "string" } }
      },
      enum: [{ maximum: Number.MAX_SAFE_INTEGER }],
      additionalProperties: false
    }
    assert.deepStrictEqual(omit(schema), schema)
  })
})
