// Agents of steps that wait for answers: the execution waits with them, over memory and over a file that several
// processes open one after another.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Delegate, Runtime, SessionStore, Toolset } from "../../../../src/index.ts"
import { Ask } from "../../../../src/kit/entry/tools.ts"
import { Steps, WorkflowRuns } from "../../../../src/kit/entry/workflow.ts"
import * as Fake from "../../../support/fakeModel.ts"
import * as PlannedModel from "../../../support/plannedModel.ts"
import { temporaryDirectory } from "../../../support/temporaryDirectory.ts"

const parameters = Schema.Struct({ key: Schema.String })
const toolkit = Toolkit.make(
  Tool.make("pay", { parameters, success: Schema.String }),
  Tool.make("delete", { parameters, success: Schema.String, needsApproval: true })
)

const pay = (key: string) => Fake.call("c0", "pay", { key })
const remove = (key: string) => Fake.call("c1", "delete", { key })

/** Effects outside, and the runtime of one process. */
const makeWorld = (store: Layer.Layer<SessionStore.SessionStore>) => {
  const effects: Array<string> = []
  const note = (effect: string) => Effect.sync(() => void effects.push(effect))
  const tools = Toolset.make(
    "world",
    toolkit,
    toolkit.toLayer({
      delete: ({ key }) => Effect.as(note(`delete ${key}`), "deleted"),
      pay: ({ key }) =>
        Effect.orDie(
          Effect.gen(function* () {
            yield* Ask.once("invoice", note(`invoice ${key}`))
            const euros = yield* Ask.form(Schema.Int, { title: `How much for ${key}?` })
            yield* note(`pay ${key} ${euros}`)
            return "paid"
          })
        )
    })
  )
  const model = PlannedModel.make((prompt, step) => {
    const [task = ""] = prompt.split("\n", 1)
    if (step > 0) return Fake.textAnswer(task === "typed" ? '{"done":true}' : `${task} done`)
    if (task === "above") return Fake.callsAnswer(Fake.call("d", "delegate_task", { goal: "below" }))
    return Fake.callsAnswer(pay(task), remove(task))
  })
  const runtime = Runtime.layer({
    provider: model,
    tools: [tools, Delegate.toolset],
    questions: { unanswered: "suspend" },
    // The store of a process is a service of its own.
    store: store as never
  }).pipe(Layer.provideMerge(store))
  return { effects, runtime }
}

const workflow = Steps.make("errand", {
  version: 1,
  input: Schema.String,
  output: Schema.Struct({ text: Schema.String, done: Schema.Boolean }),
  steps: (start) =>
    start.pipe(
      Steps.agent("errand", { prompt: ({ input }) => input }),
      Steps.agent("typed", { prompt: "typed", output: Schema.Struct({ done: Schema.Boolean }) }),
      Steps.result(({ errand, typed }) => ({ text: errand, done: typed.done }))
    )
})

const workflows = [workflow]

/** Waits for as many questions of an execution. */
const waitForQuestions = (count: number, about = "") =>
  Effect.repeat(Effect.andThen(Effect.sleep("20 millis"), WorkflowRuns.listQuestions("one")), {
    until: (all) => all.filter(({ prompt }) => prompt.includes(about)).length === count
  })

const answer = (question: { readonly question: string; readonly prompt: string } | undefined, given: unknown) =>
  WorkflowRuns.answer({ id: "one", question: question?.question ?? "", answer: given })

const find = (all: ReadonlyArray<WorkflowRuns.Question>, text: string) =>
  all.find(({ prompt }) => prompt.includes(text))

const memoryStore: Effect.Effect<Layer.Layer<SessionStore.SessionStore>, never, Scope.Scope> = Effect.map(
  Layer.build(SessionStore.layerMemory),
  (context) => Layer.succeedContext(context)
)

describe("an agent of a step", () => {
  it.live("waits with its execution, and continues with the answers", () =>
    Effect.gen(function* () {
      const { effects, runtime } = makeWorld(yield* memoryStore)
      yield* Effect.gen(function* () {
        yield* WorkflowRuns.start(workflow, { id: "one", input: "a" })
        const asked = yield* waitForQuestions(2)
        const { steps } = yield* WorkflowRuns.view("one")
        assert.deepStrictEqual(
          steps.map(({ name, state }) => [name, state]),
          [["errand", "waiting"]]
        )
        const form = find(asked, "How much for a?")
        const invalid = yield* Effect.flip(answer(form, "many"))
        assert.strictEqual(invalid._tag === "AnswerRefused" ? invalid.reason : invalid._tag, "invalid")
        yield* answer(form, 7)
        const again = yield* Effect.flip(answer(form, 8))
        assert.strictEqual(again._tag === "AnswerRefused" ? again.reason : again._tag, "answered")
        const [approval] = yield* waitForQuestions(1)
        yield* answer(approval, { choice: "once" })
        const typed = yield* waitForQuestions(2)
        yield* answer(find(typed, "How much"), 8)
        yield* answer(find(typed, "delete"), { choice: "deny" })
        assert.deepStrictEqual(yield* WorkflowRuns.wait(workflow, "one"), { text: "a done", done: true })
        const { steps: ended } = yield* WorkflowRuns.view("one")
        assert.deepStrictEqual(
          ended.map(({ name, state }) => [name, state]),
          [
            ["errand", "done"],
            ["typed", "done"]
          ]
        )
      }).pipe(Effect.provide(WorkflowRuns.layerMemory({ workflows }).pipe(Layer.provideMerge(runtime))))
      assert.deepStrictEqual(effects, ["invoice a", "pay a 7", "delete a", "invoice typed", "pay typed 8"])
    })
  )

  it.live("continues when a client of its session gives the answers, also for a child", () =>
    Effect.gen(function* () {
      const { effects, runtime } = makeWorld(yield* memoryStore)
      yield* Effect.gen(function* () {
        yield* WorkflowRuns.start(workflow, { id: "one", input: "above" })
        const [asked] = yield* waitForQuestions(2)
        assert.include(asked?.prompt, "Asked by an agent with the task: below")
        const { steps } = yield* WorkflowRuns.view("one")
        const sessionId = steps[0]?.sessionId ?? ""
        const answers = (yield* Agent.questions(sessionId)).map(({ id, kind }) => ({
          questionId: id,
          answer: kind === "form" ? 7 : { choice: "once" }
        }))
        yield* Agent.resume({ sessionId, answers })
        const typed = yield* waitForQuestions(2, "typed")
        for (const one of typed) yield* answer(one, one.prompt.includes("How much") ? 8 : { choice: "deny" })
        assert.deepStrictEqual(yield* WorkflowRuns.wait(workflow, "one"), { text: "above done", done: true })
      }).pipe(Effect.provide(WorkflowRuns.layerMemory({ workflows }).pipe(Layer.provideMerge(runtime))))
      assert.deepStrictEqual(effects, ["invoice below", "pay below 7", "delete below", "invoice typed", "pay typed 8"])
    })
  )

  it.live("continues in another process, which finds the answers", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const { effects, runtime } = makeWorld(SessionStore.layerSqlite({ path: `${directory}/state.db` }))
      const inProcess = <A, E>(effect: Effect.Effect<A, E, WorkflowRuns.WorkflowRuns>) =>
        Effect.provide(
          effect,
          WorkflowRuns.layerSqlite({ path: `${directory}/workflows.db`, workflows }).pipe(Layer.provide(runtime)),
          { local: true }
        )
      yield* inProcess(Effect.andThen(WorkflowRuns.start(workflow, { id: "one", input: "a" }), waitForQuestions(2)))
      const left = yield* inProcess(
        Effect.gen(function* () {
          yield* answer(find(yield* WorkflowRuns.listQuestions("one"), "How much"), 7)
          return yield* waitForQuestions(1)
        })
      )
      yield* inProcess(Effect.andThen(answer(left[0], { choice: "once" }), waitForQuestions(2)))
      const value = yield* inProcess(
        Effect.gen(function* () {
          for (const one of yield* WorkflowRuns.listQuestions("one"))
            yield* answer(one, one.prompt.includes("How much") ? 8 : { choice: "deny" })
          return yield* WorkflowRuns.wait(workflow, "one")
        })
      )
      assert.deepStrictEqual(value, { text: "a done", done: true })
      assert.deepStrictEqual(effects, ["invoice a", "pay a 7", "delete a", "invoice typed", "pay typed 8"])
    })
  )
})
