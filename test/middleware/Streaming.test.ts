import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Response from "effect/ai/Response"
import { MiddlewareFailure } from "../../src/domain/AgentError.ts"
import type { ModelResponse, OnPart, StreamPart } from "../../src/domain/Model.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Fake from "../support/fakeModel.ts"
import { runModel, withWarnings } from "../support/middlewareContexts.ts"

const textOf = (response: ModelResponse): string =>
  response.parts.flatMap((part) => part.type === "text" ? [part.text] : []).join("")

const base = Fake.pieces("Hello ", "dear ", "world")

const collect = () => {
  const shown: Array<string> = []
  const onPart: OnPart = (parts) =>
    Effect.sync(() => {
      for (const part of parts) if (part.type === "text-delta") shown.push(part.delta)
      return parts
    })
  return { shown, options: { onPart } }
}

const mapDeltas = (name: string, f: (delta: string) => string | undefined, onFailure?: "closed") =>
  Middleware.llmExecution({
    name,
    onFailure,
    wrap: (next) => (request) =>
      next(request, {
        onPart: (parts) =>
          Effect.sync(() =>
            parts.flatMap((part): ReadonlyArray<StreamPart> => {
              if (part.type !== "text-delta") return [part]
              const delta = f(part.delta)
              return delta === undefined ? [] : [Response.makePart("text-delta", { id: part.id, delta })]
            })
          )
      })
  })

describe("middleware around a streamed answer", () => {
  it.effect("a wrapper without onPart changes nothing of the stream or the response", () =>
    Effect.gen(function*() {
      const { options, shown } = collect()
      let below: ModelResponse | undefined
      const response = yield* runModel(
        [Middleware.llmExecution({ name: "pass", wrap: (next) => (request) => next(request) })],
        {},
        (request, given) => Effect.tap(base(request, given), (answer) => Effect.sync(() => (below = answer))),
        options
      )
      assert.strictEqual(response, below)
      assert.deepStrictEqual(shown, ["Hello ", "dear ", "world"])
    }))

  it.effect("what it changes is what the user sees, what the response says, and what the frames above see", () =>
    Effect.gen(function*() {
      const { options, shown } = collect()
      const inner: Array<string> = []
      const response = yield* runModel(
        [
          mapDeltas("shout", (delta) => delta.toUpperCase()),
          Middleware.llmExecution({
            name: "looker",
            wrap: (next) => (request) =>
              Effect.tap(next(request), (answer) => Effect.sync(() => inner.push(textOf(answer))))
          })
        ],
        {},
        base,
        options
      )
      assert.deepStrictEqual(shown, ["HELLO ", "DEAR ", "WORLD"])
      assert.strictEqual(textOf(response), "HELLO DEAR WORLD")
      assert.deepStrictEqual(inner, ["Hello dear world"], "a frame below sees the answer as it came")
    }))

  it.effect("it can cut, and nested frames see the stream in order from the inside out", () =>
    Effect.gen(function*() {
      const { options, shown } = collect()
      const response = yield* runModel(
        [mapDeltas("mark", (delta) => `<${delta}>`), mapDeltas("cut", (delta) => delta === "dear " ? undefined : delta)],
        {},
        base,
        options
      )
      assert.deepStrictEqual(shown, ["<Hello >", "<world>"])
      assert.strictEqual(textOf(response), "<Hello ><world>")
    }))

  it.effect("it can hold what streams and let it go later", () =>
    Effect.gen(function*() {
      const { options, shown } = collect()
      let held = ""
      const hold = Middleware.llmExecution({
        name: "hold",
        wrap: (next) => (request) =>
          next(request, {
            onPart: (parts) =>
              Effect.sync(() =>
                parts.flatMap((part): ReadonlyArray<StreamPart> => {
                  if (part.type !== "text-delta") return [part]
                  held += part.delta
                  if (!held.endsWith("world")) return []
                  return [Response.makePart("text-delta", { id: part.id, delta: held })]
                })
              )
          })
      })
      const response = yield* runModel([hold], {}, base, options)
      assert.deepStrictEqual(shown, ["Hello dear world"])
      assert.strictEqual(textOf(response), "Hello dear world")
    }))

  it.effect("it can answer in the provider's stead: nothing streams, and the response is its own", () =>
    Effect.gen(function*() {
      const { options, shown } = collect()
      const response = yield* runModel(
        [Middleware.llmExecution({ name: "cache", wrap: () => () => Effect.succeed(Fake.textAnswer("cached")) })],
        {},
        base,
        options
      )
      assert.deepStrictEqual(shown, [])
      assert.strictEqual(textOf(response), "cached")
    }))

  it.effect("an onPart that dies is passed by with one warning, and nothing of the answer is lost", () =>
    Effect.gen(function*() {
      const { options, shown } = collect()
      const broken = mapDeltas("broken", (delta) => {
        if (delta === "dear ") throw new Error("onPart broke")
        return delta.toUpperCase()
      })
      const { value, warnings } = yield* withWarnings(runModel([broken], {}, base, options))
      assert.deepStrictEqual(shown, ["HELLO ", "dear ", "world"])
      assert.strictEqual(textOf(value), "Hello dear world")
      assert.strictEqual(warnings.length, 1)
    }))

  it.effect("a closed one that dies ends the stream and fails the call", () =>
    Effect.gen(function*() {
      const { options, shown } = collect()
      const policy = mapDeltas("policy", (delta) => {
        if (delta === "dear ") throw new Error("forbidden")
        return delta
      }, "closed")
      const outer = Middleware.llmExecution({ name: "outer", wrap: (next) => (request) => next(request) })
      const error = yield* Effect.flip(runModel([outer, policy], {}, base, options))
      assert.isTrue(error instanceof MiddlewareFailure && error.middleware === "policy")
      assert.deepStrictEqual(shown, ["Hello "])
    }))

  it.effect("without anybody who watches, onPart still sees what streams", () =>
    Effect.gen(function*() {
      const response = yield* runModel([mapDeltas("shout", (delta) => delta.toUpperCase())], {}, base)
      assert.strictEqual(textOf(response), "HELLO DEAR WORLD")
    }))
})
