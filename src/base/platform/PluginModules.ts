/**
 * Loads the modules of plugins so that they share one copy of `effect` and of this package with the program. A plugin
 * file that imports these packages receives the modules of the program, regardless of the file's location and the
 * packages installed there.
 */
import { existsSync, readFileSync } from "node:fs"
import NodeModule, { createRequire, type RegisterHooksOptions } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Json from "../domain/Json.ts"

/** Returns the directory in which this program is installed. */
export const findHostDirectory = (): string => dirname(fileURLToPath(import.meta.url))

/** File extension of this package's modules. */
const findEnding = (): string => (import.meta.url.endsWith(".ts") ? ".ts" : ".js")

/** Locations of this package. */
interface PackageLocation {
  /**
   * The folder of the bundled program, which contains a copy of `effect` in `shared/`; `undefined` if this module is
   * not part of the bundle.
   */
  readonly bundle: URL | undefined
  /**
   * The folder that contains the package's entry modules: the bundle, the sources of a checkout, or the built modules
   * of an installation.
   */
  readonly home: URL | undefined
  /** URL of the root module of the package. */
  readonly self: string
  /** The program's own `require`. The `require` of a plugin cannot resolve modules from another location. */
  readonly own: NodeJS.Require
}

const findLocation = (): PackageLocation => {
  const { url } = import.meta
  const bundle = ["./", "../"]
    .map((up) => new URL(up, url))
    .find((folder) => existsSync(new URL("shared/effect/Effect.js", folder)))
  const home =
    bundle ??
    ["./", "../", "../../"]
      .map((up) => new URL(up, url))
      .find((folder) => existsSync(new URL(`index${findEnding()}`, folder)))
  return { bundle, home, self: new URL(`index${findEnding()}`, home ?? url).href, own: createRequire(url) }
}

let location: PackageLocation | undefined

/** Returns the locations of this package, which are searched for once. */
const locatePackage = (): PackageLocation => (location ??= findLocation())

/**
 * Returns the URL of a file of the installed package. `path` is relative to `dist`. Returns `undefined` if the package
 * was not built.
 */
export const findPackageFile = (path: string): string | undefined =>
  ["../", "../../", "../../../dist/"].map((up) => new URL(up + path, import.meta.url)).find((url) => existsSync(url))
    ?.href

/**
 * Returns the URL of an entry module of this package, as named in its `exports`; `undefined` for any other specifier.
 */
const findEntry = (specifier: string): string | undefined => {
  const { home, self } = locatePackage()
  if (specifier === "hermes-effect") return self
  const [, name] = /^hermes-effect\/([\w/-]+)$/.exec(specifier) ?? []
  if (name === undefined || home === undefined) return undefined
  const url = new URL(`kit/entry/${name}${findEnding()}`, home)
  return existsSync(url) ? url.href : undefined
}

/** Returns the URL of the bundled module for a specifier; `undefined` if the bundle does not contain it. */
const findBundled = (specifier: string): string | undefined => {
  const { bundle } = locatePackage()
  return bundle === undefined
    ? undefined
    : [`shared/${specifier}.js`, `shared/${specifier}/index.js`]
        .map((path) => new URL(path, bundle))
        .find((url) => existsSync(url))?.href
}

const isShared = (specifier: string): boolean =>
  /^(?:effect|@effect\/platform-node(?:-shared)?)(?:\/|$)/.test(specifier)

/** Directories of loaded plugins, as URLs, each with the number of open {@link share} scopes. */
const directories = new Map<string, number>()

/**
 * Returns the locations of the types of this package, of `effect`, and of `@types/node` if it is installed. An editor
 * needs them to check plugin files.
 */
export const findTypeLocations = (): {
  readonly hermes: string
  readonly effect: string
  readonly types: string | undefined
} => {
  const { bundle, own, self } = locatePackage()
  const types = own.resolve.paths("@types/node")?.find((folder) => existsSync(join(folder, "@types/node")))
  return {
    // Type declarations are next to the separate modules, one folder above the bundle.
    hermes: fileURLToPath(bundle === undefined ? self : new URL("../../index.js", bundle)).replace(/\.js$/, ".d.ts"),
    effect: dirname(own.resolve("effect/Effect")),
    types: types === undefined ? undefined : join(types, "@types")
  }
}

/** A TypeScript compiler that is installed as a package. */
export interface TypeCompiler {
  /** Name and version of the package, such as `typescript 7.0.2`. */
  readonly name: string
  /** Path of its program, which Node runs. */
  readonly program: string
}

const packages = [
  { name: "typescript", bin: "tsc" },
  { name: "@typescript/native-preview", bin: "tsgo" }
] as const

const readCompiler = (file: string, { bin, name }: (typeof packages)[number]): TypeCompiler | undefined => {
  const found: unknown = JSON.parse(readFileSync(file, "utf8"))
  if (!Json.isFields(found) || !Json.isFields(found["bin"])) return undefined
  const path = found["bin"][bin]
  if (typeof path !== "string") return undefined
  const program = join(dirname(file), path)
  return existsSync(program) ? { name: `${name} ${String(found["version"])}`, program } : undefined
}

/**
 * Returns the compiler of the nearest `node_modules`: of the directory, or else of this program's installation. Returns
 * `undefined` if no compiler is installed.
 */
export const findTypeCompiler = (directory: string): TypeCompiler | undefined => {
  const bases = [createRequire(join(directory, "index.js")), locatePackage().own]
  for (const base of bases) {
    for (const one of packages) {
      const folder = base.resolve.paths(one.name)?.find((path) => existsSync(join(path, one.name, "package.json")))
      const compiler = folder === undefined ? undefined : readCompiler(join(folder, one.name, "package.json"), one)
      if (compiler !== undefined) return compiler
    }
  }
  return undefined
}

/**
 * Adds hooks to the resolution of modules. Bun does not support hooks: there, the files of plugins import the packages
 * that are installed beside them.
 */
const registerHooks = (hooks: RegisterHooksOptions): { readonly deregister: () => void } =>
  "registerHooks" in NodeModule ? NodeModule.registerHooks(hooks) : { deregister: () => {} }

let registered: { readonly deregister: () => void } | undefined

const isPluginFile = (url: string | undefined): boolean => {
  if (url === undefined) return false
  for (const directory of directories.keys()) {
    if (url.startsWith(directory)) return true
  }
  return false
}

const registerResolver = () =>
  registerHooks({
    resolve: (specifier, context, next) => {
      if (!isPluginFile(context.parentURL)) return next(specifier, context)
      // Both `import` and `require` accept a URL that needs no further resolution.
      const url = findEntry(specifier)
      if (url !== undefined) return { url, shortCircuit: true }
      const shared = isShared(specifier) ? findBundled(specifier) : undefined
      if (shared !== undefined) return { url: shared, shortCircuit: true }
      if (isShared(specifier) && context.conditions.includes("require")) {
        return { url: pathToFileURL(locatePackage().own.resolve(specifier)).href, shortCircuit: true }
      }
      return isShared(specifier) || specifier.startsWith("hermes-effect/")
        ? next(specifier, { ...context, parentURL: import.meta.url })
        : next(specifier, context)
    }
  })

const addDirectory = (directory: string): void => {
  directories.set(directory, (directories.get(directory) ?? 0) + 1)
  registered ??= registerResolver()
}

const removeDirectory = (directory: string): void => {
  const left = (directories.get(directory) ?? 1) - 1
  if (left > 0) directories.set(directory, left)
  else directories.delete(directory)
  if (directories.size > 0) return
  registered?.deregister()
  registered = undefined
}

/**
 * Lets the files of a directory import the shared modules while the scope is open. `path` must be a real path, not a
 * link.
 */
export const share = (path: string): Effect.Effect<void, never, Scope.Scope> => {
  const directory = `${pathToFileURL(path).href}/`
  return Effect.asVoid(
    Effect.acquireRelease(
      Effect.sync(() => addDirectory(directory)),
      () => Effect.sync(() => removeDirectory(directory))
    )
  )
}

/** Imports a module that bundlers do not see, because its location is only known when it is imported. */
const importUrl = (url: string): Promise<unknown> =>
  import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ url)

/**
 * Imports a module from its file and returns its exports. Fails with the error that the module threw. `generation` is
 * the number of times that this program has loaded its plugins. It becomes part of the URL, because Node runs a module
 * only once for each URL.
 */
export const importModule = (path: string, generation: number): Effect.Effect<unknown, unknown> => {
  const { href } = pathToFileURL(path)
  return Effect.tryPromise({
    try: () => importUrl(generation === 0 ? href : `${href}?generation=${generation}`),
    catch: (error) => error
  })
}

const elsewhere = "hermes-effect-from:"

/**
 * Resolves a specifier with the current hooks. This is a separate module, because tools that transform this file do not
 * apply the hooks to its own imports.
 */
const resolver = "data:text/javascript,export default (specifier) => import.meta.resolve(specifier)"

const native = Effect.promise(async (): Promise<(specifier: string) => string> => {
  // The type follows from the source text in `resolver`.
  const module = (await importUrl(resolver)) as { readonly default: (specifier: string) => string }
  return module.default
})

/**
 * Resolves a specifier like an `import` in a file of the directory. Returns the path of the module without running it.
 * Fails with Node's error.
 */
export const resolveFrom = (directory: string, specifier: string): Effect.Effect<string, unknown> =>
  Effect.flatMap(native, (resolve) =>
    Effect.try({
      try: () => {
        const parentURL = pathToFileURL(join(directory, "import.js")).href
        if (!("registerHooks" in NodeModule)) return createRequire(parentURL).resolve(specifier)
        const hooks = registerHooks({
          resolve: (given, context, next) =>
            given.startsWith(elsewhere)
              ? next(given.slice(elsewhere.length), { ...context, parentURL })
              : next(given, context)
        })
        try {
          return fileURLToPath(resolve(elsewhere + specifier))
        } finally {
          hooks.deregister()
        }
      },
      catch: (error) => error
    })
  )
