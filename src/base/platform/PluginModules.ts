/**
 * Loads modules of plugins with one shared copy of `effect` and of this package: plugin files that import these names
 * receive the program's own modules, independent of their location and of packages installed there.
 */
import { existsSync } from "node:fs"
import { createRequire, registerHooks } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** Directory in which this program is installed. */
export const hostDirectory = dirname(fileURLToPath(import.meta.url))

/** The folder of the bundled program, where this module is a part of it; its copy of `effect` is in `shared/`. */
const bundle = ["./", "../"]
  .map((up) => new URL(up, import.meta.url))
  .find((folder) => existsSync(new URL("shared/effect/Effect.js", folder)))

/** Ending of this package's modules here. */
const ending = import.meta.url.endsWith(".ts") ? ".ts" : ".js"

/**
 * The folder of the package's entry modules: of the bundle, of the sources in a checkout, or of the built modules of an
 * installation.
 */
const home =
  bundle ??
  ["./", "../", "../../"]
    .map((up) => new URL(up, import.meta.url))
    .find((folder) => existsSync(new URL(`index${ending}`, folder)))

/** The root of the package. */
const self = new URL(`index${ending}`, home ?? import.meta.url).href

/** Returns the URL of a file of the installed package, by its path in `dist`; `undefined` if it was not built. */
export const findPackageFile = (path: string): string | undefined =>
  ["../", "../../", "../../../dist/"].map((up) => new URL(up + path, import.meta.url)).find((url) => existsSync(url))
    ?.href

/** An entry of this package, as its `exports` name it, where this program runs on one. */
const findEntry = (specifier: string): string | undefined => {
  if (specifier === "hermes-effect") return self
  const [, name] = /^hermes-effect\/([\w/-]+)$/.exec(specifier) ?? []
  if (name === undefined || home === undefined) return undefined
  const url = new URL(`kit/entry/${name}${ending}`, home)
  return existsSync(url) ? url.href : undefined
}

/** Returns the module of the bundle for a specifier, if any. */
const findBundled = (specifier: string): string | undefined =>
  bundle === undefined
    ? undefined
    : [`shared/${specifier}.js`, `shared/${specifier}/index.js`]
        .map((path) => new URL(path, bundle))
        .find((url) => existsSync(url))?.href

const isShared = (specifier: string): boolean =>
  /^(?:effect|@effect\/platform-node(?:-shared)?)(?:\/|$)/.test(specifier)

/** The directories of plugins that are loaded, as URLs, with how often each was asked for. */
const directories = new Map<string, number>()

/** Finds modules as `require` of this program does: the resolution of `require` knows no other place to look from. */
const own = createRequire(import.meta.url)

/**
 * Places where an editor finds types: of this package, of `effect`, and the folder of `@types/node` where that is
 * installed.
 */
export const findTypeLocations = (): {
  readonly hermes: string
  readonly effect: string
  readonly types: string | undefined
} => {
  const types = own.resolve.paths("@types/node")?.find((folder) => existsSync(join(folder, "@types/node")))
  return {
    // Type declarations are next to the separate modules, one folder above the bundle.
    hermes: fileURLToPath(bundle === undefined ? self : new URL("../../index.js", bundle)).replace(/\.js$/, ".d.ts"),
    effect: dirname(own.resolve("effect/Effect")),
    types: types === undefined ? undefined : join(types, "@types")
  }
}

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
      // Both `import` and `require` take an address that needs no resolving.
      const url = findEntry(specifier)
      if (url !== undefined) return { url, shortCircuit: true }
      const shared = isShared(specifier) ? findBundled(specifier) : undefined
      if (shared !== undefined) return { url: shared, shortCircuit: true }
      if (isShared(specifier) && context.conditions.includes("require")) {
        return { url: pathToFileURL(own.resolve(specifier)).href, shortCircuit: true }
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
 * Lets the files of a directory import them while the scope is open. The path is the path of the files, not of a link.
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

/**
 * Imports a module from its file and returns its exports; fails with the error that it threw. `generation` counts how
 * often this program has loaded its plugins: Node runs a module once for each address, so a changed file needs another
 * address.
 */
export const importModule = (path: string, generation: number): Effect.Effect<unknown, unknown> => {
  const { href } = pathToFileURL(path)
  return Effect.tryPromise({
    try: () => import(generation === 0 ? href : `${href}?generation=${generation}`),
    catch: (error) => error
  })
}

const elsewhere = "hermes-effect-from:"

/**
 * Resolves a specifier with the current hooks. It is a separate module, because tools that transform this one do not
 * support hooks in it.
 */
const resolver = "data:text/javascript,export default (specifier) => import.meta.resolve(specifier)"

const native = Effect.promise(async (): Promise<(specifier: string) => string> => {
  // The text above is the whole module.
  const module: { readonly default: (specifier: string) => string } = await import(resolver)
  return module.default
})

/**
 * Resolves a specifier as an `import` in a file of the directory would be, and returns the path of the module without
 * running it. Fails with Node's error.
 */
export const resolveFrom = (directory: string, specifier: string): Effect.Effect<string, unknown> =>
  Effect.flatMap(native, (resolve) =>
    Effect.try({
      try: () => {
        const parentURL = pathToFileURL(join(directory, "import.js")).href
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
