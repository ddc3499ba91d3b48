// Runs that end in a value: decoded, corrected within the run, streamed in parts, or failed with the text.
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { AnswerFormat, Output } from "../../src/base/domain/AnswerFormat.ts"
import type * as RunDetails from "../../src/base/domain/RunDetails.ts"
import * as MovingClock from "../support/movingClock.ts"
import { Agent, AgentError, Hooks, Runtime, RunEvent, Scripted, SessionStore, Toolset } from "../../src/index.ts"

const Weather = Schema.Struct({ city: Schema.String, celsius: Schema.Int, at: Schema.optionalKey(Schema.Date) })

const fitting = '{"city":"Oslo","celsius":4,"at":"2026-11-28T10:00:00.000Z"}'
const oslo = { city: "Oslo", celsius: 4, at: new Date("2026-11-28T10:00:00.000Z") }

const withModel = (turns: ReadonlyArray<Scripted.Turn>, options: { readonly maxIterations?: number } = {}) => {
  const model = Scripted.layer(turns)
  return Layer.merge(model, Runtime.layer({ ...options, provider: model }))
}

const asked = Effect.flatten(Effect.map(Scripted.Inspection, ({ calls }) => calls))

const answers = (...texts: ReadonlyArray<string>) => texts.map((text) => Scripted.complete(text))

const runWith = <A, I>(
  output: Output<A, I>,
  turns: ReadonlyArray<Scripted.Turn>,
  options: { readonly maxIterations?: number } = {}
) => Effect.provide(Agent.run({ prompt: "weather?", output }), withModel(turns, options))

const streamWith = <A, I>(output: Output<A, I>, turns: ReadonlyArray<Scripted.Turn>) =>
  Effect.provide(Stream.runCollect(Agent.stream({ prompt: "weather?", output })), withModel(turns))

const arrive = (pieces: ReadonlyArray<string>) => Scripted.complete({ pieces })

const slowly = (...pieces: ReadonlyArray<string>) =>
  Scripted.complete({ pieces: pieces.map((text) => ({ text, delay: "1 second" })) })

/** The text that a reader of the stream has in the end. */
const readText = (events: ReadonlyArray<RunEvent.RunEvent>): string =>
  events.reduce(
    (text, event) =>
      event._tag === "TextDelta" ? text + event.text : event._tag === "TextReplaced" ? event.text : text,
    ""
  )

describe("a run with an output schema", () => {
  it.effect("ends in the decoded value, and asks each model call for JSON of this form", () =>
    Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "weather?", output: Weather })
      expectTypeOf(result.value).toEqualTypeOf<typeof Weather.Type>()
      assert.deepStrictEqual(result.value, oslo)
      assert.strictEqual(result.text, fitting)
      const [call] = yield* asked
      const format = call?.responseFormat
      assert.strictEqual(format?.type, "json")
      assert.deepInclude(format?.type === "json" ? format.schema : {}, { type: "object" })
    }).pipe(Effect.provide(withModel(answers(fitting))))
  )

  it.effect("without a schema has no value, and its calls ask for text", () =>
    Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "weather?" })
      expectTypeOf(result).toEqualTypeOf<RunEvent.RunResult & RunDetails.RunDetails>()
      assert.notProperty(result, "value")
      assert.deepStrictEqual((yield* asked)[0]?.responseFormat, { type: "text" })
    }).pipe(Effect.provide(withModel(answers("cold"))))
  )

  for (const [name, text] of [
    ["after a fence with something else", `\`\`\`text\nno [JSON\n\`\`\`\n\`\`\`json\n${fitting}\n\`\`\``],
    ["in a code fence", `\`\`\`json\n${fitting}\n\`\`\``],
    ["between sentences", `Here it is: ${fitting} — as you wished.`],
    ["in a fence between sentences", `Here:\n\n\`\`\`\n${fitting}\n\`\`\`\nAnything else?`]
  ] as const) {
    it.effect(`takes JSON ${name}`, () =>
      Effect.map(runWith(Weather, answers(text)), ({ value }) => assert.deepStrictEqual(value, oslo))
    )
  }

  it.effect("sends an answer that does not fit back, in the same session, with its mistakes", () =>
    Effect.gen(function* () {
      const { sessionId, steps, text, value } = yield* Agent.run({ prompt: "weather?", output: Weather })
      assert.deepStrictEqual(value, oslo)
      assert.deepStrictEqual([steps, text], [2, fitting])
      const calls = yield* asked
      const last = JSON.stringify(calls[1]?.messages.at(-1))
      assert.include(last, "celsius")
      assert.include(last, "JSON Schema")
      // The stored conversation reads as it happened.
      const stored = yield* SessionStore.SessionStore.use((store) => store.messages(sessionId))
      assert.deepStrictEqual(
        stored.map(({ role }) => role),
        ["user", "assistant", "user", "assistant"]
      )
    }).pipe(Effect.provide(withModel(answers('{"city":"Oslo"}', fitting))))
  )

  it.effect("fails with the text after two corrections, and the session can be continued", () =>
    Effect.gen(function* () {
      const failed = yield* Effect.flip(Agent.run({ prompt: "weather?", output: Weather, sessionId: "s" }))
      assert.instanceOf(failed, AgentError.InvalidOutput)
      if (!(failed instanceof AgentError.InvalidOutput)) return
      assert.deepInclude(failed, { exit: "text_response", text: "no idea", corrections: 2, sessionId: "s" })
      assert.include(failed.message, "does not fit the output schema")
      const { value } = yield* Agent.run({ prompt: "once more", output: Weather, sessionId: "s" })
      assert.deepStrictEqual(value, oslo)
    }).pipe(Effect.provide(withModel(answers("no", '{"city":4}', "no idea", fitting))))
  )

  it.effect("works with tools: calls come first, and the last answer is the value", () => {
    const look = Tool.make("look", { parameters: Schema.Struct({ at: Schema.String }), success: Schema.String })
    const kit = Toolkit.make(look)
    const model = Scripted.layer([
      Scripted.complete({ toolCalls: [{ name: "look", params: { at: "Oslo" } }] }),
      Scripted.complete(fitting)
    ])
    const tools = [Toolset.make("weather", kit, kit.toLayer({ look: () => Effect.succeed("4 degrees") }))]
    return Effect.map(
      Effect.provide(Agent.run({ prompt: "weather?", output: Weather }), Runtime.layer({ provider: model, tools })),
      ({ value }) => assert.deepStrictEqual(value, oslo)
    )
  })

  it.effect("at its limit of steps asks for the value from what is known", () =>
    Effect.gen(function* () {
      const { exit, value } = yield* Agent.run({ prompt: "weather?", output: Weather })
      assert.deepStrictEqual([exit, value.city], ["max_iterations_reached", "Oslo"])
      assert.include(JSON.stringify((yield* asked).at(-1)?.messages.at(-1)), "required form")
    }).pipe(Effect.provide(withModel(answers("not JSON", fitting), { maxIterations: 1 })))
  )

  it.effect("that ends early without a value fails with its exit", () =>
    Effect.gen(function* () {
      const failed = yield* Effect.flip(runWith(Weather, answers("not JSON", "still prose"), { maxIterations: 1 }))
      assert.instanceOf(failed, AgentError.InvalidOutput)
      if (failed instanceof AgentError.InvalidOutput) {
        assert.deepInclude(failed, { exit: "max_iterations_reached", text: "still prose" })
        assert.include(failed.message, "ended early")
      }
    })
  )

  it.effect("decodes the text that hooks leave: what a guard removes from the text is not in the value", () => {
    const model = Scripted.layer(answers(fitting))
    const hooks = [
      Hooks.on("transform_llm_output", ({ response_text }) =>
        Effect.succeed(response_text.replaceAll("Oslo", "[place]"))
      )
    ]
    return Effect.map(
      Effect.provide(Agent.run({ prompt: "weather?", output: Weather }), Runtime.layer({ provider: model, hooks })),
      ({ text, value }) => {
        assert.include(text, "[place]")
        assert.strictEqual(value.city, "[place]")
      }
    )
  })
})

describe("schemas", () => {
  it.effect("whose JSON is not an object are wrapped for the model and unwrapped in the value", () =>
    Effect.gen(function* () {
      const { value } = yield* runWith(Schema.Array(Schema.Int), answers('{"value":[1,2,3]}'))
      assert.deepStrictEqual(value, [1, 2, 3])
      const count = yield* runWith(Schema.Int, answers("7", '{"value":7}'))
      assert.deepStrictEqual([count.value, count.steps], [7, 2])
    })
  )

  it.effect("that refer to themselves decode", () => {
    interface Tree {
      readonly name: string
      readonly children: ReadonlyArray<Tree>
    }
    const Tree: Schema.Codec<Tree> = Schema.Struct({
      name: Schema.String,
      children: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree))
    }).annotate({ identifier: "Tree" })
    return Effect.map(runWith(Tree, answers('{"name":"a","children":[{"name":"b","children":[]}]}')), ({ value }) =>
      assert.deepStrictEqual(value, { name: "a", children: [{ name: "b", children: [] }] })
    )
  })

  it.effect("without a JSON form are a ConfigError that names the option, before anything is asked", () =>
    Effect.gen(function* () {
      const failed = yield* Effect.flip(runWith(Schema.instanceOf(WeakRef), answers(fitting)))
      assert.instanceOf(failed, AgentError.ConfigError)
      assert.match(failed.message, /^output: the schema has no JSON form/)
    })
  )

  it.effect("check an accepted answer once", () =>
    Effect.gen(function* () {
      let checked = 0
      const format: AnswerFormat<number> = {
        name: "answer",
        schema: { type: "object" },
        decode: () => Effect.sync(() => ++checked)
      }
      const { value } = yield* runWith(format, answers("{}"))
      assert.deepStrictEqual([value, checked], [1, 1])
    })
  )

  it.live("that hang after the limit of steps do not keep an interrupted run", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const format: AnswerFormat<never> = {
        name: "answer",
        schema: { type: "object" },
        decode: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      }
      const turns = [Scripted.complete({ text: "{", finishReason: "length" }), Scripted.complete("{}")]
      const fiber = yield* Effect.forkChild(runWith(format, turns, { maxIterations: 1 }))
      yield* Deferred.await(begun)
      // Without the interruption the decoder has 30 seconds, which the test has not.
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("that hang or throw are mistakes of the answer, not of the run", () =>
    Effect.gen(function* () {
      const format = (decode: AnswerFormat<string>["decode"]): AnswerFormat<string> => ({
        name: "answer",
        schema: { type: "object" },
        decode
      })
      const thrown = yield* Effect.flip(
        runWith(
          format(() => Effect.die(new Error("boom"))),
          answers("{}", "{}", "{}")
        )
      )
      assert.include(thrown.message, "the schema failed: boom")
      const hung = yield* MovingClock.running(
        Effect.flip(
          runWith(
            format(() => Effect.never),
            answers("{}", "{}", "{}")
          )
        )
      )
      assert.include(hung.message, "took too long")
    })
  )
})

describe("a streamed run with an output schema", () => {
  it.effect("tells the value as it arrives, and ends with the decoded one", () =>
    Effect.gen(function* () {
      const events = yield* MovingClock.running(
        streamWith(Weather, [slowly('{ "city": "New ', 'York", "cels', 'ius": 1', "2 }")])
      )
      const values = events.flatMap((event) => (event._tag === "ValueDelta" ? [event.value] : []))
      expectTypeOf(values[0]).toEqualTypeOf<
        { readonly city?: string; readonly celsius?: number; readonly at?: unknown } | undefined
      >()
      assert.deepStrictEqual(values, [{ city: "New " }, { city: "New York" }, { city: "New York", celsius: 12 }])
      const last = events.at(-1)
      assert.deepStrictEqual(last?._tag === "RunFinished" ? last.value : undefined, { city: "New York", celsius: 12 })
    })
  )

  it.effect("withdraws an answer that did not fit from the shown text", () =>
    Effect.gen(function* () {
      const events = yield* streamWith(Weather, [arrive(['{"city', '":"Oslo"}']), arrive([fitting])])
      assert.strictEqual(readText(events), fitting)
    })
  )

  it.effect("continues the value where an answer was cut", () =>
    Effect.gen(function* () {
      const Days = Schema.Struct({ city: Schema.String, days: Schema.Array(Schema.Int) })
      const cut: Scripted.Turn = Scripted.complete({ text: '{"city":"Os', finishReason: "length" })
      const events = yield* streamWith(Days, [cut, Scripted.complete('lo","days":[1,2]}')])
      const values = events.flatMap((event) => (event._tag === "ValueDelta" ? [event.value] : []))
      assert.deepStrictEqual(values, [{ city: "Os" }, { city: "Oslo", days: [1, 2] }])
    })
  )

  it.effect("unwraps arriving lists", () =>
    Effect.gen(function* () {
      const seen = yield* MovingClock.running(
        streamWith(Schema.Array(Schema.Int), [slowly('{ "value": [1, ', "2, 3", " ] }")])
      )
      const values = seen.flatMap((event) => (event._tag === "ValueDelta" ? [event.value] : []))
      assert.deepStrictEqual(values, [[1], [1, 2], [1, 2, 3]])
    })
  )
})

describe("an agent with an output schema", () => {
  class Forecaster extends Context.Service<Forecaster, Agent.Service<never, never, typeof Weather.Type>>()(
    "test/Forecaster"
  ) {}

  it.effect("ends each run in its value, in the type of its key", () =>
    Effect.gen(function* () {
      const forecaster = yield* Forecaster
      const { value } = yield* forecaster.run({ prompt: "weather?" })
      expectTypeOf(value).toEqualTypeOf<typeof Weather.Type>()
      assert.deepStrictEqual(value, oslo)
      const other = yield* forecaster.run({ prompt: "how many?", output: Schema.Int })
      assert.strictEqual(other.value, 3)
    }).pipe(
      Effect.provide(
        Runtime.make(Forecaster, { provider: Scripted.layer(answers(fitting, '{"value":3}')), output: Weather })
      )
    )
  )

  it("does not compile without the schema that its key names", () => {
    // @ts-expect-error the key names a value, so the options need an output
    const make = () => Runtime.make(Forecaster, { provider: Scripted.layer([]) })
    assert.isFunction(make)
  })
})
