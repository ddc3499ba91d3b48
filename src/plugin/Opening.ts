/**
 * Gets the plugin out of a candidate: imports its module, and reads what that exports. This is where code of a plugin first
 * runs.
 *
 * **Details**
 *
 * A module has a plugin as its default export (`Plugin.make`, `Plugin.value`), or a function `register(ctx)`, exported by
 * that name or as the default. It may export `apiVersion` (or `api_version`), the version of the plugin contract that it is written
 * for; a typed plugin has that of the package that made it. What it imports as `effect` and `hermes-effect` is this program's own copy.
 *
 * Source: `hermes-contract.md` §3.4, `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import * as PlainReturn from "../middleware/PlainReturn.ts"
import type { Candidate } from "./Candidate.ts"
import * as Directories from "./Directories.ts"
import { importModule, share } from "../platform/PluginModules.ts"
import * as Manifest from "./Manifest.ts"
import { contractOf, isPlugin, type Plugin, untyped } from "./Plugin.ts"
import { PluginError } from "./PluginError.ts"
import type * as RegisterContext from "./RegisterContext.ts"

type Register = (context: RegisterContext.RegisterContext) => unknown

const memberOf = (value: unknown, key: string): unknown => Predicate.isObjectOrArray(value) ? Reflect.get(value, key) : undefined

/** Exports of a module, the likeliest place first: modules that were CommonJS have all of it below their default. */
const offeredBy = (module: unknown): ReadonlyArray<unknown> => {
  const main = memberOf(module, "default")
  return [main, memberOf(main, "default"), memberOf(module, "register"), memberOf(main, "register")]
}

/** Version of the contract that a module says itself. */
const statedBy = (module: unknown): unknown =>
  [module, memberOf(module, "default")].flatMap((place) => ["apiVersion", "api_version"].map((key) => memberOf(place, key)))
    .find((stated) => stated !== undefined)

/** A function of any other form throws when it is called, which is the plugin's own trouble. */
const isRegister = (value: unknown): value is Register => Predicate.isFunction(value)

const unload = (key: string, run: () => unknown) =>
  Effect.catch(PlainReturn.call(run), ({ error }) => Effect.logWarning(`plugin ${key}: onUnload failed: ${String(error)}`))

/** Contributions of `register(ctx)`, as the build of a plugin. */
const registering = Effect.fnUntraced(function*(candidate: Candidate, register: Register, host: RegisterContext.Host) {
  const { make } = yield* Effect.promise(() => import("./RegisterContext.ts"))
  const collector = make(candidate, host)
  yield* PlainReturn.call(() => register(collector.context)).pipe(
    Effect.mapError(({ error }) => error),
    Effect.ensuring(Effect.sync(collector.finish))
  )
  for (const run of collector.unload) yield* Effect.addFinalizer(() => unload(candidate.key, run))
  return collector.finish()
})

const failure = ({ key }: Candidate, message: string, cause?: unknown): PluginError =>
  new PluginError({ plugin: key, message, cause })

const pluginOf = (candidate: Candidate, module: unknown, host: RegisterContext.Host): Effect.Effect<Plugin<unknown>, PluginError> => {
  const offered = offeredBy(module)
  const plugin = offered.find(isPlugin)
  const problem = Manifest.contractProblem(statedBy(module)) ?? (plugin && Manifest.contractProblem(contractOf(plugin)))
  if (problem !== undefined) return Effect.fail(failure(candidate, problem))
  if (plugin !== undefined) return Effect.succeed(plugin)
  const register = offered.find(isRegister)
  return register === undefined
    ? Effect.fail(failure(candidate, "its module has no register() function, and no plugin (Plugin.make, Plugin.value) as its default export"))
    : Effect.succeed(untyped({ name: candidate.name }, registering(candidate, register, host)))
}

const messageOf = (error: unknown): string => error instanceof Error ? error.message || error.name : String(error)

/** The plugin of a candidate. `generation` counts how often plugins were loaded, see `importModule`. */
export const open = Effect.fnUntraced(function*(
  candidate: Candidate,
  host: RegisterContext.Host,
  generation: number
): Effect.fn.Return<Plugin<unknown>, PluginError, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  const { manifest, origin } = candidate
  const problem = Manifest.contractProblem(manifest.apiVersion)
  if (problem !== undefined) return yield* failure(candidate, problem)
  const broken = (error: unknown): PluginError => failure(candidate, `its module cannot be loaded: ${messageOf(error)}`, error)
  if (origin._tag === "Value") return yield* Effect.mapError(origin.load, broken)
  const { directory, module } = origin
  if (module === undefined) {
    return yield* failure(candidate, `it has no module: ${directory} has none of ${Directories.modules.join(", ")}`)
  }
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  // The system's own names: Node knows a module by where it really lies.
  const [root, path] = yield* Effect.mapError(Effect.all([fs.realPath(directory), fs.realPath(module)]), broken)
  yield* share(root)
  yield* share(paths.dirname(path))
  const exported = yield* Effect.mapError(importModule(path, generation), broken)
  return yield* pluginOf(candidate, exported, host)
})
