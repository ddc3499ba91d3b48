// Cases 118–137 of the plugin contract (and 19, 65 as plugins on disk meet them), and case 92 of the program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { ProcessVariables } from "../../src/base/platform/ProcessVariables.ts"
import type { PluginInfo } from "../../src/agent/plugin/Loading.ts"
import { cli } from "../program/cli/capture.ts"
import { machine } from "../support/hermes.ts"
import { rewriteArgs, withWarnings } from "../support/middlewareContexts.ts"
import * as Ask from "../models/provider/Ask.ts"
import { loaded, place, trusting } from "../agent/plugin/support/plugins.ts"

const quiet = "export const register = () => {}"

const infoOf = (plugins: ReadonlyArray<PluginInfo>, key: string): PluginInfo => {
  const info = plugins.find((plugin) => plugin.key === key)
  assert.isDefined(info, `${key} among ${plugins.map(({ key }) => key).join(", ")}`)
  return info
}

describe("plugins", () => {
  it.live("118 a user plugin in enabled is loaded; another one is only known", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "wanted",
        "export const register = (ctx) => { ctx.register_hook('on_session_start', () => {}) }",
        "name: wanted\nversion: 1.0.2\ndescription: Does things\n"
      )
      plugin("unwanted", "throw new Error('must not run')")
      const { plugins } = yield* loaded({ places: places(), enabled: ["wanted"] })
      const wanted = infoOf(plugins, "wanted")
      assert.deepInclude(wanted, {
        name: "wanted",
        enabled: true,
        version: "1.0.2",
        description: "Does things",
        source: "user",
        kind: "standalone",
        tools: 0,
        hooks: 1,
        middleware: 0,
        commands: 0,
        error: undefined
      })
      const unwanted = infoOf(plugins, "unwanted")
      assert.isFalse(unwanted.enabled)
      assert.strictEqual(unwanted.error, "not enabled in config (run `hermes plugins enable unwanted` to activate)")
    })
  )

  it.live("119 plugins of a project are found only when the variable says so", () =>
    Effect.gen(function* () {
      const { places, write } = yield* place
      write({ "work/.hermes/plugins/local/plugin.yaml": "name: local\n", "work/.hermes/plugins/local/index.js": quiet })
      const without = yield* loaded({ places: places(), enabled: ["local"] })
      assert.deepStrictEqual(without.plugins, [])
      const variable = (name: string) => (name === "HERMES_ENABLE_PROJECT_PLUGINS" ? "true" : undefined)
      const found = yield* loaded({ places: places({ variable }), enabled: ["local"] })
      assert.deepInclude(infoOf(found.plugins, "local"), { source: "project", enabled: true })
      // ARCHITECTURE §7: and when the folder is trusted.
      const untrusted = yield* withWarnings(
        loaded({ places: places({ trust: trusting(false), variable }), enabled: ["local"] })
      )
      assert.deepStrictEqual(untrusted.value.plugins, [])
      assert.match(
        untrusted.warnings.join("\n"),
        /\.hermes\/plugins is not used: its folder is not trusted\. Look at it, then run `hermes trust add /
      )
    })
  )

  it.live("121 disabled beats enabled, by key or by bare name", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin("observability/langfuse", quiet)
      const { plugins } = yield* loaded({
        places: places(),
        enabled: ["observability/langfuse"],
        disabled: ["langfuse"]
      })
      assert.deepInclude(infoOf(plugins, "observability/langfuse"), { enabled: false, error: "disabled via config" })
    })
  )

  it.live(
    "122 one that can not be loaded is recorded with its error, leaves nothing behind (ARCHITECTURE §5), and the others load",
    () =>
      Effect.gen(function* () {
        const { places, plugin } = yield* place
        plugin("a-moduleless", undefined)
        plugin("b-unregistered", "export const other = 1")
        plugin(
          "c-raising",
          "export const register = (ctx) => { ctx.registerHook('post_tool_call', () => {}); throw new Error('no luck') }"
        )
        plugin("d-fine", quiet)
        const enabled = ["a-moduleless", "b-unregistered", "c-raising", "d-fine"]
        const { value, warnings } = yield* withWarnings(loaded({ places: places(), enabled }))
        const { hooks, plugins } = value
        assert.match(infoOf(plugins, "a-moduleless").error ?? "", /no module.*index\.ts/)
        assert.match(infoOf(plugins, "b-unregistered").error ?? "", /no register\(\) function/)
        assert.strictEqual(infoOf(plugins, "c-raising").error, "no luck")
        assert.isTrue(infoOf(plugins, "d-fine").enabled)
        assert.isFalse(hooks.has("post_tool_call"))
        assert.strictEqual(warnings.length, 3)
      })
  )

  it.live("124 loading twice is once; reload takes everything back first; a look that failed is repeated", () =>
    Effect.gen(function* () {
      const { directory, places, plugin, write } = yield* place
      plugin(
        "once",
        "export const register = (ctx) => { ctx.registerHook('post_tool_call', () => {}); ctx.registerMiddleware('tool_request', () => {}) }"
      )
      const { hooks, manager, middleware } = yield* loaded({ places: places(), enabled: ["once"] })
      const again = yield* manager.loaded
      assert.strictEqual(again.middleware, middleware)
      const reloaded = yield* manager.reload
      assert.strictEqual(reloaded.middleware.length, 1)
      assert.strictEqual(hooks.list().length, 1)

      write({ blocked: "a file where a directory should be" })
      const failing = places({ user: `${directory}/blocked` })
      const failed = yield* withWarnings(loaded({ places: failing, enabled: ["once"] }))
      assert.deepStrictEqual(failed.value.plugins, [])
      assert.match(failed.warnings.join(), /cannot search for plugins/)
      const second = yield* withWarnings(failed.value.manager.loaded)
      assert.strictEqual(second.warnings.length, 1)
    })
  )

  it.live(
    "125 kinds: an unknown one is standalone, a provider of memory is left to who uses it, what is said counts",
    () =>
      Effect.gen(function* () {
        const { places, plugin } = yield* place
        plugin("weird", quiet, "name: weird\nkind: weird\n")
        const provider = "export const register = (ctx) => ctx.register_memory_provider({})"
        plugin("memory-one", `throw new Error('imported')\n${provider}`)
        plugin("memory-two", `/* MemoryProvider */ ${quiet}`, "name: memory-two\nkind: Standalone\n")
        const { value, warnings } = yield* withWarnings(
          loaded({ places: places(), enabled: ["weird", "memory-one", "memory-two"] })
        )
        assert.deepInclude(infoOf(value.plugins, "weird"), { kind: "standalone", enabled: true })
        assert.strictEqual(warnings.length, 1)
        assert.match(warnings[0] ?? "", /weird.*standalone/)
        assert.deepInclude(infoOf(value.plugins, "memory-one"), { kind: "exclusive", enabled: false })
        assert.deepInclude(infoOf(value.plugins, "memory-two"), { kind: "standalone", enabled: true })
      })
  )

  it.live(
    "127 enable writes the string that was given, sorted, and takes it out of disabled; an unknown name changes nothing",
    () =>
      Effect.gen(function* () {
        const { home, keep } = yield* machine
        const plugins = (...argv: ReadonlyArray<string>) =>
          Effect.provideService(cli("plugins", ...argv), ProcessVariables, { HERMES_HOME: home })
        const read = () => readFileSync(join(home, "config.yaml"), "utf8")
        keep("plugins/observability/nemo_relay/plugin.yaml", "name: nemo_relay\n")
        keep(
          "config.yaml",
          "# mine\nplugins:\n  enabled:\n    - zeta\n  disabled:\n    - other\n    - observability/nemo_relay\n"
        )
        const { code, stdout } = yield* plugins("enable", "observability/nemo_relay")
        assert.deepStrictEqual(
          { code, stdout },
          { code: 0, stdout: "enabled observability/nemo_relay; it takes effect in the next session\n" }
        )
        const written =
          "# mine\nplugins:\n  enabled:\n    - observability/nemo_relay\n    - zeta\n  disabled:\n    - other\n"
        assert.strictEqual(read(), written)
        assert.match((yield* plugins("enable", "observability/nemo_relay")).stdout, /is already enabled/)
        assert.strictEqual((yield* plugins("enable", "observability/nemo_relais")).code, 2)
        assert.strictEqual(read(), written)
        const disabled = yield* plugins("disable", "nemo_relay")
        assert.strictEqual(disabled.stdout, "disabled nemo_relay; it takes effect in the next session\n")
        const again = yield* plugins("enable", "observability/nemo_relay")
        assert.match(again.stderr, /stays disabled: plugins\.disabled lists it under another name/)
      })
  )

  it.live(
    "128 list --json is an array of name, status, version, description and source; categories are listed (J)",
    () =>
      Effect.gen(function* () {
        const { home, keep } = yield* machine
        keep("plugins/observability/mine/plugin.yaml", "name: mine\nversion: 2\ndescription: Traces\n")
        keep("plugins/flat/plugin.yaml", "name: flat\n")
        const { stdout } = yield* Effect.provideService(
          cli("plugins", "list", "--json", "--no-bundled"),
          ProcessVariables,
          { HERMES_HOME: home }
        )
        assert.deepStrictEqual(JSON.parse(stdout), [
          { name: "flat", status: "not enabled", version: "", description: "", source: "user" },
          { name: "observability/mine", status: "not enabled", version: "2", description: "Traces", source: "user" }
        ])
      })
  )

  it.live("130 names of commands are tidied; one without a name and one of the program's own are ignored", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "commands",
        `export const register = (ctx) => {
        ctx.register_command("/MyCmd ", (args) => "got " + args)
        ctx.registerCommand("two words", () => {}, { description: " Two words ", argsHint: " <n> " })
        ctx.registerCommand(" / ", () => {})
        ctx.registerCommand("Model", () => {})
      }`
      )
      const { value, warnings } = yield* withWarnings(
        loaded({ places: places(), enabled: ["commands"], reserved: { commands: ["model"], cliCommands: [] } })
      )
      const described = value.commands.map(({ argsHint, description, name }) => ({ name, description, argsHint }))
      assert.deepStrictEqual(described, [
        { name: "mycmd", description: "Plugin command", argsHint: undefined },
        { name: "two-words", description: "Two words", argsHint: "<n>" }
      ])
      assert.strictEqual(yield* value.commands[0]?.run("a b") ?? Effect.void, "got a b")
      assert.strictEqual(warnings.length, 2)
      assert.deepInclude(infoOf(value.plugins, "commands"), { commands: 2 })
    })
  )

  it.live("131 a message needs a conversation: queued when it is idle, an interruption when it runs", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "speaker",
        `export const register = (ctx) => {
        ctx.registerCommand("say", (text) => String(ctx.inject_message(text)))
        ctx.registerCommand("warn", (text) => String(ctx.injectMessage(text, "system")))
      }`
      )
      const { value, warnings } = yield* withWarnings(
        Effect.gen(function* () {
          const { commands, manager } = yield* loaded({ places: places(), enabled: ["speaker"] })
          const run = (name: string, text: string) =>
            commands.find((command) => command.name === name)?.run(text) ?? Effect.void
          const before = yield* run("say", "anyone?")
          const queued: Array<string> = []
          const interrupts: Array<string> = []
          let running = false
          yield* manager.attach({
            isRunning: () => running,
            interrupt: (text) => interrupts.push(text),
            queue: (text) => queued.push(text)
          })
          const idle = yield* run("say", "hello")
          running = true
          const busy = yield* run("warn", "stop")
          return { before, idle, busy, queued, interrupts }
        })
      )
      assert.deepStrictEqual(value, {
        before: "false",
        idle: "true",
        busy: "true",
        queued: ["hello"],
        interrupts: ["[system] stop"]
      })
      assert.match(warnings.join(), /needs a conversation/)
    })
  )

  it.live("dispatch_tool goes the way of a model's call: hooks, approvals and bounds (not the bypass of §3.5)", () =>
    Effect.gen(function* () {
      const { at, hermes, keep, put } = yield* machine
      put("notes.txt", "remember the milk\n")
      put("precious", "x")
      keep("plugins/caller/plugin.yaml", "name: caller\n")
      keep(
        "plugins/caller/index.js",
        `export const register = async (ctx) => {
        const early = await ctx.dispatch_tool("read_file", { path: "notes.txt" })
        let nested = false
        ctx.registerHook("pre_tool_call", async (event) => {
          if (nested) { console.error("hook saw " + event.tool_name); return }
          nested = true
          console.error("early: " + early)
          console.error("read: " + await ctx.dispatchTool("read_file", { path: "notes.txt" }, { cwd: ${JSON.stringify(at("."))} }))
          console.error("wipe: " + await ctx.dispatch_tool("terminal", { command: "rm -rf ./precious" }, { cwd: ${JSON.stringify(at("."))} }))
          console.error("none: " + await ctx.dispatch_tool("no_such_tool"))
        })
      }`
      )
      keep("config.yaml", "plugins:\n  enabled: [caller]\n")
      const { stderr } = yield* hermes(["chat", "-q", "Run the command: echo hello", "--toolsets", "terminal"])
      assert.match(stderr, /early: .*there is no agent yet/)
      assert.match(stderr, /hook saw read_file\n/)
      assert.match(stderr, /read: .*remember the milk/)
      assert.match(stderr, /hook saw terminal\n/)
      assert.match(stderr, /wipe: .*(denied|approv)/)
      assert.isTrue(existsSync(at("precious")))
      assert.match(stderr, /none: .*there is no tool no_such_tool/)
    })
  )

  it.live("llm asks the model for side tasks, and says where there is none", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const server = yield* Ask.mock
      server.on({ userMessage: "a side question" }, { content: "the side answer" })
      server.on({ userMessage: "begin" }, { content: "main answer" })
      keep("plugins/asker/plugin.yaml", "name: asker\n")
      keep(
        "plugins/asker/index.js",
        `export const register = async (ctx) => {
        const early = await ctx.llm.complete("x").catch((error) => error.message)
        ctx.registerHook("post_llm_call", async () => {
          console.error("early: " + early)
          console.error("wrong: " + await ctx.llm.complete(7).catch((error) => error.message))
          console.error("said: " + await ctx.llm.complete("a side question", { system: "Be short.", max_tokens: 20 }))
        })
      }`
      )
      const route = `{ provider: custom, base_url: "${server.url}/v1", default: m, api_key: k }`
      keep("config.yaml", `model: ${route}\nplugins:\n  enabled: [asker]\n`)
      const { stderr, stdout } = yield* hermes(["chat", "-q", "begin", "-Q"])
      assert.strictEqual(stdout, "main answer\n", stderr)
      assert.match(stderr, /early: there is no model yet/)
      assert.match(stderr, /wrong: llm.complete takes a text/)
      assert.match(stderr, /said: the side answer/)
    })
  )

  it.live("137 of a plugin's block and a shell hook's, the plugin's message is told", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      put("guard.sh", '#!/bin/sh\necho \'{"decision":"block","reason":"said by the shell"}\'\n')
      keep("plugins/guard/plugin.yaml", "name: guard\n")
      keep(
        "plugins/guard/index.js",
        "export const register = (ctx) => { ctx.registerHook('pre_tool_call', () => ({ action: 'block', message: 'said by the plugin' })) }\n"
      )
      keep("config.yaml", "hooks:\n  pre_tool_call:\n    - command: sh guard.sh\nplugins:\n  enabled: [guard]\n")
      const { stderr, stdout } = yield* hermes([
        "chat",
        "-q",
        "Run the command: echo hello",
        "--toolsets",
        "terminal",
        "--format",
        "stream-json",
        "--accept-hooks"
      ])
      const result = stdout.split("\n").find((line) => line.includes("tool_result")) ?? ""
      assert.match(result, /said by the plugin/, stderr)
      assert.notMatch(result, /said by the shell/)
    })
  )

  it.live("19 one function registered twice for a kind runs twice; an unknown kind names the nearest (§1.1)", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "twice",
        `export const register = (ctx) => {
        const add = ({ args }) => ({ args: { ...args, n: (args.n ?? 0) + 1 } })
        ctx.register_middleware("tool_request", add)
        ctx.register_middleware("tool_request", add)
        ctx.register_middleware("api_request", add)
        ctx.register_middleware("tool_requests", add)
      }`
      )
      const { value, warnings } = yield* withWarnings(
        Effect.gen(function* () {
          const { middleware } = yield* loaded({ places: places(), enabled: ["twice"] })
          return yield* rewriteArgs(middleware, {})
        })
      )
      assert.deepStrictEqual(value.payload, { n: 2 })
      assert.strictEqual(warnings.length, 2)
      assert.match(
        warnings[0] ?? "",
        /"api_request".*known kinds: llm_execution, llm_request, tool_execution, tool_request/
      )
      assert.match(warnings[1] ?? "", /"tool_requests", did you mean tool_request\?/)
    })
  )

  it.live("65 a hook that nobody emits is a warning, and can be invoked by its name", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin("banana", "export const register = (ctx) => { ctx.register_hook('on_banana', ({ n }) => n + 1) }")
      const { value, warnings } = yield* withWarnings(
        Effect.gen(function* () {
          const { hooks } = yield* loaded({ places: places(), enabled: ["banana"] })
          return yield* hooks.invoke("on_banana", () => ({ n: 1 }))
        })
      )
      assert.deepStrictEqual(value, [2])
      assert.match(warnings.join(), /on_banana/)
    })
  )

  it.live("92 of hermes-product.md: nothing of a plugin that is installed and not enabled runs", () =>
    Effect.gen(function* () {
      const { places, plugin } = yield* place
      plugin(
        "sleeping",
        "globalThis.awake = true\nexport const register = (ctx) => { ctx.registerMiddleware('tool_request', () => {}); ctx.registerHook('pre_tool_call', () => {}) }"
      )
      const { hooks, middleware } = yield* loaded({ places: places() })
      assert.isFalse(hooks.has("pre_tool_call"))
      assert.deepStrictEqual(middleware, [])
      assert.isFalse(Reflect.has(globalThis, "awake"))
    })
  )
})
