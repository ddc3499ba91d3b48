/**
 * Parts of a program's runtime that are loaded only if its settings require them: toolsets, MCP servers, plugins,
 * imported middleware and shell hooks.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import type { AgentFile, SubAgent } from "../../base/config/AgentFile.ts"
import * as DerivedSettings from "../../base/config/DerivedSettings.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import type { Values } from "../../base/config/Settings.ts"
import { type Service as Programs, UserPrograms } from "../../base/config/UserPrograms.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import { StartDirectory } from "../../base/platform/CurrentProcess.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import { bundled } from "../../observe/Bundled.ts"
import type * as MemoryStores from "../../tools/prompt/MemoryStore.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"
import { makePluginLayer, type PluginLayer, withoutPlugins } from "./AgentLayer.ts"
import type { Start } from "./ProgramStart.ts"

const loadMemoryToolset = ({ targets }: MemoryStores.Service) =>
  targets.length === 0
    ? Effect.succeed([])
    : Effect.map(
        Effect.promise(() => import("../../tools/builtin/MemoryTool.ts")),
        ({ toolset }) => [toolset]
      )

const loadSubAgentTool = (agents: ReadonlyArray<SubAgent>) =>
  agents.length === 0
    ? Effect.succeed([])
    : Effect.map(
        Effect.promise(() => import("../../tools/builtin/SubAgents.ts")),
        ({ make }) => [make(agents.map(({ agent, name }) => ({ name, description: agent.description })))]
      )

/**
 * Loads all built-in toolsets, the memory toolset unless the settings disable memory completely, and the tool for the
 * sub-agents of an agent file.
 */
export const loadToolsets = Effect.fnUntraced(function* (
  memory: MemoryStores.Service,
  agents: ReadonlyArray<SubAgent>
) {
  const builtin = yield* Effect.promise(() =>
    Promise.all([
      import("../../tools/builtin/FileTools.ts"),
      import("../../tools/builtin/TerminalTools.ts"),
      import("../../tools/builtin/Todo.ts"),
      import("../../tools/builtin/Delegate.ts"),
      import("../../tools/builtin/WebTools.ts"),
      import("../../tools/builtin/Vision.ts"),
      import("../../tools/builtin/SessionSearchTool.ts"),
      import("../../tools/builtin/Clarify.ts"),
      import("../../tools/builtin/ExecuteCode.ts"),
      import("../../tools/builtin/CronJobTool.ts"),
      import("../../tools/builtin/SkillTools.ts")
    ])
  )
  const [files, terminal, todo, delegation, web, vision, sessionSearch, clarify, code, cronJob, skills] = builtin
  return [
    files.toolset,
    terminal.toolset,
    todo.toolset,
    delegation.toolset,
    web.toolset,
    vision.toolset,
    sessionSearch.toolset,
    clarify.toolset,
    code.toolset,
    cronJob.toolset,
    skills.toolset,
    ...(yield* loadMemoryToolset(memory)),
    ...(yield* loadSubAgentTool(agents))
  ] as const
})

/** Connects the MCP servers. Their code is not loaded if no server is configured. */
export const connectServers = (
  { mcpServers }: Values,
  programs: Programs
): Layer.Layer<never, never, Home | ToolRegistry> =>
  Object.keys(mcpServers).length === 0
    ? Layer.empty
    : Layer.unwrap(
        Effect.map(
          Effect.promise(() =>
            Promise.all([
              import("../../tools/mcp/McpServers.ts"),
              import("../../tools/mcp/McpSdkClient.ts"),
              import("../../tools/mcp/McpLogins.ts")
            ])
          ),
          ([servers, client, logins]) =>
            servers
              .layer(mcpServers)
              .pipe(
                Layer.provide(client.layer.pipe(Layer.provide(logins.layer))),
                Layer.provide([ChildProcesses.layer, Layer.succeed(UserPrograms, programs)])
              )
        )
      )

/** Logs a warning if MCP servers start in an empty directory because the folder is not trusted. */
export const mentionStart = Effect.fnUntraced(function* (settings: Values) {
  if (DerivedSettings.listServersStartedHere(settings).length === 0) return
  const trust = yield* FolderTrust.make
  const folder = (yield* StartDirectory)()
  if (yield* trust.mayStartIn(folder)) return
  const remedy = FolderTrust.renderRemedy(yield* trust.findOwnProject(folder))
  yield* Effect.logWarning(
    "MCP servers start in an empty directory, because this folder is not trusted. Review the folder, then " +
      `run \`${remedy}\`, or set the cwd of each server`
  )
})

/** Creates the layer of the plugins that the user enabled. */
export const makeUserPluginsLayer = (
  settings: Values,
  cwd: string,
  { reserved, safeMode }: Pick<Start, "reserved" | "safeMode">
): PluginLayer<Home | Environment> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const home = yield* Home
      const environment = yield* Environment
      const { enabled, packages } = settings.plugins
      // If the user enabled no plugins, only bundled plugins are loaded, because they need no consent.
      const mayLoad =
        safeMode !== true &&
        (enabled.length > 0 ||
          environment.get("HERMES_BUNDLED_PLUGINS") !== undefined ||
          bundled.some(({ kind }) => kind === "backend" || kind === "platform"))
      return mayLoad
        ? makePluginLayer({
            places: {
              bundled,
              user: home.plugins,
              cwd,
              trust: yield* FolderTrust.make,
              packages,
              variable: environment.get
            },
            settings: settings.plugins,
            reserved
          })
        : withoutPlugins
    })
  )

type Imported = Effect.Effect<
  ReadonlyArray<Middleware.Contained>,
  ConfigError,
  Home | FileSystem.FileSystem | Path.Path | Scope.Scope
>

/**
 * Loads the middleware of `config.yaml`, followed by the middleware of the agent file. The code that imports middleware
 * is loaded only if middleware is configured.
 */
export const loadImports = Effect.fnUntraced(function* ({ middlewares }: Values, agentFile: AgentFile | undefined) {
  const nothing: Imported = Effect.succeed([])
  const isEmpty =
    middlewares.length === 0 &&
    (agentFile === undefined ||
      [agentFile, ...agentFile.subAgents.map(({ agent }) => agent)].every((agent) => agent.middlewares.length === 0))
  if (isEmpty) return { stack: nothing, ofAgent: () => nothing }
  const { make, fromSettings } = yield* Effect.promise(() => import("../../agent/builtin/MiddlewareImports.ts"))
  const toMiddleware = <R>(
    entries: Effect.Effect<
      ReadonlyArray<{ readonly middleware: Middleware.Contained }>,
      ConfigError,
      R | FolderTrust.FolderTrust
    >
  ) => Effect.map(entries, (all) => all.map(({ middleware }) => middleware)).pipe(Effect.provide(FolderTrust.layer))
  const importAgentMiddleware = (agent: AgentFile): Imported => toMiddleware(make(agent.middlewares, agent.file))
  const stack: Imported = Effect.zipWith(
    toMiddleware(fromSettings(middlewares)),
    agentFile === undefined ? nothing : importAgentMiddleware(agentFile),
    (a, b) => [...a, ...b]
  )
  return { stack, ofAgent: importAgentMiddleware }
})

/**
 * Returns the shell hooks from the settings. `confirmHook` asks the user about a hook that has not been approved yet.
 */
export const makeShellHooks = Effect.fnUntraced(function* (settings: Values, { confirmHook }: Start) {
  if (Object.keys(settings.hooks).length === 0) return []
  const home = yield* Home
  const environment = yield* Environment
  const { make } = yield* Effect.promise(() => import("../../hooks/ShellHooks.ts"))
  const service = yield* make({
    block: settings.hooks,
    home: home.root,
    accept: settings.hooksAutoAccept,
    confirm: confirmHook,
    cwd: (yield* StartDirectory)(),
    environment: environment.process
  })
  return yield* service.hooks
})
