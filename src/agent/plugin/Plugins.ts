/**
 * Service that gives the rest of a runtime access to its plugins. `PluginManager` loads them.
 *
 * **Example** (Listing the loaded plugins)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Hooks, Plugin, Runtime } from "hermes-effect"
 * import { Plugins } from "hermes-effect/plugins"
 *
 * const audit = Plugin.fromValue({ name: "audit", hooks: [Hooks.on("post_tool_call", () => Effect.void)] })
 *
 * const program = Effect.gen(function*() {
 *   const { plugins } = yield* (yield* Plugins.Plugins).loaded
 *   return plugins.map(({ key }) => key)
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer({ plugins: [audit] }))))
 * // => [ 'audit' ]
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Conversation } from "./MessageInjection.ts"
import type { LoadedPlugins } from "./Loading.ts"
import type { PluginServices } from "./PluginToolAccess.ts"

/** Loads, reloads and serves the plugins of a runtime. */
export interface Service {
  readonly loaded: Effect.Effect<LoadedPlugins>
  /** Unloads and loads the plugins again. The stack of an existing agent retains its original middleware. */
  readonly reload: Effect.Effect<LoadedPlugins>
  /** Sets the conversation that receives the messages of plugins, until the scope closes. */
  readonly attach: (conversation: Conversation) => Effect.Effect<void, never, Scope.Scope>
  /** Sets the services that run the tool calls of plugins and answer their questions, until the scope closes. */
  readonly serve: (services: PluginServices) => Effect.Effect<void, never, Scope.Scope>
}

/**
 * Service of the plugins of a runtime.
 *
 * @see {@link Service} for its members.
 */
export class Plugins extends Context.Service<Plugins, Service>()("hermes-effect/plugin/Plugins") {}

const nothing = Effect.succeed<LoadedPlugins>({
  plugins: [],
  middleware: [],
  providers: [],
  memoryProviders: [],
  contextEngines: [],
  commands: [],
  cliCommands: []
})

/** Service of a runtime without plugins. */
export const none: Service = { loaded: nothing, reload: nothing, attach: () => Effect.void, serve: () => Effect.void }
