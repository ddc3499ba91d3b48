// MCP servers for tests, connected as a runtime connects them.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { spawn } from "node:child_process"
import { createServer } from "node:net"
import { fileURLToPath } from "node:url"
import { mcpServer } from "../../../../src/base/config/ProgramSections.ts"
import { SessionId, TaskId, TurnId } from "../../../../src/base/domain/Ids.ts"
import * as McpServers from "../../../../src/tools/mcp/McpServers.ts"
import * as McpSdkClient from "../../../../src/tools/mcp/McpSdkClient.ts"
import type { Section } from "../../../../src/tools/mcp/ServerConfig.ts"
import { ToolContext } from "../../../../src/tools/ToolContext.ts"
import * as ToolRegistry from "../../../../src/tools/ToolRegistry.ts"

const fixture = fileURLToPath(new URL("fixtureServer.ts", import.meta.url))
const everythingServer = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"))

/** `mcp_servers.<name>` as it stands in a file. */
export const section = (file: Record<string, unknown>): Section =>
  Schema.decodeUnknownSync(mcpServer)({ connect_timeout: 20, timeout: 20, ...file })

export const fixtureOf = (
  mode: string,
  more: Record<string, unknown> = {},
  args: ReadonlyArray<string> = []
): Section => section({ command: process.execPath, args: [fixture, mode, ...args], ...more })

export const everythingOf = (more: Record<string, unknown> = {}): Section =>
  section({ command: process.execPath, args: [everythingServer, "stdio"], ...more })

const freePort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

/** The published server over HTTP, until the scope ends. */
export const everythingHttp = (kind: "streamableHttp" | "sse") =>
  Effect.gen(function* () {
    const port = yield* freePort
    yield* Effect.acquireRelease(
      Effect.callback<ReturnType<typeof spawn>>((resume) => {
        const child = spawn(process.execPath, [everythingServer, kind], {
          env: { ...process.env, PORT: String(port) },
          stdio: ["ignore", "ignore", "pipe"]
        })
        child.stderr.on("data", (chunk) => {
          if (String(chunk).includes(String(port))) resume(Effect.succeed(child))
        })
      }),
      (child) =>
        Effect.callback<void>((resume) => {
          child.once("exit", () => resume(Effect.void))
          child.kill("SIGKILL")
        })
    )
    return `http://127.0.0.1:${port}/${kind === "sse" ? "sse" : "mcp"}`
  })

/** A registry with the tools of these servers. */
export const connected = Effect.fnUntraced(function* (sections: Record<string, Section>) {
  const context = yield* Layer.build(
    Layer.fresh(
      McpServers.layer(sections).pipe(
        Layer.provideMerge(Layer.effect(ToolRegistry.ToolRegistry, ToolRegistry.make)),
        Layer.provide(McpSdkClient.layer),
        Layer.provide(NodeServices.layer)
      )
    )
  )
  const registry = yield* Effect.provideContext(ToolRegistry.ToolRegistry, context)
  const servers = yield* Effect.provideContext(McpServers.McpServers, context)
  const call = Effect.fnUntraced(function* (
    name: string,
    params: unknown,
    onProgress?: (output: unknown) => Effect.Effect<void>
  ) {
    const { get, names } = yield* registry.snapshot(ToolRegistry.everything)
    const bound = get(name)
    if (bound === undefined) return yield* Effect.die(`no tool ${name} among ${names.join(", ")}`)
    return yield* bound
      .run(params, "call_1", onProgress)
      .pipe(
        Effect.provideService(ToolContext, {
          sessionId: SessionId.make("s1"),
          turnId: TurnId.make("t1"),
          taskId: TaskId.make("s1"),
          cwd: "/"
        })
      )
  })
  return { registry, servers, call, snapshot: registry.snapshot(ToolRegistry.everything) }
})
