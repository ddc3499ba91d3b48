/** The command environment of tools, wrapped as requested by the start. */
const makeCommandLayer = (
  place: ConfiguredEnvironment.Choice["layer"],
  inFront: Start["environment"]
): ConfiguredEnvironment.Choice["layer"] =>
  inFront === undefined
    ? place
    : Layer.effect(
        CommandEnvironment.CommandEnvironment,
        Effect.map(CommandEnvironment.CommandEnvironment, inFront)
      ).pipe(Layer.provide(place ?? Layer.fresh(CommandEnvironment.layerLocal)))

/**
 * The runtime of a program, with all parts configured from the user's settings, home directory and environment. Each
 * part is loaded on demand. `Runtime` re-exports it.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import * as Agent from "../../agent/Agent.ts"
import type { AgentFile, SubAgent } from "../../base/config/AgentFile.ts"
import * as DerivedSettings from "../../base/config/DerivedSettings.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import * as InheritedLimits from "../../base/config/InheritedLimits.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as Config from "../../base/config/Config.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import * as Secrets from "../../base/domain/Secrets.ts"
import * as CommandEnvironment from "../../places/CommandEnvironment.ts"
import { type Service as Programs, UserPrograms } from "../../base/config/UserPrograms.ts"
import type * as ShellHooks from "../../hooks/ShellHooks.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import { bundled } from "../../observe/Bundled.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import { StartDirectory } from "../../base/platform/CurrentProcess.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import * as ProviderSources from "../../agent/plugin/ProviderSources.ts"
import type { ReservedNames } from "../../agent/plugin/Registration.ts"
import * as MemoryStores from "../../tools/prompt/MemoryStore.ts"
import { SkillStore } from "../../tools/prompt/SkillStore.ts"
import { Provider, type Service as ProviderService } from "../../models/provider/Provider.ts"
import * as Catalogue from "../../models/routing/Catalogue.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import type { Logins } from "../../models/routing/Logins.ts"
import * as ModelRouter from "../../models/routing/ModelRouter.ts"
import * as OpenRoute from "../../models/routing/OpenRoute.ts"
import { SharedMarks } from "../../models/routing/SharedMarks.ts"
import * as SessionRetention from "../../store/SessionRetention.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import * as AllowList from "../../tools/approval/AllowList.ts"
import * as Permissions from "../../tools/approval/Permissions.ts"
import * as Approvals from "../../tools/Approvals.ts"
import * as ChangeRecording from "../../tools/ChangeRecording.ts"
import * as ResultText from "../../tools/ResultText.ts"
import * as Scanner from "../../tools/fence/Scanner.ts"
import * as ConfiguredEnvironment from "../../tools/ConfiguredEnvironment.ts"
import * as ConfiguredSkills from "../../tools/ConfiguredSkills.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import {
  makeAgentLayer,
  assemble,
  type PluginLayer,
  makePluginLayer,
  type Services,
  withoutPlugins
} from "./Assembly.ts"
import * as AgentFiles from "./AgentFiles.ts"
import * as SettingsMapping from "./SettingsMapping.ts"
import * as SideTasks from "./SideTasks.ts"

/** Substitutes of the configured models, and the recording of the exchange. */
interface Substitutes {
  /** File with a scenario that answers in place of a model. */
  readonly script?: string | undefined
  /** File with a recording that answers in place of a model. */
  readonly replay?: string | undefined
  /** The built-in stand-in answers, whatever is configured. */
  readonly withoutModel?: boolean | undefined
  /** File that the exchanges with the model are appended to. */
  readonly record?: string | undefined
}

type Recorder = (provider: ProviderService) => ProviderService

const readText = (path: string): Effect.Effect<string, ConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.mapError(
      (error) =>
        new ConfigError({
          path,
          message:
            error.reason._tag === "NotFound"
              ? `${path}: there is no such file`
              : `${path} cannot be read: ${error.message}`
        })
    )
  )

/** Errors inside a file are reported with its name. */
const addFileName =
  (path: string) =>
  ({ message }: ConfigError): ConfigError =>
    new ConfigError({ path, message: `${path}: ${message}` })

const loadScenario = Effect.fnUntraced(function* (path: string) {
  const text = yield* readText(path)
  const [{ parseScenario }, { make }] = yield* Effect.promise(() =>
    Promise.all([import("../../models/provider/offline/Scenario.ts"), import("../../models/provider/Offline.ts")])
  )
  return yield* make({ scenario: yield* Effect.mapError(parseScenario(text), addFileName(path)) })
})

const loadRecording = Effect.fnUntraced(function* (path: string) {
  const text = yield* readText(path)
  const { makeProvider } = yield* Effect.promise(() => import("../../models/provider/Replay.ts"))
  return yield* Effect.mapError(makeProvider(text.split("\n")), addFileName(path))
})

const standIn = Effect.flatMap(
  Effect.promise(() => import("../../models/provider/Offline.ts")),
  ({ make }) => make()
)

const makeRecorder = (path: string | undefined): Effect.Effect<Recorder, ConfigError, FileSystem.FileSystem> =>
  path === undefined
    ? Effect.succeed((provider) => provider)
    : Effect.gen(function* () {
        const Replay = yield* Effect.promise(() => import("../../models/provider/Replay.ts"))
        const sink = yield* Replay.toFile(path)
        return (provider) => Replay.recordProvider(provider, sink)
      })

/** True when something answers in place of the configured models. */
const isReplaced = ({ replay, script, withoutModel }: Substitutes): boolean =>
  script !== undefined || replay !== undefined || withoutModel === true

/** Substitute of the configured models, if there is one. */
const makeSubstitute = ({ replay, script, withoutModel }: Substitutes) => {
  if (script !== undefined) return loadScenario(script)
  if (replay !== undefined) return loadRecording(replay)
  return withoutModel === true ? standIn : undefined
}

const makeSingleProviderRouter = (provider: ProviderService): Layer.Layer<ModelRouter.ModelRouter> =>
  Layer.fresh(ModelRouter.layer).pipe(Layer.provide(Layer.succeed(Provider, provider)))

/** The logins of this user, looked for only where one may matter. */
const loadLogins = (
  settings: Values,
  start: Substitutes
): Effect.Effect<Logins | undefined, ConfigError, Home | FileSystem.FileSystem | Path.Path> =>
  isReplaced(start) || !ConfiguredRoutes.mayLogIn(settings)
    ? Effect.succeed(undefined)
    : Effect.flatMap(
        Effect.promise(() => import("../../models/routing/Logins.ts")),
        ({ loadLogins }) => loadLogins(settings)
      )

const makeRouter = Effect.fnUntraced(function* (
  settings: Values,
  recorded: Recorder,
  logins: Logins | undefined,
  { agentFile, unconfigured }: Pick<Start, "agentFile" | "unconfigured">
) {
  const home = yield* Home
  const environment = yield* Environment
  const { providers } = yield* Plugins.use(({ loaded }) => loaded)
  const configured = { settings, environment, logins, brought: providers }
  const missing = unconfigured === "standIn" ? undefined : ConfiguredRoutes.findMissingModel(configured)
  if (missing !== undefined) return yield* missing
  const { entries, problems } = yield* Effect.fromResult(ConfiguredRoutes.resolveChain(configured))
  const delegated = yield* Effect.fromResult(ConfiguredRoutes.resolveDelegated(configured))
  const ofSubAgents = yield* Effect.fromResult(AgentFiles.resolveRoutes(configured, agentFile))
  for (const problem of problems) yield* Effect.logWarning(problem)
  for (const line of ConfiguredRoutes.explainChain(settings, entries, delegated)) yield* Effect.logDebug(line)
  const known = OpenRoute.make({ routing: settings.providerRouting })
  // Side tasks and switches bring routes that the chain has not seen.
  const openGuarded: OpenRoute.Open = (route) =>
    Effect.flatMap(Effect.fromResult(DerivedSettings.addGuardrail(route, settings)), (guarded) =>
      (ProviderSources.findSource(providers, route.provider)?.open ?? known)(guarded)
    )
  const [first, ...further] = entries
  if (further.length === 0 && first.route.provider === "offline" && delegated === undefined && ofSubAgents.length === 0)
    return makeSingleProviderRouter(recorded(yield* standIn))
  const [{ layer }, PoolStore, EndpointMemory, RateGuard] = yield* Effect.promise(() =>
    Promise.all([
      import("../../models/routing/RoutedModelRouter.ts"),
      import("../../models/routing/PoolStore.ts"),
      import("../../models/routing/catalogue/EndpointMemory.ts"),
      import("../../models/routing/RateGuard.ts")
    ])
  )
  const endpoints = yield* EndpointMemory.openFile(home.root)
  const catalogue = yield* Catalogue.makeHome(home.root, settings, endpoints)
  const marks = yield* SharedMarks
  const pooled = entries.some(({ credentials = [] }) => credentials.length > 1)
  return layer({
    chain: entries,
    apart: [...(delegated === undefined ? [] : [delegated]), ...ofSubAgents],
    open: (route) => Effect.map(Effect.flatMap(Catalogue.addExtraBody(catalogue, route), openGuarded), recorded),
    maxAttempts: settings.agent.apiMaxRetries,
    catalogue,
    endpoints,
    streamRetries: settings.network.streamRetries,
    guard: marks?.guard ?? (yield* RateGuard.openFile(home.root)),
    ...(pooled ? { store: marks?.pools ?? (yield* PoolStore.openFile(home.root)) } : {})
  })
})

/** Layer of the router of a program. */
const makeRouterLayer = (
  settings: Values,
  start: Start,
  logins: Logins | undefined
): Layer.Layer<
  ModelRouter.ModelRouter,
  ConfigError,
  Home | Environment | FileSystem.FileSystem | Path.Path | Plugins
> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const recorded = yield* makeRecorder(start.record)
      const instead = makeSubstitute(start)
      return instead === undefined
        ? yield* makeRouter(settings, recorded, logins, start)
        : makeSingleProviderRouter(recorded(yield* instead))
    })
  )

/** Toolsets of a program beside those that it always has. */
const furtherToolsets = Effect.map(
  Effect.promise(() =>
    Promise.all([
      import("../../tools/builtin/WebTools.ts"),
      import("../../tools/builtin/Vision.ts"),
      import("../../tools/builtin/SessionSearchTool.ts"),
      import("../../tools/builtin/Clarify.ts"),
      import("../../tools/builtin/ExecuteCode.ts"),
      import("../../tools/builtin/CronJobTool.ts"),
      import("../../tools/builtin/SkillTools.ts")
    ])
  ),
  ([web, vision, sessionSearch, clarify, code, cronJob, skills]) =>
    [
      web.toolset,
      vision.toolset,
      sessionSearch.toolset,
      clarify.toolset,
      code.toolset,
      cronJob.toolset,
      skills.toolset
    ] as const
)

/** The toolset of the memory over sessions, unless the settings turn all of it off. */
const makeMemoryToolset = ({ targets }: MemoryStores.Service) =>
  targets.length === 0
    ? Effect.succeed([])
    : Effect.map(
        Effect.promise(() => import("../../tools/builtin/MemoryTool.ts")),
        ({ toolset }) => [toolset]
      )

/** Connects the MCP servers. Their code is not loaded if no server is configured. */
const connectServers = ({ mcpServers }: Values, programs: Programs): Layer.Layer<never, never, Home | ToolRegistry> =>
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

/** Says where MCP servers start that have no directory of their own and may not start here. */
const mentionStart = Effect.fnUntraced(function* (settings: Values) {
  if (DerivedSettings.listServersStartedHere(settings).length === 0) return
  const trust = yield* FolderTrust.make
  const folder = (yield* StartDirectory)()
  if (yield* trust.mayStartIn(folder)) return
  const remedy = FolderTrust.renderRemedy(yield* trust.projectOf(folder))
  yield* Effect.logWarning(
    `MCP servers start in an empty directory, because this folder is not trusted. Look at it, then run \`${remedy}\`, or set the cwd of each`
  )
})

/** The plugins of a program: those that its user enabled. */
const makeUserPluginsLayer = (
  settings: Values,
  cwd: string,
  { reserved, safeMode }: Pick<Start, "reserved" | "safeMode">
): PluginLayer<Home | Environment> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const home = yield* Home
      const environment = yield* Environment
      const { enabled, packages } = settings.plugins
      // Without one that the user enabled, only those load that need no consent, and those are bundled.
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
 * Middleware of `config.yaml`, followed by the middleware of the agent file. The code that imports middleware is loaded
 * only if some is configured.
 */
const loadImports = Effect.fnUntraced(function* ({ middlewares }: Values, agentFile: AgentFile | undefined) {
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

const makeSubAgentTool = (agents: ReadonlyArray<SubAgent>) =>
  Effect.map(
    Effect.promise(() => import("../../tools/builtin/SubAgents.ts")),
    ({ make }) => make(agents.map(({ agent, name }) => ({ name, description: agent.description })))
  )

/** Choices of one start of a program besides its settings. */
export interface Start extends Substitutes {
  /** Agent file whose middleware, prompt and sub-agents count; its settings are among the settings already. */
  readonly agentFile?: AgentFile | undefined
  /**
   * Result of settings that name neither a model nor the built-in stand-in: the layer fails with one line (`refused`,
   * when absent), or the stand-in answers, for a caller whose user was told so or that asks no model.
   */
  readonly unconfigured?: "refused" | "standIn" | undefined
  /** Asks whether a shell hook may run; absent if the user cannot be asked. */
  readonly confirmHook?: ShellHooks.Settings["confirm"]
  /** Starts new sessions without the user's files: `SOUL.md`, project files, memory. */
  readonly ignoreRules?: boolean | undefined
  /** No plugin is looked for, also none of a directory that the environment names. */
  readonly safeMode?: boolean | undefined
  /** System prompts of new sessions have the session's id. */
  readonly passSessionId?: boolean | undefined
  /** Names of commands that plugins cannot have. */
  readonly reserved?: ReservedNames | undefined
  /** Stored session that the program continues. */
  readonly session?: SessionId | undefined
  /** Directory in which commands run, if it is not the working directory. */
  readonly folder?: string | undefined
  /**
   * Database of the sessions and the run record, from which entries are never removed. Default: the database of the
   * home directory.
   */
  readonly database?: string | undefined
  /** Sessions and run record of several processes, in the place of a file. */
  readonly store?: ReturnType<typeof SessionStore.layerPostgres> | undefined
  /** Does not record file changes by tools: changes in the program's own workspaces are never undone. */
  readonly withoutChanges?: boolean | undefined
  /** Image of the container for a working tree, in the place of the settings' one. */
  readonly imageOf?: ((tree: string) => string | undefined) | undefined
  /** Puts something in front of the place where tools work. */
  readonly environment?: ((environment: CommandEnvironment.Service) => CommandEnvironment.Service) | undefined
  /** Middleware inside of all other: it sees the requests that are really sent. */
  readonly middleware?: ReadonlyArray<Middleware.Contained> | undefined
}

const makeShellHooks = Effect.fnUntraced(function* (settings: Values, { confirmHook }: Start) {
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

/**
 * The runtime of a program, with all parts configured from the user's settings, home directory and environment.
 *
 * **Details**
 *
 * The provider belongs to the configured route, sessions are stored in the home directory, and every built-in tool is
 * registered (a run selects from them). Plugins that the user enabled are loaded, and shell hooks that the user
 * approved run after the plugins' hooks. Settings that require an unavailable protection (`terminal.backend: docker`)
 * are rejected.
 */
export const program = (settings: Values, start: Start = {}): Layer.Layer<Services, ConfigError, Home | Environment> =>
  Secrets.provideRegistryLayer(
    Layer.unwrap(
      Effect.gen(function* () {
        const refusal = Config.findRefusal(settings)
        if (refusal !== undefined) return yield* refusal
        const home = yield* Home
        const environment = yield* Environment
        const configured = Layer.mergeAll(Layer.succeed(Home, home), Layer.succeed(Environment, environment))
        const inherited = InheritedLimits.readLimits(environment.process)
        const tooDeep = InheritedLimits.findRefusal(inherited)
        if (tooDeep !== undefined) return yield* tooDeep
        yield* home.ensure
        const memory = yield* MemoryStores.makeFromSettings(settings, home)
        const skills = yield* ConfiguredSkills.make(settings, { environment, home })
        const logins = yield* loadLogins(settings, start)
        const builtin = yield* Effect.promise(() =>
          Promise.all([
            import("../../tools/builtin/FileTools.ts"),
            import("../../tools/builtin/TerminalTools.ts"),
            import("../../tools/builtin/Todo.ts"),
            import("../../tools/builtin/Delegate.ts")
          ])
        )
        const programs = yield* ConfiguredEnvironment.makeUserPrograms(settings, { environment, home })
        yield* Effect.provide(mentionStart(settings), configured)
        const { agentFile } = start
        const importing = yield* loadImports(settings, agentFile)
        const middleware = yield* Effect.provide(importing.stack, configured)
        const agents = agentFile?.subAgents ?? []
        const [{ toolset: files }, { toolset: terminal }, { toolset: todo }, { toolset: delegation }] = builtin
        const commands = yield* ConfiguredEnvironment.choose(settings, {
          environment,
          home,
          folder: start.folder,
          imageOf: start.imageOf
        })
        const parts = {
          store:
            start.store !== undefined
              ? start.store
              : start.database === undefined
                ? SessionRetention.layerAuto(settings.sessions, start.session).pipe(
                    Layer.provideMerge(SessionStore.layerSqlite({ path: home.database }))
                  )
                : SessionStore.layerSqlite({ path: start.database, commitsWithin: "20 millis" }),
          record: undefined,
          environment: makeCommandLayer(commands.layer, start.environment),
          tools: [
            files,
            terminal,
            todo,
            delegation,
            ...(yield* furtherToolsets),
            ...(yield* makeMemoryToolset(memory)),
            ...(agents.length === 0 ? [] : [yield* makeSubAgentTool(agents)])
          ] as const,
          hooks: yield* Effect.provideService(makeShellHooks(settings, start), UserPrograms, programs),
          hookSettings: SettingsMapping.toHookSettings(settings),
          middleware,
          approvals: Approvals.layer().pipe(
            Layer.provide([
              AllowList.allowListFile,
              Permissions.layer.pipe(Layer.provide(FolderTrust.layer)),
              Scanner.layer
            ]),
            Layer.provide(Layer.succeed(Settings, settings)),
            Layer.provide([configured, ChildProcesses.layer])
          )
        }
        const mapped = yield* SettingsMapping.toAgentSettings(
          settings,
          { environment, home, logins },
          isReplaced(start)
        )
        const own =
          agentFile === undefined
            ? mapped
            : {
                ...mapped,
                ...AgentFiles.toAgentSettings(agentFile),
                delegation: {
                  ...mapped.delegation,
                  agents: yield* AgentFiles.makeSubAgents(
                    { settings, environment, logins, brought: ConfiguredRoutes.findUnknownProviders(settings) },
                    agentFile,
                    (agent) => Effect.provide(importing.ofAgent(agent), configured),
                    isReplaced(start)
                  )
                }
              }
        const agent = makeAgentLayer(
          Agent.Agent,
          (outermost) =>
            Agent.makeBounded<never, never>({
              ...own,
              passSessionId: start.passSessionId,
              outermost: [...outermost, ...middleware, ...(start.middleware ?? [])]
            }),
          start.ignoreRules === true ? "none" : { named: settings.memory.provider },
          settings.context.engine
        )
        return assemble(agent, parts, {
          places: SettingsMapping.makePlacesLayer(settings, { environment, home, inherited }),
          kept: Layer.merge(
            ResultText.layerFile(home.results),
            start.withoutChanges === true
              ? Layer.empty
              : ChangeRecording.layer({ directory: home.changes, apart: [home.root], home: environment.get("HOME") })
          ),
          plugged: Layer.merge(
            makeUserPluginsLayer(settings, (yield* StartDirectory)(), start),
            connectServers(settings, programs)
          ).pipe(Layer.provide(configured)),
          router: makeRouterLayer(settings, start, logins).pipe(Layer.provide(configured)),
          helpers: isReplaced(start) ? SideTasks.ownProvider : SideTasks.fromProgram(settings, environment, logins)
        }).pipe(
          Layer.provide([
            SettingsMapping.makeToolsLayer(settings, inherited),
            SettingsMapping.makeToolPortsLayer(settings, environment, home),
            SettingsMapping.makePromptSourcesLayer(settings, {
              commands: commands.description,
              directory: commands.directory,
              environment,
              home,
              memory,
              skills,
              withoutRules: start.ignoreRules === true
            }),
            Layer.succeed(MemoryStores.MemoryStore, memory),
            SettingsMapping.makeCompactionLayer(settings)
          ]),
          Layer.provideMerge(Layer.succeed(SkillStore, skills))
        )
      })
    ).pipe(Layer.provide(ChildProcesses.layer))
  )
