/**
 * The layers of a program's runtime, configured from the user's settings, home directory and environment. Each part is
 * loaded on demand.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../agent/Agent.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import * as GitBranch from "../../base/platform/GitBranch.ts"
import * as Config from "../../base/config/Config.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import * as InheritedLimits from "../../base/config/InheritedLimits.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import { UserPrograms } from "../../base/config/UserPrograms.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import { StartDirectory } from "../../base/platform/CurrentProcess.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import type { Logins } from "../../models/routing/Logins.ts"
import * as CommandEnvironment from "../../places/CommandEnvironment.ts"
import * as SessionRetention from "../../store/SessionRetention.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import * as AllowList from "../../tools/approval/AllowList.ts"
import * as Permissions from "../../tools/approval/Permissions.ts"
import * as Approvals from "../../tools/Approvals.ts"
import * as ChangeRecording from "../../tools/ChangeRecording.ts"
import * as ConfiguredEnvironment from "../../tools/ConfiguredEnvironment.ts"
import { makeUserPrograms } from "../../tools/environment/ConfiguredPrograms.ts"
import * as ConfiguredSkills from "../../tools/ConfiguredSkills.ts"
import * as Scanner from "../../tools/fence/Scanner.ts"
import * as MemoryStores from "../../tools/prompt/MemoryStore.ts"
import { SkillStore } from "../../tools/prompt/SkillStore.ts"
import * as ResultText from "../../tools/ResultText.ts"
import * as ToolRegistry from "../../tools/ToolRegistry.ts"
import * as AgentFiles from "./AgentFiles.ts"
import { makeAgentLayer } from "./AgentLayer.ts"
import * as ProgramParts from "./ProgramParts.ts"
import * as ProgramRouter from "./ProgramRouter.ts"
import type { Start } from "./ProgramStart.ts"
import * as SettingsMapping from "./SettingsMapping.ts"
import * as SummaryPauses from "../../tools/prompt/compaction/SummaryPauses.ts"
import * as SideTasks from "./SideTasks.ts"
import * as StoredSessions from "./StoredSessions.ts"
import { makeRetentionLayer, makeTenantsLayer } from "./TenantSettings.ts"

export type { Start } from "./ProgramStart.ts"

/** The home directory and the environment of the user, as values and as a layer. */
interface Surroundings {
  readonly environment: Environment["Service"]
  readonly home: Home["Service"]
  readonly configured: Layer.Layer<Home | Environment>
}

/** Creates the layer of the command environment for tools. A function in the start options may wrap the environment. */
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
 * Creates the layer of the session store that the start options select. Default: the database in the home directory.
 */
const makeStoreLayer = (settings: Values, { database, session, store }: Start, home: Surroundings["home"]) => {
  if (store !== undefined) return store
  return database === undefined
    ? Layer.merge(SessionRetention.layerAuto(settings.sessions, session), makeRetentionLayer(settings)).pipe(
        Layer.provideMerge(StoredSessions.makeLayer(settings, home.database))
      )
    : SessionStore.layerSqlite({ path: database, commitsWithin: "20 millis" })
}

const makeApprovalsLayer = (settings: Values, configured: Surroundings["configured"]) =>
  Approvals.layer().pipe(
    Layer.provide([AllowList.allowListFile, Permissions.layer.pipe(Layer.provide(FolderTrust.layer)), Scanner.layer]),
    Layer.provide(Layer.succeed(Settings, settings)),
    Layer.provide([configured, ChildProcesses.layer])
  )

/** Creates the settings of the agent, overridden by the agent file. */
const makeAgentSettings = Effect.fnUntraced(function* (
  settings: Values,
  start: Start,
  { configured, environment, home }: Surroundings,
  logins: Logins | undefined,
  importing: Effect.Success<ReturnType<typeof ProgramParts.loadImports>>
) {
  const { agentFile } = start
  const isReplaced = ProgramRouter.isReplaced(start)
  const mapped = yield* SettingsMapping.toAgentSettings(settings, { environment, home, logins }, isReplaced)
  if (agentFile === undefined) return mapped
  return {
    ...mapped,
    ...AgentFiles.toAgentSettings(agentFile),
    delegation: {
      ...mapped.delegation,
      agents: yield* AgentFiles.makeSubAgents(
        { settings, environment, logins, brought: ConfiguredRoutes.findUnknownProviders(settings) },
        agentFile,
        (agent) => Effect.provide(importing.ofAgent(agent), configured),
        isReplaced
      )
    }
  }
})

type AgentSettings = Effect.Success<ReturnType<typeof makeAgentSettings>>

/** Creates the layer of the agent with its middleware. Middleware from the start options is innermost. */
const makeConfiguredAgentLayer = (
  settings: Values,
  start: Start,
  own: AgentSettings,
  middleware: ReadonlyArray<Middleware.Contained>
) =>
  makeAgentLayer(
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

const makeChangesLayer = (start: Start, { environment, home }: Surroundings) =>
  start.withoutChanges === true
    ? Layer.empty
    : ChangeRecording.layer({ directory: home.changes, apart: [home.root], home: environment.get("HOME") })

/** Returns the surroundings, if the settings and the limits of the process allow a runtime. */
const checkSurroundings = Effect.fnUntraced(function* (settings: Values) {
  const refusal = Config.findRefusal(settings)
  if (refusal !== undefined) return yield* refusal
  const home = yield* Home
  const environment = yield* Environment
  const configured = Layer.mergeAll(Layer.succeed(Home, home), Layer.succeed(Environment, environment))
  const inherited = InheritedLimits.readLimits(environment.process)
  const tooDeep = InheritedLimits.findRefusal(inherited)
  if (tooDeep !== undefined) return yield* tooDeep
  yield* home.ensure
  return { surroundings: { configured, environment, home } satisfies Surroundings, inherited }
})

/**
 * Makes the layers of a program's runtime from the settings, and the services under them.
 *
 * @see `Runtime.program`, which puts them on top of each other.
 */
export const makeLayers = Effect.fnUntraced(function* (settings: Values, start: Start) {
  const { inherited, surroundings } = yield* checkSurroundings(settings)
  const { configured, environment, home } = surroundings
  const memory = yield* MemoryStores.makeFromSettings(settings, home)
  const skills = yield* ConfiguredSkills.make(settings, { environment, home })
  const logins = yield* ProgramRouter.loadLogins(settings, start)
  const programs = yield* makeUserPrograms(settings, { environment, home })
  yield* Effect.provide(ProgramParts.mentionStart(settings), configured)
  const importing = yield* ProgramParts.loadImports(settings, start.agentFile)
  const middleware = yield* Effect.provide(importing.stack, configured)
  const commands = yield* ConfiguredEnvironment.choose(settings, {
    environment,
    home,
    folder: start.folder,
    findImage: start.findImage
  })
  const own = yield* makeAgentSettings(settings, start, surroundings, logins, importing)
  const layers = {
    agent: makeConfiguredAgentLayer(settings, start, own, middleware),
    approvals: makeApprovalsLayer(settings, configured),
    sideTasks: SideTasks.make(
      ProgramRouter.isReplaced(start) ? SideTasks.ownProvider : SideTasks.fromProgram(settings, environment, logins),
      middleware
    ),
    router: ProgramRouter.makeRouterLayer(settings, start, logins).pipe(Layer.provide(configured)),
    hooks: Hooks.layerListed(
      yield* Effect.provideService(ProgramParts.makeShellHooks(settings, start), UserPrograms, programs)
    ),
    plugins: Layer.merge(
      ProgramParts.makeUserPluginsLayer(settings, (yield* StartDirectory)(), start),
      ProgramParts.connectServers(settings, programs)
    ).pipe(Layer.provide(configured)),
    tools: ToolRegistry.layer(yield* ProgramParts.loadToolsets(memory, start.agentFile?.subAgents ?? [])),
    hookSettings: SettingsMapping.toHookSettings(settings),
    record: undefined,
    store: makeStoreLayer(settings, start, home),
    places: SettingsMapping.makePlacesLayer(settings, { environment, home, inherited }),
    results: Layer.merge(ResultText.layerFile(home.results), makeChangesLayer(start, surroundings)),
    environment: makeCommandLayer(commands.layer, start.environment)
  }
  const services = Layer.mergeAll(
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
    GitBranch.layer,
    Layer.succeed(MemoryStores.MemoryStore, memory),
    SettingsMapping.makeCompactionLayer(settings),
    Layer.effect(SummaryPauses.SummaryPauses, SummaryPauses.openFile(home.root))
  )
  // The router finds the plugin of a provider, and plugins are loaded after the tenants.
  const brought = settings.plugins.enabled.length === 0 ? [] : ConfiguredRoutes.findUnknownProviders(settings)
  const tenants = makeTenantsLayer(
    settings,
    home,
    ProgramRouter.isReplaced(start) ? undefined : { settings, environment, logins, brought }
  )
  return { layers, services, skills: Layer.succeed(SkillStore, skills), tenants }
})
