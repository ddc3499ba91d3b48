// A run always has an ending: its result is told, and its session given up, once, whatever ended it.
import { assert, describe, it } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Exit from "effect/Exit"
import { existsSync, readFileSync } from "node:fs"
import { dirname } from "node:path"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import { machine, onceSaid, program, sessionIdOf, standInWhereUnset } from "../../support/hermes.ts"

/** A plugin that notes which sessions are given up, and does `more` when it is registered. */
const plugin = (log: string, more = "") => `
import { appendFileSync } from "node:fs"
const note = (line) => appendFileSync(${JSON.stringify(log)}, line + "\\n")
export const register = (ctx) => {
  ctx.registerHook("on_session_finalize", (event) => note([event.session_id, event.platform, event.reason].join(" ")))
  ${more}
}`

const withPlugin = Effect.fnUntraced(function* (more?: string) {
  const at = yield* machine
  const log = at.at("finalized.log")
  at.keep("plugins/watch/plugin.yaml", "name: watch\n")
  at.keep("plugins/watch/index.js", plugin(log, more))
  at.keep("config.yaml", "plugins:\n  enabled: [watch]\n")
  const finalized = (): ReadonlyArray<string> => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : [])
  return { ...at, finalized }
})

const results = (stdout: string): ReadonlyArray<Record<string, unknown>> =>
  stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line))
    .filter(({ type }) => type === "result")

const chat = ["chat", "-q", "Reply exactly hello", "--format", "stream-json"]

/** Code that never settles and keeps nothing in the event loop. */
const hangs: Readonly<Record<string, string>> = {
  "a hook": "ctx.registerHook('pre_llm_call', () => { console.error('stuck'); return new Promise(() => {}) })",
  "middleware around the model call":
    "ctx.registerMiddleware('llm_execution', () => { console.error('stuck'); return new Promise(() => {}) })",
  "the start of a plugin": "console.error('stuck'); return new Promise(() => {})"
}

/** Ends a program that is stuck, after a time that is long enough for one with nothing to do to end by itself. */
const endedWhenStuck = () =>
  onceSaid("stuck", (child) => setTimeout(() => child.exitCode === null && child.kill("SIGINT"), 500))

describe("a result", () => {
  for (const [what, more] of Object.entries(hangs)) {
    it.live(`is told by a run that waits for ${what} that never settles, when a signal ends it`, () =>
      Effect.gen(function* () {
        const { hermes } = yield* withPlugin(more)
        const { code, stderr, stdout } = yield* hermes(chat, { onError: endedWhenStuck() })
        assert.strictEqual(code, 130, stderr)
        assert.deepStrictEqual(
          results(stdout).map(({ exit_code }) => exit_code),
          [130]
        )
      })
    )
  }

  it.live("is waited for, also of a plugin's command that never settles and holds nothing", () =>
    Effect.gen(function* () {
      const { hermes } = yield* withPlugin(
        "ctx.registerCliCommand('stuck', () => { console.error('stuck'); return new Promise(() => {}) })"
      )
      const { code, stderr } = yield* hermes(["stuck"], { onError: endedWhenStuck() })
      assert.strictEqual(code, 130, stderr)
    })
  )

  it.live("is told when the grace after a signal is over and something still hangs", () =>
    Effect.gen(function* () {
      const { hermes } = yield* withPlugin(
        "ctx.registerHook('on_session_end', () => new Promise(() => {}))\n" +
          "ctx.registerHook('pre_llm_call', () => { console.error('stuck'); return new Promise(() => {}) })"
      )
      const { code, stderr, stdout } = yield* hermes(chat, {
        onError: onceSaid("stuck", (child) => child.kill("SIGTERM"))
      })
      assert.strictEqual(code, 143, stderr)
      const [result, ...others] = results(stdout)
      assert.deepStrictEqual([result?.["exit_code"], others], [143, []])
      assert.match(String(result?.["error"]), /^interrupted: continue with `hermes chat --resume \S+`$/u)
    })
  )

  const killers: Readonly<Record<string, string>> = {
    "ends the process as if all was well": "ctx.registerHook('pre_llm_call', () => process.exit(0))",
    "throws outside of any call":
      "ctx.registerHook('pre_llm_call', () => { setTimeout(() => { throw 'boom' }); return new Promise(() => {}) })"
  }
  for (const [what, more] of Object.entries(killers)) {
    it.live(`is told when a plugin ${what}, and the exit code is 1`, () =>
      Effect.gen(function* () {
        const { hermes } = yield* withPlugin(more)
        const { code, stderr, stdout } = yield* hermes(chat)
        assert.strictEqual(code, 1, stderr)
        assert.notInclude(stderr, "    at ")
        const [result, ...others] = results(stdout)
        assert.deepStrictEqual([result?.["exit_code"], others], [1, []])
        assert.match(String(result?.["error"]), /^the process was ended during the run by a plugin or a library: /u)
      })
    )
  }
})

describe("a plugin that fails outside of any call", () => {
  const failures: Readonly<Record<string, string>> = {
    "throws in a timer": "setTimeout(() => { throw new Error('boom') }, 1)",
    "throws in a timer of a file that it imports": "helper.failLater()",
    "leaves a rejection unhandled": "void (async () => { throw new Error('boom') })()"
  }
  for (const [what, failure] of Object.entries(failures)) {
    it.live(`does not end the run if it ${what}: one warning names it`, () =>
      Effect.gen(function* () {
        const { hermes, keep } = yield* withPlugin(
          `ctx.registerHook('pre_llm_call', async () => {
            const helper = await import('./helper.mjs')
            for (let i = 0; i < 3; i++) ${failure}
            await new Promise((resolve) => setTimeout(resolve, 50))
          })`
        )
        keep("plugins/watch/helper.mjs", "export const failLater = () => setImmediate(() => JSON.parse('boom'))")
        const { code, stderr, stdout } = yield* hermes(chat)
        assert.strictEqual(code, 0, stderr)
        assert.deepStrictEqual(
          results(stdout).map(({ exit_code }) => exit_code),
          [0]
        )
        assert.lengthOf(stderr.match(/Warning: plugin watch failed outside of any call: .*boom/g) ?? [], 1, stderr)
      })
    )
  }
})

describe("a session is given up once", () => {
  it.live("by a single query, also when it fails or is interrupted", () =>
    Effect.gen(function* () {
      const { at, finalized, hermes, put } = yield* withPlugin()
      put("fails.yaml", "turns: [{ tool_calls: [{ name: read_file, arguments: { path: nowhere } }] }]\n")
      const ids: Array<string> = []
      ids.push(sessionIdOf((yield* hermes(["-q", "Reply exactly hello"])).stderr))
      ids.push(sessionIdOf((yield* hermes(["-q", "go", "--script", "fails.yaml"])).stderr))
      const interrupted = yield* hermes(["-q", "Run the command: echo started > started; sleep 30"], {
        onStart: (child) => {
          const look = setInterval(() => {
            if (!existsSync(at("started"))) return
            clearInterval(look)
            child.kill("SIGINT")
          }, 20)
          child.once("exit", () => clearInterval(look))
        }
      })
      ids.push(sessionIdOf(interrupted.stderr))
      assert.deepStrictEqual(
        finalized(),
        ids.map((id) => `${id} cli shutdown`)
      )
    })
  )

  it.live("by a scheduled job", () =>
    Effect.gen(function* () {
      const { finalized, hermes } = yield* withPlugin()
      yield* hermes(["cron", "create", "every 2h", "Reply exactly hello", "--name", "job"])
      const { code, stderr } = yield* hermes(["cron", "run", "job"])
      assert.strictEqual(code, 0, stderr)
      assert.strictEqual(finalized().length, 1)
      assert.match(finalized()[0] ?? "", /^\S+ cli shutdown$/u)
    })
  )

  it.live("by an MCP server that ran several turns of it", () =>
    Effect.gen(function* () {
      const { cwd, finalized, home } = yield* withPlugin()
      const client = new Client({ name: "test", version: "1" })
      const transport = new StdioClientTransport({
        command: process.execPath,
        args: [program, "mcp", "serve"],
        cwd,
        env: {
          PATH: process.env["PATH"] ?? "",
          HOME: dirname(home),
          HERMES_HOME: home,
          ...standInWhereUnset([], { home })
        },
        stderr: "pipe"
      })
      yield* Effect.promise(() => client.connect(transport))
      const ask = (args: Record<string, unknown>) =>
        Effect.promise(() => client.callTool({ name: "hermes_ask", arguments: args }))
      const first = JSON.stringify(yield* ask({ prompt: "Reply exactly hello" }))
      const id = /session_id: (\S+?)\]/u.exec(first)?.[1] ?? ""
      yield* ask({ prompt: "Reply exactly again", session_id: id })
      assert.deepStrictEqual(finalized(), [])
      yield* Effect.promise(() => client.close())
      while (finalized().length === 0) yield* Effect.sleep(20)
      assert.deepStrictEqual(finalized(), [`${id} cli shutdown`])
    })
  )

  it.live("by a runtime that is closed, for every session that it ran", () =>
    Effect.gen(function* () {
      const heard: Array<string> = []
      const listener = Hooks.on("on_session_finalize", ({ platform, reason, session_id }) =>
        Effect.sync(() => void heard.push([session_id, platform, reason].join(" ")))
      )
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(Runtime.layer({ hooks: [listener] }), scope)
      const run = (sessionId: string) =>
        Effect.provideContext(Agent.run({ prompt: "Reply exactly hello", sessionId }), context)
      yield* Effect.forEach(["a", "b", "a"], run)
      assert.deepStrictEqual(heard, [])
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(heard, ["b library shutdown", "a library shutdown"])
    })
  )
})
