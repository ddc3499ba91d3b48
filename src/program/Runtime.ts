/**
 * Combines all layers into one Layer that provides an agent to an application.
 *
 * **Details**
 *
 * Every part has a default and can be replaced. The model defaults to the embedded offline stand-in and is configured
 * as one `provider` or as a list of `routes` with keys and fallbacks. The session store defaults to memory. Tools,
 * hooks, middleware and plugins default to empty lists. By default, calls that need an approval do not run. The lists
 * are applied in their order. Node's services are provided.
 *
 * **Gotchas**
 *
 * A runtime without a provider uses {@link Offline}, which identifies itself as a stand-in and is useful for
 * experiments and tests. Middleware that adds failures needs an agent with a separate key, see `Agent.make`.
 *
 * **Example** (An agent that may read files)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, FileTools, Runtime } from "hermes-effect"
 *
 * const program = Agent.run({ prompt: "Read README.md and tell me what this is." })
 *
 * program.pipe(Effect.provide(Runtime.layer({ tools: [FileTools.toolset] })), Effect.runPromise)
 * ```
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../agent/Agent.ts"
import type { AgentSettings } from "../agent/RunInput.ts"
import * as RunContext from "../base/domain/RunContext.ts"
import * as Secrets from "../base/domain/Secrets.ts"
import type { TupleLike } from "../base/domain/TupleLike.ts"
import type * as CommandEnvironment from "../places/CommandEnvironment.ts"
import type { Platform } from "../base/platform/ChildProcesses.ts"
import type { Hook } from "../hooks/Hook.ts"
import * as Hooks from "../hooks/Hooks.ts"
import {
  makeAgentLayer,
  type ApprovalsLayer,
  assemble,
  complete,
  makePluginLayer as loadPlugins,
  withBackground,
  withoutPlugins
} from "./runtime/Assembly.ts"
import * as SideTasks from "./runtime/SideTasks.ts"
import type * as Middleware from "../middleware/Middleware.ts"
import type { Plugin } from "../agent/plugin/Plugin.ts"
import * as Offline from "../models/provider/Offline.ts"
import type { Provider } from "../models/provider/Provider.ts"
import type { ModelRoute, OneModel, RoutesError } from "../models/routing/EmbeddedRoutes.ts"
import * as ModelRouter from "../models/routing/ModelRouter.ts"
import type { FallbackPolicy } from "../models/routing/FallbackPolicy.ts"
import type { RetryPolicy } from "../models/routing/RetryPolicy.ts"
import { RunRecord } from "../store/RunRecord.ts"
import type { SessionSearch } from "../store/SessionSearch.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import * as ChangeRecording from "../tools/ChangeRecording.ts"
import * as ResultText from "../tools/ResultText.ts"
import * as PathRoots from "../tools/builtin/file/PathRoots.ts"
import type { ListOf as ToolsetList, NeedsOf } from "../tools/ToolRegistry.ts"
import type { Any as AnyToolset } from "../tools/Toolset.ts"

export type { Services } from "./runtime/Assembly.ts"
export { program, type Start } from "./runtime/ProgramRuntime.ts"
export type { ModelRoute } from "../models/routing/EmbeddedRoutes.ts"

/**
 * The lists that an application provides, and the settings of its agent. Each has a default. `R` is the context that
 * they read from each run (`RunContext`).
 */
export interface Parts<
  R,
  Tools extends ReadonlyArray<AnyToolset>,
  Listeners extends ReadonlyArray<Hook<unknown>>,
  Plugged extends ReadonlyArray<Plugin<unknown>>
> extends Omit<AgentSettings, "tools"> {
  readonly tools?: (Tools & ToolsetList<Tools> & RunContext.AtMost<R, NeedsOf<Tools[number]>>) | undefined
  readonly hooks?: (Listeners & Hooks.ListOf<Listeners> & RunContext.AtMost<R, Hooks.Needs<Listeners>>) | undefined
  /** Plugins, loaded before all other parts: their hooks are called first, and their middleware is outermost. */
  readonly plugins?: (Plugged & PluginList<Plugged> & RunContext.AtMost<R, PluginNeeds<Plugged[number]>>) | undefined
  /** Settings that apply to all hooks. */
  readonly hookSettings?: Hooks.Settings | undefined
}

/** Services for which a runtime has a default. */
export interface Defaults<ProviderError, ProviderNeeds, StoreError, StoreNeeds, Routes, EnvironmentError> {
  /** Layer of the model provider. Default: the embedded offline stand-in. */
  readonly provider?: Layer.Layer<Provider, ProviderError, ProviderNeeds> | undefined
  /**
   * Models in order of preference: the first is called first, and the others are fallbacks if it cannot answer. Used
   * instead of `provider`.
   */
  readonly routes?: Routes | undefined
  /** Policy for repeating failed calls on their route. Default: `RetryPolicy.default`. */
  readonly retry?: RetryPolicy | undefined
  /** Policy for leaving a route and returning to the primary route. Default: `FallbackPolicy.default`. */
  readonly fallback?: FallbackPolicy | undefined
  /** Store of sessions. Default: memory. */
  readonly store?: Layer.Layer<SessionStore | SessionSearch, StoreError, StoreNeeds> | undefined
  /**
   * Environment in which the built-in tools run commands and store files: `Sandbox.layer(…)`. Default: this machine
   * (`CommandEnvironment.layerLocal`), without a sandbox. Only the command line program selects a sandbox
   * automatically.
   */
  readonly environment?: Layer.Layer<CommandEnvironment.CommandEnvironment, EnvironmentError, Platform> | undefined
  /**
   * Layer of the run record. Default: the record of `store`, if it includes one (`SessionStore.layerSqlite`), otherwise
   * memory.
   */
  readonly record?: Layer.Layer<RunRecord> | undefined
  /**
   * Options for recording file changes made by tools, so that `FileUndo` can revert them. Default: changes are reported
   * as events, and cannot be reverted.
   */
  readonly changes?: ChangeRecording.Options | undefined
  /**
   * Decides which dangerous calls may run, such as `Approvals.layerCallback`. Default: none of them may run. The judge
   * of `Approvals.layerSmart` is a side task of the runtime, unless the application provides a judge.
   */
  readonly approvals?: ApprovalsLayer | undefined
  /**
   * Hosts that tools may access without an approval: `example.com`, `*.example.com`, `localhost:8080`. All other hosts
   * need an approval. Default: the hosts of the `Urls.UrlPolicy` in the context of the layer, which allows no hosts by
   * default.
   */
  readonly hosts?: ReadonlyArray<string> | undefined
}

/** Options of {@link Runtime.layer}. */
export interface Options<
  Tools extends ReadonlyArray<AnyToolset>,
  Listeners extends ReadonlyArray<Hook<unknown>>,
  Middlewares extends ReadonlyArray<Middleware.Any>,
  Plugged extends ReadonlyArray<Plugin<unknown>>,
  ProviderError,
  ProviderNeeds,
  StoreError,
  StoreNeeds,
  Routes,
  EnvironmentError
>
  extends
    Parts<never, Tools, Listeners, Plugged>,
    Defaults<ProviderError, ProviderNeeds, StoreError, StoreNeeds, Routes, EnvironmentError> {
  /**
   * Middleware of the agent; the first is outermost. It must not add failures or read values of a run; see
   * {@link make}.
   */
  readonly middleware?: Agent.Bounded<never, never, Middlewares> | undefined
}

type PluginNeeds<One> = One extends Plugin<infer R> ? R : never
type PluginList<Plugged extends ReadonlyArray<Plugin<unknown>>> = TupleLike<Plugin<PluginNeeds<Plugged[number]>>>

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
          const { UrlPolicy } = yield* Effect.promise(() => import("../tools/fence/Urls.ts"))
          const policy = yield* UrlPolicy
          return Layer.provide(runtime, Layer.succeed(UrlPolicy, { ...policy, hosts: [...policy.hosts, ...hosts] }))
        })
      )

/** Returns the layers of the services around an application's runtime, such as the model router. */
const ofApplication = <
  Plugged extends ReadonlyArray<Plugin<unknown>>,
  ProviderError,
  ProviderNeeds,
  Routes extends ReadonlyArray<ModelRoute>
>(
  plugins: PluginList<Plugged>,
  {
    changes,
    fallback,
    provider,
    retry,
    routes
  }: Pick<
    Defaults<ProviderError, ProviderNeeds, never, never, Routes, never>,
    "changes" | "fallback" | "provider" | "retry" | "routes"
  >
) => {
  const model: Layer.Layer<Provider, ProviderError, ProviderNeeds> = provider ?? Offline.layer()
  const router: Layer.Layer<ModelRouter.ModelRouter, ProviderError | RoutesError<Routes>, ProviderNeeds> =
    routes === undefined
      ? ModelRouter.layerWith({ retry }).pipe(Layer.provide(model))
      : // There are routes, so `Routes` is not `never`, and the error is the one that they have.
        (ModelRouter.layerFromRoutes(routes, { fallback, retry }) as Layer.Layer<
          ModelRouter.ModelRouter,
          RoutesError<Routes>
        >)
  return {
    // An environment variable that cannot be read is a defect of the host.
    places: Layer.orDie(PathRoots.layerConfig),
    kept:
      changes === undefined
        ? ResultText.layerTemporary
        : Layer.merge(ResultText.layerTemporary, ChangeRecording.layer(changes)),
    plugged: plugins.length === 0 ? withoutPlugins : loadPlugins({ plugins }),
    router,
    helpers: SideTasks.ownProvider
  }
}

/**
 * Layer of an agent that takes all services from its context, for applications that provide them: the router, the
 * session store, the tools, hooks, approvals, and the services shared by file and process tools. A missing layer is a
 * compile error.
 *
 * **Example** (Every service named)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import {
 *   Agent,
 *   Approvals,
 *   CommandEnvironment,
 *   Hooks,
 *   ModelRouter,
 *   Offline,
 *   Runtime,
 *   SessionStore,
 *   ToolRegistry
 * } from "hermes-effect"
 * import { FileState } from "hermes-effect/tools/files"
 * import { ProcessEvents, ProcessRegistry } from "hermes-effect/tools/terminal"
 *
 * const agent = Runtime.layerNoDeps({ instructions: "Answer in one word." }).pipe(
 *   Layer.provide([
 *     ModelRouter.layer.pipe(Layer.provide(Offline.layer())),
 *     SessionStore.layerMemory,
 *     ToolRegistry.layer([]),
 *     Approvals.layerDeny(),
 *     FileState.layer,
 *     ProcessRegistry.layer
 *   ]),
 *   Layer.provide([Hooks.layer([]), ProcessEvents.layer, CommandEnvironment.layerLocal]),
 *   Layer.provide(NodeServices.layer)
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), agent))).text)
 * // => hello
 * ```
 */
export const layerNoDeps = <const Middlewares extends ReadonlyArray<Middleware.Any> = []>(
  options: Agent.BoundedOptions<never, never, Middlewares> = {}
) =>
  withBackground(
    Layer.effect(Agent.Agent, Effect.andThen(complete, Agent.makeBounded<never, never, Middlewares>(options)))
  )

/** Layer of a runtime with a default for every service; see the top of this file. */
export const layer = <
  const Tools extends ReadonlyArray<AnyToolset> = [],
  const Listeners extends ReadonlyArray<Hook<unknown>> = [],
  const Middlewares extends ReadonlyArray<Middleware.Any> = [],
  const Plugged extends ReadonlyArray<Plugin<unknown>> = [],
  ProviderError = never,
  ProviderNeeds = never,
  StoreError = never,
  StoreNeeds = never,
  const Routes extends ReadonlyArray<ModelRoute> = never,
  EnvironmentError = never
>(
  options: OneModel &
    Options<
      Tools,
      Listeners,
      Middlewares,
      Plugged,
      ProviderError,
      ProviderNeeds,
      StoreError,
      StoreNeeds,
      Routes,
      EnvironmentError
    > = {}
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
    plugins,
    provider,
    record,
    retry,
    routes,
    store,
    tools,
    ...settings
  } = options
  return Secrets.provideRegistryLayer(
    withHosts(
      hosts,
      assemble(
        makeAgentLayer(Agent.Agent, (outermost) =>
          Agent.makeBounded<never, never, Middlewares>({ ...settings, middleware, outermost })
        ),
        { approvals, environment, hooks, hookSettings, middleware, record, store, tools },
        ofApplication<Plugged, ProviderError, ProviderNeeds, Routes>(plugins ?? [], {
          changes,
          fallback,
          provider,
          retry,
          routes
        })
      )
    )
  )
}

/**
 * Creates a runtime with an agent under the application's key. The type of the key includes the errors of its
 * middleware and the values read for each run (`RunContext`). The runtime has no other agent.
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
 * const limit = Middleware.wrapModelCall({ name: "limit", wrap: () => () => Effect.fail(new Overspent()) })
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
  const Routes extends ReadonlyArray<ModelRoute> = never,
  EnvironmentError = never
>(
  key: Context.Key<Self, Agent.Service<E, R>>,
  options: OneModel &
    Parts<R, Tools, Listeners, Plugged> &
    Defaults<ProviderError, ProviderNeeds, StoreError, StoreNeeds, Routes, EnvironmentError> & {
      /**
       * Middleware of the agent; the first is outermost. It may add only the failures, and read only the values of a
       * run, that the type of `key` includes.
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
    plugins,
    provider,
    record,
    retry,
    routes,
    store,
    tools,
    ...settings
  } = options
  return Secrets.provideRegistryLayer(
    withHosts(
      hosts,
      assemble(
        makeAgentLayer(key, (outermost) =>
          Agent.makeBounded<E, R, Middlewares>({ ...settings, middleware, outermost })
        ),
        { approvals, environment, hooks, hookSettings, middleware, record, store, tools },
        ofApplication<Plugged, ProviderError, ProviderNeeds, Routes>(plugins ?? [], {
          changes,
          fallback,
          provider,
          retry,
          routes
        })
      )
    )
  )
}
