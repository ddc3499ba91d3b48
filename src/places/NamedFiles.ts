/**
 * Reads the files that the words of a command name, before the command runs: their contents, for a later restore, and
 * the files that cannot be stored.
 *
 * **Details**
 *
 * All files below a place are included, also ignored files and empty directories. Limits apply to each command: number
 * of files, total bytes, and bytes per file. A file that exceeds a limit is a gap, named with its size. Directories
 * that a build or an installation can recreate (`node_modules`; `dist` and similar ones if `.gitignore` names them) are
 * stored if they fit, and are not a gap otherwise.
 *
 * **Gotchas**
 *
 * Links are not followed below a place. Links in the path to the place are followed, as the system does.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Glob from "../base/domain/Glob.ts"

/**
 * State of a file at one moment. `content` is the target of a link, empty for an empty directory, and `undefined` if it
 * is not stored.
 */
export interface FileState {
  readonly type: "file" | "link" | "directory"
  readonly mode: number
  readonly size: number
  readonly content: Uint8Array | undefined
}

/** A file that has changed since it was read. */
export interface ChangedFile {
  /** Absolute path. */
  readonly path: string
  readonly before: FileState | undefined
  readonly after: FileState | undefined
}

/** Listing of files by git: changed files, or untracked files with or without ignored files. */
export type Listing = "changed" | "untracked" | "ignored"

/** A file or directory that a command refers to. */
export interface NamedPlace {
  /**
   * Path as written in the command: absolute, relative to the home directory (`~`), or relative to
   * {@link NamedPlace.directory}.
   */
  readonly path: string
  /** Directory in which the command runs, if the command line states it. */
  readonly directory?: string | undefined
  /** True if `*`, `?` and `[` in the path match files. */
  readonly isPattern?: boolean | undefined
  /** Pattern for the names of files below the place. All names match if absent. */
  readonly name?: string | undefined
  /** List of git that selects the files of the place. */
  readonly listing?: Listing | undefined
}

/** Contents of the files at some places. */
export interface NamedContents {
  /** Files by their absolute paths. */
  readonly files: ReadonlyMap<string, FileState>
  /** Parts that cannot be restored, each with its reason. */
  readonly gaps: ReadonlyArray<string>
  /** Directories that are not stored because they can be recreated. */
  readonly rebuilt: ReadonlyArray<string>
}

/** Directories and rules for resolving places. */
export interface Surroundings {
  /** Real path of the root of the working tree. */
  readonly tree: string
  /** Working directory of the call. */
  readonly cwd: string
  readonly home: string | undefined
  /** Maximum number of files of a place that are read. Further files are not counted. */
  readonly counted: number
  /** Returns true for a path of the tree whose content is never stored. */
  readonly isHidden: (path: string) => boolean
  /**
   * Lists the paths of files relative to the tree, as git reports them. Returns `undefined` if git cannot list them.
   */
  readonly listed: (listing: Listing, directory: string) => Effect.Effect<ReadonlyArray<string> | undefined>
  /** Returns true for a path of the tree that `.gitignore` files name. */
  readonly isIgnored: (path: string) => Effect.Effect<boolean>
}

/** Maximum number of files that are stored for one command. */
export const maxFiles = 2_000
const maxBytes = 64 * 1024 * 1024
const maxFileBytes = 10 * 1024 * 1024
/** Maximum number of files that are counted to report their number. */
export const maxCounted = 20_000

/** Names of directories that a tool can always recreate. */
const fetched = new Set([
  "node_modules",
  "bower_components",
  "__pycache__",
  ".venv",
  ".tox",
  ".pytest_cache",
  ".mypy_cache",
  ".ruff_cache",
  ".parcel-cache",
  ".turbo",
  ".gradle",
  ".next",
  ".nuxt",
  ".svelte-kit",
  ".nyc_output"
])
/** Names of directories that a tool can recreate if `.gitignore` lists them. */
const built = new Set([
  "dist",
  "build",
  "out",
  "target",
  "coverage",
  "bin",
  "obj",
  ".cache",
  ".output",
  "_build",
  "venv",
  "vendor",
  "storybook-static"
])

const temporary = ["/tmp", "/var/tmp"]

/** Sample names of entries in a git repository, one of each kind. */
const gitNames = [
  "HEAD",
  "config",
  "index",
  "packed-refs",
  "description",
  "exclude",
  "main",
  "objects",
  "pack-0a.pack",
  "pack-0a.idx",
  "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
]

const isWithin = (path: string, root: string): boolean =>
  path === root || path.startsWith(root === "/" ? root : `${root}/`)

/** Formats a size for people. */
const formatSize = (bytes: number): string => {
  const [unit, name] = bytes >= 1e9 ? [1e9, "GB"] : bytes >= 1e6 ? [1e6, "MB"] : [1e3, "KB"]
  return `${(bytes / unit).toFixed(bytes / unit < 10 ? 1 : 0)} ${name}`
}

/**
 * Returns true if a name matches a pattern whose character classes are replaced by wildcards, which match more names.
 */
const isMatching = (pattern: string, name: string): boolean => Glob.isMatch(pattern.replace(/\[[^\]]*\]?/g, "*"), name)

/** Reads the current state of a file. */
const readState = Effect.fnUntraced(function* (
  file: string
): Effect.fn.Return<FileState | undefined, PlatformError, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  const info = yield* Effect.catchIf(
    fs.lstat(file),
    ({ reason: { _tag } }) => _tag === "NotFound" || _tag === "BadResource",
    () => Effect.undefined
  )
  if (info === undefined) return undefined
  const mode = info.mode & 0o777
  if (info.type === "SymbolicLink") {
    const content = new TextEncoder().encode(yield* fs.readLink(file))
    return { type: "link", mode, size: content.length, content }
  }
  if (info.type === "Directory") return { type: "directory", mode, size: 0, content: new Uint8Array(0) }
  const size = Number(info.size)
  return {
    type: "file",
    mode,
    size,
    content: info.type === "File" && size <= maxFileBytes ? yield* fs.readFile(file) : undefined
  }
})

/** Reads the files at the given places. */
export const read = Effect.fnUntraced(function* (
  places: ReadonlyArray<NamedPlace>,
  { counted, cwd, home, isHidden, isIgnored, listed, tree }: Surroundings
): Effect.fn.Return<NamedContents, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const files = new Map<string, FileState>()
  const gaps = new Set<string>()
  const disposable = new Set<string>()
  let bytes = 0

  const toRelative = (file: string): string => path.relative(tree, file)
  const withHome = (text: string): string => (home === undefined ? text : text.replace(/^~(?=\/|$)/, home))

  /** Resolves a path from a directory to directories and files, following links on the way. */
  const resolvePaths = Effect.fnUntraced(function* (
    start: string,
    text: string,
    isPattern: boolean
  ): Effect.fn.Return<ReadonlyArray<string>, PlatformError> {
    let found: ReadonlyArray<string> = [yield* fs.realPath(start)]
    const parts = text.split("/").filter((part) => part !== "" && part !== ".")
    for (const [index, part] of parts.entries()) {
      const next: Array<string> = []
      for (const at of found) {
        const names =
          isPattern && /[*?[]/.test(part)
            ? (yield* Effect.orElseSucceed(fs.readDirectory(at), () => [])).filter(
                (name) => (!name.startsWith(".") || part.startsWith(".")) && isMatching(part, name)
              )
            : []
        for (const name of new Set([...names, part])) {
          const child = path.join(at, name)
          // A link that is named itself is the entry that the command removes.
          const real =
            index === parts.length - 1 && part !== ".." ? Effect.as(fs.lstat(child), child) : fs.realPath(child)
          const there = yield* Effect.option(real)
          if (Option.isSome(there)) next.push(there.value)
        }
      }
      found = next
    }
    return found
  })

  /**
   * Resolves the files of a place. If the command line changes the directory, the path is also resolved without the
   * change, because `cd` may fail.
   */
  const resolvePlace = Effect.fnUntraced(function* ({
    directory,
    isPattern = false,
    path: given
  }: NamedPlace): Effect.fn.Return<ReadonlyArray<string>, PlatformError> {
    const text = withHome(given)
    if (text.startsWith("/")) return yield* resolvePaths("/", text, isPattern)
    if (directory === undefined) return yield* resolvePaths(cwd, text, isPattern)
    const found = yield* resolvePaths(path.resolve(cwd, withHome(directory)), text, isPattern)
    return [
      ...new Set([
        ...found,
        ...(yield* resolvePaths(cwd, text, isPattern)).filter((file) => isWithin(file, tree) && file !== tree)
      ])
    ]
  })

  /** Stores one file, or records the reason why it cannot be stored. */
  const storeFile = Effect.fnUntraced(function* (
    file: string,
    into: Map<string, FileState>,
    tally: { files: number; bytes: number }
  ): Effect.fn.Return<void, PlatformError> {
    const { size } = yield* fs.lstat(file)
    tally.files++
    tally.bytes += Number(size)
    if (isHidden(toRelative(file))) return void gaps.add(`${toRelative(file)} (it may hold credentials)`)
    if (files.size + into.size >= maxFiles || (bytes + tally.bytes > maxBytes && Number(size) <= maxFileBytes)) return
    const state = yield* Effect.provideService(readState(file), FileSystem.FileSystem, fs)
    if (state === undefined) return
    if (state.content === undefined)
      gaps.add(`${toRelative(file)} (${state.size > maxFileBytes ? formatSize(state.size) : "not a regular file"})`)
    else into.set(file, state)
  })

  /** Stores all files below a path. With `later`, directories that a tool can recreate are deferred. */
  const storeTree = (
    file: string,
    name: string | undefined,
    into: Map<string, FileState>,
    tally: { files: number; bytes: number },
    later: Set<string> | undefined
  ): Effect.Effect<void, PlatformError> =>
    Effect.gen(function* () {
      if (tally.files > counted) return
      const own = path.basename(file)
      const info = yield* fs.lstat(file)
      const isMeant = name === undefined || isMatching(name, own)
      if (info.type !== "Directory") return isMeant ? yield* storeFile(file, into, tally) : undefined
      if (own === ".git") {
        if (isMeant || (name !== undefined && gitNames.some((each) => isMatching(name, each))))
          gaps.add(`${toRelative(file)} (a repository of git)`)
        return
      }
      if (later !== undefined && (fetched.has(own) || (built.has(own) && (yield* isIgnored(toRelative(file))))))
        return void (isMeant && later.add(file))
      const names = yield* fs.readDirectory(file)
      if (names.length === 0 && isMeant) return yield* storeFile(file, into, tally)
      for (const each of names) yield* storeTree(path.join(file, each), isMeant ? undefined : name, into, tally, later)
    })

  const storePlace = Effect.fnUntraced(function* (given: NamedPlace): Effect.fn.Return<void, PlatformError> {
    const { listing } = given
    // `changed` applies to the whole repository. A path that still begins with `~` refers to another user's home, or
    // the home is unknown.
    if ([given.path, given.directory ?? ""].some((text) => withHome(text).startsWith("~")))
      return void gaps.add(`${given.path} (outside of the working tree)`)
    const starts = listing === "changed" ? [tree] : yield* resolvePlace(given)
    const listGitPlaces = (start: string) =>
      listing === undefined
        ? Effect.succeed([start])
        : Effect.map(listed(listing, start), (names) => {
            if (names === undefined) gaps.add("files that git does not list")
            return (names ?? []).map((name) => path.join(tree, name))
          })
    const roots = (yield* Effect.forEach(starts, (start) =>
      listing === undefined || isWithin(start, tree) ? listGitPlaces(start) : Effect.succeed([start])
    )).flat()
    for (const root of roots) {
      const isNested =
        listing !== undefined && (yield* Effect.orElseSucceed(fs.exists(path.join(root, ".git")), () => false))
      // git does not change these entries.
      if (isNested || !(yield* Effect.orElseSucceed(Effect.as(fs.lstat(root), true), () => false))) continue
      const part = toRelative(root)
      if (!isWithin(root, tree)) {
        if (isWithin(tree, root)) gaps.add("all of the working tree")
        else if (!temporary.some((each) => isWithin(root, each))) gaps.add(`${root} (outside of the working tree)`)
      } else if (root === tree && given.name === undefined) gaps.add("all of the working tree")
      else if (part.split(path.sep).includes(".git")) gaps.add(`${part} (a repository of git)`)
      else {
        const tally = { files: 0, bytes: 0 }
        const kept = new Map<string, FileState>()
        yield* storeTree(root, given.name, kept, tally, disposable)
        const isWhole = files.size + tally.files <= maxFiles && bytes + tally.bytes <= maxBytes
        if (!isWhole)
          gaps.add(
            `${part === "" ? "the working tree" : part} ` +
              `(${tally.files > counted ? `more than ${counted}` : tally.files} files, ${formatSize(tally.bytes)})`
          )
        else bytes += tally.bytes
        for (const [file, state] of kept) files.set(file, state)
      }
    }
  })

  for (const each of places) {
    yield* Effect.catch(storePlace(each), ({ reason }) =>
      Effect.sync(() => void gaps.add(`${each.path} (${reason.description ?? reason._tag})`))
    )
  }
  const rebuilt: Array<string> = []
  for (const root of disposable) {
    const tally = { files: 0, bytes: 0 }
    const kept = new Map<string, FileState>()
    const before = gaps.size
    yield* Effect.ignore(storeTree(root, undefined, kept, tally, undefined))
    if (gaps.size > before || files.size + tally.files > maxFiles || bytes + tally.bytes > maxBytes) {
      rebuilt.push(toRelative(root))
      for (const gap of Array.from(gaps).slice(before)) gaps.delete(gap)
      continue
    }
    bytes += tally.bytes
    for (const [file, state] of kept) files.set(file, state)
  }
  return { files, gaps: Array.from(gaps), rebuilt }
})

const isSame = (one: FileState, other: FileState | undefined): boolean =>
  other !== undefined &&
  one.type === other.type &&
  one.mode === other.mode &&
  one.size === other.size &&
  (one.content === other.content ||
    (one.content !== undefined &&
      other.content !== undefined &&
      one.content.every((byte, index) => byte === other.content?.[index])))

/** Returns the files that have changed. */
export const findChanges = Effect.fnUntraced(function* (
  files: NamedContents["files"]
): Effect.fn.Return<ReadonlyArray<ChangedFile>, never, FileSystem.FileSystem> {
  const changes: Array<ChangedFile> = []
  for (const [path, before] of files) {
    const after = yield* Effect.orElseSucceed(readState(path), () => before)
    if (!isSame(before, after)) changes.push({ path, before, after })
  }
  return changes
})
