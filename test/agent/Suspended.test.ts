// Runs that wait for answers: over three stores, streamed and not, in fresh runtimes over the same store.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import type { Answer, Question } from "../../src/base/domain/Question.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { SessionSearch } from "../../src/store/SessionSearch.ts"
import { Agent, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { Ask } from "../../src/kit/entry/tools.ts"
import type { ResumeOptions, RunOptions } from "../../src/agent/RunInput.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const Delete = Tool.make("delete", {
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const Pay = Tool.make("pay", { parameters: Schema.Struct({ to: Schema.String }), success: Schema.String })
const Look = Tool.make("look", { parameters: Schema.Struct({ at: Schema.String }), success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const toolkit = Toolkit.make(Delete, Pay, Look)

const Amount = Schema.Struct({ euros: Schema.Int })

/** Effects outside of the runs, counted. */
const makeWorld = () => {
  const effects: Array<string> = []
  const note = (effect: string) => Effect.sync(() => void effects.push(effect))
  const tools = Toolset.make(
    "world",
    toolkit,
    toolkit.toLayer({
      delete: ({ path }) => Effect.as(note(`delete ${path}`), `deleted ${path}`),
      look: ({ at }) => Effect.as(note(`look ${at}`), `saw ${at}`),
      pay: ({ to }) =>
        Effect.orDie(
          Effect.gen(function* () {
            const invoice = yield* Ask.once("invoice", Effect.as(note(`invoice ${to}`), { number: 7 }))
            const { euros } = yield* Ask.form(Amount, { title: `How much does ${to} get?` })
            const { isApproved } = yield* Ask.approval({ title: `Pay ${euros} to ${to}?` })
            if (!isApproved) return `invoice ${invoice.number} is not paid`
            yield* note(`pay ${euros} to ${to}`)
            return `invoice ${invoice.number} is paid`
          })
        )
    })
  )
  return { effects, tools }
}

type World = ReturnType<typeof makeWorld>
type Store = Layer.Layer<SessionSearch | SessionStore.SessionStore>

const call = (name: string, params: object, id: string) => ({ name, params, id })

/** A runtime as another process has it: nothing but the store is the same. */
const withRuntime = <A, E>(
  { store, world }: { readonly store: Store; readonly world: World },
  turns: ReadonlyArray<Parameters<typeof Scripted.complete>[0]>,
  effect: Effect.Effect<A, E, Agent.Agent | SessionStore.SessionStore>
) =>
  Effect.provide(
    effect,
    Layer.provideMerge(
      Runtime.layer({
        provider: Scripted.layer(turns.map((turn) => Scripted.complete(turn))),
        tools: [world.tools],
        store
      }),
      store
    ),
    { local: true }
  )

const policy = { unanswered: "suspend" } as const

const sessionId = "waits"

/** The last event of a run, streamed or not. */
const drive = (mode: "run" | "stream") => ({
  run: (input: RunOptions) =>
    mode === "run" ? Agent.run({ ...input, questions: policy }) : lastOf(Agent.stream({ ...input, questions: policy })),
  resume: (input: ResumeOptions) =>
    mode === "run"
      ? Agent.resume({ ...input, questions: policy })
      : lastOf(Agent.resumeStream({ ...input, questions: policy }))
})

const lastOf = <E>(events: Stream.Stream<import("../../src/index.ts").RunEvent.RunEvent, E, Agent.Agent>) =>
  Effect.flatMap(Stream.runCollect(events), (all) => {
    const last = all.at(-1)
    return last?._tag === "RunFinished" ? Effect.succeed(last) : Effect.die(new Error("no end"))
  })

const answerOf = (question: Question, answer: unknown): Answer => ({ questionId: question.id, answer, by: "Ada" })

const results = SessionStore.SessionStore.use((store) =>
  Effect.map(store.messages(SessionId.make(sessionId)), (messages) =>
    Conversation.closeOpenCalls(messages).flatMap((message) =>
      message.role === "tool"
        ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.result] as const] : []))
        : []
    )
  )
)

const suiteOf = (make: Effect.Effect<Store, never, Scope.Scope>) => {
  for (const mode of ["run", "stream"] as const) {
    it.live(`approves, denies and edits calls in another process (${mode})`, () =>
      Effect.gen(function* () {
        const world = makeWorld()
        const place = { store: yield* make, world }
        const { resume, run } = drive(mode)
        const paused = yield* withRuntime(
          place,
          [
            {
              text: "I delete them.",
              toolCalls: [
                call("delete", { path: "a" }, "a"),
                call("look", { at: "b" }, "b"),
                call("delete", { path: "c" }, "c")
              ]
            }
          ],
          run({ prompt: "clean up", sessionId })
        )
        assert.deepStrictEqual([paused.exit, paused.text], ["suspended", "I delete them."])
        const [first, second] = paused.questions ?? []
        assert.deepStrictEqual(
          paused.questions?.map(({ callId, kind, tool }) => [callId, kind, tool]),
          [
            ["a", "approval", "delete"],
            ["c", "approval", "delete"]
          ]
        )
        assert.deepStrictEqual(world.effects, [])
        if (first === undefined || second === undefined) return assert.fail("two questions")
        // A part of the answers: the calls run in their order.
        const still = yield* withRuntime(
          place,
          [],
          resume({ sessionId, answers: [answerOf(second, { choice: "deny", reason: "keep it" })] })
        )
        assert.deepStrictEqual(
          [still.exit, still.questions?.map(({ id }) => id), world.effects],
          ["suspended", [first.id], []]
        )
        const done = yield* withRuntime(
          place,
          ["All done."],
          resume({ sessionId, answers: [answerOf(first, { choice: "once", params: { path: "a2" } })] })
        )
        assert.deepStrictEqual([done.exit, done.text], ["text_response", "All done."])
        assert.deepStrictEqual(world.effects, ["delete a2", "look b"])
        const told = yield* withRuntime(place, [], results)
        assert.deepStrictEqual(
          told.map(([id]) => id),
          ["a", "b", "c"]
        )
        assert.match(String(told[0]?.[1]), /^deleted a2\n\n\[The user changed the parameters/)
        assert.strictEqual(told[1]?.[1], "saw b")
        assert.include(String(told[2]?.[1]), "keep it")
      })
    )

    it.live(`a tool asks twice, and what it did before is not done again (${mode})`, () =>
      Effect.gen(function* () {
        const world = makeWorld()
        const place = { store: yield* make, world }
        const { resume, run } = drive(mode)
        const asked = yield* withRuntime(
          place,
          [{ toolCalls: [call("pay", { to: "Bob" }, "p")] }],
          run({ prompt: "pay Bob", sessionId })
        )
        const [form] = asked.questions ?? []
        assert.deepStrictEqual([asked.exit, form?.kind, form?.title], ["suspended", "form", "How much does Bob get?"])
        if (form === undefined) return
        const invalid = yield* Effect.flip(
          withRuntime(place, [], resume({ sessionId, answers: [answerOf(form, { euros: "many" })] }))
        )
        assert.strictEqual(invalid._tag, "AnswerInvalid")
        const next = yield* withRuntime(place, [], resume({ sessionId, answers: [answerOf(form, { euros: 5 })] }))
        const [approval] = next.questions ?? []
        assert.deepStrictEqual([next.exit, approval?.kind, approval?.title], ["suspended", "approval", "Pay 5 to Bob?"])
        if (approval === undefined) return
        const twice = yield* Effect.flip(
          withRuntime(place, [], resume({ sessionId, answers: [answerOf(form, { euros: 500 })] }))
        )
        assert.strictEqual(twice._tag, "QuestionAnswered")
        const unknown = yield* Effect.flip(
          withRuntime(place, [], resume({ sessionId, answers: [{ questionId: "q_none", answer: 1 }] }))
        )
        assert.strictEqual(unknown._tag, "QuestionUnknown")
        const done = yield* withRuntime(
          place,
          ["Paid."],
          resume({ sessionId, answers: [answerOf(approval, { choice: "once" })] })
        )
        assert.deepStrictEqual([done.exit, done.text], ["text_response", "Paid."])
        assert.deepStrictEqual(world.effects, ["invoice Bob", "pay 5 to Bob"])
        const late = yield* Effect.flip(
          withRuntime(place, [], resume({ sessionId, answers: [answerOf(approval, { choice: "deny" })] }))
        )
        assert.strictEqual(late._tag, "QuestionAnswered")
        assert.deepStrictEqual(yield* withRuntime(place, [], Agent.questions(sessionId)), [])
      })
    )
  }

  it.live("a message instead of an answer withdraws the questions, and the model learns it", () =>
    Effect.gen(function* () {
      const world = makeWorld()
      const place = { store: yield* make, world }
      const { resume, run } = drive("run")
      const asked = yield* withRuntime(
        place,
        [{ toolCalls: [call("delete", { path: "a" }, "a")] }],
        run({ prompt: "clean up", sessionId })
      )
      const [question] = asked.questions ?? []
      const other = yield* withRuntime(place, ["As you like."], run({ prompt: "leave it", sessionId }))
      assert.strictEqual(other.exit, "text_response")
      assert.match(String((yield* withRuntime(place, [], results))[0]?.[1]), /^Not executed: .* approval/)
      if (question === undefined) return
      const closed = yield* Effect.flip(
        withRuntime(place, [], resume({ sessionId, answers: [answerOf(question, { choice: "once" })] }))
      )
      assert.strictEqual(closed._tag, "QuestionClosed")
      assert.deepStrictEqual(world.effects, [])
      yield* withRuntime(
        place,
        [],
        Agent.Agent.use((agent) => agent.deleteSession(sessionId))
      )
      const gone = yield* Effect.flip(
        withRuntime(place, [], resume({ sessionId, answers: [answerOf(question, { choice: "once" })] }))
      )
      assert.strictEqual(gone._tag, "SessionNotFound")
    })
  )
}

describe("a run that waits", () => {
  /** One store for all runtimes of a test. */
  const shared = (layer: Store) => Effect.map(Layer.build(layer), (context) => Layer.succeedContext(context))
  describe("in memory", () => {
    suiteOf(shared(SessionStore.layerMemory))
  })
  describe("in SQLite", () => {
    suiteOf(Effect.map(temporaryDirectory, (directory) => SessionStore.layerSqlite({ path: `${directory}/state.db` })))
  })
  describe.skipIf(missing !== undefined)("in Postgres", () => {
    let server: Server
    let schemas = 0
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())
    suiteOf(
      Effect.sync(() => SessionStore.layerPostgres({ url: Redacted.make(server.url(`w${schemas++}`)), connections: 2 }))
    )
  })

  it.effect("an expired approval is a denial, and a late answer is refused", () =>
    Effect.gen(function* () {
      const world = makeWorld()
      const place = { store: yield* shared(SessionStore.layerMemory), world }
      const questions = { ...policy, expiresAfter: "1 hour" } as const
      const asked = yield* withRuntime(
        place,
        [{ toolCalls: [call("delete", { path: "a" }, "a")] }],
        Agent.run({ prompt: "clean up", sessionId, questions })
      )
      const [question] = asked.questions ?? []
      if (question === undefined) return assert.fail("a question")
      yield* TestClock.adjust("2 hours")
      const late = yield* Effect.flip(
        withRuntime(place, [], Agent.resume({ sessionId, answers: [answerOf(question, { choice: "once" })] }))
      )
      assert.strictEqual(late._tag, "QuestionExpired")
      const done = yield* withRuntime(place, ["Not deleted."], Agent.resume({ sessionId }))
      assert.deepStrictEqual([done.exit, world.effects], ["text_response", []])
      assert.include(String((yield* withRuntime(place, [], results))[0]?.[1]), "not answered in time")
    })
  )

  it.effect("another audience cannot see a question", () =>
    Effect.gen(function* () {
      const world = makeWorld()
      const place = { store: yield* shared(SessionStore.layerMemory), world }
      const asked = yield* withRuntime(
        place,
        [{ toolCalls: [call("delete", { path: "a" }, "a")] }],
        Agent.run({ prompt: "clean up", sessionId, questions: { ...policy, audience: "ops" } })
      )
      const [question] = asked.questions ?? []
      if (question === undefined) return assert.fail("a question")
      const answers = [answerOf(question, { choice: "once" })]
      const refused = yield* Effect.flip(
        withRuntime(place, [], Agent.resume({ sessionId, answers, audience: "sales" }))
      )
      assert.strictEqual(refused._tag, "QuestionUnknown")
      const done = yield* withRuntime(place, ["Deleted."], Agent.resume({ sessionId, answers, audience: "ops" }))
      assert.deepStrictEqual([done.exit, world.effects], ["text_response", ["delete a"]])
    })
  )
})
