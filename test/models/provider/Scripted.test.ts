import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import type { StreamPart } from "../../../src/base/domain/ModelCall.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import { call, textOf, user } from "./support/converse.ts"

const ask = Effect.fn(function* (stream = false, seen: Array<StreamPart> = []) {
  const provider = yield* Provider
  const request = yield* provider.prepare(call([user("hi")], { stream }))
  return yield* provider.execute(request, { onPart: (parts) => Effect.sync(() => (seen.push(...parts), parts)) })
})

const deltas = (parts: ReadonlyArray<StreamPart>): ReadonlyArray<string> =>
  parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : []))

describe("Scripted", () => {
  it.effect("answers turn by turn and shows what it was asked", () =>
    Effect.gen(function* () {
      const inspection = yield* Scripted.Inspection
      assert.strictEqual(yield* inspection.remaining, 2)
      const first = yield* ask()
      assert.strictEqual(first.finishReason, "tool-calls")
      assert.deepInclude(first.parts[1], {
        type: "tool-call",
        name: "read_file",
        params: { path: "a" },
        id: "call_1_1"
      })
      const second = yield* ask()
      assert.strictEqual(textOf(second), "done")
      assert.deepInclude(Usage.fromResponse(second.usage), { inputTokens: 9, outputTokens: 4, cacheReadTokens: 1 })
      assert.strictEqual(second.finishReason, "length")
      assert.strictEqual(yield* inspection.remaining, 0)
      assert.strictEqual((yield* inspection.calls).length, 2)
      const [request] = yield* inspection.requests
      assert.deepStrictEqual(request?.["messages"], [{ role: "user", content: "hi" }])
    }).pipe(
      Effect.provide(
        Scripted.layer([
          Scripted.complete({ reasoning: "hm", toolCalls: [{ name: "read_file", params: { path: "a" } }] }),
          Scripted.complete({ text: "done", usage: { input: 9, output: 4, cacheRead: 1 }, finishReason: "length" })
        ])
      )
    )
  )

  it.effect("streams exactly the pieces that are written, each at its time", () =>
    Effect.gen(function* () {
      const seen: Array<StreamPart> = []
      const fiber = yield* Effect.forkChild(ask(true, seen))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(deltas(seen), ["a "])
      yield* TestClock.adjust("2 seconds")
      const response = yield* Fiber.join(fiber)
      assert.deepStrictEqual(deltas(seen), ["a ", "b c"])
      assert.strictEqual(textOf(response), "a b c")
    }).pipe(
      Effect.provide(
        Scripted.layer([Scripted.complete({ pieces: ["a ", { text: "b c", delay: "2 seconds" }], delay: "1 second" })])
      )
    )
  )

  it.effect("lets onPart change what the answer is made of", () =>
    Effect.gen(function* () {
      const provider = yield* Provider
      const request = yield* provider.prepare(call([user("hi")], { stream: true }))
      const response = yield* provider.execute(request, {
        onPart: (parts) =>
          Effect.succeed(parts.filter((part) => part.type !== "text-delta" || part.delta !== "secret "))
      })
      assert.strictEqual(textOf(response), "no more")
      assert.include(JSON.stringify(response.raw), "secret")
    }).pipe(Effect.provide(Scripted.layer([Scripted.complete({ pieces: ["no ", "secret ", "more"] })])))
  )

  it.effect("fails with the given reason, after what came before it", () =>
    Effect.gen(function* () {
      const seen: Array<StreamPart> = []
      const error = yield* Effect.flip(ask(true, seen))
      assert.strictEqual(error.reason._tag, "RateLimitError")
      assert.deepStrictEqual(deltas(seen), ["half"])
      assert.notInclude(
        seen.map((part) => part.type),
        "finish"
      )
      const whole = yield* Effect.flip(ask())
      assert.strictEqual(whole.module, "Other")
    }).pipe(
      Effect.provide(
        Scripted.layer([
          Scripted.fail(new AiError.RateLimitError({}), { pieces: ["half"] }),
          Scripted.fail(AiError.make({ module: "Other", method: "m", reason: new AiError.UnknownError({}) }))
        ])
      )
    )
  )

  it.effect("hangs until it is interrupted, and counts that", () =>
    Effect.gen(function* () {
      const inspection = yield* Scripted.Inspection
      const fiber = yield* Effect.forkChild(ask())
      yield* TestClock.adjust("1 day")
      assert.strictEqual(yield* inspection.interruptions, 0)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* inspection.interruptions, 1)
    }).pipe(Effect.provide(Scripted.layer([Scripted.hang()])))
  )

  it.effect("says which turn was asked for when there is none left", () =>
    Effect.gen(function* () {
      yield* ask()
      const error = yield* Effect.flip(ask())
      assert.isTrue(AiError.isAiError(error))
      assert.isFalse(error.isRetryable)
      assert.include(error.message, "the script is exhausted: it has 1 turn and was asked for turn 2")
    }).pipe(Effect.provide(Scripted.layer([Scripted.complete("only")])))
  )

  it.effect("keeps broken arguments broken", () =>
    Effect.gen(function* () {
      const [part] = (yield* ask()).parts
      assert.deepInclude(part, { type: "tool-call", params: '{"a":' })
    }).pipe(Effect.provide(Scripted.layer([Scripted.complete({ toolCalls: [{ name: "t", params: '{"a":' }] })])))
  )

  it.effect("decodes raw bodies of its protocol", () =>
    Effect.gen(function* () {
      const provider = yield* Provider
      const response = yield* provider.decode({ choices: [{ message: { role: "assistant", content: "raw" } }] })
      assert.strictEqual(textOf(response), "raw")
    }).pipe(Effect.provide(Scripted.layer([])))
  )
})
