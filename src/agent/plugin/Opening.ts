/**
 * Opens the plugin of a candidate: imports its module and reads the exports. This is where plugin code first runs.
 *
 * **Details**
 *
 * A module has a plugin as its default export (`Plugin.make`, `Plugin.fromValue`), or a function `register(ctx)`,
 * exported by that name or as the default. It may export `config`, the Schema of its settings, and `apiVersion` (or
 * `api_version`), the version of the plugin contract that it is written for; a typed plugin has the version of the
 * package that made it. Its imports of `effect` and `hermes-effect` resolve to this program's copies.
 *
 * Source: `hermes-contract.md` §3.4, `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Frozen from "../../middleware/Frozen.ts"
import * as PlainReturn from "../../middleware/PlainReturn.ts"
import type { Candidate } from "./Candidate.ts"
import * as Directories from "./Directories.ts"
import * as PluginDirectories from "../../base/platform/PluginDirectories.ts"
import { importModule, share } from "../../base/platform/PluginModules.ts"
import * as Manifest from "./Manifest.ts"
import { readContractVersion, isPlugin, type Plugin, makeUntyped } from "./Plugin.ts"
import * as PluginConfig from "./PluginConfig.ts"
import { PluginError } from "./PluginError.ts"
import type * as RegisterContext from "./RegisterContext.ts"

type Register = (context: RegisterContext.RegisterContext) => unknown

const readMember = (value: unknown, key: string): unknown =>
  Predicate.isObjectOrArray(value) ? Reflect.get(value, key) : undefined

/**
 * Lists the exports of a module, the most likely first. An imported CommonJS module has all exports in its default
 * export.
 */
const listOfferedExports = (module: unknown): ReadonlyArray<unknown> => {
  const main = readMember(module, "default")
  return [main, readMember(main, "default"), readMember(module, "register"), readMember(main, "register")]
}

/** Returns the contract version that a module states. */
const readStatedVersion = (module: unknown): unknown =>
  [module, readMember(module, "default")]
    .flatMap((place) => ["apiVersion", "api_version"].map((key) => readMember(place, key)))
    .find((stated) => stated !== undefined)

/**
 * A function that is not a `register` function throws when it is called, which is reported as a failure of the plugin.
 */
const isRegister = (value: unknown): value is Register => Predicate.isFunction(value)

const runUnloadHandler = (key: string, run: () => unknown) =>
  Effect.catch(PlainReturn.call(run), ({ error }) =>
    Effect.logWarning(`plugin ${key}: onUnload failed: ${String(error)}`)
  )

/** Collects the contributions of `register(ctx)` as the build effect of a plugin. */
const collectContributions = Effect.fnUntraced(function* (
  candidate: Candidate,
  register: Register,
  host: RegisterContext.Host
) {
  const { make } = yield* Effect.promise(() => import("./RegisterContext.ts"))
  const collector = make(candidate, host)
  yield* PlainReturn.call(() => register(collector.context)).pipe(
    Effect.mapError(({ error }) => error),
    Effect.ensuring(Effect.sync(collector.finish))
  )
  for (const run of collector.unload) yield* Effect.addFinalizer(() => runUnloadHandler(candidate.key, run))
  return collector.finish()
})

const makeFailure = ({ key }: Candidate, message: string, cause?: unknown): PluginError =>
  new PluginError({ plugin: key, message, cause })

const selectPlugin = (
  candidate: Candidate,
  module: unknown,
  host: RegisterContext.Host
): Effect.Effect<Plugin<unknown>, PluginError> => {
  const offered = listOfferedExports(module)
  const plugin = offered.find(isPlugin)
  const problem =
    Manifest.findContractProblem(readStatedVersion(module)) ??
    (plugin && Manifest.findContractProblem(readContractVersion(plugin)))
  if (problem !== undefined) return Effect.fail(makeFailure(candidate, problem))
  if (plugin !== undefined) return Effect.succeed(plugin)
  const register = offered.find(isRegister)
  return register === undefined
    ? Effect.fail(
        makeFailure(
          candidate,
          "its module has no register() function, and no plugin (Plugin.make, Plugin.fromValue) as its default export"
        )
      )
    : Effect.succeed(makePlainPlugin(candidate, module, register, host))
}

/** Finds the Schema that a module exports as `config`. */
const findExportedSchema = (module: unknown): Schema.Top | undefined =>
  [module, readMember(module, "default")]
    .map((place) => readMember(place, "config"))
    .find((value) => Schema.isSchema(value))

/** Creates the plugin of a module with `register(ctx)`. A `config` Schema among its exports decodes `ctx.config`. */
const makePlainPlugin = (
  candidate: Candidate,
  module: unknown,
  register: Register,
  host: RegisterContext.Host
): Plugin<unknown> => {
  const schema = findExportedSchema(module)
  if (schema === undefined)
    return makeUntyped({ name: candidate.name }, collectContributions(candidate, register, host))
  // A Schema whose decoding needs services cannot be told apart, and dies.
  const decoded = PluginConfig.decodeSchema(schema as Schema.Decoder<RegisterContext.Host["config"]>, host.config)
  return makeUntyped(
    { name: candidate.name, config: schema },
    Effect.flatMap(decoded, (config) =>
      collectContributions(candidate, register, { ...host, config: Frozen.copy(config) })
    )
  )
}

const formatMessage = (error: unknown): string => (error instanceof Error ? error.message || error.name : String(error))

/** Imports the module of a plugin on disk. */
const importExports = Effect.fnUntraced(function* (
  candidate: Candidate,
  { directory, module }: Extract<Candidate["origin"], { readonly _tag: "Directory" }>,
  generation: number
) {
  const toLoadError = makeLoadError(candidate)
  if (module === undefined) {
    return yield* makeFailure(candidate, `it has no module: ${directory} has none of ${Directories.modules.join(", ")}`)
  }
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  // Real paths are needed: Node identifies a module by its real path.
  const [root, path] = yield* Effect.mapError(Effect.all([fs.realPath(directory), fs.realPath(module)]), toLoadError)
  yield* PluginDirectories.registerDirectory(root, candidate.key)
  yield* share(root)
  yield* share(paths.dirname(path))
  return yield* Effect.mapError(importModule(path, generation), toLoadError)
})

const makeLoadError =
  (candidate: Candidate) =>
  (error: unknown): PluginError =>
    makeFailure(candidate, `its module cannot be loaded: ${formatMessage(error)}`, error)

/**
 * Returns the Schema of a plugin's settings, if its code has one. Imports the module, but registers and builds nothing.
 */
export const readConfigSchema = Effect.fnUntraced(function* (
  candidate: Candidate
): Effect.fn.Return<Schema.Top | undefined, PluginError, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  const { origin } = candidate
  if (origin._tag === "Value") return (yield* Effect.mapError(origin.load, makeLoadError(candidate))).config
  const module = yield* importExports(candidate, origin, 0)
  return listOfferedExports(module).find(isPlugin)?.config ?? findExportedSchema(module)
})

/** Opens the plugin of a candidate. `generation` counts how often plugins were loaded; see `importModule`. */
export const openPlugin = Effect.fnUntraced(function* (
  candidate: Candidate,
  host: RegisterContext.Host,
  generation: number
): Effect.fn.Return<Plugin<unknown>, PluginError, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  const { manifest, origin } = candidate
  const problem = Manifest.findContractProblem(manifest.apiVersion)
  if (problem !== undefined) return yield* makeFailure(candidate, problem)
  if (origin._tag === "Value") return yield* Effect.mapError(origin.load, makeLoadError(candidate))
  return yield* selectPlugin(candidate, yield* importExports(candidate, origin, generation), host)
})
