// The JSON of an answer is found in linear time, and schemas that need a wrapper keep their references.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AnswerFormat from "../../../src/base/domain/AnswerFormat.ts"

const many = 500_000

describe("the JSON of an answer", () => {
  for (const [name, text] of [
    ["line breaks in a fence", `\`\`\`${"\n".repeat(many)}x`],
    ["spaces in a fence", `\`\`\`\n${" ".repeat(many)}x`],
    ["backticks", "`".repeat(many)],
    ["fences", "```\n".repeat(many)],
    ["brackets", "[".repeat(many)]
  ] as const) {
    // Quadratic time would exceed the time limit of a test by far.
    it(`is not sought for long among ${name}`, () => assert.isUndefined(AnswerFormat.findJson(text)))
  }

  it("may contain code fences of its own", () => {
    const json = JSON.stringify({ code: "```js\nf()\n```" })
    assert.strictEqual(AnswerFormat.findJson(`\`\`\`json\n${json}\n\`\`\``), json)
  })
})

describe("a schema that is wrapped", () => {
  const make = (schema: Record<string, unknown>) =>
    AnswerFormat.makeFormat({ schema, definitions: {} }, Effect.succeed).schema

  it("refers to itself in the wrapper", () => {
    assert.deepStrictEqual(
      make({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        anyOf: [{ type: "string" }, { type: "array", items: { $ref: "#" } }]
      }),
      {
        type: "object",
        properties: {
          value: { anyOf: [{ type: "string" }, { type: "array", items: { $ref: "#/properties/value" } }] }
        },
        required: ["value"],
        additionalProperties: false
      }
    )
  })

  it("that says nothing but its draft is refused", () =>
    assert.throws(() => make({ $schema: "https://json-schema.org/draft/2020-12/schema" }), /any JSON value/))
})
