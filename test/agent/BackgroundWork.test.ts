// What works in the background of a conversation, with real processes.
import { assert, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { existsSync } from "node:fs"
import * as BackgroundReview from "../../src/agent/BackgroundReview.ts"
import * as BackgroundWork from "../../src/agent/BackgroundWork.ts"
import { Children, make as makeChildren } from "../../src/agent/Children.ts"
import { TaskId } from "../../src/base/domain/Ids.ts"
import * as ProcessEvents from "../../src/tools/builtin/terminal/ProcessEvents.ts"
import * as ProcessRegistry from "../../src/tools/builtin/terminal/ProcessRegistry.ts"
import { machine } from "../support/hermes.ts"
import { isAlive, nodeLayer, session } from "../support/terminalTools.ts"
import { eventually } from "../support/waiting.ts"

const work = Effect.gen(function* () {
  const children = makeChildren()
  const context = yield* Layer.build(
    Layer.fresh(
      BackgroundWork.layer.pipe(
        Layer.provideMerge(ProcessRegistry.layer),
        Layer.provideMerge(ProcessEvents.layer),
        Layer.provide([Layer.succeed(Children, children), BackgroundReview.layer])
      )
    )
  )
  const registry = yield* Effect.provideContext(ProcessRegistry.ProcessRegistry, context)
  const start = (command: string, notifyOnComplete: boolean) =>
    registry.start({
      command,
      cwd: "/tmp",
      sessionId: session("a"),
      taskId: TaskId.make("a"),
      notifyOnComplete,
      watchPatterns: []
    })
  return { background: yield* Effect.provideContext(BackgroundWork.BackgroundWork, context), children, start }
})

const child = (subagentId: string, parent: string, own: string) => ({
  subagentId,
  parentSubagentId: "",
  sessionId: session(own),
  parentSessionId: session(parent),
  depth: 1,
  goal: `goal of ${subagentId}`,
  model: "m",
  startedAt: 0,
  delegationId: undefined,
  progress: { toolCount: 0, lastTool: undefined }
})

layer(nodeLayer)("BackgroundWork", (it) => {
  it.effect("lists the processes and the family of a session, and of no other", () =>
    Effect.gen(function* () {
      const { background, children, start } = yield* work
      const process = yield* start("sleep 600", false)
      for (const [id, parent, own] of [
        ["sa-1", "a", "c1"],
        ["sa-2", "c1", "c2"],
        ["sa-3", "b", "c3"]
      ] as const) {
        yield* Effect.forkScoped(children.during(child(id, parent, own), Effect.void, Effect.never))
      }
      yield* Effect.yieldNow
      assert.deepStrictEqual(
        (yield* background.list(session("a"))).map(({ id }) => id),
        ["sa-1", "sa-2", process.id]
      )
      assert.deepStrictEqual(
        (yield* background.list(session("b"))).map(({ id, at }) => [id, at]),
        [["sa-3", "thinking"]]
      )
      assert.isUndefined(yield* background.stop(session("a"), "sa-"), "which one is not clear")
    })
  )

  it.effect("ends processes and children, and leaves nothing behind", () =>
    Effect.gen(function* () {
      const { background, children, start } = yield* work
      const process = yield* start("sleep 600", false)
      const stopped = yield* Deferred.make<void>()
      yield* Effect.forkScoped(
        children.during(child("sa-1", "a", "c1"), Deferred.succeed(stopped, undefined), Deferred.await(stopped))
      )
      yield* Effect.yieldNow
      assert.lengthOf(yield* background.stopAll(session("a")), 2)
      yield* Deferred.await(stopped)
      yield* eventually(
        "it is gone",
        Effect.map(isAlive(process.pid), (alive) => !alive)
      )
      assert.isEmpty(yield* background.list(session("a")))
    })
  )

  it.effect("the end of a process that is to tell of it is a message, which is waited for and taken once", () =>
    Effect.gen(function* () {
      const { background, start } = yield* work
      yield* start("sleep 600", false)
      const { id } = yield* start("echo made; exit 3", true)
      const arrived = yield* Effect.forkChild(background.arrived(session("a")))
      yield* background.settled(session("a"))
      yield* Fiber.join(arrived)
      assert.deepStrictEqual(yield* background.take(session("a")), [
        `[The background process ${id} (echo made; exit 3) exited with code 3]\nThe end of its output:\nmade\n`
      ])
      assert.isEmpty(yield* background.take(session("a")))
    })
  )

  it.effect("what a process printed is told without its secrets", () =>
    Effect.gen(function* () {
      const { background, start } = yield* work
      const key = `sk-${"a1B2".repeat(10)}`
      yield* start(`echo ${key}`, true)
      yield* background.arrived(session("a"))
      const [told = ""] = yield* background.take(session("a"))
      assert.include(told, "sk-a…")
      assert.notInclude(told, key)
    })
  )

  it("what was watched for is told with its lines", () => {
    const base = { processId: "proc_1", sessionId: session("a"), taskId: TaskId.make("a"), command: "make", at: 0 }
    assert.strictEqual(
      BackgroundWork.renderProcessEvent({
        ...base,
        _tag: "WatchMatched",
        pattern: "error",
        lines: ["error: 1", "error: 2"],
        suppressed: 4
      }),
      '[The background process proc_1 (make) printed "error"]\nerror: 1\nerror: 2\n(4 earlier matches are left out)'
    )
  })

  it.effect("a single query waits for processes that are to tell of their end, and for no other", () =>
    Effect.gen(function* () {
      const { at, hermes, put } = yield* machine
      const start = (command: string, notify: boolean) =>
        `{ name: terminal, arguments: { command: "${command}", background: true, notify_on_complete: ${notify} } }`
      put(
        "turns.yaml",
        [
          "turns:",
          `  - tool_calls: [${start("sleep 0.4; touch told", true)}]`,
          `  - tool_calls: [${start("sleep 600; touch never", false)}]`,
          "  - text: started"
        ].join("\n")
      )
      const { code, stdout } = yield* hermes(["-Q", "-q", "go", "--script", "turns.yaml"])
      assert.deepStrictEqual([code, stdout], [0, "started\n"])
      assert.isTrue(existsSync(at("told")))
    })
  )
})
