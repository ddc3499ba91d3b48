// What plugins contribute, and in which order it counts.
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { join } from "node:path"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Ids from "../../../src/base/domain/Ids.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Middleware from "../../../src/middleware/Middleware.ts"
import * as Plugin from "../../../src/agent/plugin/Plugin.ts"
import { Plugins } from "../../../src/agent/plugin/Plugins.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import { ToolContext } from "../../../src/tools/ToolContext.ts"
import { everything } from "../../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"
import { withWarnings } from "../../support/middlewareContexts.ts"
import { loaded, place } from "./support/plugins.ts"

const context = ToolContext.of({
  sessionId: Ids.SessionId.make("s"),
  taskId: Ids.TaskId.make("t"),
  turnId: Ids.TurnId.make("u"),
  cwd: "/work"
})

const toolset = (name: string, tool: string, answer: string): Toolset.Toolset => {
  const toolkit = Toolkit.make(Tool.make(tool, { parameters: Schema.Struct({}), success: Schema.String }))
  return Toolset.make(name, toolkit, toolkit.toLayer({ [tool]: () => Effect.succeed(answer) }))
}

describe("tools of plugins", () => {
  it.live("are offered when their check says so; one that throws or says nothing says no", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "checked",
        `
        export const register = (ctx) => {
          const tool = (name, available) => ctx.registerTool({ name, available, handler: () => name })
          tool("yes", async () => true)
          tool("no", () => false)
          tool("silent", () => {})
          tool("throws", () => { throw new Error("down") })
          ctx.register_tool({ name: "by_contract", check_fn: () => true, handler: () => "x" })
          tool("always")
        }`
      )
      const { registry } = yield* loaded({ places: places(), enabled: ["checked"] })
      assert.deepStrictEqual((yield* registry.snapshot(everything)).names, ["yes", "by_contract", "always"])
    })
  )

  it.live("are called with frozen arguments, and know the call", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "tools",
        `
        import * as Effect from "effect/Effect"
        export const register = (ctx) => {
          const parameters = { type: "object", properties: { n: { type: "number" } }, required: ["n"] }
          ctx.registerTool({ name: "double", description: "Doubles", parameters, readonly: true, handler: ({ n }) => n * 2 })
          ctx.register_tool({ schema: { name: "describe", parameters }, toolset: "extra", handler: async (args, call) => ({ frozen: Object.isFrozen(args), cwd: call.cwd, id: call.tool_call_id }) })
          ctx.registerTool({ name: "half", handler: () => Effect.succeed("half") })
          ctx.registerTool({ name: "nothing", handler: () => {} })
          ctx.registerTool({ name: "throws", handler: () => { throw new Error("no") } })
        }`
      )
      const { plugins, registry } = yield* loaded({ places: places(), enabled: ["tools"] })
      assert.strictEqual(plugins[0]?.tools, 5)
      const { definitions, get } = yield* registry.snapshot(everything)
      assert.deepStrictEqual(definitions[0], {
        name: "double",
        description: "Doubles",
        parameters: { type: "object", properties: { n: { type: "number" } }, required: ["n"] }
      })
      const run = (name: string, args: unknown) =>
        (get(name)?.run(args, "call-1") ?? Effect.die(name)).pipe(
          Effect.provideService(ToolContext, context),
          Effect.match({ onFailure: ({ message, phase }) => `${phase}: ${message}`, onSuccess: ({ output }) => output })
        )
      assert.strictEqual(yield* run("double", { n: 2 }), 4)
      assert.deepStrictEqual(yield* run("describe", {}), { frozen: true, cwd: "/work", id: "call-1" })
      assert.strictEqual(yield* run("half", {}), "half")
      assert.strictEqual(yield* run("nothing", {}), "result: the tool returned nothing")
      assert.strictEqual(yield* run("throws", {}), "handler: no")
      assert.deepStrictEqual(
        ["double", "describe", "half"].map((name) => [
          get(name)?.toolset,
          get(name)?.facts.readonly,
          get(name)?.facts.destructive
        ]),
        [
          ["tools", true, false],
          ["extra", undefined, true],
          ["tools", undefined, true]
        ]
      )
    })
  )

  it.live("hear of the interruption of their call", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "slow",
        `export const register = (ctx) => ctx.registerTool({ name: "slow", handler: (_, { signal }) =>
        new Promise(() => { globalThis.slowStarted?.(); signal.addEventListener("abort", () => { globalThis.slowAborted = true }) }) })`
      )
      const { registry } = yield* loaded({ places: places(), enabled: ["slow"] })
      const started = yield* Deferred.make<void>()
      Reflect.set(globalThis, "slowStarted", () => Deferred.doneUnsafe(started, Effect.void))
      const { get } = yield* registry.snapshot(everything)
      const bound = get("slow")
      assert.isDefined(bound)
      const fiber = yield* Effect.forkChild(Effect.provideService(bound.run({}, "c"), ToolContext, context))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Reflect.get(globalThis, "slowAborted"))
    })
  )

  it.live("replace another tool only where the configuration allows it, and give its name back", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "taker",
        "export const register = (ctx) => { for (const name of ['terminal', 'mine']) ctx.registerTool({ name, handler: () => 'plugin' }) }"
      )
      const tools = [toolset("own", "terminal", "own")]
      const outcome = Effect.fnUntraced(function* (
        entries: Readonly<Record<string, Readonly<Record<string, unknown>>>>
      ) {
        const { manager, plugins, registry } = yield* loaded({ places: places(), enabled: ["taker"], tools, entries })
        const answer = Effect.gen(function* () {
          const { get } = yield* registry.snapshot(everything)
          const result = yield* Effect.provideService(
            get("terminal")?.run({}, "c") ?? Effect.die("gone"),
            ToolContext,
            context
          )
          return result.output
        })
        return {
          manager,
          tools: plugins[0]?.tools,
          answer: yield* answer,
          names: (yield* registry.snapshot(everything)).names.toSorted()
        }
      })
      const refused = yield* withWarnings(outcome({}))
      assert.deepInclude(refused.value, { tools: 1, answer: "own", names: ["mine", "terminal"] })
      assert.match(
        refused.warnings.join(),
        /"terminal" is left out.*plugins\.entries\.taker\.allow_tool_override: true/
      )
      const allowed = yield* withWarnings(outcome({ taker: { allow_tool_override: true } }))
      assert.deepInclude(allowed.value, { tools: 2, answer: "plugin", names: ["mine", "terminal"] })
      assert.match(allowed.warnings.join(), /takes the place of another/)
    })
  )
})

describe("the configuration of a plugin", () => {
  it.live("is what stands below its key, and can not be changed", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "told",
        "export const register = (ctx) => { ctx.registerCommand('show', () => JSON.stringify([ctx.key, ctx.config, ctx.manifest.version, Object.isFrozen(ctx), Object.isFrozen(ctx.config.deep)])) }",
        "name: told\nversion: 1.2\n"
      )
      const { commands } = yield* loaded({ places: places(), enabled: ["told"], entries: { told: { deep: { a: 1 } } } })
      assert.strictEqual(yield* commands[0]?.run("") ?? Effect.void, '["told",{"deep":{"a":1}},"1.2",true,true]')
    })
  )
})

describe("the order of plugins", () => {
  it.live("is that of their sources and names; one that takes the key of an earlier one stands in its place", () =>
    Effect.gen(function* () {
      const { directory, places, write } = yield* place
      const put = (root: string, name: string, answer: string) =>
        write({
          [`${root}/${name}/plugin.yaml`]: `name: ${name.slice(name.lastIndexOf("/") + 1)}\n`,
          [`${root}/${name}/index.js`]: `export const register = (ctx) => ctx.registerHook("pre_llm_call", () => "${answer}")`
        })
      put("bundled", "b", "bundled b")
      put("bundled", "cat/x", "bundled cat/x")
      put("bundled", "memory/hidden", "hidden")
      put("home/plugins", "a", "user a")
      put("home/plugins", "b", "user b")
      put("home/plugins", "deep/er/still", "too deep")
      put("home/plugins", ".git/x", "hidden")
      put("work/.hermes/plugins", "a0", "project a0")
      put("work/.hermes/plugins", "cat/x", "project cat/x")
      const variables: Readonly<Record<string, string>> = {
        HERMES_BUNDLED_PLUGINS: join(directory, "bundled"),
        HERMES_ENABLE_PROJECT_PLUGINS: "yes"
      }
      const { hooks, manager, plugins } = yield* loaded({
        places: places({ variable: (name) => variables[name] }),
        enabled: ["a", "b", "x", "a0", "hidden", "still"]
      })
      assert.deepStrictEqual(
        plugins.map(({ key }) => key),
        ["a", "a0", "b", "cat/x"]
      )
      const expected = ["user b", "project cat/x", "user a", "project a0"]
      assert.deepStrictEqual(yield* hooks.invoke("pre_llm_call", () => ({})), expected)
      yield* manager.reload
      assert.deepStrictEqual(yield* hooks.invoke("pre_llm_call", () => ({})), expected)
      const safe = yield* loaded({
        places: places({ variable: (name) => (name === "HERMES_SAFE_MODE" ? "1" : variables[name]) }),
        enabled: ["a"]
      })
      assert.deepStrictEqual(safe.plugins, [])
    })
  )

  it.live("puts plugins before what the application lists, in hooks and in middleware", () =>
    Effect.gen(function* () {
      class Journal extends Context.Service<Journal, Array<string>>()("test/Journal") {}
      const note = (line: string) => Effect.map(Journal, (journal) => void journal.push(line))
      const wrapping = (name: string) =>
        Middleware.llmExecution<never, never, Journal>({
          name,
          wrap: (next) => (request) => Effect.andThen(note(name), next(request))
        })
      const listening = (name: string) => Hooks.on("on_session_start", () => note(name))
      const plugin = (name: string) =>
        Plugin.make({
          name,
          build: Effect.gen(function* () {
            yield* note(`${name} built`)
            yield* Effect.addFinalizer(() => note(`${name} gone`))
            return { hooks: [listening(name)], middleware: [wrapping(name)] }
          })
        })
      const journal: Array<string> = []
      yield* Agent.run({ prompt: "hello" }).pipe(
        Effect.andThen(Plugins.use(({ loaded }) => loaded)),
        Effect.tap(({ plugins }) =>
          Effect.sync(() =>
            assert.deepStrictEqual(
              plugins.map(({ enabled, source }) => [enabled, source]),
              [
                [true, "application"],
                [true, "application"]
              ]
            )
          )
        ),
        Effect.provide(
          Runtime.layer({
            provider: Scripted.layer([Scripted.complete("hi")]),
            hooks: [listening("application")],
            middleware: [wrapping("application")],
            plugins: [plugin("one"), plugin("two")]
          })
        ),
        Effect.provide(Layer.succeed(Journal, journal))
      )
      assert.deepStrictEqual(journal, [
        "one built",
        "two built",
        "one",
        "two",
        "application",
        "one",
        "two",
        "application",
        "two gone",
        "one gone"
      ])
    })
  )
})

describe("hooks of plugins", () => {
  it.live("say how they want their events; one that may answer is always waited for", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "watcher",
        `
        export const register = (ctx) => {
          const never = () => new Promise(() => {})
          ctx.registerHook("post_tool_call", never, { delivery: "queued", capacity: 3 })
          ctx.register_hook("on_session_end", never, { delivery: "queued" })
          ctx.registerHook("pre_llm_call", function asks() { return "context" }, { delivery: "queued" })
          ctx.registerHook("pre_api_request", function odd() {}, { delivery: "later" })
        }`
      )
      const {
        value: { hooks },
        warnings
      } = yield* withWarnings(loaded({ places: places(), enabled: ["watcher"] }))
      assert.deepStrictEqual(
        hooks.list().map(({ events: [event], mode }) => [event, mode]),
        [
          ["post_tool_call", "queued"],
          ["on_session_end", "queued"],
          ["pre_llm_call", "inline"],
          ["pre_api_request", "inline"]
        ]
      )
      assert.deepStrictEqual(warnings, [
        "plugin watcher: hook pre_llm_call may answer, so that it cannot be queued: the run waits for it",
        'plugin watcher: delivery of hook pre_api_request is "inline" or "queued"; it is inline now'
      ])
      // Never settles, and delays nobody.
      yield* hooks.emit("on_session_end", () => ({
        session_id: context.sessionId,
        task_id: context.taskId,
        turn_id: context.turnId,
        completed: true,
        interrupted: false,
        model: "m",
        platform: "cli"
      }))
    })
  )
})
