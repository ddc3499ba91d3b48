// Questions of child agents: they suspend the parent, whose session takes the answers, and each child continues once.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { QuestionPolicy } from "../../src/tools/CallQuestions.ts"
import type { Answer, Question } from "../../src/base/domain/Question.ts"
import { Agent, Delegate, Runtime, SessionStore, Toolset } from "../../src/index.ts"
import { Ask } from "../../src/kit/entry/tools.ts"
import * as SubAgents from "../../src/tools/builtin/SubAgents.ts"
import type { SessionSearch } from "../../src/store/SessionSearch.ts"
import * as Fake from "../support/fakeModel.ts"
import * as PlannedModel from "../support/plannedModel.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const parameters = Schema.Struct({ key: Schema.String })
const success = Schema.String
const toolkit = Toolkit.make(
  Tool.make("delete", { parameters, success, needsApproval: true }),
  Tool.make("note", { parameters, success }),
  Tool.make("pay", { parameters, success })
)

type Store = Layer.Layer<SessionSearch | SessionStore.SessionStore>

/** Calls of each step of a task. A task without calls left is done. */
type Plan = Readonly<Record<string, ReadonlyArray<ReadonlyArray<ReturnType<typeof Fake.call>>>>>

const delegate = (...goals: ReadonlyArray<string>) =>
  Fake.call(`d-${goals.join("-")}`, "delegate_task", { tasks: goals.map((goal) => ({ goal, role: "orchestrator" })) })

const makeWorld = (plan: Plan) => {
  const effects: Array<string> = []
  const models: Array<string> = []
  const note = (effect: string) => Effect.sync(() => void effects.push(effect))
  const model = PlannedModel.make((prompt, step) => {
    const task = prompt.split("\n", 1)[0] ?? ""
    models.push(`${task} ${step}`)
    const calls = plan[task]?.[step]
    if (calls === undefined && task === "clerk") return Fake.textAnswer('{"paid":"yes"}')
    return calls === undefined ? Fake.textAnswer(`${task} done`) : Fake.callsAnswer(...calls)
  })
  const tools = Toolset.make(
    "world",
    toolkit,
    toolkit.toLayer({
      delete: ({ key }) => Effect.as(note(`delete ${key}`), `deleted ${key}`),
      note: ({ key }) => Effect.as(note(`note ${key}`), `noted ${key}`),
      pay: ({ key }) =>
        Effect.orDie(
          Effect.gen(function* () {
            yield* Ask.once("invoice", note(`invoice ${key}`))
            const euros = yield* Ask.form(Schema.Int, { title: `How much for ${key}?` })
            yield* note(`pay ${key} ${euros}`)
            return `paid ${key}`
          })
        )
    })
  )
  return { effects, model, models, tools }
}

interface Place {
  readonly store: Store
  readonly world: ReturnType<typeof makeWorld>
  readonly questions?: QuestionPolicy
}

/** A runtime as another process has it: nothing but the store is the same. */
const inProcess = <A, E>(
  { questions = { unanswered: "suspend" }, store, world }: Place,
  effect: Effect.Effect<A, E, Agent.Agent | SessionStore.SessionStore>
) =>
  Effect.provide(
    effect,
    Layer.provideMerge(
      Runtime.layer({
        provider: world.model,
        tools: [world.tools, Delegate.toolset, SubAgents.make([{ name: "clerk", description: "Pays" }])],
        delegation: {
          maxSpawnDepth: 4,
          agents: [{ name: "clerk", settings: { output: Schema.Struct({ paid: Schema.String }) } }]
        },
        questions,
        store
      }),
      store
    ),
    { local: true }
  )

const memory: Effect.Effect<Store, never, Scope.Scope> = Effect.map(Layer.build(SessionStore.layerMemory), (context) =>
  Layer.succeedContext(context)
)
const sqlite: Effect.Effect<Store, never, Scope.Scope> = Effect.map(temporaryDirectory, (directory) =>
  SessionStore.layerSqlite({ path: `${directory}/state.db` })
)

const sessionId = "parent"
const start = (prompt: string) => Agent.run({ prompt, sessionId })
const resume = (answers: ReadonlyArray<Answer> = []) => Agent.resume({ sessionId, answers })
const answer = (question: Question | undefined, given: unknown): Answer => ({
  questionId: question?.id ?? "none",
  answer: given
})
const find = (questions: ReadonlyArray<Question> | undefined, key: string): Question | undefined =>
  questions?.find((question) => JSON.stringify([question.title, question.prompt]).includes(key))

for (const [name, makeStore] of [
  ["memory", memory],
  ["SQLite", sqlite]
] as const)
  describe(`a child that waits (${name})`, () => {
    it.live("suspends its parent, and both continue in another process", () =>
      Effect.gen(function* () {
        const world = makeWorld({
          go: [[delegate("first")]],
          first: [[Fake.call("c0", "pay", { key: "a" })], [Fake.call("c0", "delete", { key: "b" })]]
        })
        const place = { store: yield* makeStore, world }
        const asked = yield* inProcess(place, start("go"))
        const [form] = asked.questions ?? []
        assert.deepStrictEqual(
          [asked.exit, form?.kind, form?.title, form?.tool, form?.callId, form?.sessionId],
          ["suspended", "form", "How much for a?", "pay", "d-first", sessionId]
        )
        assert.deepStrictEqual(
          form?.origin?.map(({ goal }) => goal),
          ["first"]
        )
        assert.deepStrictEqual(yield* inProcess(place, Agent.questions(sessionId)), asked.questions)
        const next = yield* inProcess(place, resume([answer(form, 7)]))
        const [approval] = next.questions ?? []
        assert.deepStrictEqual([next.exit, approval?.kind, next.questions?.length], ["suspended", "approval", 1])
        const late = yield* Effect.flip(inProcess(place, resume([answer(form, 8)])))
        assert.strictEqual(late._tag, "QuestionAnswered")
        const params = { key: "b2" }
        const done = yield* inProcess(place, resume([answer(approval, { choice: "once", params })]))
        assert.deepStrictEqual([done.exit, done.text], ["text_response", "go done"])
        assert.deepStrictEqual(world.effects, ["invoice a", "pay a 7", "delete b2"])
        assert.deepStrictEqual(world.models, ["go 0", "first 0", "first 1", "first 2", "go 1"])
        assert.include(JSON.stringify(done.calls.at(-1)?.result), "first done")
        assert.deepStrictEqual(yield* inProcess(place, Agent.questions(sessionId)), [])
      })
    )

    it.live("may be two levels deep", () =>
      Effect.gen(function* () {
        const world = makeWorld({
          go: [[delegate("middle")]],
          middle: [[delegate("leaf"), Fake.call("n", "note", { key: "m" })]],
          leaf: [[Fake.call("c0", "pay", { key: "a" }), Fake.call("c1", "delete", { key: "b" })]]
        })
        const place = { store: yield* makeStore, world }
        const asked = yield* inProcess(place, start("go"))
        const form = find(asked.questions, "How much")
        const approval = asked.questions?.find(({ kind }) => kind === "approval")
        assert.deepStrictEqual([asked.exit, asked.questions?.length], ["suspended", 2])
        assert.deepStrictEqual(
          form?.origin?.map(({ goal }) => goal),
          ["middle", "leaf"]
        )
        const still = yield* inProcess(place, resume([answer(approval, { choice: "deny", reason: "no" })]))
        assert.deepStrictEqual([still.exit, still.questions?.map(({ id }) => id)], ["suspended", [form?.id]])
        const done = yield* inProcess(place, resume([answer(form, 7)]))
        assert.deepStrictEqual([done.exit, done.text], ["text_response", "go done"])
        assert.deepStrictEqual(world.effects.toSorted(), ["invoice a", "note m", "pay a 7"])
        assert.deepStrictEqual(world.models, ["go 0", "middle 0", "leaf 0", "leaf 1", "middle 1", "go 1"])
      })
    )

    it.live("waits for its siblings, which are not run again", () =>
      Effect.gen(function* () {
        const world = makeWorld({
          go: [[delegate("one", "two", "three")]],
          one: [[Fake.call("c0", "note", { key: "x" })]],
          two: [[Fake.call("c0", "pay", { key: "a" })]],
          three: [[Fake.call("c0", "delete", { key: "b" })], [Fake.call("c0", "note", { key: "y" })]]
        })
        const place = { store: yield* makeStore, world }
        const asked = yield* inProcess(place, start("go"))
        assert.deepStrictEqual(world.effects.toSorted(), ["invoice a", "note x"])
        const form = find(asked.questions, "How much")
        const approval = asked.questions?.find(({ kind }) => kind === "approval")
        // One child continues before the other one has its answer.
        const still = yield* inProcess(place, resume([answer(approval, { choice: "once" })]))
        assert.deepStrictEqual([still.exit, still.questions?.map(({ id }) => id)], ["suspended", [form?.id]])
        assert.deepStrictEqual(world.effects.slice(2), ["delete b", "note y"])
        const done = yield* inProcess(place, resume([answer(form, 7)]))
        assert.strictEqual(done.text, "go done")
        assert.deepStrictEqual(world.effects.slice(4), ["pay a 7"])
        const reports = JSON.stringify(done.calls.at(-1)?.result)
        for (const report of ["one done", "two done", "three done"]) assert.include(reports, report)
        assert.deepStrictEqual(world.models.toSorted(), [
          "go 0",
          "go 1",
          "one 0",
          "one 1",
          "three 0",
          "three 1",
          "three 2",
          "two 0",
          "two 1"
        ])
      })
    )

    it.live("is closed with its parent by a message", () =>
      Effect.gen(function* () {
        const world = makeWorld({ go: [[delegate("first")]], first: [[Fake.call("c0", "pay", { key: "a" })]] })
        const place = { store: yield* makeStore, world }
        const asked = yield* inProcess(place, start("go"))
        const [form] = asked.questions ?? []
        const other = yield* inProcess(place, start("leave it"))
        assert.strictEqual(other.text, "leave it done")
        const closed = yield* Effect.flip(inProcess(place, resume([answer(form, 7)])))
        assert.strictEqual(closed._tag, "QuestionClosed")
        assert.deepStrictEqual(world.effects, ["invoice a"])
      })
    )
  })

describe("a child", () => {
  it.effect("is denied if the policy of its parent denies", () =>
    Effect.gen(function* () {
      const world = makeWorld({
        go: [[delegate("first")]],
        first: [[Fake.call("c0", "delete", { key: "a" }), Fake.call("c1", "pay", { key: "b" })]]
      })
      const place = { store: yield* memory, world, questions: { unanswered: "deny" } } as const
      const done = yield* inProcess(place, start("go"))
      assert.deepStrictEqual([done.exit, world.effects], ["text_response", ["invoice b"]])
    })
  )

  it.effect("reports its question once, in the events of its parent", () =>
    Effect.gen(function* () {
      const world = makeWorld({ go: [[delegate("first")]], first: [[Fake.call("c0", "pay", { key: "a" })]] })
      const place = { store: yield* memory, world }
      const events = yield* inProcess(place, Stream.runCollect(Agent.stream({ prompt: "go", sessionId })))
      const asked = events.flatMap((event) => (event._tag === "QuestionAsked" ? [event.question] : []))
      assert.deepStrictEqual(
        asked.map(({ sessionId: id, title }) => [id, title]),
        [[sessionId, "How much for a?"]]
      )
      const ended = events.flatMap((event) => (event._tag === "SubagentFinished" ? [event.status] : []))
      assert.deepStrictEqual(ended, ["suspended"])
    })
  )

  it.effect("of a sub-agent with a schema continues to its value", () =>
    Effect.gen(function* () {
      const world = makeWorld({
        go: [[Fake.call("s", "Agent", { name: "clerk", message: "clerk" })]],
        clerk: [[Fake.call("c0", "pay", { key: "a" })]]
      })
      const place = { store: yield* memory, world }
      const asked = yield* inProcess(place, start("go"))
      assert.deepStrictEqual(
        asked.questions?.map(({ origin }) => origin?.[0]?.agent),
        ["clerk"]
      )
      const done = yield* inProcess(place, resume([answer(asked.questions?.[0], 7)]))
      assert.deepStrictEqual([done.text, world.effects], ["go done", ["invoice a", "pay a 7"]])
      assert.include(JSON.stringify(done.calls.at(-1)?.result), "paid")
    })
  )

  it.effect("gets the denial of an approval that expired", () =>
    Effect.gen(function* () {
      const world = makeWorld({ go: [[delegate("first")]], first: [[Fake.call("c0", "delete", { key: "a" })]] })
      const questions = { unanswered: "suspend", expiresAfter: "1 hour" } as const
      const place = { store: yield* memory, world, questions }
      yield* inProcess(place, start("go"))
      yield* TestClock.adjust("2 hours")
      const done = yield* inProcess(place, resume())
      assert.deepStrictEqual([done.text, world.effects], ["go done", []])
    })
  )
})
