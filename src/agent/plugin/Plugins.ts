/**
 * The plugins of a runtime, as the rest of it sees them. `PluginManager` loads them.
 *
 * **Example** (What is loaded)
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
  /** The conversation that takes the messages of plugins, for as long as the scope lives. */
  readonly attach: (conversation: Conversation) => Effect.Effect<void, never, Scope.Scope>
  /**
   * Sets the services that make the tool calls of plugins and answer their questions, for as long as the scope lives.
   */
  readonly serve: (services: PluginServices) => Effect.Effect<void, never, Scope.Scope>
}

/**
 * The plugins of a runtime.
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

/** A runtime without plugins. */
export const none: Service = { loaded: nothing, reload: nothing, attach: () => Effect.void, serve: () => Effect.void }
