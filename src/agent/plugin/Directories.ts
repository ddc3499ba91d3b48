/**
 * Finds the plugins in a directory: `<root>/<plugin>/plugin.yaml`, or below a category,
 * `<root>/<category>/<plugin>/plugin.yaml`. Does not run their code.
 *
 * **Details**
 *
 * Plugins are sorted by name. A directory without a manifest is a category if it contains plugins, and is ignored
 * otherwise. Deeper levels are not searched. A plugin whose manifest cannot be read is left out with a warning.
 *
 * Source: `hermes-contract.md` §3.1 and §3.2.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type { Candidate, Origin, Source } from "./Candidate.ts"
import * as Manifest from "./Manifest.ts"

/** A directory in which plugins are searched. */
export interface Root {
  readonly path: string
  readonly source: Source
  /** Names of directories to skip, which are read elsewhere. */
  readonly without?: ReadonlyArray<string> | undefined
}

/** Discovered plugins in order, and warnings about them. */
export interface DiscoveredPlugins {
  readonly candidates: ReadonlyArray<Candidate>
  readonly warnings: ReadonlyArray<string>
}

/** File names of a plugin's module. The first existing file is used. */
export const modules = ["index.ts", "index.mts", "index.js", "index.mjs", "index.cjs"] as const

/** Node does not strip types below `node_modules`. */
const listModuleNames = (path: string): ReadonlyArray<string> =>
  /[\\/]node_modules[\\/]/.test(path) ? modules.filter((name) => !name.endsWith("ts")) : modules

const isMissing = (error: PlatformError): boolean => error.reason._tag === "NotFound"

const catchMissing = <A>(self: Effect.Effect<A, PlatformError>): Effect.Effect<Option.Option<A>, PlatformError> =>
  self.pipe(
    Effect.asSome,
    Effect.catchIf(isMissing, () => Effect.succeedNone)
  )

/** Tests whether a name can be a plugin key: one line of text that is not a path. */
const isKey = (name: string): boolean => /^[^\s/\\.\p{C}][^/\\\p{C}]*$/u.test(name)

/** Returns the first of the named files that exists in a directory. */
const findFirstFile = Effect.fnUntraced(function* (directory: string, names: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  for (const name of names) {
    const path = paths.join(directory, name)
    if (yield* fs.exists(path)) return path
  }
  return undefined
})

const determineKind = Effect.fnUntraced(function* (manifest: Manifest.Manifest, module: string | undefined) {
  if (manifest.kind !== undefined || module === undefined) return manifest.kind ?? "standalone"
  const fs = yield* FileSystem.FileSystem
  return Manifest.guessKind(yield* fs.readFileString(module))
})

/** Reads a directory with a manifest. A directory without a manifest is skipped. */
export const readPluginDirectory = Effect.fnUntraced(function* (
  directory: string,
  source: Source,
  category: string | undefined
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const file = yield* findFirstFile(directory, Manifest.fileNames)
  if (file === undefined) return Option.none()
  const { manifest, warnings } = yield* Manifest.readManifest(yield* fs.readFileString(file), file)
  const base = paths.basename(directory)
  const name = manifest.name !== undefined && isKey(manifest.name) ? manifest.name : base
  const key = category === undefined ? name : `${category}/${base}`
  const module = yield* findFirstFile(directory, listModuleNames(directory))
  const origin: Origin = { _tag: "Directory", directory, module }
  const isCheckout = source === "user" && (yield* fs.exists(paths.join(directory, ".git")))
  const candidate: Candidate = {
    key,
    name,
    names: Array.from(new Set([key, name, base])),
    source: isCheckout ? "git" : source,
    kind: yield* determineKind(manifest, module),
    manifest,
    origin
  }
  return Option.some({ candidate, warnings: warnings.map((warning) => `plugin ${key}: ${warning}`) })
})

/** Lists the directories in a directory that may be plugins or categories. */
const listDirectories = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const names = Option.getOrElse(yield* catchMissing(fs.readDirectory(path)), () => [])
  const isHiddenName = (name: string): boolean => name.startsWith(".") || name === "node_modules"
  return yield* Effect.filter(names.filter((name) => !isHiddenName(name)).toSorted(), (name) =>
    Effect.map(
      catchMissing(fs.stat(paths.join(path, name))),
      (info) => Option.isSome(info) && info.value.type === "Directory"
    )
  )
})

/** Finds all plugins in one directory. Fails if the directory cannot be read. A missing directory is empty. */
export const scanRoot = Effect.fnUntraced(function* ({
  path,
  source,
  without = []
}: Root): Effect.fn.Return<DiscoveredPlugins, PlatformError, FileSystem.FileSystem | Path.Path> {
  const paths = yield* Path.Path
  const candidates: Array<Candidate> = []
  const warnings: Array<string> = []

  /** Returns true if the directory is a plugin, even one that cannot be used. */
  const addCandidate = (directory: string, category: string | undefined) =>
    readPluginDirectory(directory, source, category).pipe(
      Effect.map(
        Option.match({
          onNone: () => false,
          onSome: (found) => {
            candidates.push(found.candidate)
            warnings.push(...found.warnings)
            return true
          }
        })
      ),
      Effect.catch((error) =>
        Effect.sync(() => {
          warnings.push(`plugin in ${directory} is left out: ${error.message}`)
          return true
        })
      )
    )

  for (const name of yield* listDirectories(path)) {
    if (without.includes(name)) continue
    const directory = paths.join(path, name)
    if (yield* addCandidate(directory, undefined)) continue
    const inside = yield* Effect.orElseSucceed(listDirectories(directory), () => [])
    for (const child of inside) yield* addCandidate(paths.join(directory, child), name)
  }
  return { candidates, warnings }
})
