/**
 * Serves an agent over HTTP: the OpenAI APIs for any OpenAI client, sessions with events, approvals and steering, MCP,
 * and metrics.
 *
 * **Details**
 *
 * The number of connections, requests and sessions and the size of bodies are limited. Every client must send a key. A
 * server without a configured key generates one and returns it. Additional keys have names. Each named key has separate
 * sessions and limits, and its mode permits no more than the server's mode and the key's `maxMode`. A client with a
 * named key can approve only one call at a time, and cannot approve commands outside the sandbox. When the scope
 * closes, open requests have ten seconds to finish; then runs are interrupted and keep their stored state.
 *
 * **Gotchas**
 *
 * A client with a key has the rights of the agent, whose tools run on the server. An `open` server grants these rights
 * to every user and process on the machine.
 *
 * **Example** (Checking that a server is running)
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
import { CurrentTenant } from "../../../store/TenantScope.ts"
import { DefaultDirectory } from "../../../agent/RunDirectory.ts"
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

/** Address and limits of the server, and options of its sessions. */
export interface Options extends HermesServer.Options, Partial<Omit<AgentSessions.Options, "client" | "tenant">> {
  /** Working directory of the tools, except in the workspace of a tenant. */
  readonly cwd: string
  /** Additional client keys besides `key`, each with separate sessions. */
  readonly keys?: ReadonlyArray<ServerKeys.NamedKey> | undefined
  /**
   * Tools offered by `/mcp`, or a function that selects them. The function receives the name of the caller's key, or
   * `undefined` for the server's own key. If absent, no tools are offered.
   */
  readonly mcpTools?:
    | ReadonlyArray<OfferedTool>
    | ((client: string | undefined) => ReadonlyArray<OfferedTool>)
    | undefined
}

/**
 * Applies the approval limits and the tenant of a client to the runs that a tool starts, and the client's mode, if it
 * has one.
 */
const limitTool =
  (mode: PermissionMode.PermissionMode | undefined, tenant: string | undefined) =>
  (tool: OfferedTool): OfferedTool => ({
    ...tool,
    run: (...given) => {
      const run = tool
        .run(...given)
        .pipe(Effect.provideService(CurrentBounds, ofClient), Effect.provideService(CurrentTenant, tenant))
      return mode === undefined ? run : Effect.provideService(run, PermissionMode.CurrentMode, mode)
    }
  })

/**
 * Serves the agent in the context for the lifetime of the scope. Fails with a reason if the options are not allowed or
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
        client.maxMode === undefined ? undefined : PermissionMode.selectNarrower(mode, client.maxMode),
        client.tenant
      )
      return Effect.map(
        sessions.make({
          models: Effect.succeed([]),
          ...shared,
          // Without a directory, runs of a tenant work in its workspace, if it has one.
          cwd: client.tenant === undefined ? shared.cwd : undefined,
          mode: PermissionMode.selectNarrower(mode, maxMode ?? mode),
          maxMode,
          client: client.name,
          tenant: client.tenant,
          tools: isOwner ? tools : ServerKeys.limitTools(tools),
          maxSessions: client.maxSessions ?? maxSessions
        }),
        (made) => ({ sessions: made, mcpTools: isOwner ? offered : offered.map(limit), tenant: client.tenant })
      ).pipe(
        Effect.provideService(CurrentBounds, isOwner ? ofOwner : ofClient),
        Effect.provideService(CurrentTenant, client.tenant)
      )
    }
    const named = yield* Effect.forEach(keys, (key) =>
      Effect.map(makeClientSessions(key), (served) => ({ ...served, key }))
    )
    return yield* serve(options, yield* makeClientSessions({}), named)
  }).pipe(Effect.provideService(DefaultDirectory, options.cwd))
