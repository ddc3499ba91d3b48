import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent, Mcp, Runtime } from "../../src/index.ts"
import { McpServers } from "../../src/kit/entry/tools/mcp.ts"

// Three published servers. They are switched off here, so that this file runs without the network.
const enabled = process.env["WITH_SERVERS"] === "1"
const servers = Mcp.layer({
  files: {
    command: "npx",
    args: ["-y", "@modelcontextprotocol/server-filesystem", "."],
    trust: "annotations",
    enabled
  },
  memory: { command: "npx", args: ["-y", "@modelcontextprotocol/server-memory"], trust: "full", enabled },
  all: { command: "npx", args: ["-y", "@modelcontextprotocol/server-everything"], trust: { tools: ["echo"] }, enabled }
})

const program = Effect.gen(function* () {
  const { text } = yield* Agent.run({ prompt: "Reply exactly hello" })
  const { status } = yield* McpServers.McpServers
  return [text, ...(yield* status).map(({ name, state }) => `${name}: ${state}`)]
})

console.log(await program.pipe(Effect.provide(Layer.provideMerge(servers, Runtime.layer())), Effect.runPromise))
// => [ 'hello', 'files: disabled', 'memory: disabled', 'all: disabled' ]
