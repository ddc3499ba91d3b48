// Schemas and values of answers: what no model can write is refused with its place before a model is asked, and random
// values of random schemas come back as they were.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as z from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import * as AnswerFormat from "../../src/base/domain/AnswerFormat.ts"
import * as JsonSchemaFormat from "../../src/base/domain/JsonSchemaFormat.ts"
import { fromLayer, HermesError, type PlainOutput } from "../../src/kit/entry/promise.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { scaleRuns } from "../support/effort.ts"

class Point {
  x = 1
}

const refusalOf = async (output: PlainOutput): Promise<string> => {
  const { inspection, provider } = Effect.runSync(Scripted.make([]))
  await using hermes = fromLayer(Runtime.layer({ provider: Layer.succeed(Provider, provider) }))
  const error: unknown = await hermes.run({ prompt: "x", output }).catch((given: unknown) => given)
  assert.lengthOf(Effect.runSync(inspection.calls), 0)
  return error instanceof HermesError ? `${error.tag}: ${error.message}` : String(error)
}

const circle: Record<string, unknown> = { type: "object" }
circle["properties"] = { self: circle }

const nested = (depth: number): object =>
  depth === 0 ? { type: "string" } : { type: "array", items: nested(depth - 1) }

describe("a schema that no model can be asked for", () => {
  const unwritable = "output: the schema has no JSON form that a model can write"
  const remedy = "give that part a codec, or use a schema of JSON values"
  const cases: ReadonlyArray<readonly [title: string, output: unknown, expected: string]> = [
    [
      "a class deep inside",
      Schema.Struct({ at: Schema.Array(Schema.Struct({ point: Schema.instanceOf(Point) })) }),
      `${unwritable} (at.0.point is a class without a codec): ${remedy}`
    ],
    ["any value", Schema.Unknown, `${unwritable} (it allows any JSON value): ${remedy}`],
    ["no value", Schema.Never, `${unwritable} (it allows no value): ${remedy}`],
    ["any value of Zod", z.any(), "output: no model can be asked for this schema: it allows any JSON value"],
    [
      "a date of Zod",
      z.object({ at: z.date() }),
      "output: the schema has no JSON Schema (Date cannot be represented in JSON Schema): use a schema of Zod 4.2, " +
        "ArkType or Effect, or give a JSON Schema as an object"
    ],
    [
      "a circle",
      circle,
      "output: the schema is not a JSON Schema: properties.self contains itself: name it in $defs, and refer to it by $ref"
    ],
    [
      "a bigint",
      { type: "object", properties: { n: { const: 10n } } },
      "output: the schema is not a JSON Schema: properties.n.const is a bigint, which JSON does not have"
    ],
    ["a date", new Date(), "output: the schema is not a JSON Schema: it is an object of a class"],
    ["a symbol", { type: Symbol("x") }, "output: the schema is not a JSON Schema: type is not a type of JSON Schema"],
    [
      "a type that does not exist",
      { type: "object", properties: { n: { type: "nummer" } } },
      "output: the schema is not a JSON Schema: properties.n.type is not a type of JSON Schema"
    ],
    ["another NaN", { minimum: Number.NaN }, "output: the schema is not a JSON Schema: minimum is not a finite number"],
    ["too many levels", nested(600), "output: the schema is not a JSON Schema: it is nested too deeply"],
    ["nothing", {}, "output: the schema is not a valid JSON Schema: it allows any JSON value"],
    [
      "a library that is not a schema",
      { parse: () => 1 },
      "output: the schema is not a JSON Schema: parse is a function, which JSON does not have"
    ]
  ]
  for (const [title, output, expected] of cases) {
    // Hostile on purpose.
    it(`with ${title} is refused`, async () =>
      assert.strictEqual(await refusalOf(output as PlainOutput), `ConfigError: ${expected}`))
  }

  it("may have properties with the names of keywords, data of any form, and 100 kB", () => {
    const properties = { type: { type: "string" }, properties: { type: "object", default: { type: 3 } } }
    const schema = { type: "object", description: "x".repeat(100_000), properties, enum: [{ type: 7 }] }
    assert.notStrictEqual(JsonSchemaFormat.readJsonSchema({ ...schema, enum: undefined })._tag, "Failure")
  })
})

describe("a history", () => {
  it.effect("that has no messages in it is an invalid input with the place", () =>
    Effect.gen(function* () {
      for (const wrong of ["text", [null], [{ role: "bot", content: "x" }], [{ role: "user", content: [1] }]]) {
        const error = yield* Effect.flip(Agent.run({ prompt: "x", history: wrong as never }))
        assert.strictEqual(error.message, "history[0] is not a message: make it by Prompt.userMessage and its siblings")
      }
    }).pipe(Effect.provide(Runtime.layer()))
  )
})

describe("a session id", () => {
  it.effect("that is empty is an invalid input", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Agent.run({ prompt: "x", sessionId: "" }))
      assert.strictEqual(error.message, "the session id is empty: leave it out, or name one")
    }).pipe(Effect.provide(Runtime.layer()))
  )
})

type Codec = Schema.Codec<unknown, unknown>

const pick = <A>(items: readonly [A, ...ReadonlyArray<A>]): Effect.Effect<A> =>
  Effect.map(Random.nextIntBetween(0, items.length), (index) => items[index] ?? items[0])

const makeText: Effect.Effect<string> = Effect.flatMap(Random.nextIntBetween(0, 12), (length) =>
  Effect.map(
    Effect.all(
      Array.from({ length }, () => pick(["a", "ß", "\n", '"', "\\", "{", "}", "`", "```", " ", "é", "😀", "1"]))
    ),
    (all) => all.join("")
  )
)

/** A schema with one of its values. */
interface Sample {
  readonly schema: Codec
  readonly value: unknown
}

const leaves: readonly [Effect.Effect<Sample>, ...ReadonlyArray<Effect.Effect<Sample>>] = [
  Effect.map(makeText, (value) => ({ schema: Schema.String, value })),
  Effect.map(Random.nextInt, (value) => ({ schema: Schema.Int, value })),
  Effect.map(Random.next, (value) => ({ schema: Schema.Finite, value: value * 1e9 })),
  Effect.map(Random.nextBoolean, (value) => ({ schema: Schema.Boolean, value })),
  Effect.succeed({ schema: Schema.Null, value: null }),
  Effect.map(Random.nextIntBetween(0, 4e12), (at) => ({ schema: Schema.Date, value: new Date(at) })),
  Effect.map(Random.nextInt, (value) => ({ schema: Schema.BigInt, value: BigInt(value) ** 3n })),
  Effect.map(pick(["red", "green"]), (value) => ({ schema: Schema.Literals(["red", "green", "blue"]), value })),
  Effect.map(Random.nextInt, (value) => ({ schema: Schema.NumberFromString, value })),
  Effect.map(Random.nextBoolean, (isSome) => ({
    schema: Schema.Option(Schema.Int),
    value: isSome ? Option.some(7) : Option.none()
  })),
  Effect.map(makeText, (value) => ({ schema: Schema.Uint8Array, value: new TextEncoder().encode(value) }))
]

const makeStruct = (depth: number): Effect.Effect<Sample> =>
  Effect.gen(function* () {
    const fields: Record<string, Codec> = {}
    const value: Record<string, unknown> = {}
    const names = ["a", "b c", "type", "$ref", "value", "ключ", "properties"].slice(yield* Random.nextIntBetween(0, 6))
    for (const name of names) {
      const member = yield* makeSample(depth - 1)
      const isOptional = yield* Random.nextBoolean
      fields[name] = isOptional ? Schema.optionalKey(member.schema) : member.schema
      if (!isOptional || (yield* Random.nextBoolean)) value[name] = member.value
    }
    return { schema: Schema.Struct(fields), value }
  })

const makeList = (depth: number): Effect.Effect<Sample> =>
  Effect.gen(function* () {
    const { schema, value } = yield* makeSample(depth - 1)
    const length = yield* Random.nextIntBetween(0, 3)
    return { schema: Schema.Array(schema), value: Array.from({ length }, () => value) }
  })

const makePair = (depth: number): Effect.Effect<Sample> =>
  Effect.gen(function* () {
    const [first, second] = [yield* makeSample(depth - 1), yield* makeSample(depth - 1)]
    return { schema: Schema.Tuple([first.schema, second.schema]), value: [first.value, second.value] }
  })

const makeUnion = (depth: number): Effect.Effect<Sample> =>
  Effect.gen(function* () {
    const { schema, value } = yield* makeSample(depth - 1)
    // The tag decides which member decodes.
    const members = [
      Schema.Struct({ _tag: Schema.Literal("one"), of: schema }),
      Schema.Struct({ _tag: Schema.Literal("two") })
    ]
    return {
      schema: Schema.Union(members),
      value: (yield* Random.nextBoolean) ? { _tag: "one", of: value } : { _tag: "two" }
    }
  })

const makeRecord = (depth: number): Effect.Effect<Sample> =>
  Effect.map(makeSample(depth - 1), ({ schema, value }) => ({
    schema: Schema.Record(Schema.String, schema),
    value: { x: value, "y z": value }
  }))

const makeSample = (depth: number): Effect.Effect<Sample> =>
  Effect.suspend(() => {
    if (depth <= 0) return Effect.flatten(pick(leaves))
    const makers = [makeStruct, makeList, makePair, makeUnion, makeRecord, () => Effect.flatten(pick(leaves))] as const
    return Effect.flatMap(pick(makers), (make) => make(depth))
  })

const count = Number(process.env["HERMES_TEST_SCHEMAS"] ?? scaleRuns(150))
const seed = process.env["HERMES_TEST_SEED"] ?? "hermes"

describe("random values of random schemas", () => {
  it(
    "come back as they were, from Effect and as JSON Schema, in any form in which models write JSON",
    { timeout: 300_000 + count * 50 },
    async () => {
      const samples = await Effect.runPromise(
        Effect.forEach(Array.from({ length: count }), (_, index) => makeSample(index % 4)).pipe(Random.withSeed(seed))
      )
      const wrap = [
        (json: string) => json,
        (json: string) => `\n${json}\n`,
        (json: string) => `Here it is:\n\`\`\`json\n${json}\n\`\`\`\n`
      ]
      const planned = await Effect.runPromise(
        Effect.forEach(samples, ({ schema, value }, index) =>
          Effect.map(AnswerFormat.resolveOutput(schema), (form) => {
            const json: unknown = Schema.encodeUnknownSync(Schema.toCodecJson(schema))(value)
            const written = JSON.stringify(form.unwrap === undefined ? json : { value: json })
            // A code fence cannot contain another one.
            const isPlain = index % wrap.length === 2 && written.includes("```")
            const answer = (isPlain ? undefined : wrap[index % wrap.length]?.(written)) ?? written
            const label = `seed ${seed}, schema ${index}: ${JSON.stringify(form.schema)} <- ${answer}`
            return { answer, form, label, schema, value, written }
          })
        )
      )
      const provider = Scripted.layer(planned.map(({ answer }) => Scripted.complete(answer)))
      const runtime = ManagedRuntime.make(Runtime.layer({ provider }))
      for (const { form, label, schema, value, written } of planned) {
        const result = await runtime.runPromise(Agent.run({ prompt: "go", output: schema }))
        assert.deepStrictEqual(result.value, value, label)
        // The same schema as data: the value is the JSON.
        const imported = JsonSchemaFormat.readJsonSchema(form.schema)
        if (imported._tag === "Failure") assert.fail(`${label}: ${imported.failure}`)
        const plain: unknown = await Effect.runPromise(imported.success.decode(JSON.parse(written)))
        assert.deepStrictEqual(plain, JSON.parse(written), label)
      }
      await runtime.dispose()
    }
  )
})
