// Executions of workflows whose processes are killed: every step has its effect once, and a question is answered by
// another process.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { createInterface } from "node:readline"
import { WorkflowRuns } from "../../../../src/kit/entry/workflow.ts"
import { missing, type Server, startServer } from "../../../support/postgresServer.ts"
import { commandOf, runScript } from "../../../support/runScript.ts"
import { temporaryDirectory } from "../../../support/temporaryDirectory.ts"
import { listTraces, makeOrder } from "../../../support/workflowSamples.ts"

const readTraces = (path: string): ReadonlyArray<string> =>
  existsSync(path)
    ? readFileSync(path, "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .toSorted()
    : []

/** Waits until the file of traces has a line. */
const waitForTrace = (path: string, line: string) =>
  Effect.repeat(
    Effect.andThen(
      Effect.sleep("10 millis"),
      Effect.sync(() => readTraces(path))
    ),
    { until: (lines) => lines.includes(line) }
  )

/** Starts a process that executes workflows until it is killed, and waits until it is ready. */
const startWorker = (...args: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.callback<ChildProcess>((resume) => {
      const [command, ...rest] = commandOf("workflowWorker.ts", args)
      const child = spawn(command, rest, { stdio: ["ignore", "pipe", "inherit"] })
      createInterface({ input: child.stdout }).once("line", () => resume(Effect.succeed(child)))
    }),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

const killWorker = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGKILL")
  })

const input = (name: string) => ({ name, count: 3 })

describe("executions over a file", () => {
  it.live("continue after a kill while a question and a pause are open, with every step once", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const [path, traces] = [`${directory}/workflows.db`, `${directory}/traces`]
      const order = makeOrder(traces)
      const layer = WorkflowRuns.layerSqlite({ path, workflows: [order] })
      const first = yield* startWorker("sqlite", path, traces, "a")
      yield* waitForTrace(traces, "reserve a")
      yield* Effect.sleep("300 millis")
      yield* killWorker(first)
      // Another process answers, and is gone before the pauses are over.
      yield* Effect.gen(function* () {
        const { question } = yield* WorkflowRuns.waitForQuestion("a")
        yield* WorkflowRuns.answer({ id: "a", question, answer: true })
        yield* waitForTrace(traces, "pack a 1")
        yield* Effect.sleep("300 millis")
      }).pipe(Effect.provide(layer, { local: true }))
      const third = yield* runScript("workflowWorker.ts", ["sqlite", path, traces, "a"])
      assert.deepStrictEqual(third.lines, ["ready", "a: label 0, label 1, label 2 after 2 calls"], third.errors)
      assert.deepStrictEqual(readTraces(traces), listTraces("a"))
      yield* Effect.gen(function* () {
        const { state, steps } = yield* WorkflowRuns.view("a")
        assert.strictEqual(state, "finished")
        assert.isTrue(steps.every((one) => one.state === "done"))
        // An execution that is over is not started again.
        yield* WorkflowRuns.start(order, { id: "a", input: input("other") })
        assert.include(yield* WorkflowRuns.wait(order, "a"), "a: label 0")
      }).pipe(Effect.provide(layer, { local: true }))
    })
  )

  it.live("are not given to a changed definition: the layer fails until the earlier version is listed", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const [path, traces] = [`${directory}/workflows.db`, `${directory}/traces`]
      const order = makeOrder(traces)
      const at = (...workflows: ReadonlyArray<typeof order>) => WorkflowRuns.layerSqlite({ path, workflows })
      yield* Effect.gen(function* () {
        yield* WorkflowRuns.start(order, { id: "a", input: input("a") })
        yield* WorkflowRuns.waitForQuestion("a")
      }).pipe(Effect.provide(at(order), { local: true }))
      const changed = yield* Effect.flip(Effect.scoped(Layer.build(at(makeOrder(traces, 1, "dispatch")))))
      assert.strictEqual(
        changed.message,
        "workflow order: 1 execution of version 1 is running with another definition: increase the version of the " +
          "changed definition, and list the earlier one beside it"
      )
      const second = makeOrder(traces, 2, "dispatch")
      const alone = yield* Effect.flip(Effect.scoped(Layer.build(at(second))))
      assert.strictEqual(alone._tag, "WorkflowChanged")
      yield* Effect.gen(function* () {
        yield* WorkflowRuns.answer({ id: "a", question: "approve", answer: false })
        assert.strictEqual(yield* WorkflowRuns.wait(second, "a"), "a: nothing")
      }).pipe(Effect.provide(at(order, second), { local: true }))
      // Nothing of the earlier version is running any more.
      yield* Effect.scoped(Layer.build(at(second)))
    })
  )
})

describe.skipIf(missing !== undefined)(
  `executions over Postgres${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    it.live("move to another process after a kill; a client starts, answers and watches them", () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const [url, traces] = [server.url("workflows"), `${directory}/traces`]
        const order = makeOrder(traces)
        const workers = yield* Effect.all(
          [1, 2].map(() => startWorker("postgres", url, traces)),
          { concurrency: 2 }
        )
        const ids = ["a", "b", "c", "d", "e", "f"]
        const client = yield* Layer.build(WorkflowRuns.layerClient({ url: Redacted.make(url) }))
        const runs = Context.get(client, WorkflowRuns.WorkflowRuns)
        yield* Effect.gen(function* () {
          for (const id of ids) yield* WorkflowRuns.start(order, { id, input: input(id) })
          for (const id of ids) {
            const { question } = yield* WorkflowRuns.waitForQuestion(id)
            yield* WorkflowRuns.answer({ id, question, answer: true })
            const again = yield* Effect.flip(WorkflowRuns.answer({ id, question, answer: true }))
            assert.strictEqual(again._tag === "AnswerRefused" ? again.reason : again._tag, "answered")
          }
          for (const id of ids) yield* waitForTrace(traces, `pack ${id} 1`)
          yield* Effect.sleep("300 millis")
          yield* killWorker(workers[0] ?? assert.fail())
          for (const id of ids)
            assert.strictEqual(yield* WorkflowRuns.wait(order, id), `${id}: label 0, label 1, label 2 after 2 calls`)
          assert.deepStrictEqual(yield* WorkflowRuns.listQuestions(), [])
        }).pipe(Effect.provideService(WorkflowRuns.WorkflowRuns, runs))
        assert.deepStrictEqual(readTraces(traces), ids.flatMap(listTraces).toSorted())
      })
    )
  }
)
