/**
 * Agents of submitted runs, both on the machine that submits a run and on the runner that executes it.
 *
 * A runner creates a runtime from its own settings, overridden by the settings of the submission, and retains it while
 * runs use it. All runtimes of a runner share one session store and the state of API keys. If something is missing (a
 * key, a tool), the run fails with one line that names the machine.
 */
import * as Context from "effect/Context"
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
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import type { Start } from "../runtime/ProgramStart.ts"
import { Program, type Service as ProgramService } from "./Program.ts"

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

type Runtime = Layer.Success<ReturnType<ProgramService["layer"]>>

/** A runtime, with the options for its agent's runs. */
export interface AgentRuntime {
  readonly services: Context.Context<Runtime>
  readonly settings: Values
  readonly agentFile: AgentFile | undefined
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

/** Creates the function that opens the agent of a submission by its digest, or the runner's own agent. */
export const make = Effect.fnUntraced(function* (own: Values, { script, store, surroundings }: SharedServices) {
  const program = yield* Program
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const home = yield* Home
  const options = Flags.toConfigOptions(yield* hermes)
  const folder = paths.join(home.root, "cluster", "agents")

  const makeRuntimeLayer = (settings: Values, start: Pick<Start, "agentFile" | "unconfigured"> = {}) =>
    program.layer(settings, { ...start, script, store }).pipe(Layer.provide(surroundings))

  const buildRuntime = Effect.fnUntraced(
    function* (digest: string) {
      const { agentFile, flags, prefill } = yield* SubmittedAgent.load(digest, folder)
      const path = paths.join(folder, `${digest}.json`)
      if (prefill !== undefined) {
        yield* Effect.mapError(
          Effect.andThen(fs.makeDirectory(folder, { recursive: true, mode: 0o700 }), fs.writeFileString(path, prefill)),
          (error) => new ConfigError({ path, message: `${path}: ${describeReason(error)}` })
        )
      }
      const { settings } = yield* Config.load({
        ...options,
        flags: [
          ...(options.flags ?? []),
          ...flags,
          { name: "submission", key: "prefill_messages_file", value: prefill === undefined ? undefined : path }
        ]
      })
      const opened: AgentRuntime = {
        services: yield* Layer.build(makeRuntimeLayer(settings, { agentFile })),
        settings,
        agentFile
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
  const open = (digest: string | undefined) => (digest === undefined ? ofRunner : RcMap.get(runtimes, digest))

  /** Opens the agent of a turn, with the tools named in its agent file. */
  const ofTurn: DurableRun.AgentOpener = (digest) =>
    Effect.gen(function* () {
      const opened = yield* open(digest)
      const { agentFile, services, settings } = opened
      const names =
        agentFile?.tools === undefined
          ? settings.toolsets
          : [...agentFile.tools, ...(agentFile.subAgents.length > 0 ? [Toolsets.ofSubAgents] : [])]
      yield* refuseUnknown(names, opened)
      const { selection } = Toolsets.choose(
        names,
        yield* Context.get(services, ToolRegistry).list,
        settings.disabledToolsets
      )
      return { services, tools: selection }
    })
  return { open, ofTurn, mine, agent: Context.get(mine.services, Agent) }
})
