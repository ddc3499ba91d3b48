/** Options of a runtime that an application composes. `Runtime` exports them. */
import type * as Layer from "effect/Layer"
import type * as Agent from "../../agent/Agent.ts"
import type { Plugin } from "../../agent/plugin/Plugin.ts"
import type { AgentSettings } from "../../agent/RunInput.ts"
import type { Tenants } from "../../agent/Tenancy.ts"
import type * as RunContext from "../../base/domain/RunContext.ts"
import type { TupleLike } from "../../base/domain/TupleLike.ts"
import type { Platform } from "../../base/platform/ChildProcesses.ts"
import type { Hook } from "../../hooks/Hook.ts"
import type * as Hooks from "../../hooks/Hooks.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import type { Provider } from "../../models/provider/Provider.ts"
import type { FallbackPolicy } from "../../models/routing/FallbackPolicy.ts"
import type { RetryPolicy } from "../../models/routing/RetryPolicy.ts"
import type * as CommandEnvironment from "../../places/CommandEnvironment.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import type { SessionSearch } from "../../store/SessionSearch.ts"
import type { SessionStore } from "../../store/SessionStore.ts"
import type * as ChangeRecording from "../../tools/ChangeRecording.ts"
import type * as ToolRegistry from "../../tools/ToolRegistry.ts"
import type { Any as AnyToolset } from "../../tools/Toolset.ts"
import type { ApprovalsLayer } from "./AgentLayer.ts"

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
  readonly tools?:
    | (Tools & ToolRegistry.ListOf<Tools> & RunContext.AtMost<R, ToolRegistry.NeedsOf<Tools[number]>>)
    | undefined
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
  /** Repeats failed calls on their route. Default: `RetryPolicy.default`. */
  readonly retry?: RetryPolicy | undefined
  /** Leaves routes and returns to the primary. Default: `FallbackPolicy.default`. */
  readonly fallback?: FallbackPolicy | undefined
  /**
   * Store of sessions. Default: memory, with the bounds of `SessionStore.layerMemory`, and only the newest 100 ended
   * sessions of runs without a `sessionId`.
   */
  readonly store?: Layer.Layer<SessionStore | SessionSearch, StoreError, StoreNeeds> | undefined
  /**
   * Environment in which the built-in tools run commands and store files: `Sandbox.layer(…)`. Default: this machine
   * (`CommandEnvironment.layerLocal`), without a sandbox. Only the program selects a sandbox automatically.
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
  /** Tenants whose limits bound runs with a `tenant`. By default such a run fails. */
  readonly tenants?: Layer.Layer<Tenants> | undefined
  /**
   * Hosts that tools reach without an approval: `example.com`, `*.example.com`, `localhost:8080`. All other hosts need
   * an approval. Default: the hosts of the `Urls.UrlPolicy` in the context of the layer, which allows no hosts by
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
   * `Runtime.make`.
   */
  readonly middleware?: Agent.Bounded<never, never, Middlewares> | undefined
}

/** Values that a plugin requires. */
export type PluginNeeds<One> = One extends Plugin<infer R> ? R : never
/** A list of plugins, each typed with the union of all requirements. */
export type PluginList<Plugged extends ReadonlyArray<Plugin<unknown>>> = TupleLike<Plugin<PluginNeeds<Plugged[number]>>>
