// MCP servers from plain settings: with layers, and among the tools of the promise facade.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { fileURLToPath } from "node:url"
import { Agent, Mcp, Runtime, Scripted } from "../../../src/index.ts"
import { createHermes, HermesError, mcp } from "../../../src/kit/entry/promise.ts"
import { McpServers } from "../../../src/tools/mcp/McpServers.ts"

const everything = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"))
const program: Mcp.Server = {
  command: process.execPath,
  args: [everything, "stdio"],
  trust: "full",
  connectTimeout: 60
}

const withServers = (servers: Parameters<typeof Mcp.layer>[0], turns: ReadonlyArray<Scripted.Turn> = []) => {
  const provider = Scripted.layer(turns)
  return Layer.merge(provider, Layer.provideMerge(Mcp.layer(servers), Runtime.layer({ provider })))
}

const status = Effect.flatMap(McpServers, ({ status }) => status)

const fails = (servers: unknown) =>
  Effect.map(
    // Settings as a program without type checks may give them.
    Effect.flip(Effect.provide(status, withServers(servers as Parameters<typeof Mcp.layer>[0]))),
    (error) => `${error._tag}: ${error.message}`
  )

describe("Mcp.layer", () => {
  it.live("starts a published server, and its tools answer calls of the model", () =>
    Effect.gen(function* () {
      const { text } = yield* Agent.run({ prompt: "echo" })
      assert.strictEqual(text, "done")
      const calls = yield* Effect.flatMap(Scripted.Inspection, ({ calls }) => calls)
      assert.include(JSON.stringify(calls[1]?.messages.at(-1)), "seven sheep")
      assert.deepInclude((yield* status)[0], { name: "all", state: "connected" })
    }).pipe(
      Effect.provide(
        withServers({ all: program }, [
          Scripted.complete({ toolCalls: [{ name: "mcp__all__echo", params: { message: "seven sheep" } }] }),
          Scripted.complete("done")
        ])
      )
    )
  )

  it.live("takes keys as in config.yaml, secrets and servers that are switched off", () =>
    Effect.gen(function* () {
      const written = { command: "x", connect_timeout: 5, env: { KEY: Redacted.make("k") }, enabled: false }
      const states = yield* Effect.provide(status, withServers({ off: written }))
      assert.deepStrictEqual(states, [{ name: "off", state: "disabled", tools: 0, message: undefined }])
    })
  )

  it.live("names the place of settings that no server can have", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        yield* fails({ fs: { args: ["x"] } }),
        "ConfigError: mcp.fs: has neither a command nor a url: add one of them"
      )
      assert.strictEqual(
        yield* fails({ fs: { comand: "x" } }),
        "ConfigError: mcp.fs.comand: no such setting of a server; did you mean command?"
      )
      assert.match(yield* fails({ fs: { command: ["x"] } }), /^ConfigError: mcp\.fs: [^\n]*command/)
      assert.match(yield* fails({ fs: "npx" }), /^ConfigError: mcp\.fs: expected \{ command, args \}/)
    })
  )
})

describe("mcp of the promise facade", () => {
  it.live("connects a server among the tools, and says what is wrong with its settings", () =>
    Effect.promise(async () => {
      const seen: Array<string> = []
      const hermes = createHermes({
        model: Scripted.layer([
          Scripted.complete({ toolCalls: [{ name: "mcp__all__echo", params: { message: "wool" } }] }),
          Scripted.complete("done")
        ]),
        tools: [mcp("all", program)],
        on: { post_tool_call: ({ result }) => void seen.push(JSON.stringify(result)) }
      })
      assert.strictEqual((await hermes.run("echo")).text, "done")
      assert.include(seen.join(), "wool")
      await hermes.dispose()
      const wrong = createHermes({ model: "offline", tools: [mcp("all", { url: "x", timeout: -1 })] })
      const error = await wrong.run("hi").catch((error: unknown) => error)
      assert.isTrue(error instanceof HermesError && error.tag === "ConfigError" && error.message.startsWith("mcp.all"))
      await wrong.dispose()
    })
  )
})
