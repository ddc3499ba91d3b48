// A call of an answer waits while middleware ends the run after another call of the same answer.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import { Agent, Middleware, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { Ask } from "../../src/kit/entry/tools.ts"
import type { SessionSearch } from "../../src/store/SessionSearch.ts"

const sessionId = "ends"
const toolkit = Toolkit.make(
  Tool.make("wait", { parameters: Schema.Struct({ times: Schema.Int }), success: Schema.String }).annotate(
    Tool.Readonly,
    true
  ),
  Tool.make("look", { success: Schema.String }).annotate(Tool.Readonly, true)
)
const tools = Toolset.make(
  "work",
  toolkit,
  toolkit.toLayer({
    wait: ({ times }) =>
      Effect.forEach(Array.from({ length: times }), (_, index) => Ask.text({ title: `question ${index}` })).pipe(
        Effect.map((answers) => answers.join(" ")),
        Effect.orDie
      ),
    look: () => Effect.succeed("seen")
  })
)

const wait = (id: string, times = 1) => ({ name: "wait", params: { times }, id })
const look = { name: "look", params: {}, id: "look" }

/** Ends the run after the call of a tool. */
const endAfter = (name: string, ending: Middleware.EndNow | Middleware.EndWith) =>
  Middleware.lifecycle({
    name: "ends",
    afterTool: ({ toolName }) => (toolName === name ? ending : Middleware.noChanges)
  })

const play = <A, E>(
  effect: Effect.Effect<A, E, Agent.Agent | SessionStore.SessionStore>,
  store: Layer.Layer<SessionSearch | SessionStore.SessionStore>,
  calls: ReadonlyArray<{ readonly name: string; readonly params: unknown; readonly id: string }>,
  middleware: Middleware.Contained
) =>
  Effect.provide(
    effect,
    Layer.provideMerge(
      Runtime.layer({
        provider: Scripted.layer([Scripted.complete({ toolCalls: calls })]),
        tools: [tools],
        questions: { unanswered: "suspend" },
        middleware: [middleware],
        store
      }),
      store
    ),
    { local: true }
  )

const memory = Effect.map(Layer.build(SessionStore.layerMemory), (context) => Layer.succeedContext(context))

/** Reads what is left of a session: its open calls, and the states of its questions. */
const readRest = Effect.gen(function* () {
  const store = yield* SessionStore.SessionStore
  const messages = yield* store.messages(SessionId.make(sessionId))
  const states = ["open", "answered", "used", "withdrawn"] as const
  const stored = yield* store.listQuestions({ sessionId: SessionId.make(sessionId), states, limit: 10 })
  return { open: Conversation.listOpenCalls(messages).map(({ id }) => id), states: stored.map(({ state }) => state) }
})

describe("an end by middleware while calls wait", () => {
  for (const [name, calls] of Object.entries({
    "after the waiting call": [wait("a"), look],
    "before the waiting calls": [look, wait("a"), wait("b", 2)]
  }))
    it.effect(`ends the run, ${name}`, () =>
      Effect.gen(function* () {
        const events: Array<RunEvent> = []
        const run = Effect.gen(function* () {
          const onEvent = (some: ReadonlyArray<RunEvent>) => Effect.sync(() => void events.push(...some))
          const result = yield* Agent.run({ prompt: "go", sessionId, onEvent })
          return { result, rest: yield* readRest }
        })
        const { rest, result } = yield* play(run, yield* memory, calls, endAfter("look", Middleware.endWith("enough")))
        assert.deepStrictEqual(
          [result.exit, result.endedBy, result.text, result.questions],
          ["ended_by_middleware", "ends", "enough", undefined]
        )
        assert.deepStrictEqual(rest, { open: [], states: [] })
        const ended = events.flatMap((event) => (event._tag === "ToolFinished" ? [event.callId] : []))
        assert.deepStrictEqual(ended.toSorted(), calls.map(({ id }) => id).toSorted())
        assert.isFalse(events.some(({ _tag }) => _tag === "QuestionAsked"))
      })
    )

  it.effect("ends the run that continues with one of two answers, and withdraws the other question", () =>
    Effect.gen(function* () {
      const store = yield* memory
      const calls = [wait("a"), wait("b", 2)]
      const ends = endAfter("wait", Middleware.end)
      const first = yield* play(Agent.run({ prompt: "go", sessionId }), store, calls, ends)
      assert.deepStrictEqual([first.exit, first.questions?.length], ["suspended", 2])
      const answers = [{ questionId: first.questions?.[0]?.id ?? "", answer: "yes" }]
      const second = yield* play(Agent.resume({ sessionId, answers }), store, [], ends)
      assert.deepStrictEqual([second.exit, second.text, second.questions], ["ended_by_middleware", "yes", undefined])
      assert.deepStrictEqual(yield* Effect.provide(readRest, store), { open: [], states: ["used", "withdrawn"] })
    })
  )
})
