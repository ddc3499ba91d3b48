// Published MCP servers, used by an agent as the guide on tools describes.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Mcp from "../../src/tools/mcp/Mcp.ts"
import * as McpServers from "../../src/tools/mcp/McpServers.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { readFileSync, writeFileSync } from "node:fs"

const open = (folder: string, name: string, ...args: ReadonlyArray<string>) => ({
  command: process.execPath,
  args: [join(import.meta.dirname, folder, "@modelcontextprotocol", name, "dist/index.js"), ...args]
})

describe("published MCP servers", () => {
  it.live("filesystem, memory and everything are connected, and their tools are called", () =>
    Effect.gen(function* () {
      const cwd = yield* temporaryDirectory
      writeFileSync(join(cwd, "notes.txt"), "The notes.")
      const servers = Mcp.layer({
        files: { ...open("node_modules", "server-filesystem", cwd), trust: "full" },
        memory: {
          ...open("node_modules", "server-memory"),
          env: { MEMORY_FILE_PATH: join(cwd, "memory.jsonl") },
          trust: "full"
        },
        all: { ...open("../../node_modules", "server-everything"), trust: { tools: ["echo"] } }
      })
      const context = yield* Layer.build(Layer.provideMerge(servers, Runtime.layer({ cwd })))
      yield* Effect.gen(function* () {
        const { status } = yield* McpServers.McpServers
        assert.deepStrictEqual(
          (yield* status).map(({ name, state }) => [name, state]),
          [
            ["files", "connected"],
            ["memory", "connected"],
            ["all", "connected"]
          ]
        )
        const agent = yield* Agent.Agent
        const call = (name: string, args: object) => agent.callTool({ name, args })
        const read = yield* call("mcp__files__read_text_file", { path: join(cwd, "notes.txt") })
        assert.include(JSON.stringify(read), "The notes.")
        const outside = yield* call("mcp__files__read_text_file", { path: "/etc/hostname" })
        assert.isTrue(outside.isFailure)
        const entities = [{ name: "Ada", entityType: "person", observations: ["likes engines"] }]
        yield* call("mcp__memory__create_entities", { entities })
        assert.include(JSON.stringify(yield* call("mcp__memory__search_nodes", { query: "Ada" })), "likes engines")
        assert.include(readFileSync(join(cwd, "memory.jsonl"), "utf8"), "Ada")
        assert.include(JSON.stringify(yield* call("mcp__all__echo", { message: "hello" })), "hello")
        const untrusted = yield* call("mcp__all__get-sum", { a: 1, b: 2 })
        assert.isTrue(untrusted.isFailure)
      }).pipe(Effect.provide(context))
    })
  )
})
