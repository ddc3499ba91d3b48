// Questions of tools of every kind, and those that a wrapper asks; clients that answer during a run; suspended sessions
// that are exported and compacted.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Json from "../../src/base/domain/Json.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import { Agent, Middleware, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { CallQuestions } from "../../src/kit/entry/approvals.ts"
import { Ask } from "../../src/kit/entry/tools.ts"
import * as SessionExport from "../../src/store/SessionExport.ts"
import type { SessionSearch } from "../../src/store/SessionSearch.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const sessionId = "waits"
const toolkit = Toolkit.make(Tool.make("work", { parameters: Schema.Struct({}), success: Schema.String }))
const call = { toolCalls: [{ name: "work", params: {}, id: "c" }] }

type Turns = ReadonlyArray<Parameters<typeof Scripted.complete>[0]>
type Store = Layer.Layer<SessionSearch | SessionStore.SessionStore>

interface Place {
  readonly store: Store
  readonly work: Effect.Effect<string, unknown>
  readonly wrap?: Middleware.ToolWrap<never, never, never>
}

const withRuntime = <A, E>(
  { store, work, wrap }: Place,
  turns: Turns,
  effect: Effect.Effect<A, E, Agent.Agent | SessionStore.SessionStore>
) =>
  Effect.provide(
    effect,
    Layer.provideMerge(
      Runtime.layer({
        provider: Scripted.layer(turns.map((turn) => Scripted.complete(turn))),
        tools: [Toolset.make("work", toolkit, toolkit.toLayer({ work: () => Effect.orDie(work) }))],
        middleware: wrap === undefined ? [] : [Middleware.toolExecution({ name: "asks", wrap })],
        questions: { unanswered: "suspend" },
        store
      }),
      store
    ),
    { local: true }
  )

const memory = Effect.map(Layer.build(SessionStore.layerMemory), (context) => Layer.succeedContext(context))

const start = Agent.run({ prompt: "go", sessionId })

/** Answers the open question of the session. */
const answerWith = (answer: unknown) =>
  Effect.flatMap(Agent.questions(sessionId), ([question]) =>
    Agent.resume({ sessionId, answers: [{ questionId: question?.id ?? "none", answer }] })
  )

const readOutput = ({ calls }: Effect.Success<typeof start>) => calls.at(-1)?.result

describe("a question of a tool", () => {
  it.effect("is a text, which the tool receives", () =>
    Effect.gen(function* () {
      const place = { store: yield* memory, work: Ask.text({ title: "Who?", prompt: "First name", details: { a: 1 } }) }
      const { questions: [question] = [] } = yield* withRuntime(place, [call], start)
      assert.deepStrictEqual(
        [question?.kind, question?.title, question?.prompt, question?.details],
        ["text", "Who?", "First name", { a: 1 }]
      )
      const invalid = yield* Effect.flip(withRuntime(place, [], answerWith(7)))
      assert.strictEqual(invalid._tag, "AnswerInvalid")
      const done = yield* withRuntime(place, ["Done."], answerWith("Bob"))
      assert.deepStrictEqual([done.text, readOutput(done)], ["Done.", "Bob"])
    })
  )

  it.effect("is an event with a payload of its schema, or of any form", () =>
    Effect.gen(function* () {
      for (const [work, wrong] of [
        [Effect.map(Ask.event("paid", Schema.Struct({ by: Schema.String })), ({ by }) => by), { by: 1 }],
        [Effect.map(Ask.event("paid"), (payload) => String(Json.readFields(payload)["by"])), undefined]
      ] as const) {
        const place = { store: yield* memory, work }
        const { questions: [question] = [] } = yield* withRuntime(place, [call], start)
        assert.deepStrictEqual([question?.kind, question?.event], ["event", "paid"])
        const invalid = yield* Effect.flip(withRuntime(place, [], answerWith(wrong)))
        assert.strictEqual(invalid._tag, "AnswerInvalid")
        assert.strictEqual(readOutput(yield* withRuntime(place, ["Done."], answerWith({ by: "Ada" }))), "Ada")
      }
    })
  )

  it.effect("is a time, which takes no answer and passes", () =>
    Effect.gen(function* () {
      const place = { store: yield* memory, work: Effect.as(Ask.until(3_600_000), "later") }
      assert.strictEqual((yield* withRuntime(place, [call], start)).exit, "suspended")
      assert.strictEqual((yield* withRuntime(place, [], Agent.resume({ sessionId }))).exit, "suspended")
      assert.strictEqual((yield* Effect.flip(withRuntime(place, [], answerWith(null))))._tag, "QuestionAnswered")
      yield* TestClock.adjust("2 hours")
      const done = yield* withRuntime(place, ["Done."], Agent.resume({ sessionId }))
      assert.deepStrictEqual([done.text, readOutput(done)], ["Done.", "later"])
    })
  )

  it.effect("is answered by a client that is present, for the time of the policy", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const place = { store: yield* memory, work: Ask.text({ title: "Who?" }) }
      const live = (answer: Effect.Effect<unknown>) =>
        Effect.provideService(start, CallQuestions.LiveAnswers, {
          answer: ({ title, tool }) =>
            Effect.andThen(
              Effect.sync(() => asked.push(`${tool}: ${title}`)),
              answer
            )
        })
      const done = yield* withRuntime(place, [call, "Done."], live(Effect.succeed("Bob")))
      assert.deepStrictEqual([done.exit, readOutput(done), asked], ["text_response", "Bob", ["work: Who?"]])
      // No answer is a suspension.
      const other = { ...place, store: yield* memory }
      assert.strictEqual((yield* withRuntime(other, [call], live(Effect.undefined))).exit, "suspended")
      assert.strictEqual(readOutput(yield* withRuntime(other, ["Done."], answerWith("Ada"))), "Ada")
    })
  )

  it.effect("may be asked by a wrapper, before the tool and after it", () =>
    Effect.gen(function* () {
      let runs = 0
      const wrap: Middleware.ToolWrap<never, never, never> = (next) => (request) =>
        Effect.gen(function* () {
          const { isApproved } = yield* Ask.approval({ title: "Before?" })
          if (!isApproved) return { output: "refused", isFailure: true }
          const done = yield* next(request)
          const { isApproved: isKept } = yield* Ask.approval({ title: "After?" })
          return isKept ? done : { ...done, output: "withheld" }
        })
      const work = Ask.once(
        "work",
        Effect.sync(() => `run ${++runs}`)
      )
      const place = { store: yield* memory, work, wrap }
      const first = yield* withRuntime(place, [call], start)
      assert.deepStrictEqual([first.exit, first.questions?.[0]?.title, runs], ["suspended", "Before?", 0])
      const second = yield* withRuntime(place, [], answerWith({ choice: "once" }))
      assert.deepStrictEqual([second.exit, second.questions?.[0]?.title, runs], ["suspended", "After?", 1])
      const done = yield* withRuntime(place, ["Done."], answerWith({ choice: "once" }))
      assert.deepStrictEqual([done.text, readOutput(done), runs], ["Done.", "run 1", 1])
    })
  )
})

describe("a suspended session", () => {
  it.effect("is exported with its questions", () =>
    Effect.gen(function* () {
      const place = { store: yield* memory, work: Ask.text({ title: "Who?" }) }
      yield* withRuntime(place, [call], start)
      const exported = yield* withRuntime(
        place,
        [],
        Effect.flatMap(
          SessionStore.SessionStore.use((store) => store.get(SessionId.make(sessionId))),
          (session) => SessionExport.readSession(Option.getOrThrow(session))
        )
      )
      const [question] = Json.readItems(Json.readFields(exported)["questions"]).map(Json.readFields)
      assert.deepStrictEqual([question?.["kind"], question?.["title"], question?.["state"]], ["text", "Who?", "open"])
    })
  )

  for (const kind of ["memory", "sqlite"] as const)
    it.live(`is not compacted before its questions are answered (${kind})`, () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const store: Store =
          kind === "memory" ? yield* memory : SessionStore.layerSqlite({ path: `${directory}/state.db` })
        const place = { store, work: Ask.text({ title: "Who?" }) }
        for (let number = 0; number < 12; number++)
          yield* withRuntime(place, [`Answer ${number}`], Agent.run({ prompt: `Say ${number}`, sessionId }))
        yield* withRuntime(place, [call], start)
        const compacted = yield* withRuntime(
          place,
          ["The summary."],
          Agent.Agent.use((agent) => agent.compact({ sessionId }))
        )
        assert.deepStrictEqual([compacted.sessionId, compacted.after], [sessionId, compacted.before])
        const [question] = yield* withRuntime(place, [], Agent.questions(sessionId))
        assert.deepStrictEqual(question?.title, "Who?")
        const done = yield* withRuntime(place, ["Done."], answerWith("Bob"))
        assert.deepStrictEqual([done.text, readOutput(done)], ["Done.", "Bob"])
        const later = yield* withRuntime(
          place,
          ["The summary."],
          Agent.Agent.use((agent) => agent.compact({ sessionId }))
        )
        assert.notStrictEqual(later.sessionId, sessionId)
      })
    )

  it.live("continues in the session of a run that was compacted before it asked", () =>
    Effect.gen(function* () {
      const place = { store: yield* memory, work: Ask.text({ title: "Who?" }) }
      for (let number = 0; number < 12; number++)
        yield* withRuntime(place, [`Answer ${number}`], Agent.run({ prompt: `Say ${number}`, sessionId }))
      yield* withRuntime(
        place,
        ["The summary."],
        Agent.Agent.use((agent) => agent.compact({ sessionId }))
      )
      const asked = yield* withRuntime(place, [call], start)
      assert.notStrictEqual(asked.sessionId, sessionId)
      const [question] = yield* withRuntime(place, [], Agent.questions(sessionId))
      assert.strictEqual(question?.sessionId, asked.sessionId)
      const done = yield* withRuntime(place, ["Done."], answerWith("Bob"))
      assert.deepStrictEqual([done.text, readOutput(done)], ["Done.", "Bob"])
    })
  )
})
