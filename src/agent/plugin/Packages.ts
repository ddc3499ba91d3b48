/**
 * Finds plugins that are npm packages, named by `plugins.packages` in the configuration. A package identifies itself in
 * a `plugin.yaml` or, without one, in its `package.json`.
 *
 * **Details**
 *
 * Packages are resolved by Node's rules: from the user's `plugins` directory
 * (`npm install --prefix ~/.hermes/plugins …`), from the project if project plugins are enabled, and next to this
 * program. Naming a package makes it available, but does not enable it.
 *
 * Source: `hermes-contract.md` §3.1, where entry points of installed packages have this role.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Json from "../../base/domain/Json.ts"
import type { Candidate } from "./Candidate.ts"
import * as Directories from "./Directories.ts"
import * as Manifest from "./Manifest.ts"

const isName = (name: string): boolean => /^(?:@[\w~-][\w.~-]*\/)?[\w~-][\w.~-]*$/.test(name)

/** Lists a directory and its ancestors, innermost first. */
const listAncestors = (paths: Path.Path, from: string): ReadonlyArray<string> => {
  const parent = paths.dirname(from)
  return parent === from ? [from] : [from, ...listAncestors(paths, parent)]
}

const locatePackage = Effect.fnUntraced(function* (name: string, bases: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  for (const base of bases) {
    for (const above of listAncestors(paths, base)) {
      const directory = paths.join(above, "node_modules", name)
      if (yield* fs.exists(paths.join(directory, "package.json"))) return directory
    }
  }
  return undefined
})

type Mapping = Readonly<Record<string, unknown>>

const readTextField = (json: Mapping, key: string): string => {
  const value = json[key]
  return typeof value === "string" ? value : ""
}

const conditions: ReadonlySet<string> = new Set(["node", "import", "module-sync", "default"])

/** Resolves the target of a package export for an `import` in Node: the first matching condition. */
const resolveExportTarget = (value: unknown): string | undefined => {
  if (typeof value === "string") return value
  if (!Predicate.isObject(value)) return undefined
  for (const [condition, inside] of Object.entries(value)) {
    const found = conditions.has(condition) ? resolveExportTarget(inside) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

/** Returns the module to which the package name resolves. */
const findEntryPoint = (json: Mapping): string | undefined => {
  const { exports } = json
  if (exports === undefined || exports === null) return readTextField(json, "main") || "index.js"
  return resolveExportTarget(Predicate.isObject(exports) && Object.hasOwn(exports, ".") ? exports["."] : exports)
}

const buildCandidate = Effect.fnUntraced(function* (name: string, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const own = Option.getOrUndefined(yield* Directories.readPluginDirectory(directory, "package", undefined))
  const parsed = Option.getOrUndefined(Json.parse(yield* fs.readFileString(paths.join(directory, "package.json"))))
  const json: Mapping = Predicate.isObject(parsed) ? parsed : {}
  const manifest: Manifest.Manifest = own?.candidate.manifest ?? {
    ...Manifest.empty,
    version: readTextField(json, "version"),
    description: readTextField(json, "description"),
    author: readTextField(json, "author")
  }
  const entry = findEntryPoint(json)
  const module = entry === undefined ? undefined : paths.resolve(directory, entry)
  const candidate: Candidate = {
    key: name,
    name: manifest.name ?? name,
    names: Array.from(new Set([name, manifest.name ?? name])),
    source: "package",
    kind: own?.candidate.kind ?? "standalone",
    manifest,
    origin: {
      _tag: "Directory",
      directory,
      module: module?.startsWith(directory + paths.sep) === true ? module : undefined
    }
  }
  return { candidates: [candidate], warnings: own?.warnings ?? [] }
})

/** Finds the packages with these names, searching each of some directories in turn. */
export const findPackages = Effect.fnUntraced(function* (
  names: ReadonlyArray<string>,
  bases: ReadonlyArray<string>
): Effect.fn.Return<Directories.DiscoveredPlugins, never, FileSystem.FileSystem | Path.Path> {
  const reportMissing = (name: string, why: string): Directories.DiscoveredPlugins => ({
    candidates: [],
    warnings: [`plugins.packages: ${name} ${why}`]
  })
  const found = yield* Effect.forEach(names, (name) => {
    if (!isName(name)) return Effect.succeed(reportMissing(JSON.stringify(name), "is not a valid npm package name"))
    return Effect.flatMap(locatePackage(name, bases), (directory) =>
      directory === undefined
        ? Effect.succeed(reportMissing(name, `is not installed: \`npm install --prefix ${bases[0] ?? "."} ${name}\``))
        : buildCandidate(name, directory)
    ).pipe(Effect.catch((error) => Effect.succeed(reportMissing(name, `is left out: ${error.message}`))))
  })
  return {
    candidates: found.flatMap(({ candidates }) => candidates),
    warnings: found.flatMap(({ warnings }) => warnings)
  }
})
