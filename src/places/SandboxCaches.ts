/**
 * Provides separate package manager caches for each project. Files that a command writes to a cache are read by later
 * sandboxed commands of the same project, and never by the user's programs.
 *
 * **Details**
 *
 * The caches are in one directory of the sandbox's owner, with a subdirectory for each working tree. If the sandbox can
 * mount, the project's cache replaces the shared one at its usual path. If the path is missing or the sandbox cannot
 * mount, the variables that package managers read name the cache. Large downloads (browsers, models) are visible from
 * the shared cache, read-only, and so are the stores of package managers that support two places (`SharedCaches`).
 *
 * Caches of a project that was not used for 30 days are removed when another project is used.
 *
 * **Gotchas**
 *
 * Overlays of the kernel are not used: two commands of one project run at the same time, and the behaviour of two
 * overlays with the same upper directory is undefined.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as Digest from "../base/platform/Digest.ts"
import { type Rule, isWithin } from "./SandboxRules.ts"
import type { WallKind } from "./SandboxWall.ts"
import { showShared } from "./SharedCaches.ts"
import { findRuleAt } from "./WorkingTree.ts"

/** Cache settings of a sandbox. Paths are absolute. */
export interface Options {
  /** Directory of the caches of all projects. Commands only see the caches of their own project. */
  readonly directory: string
  /** The user's home directory. */
  readonly home: string
  /** Paths of caches below the home directory. */
  readonly places: ReadonlyArray<string>
  /** Program that owns the caches. Absent for commands. */
  readonly owner?: string | undefined
}

/** Caches of one project. */
export interface ProjectCaches {
  readonly rules: ReadonlyArray<Rule>
  /** Variables that tell package managers the paths of the caches. */
  readonly variables: Readonly<Record<string, string>>
}

/** Names of large downloads below `~/.cache` that are read and never changed. */
const sharedData = ["Cypress", "electron", "huggingface", "ms-playwright", "puppeteer", "torch"]

/** Returns the variables that move a cache, by the usual path of the cache. */
const variablesByPlace: Readonly<Record<string, (place: string) => Readonly<Record<string, string>>>> = {
  ".cache": (place) => ({ XDG_CACHE_HOME: place }),
  ".npm": (place) => ({ npm_config_cache: place }),
  ".cargo/registry": (place) => ({ CARGO_HOME: getParent(place) }),
  "go/pkg/mod": (place) => ({ GOMODCACHE: place }),
  ".gradle/caches": (place) => ({ GRADLE_USER_HOME: getParent(place) }),
  ".m2/repository": (place) => ({ MAVEN_ARGS: `-Dmaven.repo.local=${place}` }),
  "Library/Caches/CocoaPods": (place) => ({ CP_CACHE_DIR: place }),
  "Library/Caches/Yarn": (place) => ({ YARN_CACHE_FOLDER: place }),
  "Library/Caches/deno": (place) => ({ DENO_DIR: place }),
  "Library/Caches/go-build": (place) => ({ GOCACHE: place }),
  "Library/Caches/node-gyp": (place) => ({ npm_config_devdir: place }),
  "Library/Caches/pip": (place) => ({ PIP_CACHE_DIR: place }),
  "Library/Caches/pypoetry": (place) => ({ POETRY_CACHE_DIR: place })
}

const getParent = (place: string): string => place.slice(0, place.lastIndexOf("/"))

/** Returns the variables that move a cache to a place. Empty if no variable can move the cache. Pure. */
export const readVariables = (name: string, place: string): Readonly<Record<string, string>> =>
  variablesByPlace[name]?.(place) ?? {}

/** Merges variables. Argument lists with the same name are concatenated. */
const mergeVariables = (list: ReadonlyArray<Readonly<Record<string, string>>>): Readonly<Record<string, string>> => {
  const words = list.map(({ MAVEN_ARGS }) => MAVEN_ARGS).filter((word) => word !== undefined)
  return { ...Object.assign({}, ...list), ...(words.length === 0 ? {} : { MAVEN_ARGS: words.join(" ") }) }
}

const keptMillis = 30 * 24 * 60 * 60 * 1000

/** Removes caches that were not used for a long time. Directories of modules may be read-only (Go). */
const removeStale = Effect.fnUntraced(function* (directory: string, own: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const now = yield* Clock.currentTimeMillis
  const openUp = (place: string): Effect.Effect<void, PlatformError> =>
    Effect.gen(function* () {
      const { mode, type } = yield* fs.lstat(place)
      if (type !== "Directory") return
      yield* fs.chmod(place, (mode & 0o7777) | 0o700)
      yield* Effect.forEach(yield* fs.readDirectory(place), (name) => openUp(path.join(place, name)), { discard: true })
    })
  for (const name of yield* fs.readDirectory(directory)) {
    const place = path.join(directory, name)
    const { mtime } = yield* fs.lstat(place)
    const used = Option.getOrUndefined(mtime)?.getTime() ?? now
    if (name === own || now - used < keptMillis) continue
    yield* Effect.andThen(openUp(place), fs.remove(place, { recursive: true, force: true }))
  }
})

/** Creates the caches of each project when its first command runs. */
export const make = Effect.fnUntraced(function* (
  { directory, home, owner = "", places }: Options,
  paths: WallKind["paths"]
): Effect.fn.Return<
  (tree: string | undefined) => Effect.Effect<ProjectCaches, PlatformError>,
  never,
  FileSystem.FileSystem | Path.Path | Scope.Scope
> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const scope = yield* Effect.scope
  const known = new Map<string, ProjectCaches>()

  const openCache = Effect.fnUntraced(function* (root: string, name: string) {
    const source = path.join(root, name)
    yield* fs.makeDirectory(source, { recursive: true, mode: 0o700 })
    const [usual] = paths === "mounted" ? yield* findRuleAt("write", path.join(home, name)) : []
    const beside = yield* showShared({ name, home, root, paths })
    if (usual === undefined || usual.isFile === true) {
      return { rules: beside.rules, variables: mergeVariables([readVariables(name, source), beside.variables]) }
    }
    const shared = name === ".cache" ? sharedData.map((data) => path.join(usual.path, data)) : []
    const shown = yield* Effect.forEach(shared, (place) => findRuleAt("read", place))
    // A link in the cache can lead to a path with other rules.
    const inside = shown.flat().filter((rule) => isWithin(rule.path, usual.path))
    return { rules: [{ ...usual, source }, ...inside, ...beside.rules], variables: beside.variables }
  })

  const openCaches = Effect.fnUntraced(function* (tree: string | undefined) {
    const name = Digest.toHex(`${owner}\0${tree ?? ""}`, 24)
    const root = path.join(directory, name)
    yield* fs.makeDirectory(root, { recursive: true, mode: 0o700 })
    const real = yield* fs.realPath(root)
    const now = yield* Clock.currentTimeMillis
    yield* fs.utimes(real, new Date(now), new Date(now))
    const caches = yield* Effect.forEach(places, (place) => openCache(real, place))
    yield* Effect.forkIn(Effect.ignore(removeStale(directory, name)), scope)
    return {
      rules: [{ path: real, allows: "write" as const }, ...caches.flatMap(({ rules }) => rules)],
      variables: mergeVariables(caches.map(({ variables }) => variables))
    }
  }, Effect.provideContext(services))

  return (tree) => {
    const found = known.get(tree ?? "")
    if (found !== undefined) return Effect.succeed(found)
    return Effect.tap(openCaches(tree), (caches) => Effect.sync(() => known.set(tree ?? "", caches)))
  }
})
