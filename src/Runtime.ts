/**
 * The place where all layers meet: one Layer that gives an application an agent.
 *
 * **Details**
 *
 * Every part has a default and can be swapped: the model (the embedded offline stand-in), which is one `provider` or a list of
 * `routes` with keys and fallbacks, the session store (memory), the tools, hooks, middleware and plugins (none), and approvals
 * (what needs one does not run). Order is the order of the lists. Node's services are provided to whatever needs them.
 *
 * **Gotchas**
 *
 * A runtime without a provider answers by {@link Offline}: useful to try things and in tests, and honest about what it is.
 * Middleware that adds failures needs an agent with a key of its own, see `Agent.make`.
 *
 * **Example** (An agent that may read files)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Files, Runtime } from "hermes-effect"
 *
 * const program = Agent.run({ prompt: "Read README.md and tell me what this is." })
 *
 * program.pipe(Effect.provide(Runtime.layer({ tools: [Files.toolset] })), Effect.runPromise)
 * ```
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as RunContext from "./domain/RunContext.ts"
import * as Secrets from "./domain/Secrets.ts"
import type { TupleLike } from "./domain/TupleLike.ts"
import * as Agent from "./agent/Agent.ts"
import { BackgroundWork } from "./agent/BackgroundWork.ts"
import { Children } from "./agent/Children.ts"
import type { AgentSettings } from "./agent/RunInput.ts"
import { Environment } from "./config/Environment.ts"
import * as InheritedLimits from "./config/InheritedLimits.ts"
import { Home } from "./config/Home.ts"
import { Settings, type Values } from "./config/Settings.ts"
import * as Validation from "./config/Validation.ts"
import type { ConfigError } from "./domain/AgentError.ts"
import type { Hook } from "./hooks/Hook.ts"
import * as Hooks from "./hooks/Hooks.ts"
import type * as ShellHooks from "./hooks/ShellHooks.ts"
import * as LoadPlugins from "./internal/LoadPlugins.ts"
import * as OpenRouter from "./internal/OpenRouter.ts"
import * as ProgramTools from "./internal/ProgramTools.ts"
import * as SettingsMapping from "./internal/SettingsMapping.ts"
import * as SideTasks from "./internal/SideTasks.ts"
import type * as Middleware from "./middleware/Middleware.ts"
import type { Plugin } from "./plugin/Plugin.ts"
import { Plugins } from "./plugin/Plugins.ts"
import type { Reserved } from "./plugin/Registration.ts"
import * as ChildProcesses from "./platform/ChildProcesses.ts"
import * as Offline from "./provider/Offline.ts"
import type { Provider } from "./provider/Provider.ts"
import type { Auxiliary } from "./routing/Auxiliary.ts"
import { UsageAccounts } from "./routing/UsageAccounts.ts"
import type { ModelRoute, OneModel, RoutesError } from "./routing/EmbeddedRoutes.ts"
import { ModelRouter, type Retry } from "./routing/ModelRouter.ts"
import * as MemorySessionStore from "./session/MemorySessionStore.ts"
import { RunRecord } from "./session/RunRecord.ts"
import type { SessionSearch } from "./session/SessionSearch.ts"
import type { SessionStore } from "./session/SessionStore.ts"
import * as SqliteSessionStore from "./session/SqliteSessionStore.ts"
import { FileState } from "./tool/builtin/file/FileState.ts"
import { Places } from "./tool/builtin/file/Places.ts"
import { ProcessEvents } from "./tool/builtin/terminal/ProcessEvents.ts"
import { ProcessRegistry } from "./tool/builtin/terminal/ProcessRegistry.ts"
import { TodoState } from "./tool/builtin/Todo.ts"
import * as AllowListFile from "./tool/approval/ApprovalMemory.ts"
import * as Approvals from "./tool/Approvals.ts"
import type { ApprovalJudge } from "./tool/approval/ApprovalJudge.ts"
import * as Bounds from "./tool/Bounds.ts"
import * as Scanner from "./tool/fence/Scanner.ts"
import { type ListOf as ToolsetList, type NeedsOf, ToolRegistry } from "./tool/ToolRegistry.ts"
import type { Any as AnyToolset } from "./tool/Toolset.ts"

export type { ModelRoute } from "./routing/EmbeddedRoutes.ts"

/**
 * The lists that an application brings, and the settings of its agent. Each has a default. `R` is what they read of each run
 * (`RunContext`).
 */
export interface Parts<
  R,
  Tools extends ReadonlyArray<AnyToolset>,
  Listeners extends ReadonlyArray<Hook<unknown>>,
  Plugged extends ReadonlyArray<Plugin<unknown>>
> extends Omit<AgentSettings, "tools"> {
  readonly tools?: (Tools & ToolsetList<Tools> & RunContext.AtMost<R, NeedsOf<Tools[number]>>) | undefined
  readonly hooks?: (Listeners & Hooks.ListOf<Listeners> & RunContext.AtMost<R, Hooks.Needs<Listeners>>) | undefined
  /** Loaded before everything else: their hooks are told first, their middleware is outermost. */
  readonly plugins?: (Plugged & PluginList<Plugged> & RunContext.AtMost<R, PluginNeeds<Plugged[number]>>) | undefined
  /** Settings of all hooks. */
  readonly hookSettings?: Hooks.Settings | undefined
}

/** The services that a runtime has a default for. */
export interface Defaults<ProviderError, ProviderNeeds, StoreError, StoreNeeds, Routes> {
  /** The model. Default: the embedded offline stand-in. */
  readonly provider?: Layer.Layer<Provider, ProviderError, ProviderNeeds> | undefined
  /** The models: the first is asked first, the others when it cannot answer. In place of `provider`. */
  readonly routes?: Routes | undefined
  /** Limits of asking again. Default: as the program does. */
  readonly retry?: Retry | undefined
  /** Store of sessions. Default: memory. */
  readonly store?: Layer.Layer<SessionStore | SessionSearch, StoreError, StoreNeeds> | undefined
  /** The record of every run. Default: that of `store` where it has one (`SqliteSessionStore`), else memory. */
  readonly record?: Layer.Layer<RunRecord> | undefined
  /**
   * Decides which dangerous calls may run: `Approvals.layerCallback`, …. Default: none of them. The judge of
   * `Approvals.layerSmart` is a side task of the runtime, unless the application provides one.
   */
  readonly approvals?: ApprovalsLayer | undefined
}

type ApprovalsLayer = Layer.Layer<Approvals.Approvals, never, Hooks.Hooks | ApprovalJudge>

/** {@link Runtime.layer}'s options. */
export interface Options<
  Tools extends ReadonlyArray<AnyToolset>,
  Listeners extends ReadonlyArray<Hook<unknown>>,
  Middlewares extends ReadonlyArray<Middleware.Any>,
  Plugged extends ReadonlyArray<Plugin<unknown>>,
  ProviderError,
  ProviderNeeds,
  StoreError,
  StoreNeeds,
  Routes
> extends Parts<never, Tools, Listeners, Plugged>, Defaults<ProviderError, ProviderNeeds, StoreError, StoreNeeds, Routes> {
  /** The first is outermost. It must add no failures and read nothing of a run; see {@link make}. */
  readonly middleware?: Agent.Bounded<never, never, Middlewares> | undefined
}

type PluginNeeds<One> = One extends Plugin<infer R> ? R : never
type PluginList<Plugged extends ReadonlyArray<Plugin<unknown>>> = TupleLike<Plugin<PluginNeeds<Plugged[number]>>>

/** The services of a program's runtime. */
export type Services =
  | Agent.Agent
  | Approvals.Approvals
  | Auxiliary
  | BackgroundWork
  | Children
  | ModelRouter
  | Plugins
  | ToolRegistry
  | SessionStore
  | SessionSearch
  | RunRecord
  | Hooks.Hooks

/** Layers under an agent, besides the lists of the application. */
interface Surroundings<PlacesNeeds, PluggedNeeds, RouterError, RouterNeeds> {
  readonly places: Layer.Layer<Places, never, PlacesNeeds>
  /** Store of long tool results. */
  readonly results: Layer.Layer<never, never, ChildProcesses.Platform>
  readonly plugged: Layer.Layer<Plugins, never, PluggedNeeds>
  readonly router: Layer.Layer<ModelRouter, RouterError, RouterNeeds>
  /** The models that may be asked for side tasks. */
  readonly helpers: SideTasks.SideTaskSources
}

/** Adds what an agent works with in the background. */
const withBackground = <A, R>(agent: Layer.Layer<A, never, R>) =>
  agent.pipe(
    Layer.provideMerge(Layer.fresh(BackgroundWork.layer)),
    Layer.provideMerge(Layer.fresh(Children.layer))
  )

/** Services that `Agent.make` silently does without; a runtime has them. */
const complete = Effect.all([Approvals.Approvals, Hooks.Hooks, FileState])

/** An agent under `key` that works with the plugins of its surroundings. */
const agentUnder = <Self, E, R, Needs>(
  key: Context.Key<Self, Agent.Service<E, R>>,
  agent: (outermost: ReadonlyArray<Middleware.Contained>) => Effect.Effect<Agent.Service<E, R>, never, Needs>
) =>
  withBackground(Layer.effect(
    key,
    Effect.gen(function*() {
      yield* complete
      const plugins = yield* Plugins
      const service = yield* agent((yield* plugins.loaded).middleware)
      yield* plugins.serve({ dispatch: service.callTool, complete: yield* SideTasks.ofPlugins })
      return service
    })
  ))

/** The layers of a runtime in their order: what is below is there for what is above. */
const assemble = <
  Tools extends ReadonlyArray<AnyToolset>,
  Listeners extends ReadonlyArray<Hook<unknown>>,
  Middlewares extends ReadonlyArray<Middleware.Any>,
  A,
  AgentNeeds,
  StoreError,
  StoreNeeds,
  PlacesNeeds,
  PluggedNeeds,
  RouterError,
  RouterNeeds
>(
  agent: Layer.Layer<A, never, AgentNeeds>,
  options: Pick<Parts<never, [], [], []>, "hookSettings"> & {
    readonly tools: (Tools & ToolsetList<Tools>) | undefined
    readonly hooks: (Listeners & Hooks.ListOf<Listeners>) | undefined
    readonly approvals: ApprovalsLayer | undefined
    readonly middleware: Middlewares | undefined
    readonly store: Layer.Layer<SessionStore | SessionSearch, StoreError, StoreNeeds> | undefined
    readonly record: Layer.Layer<RunRecord> | undefined
  },
  { helpers, places, plugged, results, router }: Surroundings<PlacesNeeds, PluggedNeeds, RouterError, RouterNeeds>
) => {
  // Layers are shared by reference; two runtimes of one application have a store and approvals of their own.
  const sessions: Layer.Layer<SessionStore | SessionSearch, StoreError, StoreNeeds> =
    options.store ?? Layer.fresh(MemorySessionStore.layer)
  const approvals = options.approvals ?? Layer.fresh(Approvals.layerDeny())
  const side = SideTasks.make(helpers, options.middleware ?? [])
  const toolsets: ToolsetList<Tools> = options.tools ?? []
  const hooks: Hooks.ListOf<Listeners> = options.hooks ?? []
  const listening = Layer.effectDiscard(
    Effect.flatMap(Hooks.Hooks, ({ register }) => Effect.forEach(hooks, (hook) => RunContext.later(register(hook)), { discard: true }))
  )
  const support = Layer.mergeAll(
    places,
    FileState.layer,
    TodoState.layer,
    ProcessRegistry.layer.pipe(Layer.provideMerge(ProcessEvents.layer))
  )
  return agent.pipe(
    Layer.provideMerge(approvals.pipe(Layer.provide(side.forApprovals))),
    Layer.provideMerge(side.service),
    Layer.provideMerge(router),
    Layer.provideMerge(listening),
    Layer.provideMerge(plugged),
    Layer.provideMerge(ToolRegistry.layerOf(toolsets).pipe(Layer.provide(side.forTools))),
    Layer.provideMerge(Hooks.layer([], options.hookSettings)),
    Layer.provideMerge(Layer.fresh(options.record ?? RunRecord.layerDefault)),
    Layer.provideMerge(sessions),
    Layer.provide(Layer.mergeAll(support, UsageAccounts.layer, results)),
    Layer.provide(ChildProcesses.layerDefault())
  )
}

/** The surroundings of an application's runtime. */
const ofApplication = <Plugged extends ReadonlyArray<Plugin<unknown>>, ProviderError, ProviderNeeds, Routes extends ReadonlyArray<ModelRoute>>(
  plugins: PluginList<Plugged>,
  { provider, retry, routes }: Pick<Defaults<ProviderError, ProviderNeeds, never, never, Routes>, "provider" | "retry" | "routes">
) => {
  const model: Layer.Layer<Provider, ProviderError, ProviderNeeds> = provider ?? Offline.layer()
  const router: Layer.Layer<ModelRouter, ProviderError | RoutesError<Routes>, ProviderNeeds> = routes === undefined
    ? ModelRouter.layerWith(retry).pipe(Layer.provide(model))
    // There are routes, so `Routes` is not `never`, and the error is the one that they have.
    : ModelRouter.layerOf(routes, retry) as Layer.Layer<ModelRouter, RoutesError<Routes>>
  return {
    // A variable that can not be read is a defect of the host.
    places: Layer.orDie(Places.layerConfig),
    results: Bounds.layerTemporary,
    plugged: LoadPlugins.ofApplication(plugins),
    router,
    helpers: SideTasks.ownProvider
  }
}

/**
 * An agent over services of its surroundings, for applications that bring all of them: the router, the session store, the
 * tools, hooks, approvals, and what file and process tools share. A layer that is missing does not compile.
 *
 * **Example** (Every service named)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import {
 *   Agent, Approvals, FileState, Hooks, MemorySessionStore, ModelRouter, Offline, ProcessEvents, ProcessRegistry, Runtime, ToolRegistry
 * } from "hermes-effect"
 *
 * const agent = Runtime.layerNoDeps({ instructions: "Answer in one word." }).pipe(
 *   Layer.provide([
 *     ModelRouter.ModelRouter.layer.pipe(Layer.provide(Offline.layer())),
 *     MemorySessionStore.layer,
 *     ToolRegistry.ToolRegistry.layer([]),
 *     Approvals.layerDeny(),
 *     FileState.FileState.layer,
 *     ProcessRegistry.ProcessRegistry.layer
 *   ]),
 *   Layer.provide([Hooks.layer([]), ProcessEvents.ProcessEvents.layer, NodeServices.layer])
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), agent))).text)
 * // => hello
 * ```
 */
export const layerNoDeps = <const Middlewares extends ReadonlyArray<Middleware.Any> = []>(
  options: Agent.BoundedOptions<never, never, Middlewares> = {}
) => withBackground(Layer.effect(Agent.Agent, Effect.andThen(complete, Agent.makeBounded<never, never, Middlewares>(options))))

/** A runtime with a default for every service; see the top of this file. */
export const layer = <
  const Tools extends ReadonlyArray<AnyToolset> = [],
  const Listeners extends ReadonlyArray<Hook<unknown>> = [],
  const Middlewares extends ReadonlyArray<Middleware.Any> = [],
  const Plugged extends ReadonlyArray<Plugin<unknown>> = [],
  ProviderError = never,
  ProviderNeeds = never,
  StoreError = never,
  StoreNeeds = never,
  const Routes extends ReadonlyArray<ModelRoute> = never
>(
  options: OneModel & Options<Tools, Listeners, Middlewares, Plugged, ProviderError, ProviderNeeds, StoreError, StoreNeeds, Routes> = {}
) => {
  const { approvals, hooks, hookSettings, middleware, plugins, provider, record, retry, routes, store, tools, ...settings } = options
  return Secrets.providedLayer(assemble(
    agentUnder(Agent.Agent, (outermost) => Agent.makeBounded<never, never, Middlewares>({ ...settings, middleware, outermost })),
    { approvals, hooks, hookSettings, middleware, record, store, tools },
    ofApplication<Plugged, ProviderError, ProviderNeeds, Routes>(plugins ?? [], { provider, retry, routes })
  ))
}

/**
 * A runtime with an agent under the application's key, whose type names what its middleware fails with and what is read of
 * each run (`RunContext`). There is no other agent beside it.
 *
 * **Example** (A budget that ends a run with its own error)
 *
 * ```ts
 * import * as Context from "effect/Context"
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import { Agent, Middleware, Runtime } from "hermes-effect"
 *
 * class Overspent extends Schema.TaggedError<Overspent>()("Overspent", {}) {}
 * class Clerk extends Context.Service<Clerk, Agent.Service<Overspent>>()("app/Clerk") {}
 *
 * const limit = Middleware.wrapModelCall<never, Overspent>({ name: "limit", wrap: () => () => Effect.fail(new Overspent()) })
 *
 * const program = Clerk.use((clerk) => clerk.run({ prompt: "Reply exactly hello" })).pipe(
 *   Effect.catchTag("Overspent", () => Effect.succeed({ text: "the budget is used up" })),
 *   Effect.provide(Runtime.make(Clerk, { middleware: [limit] }))
 * )
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => the budget is used up
 * ```
 */
export const make = <
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
  const Routes extends ReadonlyArray<ModelRoute> = never
>(
  key: Context.Key<Self, Agent.Service<E, R>>,
  options: OneModel & Parts<R, Tools, Listeners, Plugged> & Defaults<ProviderError, ProviderNeeds, StoreError, StoreNeeds, Routes> & {
    /** The first is outermost. It adds at most the failures, and reads at most what of a run, that the type of `key` names. */
    readonly middleware?: Agent.Bounded<E, R, Middlewares> | undefined
  }
) => {
  const { approvals, hooks, hookSettings, middleware, plugins, provider, record, retry, routes, store, tools, ...settings } = options
  return Secrets.providedLayer(assemble(
    agentUnder(key, (outermost) => Agent.makeBounded<E, R, Middlewares>({ ...settings, middleware, outermost })),
    { approvals, hooks, hookSettings, middleware, record, store, tools },
    ofApplication<Plugged, ProviderError, ProviderNeeds, Routes>(plugins ?? [], { provider, retry, routes })
  ))
}

/** Choices of one start of a program besides its settings. */
export interface Start extends OpenRouter.Substitutes {
  /** Asks whether a shell hook may run; absent where there is nobody to ask. */
  readonly confirmHook?: ShellHooks.Settings["confirm"]
  /** Names of commands that plugins can not have. */
  readonly reserved?: Reserved | undefined
}

const shellHooks = Effect.fnUntraced(function*(settings: Values, { confirmHook }: Start) {
  if (Object.keys(settings.hooks).length === 0) return []
  const home = yield* Home
  const environment = yield* Environment
  const { make } = yield* Effect.promise(() => import("./hooks/ShellHooks.ts"))
  const service = yield* make({
    block: settings.hooks,
    home: home.root,
    accept: settings.hooksAutoAccept,
    confirm: confirmHook,
    cwd: process.cwd(),
    environment: environment.process
  })
  return yield* service.hooks
})

/**
 * The runtime of a program: what the user's settings, home directory and environment make of all parts.
 *
 * **Details**
 *
 * The provider is the one of the route that the settings mean, sessions are kept in the home directory, every built-in tool
 * is registered (a run selects from them), plugins are loaded that the user enabled, and shell hooks run that the user agreed
 * to, after the plugins'. Settings that ask for a protection that there is not (`terminal.backend: docker`) are refused.
 */
export const program = (
  settings: Values,
  start: Start = {}
): Layer.Layer<Services, ConfigError, Home | Environment> =>
  Secrets.providedLayer(Layer.unwrap(Effect.gen(function*() {
    const refusal = Validation.refusal(settings)
    if (refusal !== undefined) return yield* refusal
    const home = yield* Home
    const environment = yield* Environment
    const configured = Layer.mergeAll(Layer.succeed(Home, home), Layer.succeed(Environment, environment))
    const inherited = InheritedLimits.read(environment.process)
    const tooDeep = InheritedLimits.refusal(inherited)
    if (tooDeep !== undefined) return yield* tooDeep
    yield* home.ensure
    const logins = yield* OpenRouter.logins(settings, start)
    const builtin = yield* Effect.promise(() =>
      Promise.all([
        import("./tool/builtin/Files.ts"),
        import("./tool/builtin/Terminal.ts"),
        import("./tool/builtin/Todo.ts"),
        import("./tool/builtin/Delegate.ts")
      ])
    )
    const [{ toolset: files }, { toolset: terminal }, { toolset: todo }, { toolset: delegation }] = builtin
    const parts = {
      store: SqliteSessionStore.layer({ path: home.database }),
      record: undefined,
      tools: [files, terminal, todo, delegation, ...yield* ProgramTools.toolsets] as const,
      hooks: yield* shellHooks(settings, start),
      hookSettings: SettingsMapping.hooks(settings),
      middleware: undefined,
      approvals: Approvals.layer().pipe(
        Layer.provide([AllowListFile.allowListFile, Scanner.layer]),
        Layer.provide(Layer.succeed(Settings, settings)),
        Layer.provide([configured, ChildProcesses.layer])
      )
    }
    const own: AgentSettings = {
      platform: "cli",
      instructions: settings.agent.environmentHint,
      prefill: yield* SettingsMapping.prefill(settings, environment, home),
      maxIterations: settings.agent.maxTurns,
      budget: SettingsMapping.budget(settings),
      maxOutputTokens: settings.model.maxTokens,
      reasoningEffort: settings.agent.reasoningEffort,
      loopGuard: SettingsMapping.loopGuard(settings),
      delegation: yield* SettingsMapping.delegation(settings, { environment, logins }, start)
    }
    const agent = agentUnder(Agent.Agent, (outermost) => Agent.makeBounded<never, never>({ ...own, outermost }))
    return assemble(agent, parts, {
      places: Places.layer({
        home: environment.get("HOME") ?? environment.get("USERPROFILE"),
        agentHome: home.root,
        safeRoots: settings.security.writeSafeRoot,
        inherited: inherited?.roots
      }),
      results: Bounds.layerFile(home.results),
      plugged: Layer.merge(
        LoadPlugins.ofProgram(settings, process.cwd(), start.reserved),
        ProgramTools.servers(settings)
      ).pipe(Layer.provide(configured)),
      router: OpenRouter.layer(settings, start, logins).pipe(Layer.provide(configured)),
      helpers: OpenRouter.isReplaced(start) ? SideTasks.ownProvider : SideTasks.ofProgram(settings, environment, logins)
    }).pipe(Layer.provide([SettingsMapping.tools(settings, inherited), ProgramTools.told(settings, environment, home)]))
  })).pipe(Layer.provide(ChildProcesses.layer)))
