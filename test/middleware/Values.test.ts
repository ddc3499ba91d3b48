// Values that are no result of their kind, through whole runs: the wrapper has failed, and nothing else.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Middleware, Runtime, Scripted, Toolset } from "../../src/index.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import { withWarnings } from "../support/middlewareContexts.ts"

const Note = Tool.make("note", { parameters: Schema.Struct({ t: Schema.String }), success: Schema.String })
const kit = Toolkit.make(Note)

/** Makes values as untyped code does. */
const untyped = <A>(value: unknown): Effect.Effect<A> => Effect.succeed(value as A)

type Registration = Middleware.Registration
type Make = (options: Registration) => Middleware.Any

const nextOf = (call: Plain.Envelope) => call["next_call"] as () => Promise<unknown>

const entries: Readonly<Record<string, Make>> = {
  "llm_execution → 42, without next": (options) =>
    Middleware.llmExecution({ ...options, wrap: () => () => untyped(42) }),
  "llm_execution → a text, over an answer": (options) =>
    Middleware.llmExecution({
      ...options,
      wrap: (next) => (request) => Effect.andThen(next(request), untyped<never>("text"))
    }),
  "llm_execution → parts that are no list": (options) =>
    Middleware.llmExecution({
      ...options,
      wrap: (next) => (request) => Effect.flatMap(next(request), (answer) => untyped({ ...answer, parts: 5 }))
    }),
  "plain llm_execution → { envelope }": (options) =>
    Plain.llmExecution(options, async (call) => ({ envelope: await nextOf(call)() })),
  "plain llm_execution → a text": (options) =>
    Plain.llmExecution(options, async (call) => {
      await nextOf(call)()
      return "text"
    }),
  "plain llm_execution → 42": (options) =>
    Plain.llmExecution(options, async (call) => {
      await nextOf(call)()
      return 42
    }),
  "wrap_model_call → 42": (options) =>
    Middleware.wrapModelCall({
      ...options,
      wrap: (next) => (params) => Effect.andThen(next(params), untyped<never>(42))
    }),
  "tool_execution → the output alone": (options) =>
    Middleware.toolExecution({
      ...options,
      wrap: (next) => (args) => Effect.flatMap(next(args), ({ output }) => untyped(output))
    }),
  "tool_execution → an output that is no JSON": (options) =>
    Middleware.toolExecution({
      ...options,
      wrap: (next) => (args) => Effect.andThen(next(args), untyped<never>({ output: undefined, isFailure: false }))
    }),
  "wrap_tool_call → 42": (options) =>
    Middleware.wrapToolCall({ ...options, wrap: (next) => (args) => Effect.andThen(next(args), untyped<never>(42)) }),
  "tool_request → nothing as replacement": (options) =>
    Middleware.toolRequest({ ...options, rewrite: () => untyped(Middleware.replacePayload(undefined)) }),
  "tool_request → a text as replacement": (options) =>
    Middleware.toolRequest({ ...options, rewrite: () => untyped(Middleware.replacePayload("text")) }),
  "llm_request → 5": (options) => Middleware.llmRequest({ ...options, rewrite: () => untyped(5) }),
  "onPart → [1, null]": (options) =>
    Middleware.llmExecution({
      ...options,
      wrap: (next) => (request) => next(request, { onPart: () => untyped([1, null]) })
    }),
  "onPart → a text": (options) =>
    Middleware.llmExecution({ ...options, wrap: (next) => (request) => next(request, { onPart: () => untyped("x") }) }),
  "afterModel → parsedResponse 5": (options) =>
    Middleware.lifecycle({ ...options, afterModel: () => Middleware.withModifications({ parsedResponse: 5 as never }) })
}

const play = (entry: Middleware.Any, streaming: boolean) => {
  const provider = Scripted.layer([
    Scripted.complete({ toolCalls: [{ name: "note", params: { t: "a" } }] }),
    Scripted.complete("done")
  ])
  const layer = Runtime.layer({
    provider,
    tools: [Toolset.make("notes", kit, kit.toLayer({ note: () => Effect.succeed("noted") }))],
    middleware: [entry]
    // The list differs from case to case.
  } as never) as Layer.Layer<Agent.Agent>
  return withWarnings(
    Effect.gen(function* () {
      const exit = yield* Effect.exit(Agent.run({ prompt: "go", streaming }))
      const { requests } = yield* Scripted.Inspection
      return { exit, asked: (yield* requests).length }
    }).pipe(Effect.provide(Layer.merge(layer, provider)))
  )
}

describe("a value that is no result of its kind", () => {
  for (const [name, make] of Object.entries(entries)) {
    for (const streaming of [true, false]) {
      it.effect(`${name}, ${streaming ? "streaming" : "whole"}: the run goes on, and one warning names it`, () =>
        Effect.gen(function* () {
          const { value, warnings } = yield* play(make({ name: "faulty" }), streaming)
          if (Exit.isFailure(value.exit)) return assert.fail(Cause.pretty(value.exit.cause))
          assert.deepInclude(value.exit.value, { exit: "text_response", text: "done" })
          assert.strictEqual(value.asked, 2, "nothing is paid for again")
          const named = warnings.filter((line) => line.includes('"faulty" failed'))
          assert.isAtLeast(named.length, 1, warnings.join("\n"))
          assert.deepStrictEqual(
            warnings.filter((line) => !named.includes(line)),
            []
          )
        })
      )

      it.effect(`${name}, ${streaming ? "streaming" : "whole"}: where it is closed, the call fails by its name`, () =>
        Effect.gen(function* () {
          const { value } = yield* play(make({ name: "faulty", onFailure: "closed" }), streaming)
          const isTool = name.includes("tool_")
          if (isTool) return assert.isTrue(Exit.isSuccess(value.exit), "an error result for the model")
          assert.isTrue(Exit.isFailure(value.exit))
          const error = Exit.isFailure(value.exit) ? Cause.squash(value.exit.cause) : undefined
          assert.propertyVal(error, "_tag", "MiddlewareFailure")
          assert.propertyVal(error, "middleware", "faulty")
          assert.isAtMost(value.asked, 1)
        })
      )
    }
  }

  it.effect("is not a response body of the route: a typed wrapper may return one", () =>
    Effect.gen(function* () {
      const body = { choices: [{ index: 0, message: { role: "assistant", content: "mine" }, finish_reason: "stop" }] }
      const own = Middleware.llmExecution({ name: "own", wrap: () => () => untyped(body) })
      const { value, warnings } = yield* play(own, false)
      assert.deepStrictEqual(warnings, [])
      assert.deepInclude(Exit.isSuccess(value.exit) ? value.exit.value : {}, { text: "mine" })
      assert.strictEqual(value.asked, 0)
    })
  )
})
