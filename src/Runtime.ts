/**
 * The place where all layers meet: one Layer that gives an application an agent.
 *
 * **Details**
 *
 * Every part has a default and can be swapped: the provider (the embedded offline stand-in), the session store (memory),
 * the tools, hooks and middleware (none). Order is the order of the lists. Node's services (files, processes, paths) are
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
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Agent from "./agent/Agent.ts"
import type { AgentSettings } from "./agent/RunInput.ts"
import type { Hook } from "./hooks/Hook.ts"
import * as Hooks from "./hooks/Hooks.ts"
import type * as Middleware from "./middleware/Middleware.ts"
import * as Offline from "./provider/Offline.ts"
import type { Provider } from "./provider/Provider.ts"
import { ModelRouter } from "./routing/ModelRouter.ts"
import * as MemorySessionStore from "./session/MemorySessionStore.ts"
import type { SessionSearch } from "./session/SessionSearch.ts"
import type { SessionStore } from "./session/SessionStore.ts"
import { FileState } from "./tool/builtin/file/FileState.ts"
import { Places } from "./tool/builtin/file/Places.ts"
import { ProcessEvents } from "./tool/builtin/terminal/ProcessEvents.ts"
import { ProcessRegistry } from "./tool/builtin/terminal/ProcessRegistry.ts"
import { TodoState } from "./tool/builtin/Todo.ts"
import { type ErrorOf, type NeedsOf, ToolRegistry } from "./tool/ToolRegistry.ts"
import type { Toolset } from "./tool/Toolset.ts"

/** What a runtime is made of; each part has a default. */
export interface Options<
  Tools extends ReadonlyArray<Toolset<unknown, unknown>>,
  Listeners extends ReadonlyArray<Hook<unknown>>,
  Middlewares extends ReadonlyArray<Middleware.Any>,
  ProviderError,
  ProviderNeeds,
  StoreError,
  StoreNeeds
> extends Omit<AgentSettings, "tools"> {
  readonly provider?: Layer.Layer<Provider, ProviderError, ProviderNeeds> | undefined
  readonly store?: Layer.Layer<SessionStore | SessionSearch, StoreError, StoreNeeds> | undefined
  readonly tools?: Tools | undefined
  readonly hooks?: Listeners | undefined
  readonly middleware?: Middlewares & ([Middleware.Errors<Middlewares>] extends [never] ? unknown : never) | undefined
}

type HookNeeds<Listener> = Listener extends Hook<infer R> ? R : never

/** What the built-in toolsets share with the runtime. */
type Support = Places | FileState | TodoState | ProcessRegistry | ProcessEvents

/** {@link Support}, with the places that the environment names. A variable that can not be read is a defect of the host. */
const support: Layer.Layer<Support> = Layer.mergeAll(
  Layer.orDie(Places.layerConfig),
  FileState.layer,
  TodoState.layer,
  ProcessRegistry.layer.pipe(Layer.provideMerge(ProcessEvents.layer))
).pipe(Layer.provide(NodeServices.layer))

/** The services of a runtime. */
export type Services = Agent.Agent | ModelRouter | ToolRegistry | SessionStore | SessionSearch | Hooks.Hooks

/** See the module. */
export const layer = <
  const Tools extends ReadonlyArray<Toolset<unknown, unknown>> = [],
  const Listeners extends ReadonlyArray<Hook<unknown>> = [],
  const Middlewares extends ReadonlyArray<Middleware.Any> = [],
  ProviderError = never,
  ProviderNeeds = never,
  StoreError = never,
  StoreNeeds = never
>(
  options: Options<Tools, Listeners, Middlewares, ProviderError, ProviderNeeds, StoreError, StoreNeeds> = {}
): Layer.Layer<
  Services,
  ProviderError | StoreError | ErrorOf<Tools[number]>,
  Exclude<
    ProviderNeeds | StoreNeeds | NeedsOf<Tools[number]> | HookNeeds<Listeners[number]> | Middleware.Needs<Middlewares>,
    NodeServices.NodeServices | Support | Scope.Scope
  >
> => {
  const { hooks, middleware, provider, store, tools, ...settings } = options
  const parts = Layer.mergeAll(
    ModelRouter.layer.pipe(Layer.provide(provider ?? Offline.layer())),
    store ?? MemorySessionStore.layer,
    ToolRegistry.layer(tools ?? []),
    Hooks.layer(hooks ?? [])
  )
  // The condition on `options.middleware` has proved that its members add no failure.
  const agent = Agent.layer({ ...settings, middleware: (middleware ?? []) as [] })
  return agent.pipe(
    Layer.provideMerge(parts),
    Layer.provide([NodeServices.layer, support])
    // The lists' exact types say what their members fail with and need; inside they are lists of `unknown`.
  ) as never
}
