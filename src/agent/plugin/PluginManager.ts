/**
 * Discovers, checks and loads the plugins of a runtime when the runtime is created. Their tools and hooks are
 * registered with the others; their middleware is outermost in the agent's stack, in load order.
 *
 * **Details**
 *
 * Plugins are loaded once. `reload` removes all their registrations and loads them again from disk. A failed scan of
 * the directories is not cached: the next scan tries again. `HERMES_PLUGINS_DEBUG` reports the result for each plugin.
 *
 * Source: `hermes-contract.md` §3, `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as RunContext from "../../base/domain/RunContext.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { Hooks } from "../../hooks/Hooks.ts"
import * as EntryServices from "../../middleware/EntryServices.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { Candidate } from "./Candidate.ts"
import * as Discovery from "./Discovery.ts"
import * as MessageInjection from "./MessageInjection.ts"
import * as Loading from "./Loading.ts"
import * as Manifest from "./Manifest.ts"
import type { Plugin } from "./Plugin.ts"
import { Plugins, type Service } from "./Plugins.ts"
import type { ReservedNames } from "./Registration.ts"
import * as PluginToolAccess from "./PluginToolAccess.ts"

/** Options of the plugins of a runtime. `R` is the services required by the application's plugins. */
export interface Options<out R = never> {
  /** Plugins of the application, loaded first, in this order. */
  readonly plugins?: ReadonlyArray<Plugin<R>> | undefined
  /** Places in which other plugins are searched. No plugins are searched if absent. */
  readonly places?: Discovery.Places | undefined
  /** Value of `plugins` in the configuration. */
  readonly settings?: Pick<Values["plugins"], "disabled" | "enabled" | "entries"> | undefined
  /** Command names that plugins cannot use. */
  readonly reserved?: ReservedNames | undefined
}

const nothingSaid: NonNullable<Options["settings"]> = { enabled: [], disabled: [], entries: {} }

const nothingReserved: ReservedNames = { commands: [], cliCommands: [] }

const toApplicationCandidate = (plugin: Plugin<unknown>): Candidate => ({
  key: plugin.name,
  name: plugin.name,
  names: [plugin.name],
  source: "application",
  kind: "standalone",
  manifest: {
    ...Manifest.empty,
    name: plugin.name,
    version: plugin.version ?? "",
    description: plugin.description ?? ""
  },
  origin: { _tag: "Value", load: Effect.succeed(plugin) }
})

interface LoadedGeneration {
  readonly scope: Scope.Closeable
  readonly loaded: Loading.LoadedPlugins
  /** True if all places could be searched. */
  readonly isWhole: boolean
}

type Services = Hooks | ToolRegistry | FileSystem.FileSystem | Path.Path

/** Loads the plugins until the scope closes. */
export const make = Effect.fnUntraced(function* <R = never>({
  places,
  plugins = [],
  reserved = nothingReserved,
  settings = nothingSaid
}: Options<R>): Effect.fn.Return<Service, never, R | Services | Scope.Scope> {
  const context = yield* Effect.context<R | Services | Scope.Scope>()
  const parent = yield* Effect.scope
  const injection = MessageInjection.make()
  const toolAccess = PluginToolAccess.make()
  const lock = Semaphore.makeUnsafe(1)
  const own = plugins.map(toApplicationCandidate)
  let current: LoadedGeneration | undefined
  let generation = 0

  /** `undefined` if the directories could not be read. */
  const found =
    places === undefined
      ? Effect.succeed<ReadonlyArray<Candidate>>([])
      : Discovery.discover(places).pipe(
          Effect.tap(({ warnings }) =>
            Effect.forEach(warnings, (warning) => Effect.logWarning(warning), { discard: true })
          ),
          Effect.map(({ candidates }) => candidates),
          Effect.catch((error) =>
            Effect.as(Effect.logWarning(`cannot search for plugins: ${error.message}`), undefined)
          )
        )

  const unload = Effect.suspend(() => {
    const before = current
    current = undefined
    return before === undefined ? Effect.void : Scope.close(before.scope, Exit.void)
  })

  const load = Effect.gen(function* () {
    yield* unload
    const others = yield* found
    const disk = (others ?? []).filter(({ key }) => !own.some((plugin) => plugin.key === key))
    // A plugin of the application counts, and not one with its name on disk.
    for (const plugin of own) {
      const { warnings } = Discovery.mergeByKey([...(others ?? []).filter(({ key }) => key === plugin.key), plugin])
      for (const warning of warnings) yield* Effect.logWarning(warning)
    }
    const scope = yield* Scope.fork(parent)
    const loaded = yield* Loading.loadAll([...own, ...disk], {
      lists: settings,
      entries: settings.entries,
      reserved,
      injection,
      toolAccess,
      generation
    }).pipe(Effect.provideService(Scope.Scope, scope))
    generation++
    current = { scope, loaded, isWhole: others !== undefined }
    return loaded
  })

  const once = Effect.suspend(() => (current?.isWhole === true ? Effect.succeed(current.loaded) : load))

  const isLoud = places !== undefined && Discovery.isTruthy(places.variable("HERMES_PLUGINS_DEBUG"))
  const bring = EntryServices.provideContext(context)
  const runExclusively = <A>(effect: Effect.Effect<A, never, Services | Scope.Scope>): Effect.Effect<A> =>
    lock.withPermit(bring(isLoud ? Effect.provideService(effect, References.MinimumLogLevel, "Debug") : effect))

  return {
    loaded: runExclusively(once),
    reload: runExclusively(load),
    attach: injection.attach,
    serve: toolAccess.attach
  }
})

/** Layer that loads the plugins of a runtime. */
export const layer = <R = never>(options: Options<R>): Layer.Layer<Plugins, never, RunContext.AtBuild<R> | Services> =>
  Layer.effect(
    Plugins,
    Effect.tap(RunContext.deferKeys(make(options)), ({ loaded }) => loaded)
  )
