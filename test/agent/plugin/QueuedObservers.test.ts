// Observers of plugins on disk: the run does not wait for them, their order is kept, and the end of a run waits for
// their queue for a bounded time.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"
import * as Fake from "../../support/fakeModel.ts"
import { withWarnings } from "../../support/middlewareContexts.ts"
import { loaded, place } from "./support/plugins.ts"

const Note = Tool.make("note", { parameters: Schema.Struct({ n: Schema.Int }), success: Schema.String })
const kit = Toolkit.make(Note)

const register = (body: string): string => `export const register = (ctx) => { ${body} }`

let logs = 0

/** Loads plugins whose modules write to `log`. */
const open = Effect.fnUntraced(function* (modules: Readonly<Record<string, string>>) {
  const { places, plugin } = yield* place
  const name = `observed${logs++}`
  const log: Array<string> = []
  Reflect.set(globalThis, name, log)
  for (const [key, body] of Object.entries(modules))
    plugin(
      key,
      register(`const log = globalThis.${name}; const sleep = (ms) => new Promise((r) => setTimeout(r, ms)); ${body}`)
    )
  return { log, ...(yield* loaded({ places: places(), enabled: Object.keys(modules) })) }
})

/** Runs of two steps, and the milliseconds of the clock that each took. */
const run = (hooks: Hooks.Service, streaming: boolean, runs = 1) =>
  Effect.gen(function* () {
    const turns = Array.from({ length: runs }, () => [Fake.calls(Fake.call("c1", "note", { n: 1 })), Fake.text("done")])
    const fake = Fake.make(...turns.flat())
    const layer = Agent.layer({ cwd: "/tmp" }).pipe(
      Layer.provideMerge(
        Layer.mergeAll(
          fake.router,
          SessionStore.layerMemory,
          Layer.succeed(Hooks.Hooks, hooks),
          ToolRegistry.layer([Toolset.make("notes", kit, kit.toLayer({ note: () => Effect.succeed("noted") }))])
        )
      )
    )
    const timed = Effect.gen(function* () {
      const before = yield* Clock.currentTimeMillis
      const exit = yield* Effect.exit(Agent.run({ prompt: "go", streaming }))
      assert.isTrue(Exit.isSuccess(exit), String(exit))
      return (yield* Clock.currentTimeMillis) - before
    })
    const all = Effect.forEach(Array.from({ length: runs }), () => timed)
    const fiber = yield* Effect.forkChild(Effect.provide(all, layer), { startImmediately: true })
    for (let i = 0; i < 400 && fiber.pollUnsafe() === undefined; i++) {
      // Promises of plugins take real time.
      yield* TestClock.withLive(Effect.sleep("30 millis"))
      if (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
    }
    return yield* Fiber.join(fiber)
  })

const observed = ["on_session_start", "pre_api_request", "post_api_request", "post_tool_call", "on_session_end"]
const hanging = (name: string) => `ctx.registerHook("${name}", () => new Promise(() => {}))`

describe("observers of plugins on disk", () => {
  for (const streaming of [false, true]) {
    it.effect(`that hang cost a run one deadline at its end, later runs none (streaming ${streaming})`, () =>
      Effect.gen(function* () {
        const { hooks } = yield* open(
          Object.fromEntries(["a", "b", "c", "d"].map((key) => [key, observed.map(hanging).join("\n")]))
        )
        const { value, warnings } = yield* withWarnings(run(hooks, streaming, 2))
        assert.deepStrictEqual(value, [5_000, 0])
        assert.isAbove(warnings.filter((line) => /hook \w+: a took longer than 5s/.test(line)).length, 0)
      })
    )
  }

  it.effect("keep the order of their events, and have seen all of them when the run has ended", () =>
    Effect.gen(function* () {
      const { hooks, log } = yield* open({
        slow: observed
          .map((name, i) => `ctx.registerHook("${name}", async () => { await sleep(${5 - i}); log.push("${name}") })`)
          .join("\n"),
        quick: observed.map((name) => `ctx.registerHook("${name}", () => { log.push("quick ${name}") })`).join("\n")
      })
      const sequence = [...observed.slice(0, 4), "pre_api_request", "post_api_request", "on_session_end"]
      yield* run(hooks, true)
      const quick = log.filter((line) => line.startsWith("quick ")).map((line) => line.slice(6))
      assert.deepStrictEqual(quick, sequence)
      assert.deepStrictEqual(
        log.filter((line) => !line.startsWith("quick ")),
        sequence
      )
    })
  )

  it.effect("come before a hook of the same plugin that may answer, and it is waited for", () =>
    Effect.gen(function* () {
      const { hooks, log } = yield* open({
        both: `
          let ready = false
          ctx.registerHook("on_session_start", async () => { await sleep(5); ready = true })
          ctx.registerHook("pre_tool_call", async () => { await sleep(1); log.push("ready " + ready) })
          ctx.registerHook("post_tool_call", () => { log.push("after") })`
      })
      yield* run(hooks, false)
      assert.deepStrictEqual(log, ["ready true", "after"])
    })
  )

  it.effect("that ask for inline delivery are waited for", () =>
    Effect.gen(function* () {
      const { hooks } = yield* open({
        inline: 'ctx.registerHook("post_tool_call", () => new Promise(() => {}), { delivery: "inline" })'
      })
      assert.deepStrictEqual(
        hooks.list().map(({ mode }) => mode),
        ["inline"]
      )
      const { value } = yield* withWarnings(run(hooks, false))
      assert.deepStrictEqual(value, [5_000])
    })
  )

  it.effect("that throw are one warning for each fault", () =>
    Effect.gen(function* () {
      const { hooks } = yield* open({
        broken: `ctx.registerHook("pre_api_request", () => { throw new Error("sync") })
          ctx.registerHook("post_api_request", async () => { await sleep(1); throw new Error("later") })`
      })
      const { warnings } = yield* withWarnings(run(hooks, false))
      assert.deepStrictEqual(warnings, [
        "hook pre_api_request: broken failed: Error: sync",
        "hook post_api_request: broken failed: Error: later"
      ])
    })
  )
})
