// Code of plugins that never settles, in the real program: it ends, with its closing events and an exit code that says
// so.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermes.ts"

const answer = {
  id: "x",
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "done" }, finish_reason: "stop" }]
}

const setting = Effect.fnUntraced(function* (plugin: string, enabled = "stuck") {
  const server = yield* HttpServer.make((_, response) => HttpServer.json(response, 200, answer))
  const own = yield* machine
  own.keep("plugins/stuck/plugin.yaml", "name: stuck\n")
  own.keep("plugins/stuck/index.js", plugin)
  own.keep(
    "config.yaml",
    `model: { provider: custom, default: m, base_url: "${server.url}/v1", api_key: k, context_length: 100000 }
network: { call_stale_timeout_seconds: 1, stream_stale_timeout_seconds: 1 }
plugins: { enabled: [${enabled}] }
`
  )
  return own
})

const told = (stderr: string): ReadonlyArray<string> => stderr.split("\n").filter((line) => line.startsWith("told "))

const observing = `
  for (const name of ["pre_api_request", "post_api_request", "api_request_error", "on_session_end", "on_session_finalize"]) {
    ctx.registerHook(name, (event) => console.error("told", name, event.error?.message ?? ""))
  }
`

const json = ["chat", "-q", "hi", "--format", "stream-json"]

interface Line {
  readonly type: string
  readonly [name: string]: unknown
}

const resultOf = (stdout: string): Line | undefined =>
  stdout
    .trim()
    .split("\n")
    .map((line): Line => JSON.parse(line))
    .find(({ type }) => type === "result")

describe("plugin code that never settles", () => {
  it.live("a closed wrapper fails the run at its deadline: closing events, a result line, exit code 1", () =>
    Effect.gen(function* () {
      const { hermes } = yield* setting(`
        export const register = (ctx) => {
          ${observing}
          ctx.registerMiddleware("llm_execution", function guard() { return new Promise(() => {}) }, { onFailure: "closed" })
        }`)
      const { code, stderr, stdout } = yield* hermes(json)
      assert.strictEqual(code, 1, stderr)
      const why =
        'llm_execution middleware "stuck:guard" failed and is registered to fail closed: DeadlineExceeded: no answer within 1 s'
      assert.include(JSON.stringify(resultOf(stdout)), JSON.stringify(why).slice(1, -1))
      assert.include(stderr, why)
      assert.deepStrictEqual(told(stderr), [
        "told pre_api_request ",
        `told api_request_error ${why}`,
        "told on_session_end ",
        "told on_session_finalize "
      ])
    })
  )

  it.live("an open wrapper is left out at its deadline, and the answer comes", () =>
    Effect.gen(function* () {
      const { hermes } = yield* setting(`
        export const register = (ctx) => {
          ${observing}
          ctx.registerMiddleware("llm_execution", () => new Promise(() => {}))
        }`)
      const { code, stderr, stdout } = yield* hermes(json)
      assert.strictEqual(code, 0, stderr)
      assert.deepInclude(resultOf(stdout), { text: "done" })
      assert.include(stderr, "failed (no answer within 1 s); the call continues without it")
      assert.deepStrictEqual(told(stderr), [
        "told pre_api_request ",
        "told post_api_request ",
        "told on_session_end ",
        "told on_session_finalize "
      ])
    })
  )

  it.live("a command that waits for nothing is ended, with an exit code that is not 0", () =>
    Effect.gen(function* () {
      const { hermes } = yield* setting(`
        export const register = (ctx) => {
          ctx.registerCliCommand("wait", () => new Promise(() => {}))
        }`)
      const { code, stderr, stdout } = yield* hermes(["wait"])
      assert.strictEqual(code, 1, stderr)
      assert.strictEqual(stdout, "")
      assert.include(stderr, "waits for code that never settles")
    })
  )

  it.live("a pass-through changes nothing", () =>
    Effect.gen(function* () {
      const { hermes } = yield* setting(`
        export const register = (ctx) => ctx.registerMiddleware("llm_execution", (call) => call.next_call(call.request))`)
      const { code, stdout } = yield* hermes(["chat", "-q", "hi", "--quiet"])
      assert.deepStrictEqual([code, stdout], [0, "done\n"])
    })
  )
})

describe("what a plugin's command can use", () => {
  it.live("the configured model, by ctx.llm", () =>
    Effect.gen(function* () {
      const { hermes } = yield* setting(`
        export const register = (ctx) => {
          ctx.registerCliCommand("ask", async () => { console.log("it said", await ctx.llm.complete("hi")) })
        }`)
      const { code, stderr, stdout } = yield* hermes(["ask"])
      assert.strictEqual(code, 0, stderr)
      assert.include(stdout + stderr, "it said done")
    })
  )

  it.live("nothing of a model that is not set up, where the command needs none", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* setting(`
        export const register = (ctx) => {
          ctx.registerCliCommand("plain", () => { console.log("plain enough") })
        }`)
      keep("config.yaml", "model: { provider: openrouter, default: m }\nplugins: { enabled: [stuck] }\n")
      const { code, stderr, stdout } = yield* hermes(["plain"])
      assert.strictEqual(code, 0, stderr)
      assert.include(stdout + stderr, "plain enough")
    })
  )

  it.live("modules that are CommonJS require effect and hermes-effect", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* setting("export const register = () => {}", "stuck, common")
      keep("plugins/common/plugin.yaml", "name: common\n")
      keep("plugins/common/package.json", '{ "type": "commonjs" }')
      keep(
        "plugins/common/index.js",
        `
        const Effect = require("effect/Effect")
        const { Hooks } = require("hermes-effect")
        exports.register = (ctx) => {
          ctx.registerHook("on_session_end", () => Effect.sync(() => console.error("told", typeof Hooks.on)))
        }`
      )
      const { code, stderr } = yield* hermes(["chat", "-q", "hi"])
      assert.strictEqual(code, 0, stderr)
      assert.deepStrictEqual(told(stderr), ["told function"], stderr)
    })
  )
})
