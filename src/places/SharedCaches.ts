/**
 * Makes the user's existing package caches available to commands: the shared caches are read-only additions to the
 * project's own writable caches, if a package manager supports two places.
 *
 * **Details**
 *
 * Go uses the shared module cache as a proxy, Maven as the tail of its local repository (3.9 and later), Gradle as its
 * read-only dependency cache. Cargo has no such setting: links in the project's registry refer to the shared files, and
 * cargo replaces them when it writes. npm and pip fetch again.
 *
 * Source: `ARCHITECTURE.md` §7 ("walls").
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type { Rule } from "./SandboxRules.ts"
import type { WallKind } from "./SandboxWall.ts"
import { findRuleAt } from "./WorkingTree.ts"

/** A shared cache in addition to the cache of a project. */
export interface SharedCache {
  readonly rules: ReadonlyArray<Rule>
  readonly variables: Readonly<Record<string, string>>
}

const nothing: SharedCache = { rules: [], variables: {} }

/** Paths of a shared cache and of the project's cache. Paths are absolute. */
export interface Options {
  /** Path below the home directory. */
  readonly name: string
  readonly home: string
  /** Directory of the project's caches. */
  readonly root: string
  readonly paths: WallKind["paths"]
}

const additions = ["GOPROXY", "GRADLE_RO_DEP_CACHE", "MAVEN_ARGS"]

/** Removes variables that only add a directory to read if the command already sets them. Pure. */
export const omitGiven = (
  variables: Readonly<Record<string, string>>,
  given: Readonly<Record<string, unknown>> = {}
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(variables).filter(([name]) => !additions.includes(name) || given[name] === undefined)
  )

const supported = ["go/pkg/mod", ".m2/repository", ".gradle/caches", ".cargo/registry"]

/** Returns the Go proxies that the user set for all projects, or Go's default. */
const readGoProxies = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const settings = yield* Effect.forEach([".config/go/env", "Library/Application Support/go/env"], (name) =>
    Effect.orElseSucceed(fs.readFileString(path.join(home, name)), () => "")
  )
  return /^GOPROXY=(\S+)/m.exec(settings.join("\n"))?.[1] ?? "https://proxy.golang.org,direct"
})

/** Maximum number of links that are created for a project. */
const maxLinks = 20_000

/**
 * Fills an empty cargo registry with links to the shared registry. An unpacked crate is linked as a whole directory.
 */
const linkRegistry = Effect.fnUntraced(function* (from: string, leadsTo: string, own: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  if ((yield* fs.readDirectory(own)).length > 0) return
  let left = maxLinks
  const linkEntries = (name: string, depth: number): Effect.Effect<void, PlatformError> =>
    Effect.gen(function* () {
      const entries = yield* fs.readDirectoryEntries(path.join(from, name))
      yield* Effect.forEach(
        entries,
        (entry) => {
          const inner = path.join(name, entry.name)
          const isUnit = depth === 2 && inner.startsWith("src/")
          if (entry.type === "Directory" && !isUnit) {
            return Effect.andThen(fs.makeDirectory(path.join(own, inner)), linkEntries(inner, depth + 1))
          }
          left--
          return left < 0 ? Effect.void : fs.symlink(path.join(leadsTo, inner), path.join(own, inner))
        },
        { concurrency: 8, discard: true }
      )
    })
  yield* linkEntries("", 0)
})

/** Makes a shared cache available, if it exists and its package manager can read a second cache. */
export const showShared = Effect.fnUntraced(function* ({
  home,
  name,
  paths,
  root
}: Options): Effect.fn.Return<SharedCache, PlatformError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const [usual] = supported.includes(name) ? yield* findRuleAt("read", path.join(home, name)) : []
  if (usual === undefined || usual.isFile === true) return nothing
  const place = paths === "mounted" ? path.join(root, "shared", name) : usual.path
  if (paths === "mounted") yield* fs.makeDirectory(place, { recursive: true, mode: 0o700 })
  const rules: ReadonlyArray<Rule> = paths === "mounted" ? [{ path: place, source: usual.path, allows: "read" }] : []
  switch (name) {
    case "go/pkg/mod":
      return { rules, variables: { GOPROXY: `file://${place}/cache/download,${yield* readGoProxies(home)}` } }
    case ".m2/repository":
      return { rules, variables: { MAVEN_ARGS: `-Dmaven.repo.local.tail=${place}` } }
    case ".gradle/caches":
      return { rules, variables: { GRADLE_RO_DEP_CACHE: place } }
    default:
      yield* linkRegistry(usual.path, place, path.join(root, name))
      return { rules, variables: {} }
  }
})
