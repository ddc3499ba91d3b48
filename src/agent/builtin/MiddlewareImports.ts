/**
 * Creates the middleware named in a file: `middlewares: [{ import, params }]` in `config.yaml` and in agent files.
 *
 * **Details**
 *
 * | `import` | is |
 * | --- | --- |
 * | `long-tool-output` | bundled middleware, by its name |
 * | `nexau.…long_tool_output:LongToolOutputMiddleware` | bundled middleware, by its name in the lifecycle document |
 * | `./audit.ts#audit`, `lib/audit.ts#audit` | an export of a file, relative to the file that names it |
 * | `./audit.ts` | the default export of a file |
 * | `my_project.middleware:AuditMiddleware` | an export of `my_project/middleware.ts`, or else of a package |
 * | `@acme/agents#audit`, `pkg/middleware#audit` | an export of a package, resolved like an import in that file |
 *
 * A dotted path is relative to the file that names it and has one of the extensions `.ts`, `.mts`, `.js`, `.mjs` and
 * `.cjs`.
 *
 * `MiddlewareDefinition` converts exports to middleware. `${this_file_dir}` in parameters is replaced by the folder of
 * the file. Relative paths in parameters whose names end in `_path` or `_file` are resolved against that folder.
 *
 * An import is code that runs with the user's rights: modules are loaded from the program's home directory and from
 * trusted folders (`FolderTrust`) only, by their real paths. An error names the file, its line, the place and the
 * expected value.
 *
 * **Example** (The middleware of an agent file)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { AgentFile } from "hermes-effect/config"
 * import { MiddlewareImports } from "hermes-effect/middleware"
 *
 * export const middlewareOf = Effect.fn("middlewareOf")(function*(path: string) {
 *   const agent = yield* AgentFile.load(path)
 *   const made = yield* MiddlewareImports.make(agent.middlewares, agent.file)
 *   return made.map(({ middleware }) => middleware)
 * })
 * ```
 *
 * Source: the lifecycle document, `nexau.md` §6, `ARCHITECTURE.md` §7.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as ConfigFile from "../../base/config/ConfigFile.ts"
import { Home } from "../../base/config/Environment.ts"
import { FolderTrust, makeUntrustedError } from "../../base/config/FolderTrust.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Similarity from "../../base/domain/Similarity.ts"
import * as Faults from "../../middleware/Faults.ts"
import * as MiddlewareDefinition from "../../middleware/MiddlewareDefinition.ts"
import * as PluginModules from "../../base/platform/PluginModules.ts"
import * as BuiltinMiddleware from "./BuiltinMiddleware.ts"

/** A middleware entry of a settings file. */
export type Entry = BuiltinMiddleware.Entry

/** Middleware created from an entry, and the entry's place in the file. */
export type Made = BuiltinMiddleware.MadeMiddleware

/** An error in a part of an entry. */
interface Mistake {
  readonly at: ReadonlyArray<string>
  readonly message: string
}

const makeMistake = (at: ReadonlyArray<string>, message: string): Mistake => ({ at, message })

/** The module and the export to which an import refers. */
interface NamedExport {
  /** Import text as written in the file. */
  readonly text: string
  readonly module: string
  readonly name: string
}

const extensions = [".ts", ".mts", ".js", ".mjs", ".cjs"]

const isFile = (module: string): boolean =>
  /^(?:\.{1,2}[\\/]|[\\/]|~[\\/])/.test(module) || extensions.some((end) => module.endsWith(end))

const parse = (text: string): NamedExport | undefined => {
  const [, module = "", name = ""] = /^(.+?)(?:#|:)([A-Za-z_$][\w$]*)$/.exec(text) ?? []
  if (module !== "") return { text, module, name }
  return isFile(text) ? { text, module: text, name: "default" } : undefined
}

const makeUnknownMistake = (name: string): Mistake => {
  const meant = BuiltinMiddleware.findNearest(name)
  const suggestion = meant === undefined ? "" : `; did you mean ${meant}?`
  return makeMistake(
    ["import"],
    `there is no middleware ${JSON.stringify(name)}${suggestion} ` +
      `Bundled: ${BuiltinMiddleware.names.join(", ")}. Others are named as "./file.ts#export" or "package#export".`
  )
}

type Needs = FileSystem.FileSystem | Path.Path | FolderTrust | Scope.Scope

/** Lists the names in a folder. A folder that cannot be read has no names. */
const listNames = (folder: string): Effect.Effect<ReadonlyArray<string>, never, FileSystem.FileSystem> =>
  Effect.orElseSucceed(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readDirectory(folder)),
    () => []
  )

/**
 * Returns the most similar import for a module that was not found: bundled middleware, a module in the folder, or an
 * installed package.
 */
const findNearestModule = Effect.fnUntraced(function* (text: string, module: string, folder: string) {
  const paths = yield* Path.Path
  const bundled = BuiltinMiddleware.findNearest(text)
  if (bundled !== undefined) return bundled
  const name = text.slice(module.length)
  const names = module.split(".")
  const parent = names.slice(0, -1)
  const files = yield* listNames(paths.resolve(folder, ...parent))
  const modules = files
    .filter((file) => extensions.includes(paths.extname(file)))
    .map((file) => [...parent, file.slice(0, -paths.extname(file).length)].join("."))
  const scope = module.startsWith("@") ? `${module.slice(0, module.indexOf("/"))}/` : ""
  const packages = yield* listNames(paths.join(folder, "node_modules", scope))
  const meant = Similarity.findNearest(module, [...modules, ...packages.map((one) => scope + one)])
  return meant === undefined ? undefined : `${meant}${name}`
})

/** Finds the file of a module. Fails if it does not exist. */
const locateModule = Effect.fnUntraced(function* (
  { module, text }: NamedExport,
  folder: string
): Effect.fn.Return<string, Mistake, Needs> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const isThere = (path: string) =>
    Effect.orElseSucceed(
      Effect.map(fs.stat(path), ({ type }) => type === "File"),
      () => false
    )
  if (isFile(module)) {
    if (/^~[\\/]/.test(module))
      return yield* Effect.fail(
        makeMistake(["import"], "~ is not expanded: write the path out, or from the folder of this file")
      )
    const path = paths.resolve(folder, module)
    if (yield* isThere(path)) return path
    const beside = yield* Effect.orElseSucceed(fs.readDirectory(paths.dirname(path)), () => [])
    const meant = Similarity.findNearest(paths.basename(path), beside)
    return yield* Effect.fail(
      makeMistake(["import"], `there is no file ${path}${meant === undefined ? "" : `; did you mean ${meant}?`}`)
    )
  }
  const dotted = module.startsWith("@") ? module : module.replaceAll(".", "/")
  for (const end of extensions) {
    const path = paths.resolve(folder, dotted + end)
    if (yield* isThere(path)) return path
  }
  return yield* Effect.catch(PluginModules.resolveFrom(folder, module), (error) => {
    const why = Faults.describeError(error)
    return /Cannot find (?:package|module)/.test(why)
      ? Effect.flatMap(findNearestModule(text, module, folder), (meant) =>
          Effect.fail(
            makeMistake(
              ["import"],
              `there is no ${dotted}.ts (${extensions.slice(1).join(", ")}) in ${folder}, and no package "${module}"` +
                `${meant === undefined ? "" : `; did you mean ${meant}?`}`
            )
          )
        )
      : Effect.fail(makeMistake(["import"], `the package cannot be used: ${why}`))
  })
})

/** Loads an export of a module from a trusted folder. */
const loadExport = Effect.fnUntraced(function* (
  named: NamedExport,
  folder: string
): Effect.fn.Return<unknown, Mistake, Needs> {
  const { name } = named
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const trust = yield* FolderTrust
  const found = yield* locateModule(named, folder)
  const path = yield* Effect.mapError(fs.realPath(found), (error) => makeMistake(["import"], error.message))
  const at = paths.dirname(path)
  if (!(yield* trust.isTrusted(at))) {
    return yield* Effect.fail(
      makeMistake(["import"], makeUntrustedError(path, yield* trust.findOwnProject(at)).message)
    )
  }
  yield* PluginModules.share(at)
  const exports = yield* Effect.mapError(PluginModules.importModule(path, 0), (error) =>
    makeMistake(["import"], `${path} cannot be loaded: ${Faults.describeError(error).split("\n")[0] ?? ""}`)
  )
  const members = Predicate.isObject(exports) ? exports : {}
  // An imported CommonJS module has its exports in `default`.
  const main: unknown = members["default"]
  const within = Predicate.isObjectOrArray(main) && Object.hasOwn(main, name) ? Reflect.get(main, name) : undefined
  const exported: unknown = members[name] ?? within
  if (exported !== undefined) return exported
  const meant = Similarity.findNearest(name, Object.keys(members))
  return yield* Effect.fail(
    makeMistake(["import"], `${path} has no export ${name}${meant === undefined ? "" : `; did you mean ${meant}?`}`)
  )
})

/** Returns the place of a parameter in the file, by its name in the Schema. */
const findParameterPath = (
  params: MiddlewareDefinition.Params | undefined,
  [first, ...rest]: ReadonlyArray<string>
): ReadonlyArray<string> =>
  first === undefined
    ? []
    : [Object.keys(params ?? {}).find((key) => MiddlewareDefinition.toCamelCase(key) === first) ?? first, ...rest]

const toMistake =
  (params: MiddlewareDefinition.Params | undefined) =>
  ({ message, path }: MiddlewareDefinition.Problem): Mistake =>
    makeMistake(["params", ...findParameterPath(params, path)], message)

/** Resolves relative paths in parameters against the folder of the file. */
const resolvePaths = (params: MiddlewareDefinition.Params | undefined, folder: string, paths: Path.Path) =>
  params === undefined
    ? undefined
    : Object.fromEntries(
        Object.entries(params).map(([key, value]) => [
          key,
          typeof value === "string" && /(?:_path|_file|Path|File)$/.test(key) && !paths.isAbsolute(value)
            ? paths.resolve(folder, value)
            : value
        ])
      )

const makeOne = Effect.fnUntraced(function* (
  entry: Entry,
  folder: string
): Effect.fn.Return<Made["middleware"], Mistake, Needs> {
  const paths = yield* Path.Path
  const params = resolvePaths(entry.params, folder, paths)
  const bundled = BuiltinMiddleware.find(entry.import)
  if (bundled !== undefined) {
    const made = bundled.fromUnknown(params)
    if (Result.isSuccess(made)) return made.success
    const { message, path } = made.failure
    const [id, ...inside] = path.split(".")
    const text = message.startsWith(`${path}: `) ? message.slice(path.length + 2) : message
    return yield* Effect.fail(
      id === bundled.id ? toMistake(params)({ path: inside, message: text }) : makeMistake(["params"], message)
    )
  }
  const named = parse(entry.import)
  if (named === undefined) return yield* Effect.fail(makeUnknownMistake(entry.import))
  const exported = yield* loadExport(named, folder)
  return yield* Effect.mapError(
    MiddlewareDefinition.fromExport(
      exported,
      named.name === "default" ? paths.basename(named.module) : named.name,
      params
    ),
    (problem) =>
      problem.path.length === 0
        ? makeMistake(["import"], `${entry.import}: ${problem.message}`)
        : toMistake(params)(problem)
  )
})

/**
 * Creates the middleware of a file, in order. Fails with the first invalid entry. Modules stay loaded until the scope
 * closes.
 */
export const make = Effect.fnUntraced(function* (
  entries: ReadonlyArray<Entry>,
  file: ConfigFile.ConfigFile,
  at: ConfigFile.Path = ["middlewares"]
): Effect.fn.Return<ReadonlyArray<Made>, ConfigError, Needs> {
  const made: Array<Made> = []
  for (const [index, entry] of entries.entries()) {
    const { tree } = ConfigFile.expand(entry.params, { folder: file.folder })
    const params = Predicate.isObject(tree) && !Array.isArray(tree) ? tree : undefined
    const middleware = yield* makeOne({ import: entry.import, params }, file.folder).pipe(
      Effect.catch((wrong) =>
        Effect.flatMap(ConfigFile.makeError(file, [...at, index, ...wrong.at], wrong.message), Effect.fail)
      )
    )
    made.push({ middleware, source: `${file.name === "config.yaml" ? "" : `${file.name}: `}${at.join(".")}[${index}]` })
  }
  return made
})

/** Creates the middleware of `config.yaml`. */
export const fromSettings = (
  entries: ReadonlyArray<Entry>
): Effect.Effect<ReadonlyArray<Made>, ConfigError, Needs | Home> =>
  Effect.flatMap(Effect.all([Home, FileSystem.FileSystem]), ([home, fs]) =>
    make(entries, {
      name: "config.yaml",
      folder: home.root,
      text: Effect.orElseSucceed(fs.readFileString(home.config), () => "")
    })
  )
