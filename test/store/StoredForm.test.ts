// Stored forms of messages: those that are written without the schema hold what the schema writes.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Redaction from "../../src/base/domain/Redaction.ts"
import * as Secrets from "../../src/base/domain/Secrets.ts"
import * as StoredForm from "../../src/store/StoredForm.ts"
import * as StoredMask from "../../src/store/StoredMask.ts"
import * as PromptMessages from "../support/promptMessages.ts"
import { prop } from "../support/property.ts"

const encodeBySchema = Schema.encodeResult(
  Schema.fromJsonString(Schema.Struct({ v: Schema.Literal(1), message: Prompt.Message }))
)

const valueOf = (encoded: Result.Result<string, unknown>): unknown =>
  Result.isSuccess(encoded) ? JSON.parse(encoded.success) : undefined

const bySchema = (message: Prompt.Message) => valueOf(encodeBySchema({ v: 1, message }))

const result = (value: unknown) =>
  Prompt.toolMessage({
    content: [Prompt.toolResultPart({ id: "c", name: "t", isFailure: false, result: value, providerExecuted: false })]
  })

describe("the stored form of a message", () => {
  prop(
    "is what the schema makes of it",
    [PromptMessages.message],
    ([message]) => {
      assert.deepStrictEqual(valueOf(StoredForm.encode(message)), bySchema(message))
    },
    { arbitrary: { runs: 500 } }
  )

  it("is what the schema makes of values that JSON changes, or refuses", () => {
    const cycle: Record<string, unknown> = {}
    cycle["self"] = cycle
    const values = [
      undefined,
      null,
      NaN,
      -0,
      new Date(0),
      new Map([["a", 1]]),
      [undefined],
      { a: undefined },
      { toJSON: () => "made" },
      () => 1,
      Symbol.iterator,
      10n,
      cycle,
      Object.create({ inherited: 1 }),
      new Uint8Array([1]),
      new URL("http://a/b")
    ]
    for (const value of values) {
      const message = result(value)
      assert.deepStrictEqual(valueOf(StoredForm.encode(message)), bySchema(message), typeof value)
    }
  })

  it("names what cannot be stored", () => {
    const encoded = StoredForm.encode(result(10n))
    assert.include(Result.isFailure(encoded) ? encoded.failure.message : "", "give tools results of plain JSON data")
  })
})

describe("masked messages", () => {
  it.effect("a message is masked once, and again when the runtime holds another value", () =>
    Effect.gen(function* () {
      const registry = Secrets.make()
      const message = result("the value is correct-horse-battery-7 and hunter-two-is-long-9")
      const masked = Effect.provideService(StoredMask.maskMessages([message]), Secrets.Secrets, registry)
      assert.strictEqual((yield* masked)[0], message)
      registry.add("correct-horse-battery-7")
      const [first] = yield* masked
      assert.notInclude(JSON.stringify(first), "correct-horse")
      assert.strictEqual((yield* masked)[0], first)
      registry.add("hunter-two-is-long-9")
      const [second] = yield* masked
      assert.notInclude(JSON.stringify(second), "correct-horse")
      assert.notInclude(JSON.stringify(second), "hunter-two")
    })
  )

  it.effect("what one runtime masks is not masked in another", () =>
    Effect.gen(function* () {
      const message = result("AKIAIOSFODNN7EXAMPLE and ghp_0123456789abcdefghijABCDEFGHIJ456789")
      const masked = StoredMask.maskMessages([message])
      const [hidden] = yield* masked
      assert.notStrictEqual(hidden, message)
      assert.strictEqual((yield* Effect.provideService(masked, Redaction.RedactSecrets, false))[0], message)
      assert.deepStrictEqual((yield* masked)[0], hidden)
    })
  )
})
