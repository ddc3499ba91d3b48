/**
 * Agents of submitted runs, both on the machine that submits a run and on the runner that executes it.
 *
 * A runner creates a runtime from its own settings, overridden by the settings of the submission, and retains it while
 * runs use it. All runtimes of a runner share one session store and the state of API keys. If something is missing (a
 * key, a tool), the run fails with one line that names the machine.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as RcMap from "effect/RcMap"
import { Agent } from "../../agent/Agent.ts"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import * as Config from "../../base/config/Config.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ClusterError } from "../../serve/cluster/Cluster.ts"
import type * as DurableRun from "../../serve/cluster/DurableRun.ts"
import * as SubmittedAgent from "../../serve/cluster/SubmittedAgent.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as PostgresLeases from "../../base/platform/PostgresLeases.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import type { Episodes } from "../../research/rollout/Episodes.ts"
import type { Capture } from "../../research/rollout/RolloutCapture.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import type { Start } from "../runtime/ProgramStart.ts"
import { Program, type Service as ProgramService } from "./Program.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"

/** Stores the agent defined by the settings on this machine, so that runners can open it. Returns its digest. */
export const storeSubmittedAgent = Effect.fnUntraced(function* (settings: Values, agentFile: AgentFile | undefined) {
  const fs = yield* FileSystem.FileSystem
  const { prefillMessagesFile: path } = settings
  const prefill =
    path === undefined
      ? undefined
      : yield* Effect.mapError(
          fs.readFileString(path),
          (error) =>
            new ConfigError({
              path: "prefill_messages_file",
              message: `prefill_messages_file: ${path}: ${describeReason(error)}`
            })
        )
  return yield* SubmittedAgent.storeContent(yield* SubmittedAgent.buildContent(settings, agentFile, prefill))
})

/** Services of a runtime. */
export type RuntimeServices = Layer.Success<ReturnType<ProgramService["layer"]>>

/** A runtime, with the options for its agent's runs. */
export interface AgentRuntime {
  readonly services: Context.Context<RuntimeServices>
  readonly settings: Values
  readonly agentFile: AgentFile | undefined
  /** Recording of the model calls of rollouts, in a runtime for them. */
  readonly rollouts?: RolloutRecording | undefined
}

/** Recording of the model calls of rollouts. */
interface RolloutRecording {
  readonly capture: Capture
  readonly episodes: Context.Context<Episodes>
  /** Directory of the episodes that are recorded. */
  readonly directory: string
}

/**
 * Runtime in which an agent of a submission works: for turns of conversations, for rows (without the files of the user
 * of the runner), in workspaces that the runner creates and that commands may write to, or for rollouts, whose model
 * calls are recorded and whose conversations are never compacted.
 */
export type RuntimeSetup = "rollouts" | "rows" | "turns" | "workspaces"

/** Choice of the runtime for an agent of a submission. */
export interface RuntimeChoice {
  readonly setup: RuntimeSetup
  /** Container image that replaces the image of the settings. */
  readonly image?: string | undefined
  /** Paths on the runner that commands cannot read. */
  readonly hide?: ReadonlyArray<string> | undefined
}

/** Services that the runtimes of all agents of a runner share. */
export interface SharedServices {
  readonly script: string | undefined
  readonly store: NonNullable<Start["store"]>
  /** Layer with the states of API keys and the approval mode of unattended runs. */
  readonly surroundings: Layer.Layer<never>
}

/** Fails if a submission names tools that this runner does not have. */
export const refuseUnknown = Effect.fnUntraced(function* (
  names: ReadonlyArray<string>,
  { services, settings }: AgentRuntime
) {
  const {
    unknown: [first]
  } = Toolsets.choose(names, yield* Context.get(services, ToolRegistry).list, settings.disabledToolsets)
  if (first !== undefined) {
    return yield* new ConfigError({
      path: "tools",
      message: `runner on ${PostgresLeases.hostOfProcess()}: toolset or tool "${first.name}" does not exist here`
    })
  }
})

/** Identifies a runtime. Equal keys share it. */
class RuntimeKey extends Data.Class<RuntimeChoice & { readonly digest: string }> {}

const makeRuntimeKey = (digest: string, { hide, image, setup }: RuntimeChoice): RuntimeKey =>
  new RuntimeKey({
    digest,
    setup,
    ...(image === undefined ? {} : { image }),
    ...(hide === undefined || hide.length === 0 ? {} : { hide })
  })

/** Opens the recording of rollouts. */
const openRecording = Effect.fnUntraced(function* (directory: string) {
  const [Episodes, EpisodeStore, RolloutCapture] = yield* Effect.promise(() =>
    Promise.all([
      import("../../research/rollout/Episodes.ts"),
      import("../../research/rollout/EpisodeStore.ts"),
      import("../../research/rollout/RolloutCapture.ts")
    ])
  )
  const episodes = yield* Layer.build(Episodes.layer.pipe(Layer.provide(EpisodeStore.layerDirectory(directory))))
  const recording: RolloutRecording = {
    capture: yield* Effect.provide(RolloutCapture.make(), episodes),
    episodes,
    directory
  }
  return recording
})

/** Returns the settings of a runtime. */
const toRuntimeSettings = (settings: Values, { hide = [], image, setup }: RuntimeChoice): Values => {
  const own = setup === "workspaces" ? RunnerRuntime.toWorkspaceSettings(settings) : settings
  const { terminal } = own
  return {
    ...own,
    terminal: {
      ...terminal,
      dockerImage: image ?? terminal.dockerImage,
      sandbox: { ...terminal.sandbox, hide: [...terminal.sandbox.hide, ...hide] }
    }
  }
}

/** Selects the tools that the agent file of a submission names, or its settings. */
export const selectTools = Effect.fnUntraced(function* (opened: AgentRuntime) {
  const { agentFile, services, settings } = opened
  const names =
    agentFile?.tools === undefined
      ? settings.toolsets
      : [...agentFile.tools, ...(agentFile.subAgents.length > 0 ? [Toolsets.ofSubAgents] : [])]
  yield* refuseUnknown(names, opened)
  const registered = yield* Context.get(services, ToolRegistry).list
  return Toolsets.choose(names, registered, settings.disabledToolsets).selection
})

/** Writes the example messages of a submission to a file. */
const writePrefill = Effect.fnUntraced(
  function* (folder: string, path: string, text: string) {
    const fs = yield* FileSystem.FileSystem
    yield* fs.makeDirectory(folder, { recursive: true, mode: 0o700 })
    yield* fs.writeFileString(path, text)
  },
  (work, _, path) =>
    Effect.mapError(work, (error) => new ConfigError({ path, message: `${path}: ${describeReason(error)}` }))
)

/** Creates the function that opens the agent of a submission by its digest, or the runner's own agent. */
export const make = Effect.fnUntraced(function* (own: Values, { script, store, surroundings }: SharedServices) {
  const program = yield* Program
  const paths = yield* Path.Path
  const home = yield* Home
  const options = Flags.toConfigOptions(yield* hermes)
  const folder = paths.join(home.root, "cluster", "agents")
  const episodesFolder = paths.join(home.root, "cluster", "rollouts", "episodes")

  const makeRuntimeLayer = (
    settings: Values,
    start: Pick<Start, "agentFile" | "ignoreRules" | "middleware" | "unconfigured" | "withoutChanges"> = {}
  ) => program.layer(settings, { ...start, script, store }).pipe(Layer.provide(surroundings))

  const buildRuntime = Effect.fnUntraced(
    function* (key: RuntimeKey) {
      const { digest, setup } = key
      const { agentFile, flags, prefill } = yield* SubmittedAgent.load(digest, folder)
      const path = paths.join(folder, `${digest}.json`)
      if (prefill !== undefined) yield* writePrefill(folder, path, prefill)
      const { settings: loaded } = yield* Config.load({
        ...options,
        flags: [
          ...(options.flags ?? []),
          ...flags,
          ...(setup === "rollouts" ? RunnerRuntime.rolloutFlags : []),
          { name: "submission", key: "prefill_messages_file", value: prefill === undefined ? undefined : path }
        ]
      })
      const settings = toRuntimeSettings(loaded, key)
      const rollouts = setup === "rollouts" ? yield* openRecording(episodesFolder) : undefined
      const own = {
        ...(setup === "turns" ? {} : { ignoreRules: true, withoutChanges: true }),
        ...(rollouts === undefined ? {} : { middleware: [rollouts.capture.middleware] })
      }
      const opened: AgentRuntime = {
        services: yield* Layer.build(makeRuntimeLayer(settings, { ...own, agentFile })),
        settings,
        agentFile,
        rollouts
      }
      return opened
    },
    Effect.mapError(
      (error: ConfigError | ClusterError) =>
        new ConfigError({
          path: "cluster",
          message: `runner on ${PostgresLeases.hostOfProcess()}: ${error.message.split("\n", 1)[0] ?? ""}`
        })
    )
  )

  const runtimes = yield* RcMap.make({ lookup: buildRuntime, idleTimeToLive: "5 minutes" })
  // A submission may name the model, so the runner does not need a configured model. A run without a model is refused.
  const missing =
    script === undefined
      ? ConfiguredRoutes.findMissingModel({ settings: own, environment: yield* Environment })
      : undefined
  const mine: AgentRuntime = {
    services: yield* Layer.build(makeRuntimeLayer(own, { unconfigured: "standIn" })),
    settings: own,
    agentFile: undefined
  }
  const ofRunner: Effect.Effect<AgentRuntime, ConfigError> =
    missing === undefined ? Effect.succeed(mine) : Effect.fail(missing)
  const open = (digest: string | undefined, choice: RuntimeChoice = { setup: "turns" }) =>
    digest === undefined ? ofRunner : RcMap.get(runtimes, makeRuntimeKey(digest, choice))

  /** Opens the agent of a turn, with the tools named in its agent file. */
  const ofTurn: DurableRun.AgentOpener = (digest) =>
    Effect.gen(function* () {
      const opened = yield* open(digest)
      return { services: opened.services, tools: yield* selectTools(opened) }
    })
  return { open, ofTurn, mine, agent: Context.get(mine.services, Agent) }
})
