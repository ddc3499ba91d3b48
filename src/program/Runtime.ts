/**
 * Combines all layers into one Layer that provides an agent to an application.
 *
 * **Details**
 *
 * Every part has a default and can be replaced. The model defaults to the embedded offline stand-in and is configured
 * as one `provider` or as a list of `routes` with keys and fallbacks. The session store defaults to memory. Tools,
 * hooks, middleware and plugins default to empty lists. By default, calls that need an approval do not run. The lists
 * are applied in their order. Node's services are provided. Middleware from other places (`Middleware.layer`,
 * `Middleware.layerAdd`) is provided to the runtime; hooks and toolsets are added above it (`Hooks.layerAdd`,
 * `ToolRegistry.layerAdd`).
 *
 * **Gotchas**
 *
 * Log entries are at level debug or warning, with the annotation `"hermes.logger": "hermes-effect"`. Effect's default
 * logger writes them to standard error.
 *
 * A runtime without a provider uses {@link Offline}, which identifies itself as a stand-in and is useful for
 * experiments and tests. Middleware that adds failures needs an agent with a separate key, see {@link make}.
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
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../agent/Agent.ts"
import type { Output } from "../base/domain/AnswerFormat.ts"
import type { Environment, Home } from "../base/config/Environment.ts"
import type { Values } from "../base/config/Settings.ts"
import type { ConfigError } from "../base/domain/AgentError.ts"
import type { Hook } from "../hooks/Hook.ts"
import type { Services } from "./runtime/AgentLayer.ts"
import type { Start } from "./runtime/ProgramStart.ts"
import type { Defaults, Options, Parts } from "./runtime/RuntimeOptions.ts"
import type * as Middleware from "../middleware/Middleware.ts"
import type { Plugin } from "../agent/plugin/Plugin.ts"
import type { ModelRoute, OneModel } from "../models/routing/RouteChain.ts"
import type { Any as AnyToolset } from "../tools/Toolset.ts"

export type { Services } from "./runtime/AgentLayer.ts"
export type { Start } from "./runtime/ProgramStart.ts"
export type { ModelRoute } from "../models/routing/RouteChain.ts"

export type { Defaults, Options, Parts } from "./runtime/RuntimeOptions.ts"

/** The layers of a runtime, which are loaded when the first one is built. */
const loadLayers = Effect.promise(() => import("./runtime/RuntimeLayers.ts"))

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
  Layer.unwrap(Effect.map(loadLayers, ({ makeAgentWithoutDefaults }) => makeAgentWithoutDefaults<Middlewares>(options)))

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
) =>
  Layer.unwrap(
    Effect.map(loadLayers, ({ makeRuntime }) =>
      makeRuntime<
        Self,
        E,
        R,
        Middlewares,
        Tools,
        Listeners,
        Plugged,
        ProviderError,
        ProviderNeeds,
        StoreError,
        StoreNeeds,
        Routes,
        EnvironmentError,
        Value,
        ValueJson
      >(key, options)
    )
  )

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
) =>
  make<
    Agent.Agent,
    never,
    never,
    Middlewares,
    Tools,
    Listeners,
    Plugged,
    ProviderError,
    ProviderNeeds,
    StoreError,
    StoreNeeds,
    Routes,
    EnvironmentError
  >(Agent.Agent, options)

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
  Layer.unwrap(Effect.map(loadLayers, ({ makeProgram }) => makeProgram(settings, start)))
