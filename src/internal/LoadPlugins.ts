/**
 * The plugins of a runtime as a Layer; what loads them is loaded itself only when there is something to load. Used by `Runtime`
 * alone.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as RunContext from "../domain/RunContext.ts"
import { Environment } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import type { Values } from "../config/Settings.ts"
import type { Hooks } from "../hooks/Hooks.ts"
import { bundled } from "../observability/Bundled.ts"
import type { Plugin } from "../plugin/Plugin.ts"
import type { Options } from "../plugin/PluginManager.ts"
import { none, Plugins } from "../plugin/Plugins.ts"
import type { Reserved } from "../plugin/Registration.ts"
import type { ToolRegistry } from "../tool/ToolRegistry.ts"

type Loading<R = never> = Layer.Layer<Plugins, never, Hooks | ToolRegistry | FileSystem.FileSystem | Path.Path | R>

const nothing: Loading = Layer.succeed(Plugins, none)

const load = <R = never>(options: Options<R>): Loading<RunContext.AtBuild<R>> =>
  Layer.unwrap(
    Effect.map(Effect.promise(() => import("../plugin/PluginManager.ts")), ({ layer }) => layer(options))
  )

/** The plugins of an application. */
export const ofApplication = <R>(plugins: ReadonlyArray<Plugin<R>>): Loading<RunContext.AtBuild<R>> =>
  plugins.length === 0 ? nothing : load({ plugins })

/** The plugins of a program: those that its user enabled. */
export const ofProgram = (settings: Values, cwd: string, reserved: Reserved | undefined): Loading<Home | Environment> =>
  Layer.unwrap(Effect.gen(function*() {
    const home = yield* Home
    const environment = yield* Environment
    const { enabled, packages } = settings.plugins
    // Without one that the user enabled, only those load that need no consent, and those are bundled.
    const mayLoad = enabled.length > 0 || environment.get("HERMES_BUNDLED_PLUGINS") !== undefined ||
      bundled.some(({ kind }) => kind === "backend" || kind === "platform")
    return mayLoad
      ? load({
        places: { bundled, user: home.plugins, cwd, packages, variable: environment.get },
        settings: settings.plugins,
        reserved
      })
      : nothing
  }))
