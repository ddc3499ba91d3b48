// `hermes mcp serve --tools`, asked by the official client over its standard streams: a call from there takes the path
// of a model's call.
import { assert, describe, it } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { dirname } from "node:path"
import { machine, program, standInWhereUnset } from "../../support/hermes.ts"

const key = "sk-proj-Zk3mQ8vT1xW5yB7nC2dF4gH6jK9pL0rS"

const plugin = (log: string) => `
import { appendFileSync } from "node:fs"
const note = (line) => appendFileSync(${JSON.stringify(log)}, line + "\\n")
export const register = (ctx) => {
  const tool = (name, handler, parameters = { type: "object", properties: {} }) =>
    ctx.registerTool({ name, description: name, parameters, readonly: true, handler })
  tool("leak", () => ({ text: "the key is ${key}" }))
  tool("guarded", () => { note("guarded ran"); return "ran" })
  tool("blocked", () => { note("blocked ran"); return "ran" })
  tool("count", (args) => typeof args.n + " " + args.n, { type: "object", properties: { n: { type: "integer" } } })
  tool("hangup", () => { throw new Error("it broke") })
  ctx.registerHook("pre_tool_call", (event) => {
    note("pre " + event.tool_name)
    if (event.tool_name === "guarded") return { action: "approve", message: "ask first" }
    if (event.tool_name === "blocked") return { action: "block", message: "not today" }
  })
  ctx.registerHook("post_tool_call", (event) => note("post " + event.tool_name + " " + event.status))
  ctx.registerMiddleware("tool_request", (call) => {
    note("request " + call.tool_name)
    if (call.tool_name === "count") return { args: { n: call.args.n + 1 } }
  })
  ctx.registerMiddleware("tool_execution", async (call) => {
    note("execution " + call.tool_name)
    return await call.next_call()
  })
}`

/** A client of a server with the plugin's tools, and all that the plugin saw. */
const served = Effect.gen(function* () {
  const { at, cwd, home, keep, put } = yield* machine
  const log = at("log.txt")
  keep("plugins/road/plugin.yaml", "name: road\n")
  keep("plugins/road/index.js", plugin(log))
  keep("config.yaml", "plugins:\n  enabled: [road]\n")
  put("notes.txt", `OPENAI_API_KEY=${key}\n`)
  const client = new Client({ name: "test", version: "1" })
  yield* Effect.acquireRelease(
    Effect.promise(() =>
      client.connect(
        new StdioClientTransport({
          command: process.execPath,
          args: [program, "mcp", "serve", "--tools", "read_file,leak,guarded,blocked,count,hangup"],
          cwd,
          env: {
            PATH: process.env["PATH"] ?? "",
            HOME: dirname(home),
            HERMES_HOME: home,
            ...standInWhereUnset([], { home })
          },
          stderr: "pipe"
        })
      )
    ),
    () => Effect.promise(() => client.close())
  )
  const call = (name: string, args: Record<string, unknown> = {}) =>
    Effect.map(
      Effect.promise(() => client.callTool({ name, arguments: args })),
      ({ content, isError }) => ({
        isError: isError === true,
        text: content.map((block) => (block.type === "text" ? block.text : "")).join("")
      })
    )
  return { call, seen: () => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : []) }
})

describe("hermes mcp serve --tools", () => {
  it.live("a call is seen by hooks and middleware, once each, and its secrets are redacted", () =>
    Effect.gen(function* () {
      const { call, seen } = yield* served
      const leaked = yield* call("leak")
      assert.deepStrictEqual(
        [leaked.isError, leaked.text.includes(key), leaked.text.includes("the key is")],
        [false, false, true]
      )
      assert.deepStrictEqual(seen(), ["request leak", "pre leak", "execution leak", "post leak ok"])
      const read = yield* call("read_file", { path: "notes.txt" })
      assert.deepStrictEqual(
        [read.isError, read.text.includes(key), read.text.includes("OPENAI_API_KEY")],
        [false, false, true]
      )
    })
  )

  it.live("what needs an approval is denied, what a hook blocks does not run, and what breaks is an error", () =>
    Effect.gen(function* () {
      const { call, seen } = yield* served
      const guarded = yield* call("guarded")
      const blocked = yield* call("blocked")
      const broken = yield* call("hangup")
      assert.deepStrictEqual([guarded.isError, blocked.isError, broken.isError], [true, true, true])
      assert.include(guarded.text, "ask first")
      assert.include(blocked.text, "not today")
      assert.include(broken.text, "it broke")
      assert.deepStrictEqual(seen(), [
        "request guarded",
        "pre guarded",
        "post guarded blocked",
        "request blocked",
        "pre blocked",
        "post blocked blocked",
        "request hangup",
        "pre hangup",
        "execution hangup",
        "post hangup error"
      ])
    })
  )

  it.live("arguments are coerced before middleware sees them", () =>
    Effect.gen(function* () {
      const { call } = yield* served
      assert.deepStrictEqual(yield* call("count", { n: "41" }), { isError: false, text: "number 42" })
    })
  )

  it.live("a session that does not exist is an error, and is not made", () =>
    Effect.gen(function* () {
      const { call } = yield* served
      const unknown = yield* call("hermes_ask", { prompt: "Reply with exactly: hello", session_id: "nobody" })
      assert.deepStrictEqual(unknown, {
        isError: true,
        text: 'Unknown session_id "nobody". Omit it to start a new conversation.'
      })
      assert.isTrue((yield* call("hermes_ask", { prompt: "Reply with exactly: hello", session_id: "nobody" })).isError)
      const first = yield* call("hermes_ask", { prompt: "Reply with exactly: hello" })
      const id = /\[session_id: (\S+)\]/.exec(first.text)?.[1]
      assert.include(
        (yield* call("hermes_ask", { prompt: "Reply with exactly: again", session_id: id })).text,
        `again\n\n[session_id: ${id}]`
      )
    })
  )
})
