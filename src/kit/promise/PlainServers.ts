/**
 * MCP servers among the tools of a runtime without Effect.
 *
 * **Example** (A server that is started as a program)
 *
 * ```ts
 * import { createHermes, mcp } from "hermes-effect/promise"
 *
 * const files = mcp("files", {
 *   command: "npx",
 *   args: ["-y", "@modelcontextprotocol/server-filesystem", "."],
 *   trust: "annotations",
 *   enabled: false
 * })
 *
 * const hermes = createHermes({ model: "offline", tools: [files] })
 * await hermes.dispose()
 * ```
 */
import type { Server } from "../../tools/mcp/Mcp.ts"

/** MCP servers for a runtime, created by {@link mcp}. */
export interface HermesMcp {
  readonly mcp: Readonly<Record<string, Server>>
}

/**
 * Adds an MCP server to the tools of a runtime, under a name that begins the names of its tools. It is connected with
 * the first run, which rejects with a `ConfigError` if no server can have these settings.
 */
export const mcp = (name: string, server: Server): HermesMcp => ({ mcp: { [name]: server } })
