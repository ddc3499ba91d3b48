// Executions of workflows in the run record, and their view: what ran, waits and failed.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Steps, WorkflowRuns } from "../../../../src/kit/entry/workflow.ts"
import * as WorkflowView from "../../../../src/observe/studio/WorkflowView.ts"
import { SessionId } from "../../../../src/base/domain/Ids.ts"
import * as RunRecord from "../../../../src/store/RunRecord.ts"
import * as SessionStore from "../../../../src/store/SessionStore.ts"
import { temporaryDirectory } from "../../../support/temporaryDirectory.ts"
import { makeOrder } from "../../../support/workflowSamples.ts"

const readEntries = (id: string) =>
  RunRecord.RunRecord.use(({ read }) => Stream.runCollect(read({ sessionId: `workflow_${id}` })))

const readView = (id: string) => Effect.map(readEntries(id), WorkflowView.makeWorkflowView)

const listStates = (view: ReturnType<typeof WorkflowView.makeWorkflowView>) =>
  Object.fromEntries((view?.steps ?? []).map(({ name, places, state }) => [name, [state, places.length]]))

const failing = Steps.make("failing", {
  version: 1,
  input: Schema.String,
  output: Schema.String,
  steps: (start) =>
    start.pipe(
      Steps.step("check", {
        output: Schema.String,
        run: () => Effect.die(new Error("the key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"))
      }),
      Steps.result(({ check }) => check)
    )
})

const withRecord = <A, E>(
  use: (
    order: ReturnType<typeof makeOrder>
  ) => Effect.Effect<A, E, WorkflowRuns.WorkflowRuns | RunRecord.RunRecord | SessionStore.SessionStore>
) =>
  Effect.flatMap(temporaryDirectory, (directory) => {
    const order = makeOrder(`${directory}/traces`)
    const sessions = Layer.provideMerge(RunRecord.layerMemory(), SessionStore.layerMemory)
    const runs = WorkflowRuns.layerMemory({ workflows: [order, failing] })
    return Effect.provide(use(order), Layer.provideMerge(runs, sessions))
  })

describe("an execution in the run record", () => {
  it.live("is a graph of the definition with the state of each step, while it waits and behind its end", () =>
    withRecord((order) =>
      Effect.gen(function* () {
        yield* WorkflowRuns.start(order, { id: "a", input: { name: "a", count: 2 } })
        const { question } = yield* WorkflowRuns.waitForQuestion("a")
        const waiting = yield* readView("a")
        assert.deepInclude(waiting, { workflow: "order", version: 1, state: "waiting" })
        assert.deepInclude(listStates(waiting), { reserve: ["done", 1], approve: ["waiting", 1], send: [undefined, 0] })
        assert.deepStrictEqual(waiting?.steps.find(({ name }) => name === "pack")?.within, {
          step: "items",
          branch: waiting?.steps.find(({ name }) => name === "label")?.within?.branch ?? ""
        })
        yield* WorkflowRuns.answer({ id: "a", question, answer: true })
        yield* WorkflowRuns.wait(order, "a")
        const done = yield* readView("a")
        assert.strictEqual(done?.state, "finished")
        assert.deepInclude(listStates(done), {
          approve: ["done", 1],
          items: ["done", 0],
          pack: ["done", 2],
          call: ["done", 2],
          send: ["done", 1]
        })
        const entries = yield* readEntries("a")
        assert.strictEqual(entries.filter(({ event }) => event._tag === "WorkflowStarted").length, 1)
        const { get } = yield* SessionStore.SessionStore
        const session = Option.getOrUndefined(yield* get(SessionId.make("workflow_a")))
        assert.strictEqual(session?.source, "workflow")
      })
    )
  )

  it.live("that fails or is cancelled ends so, without the secrets of the failure", () =>
    withRecord((order) =>
      Effect.gen(function* () {
        yield* WorkflowRuns.start(failing, { id: "f", input: "x" })
        yield* Effect.exit(WorkflowRuns.wait(failing, "f"))
        const failed = yield* readView("f")
        assert.strictEqual(failed?.state, "failed")
        assert.deepStrictEqual(listStates(failed), { check: ["failed", 1] })
        assert.notInclude(JSON.stringify(yield* readEntries("f")), "abcdefghijklmnopqrstuvwxyz")
        yield* WorkflowRuns.start(order, { id: "c", input: { name: "c", count: 1 } })
        yield* WorkflowRuns.waitForQuestion("c")
        yield* WorkflowRuns.cancel("c")
        assert.strictEqual((yield* readView("c"))?.state, "cancelled")
      })
    )
  )
})
