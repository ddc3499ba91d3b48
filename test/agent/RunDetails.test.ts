// What a result knows about its run: calls with their values, messages, files, usage of each step.
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Hooks, RunEvent, Runtime, SessionStore, Toolset } from "../../src/index.ts"
import type * as RunDetails from "../../src/base/domain/RunDetails.ts"
import * as ToolsetCalls from "../../src/tools/ToolsetCalls.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import * as Fake from "../support/fakeModel.ts"

const Weather = Tool.make("weather", {
  parameters: Schema.Struct({ city: Schema.String, at: Schema.optionalKey(Schema.DateFromString) }),
  success: Schema.Struct({ celsius: Schema.Finite, at: Schema.DateFromString })
}).annotate(Tool.Readonly, true)
const Note = Tool.make("note", {
  parameters: Schema.Struct({ times: Schema.Finite }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Fails = Tool.make("fails", { success: Schema.String, failure: Schema.String }).annotate(Tool.Readonly, true)
const Erase = Tool.make("erase", { success: Schema.String, needsApproval: true })
const toolkit = Toolkit.make(Weather, Note, Fails, Erase)

const key = `sk-${"a1B2".repeat(10)}`
const toolset = Toolset.make(
  "test",
  toolkit,
  toolkit.toLayer({
    weather: () => Effect.succeed({ celsius: 4, at: new Date(0) }),
    note: ({ times }) => Effect.succeed(`[1] ${key} `.repeat(times)),
    fails: () => Effect.fail("no luck"),
    erase: () => Effect.succeed("gone")
  })
)

const runtime = (
  turns: ReadonlyArray<Fake.Turn>,
  options: { readonly hooks?: ReadonlyArray<Hook>; readonly sqlite?: string } = {}
) =>
  Runtime.layer({
    provider: Layer.succeed(Provider, Fake.make(...turns).provider),
    tools: [toolset],
    hooks: options.hooks ?? [],
    resultLimits: { perResult: 2_000, perTurn: 5_000 },
    ...(options.sqlite === undefined ? {} : { store: SessionStore.layerSqlite({ path: options.sqlite }) })
  })

const turns = [
  Fake.calls(
    Fake.call("c1", "weather", { city: "Oslo" }),
    Fake.call("c2", "note", { times: 1 }),
    Fake.call("c3", "fails", {}),
    Fake.call("c4", "erase", {}),
    Fake.call("c5", "note", { times: 400 })
  ),
  // The same id again.
  Fake.calls(Fake.call("c1", "weather", { city: "Bergen" })),
  Fake.text("done")
]

const checkDetails = (result: RunEvent.RunResult & RunDetails.RunDetails): void => {
  assert.deepStrictEqual(
    result.calls.map(({ id, isFailure, name, status }) => [id, name, status, isFailure]),
    [
      ["c1", "weather", "ok", false],
      ["c2", "note", "ok", false],
      ["c3", "fails", "error", true],
      ["c4", "erase", "blocked", true],
      ["c5", "note", "ok", false],
      ["c1", "weather", "ok", false]
    ]
  )
  const [oslo, note, failed, denied, long, bergen] = result.calls
  assert.deepStrictEqual(oslo?.params, { city: "Oslo" })
  assert.deepStrictEqual(oslo?.result, { celsius: 4, at: "1970-01-01T00:00:00.000Z" })
  assert.deepStrictEqual(bergen?.params, { city: "Bergen" })
  // A text that begins like JSON stays a text, without its secret.
  assert.match(String(note?.result), /^\[1\] /)
  assert.notInclude(JSON.stringify(result.calls), key)
  assert.include(failed?.output, "no luck")
  assert.isUndefined(denied?.result)
  // The model received the beginning of a long result.
  assert.isTrue(long?.result === undefined)
  assert.include(long?.output, "<persisted-output>")
  assert.deepStrictEqual(
    result.messages.map(({ role }) => role),
    ["user", "assistant", "tool", "tool", "tool", "tool", "tool", "assistant", "tool", "assistant"]
  )
  assert.deepStrictEqual(
    result.stepUsage.map(({ finishReason, model, step, usage }) => [step, model, usage.outputTokens, finishReason]),
    [
      [1, "fake-1", 5, "tool-calls"],
      [2, "fake-1", 5, "tool-calls"],
      [3, "fake-1", 5, "stop"]
    ]
  )
}

describe("the result of a run", () => {
  for (const stream of [false, true]) {
    it.effect(`${stream ? "that streams " : ""}lists its calls, messages and steps`, () =>
      Effect.gen(function* () {
        const input = { prompt: "weather?" }
        const events = stream ? yield* Stream.runCollect(Agent.stream(input)) : [yield* Agent.run(input)]
        const last = events.at(-1)
        if (last?._tag !== "RunFinished") return assert.fail("no result")
        checkDetails(last)
      }).pipe(Effect.provide(runtime(turns)))
    )
  }

  it.effect("has the same JSON as before", () =>
    Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "weather?" })
      const fields = Object.keys(RunEvent.RunFinished.fields)
      assert.isTrue(Object.keys(result).every((field) => fields.includes(field)))
      assert.isTrue(Object.keys(JSON.parse(JSON.stringify(result))).every((field) => fields.includes(field)))
      assert.deepStrictEqual(Object.keys({ ...result }), Object.keys(result))
      assert.strictEqual(result.calls, result.calls)
    }).pipe(Effect.provide(runtime(turns)))
  )

  it.live("of a stored session has the messages of its own run", () =>
    Effect.gen(function* () {
      const sqlite = `${yield* temporaryDirectory}/state.db`
      const first = yield* Effect.provide(
        Agent.run({ prompt: "first", sessionId: "s" }),
        runtime([Fake.calls(Fake.call("c1", "note", { times: 1 })), Fake.text("one")], { sqlite })
      )
      assert.lengthOf(first.calls, 1)
      const second = yield* Effect.provide(
        Agent.run({ prompt: "second", sessionId: "s" }),
        runtime([Fake.text("two")], { sqlite })
      )
      assert.deepStrictEqual(second.calls, [])
      assert.deepStrictEqual(
        second.messages.map(({ content, role }) => [role, JSON.stringify(content).includes("second")]),
        [
          ["user", true],
          ["assistant", false]
        ]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("has the files of its answers", () =>
    Effect.gen(function* () {
      const { files } = yield* Agent.run({ prompt: "draw" })
      assert.deepStrictEqual(files, [{ mediaType: "image/png", data: new Uint8Array([1, 2]), fileName: undefined }])
    }).pipe(
      Effect.provide(
        runtime([
          () =>
            Effect.succeed(
              Fake.answer(
                [
                  Response.makePart("file", { mediaType: "image/png", data: new Uint8Array([1, 2]) }),
                  Response.makePart("text", { text: "here" })
                ],
                "stop"
              )
            )
        ])
      )
    )
  )

  it.effect("hides the value of a result that a hook replaced", () => {
    const finished: Array<unknown> = []
    return Effect.gen(function* () {
      const events = yield* Stream.runCollect(Agent.stream({ prompt: "note" }))
      for (const event of events) if (event._tag === "ToolFinished") finished.push(event.result, event.output)
      const last = events.at(-1)
      if (last?._tag !== "RunFinished") return assert.fail("no result")
      assert.deepStrictEqual(
        last.calls.map(({ output, result }) => [result, output]),
        [[undefined, "hidden"]]
      )
      assert.deepStrictEqual(finished, [undefined, "hidden"])
    }).pipe(
      Effect.provide(
        runtime([Fake.calls(Fake.call("c1", "weather", { city: "Oslo" })), Fake.text("done")], {
          hooks: [Hooks.on("transform_tool_result", () => Effect.succeed("hidden"))]
        })
      )
    )
  })
})

describe("calls in the types of their toolset", () => {
  it.effect("are a union by the name of the tool", () =>
    Effect.gen(function* () {
      const { calls } = yield* Agent.run({ prompt: "weather?" })
      const seen: Array<unknown> = []
      for (const call of ToolsetCalls.selectCalls(toolset, calls)) {
        expectTypeOf(call.name).toEqualTypeOf<"weather" | "note" | "fails" | "erase">()
        if (call.name === "weather" && call.status === "ok") {
          expectTypeOf(call.params).toEqualTypeOf<{ readonly city: string; readonly at?: string }>()
          expectTypeOf(call.result).toEqualTypeOf<{ readonly celsius: number; readonly at: string } | undefined>()
          seen.push(call.result?.celsius)
        }
        if (call.name === "note") expectTypeOf(call.result).toEqualTypeOf<string | undefined>()
      }
      assert.deepStrictEqual(seen, [4, 4])
      const decoded = yield* ToolsetCalls.decodeCalls(toolset, calls)
      const [first] = decoded
      if (first?.name !== "weather") return assert.fail("another call")
      expectTypeOf(first.result).toEqualTypeOf<typeof Weather.successSchema.Type | undefined>()
      assert.deepStrictEqual(first.result, { celsius: 4, at: new Date(0) })
      assert.lengthOf(decoded, 4)
    }).pipe(Effect.provide(runtime(turns)))
  )

  it.effect("have their values in the events of a stream, once in JSON", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      yield* Stream.runForEach(Agent.stream({ prompt: "weather?" }), (event) =>
        Effect.sync(() => {
          if (!ToolsetCalls.isFinished(toolset, event)) return
          if (event.name === "weather") {
            expectTypeOf(event.result).toEqualTypeOf<{ readonly celsius: number; readonly at: string } | undefined>()
            seen.push(event.result?.celsius)
          }
          assert.notProperty(JSON.parse(JSON.stringify(event)), "result")
        })
      )
      assert.deepStrictEqual(seen, [4, 4])
    }).pipe(Effect.provide(runtime(turns)))
  )
})
