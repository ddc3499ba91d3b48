// Many children at once, and nothing left of them: no fiber, no process.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { existsSync, readFileSync } from "node:fs"
import * as Agent from "../../src/agent/Agent.ts"
import { Children } from "../../src/agent/Children.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { delegate, isChild, lastResult, say, setup } from "../support/delegation.ts"
import { machine } from "../support/hermes.ts"
import { running } from "../support/movingClock.ts"
import { isAlive } from "../support/terminalTools.ts"
import { eventually } from "../support/waiting.ts"

const count = 200

/** Children that wait for each other before they go on. */
const crowd = (together: Effect.Effect<unknown>) => {
  const all = Deferred.makeUnsafe<void>()
  let waiting = 0
  let interrupted = 0
  const settled = setup(
    ({ prompt, results }) => {
      if (!isChild(prompt)) {
        const tasks = Array.from({ length: count }, (_, index) => ({ goal: `child ${index}` }))
        return results === 0 ? delegate({ tasks }) : say("done")
      }
      return Effect.suspend(() => {
        if (++waiting === count) Deferred.doneUnsafe(all, Effect.void)
        return Effect.andThen(Deferred.await(all), together)
      }).pipe(
        Effect.onInterrupt(() => Effect.sync(() => interrupted++)),
        Effect.andThen(say("ok"))
      )
    },
    { settings: { delegation: { maxConcurrentChildren: count } } }
  )
  return { ...settled, all, interrupted: () => interrupted }
}

describe("many children", () => {
  it.effect("work at the same time, in one process, and each has its report and its session", () => {
    const { layer } = crowd(Effect.void)
    return Effect.gen(function* () {
      // A crowd on one key does not begin in the same moment.
      const result = yield* running(Agent.run({ prompt: "go" }))
      assert.strictEqual(result.text, "done")
      assert.strictEqual(result.usage.requestCount, count + 2)
      const { results } = yield* lastResult(result.sessionId)
      assert.isTrue(results.every(({ status, task_index }, index) => status === "completed" && task_index === index))
      const sessions = yield* (yield* SessionStore).list({ source: "subagent", limit: count + 1 })
      assert.strictEqual(new Set(sessions.map(({ id }) => id)).size, count)
      assert.isEmpty(yield* (yield* Children).list)
    }).pipe(Effect.provide(layer))
  })

  it.effect("all end with one interrupt, and none is left", () => {
    const { all, interrupted, layer } = crowd(Effect.never)
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go" }))
      yield* running(Deferred.await(all))
      const children = yield* Children
      assert.strictEqual((yield* children.list).length, count)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(interrupted(), count)
      assert.isEmpty(yield* children.list)
      const sessions = yield* (yield* SessionStore).list({ limit: count + 1 })
      assert.isTrue(sessions.every(({ endReason }) => endReason === "interrupted"))
    }).pipe(Effect.provide(layer))
  })

  it.live("a program that is interrupted leaves no process of a child's child behind", () =>
    Effect.gen(function* () {
      const { at, hermes, put } = yield* machine
      const call = (name: string, args: unknown) => ({ name, arguments: args })
      put(
        "turns.json",
        JSON.stringify({
          turns: [
            { match: "begin", tool_calls: [call("delegate_task", { goal: "middle", role: "orchestrator" })] },
            { match: "middle", tool_calls: [call("delegate_task", { goal: "bottom" })] },
            {
              match: "bottom",
              tool_calls: [call("terminal", { command: "echo $$ > back; exec sleep 600", background: true })]
            },
            { match: "bottom", tool_calls: [call("terminal", { command: "echo $$ > front; exec sleep 600" })] }
          ]
        })
      )
      let watching: NodeJS.Timeout | undefined
      const ended = yield* hermes(["-q", "begin", "--script", "turns.json", "--format", "stream-json"], {
        onOutput: (_, child) => {
          watching ??= setInterval(() => {
            if (!existsSync(at("front")) || readFileSync(at("front"), "utf8") === "") return
            clearInterval(watching)
            child.kill("SIGINT")
          }, 20)
        }
      }).pipe(Effect.ensuring(Effect.sync(() => clearInterval(watching))))
      assert.strictEqual(ended.code, 130)
      const pids = ["front", "back"].map((name) => Number(readFileSync(at(name), "utf8")))
      yield* eventually(
        "both ended",
        Effect.map(Effect.all(pids.map((pid) => isAlive(pid))), (alive) => alive.every((is) => !is))
      )
      const lines = ended.stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as { type: string; subtype?: string })
      assert.strictEqual(lines.filter(({ subtype, type }) => type === "subagent" && subtype === "start").length, 2)
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.live("55 a dangerous command of a child is denied without a prompt, and the log says so", () =>
    Effect.gen(function* () {
      const { at, hermes, put } = yield* machine
      put("precious", "x")
      const call = (name: string, args: unknown) => ({ name, arguments: args })
      put(
        "turns.json",
        JSON.stringify({
          turns: [
            { match: "begin", tool_calls: [call("delegate_task", { goal: "wipe" })] },
            { match: "wipe", tool_calls: [call("terminal", { command: "rm -rf ./precious" })] },
            { match: "wipe", text: "I was not allowed to." },
            { match: "begin", text: "It was not done." }
          ]
        })
      )
      const { code, stderr, stdout } = yield* hermes([
        "-q",
        "begin",
        "--script",
        "turns.json",
        "--format",
        "stream-json"
      ])
      assert.strictEqual(code, 0)
      assert.isTrue(existsSync(at("precious")))
      assert.include(stdout, "It was not done.")
      assert.match(stderr, /approval denied without a question \(child agent\)/)
    })
  )
})
