/**
 * Scans a working tree for the files that a sandbox protects: repositories, files that other programs run or read
 * later, and `.env` files.
 *
 * **Details**
 *
 * Directories are scanned from the root down, at most 1,000 of them; directories of an earlier scan come first, so that
 * new directories cannot displace them. Links are not followed. An unreadable directory is treated as a place whose
 * files run later, because its files can still be opened by name.
 *
 * Directories named by `core.hooksPath` are found in the configuration of the repositories and of the user, without
 * `include`.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { isAgentDirectory, isEnvironmentFile, isLaterName } from "./LaterFiles.ts"
import { isWithin } from "./SandboxRules.ts"

/** A file or directory that other programs run or read later. */
export interface LaterPlace {
  readonly path: string
  /** Target of a symbolic link, `undefined` for other files. */
  readonly link: string | undefined
  /** True if the target of the link exists. */
  readonly isThere: boolean
}

/** Findings in a working tree. Paths are absolute. */
export interface TreeScan {
  /** Directories that were examined. */
  readonly directories: ReadonlyArray<string>
  /** Repositories and linked working trees below the root, outer ones first. */
  readonly repositories: ReadonlyArray<string>
  readonly laterPlaces: ReadonlyArray<LaterPlace>
  /** Environment files that contain secrets. */
  readonly environmentFiles: ReadonlyArray<string>
}

/** Maximum number of directories of a tree that are examined. */
const maxDirectories = 1_000
const passedOver = new Set([".git", ".hermes", "node_modules", ".venv", "__pycache__"])

const hooksPath = /^[ \t]*(?:\[[^\]]*\][ \t]*)?hookspath[ \t]*=[ \t]*"?([^"\n#;]+)/gim

/** Returns the values of `core.hooksPath` in a git configuration. Pure. */
export const readHooksPaths = (config: string): ReadonlyArray<string> =>
  Array.from(config.matchAll(hooksPath), ([, value = ""]) => value.trim())

const readText = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.orElseSucceed(fs.readFileString(file), () => "")
})

/** Describes the file or directory at a path. */
export const describePlace = Effect.fnUntraced(function* (
  place: string
): Effect.fn.Return<LaterPlace, never, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  const link = yield* Effect.orElseSucceed(fs.readLink(place), () => undefined)
  return { path: place, link, isThere: yield* Effect.orElseSucceed(fs.exists(place), () => false) }
})

/** Finds hook directories below the tree that git configurations name. */
const findHookDirectories = Effect.fnUntraced(function* (
  tree: string,
  repositories: ReadonlyArray<string>,
  home: string | undefined
) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const shared = home === undefined ? [] : [".gitconfig", ".config/git/config"].map((name) => path.join(home, name))
  const ofUser = (yield* Effect.forEach(shared, readText)).flatMap(readHooksPaths)
  const named = yield* Effect.forEach(
    [tree, ...repositories],
    Effect.fnUntraced(function* (root) {
      const files = ["config", "config.worktree"].map((name) => path.join(root, ".git", name))
      const texts = yield* Effect.forEach(files, readText)
      return [...ofUser, ...texts.flatMap(readHooksPaths)].map((value) => path.resolve(root, value))
    })
  )
  const below = [...new Set(named.flat())].filter((place) => place !== tree && isWithin(place, tree))
  return yield* Effect.filter(below, (place) => Effect.orElseSucceed(Effect.as(fs.lstat(place), true), () => false))
})

const isUnreadable = ({ reason }: PlatformError): boolean => reason._tag === "PermissionDenied"

/** Findings in one directory. */
interface ScanFindings {
  readonly isRepository: boolean
  readonly later: ReadonlyArray<string>
  readonly environment: ReadonlyArray<string>
  readonly below: ReadonlyArray<string>
}

const nothing: ScanFindings = { isRepository: false, later: [], environment: [], below: [] }

const lookAt = Effect.fnUntraced(function* (
  directory: string,
  tree: string
): Effect.fn.Return<ScanFindings, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const entries = yield* Effect.result(fs.readDirectoryEntries(directory))
  if (entries._tag === "Failure") return isUnreadable(entries.failure) ? { ...nothing, later: [directory] } : nothing
  const isTree = directory === tree
  const own = isTree ? undefined : entries.success.find(({ name }) => name === ".git")
  const isRepository =
    own?.type === "File" ||
    (own?.type === "Directory" &&
      // A directory without a configuration is not a repository.
      (yield* Effect.orElseSucceed(fs.exists(path.join(directory, ".git/config")), () => false)))
  const parent = path.basename(directory)
  const later = entries.success.filter(
    ({ name, type }) =>
      // The `.hermes` directory in the root of the tree is protected by another rule.
      !(isTree && name === ".hermes") && (isLaterName(name, parent) || (isAgentDirectory(name) && type !== "Directory"))
  )
  return {
    isRepository,
    later: later.map(({ name }) => path.join(directory, name)),
    environment: entries.success.flatMap(({ name, type }) =>
      isEnvironmentFile(name) && (isTree || type !== "Directory") ? [path.join(directory, name)] : []
    ),
    below: entries.success.flatMap(({ name, type }) =>
      type === "Directory" && !passedOver.has(name) ? [path.join(directory, name)] : []
    )
  }
})

/** Scans a working tree. Directories of an earlier scan come `first`. `home` contains the user's git configuration. */
export const scanTree = Effect.fnUntraced(function* (
  tree: string,
  { first = [], home }: { readonly first?: ReadonlyArray<string>; readonly home: string | undefined }
): Effect.fn.Return<TreeScan, never, FileSystem.FileSystem | Path.Path> {
  const path = yield* Path.Path
  const seen = new Set<string>()
  const found: Array<ScanFindings> = []
  const repositories: Array<string> = []
  for (let level: ReadonlyArray<string> = [tree, ...first]; level.length > 0 && seen.size < maxDirectories;) {
    const looked = [...new Set(level)].filter((directory) => !seen.has(directory)).slice(0, maxDirectories - seen.size)
    looked.forEach((directory) => seen.add(directory))
    const results = yield* Effect.forEach(looked, (directory) => lookAt(directory, tree), { concurrency: 16 })
    results.forEach(({ isRepository }, at) => isRepository && repositories.push(looked[at] ?? tree))
    found.push(...results)
    level = results.flatMap(({ below }) => below)
  }
  const hooks = yield* findHookDirectories(tree, repositories, home)
  const named = new Set([...found.flatMap((each) => each.later), ...hooks])
  // A path below another protected path is kept or renamed together with it.
  const isInside = (place: string): boolean => {
    const above = path.dirname(place)
    return isWithin(above, tree) && above !== tree && (named.has(above) || isInside(above))
  }
  const later = Array.from(named).filter((place) => !isInside(place))
  return {
    directories: Array.from(seen),
    repositories: repositories.toSorted((one, other) => one.split("/").length - other.split("/").length),
    laterPlaces: yield* Effect.forEach(later, describePlace, { concurrency: 16 }),
    environmentFiles: found.flatMap(({ environment }) => environment)
  }
})
