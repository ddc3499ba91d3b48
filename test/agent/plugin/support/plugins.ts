// Plugins on disk in a home of their own, loaded into registries of their own.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import * as Hooks from "../../../../src/hooks/Hooks.ts"
import type { Places } from "../../../../src/agent/plugin/Discovery.ts"
import * as PluginManager from "../../../../src/agent/plugin/PluginManager.ts"
import * as ToolRegistry from "../../../../src/tools/ToolRegistry.ts"
import type { Toolset } from "../../../../src/tools/Toolset.ts"
import { temporaryDirectory } from "../../../support/temporaryDirectory.ts"

export interface Place {
  readonly directory: string
  /** `HERMES_HOME/plugins`. */
  readonly user: string
  /** The working directory. */
  readonly cwd: string
  /** Writes files below the directory. */
  readonly write: (files: Readonly<Record<string, string>>) => void
  /** A plugin of the user's: a manifest (`name: <directory>` when absent) and a module. */
  readonly plugin: (directory: string, module: string | undefined, manifest?: string) => void
  readonly places: (more?: Partial<Places>) => Places
}

/** A trust that says the same of every folder. */
export const trusting = (trusts: boolean): Places["trust"] => ({
  isTrusted: () => Effect.succeed(trusts),
  findOwnProject: (folder) => Effect.succeed(folder)
})

export const place: Effect.Effect<Place, never, Scope.Scope> = Effect.map(temporaryDirectory, (directory) => {
  const user = join(directory, "home", "plugins")
  const cwd = join(directory, "work")
  mkdirSync(user, { recursive: true })
  mkdirSync(cwd)
  const write: Place["write"] = (files) => {
    for (const [path, text] of Object.entries(files)) {
      const file = join(directory, path)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, text)
    }
  }
  return {
    directory,
    user,
    cwd,
    write,
    plugin: (name, module, manifest = `name: ${name.slice(name.lastIndexOf("/") + 1)}\n`) => {
      write({ [`home/plugins/${name}/plugin.yaml`]: manifest })
      if (module !== undefined) write({ [`home/plugins/${name}/index.js`]: module })
    },
    places: (more = {}) => ({
      bundled: [],
      user,
      cwd,
      trust: trusting(true),
      packages: [],
      variable: () => undefined,
      ...more
    })
  }
})

export interface Setup extends Omit<PluginManager.Options, "settings"> {
  readonly enabled?: ReadonlyArray<string>
  readonly disabled?: ReadonlyArray<string>
  readonly entries?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly tools?: ReadonlyArray<Toolset>
}

/** Registries and the plugins that were loaded into them. */
export const loaded = Effect.fnUntraced(function* ({
  disabled = [],
  enabled = [],
  entries = {},
  tools = [],
  ...options
}: Setup) {
  const hooks = yield* Hooks.make()
  const registry = yield* ToolRegistry.make
  for (const toolset of tools) yield* registry.register(toolset)
  const services = Layer.mergeAll(
    NodeServices.layer,
    Layer.succeed(Hooks.Hooks, hooks),
    Layer.succeed(ToolRegistry.ToolRegistry, registry)
  )
  const context = yield* Layer.build(services)
  const manager = yield* PluginManager.make({ ...options, settings: { enabled, disabled, entries } }).pipe(
    Effect.provideContext(context)
  )
  return { ...(yield* manager.loaded), manager, hooks, registry }
})
