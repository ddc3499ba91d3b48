/**
 * The agent of a runtime, with its plugins, its memory and its background work, for applications and for the program.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import * as References from "effect/References"
import * as Agent from "../../agent/Agent.ts"
import * as BackgroundReview from "../../agent/BackgroundReview.ts"
import * as BackgroundWork from "../../agent/BackgroundWork.ts"
import * as Children from "../../agent/Children.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import { MemoryProvider, type Service as Memory } from "../../base/domain/MemoryProvider.ts"
import * as RunContext from "../../base/domain/RunContext.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import type { ContextEngine } from "../../agent/plugin/ContextEngines.ts"
import type { Options as PluginOptions } from "../../agent/plugin/PluginManager.ts"
import { none, Plugins } from "../../agent/plugin/Plugins.ts"
import { CompactionPort } from "../../models/routing/CompactionPort.ts"
import type { Auxiliary } from "../../models/routing/Auxiliary.ts"
import type { ModelRouter } from "../../models/routing/ModelRouter.ts"
import * as Compaction from "../../tools/prompt/Compaction.ts"
import { SkillStore } from "../../tools/prompt/SkillStore.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import type { SessionSearch } from "../../store/SessionSearch.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import type { ApprovalJudge } from "../../tools/approval/ApprovalJudge.ts"
import * as Approvals from "../../tools/Approvals.ts"
import * as FileState from "../../tools/builtin/file/FileState.ts"
import type * as FileUndo from "../../tools/FileUndo.ts"
import type * as ToolRegistry from "../../tools/ToolRegistry.ts"
import * as SideTasks from "./SideTasks.ts"
import * as ChangeRecording from "../../tools/ChangeRecording.ts"
import * as ResultText from "../../tools/ResultText.ts"

/** Layer of the service that decides which dangerous calls may run. */
export type ApprovalsLayer = Layer.Layer<Approvals.Approvals, never, Hooks.Hooks | ApprovalJudge>

/** Services of a program's runtime. */
export type Services =
  | Agent.Agent
  | Approvals.Approvals
  | Auxiliary
  | BackgroundReview.BackgroundReviews
  | BackgroundWork.BackgroundWork
  | Children.Children
  | FileUndo.FileUndo
  | ModelRouter
  | Plugins
  | ToolRegistry.ToolRegistry
  | SessionStore.SessionStore
  | SessionSearch
  | SkillStore
  | RunRecord
  | Hooks.Hooks

/** Layer of plugins, which requires the registries to which plugins contribute. */
export type PluginLayer<R = never> = Layer.Layer<
  Plugins,
  never,
  Hooks.Hooks | ToolRegistry.ToolRegistry | FileSystem.FileSystem | Path.Path | R
>

/** Layer without plugins. */
export const withoutPlugins: PluginLayer = Layer.succeed(Plugins, none)

/** Creates the layer that loads plugins and the plugin loader. */
export const makePluginLayer = <R = never>(options: PluginOptions<R>): PluginLayer<RunContext.AtBuild<R>> =>
  Layer.unwrap(
    Effect.map(
      Effect.promise(() => import("../../agent/plugin/PluginManager.ts")),
      ({ layer }) => layer(options)
    )
  )

/** Adds the background services of an agent. */
export const withBackground = <A, E, R>(agent: Layer.Layer<A, E, R>) =>
  agent.pipe(
    Layer.provideMerge(Layer.fresh(BackgroundWork.layer)),
    Layer.provideMerge(Layer.fresh(Children.layer)),
    Layer.provideMerge(Layer.fresh(BackgroundReview.layer))
  )

/** Requires the services that are optional for `Agent.make` but present in every runtime. */
export const complete = Effect.all([Approvals.Approvals, Hooks.Hooks, FileState.FileState])

/** Choice of the external memory: the memory from the context, no memory, or a plugin's memory with this name. */
export type MemoryChoice = "own" | "none" | { readonly named: string | undefined }

/** Returns the external memory of an agent. */
const chooseMemory = Effect.fnUntraced(function* (choice: MemoryChoice, brought: ReadonlyArray<Memory>) {
  if (choice === "none") return undefined
  const own = yield* MemoryProvider
  const [first] = brought
  // An application that lists a memory plugin uses its memory, unless the context provides a memory.
  if (choice === "own") return own ?? first
  const { named } = choice
  if (named === undefined) return own
  const found = brought.find(({ name }) => name === named)
  if (found !== undefined) return found
  const meant = findNearest(
    named,
    brought.map(({ name }) => name)
  )
  yield* Effect.logWarning(
    `memory.provider: no plugin provides the memory provider "${named}"; ` +
      `${meant === undefined ? "enable its plugin with `hermes plugins enable`" : `did you mean "${meant}"?`}`
  )
  return undefined
})

/**
 * Selects the engine that compacts conversations. A plugin's engine is used if the settings name it, or if an
 * application lists the plugin without naming an engine. Otherwise the engine from the context is used.
 */
const chooseCompaction = Effect.fnUntraced(function* (
  named: string | undefined,
  brought: ReadonlyArray<ContextEngine>
) {
  const own = yield* CompactionPort
  const settings = yield* Compaction.CompactionSettings
  const builtIn: ReadonlyArray<string> = Compaction.engines
  if (settings === "off" || (named !== undefined && builtIn.includes(named))) return own
  const found = named === undefined ? brought[0] : brought.find(({ name }) => name === named)
  if (found !== undefined)
    return (yield* Effect.promise(() => import("../../agent/plugin/ContextEngines.ts"))).makePort(found)
  if (named === undefined) return own
  const known = [...builtIn, ...brought.map(({ name }) => name)]
  const meant = findNearest(named, known) ?? known.join(", ")
  yield* Effect.logWarning(`context.engine: unknown engine "${named}", compressor is used; did you mean ${meant}?`)
  return own
})

/** Creates an agent under `key` that uses the plugins of its context. */
export const makeAgentLayer = <Self, E, R, Needs>(
  key: Context.Key<Self, Agent.Service<E, R>>,
  agent: (outermost: ReadonlyArray<Middleware.Contained>) => Effect.Effect<Agent.Service<E, R>, ConfigError, Needs>,
  memory: MemoryChoice = "own",
  engine?: string
) =>
  withBackground(
    Layer.effect(
      key,
      Effect.gen(function* () {
        yield* complete
        const plugins = yield* Plugins
        const { contextEngines, memoryProviders, middleware, plugins: loaded } = yield* plugins.loaded
        const skills = Option.getOrUndefined(yield* Effect.serviceOption(SkillStore))
        yield* (
          skills?.bring(
            loaded.flatMap(({ enabled, error, key, path }) =>
              enabled && error === undefined && path !== undefined ? [{ key, directory: path }] : []
            )
          ) ?? Effect.void
        )
        const service = yield* agent(middleware).pipe(
          Effect.provideService(MemoryProvider, yield* chooseMemory(memory, memoryProviders)),
          Effect.provideService(CompactionPort, yield* chooseCompaction(engine, contextEngines))
        )
        yield* plugins.serve({ dispatch: service.callTool, complete: yield* SideTasks.ofPlugins })
        return service
      })
    )
  )

/**
 * Annotates the log entries that a runtime writes while it is built with `hermes-effect`, and writes them to standard
 * error if the application has no logger.
 */
export const buildLogs = Layer.merge(
  Layer.succeed(Logger.LogToStderr, true),
  Layer.effect(
    References.CurrentLogAnnotations,
    Effect.map(References.CurrentLogAnnotations, (annotations) => ({
      ...annotations,
      "hermes.logger": "hermes-effect"
    }))
  )
)

/**
 * Number of ended sessions without a name that the default store of a runtime retains, so that the session of a result
 * can be read and continued.
 */
const retainedSessions = 100

/** Creates the default store of a runtime: in memory, with the sessions that have a name and the newest others. */
export const makeDefaultStore = () => SessionStore.layerMemoryWith({ unnamed: retainedSessions })

/** Creates the layer that stores long results, and changes of files if the application records them. */
export const makeResultsLayer = (changes: ChangeRecording.Options | undefined) =>
  changes === undefined
    ? ResultText.layerTemporary
    : Layer.merge(ResultText.layerTemporary, ChangeRecording.layer(changes))
