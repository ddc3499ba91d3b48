/**
 * Composition of a runtime from an application's options or from the settings of a user. `Runtime` loads this module
 * when its Layer is built.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../agent/Agent.ts"
import type { Output } from "../../base/domain/AnswerFormat.ts"
import * as Secrets from "../../base/domain/Secrets.ts"
import * as CommandEnvironment from "../../places/CommandEnvironment.ts"
import type { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import type { Platform } from "../../base/platform/ChildProcesses.ts"
import type { Hook } from "../../hooks/Hook.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import {
  type ApprovalsLayer,
  buildLogs,
  complete,
  makeAgentLayer,
  makeDefaultStore,
  makePluginLayer as loadPlugins,
  makeResultsLayer,
  type Services,
  withBackground,
  withoutPlugins
} from "./AgentLayer.ts"
import type { Start } from "./ProgramStart.ts"
import type { Defaults, Parts, PluginList } from "./RuntimeOptions.ts"
import * as SideTasks from "./SideTasks.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import { UsageAccounts } from "../../agent/Budget.ts"
import type { Plugin } from "../../agent/plugin/Plugin.ts"
import type { Plugins } from "../../agent/plugin/Plugins.ts"
import * as Offline from "../../models/provider/Offline.ts"
import type { Provider } from "../../models/provider/Provider.ts"
import type { ModelRoute, OneModel, RoutesError } from "../../models/routing/RouteChain.ts"
import * as ModelRouter from "../../models/routing/ModelRouter.ts"
import * as RunRecord from "../../store/RunRecord.ts"
import type { SessionSearch } from "../../store/SessionSearch.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import * as Approvals from "../../tools/Approvals.ts"
import * as FileState from "../../tools/builtin/file/FileState.ts"
import * as PathRoots from "../../tools/builtin/file/PathRoots.ts"
import * as ProcessEvents from "../../tools/builtin/terminal/ProcessEvents.ts"
import * as ProcessRegistry from "../../tools/builtin/terminal/ProcessRegistry.ts"
import * as Todo from "../../tools/builtin/Todo.ts"
import * as FileUndo from "../../tools/FileUndo.ts"
import * as ToolRegistry from "../../tools/ToolRegistry.ts"
import type { Any as AnyToolset } from "../../tools/Toolset.ts"

/**
 * Creates a runtime whose tools reach the given hosts without an approval, in addition to the hosts allowed by its
 * context.
 */
const withHosts = <A, E, R>(
  hosts: ReadonlyArray<string> | undefined,
  runtime: Layer.Layer<A, E, R>
): Layer.Layer<A, E, R> =>
  hosts === undefined
    ? runtime
    : Layer.unwrap(
        Effect.gen(function* () {
          const { UrlPolicy } = yield* Effect.promise(() => import("../../tools/fence/Urls.ts"))
          const policy = yield* UrlPolicy
          return Layer.provide(runtime, Layer.succeed(UrlPolicy, { ...policy, hosts: [...policy.hosts, ...hosts] }))
        })
      )

/**
 * Layers of a runtime from the top: each can use the layers after it. An application makes them from its options, the
 * program from the settings of its user.
 */
interface RuntimeLayers<
  A,
  AgentError,
  AgentNeeds,
  RouterError,
  RouterNeeds,
  HookNeeds,
  PluginNeeds,
  ToolError,
  ToolNeeds,
  StoreError,
  StoreNeeds,
  PlaceNeeds,
  EnvironmentError
> {
  readonly agent: Layer.Layer<A, AgentError, AgentNeeds>
  readonly approvals: ApprovalsLayer | undefined
  readonly sideTasks: SideTasks.SideTaskLayers
  readonly router: Layer.Layer<ModelRouter.ModelRouter, RouterError, RouterNeeds>
  readonly hooks: Layer.Layer<never, never, HookNeeds>
  readonly plugins: Layer.Layer<Plugins, never, PluginNeeds>
  readonly tools: Layer.Layer<ToolRegistry.ToolRegistry, ToolError, ToolNeeds>
  readonly hookSettings: Hooks.Settings | undefined
  readonly record: Layer.Layer<RunRecord.RunRecord> | undefined
  readonly store: Layer.Layer<SessionStore.SessionStore | SessionSearch, StoreError, StoreNeeds> | undefined
  readonly places: Layer.Layer<PathRoots.PathRoots, never, PlaceNeeds>
  /** Stores long tool results and the changes of files. */
  readonly results: Layer.Layer<never, never, Platform | CommandEnvironment.CommandEnvironment>
  readonly environment: Layer.Layer<CommandEnvironment.CommandEnvironment, EnvironmentError, Platform> | undefined
}

/**
 * Puts the layers of a runtime on top of each other. Layers are shared by reference, so each runtime has its own
 * instances of the defaults.
 */
const composeLayers = <
  A,
  AgentError,
  AgentNeeds,
  RouterError,
  RouterNeeds,
  HookNeeds,
  PluginNeeds,
  ToolError,
  ToolNeeds,
  StoreError,
  StoreNeeds,
  PlaceNeeds,
  EnvironmentError
>({
  agent,
  approvals = Layer.fresh(Approvals.layerDeny()),
  environment = Layer.fresh(CommandEnvironment.layerLocal),
  hooks,
  hookSettings,
  places,
  plugins,
  record = RunRecord.layerDefault,
  results,
  router,
  sideTasks,
  store,
  tools
}: RuntimeLayers<
  A,
  AgentError,
  AgentNeeds,
  RouterError,
  RouterNeeds,
  HookNeeds,
  PluginNeeds,
  ToolError,
  ToolNeeds,
  StoreError,
  StoreNeeds,
  PlaceNeeds,
  EnvironmentError
>) => {
  const sessions: Layer.Layer<SessionStore.SessionStore | SessionSearch, StoreError, StoreNeeds> =
    store ?? makeDefaultStore()
  const processes = Layer.provideMerge(ProcessRegistry.layer, ProcessEvents.layer)
  return agent.pipe(
    Layer.provideMerge(Layer.provide(approvals, sideTasks.judge)),
    Layer.provide(sideTasks.compaction),
    Layer.provideMerge(sideTasks.service),
    Layer.provideMerge(router),
    Layer.provideMerge(hooks),
    Layer.provideMerge(plugins),
    Layer.provideMerge(Layer.provide(tools, sideTasks.sideModel)),
    Layer.provideMerge(Hooks.layer([], hookSettings)),
    Layer.provideMerge(Layer.provide(FileUndo.layer, results)),
    Layer.provideMerge(Layer.fresh(record)),
    Layer.provide(Layer.fresh(Todo.layerOfSessions)),
    Layer.provideMerge(sessions),
    Layer.provide(Layer.mergeAll(places, FileState.layer, processes, UsageAccounts.layer, results)),
    Layer.provide(environment),
    Layer.provide(ChildProcesses.layerDefault())
  )
}

/** Creates the router of an application from its routes, its provider, or the offline model. */
const makeRouterLayer = <ProviderError, ProviderNeeds, Routes extends ReadonlyArray<ModelRoute>>({
  fallback,
  provider,
  retry,
  routes
}: Pick<
  Defaults<ProviderError, ProviderNeeds, never, never, Routes, never>,
  "fallback" | "provider" | "retry" | "routes"
>): Layer.Layer<ModelRouter.ModelRouter, ProviderError | RoutesError<Routes>, ProviderNeeds> => {
  const model: Layer.Layer<Provider, ProviderError, ProviderNeeds> = provider ?? Offline.layer()
  return routes === undefined
    ? ModelRouter.layerWith({ retry }).pipe(Layer.provide(model))
    : // There are routes, so `Routes` is not `never`, and the error is the one that they have.
      (ModelRouter.layerFromRoutes(routes, { fallback, retry }) as Layer.Layer<
        ModelRouter.ModelRouter,
        RoutesError<Routes>
      >)
}

/** Layer of an agent over the services of its context; see `Runtime.layerNoDeps`. */
export const makeAgentWithoutDefaults = <const Middlewares extends ReadonlyArray<Middleware.Any> = []>(
  options: Agent.BoundedOptions<never, never, Middlewares> = {}
) =>
  withBackground(
    Layer.effect(Agent.Agent, Effect.andThen(complete, Agent.makeBounded<never, never, Middlewares>(options)))
  )

/** Layer of a runtime with an agent under `key`; see `Runtime.make`. */
export const makeRuntime = <
  Self,
  E,
  R,
  const Middlewares extends ReadonlyArray<Middleware.Any> = [],
  const Tools extends ReadonlyArray<AnyToolset> = [],
  const Listeners extends ReadonlyArray<Hook<unknown>> = [],
  const Plugged extends ReadonlyArray<Plugin<unknown>> = [],
  ProviderError = never,
  ProviderNeeds = never,
  StoreError = never,
  StoreNeeds = never,
  const Routes extends ReadonlyArray<ModelRoute> = never,
  EnvironmentError = never,
  Value = unknown,
  ValueJson = unknown
>(
  key: Context.Key<Self, Agent.Service<E, R, Value, ValueJson>>,
  options: OneModel &
    Agent.RequiredOutput<Value, ValueJson> &
    Parts<R, Tools, Listeners, Plugged> &
    Defaults<ProviderError, ProviderNeeds, StoreError, StoreNeeds, Routes, EnvironmentError> & {
      /** Schema of the value in which each run ends. Required if the type of `key` names the value. */
      readonly output?: Output<Value, ValueJson> | undefined
      /**
       * The first is outermost. It adds at most the failures, and reads at most the values of a run, that the type of
       * `key` names.
       */
      readonly middleware?: Agent.Bounded<E, R, Middlewares> | undefined
    }
) => {
  const {
    approvals,
    changes,
    environment,
    fallback,
    hooks,
    hookSettings,
    hosts,
    middleware,
    output,
    plugins,
    provider,
    record,
    retry,
    routes,
    store,
    tenants,
    tools,
    ...settings
  } = options
  const toolsets: ToolRegistry.ListOf<Tools> = tools ?? []
  const listeners: Hooks.ListOf<Listeners> = hooks ?? []
  const plugged: PluginList<Plugged> = plugins ?? []
  return Secrets.provideRegistryLayer(
    withHosts(
      hosts,
      composeLayers({
        agent: makeAgentLayer(key, (outermost) =>
          Agent.makeBounded<E, R, Middlewares, Value, ValueJson>({ ...settings, output, middleware, outermost })
        ),
        approvals,
        sideTasks: SideTasks.make(SideTasks.ownProvider, middleware ?? []),
        router: makeRouterLayer<ProviderError, ProviderNeeds, Routes>({ fallback, provider, retry, routes }),
        hooks: Hooks.layerListed(listeners),
        plugins: plugged.length === 0 ? withoutPlugins : loadPlugins({ plugins: plugged }),
        tools: ToolRegistry.layerFromList(toolsets),
        hookSettings,
        record,
        store,
        // An environment variable that cannot be read is a defect of the host.
        places: Layer.orDie(PathRoots.layerConfig),
        results: makeResultsLayer(changes),
        environment
      }).pipe(Layer.provideMerge(tenants ?? Layer.empty))
    )
  ).pipe(Layer.provide(buildLogs))
}

/** Runtime of the program; see `Runtime.program`. */
export const makeProgram = (
  settings: Values,
  start: Start = {}
): Layer.Layer<Services, ConfigError, Home | Environment> =>
  Secrets.provideRegistryLayer(
    Layer.unwrap(
      Effect.promise(() => import("./ProgramRuntime.ts")).pipe(
        Effect.flatMap(({ makeLayers }) => makeLayers(settings, start)),
        Effect.map(({ layers, services, skills, tenants }) =>
          composeLayers(layers).pipe(Layer.provide(services), Layer.provideMerge([skills, tenants]))
        )
      )
    ).pipe(Layer.provide(ChildProcesses.layer))
  )
