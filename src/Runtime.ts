/**
 * The place where all layers meet: one Layer that gives an application an agent.
 *
 * **Details**
 *
 * Every part has a default and can be swapped: the provider (the embedded offline stand-in), the session store (memory),
 * the tools, hooks, middleware and plugins (none), and approvals (what needs one does not run). Order is the order of the lists. Node's services (files, processes, paths) are
 * provided to whatever needs them.
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
 *
 * @since 0.1.0
 */
import type * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Agent from "./agent/Agent.ts"
import { BackgroundWork } from "./agent/BackgroundWork.ts"
import { Children } from "./agent/Children.ts"
import type { AgentSettings } from "./agent/RunInput.ts"
import * as Inherited from "./config/Inherited.ts"
import { Environment } from "./config/Environment.ts"
import { Home } from "./config/Home.ts"
import { Settings, type Values } from "./config/Settings.ts"
import * as Unsupported from "./config/Unsupported.ts"
import type { ConfigError } from "./domain/AgentError.ts"
import type { Hook } from "./hooks/Hook.ts"
import * as Hooks from "./hooks/Hooks.ts"
import type * as ShellHooks from "./hooks/ShellHooks.ts"
import * as LoadPlugins from "./internal/LoadPlugins.ts"
import * as OpenRouter from "./internal/OpenRouter.ts"
import * as ProgramTools from "./internal/ProgramTools.ts"
import * as Said from "./internal/Said.ts"
import * as SideTasks from "./internal/SideTasks.ts"
import type * as Middleware from "./middleware/Middleware.ts"
import type { Plugin } from "./plugin/Plugin.ts"
import { Plugins } from "./plugin/Plugins.ts"
import type { Reserved } from "./plugin/Registration.ts"
import * as ChildProcesses from "./platform/ChildProcesses.ts"
import * as Offline from "./provider/Offline.ts"
import type { Provider } from "./provider/Provider.ts"
import type { Auxiliary } from "./routing/Auxiliary.ts"
import { ModelRouter, type Retry } from "./routing/ModelRouter.ts"
import * as MemorySessionStore from "./session/MemorySessionStore.ts"
import * as Secrets from "./domain/Secrets.ts"
import type { SessionSearch } from "./session/SessionSearch.ts"
import type { SessionStore } from "./session/SessionStore.ts"
import * as SqliteSessionStore from "./session/SqliteSessionStore.ts"
import { FileState } from "./tool/builtin/file/FileState.ts"
import { Places } from "./tool/builtin/file/Places.ts"
import { ProcessEvents } from "./tool/builtin/terminal/ProcessEvents.ts"
import { ProcessRegistry } from "./tool/builtin/terminal/ProcessRegistry.ts"
import { TodoState } from "./tool/builtin/Todo.ts"
import * as AllowListFile from "./tool/approval/AllowListFile.ts"
import * as Approvals from "./tool/Approvals.ts"
import type { ApprovalJudge } from "./tool/approval/Judge.ts"
import * as BoundsFile from "./tool/BoundsFile.ts"
import * as Scanner from "./tool/fence/Scanner.ts"
import { type ErrorOf, type NeedsOf, ToolRegistry } from "./tool/ToolRegistry.ts"
import type { Any as AnyToolset } from "./tool/Toolset.ts"

/** What a runtime is made of; each part has a default. */
export interface Options<
  Tools extends ReadonlyArray<AnyToolset>,
  Listeners extends ReadonlyArray<Hook<unknown>>,
  Middlewares extends ReadonlyArray<Middleware.Any>,
  Plugged extends ReadonlyArray<Plugin<unknown>>,
  ProviderError,
  ProviderNeeds,
  StoreError,
  StoreNeeds
> extends Omit<AgentSettings, "tools"> {
  readonly provider?: Layer.Layer<Provider, ProviderError, ProviderNeeds> | undefined
  readonly store?: Layer.Layer<SessionStore | SessionSearch, StoreError, StoreNeeds> | undefined
  readonly tools?: Tools | undefined
  readonly hooks?: Listeners | undefined
  /** Loaded before everything else: their hooks are told first, their middleware is outermost. */
  readonly plugins?: Plugged | undefined
  readonly middleware?: Middlewares & ([Middleware.Errors<Middlewares>] extends [never] ? unknown : never) | undefined
  /**
   * Who decides what dangerous calls may run: `Approvals.layerCallback`, …; nobody, which means no, when absent. The judge
   * of `Approvals.layerSmart` is a side task of the runtime, unless the application provides one.
   */
  readonly approvals?: Layer.Layer<Approvals.Approvals, never, Hooks.Hooks | ApprovalJudge> | undefined
  /** How often a provider that fails is asked again; as the program does when absent. */
  readonly retry?: Retry | undefined
  /** What is said about all hooks. */
  readonly hookSettings?: Hooks.Settings | undefined
}

type PluginNeeds<One> = One extends Plugin<infer R> ? R : never
type HookNeeds<Listener> = Listener extends Hook<infer R> ? R : never

/** What the built-in toolsets share with the runtime. */
type Support = Places | FileState | TodoState | ProcessRegistry | ProcessEvents

const support = (places: Layer.Layer<Places, never, NodeServices.NodeServices>): Layer.Layer<Support> =>
  Layer.mergeAll(
    places,
    FileState.layer,
    TodoState.layer,
    ProcessRegistry.layer.pipe(Layer.provideMerge(ProcessEvents.layer))
  ).pipe(Layer.provide(ChildProcesses.layer))

/** The services of a runtime. */
export type Services = Agent.Agent | Approvals.Approvals | Auxiliary | BackgroundWork | Children | ModelRouter | Plugins | Registries

/** What plugins find when they are loaded, besides what the application brings. */
type Registries = ToolRegistry | SessionStore | SessionSearch | Hooks.Hooks

/** The Layer of a runtime, with exactly what its parts fail with and need. */
type Built<
  Tools extends ReadonlyArray<AnyToolset>,
  Listeners extends ReadonlyArray<Hook<unknown>>,
  Middlewares extends ReadonlyArray<Middleware.Any>,
  Plugged extends ReadonlyArray<Plugin<unknown>>,
  ProviderError,
  ProviderNeeds,
  StoreError,
  StoreNeeds
> = Layer.Layer<
  Services,
  ProviderError | StoreError | ErrorOf<Tools[number]>,
  Exclude<
    | ProviderNeeds
    | StoreNeeds
    | NeedsOf<Tools[number]>
    | HookNeeds<Listeners[number]>
    | Middleware.Needs<Middlewares>
    | Exclude<PluginNeeds<Plugged[number]>, Registries>,
    NodeServices.NodeServices | SessionSearch | SessionStore | Support | Scope.Scope
  >
>

/** See the module. */
export const layer = <
  const Tools extends ReadonlyArray<AnyToolset> = [],
  const Listeners extends ReadonlyArray<Hook<unknown>> = [],
  const Middlewares extends ReadonlyArray<Middleware.Any> = [],
  const Plugged extends ReadonlyArray<Plugin<unknown>> = [],
  ProviderError = never,
  ProviderNeeds = never,
  StoreError = never,
  StoreNeeds = never
>(
  options: Options<Tools, Listeners, Middlewares, Plugged, ProviderError, ProviderNeeds, StoreError, StoreNeeds> = {}
): Built<Tools, Listeners, Middlewares, Plugged, ProviderError, ProviderNeeds, StoreError, StoreNeeds> =>
  Secrets.providedLayer(assemble(options, {
    // A variable that can not be read is a defect of the host.
    places: Layer.orDie(Places.layerConfig),
    results: BoundsFile.layerTemporary,
    plugged: LoadPlugins.ofApplication(options.plugins ?? []),
    router: ModelRouter.layerWith(options.retry).pipe(Layer.provide(options.provider ?? Offline.layer())),
    helpers: SideTasks.ownProvider
  }))

/** Parts that an application and a program come by in different ways. */
interface Parts {
  readonly places: Layer.Layer<Places, never, NodeServices.NodeServices>
  /** Where long tool results are kept. */
  readonly results: Layer.Layer<never, never, NodeServices.NodeServices>
  readonly plugged: ReturnType<typeof LoadPlugins.ofApplication>
  readonly router: Layer.Layer<ModelRouter, unknown, unknown>
  /** Who does side tasks. */
  readonly helpers: SideTasks.Given
}

const assemble = <
  const Tools extends ReadonlyArray<AnyToolset> = [],
  const Listeners extends ReadonlyArray<Hook<unknown>> = [],
  const Middlewares extends ReadonlyArray<Middleware.Any> = [],
  const Plugged extends ReadonlyArray<Plugin<unknown>> = [],
  ProviderError = never,
  ProviderNeeds = never,
  StoreError = never,
  StoreNeeds = never
>(
  options: Options<Tools, Listeners, Middlewares, Plugged, ProviderError, ProviderNeeds, StoreError, StoreNeeds>,
  { helpers, places, plugged, results, router }: Parts
): Built<Tools, Listeners, Middlewares, Plugged, ProviderError, ProviderNeeds, StoreError, StoreNeeds> => {
  const { approvals, hooks, hookSettings, middleware, plugins: _, provider: __, retry: ___, store, tools, ...settings } = options
  // Layers are shared by reference; two runtimes of one application have a router and a memory of their own.
  const sessions = store ?? Layer.fresh(MemorySessionStore.layer)
  const side = SideTasks.make(helpers, middleware ?? [])
  const registries = Layer.mergeAll(
    sessions,
    ToolRegistry.layer(tools ?? []).pipe(Layer.provide([sessions, side.forTools])),
    Hooks.layer([], hookSettings)
  )
  const listening = Layer.effectDiscard(
    Effect.flatMap(Hooks.Hooks, ({ register }) => Effect.forEach(hooks ?? [], register, { discard: true }))
  )
  const agent = Layer.unwrap(Effect.map(Plugins.use(({ loaded }) => loaded), (loaded) =>
    // The condition on `options.middleware` and the border of plugins have proved that none of them adds a failure.
    Agent.layer({ ...settings, middleware: [...loaded.middleware, ...middleware ?? []] as unknown as [] })))
  const serving = Layer.effectDiscard(Effect.gen(function*() {
    const { callTool } = yield* Agent.Agent
    const plugins = yield* Plugins
    yield* plugins.serve({ dispatch: callTool, complete: yield* SideTasks.ofPlugins })
  }))
  return serving.pipe(
    Layer.provideMerge(agent),
    Layer.provideMerge(Layer.fresh(BackgroundWork.layer)),
    Layer.provideMerge(Layer.fresh(Children.layer)),
    Layer.provideMerge((approvals ?? Layer.fresh(Approvals.layerDeny())).pipe(Layer.provide(side.forApprovals))),
    Layer.provideMerge(side.service),
    Layer.provideMerge(router),
    Layer.provideMerge(listening),
    Layer.provideMerge(plugged),
    Layer.provideMerge(registries),
    Layer.provide(Layer.provideMerge(Layer.merge(support(places), results), ChildProcesses.layer))
    // The lists' exact types say what their members fail with and need; inside they are lists of `unknown`.
  ) as never
}

/** What one start of a program says besides its settings. */
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
    const refusal = Unsupported.refusal(settings)
    if (refusal !== undefined) return yield* refusal
    const home = yield* Home
    const environment = yield* Environment
    const configured = Layer.mergeAll(Layer.succeed(Home, home), Layer.succeed(Environment, environment))
    const inherited = Inherited.read(environment.process)
    const tooDeep = Inherited.refusal(inherited)
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
    return assemble(
      {
        store: SqliteSessionStore.layer({ path: home.database }),
        tools: [files, terminal, todo, delegation, ...yield* ProgramTools.toolsets],
        hooks: yield* shellHooks(settings, start),
        hookSettings: Said.hooks(settings),
        platform: "cli",
        instructions: settings.agent.environmentHint,
        prefill: yield* Said.prefill(settings, environment, home),
        maxIterations: settings.agent.maxTurns,
        budget: Said.budget(settings),
        maxOutputTokens: settings.model.maxTokens,
        reasoningEffort: settings.agent.reasoningEffort,
        approvals: Approvals.layer().pipe(
          Layer.provide([AllowListFile.layer, Scanner.layer]),
          Layer.provide(Layer.succeed(Settings, settings)),
          Layer.provide([configured, ChildProcesses.layer])
        ),
        loopGuard: Said.loopGuard(settings),
        delegation: yield* Said.delegation(settings, { environment, logins }, start)
      },
      {
        places: Places.layer({
          home: environment.get("HOME") ?? environment.get("USERPROFILE"),
          agentHome: home.root,
          safeRoots: settings.security.writeSafeRoot,
          inherited: inherited?.roots
        }),
        results: BoundsFile.layer(home.results),
        plugged: Layer.merge(
          LoadPlugins.ofProgram(settings, process.cwd(), start.reserved),
          ProgramTools.servers(settings)
        ).pipe(Layer.provide(configured)),
        router: OpenRouter.layer(settings, start, logins).pipe(Layer.provide(configured)),
        helpers: OpenRouter.isReplaced(start) ? SideTasks.ownProvider : SideTasks.ofProgram(settings, environment, logins)
      }
    ).pipe(Layer.provide([Said.tools(settings, inherited), ProgramTools.told(settings, environment, home)]))
  })).pipe(Layer.provide(ChildProcesses.layer)))
