/**
 * Files that the next start of this program loads: its package, the packages that it depends on, the Node executable
 * that runs it, and the symbolic links that lead to its script.
 *
 * **Details**
 *
 * For an installed package, the whole directory is included. For a checkout, `src`, `dist`, `node_modules` and
 * `package.json` are included. Dependencies are found as Node finds them, in `node_modules` of the package and of its
 * parent directories.
 *
 * **Gotchas**
 *
 * If this package is part of an application's bundle, only the bundle file is included.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { nodePath } from "./CurrentProcess.ts"

/** Files from which a running program was started. */
export interface LoadedProgram {
  /** Path of a module of this package. */
  readonly module: string
  /** Script that Node was started with, as given on the command line. */
  readonly script: string | undefined
  /** Path of the Node executable. */
  readonly node: string
}

/** The running program; tests replace it. */
export const CurrentProgram = Context.Reference<LoadedProgram>("hermes-effect/platform/CurrentProgram", {
  defaultValue: () => ({ module: import.meta.filename, script: process.argv[1], node: nodePath })
})

/** Files of a program. All paths are absolute. */
export interface ProgramFiles {
  /** Real paths of files and directories. */
  readonly files: ReadonlyArray<string>
  /** Symbolic links on the path to the script, and links to packages. */
  readonly links: ReadonlyArray<string>
}

const ownName = "hermes-effect"
const maxPackages = 300

const names = Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
const Manifest = Schema.fromJsonString(
  Schema.Struct({
    name: Schema.optionalKey(Schema.String),
    dependencies: names,
    optionalDependencies: names,
    peerDependencies: names
  })
)

const undecoded: typeof Manifest.Type = {}

/** Reads the manifest of a package. Returns an empty manifest if it cannot be read. */
const readManifest = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  return yield* Effect.orElseSucceed(
    Effect.flatMap(fs.readFileString(path.join(directory, "package.json")), Schema.decodeEffect(Manifest)),
    () => undecoded
  )
})

/** Returns a path and its parent directories up to the root. */
const listParents = (path: Path.Path, start: string): ReadonlyArray<string> => {
  const parent = path.dirname(start)
  return parent === start ? [start] : [start, ...listParents(path, parent)]
}

/** Tests whether a path is a symbolic link. */
const isLink = Effect.fnUntraced(function* (place: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.isSuccess(fs.readLink(place))
})

/** Finds the packages that a package loads, each by its real path, and the symbolic links to these packages. */
const findDependencies = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const found = new Set<string>()
  const links = new Set<string>()

  const resolvePackage = Effect.fnUntraced(function* (name: string, from: string) {
    for (const directory of listParents(path, from)) {
      const place = path.join(directory, "node_modules", name)
      const real = yield* Effect.orElseSucceed(fs.realPath(place), () => undefined)
      if (real === undefined) continue
      if (yield* isLink(place)) links.add(place)
      return real
    }
    return undefined
  })

  let level: ReadonlyArray<string> = [root]
  while (level.length > 0 && found.size < maxPackages) {
    const next = yield* Effect.forEach(
      level,
      Effect.fnUntraced(function* (directory) {
        const { dependencies, optionalDependencies, peerDependencies } = yield* readManifest(directory)
        const wanted = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })
        return yield* Effect.forEach(wanted, (name) => resolvePackage(name, directory), { concurrency: 8 })
      }),
      { concurrency: 8 }
    )
    const fresh = new Set(next.flat().filter((directory) => directory !== undefined && !found.has(directory)))
    level = Array.from(fresh).filter((directory) => directory !== undefined)
    level.forEach((directory) => found.add(directory))
  }
  return { files: Array.from(found), links: Array.from(links) }
})

/**
 * Finds the files that package managers create for a package in the directories above it: its command, and a symbolic
 * link to the package.
 */
const findCommands = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const places = listParents(path, path.dirname(root)).flatMap((directory) =>
    [".bin/hermes", ownName].map((name) => path.join(directory, "node_modules", name))
  )
  const present = yield* Effect.filter(
    places.filter((place) => place !== root),
    (place) => Effect.isSuccess(fs.lstat(place))
  )
  const links = yield* Effect.filter(present, isLink)
  const files = present.filter((place) => !links.includes(place))
  return { files, links }
})

/** Finds the symbolic links on the path to a file. */
const findLinks = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const links: Array<string> = []
  let place = file
  // The kernel follows at most 40 links, too.
  for (let followed = 0; followed < 40; followed++) {
    const parents = listParents(path, place).toReversed()
    const targets = yield* Effect.forEach(parents, (parent) =>
      Effect.orElseSucceed(fs.readLink(parent), () => undefined)
    )
    const first = targets.findIndex((target) => target !== undefined)
    const link = parents[first]
    const target = targets[first]
    if (link === undefined || target === undefined) return links
    links.push(link)
    place = path.join(path.resolve(path.dirname(link), target), path.relative(link, place))
  }
  return links
})

/** Finds the files of a program. */
export const findProgramFiles = Effect.fnUntraced(function* ({
  module,
  node,
  script
}: LoadedProgram): Effect.fn.Return<ProgramFiles, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const findReal = (place: string) => Effect.orElseSucceed(fs.realPath(place), () => place)
  const file = yield* findReal(module)
  const executable = yield* findReal(node)
  const manifests = yield* Effect.filter(listParents(path, path.dirname(file)), (directory) =>
    Effect.orElseSucceed(fs.exists(path.join(directory, "package.json")), () => false)
  )
  const root = manifests[0]
  const isOwn = root !== undefined && (yield* readManifest(root)).name === ownName
  if (!isOwn) return { files: [file, executable], links: [] }
  const isInstalled = path.basename(path.dirname(root)) === "node_modules"
  const parts = ["dist", "node_modules", "package.json", "src"].map((name) => path.join(root, name))
  const own = isInstalled ? [root] : parts
  const [dependencies, commands] = yield* Effect.all([findDependencies(root), findCommands(root)])
  // The script is not part of this package if an application uses the package as a library.
  const isOwnScript = script !== undefined && `${yield* findReal(path.resolve(script))}/`.startsWith(`${root}/`)
  const links = isOwnScript ? yield* findLinks(path.resolve(script)) : []
  return {
    files: [...new Set([...own, executable, ...dependencies.files, ...commands.files])],
    links: [...new Set([...links, ...dependencies.links, ...commands.links])]
  }
})
