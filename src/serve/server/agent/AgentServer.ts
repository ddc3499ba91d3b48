/**
 * Serves an agent over HTTP: the APIs of OpenAI for any of its clients, sessions with events, approvals and steering,
 * MCP, metrics.
 *
 * **Details**
 *
 * Bodies, connections, requests and sessions are bounded. Every client presents a key; a server without a configured
 * key makes one and returns it. Additional keys have names: each has separate sessions and bounds. Their mode is no
 * looser than the server's mode, or `maxMode` of the key. They approve one call at a time, and no command outside the
 * sandbox. When the scope closes, open requests have ten seconds to finish; then runs are interrupted and keep their
 * stored state.
 *
 * **Gotchas**
 *
 * A client with the key works with the rights of the agent: its tools run here. An `open` server gives them to every
 * user and process of the machine.
 *
 * **Example** (A server that is alive)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Runtime } from "hermes-effect"
 * import { AgentServer } from "hermes-effect/server"
 *
 * const program = Effect.gen(function*() {
 *   const { url } = yield* AgentServer.serve({ port: 0, cwd: process.cwd() })
 *   return yield* Effect.promise(() => fetch(`${url}/health`).then((response) => response.text()))
 * })
 *
 * console.log(await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(Runtime.layer()))))
 * // => {"status":"ok"}
 * ```
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Agent } from "../../../agent/Agent.ts"
import type { BackgroundWork } from "../../../agent/BackgroundWork.ts"
import * as PermissionMode from "../../../base/config/PermissionMode.ts"
import type { Hooks } from "../../../hooks/Hooks.ts"
import type { ModelRouter } from "../../../models/routing/ModelRouter.ts"
import type { RunRecord } from "../../../store/RunRecord.ts"
import type { SessionStore } from "../../../store/SessionStore.ts"
import { CurrentBounds, ofClient, ofOwner } from "../../../tools/approval/ApprovalBounds.ts"
import type { OfferedTool } from "../../../tools/mcp/McpHost.ts"
import { everything, type ToolRegistry } from "../../../tools/ToolRegistry.ts"
import type * as HermesServer from "../HermesServer.ts"
import * as ServerKeys from "../ServerKeys.ts"
import type * as AgentSessions from "./AgentSessions.ts"

/** Address and bounds of the server, and values of its sessions. */
export interface Options extends HermesServer.Options, Partial<Omit<AgentSessions.Options, "client">> {
  /** Directory of the tools. */
  readonly cwd: string
  /** Keys of further clients besides `key`, each with separate sessions. */
  readonly keys?: ReadonlyArray<ServerKeys.NamedKey> | undefined
  /**
   * Tools that `/mcp` offers, or a function of the name of the key that asks (undefined: the server's own); none when
   * absent.
   */
  readonly mcpTools?:
    | ReadonlyArray<OfferedTool>
    | ((client: string | undefined) => ReadonlyArray<OfferedTool>)
    | undefined
}

/** Limits the runs of a tool to the approvals of a client, and to its mode, if any. */
const limitTool =
  (mode: PermissionMode.PermissionMode | undefined) =>
  (tool: OfferedTool): OfferedTool => ({
    ...tool,
    run: (...given) => {
      const run = Effect.provideService(tool.run(...given), CurrentBounds, ofClient)
      return mode === undefined ? run : Effect.provideService(run, PermissionMode.CurrentMode, mode)
    }
  })

/**
 * Serves the agent in the context as long as the scope lives. Fails with the reason when it may not be started so, or
 * the port cannot be used.
 */
export const serve = (
  options: Options
): Effect.Effect<
  HermesServer.RunningServer,
  string,
  Agent | BackgroundWork | Hooks | ModelRouter | RunRecord | Scope.Scope | SessionStore | ToolRegistry
> =>
  Effect.gen(function* () {
    const [{ serve }, sessions] = yield* Effect.promise(() =>
      Promise.all([import("./AgentHandlers.ts"), import("./AgentSessions.ts")])
    )
    const { keys = [], maxSessions, mcpTools = [], mode = "ask", tools = everything, ...shared } = options
    const makeClientSessions = (client: Partial<ServerKeys.NamedKey>) => {
      const { maxMode = client.name === undefined ? undefined : mode } = client
      const isOwner = client.name === undefined
      const offered = typeof mcpTools === "function" ? mcpTools(client.name) : mcpTools
      const limit = limitTool(
        client.maxMode === undefined ? undefined : PermissionMode.selectNarrower(mode, client.maxMode)
      )
      return Effect.map(
        sessions.make({
          models: Effect.succeed([]),
          ...shared,
          mode: PermissionMode.selectNarrower(mode, maxMode ?? mode),
          maxMode,
          client: client.name,
          tools: isOwner ? tools : ServerKeys.limitTools(tools),
          maxSessions: client.maxSessions ?? maxSessions
        }),
        (made) => ({ sessions: made, mcpTools: isOwner ? offered : offered.map(limit) })
      ).pipe(Effect.provideService(CurrentBounds, isOwner ? ofOwner : ofClient))
    }
    const named = yield* Effect.forEach(keys, (key) =>
      Effect.map(makeClientSessions(key), (served) => ({ ...served, key }))
    )
    return yield* serve(options, yield* makeClientSessions({}), named)
  })
