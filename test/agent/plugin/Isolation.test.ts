// Plugins that do what they must not: the program goes on, says so once, and keeps nothing of them.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import {
  runModel,
  runTools,
  rewriteArgs,
  rewriteRequest,
  output,
  withWarnings
} from "../../support/middlewareContexts.ts"
import * as Plugin from "../../../src/agent/plugin/Plugin.ts"
import { textAnswer } from "../../support/fakeModel.ts"
import { loaded, place } from "./support/plugins.ts"

/** The errors of the plugins that were not loaded, and the warnings beside them. */
const refusals = Effect.fnUntraced(function* (modules: Readonly<Record<string, string>>) {
  const { places, plugin } = yield* place
  for (const [name, module] of Object.entries(modules)) plugin(name, module)
  const { value, warnings } = yield* withWarnings(loaded({ places: places(), enabled: Object.keys(modules) }))
  return { ...value, errors: Object.fromEntries(value.plugins.map(({ error, key }) => [key, error])), warnings }
})

const register = (body: string): string => `export const register = (ctx) => { ${body} }`

describe("a plugin that can not be loaded", () => {
  it.live("is told by its error: at import, by its exports, by what it contributes", () =>
    Effect.gen(function* () {
      const { errors, hooks, registry, warnings } = yield* refusals({
        "a-throws": "throw new Error('bad day: sk-ant-REDACTED')",
        "b-syntax": "export const = 1",
        "c-number": "export default 42",
        "d-foreign": "export default { name: 'x', tools: [] }",
        "e-import": "import 'some-package-that-is-not-there'\nexport const register = () => {}",
        "f-rejects": "export const register = async () => { throw 'no' }",
        "g-tool": register("ctx.registerTool({ name: 'half' })"),
        "h-tools":
          "import { Plugin } from 'hermes-effect'\nexport default Plugin.fromValue({ name: 'h', tools: ['nonsense'] })",
        "i-build":
          "import { Plugin } from 'hermes-effect'\nimport * as Effect from 'effect/Effect'\nexport default Plugin.make({ name: 'i', build: Effect.succeed(5) })",
        "j-service":
          "import { Plugin } from 'hermes-effect'\nimport * as Effect from 'effect/Effect'\nimport * as Context from 'effect/Context'\nexport default Plugin.make({ name: 'j', build: Effect.flatMap(Context.Service()('nobody/has/this'), () => Effect.succeed({})) })"
      })
      assert.match(errors["a-throws"] ?? "", /cannot be loaded: bad day/)
      assert.notMatch(errors["a-throws"] ?? "", /bcdefghij/)
      assert.match(errors["b-syntax"] ?? "", /cannot be loaded/)
      assert.match(errors["c-number"] ?? "", /no register\(\) function/)
      assert.match(errors["d-foreign"] ?? "", /no register\(\) function, and no plugin/)
      assert.match(errors["e-import"] ?? "", /some-package-that-is-not-there/)
      assert.strictEqual(errors["f-rejects"], "no")
      assert.match(errors["g-tool"] ?? "", /"half" has no handler/)
      assert.match(errors["h-tools"] ?? "", /tools\[0\] is not a toolset/)
      assert.match(errors["i-build"] ?? "", /gave no contribution/)
      assert.match(errors["j-service"] ?? "", /nobody\/has\/this/)
      assert.strictEqual(warnings.length, 10)
      assert.deepStrictEqual(hooks.list(), [])
      assert.deepStrictEqual(yield* registry.list, [])
    })
  )

  it.live("leaves nothing of what it had registered, and what it acquired is released", () =>
    Effect.gen(function* () {
      const { hooks, middleware, plugins, registry } = yield* refusals({
        late: `import { Hooks, Plugin, Middleware } from "hermes-effect"
          import * as Effect from "effect/Effect"
          const broken = { ...Hooks.on("post_tool_call", () => Effect.void) }
          export default Plugin.make({ name: "late", build: Effect.gen(function*() {
            yield* Effect.addFinalizer(() => Effect.sync(() => { globalThis.lateReleased = true }))
            const hooks = yield* Hooks.Hooks
            yield* hooks.register(broken)
            return yield* Effect.fail("after all")
          }) })`
      })
      assert.strictEqual(plugins[0]?.error, "after all")
      assert.deepStrictEqual([hooks.list(), middleware, yield* registry.list], [[], [], []])
      assert.isTrue(Reflect.get(globalThis, "lateReleased"))
    })
  )

  it.effect("is given up when it is not ready after ten seconds", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin("a-forever", "await new Promise(() => {})\nexport const register = () => {}")
      plugin(
        "b-forever",
        "export const register = (ctx) => { ctx.registerHook('post_tool_call', () => {}); return new Promise(() => {}) }"
      )
      plugin(
        "c-forever",
        "import { Plugin } from 'hermes-effect'\nimport * as Effect from 'effect/Effect'\nexport default Plugin.make({ name: 'c', build: Effect.uninterruptible(Effect.never) })"
      )
      plugin("d-fine", "export const register = () => {}")
      const fiber = yield* Effect.forkChild(
        loaded({ places: places(), enabled: ["a-forever", "b-forever", "c-forever", "d-fine"] })
      )
      const { hooks, plugins } = yield* Effect.raceFirst(
        Fiber.join(fiber),
        Effect.forever(Effect.andThen(TestClock.withLive(Effect.sleep("100 millis")), TestClock.adjust("1 second")))
      )
      assert.deepStrictEqual(
        plugins.map(({ enabled }) => enabled),
        [false, false, false, true]
      )
      assert.match(plugins[0]?.error ?? "", /not ready after 10s/)
      assert.isFalse(hooks.has("post_tool_call"))
    })
  )
})

describe("two plugins with one name", () => {
  it.live("are a warning that names both places, and the one that counts", () =>
    Effect.gen(function* () {
      const { places, plugin, user } = yield* place
      const middleware = (name: string) => register(`ctx.registerMiddleware("tool_request", function ${name}() {})`)
      plugin("one", middleware("first"), "name: twin\n")
      plugin("two", middleware("second"), "name: twin\n")
      const both = yield* withWarnings(loaded({ places: places(), enabled: ["twin"] }))
      assert.deepStrictEqual(
        both.value.middleware.map(({ name }) => name),
        ["twin:second"]
      )
      assert.deepStrictEqual(both.warnings, [
        `two plugins have the name "twin": ${user}/one and ${user}/two. The second one counts; ` +
          "rename or remove one of them."
      ])
      const own = yield* withWarnings(
        loaded({ places: places(), enabled: ["twin"], plugins: [Plugin.fromValue({ name: "twin", middleware: [] })] })
      )
      assert.deepStrictEqual([own.value.plugins.length, own.value.middleware], [1, []])
      assert.match(own.warnings.join("\n"), /home\/plugins\/two and the application\. The second one counts/)
    })
  )
})

describe("a plugin that misbehaves when it is called", () => {
  it.live("is skipped with one warning for each distinct fault", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "a-bad",
        register(`
        ctx.registerMiddleware("tool_request", function wrongShape() { return 5 })
        ctx.registerMiddleware("tool_request", function mutates({ args }) { args.evil = true })
        ctx.registerMiddleware("tool_request", function mutatesOriginal({ original_args }) { original_args.evil = true })
        ctx.registerMiddleware("llm_request", function throws() { throw new Error("no") })
        ctx.registerMiddleware("llm_request", async function rejects() { throw new Error("never") })
        ctx.registerMiddleware("tool_execution", async function callsTwice({ next_call }) { await next_call(); await next_call(); return "twice" })
        ctx.registerMiddleware("tool_execution", function saysNothing() {})
        ctx.registerMiddleware("llm_execution", async function late({ next_call }) {
          setTimeout(() => next_call().catch((error) => { globalThis.lateCall = error.message }), 0)
          return next_call()
        })
        ctx.registerMiddleware("tool_request", "no function")
        ctx.registerHook("post_tool_call", undefined)
        ctx.register_skill("x", "y")
      `)
      )
      const { value, warnings } = yield* withWarnings(
        Effect.gen(function* () {
          const { middleware } = yield* loaded({ places: places(), enabled: ["a-bad"] })
          let ran = 0
          const once = Effect.gen(function* () {
            const args = yield* rewriteArgs(middleware, { a: 1 })
            const request = yield* rewriteRequest(middleware, { model: "m" })
            const result = yield* runTools(middleware, { a: 1 }, () => Effect.sync(() => output(`run ${++ran}`)))
            const answered = yield* runModel(middleware, { model: "m" }, () => Effect.succeed(textAnswer("hi")))
            return {
              args: args.payload,
              request: request.payload,
              result: result.output,
              answered: answered.parts.length
            }
          })
          return { first: yield* once, second: yield* once }
        })
      )
      const expected = { args: { a: 1 }, request: { model: "m" }, answered: 1 }
      assert.deepStrictEqual(value, {
        first: { ...expected, result: "run 1" },
        second: { ...expected, result: "run 2" }
      })
      // Each run has a stack, and with it a memory of faults, of its own here; the three of registration come once.
      assert.strictEqual(warnings.filter((warning) => warning.includes("is ignored")).length, 3)
      assert.isAtLeast(warnings.filter((warning) => warning.includes("a-bad:callsTwice")).length, 1)
      assert.isAtLeast(warnings.filter((warning) => warning.includes("a-bad:wrongShape")).length, 1)
      assert.isAtLeast(warnings.filter((warning) => warning.includes("a-bad:mutates")).length, 1)
    })
  )

  it.live("can not register anything when register() has returned", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin("late", register("ctx.registerCommand('add', () => ctx.registerHook('post_tool_call', () => {}))"))
      const { commands, hooks } = yield* loaded({ places: places(), enabled: ["late"] })
      const error = yield* Effect.flip(commands[0]?.run("") ?? Effect.die("no command"))
      assert.match(String(error), /after register\(\) had returned/)
      assert.isFalse(hooks.has("post_tool_call"))
    })
  )

  it.live("fails with what every run can fail with, whatever it failed with itself", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      const typed = (
        name: string,
        wrap: string
      ): string => `import { Middleware, Plugin, AgentError } from "hermes-effect"
        import * as Effect from "effect/Effect"
        export default Plugin.fromValue({ name: "${name}", middleware: [Middleware.llmExecution({ name: "${name}", wrap: ${wrap} })] })`
      plugin("veto", typed("veto", "() => () => Effect.fail({ _tag: 'Strange', message: 'too dear' })"))
      plugin(
        "translation",
        typed("translation", "(next) => (request) => Effect.mapError(next(request), () => new Error('translated'))")
      )
      plugin("passing", typed("passing", "(next) => (request) => next(request)"))
      const failing = (name: string, error: unknown) =>
        Effect.gen(function* () {
          const { middleware } = yield* loaded({ places: places(), enabled: [name] })
          return yield* Effect.flip(runModel(middleware, { model: "m" }, () => Effect.fail(error)))
        })
      const below = { _tag: "Below" }
      const veto = yield* failing("veto", below)
      assert.deepInclude(veto, { _tag: "ExecutionBlocked", reason: "too dear", metadata: { checked_by: "veto" } })
      const translated = yield* failing("translation", below)
      assert.deepInclude(translated, { _tag: "TranslatedFailure", downstream: below, middleware: "translation" })
      assert.strictEqual(yield* failing("passing", below), below)
    })
  )
})
