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
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { isWithin, isMatching, withHome, resolvePlace } from "./NamedPaths.ts"

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

/** Formats a size for people. */
const formatSize = (bytes: number): string => {
  const [unit, name] = bytes >= 1e9 ? [1e9, "GB"] : bytes >= 1e6 ? [1e6, "MB"] : [1e3, "KB"]
  return `${(bytes / unit).toFixed(bytes / unit < 10 ? 1 : 0)} ${name}`
}

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

/** Files of one place that are about to be stored. */
interface Portion {
  readonly files: Map<string, FileState>
  /** Number and size of all files of the place, stored or not. */
  count: number
  bytes: number
}

/** Files that have been read for one command. */
export interface Reading extends Surroundings {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly files: Map<string, FileState>
  readonly gaps: Set<string>
  /** Directories that can be recreated. They are read last. */
  readonly disposable: Set<string>
  bytes: number
}

/** Returns true if a complete portion is within the limits of a command. */
const hasRoom = ({ bytes, files }: Reading, portion: Portion): boolean =>
  files.size + portion.count <= maxFiles && bytes + portion.bytes <= maxBytes

const toRelative = (reading: Reading, file: string): string => reading.path.relative(reading.tree, file)

/** Stores one file, or records the reason why it cannot be stored. */
const storeFile = Effect.fnUntraced(function* (
  reading: Reading,
  file: string,
  portion: Portion
): Effect.fn.Return<void, PlatformError> {
  const { fs, gaps } = reading
  const name = toRelative(reading, file)
  const size = Number((yield* fs.lstat(file)).size)
  portion.count++
  portion.bytes += size
  if (reading.isHidden(name)) return void gaps.add(`${name} (it may hold credentials)`)
  if (reading.files.size + portion.files.size >= maxFiles) return
  if (reading.bytes + portion.bytes > maxBytes && size <= maxFileBytes) return
  const state = yield* Effect.provideService(readState(file), FileSystem.FileSystem, fs)
  if (state === undefined) return
  if (state.content === undefined)
    gaps.add(`${name} (${state.size > maxFileBytes ? formatSize(state.size) : "not a regular file"})`)
  else portion.files.set(file, state)
})

/** Returns true for a directory that a tool can recreate. */
const isDisposable = (reading: Reading, directory: string): Effect.Effect<boolean> => {
  const name = reading.path.basename(directory)
  if (fetched.has(name)) return Effect.succeed(true)
  return built.has(name) ? reading.isIgnored(toRelative(reading, directory)) : Effect.succeed(false)
}

/** Stores all files below a path. With `later`, directories that a tool can recreate are deferred. */
const storeTree = Effect.fnUntraced(function* (
  reading: Reading,
  file: string,
  name: string | undefined,
  portion: Portion,
  later: Set<string> | undefined
): Effect.fn.Return<void, PlatformError> {
  if (portion.count > reading.counted) return
  const own = reading.path.basename(file)
  const info = yield* reading.fs.lstat(file)
  const isMeant = name === undefined || isMatching(name, own)
  if (info.type !== "Directory") return isMeant ? yield* storeFile(reading, file, portion) : undefined
  if (own === ".git") {
    if (isMeant || (name !== undefined && gitNames.some((each) => isMatching(name, each))))
      reading.gaps.add(`${toRelative(reading, file)} (a repository of git)`)
    return
  }
  if (later !== undefined && (yield* isDisposable(reading, file))) return void (isMeant && later.add(file))
  const names = yield* reading.fs.readDirectory(file)
  if (names.length === 0 && isMeant) return yield* storeFile(reading, file, portion)
  for (const each of names)
    yield* storeTree(reading, reading.path.join(file, each), isMeant ? undefined : name, portion, later)
})

/** Finds the files and directories that a place means. */
const findRoots = Effect.fnUntraced(function* (
  reading: Reading,
  given: NamedPlace
): Effect.fn.Return<ReadonlyArray<string>, PlatformError> {
  const { gaps, listed, path, tree } = reading
  const { listing } = given
  // `changed` applies to the whole repository.
  const starts = listing === "changed" ? [tree] : yield* resolvePlace(reading, given)
  if (listing === undefined) return starts
  const lists = yield* Effect.forEach(starts, (start) => {
    if (!isWithin(start, tree)) return Effect.succeed([start])
    return Effect.map(listed(listing, start), (names) => {
      if (names === undefined) gaps.add("files that git does not list")
      return (names ?? []).map((name) => path.join(tree, name))
    })
  })
  return lists.flat()
})

/** Explains why no file of a place can be stored, or returns `undefined`. */
const explainGap = (reading: Reading, root: string, name: string | undefined): string | undefined => {
  const { path, tree } = reading
  const part = toRelative(reading, root)
  if (!isWithin(root, tree))
    return isWithin(tree, root) ? "all of the working tree" : `${root} (outside of the working tree)`
  if (root === tree && name === undefined) return "all of the working tree"
  return part.split(path.sep).includes(".git") ? `${part} (a repository of git)` : undefined
}

/** Returns true for a temporary file outside of the tree. */
const isTemporary = ({ tree }: Reading, root: string): boolean =>
  !isWithin(root, tree) && !isWithin(tree, root) && temporary.some((each) => isWithin(root, each))

/** Stores the files below one root of a place. */
const storeRoot = Effect.fnUntraced(function* (
  reading: Reading,
  root: string,
  name: string | undefined
): Effect.fn.Return<void, PlatformError> {
  const { counted, disposable, files, gaps } = reading
  if (isTemporary(reading, root)) return
  const gap = explainGap(reading, root, name)
  if (gap !== undefined) return void gaps.add(gap)
  const portion: Portion = { files: new Map(), count: 0, bytes: 0 }
  yield* storeTree(reading, root, name, portion, disposable)
  if (hasRoom(reading, portion)) reading.bytes += portion.bytes
  else {
    const part = toRelative(reading, root)
    const count = portion.count > counted ? `more than ${counted}` : String(portion.count)
    gaps.add(`${part === "" ? "the working tree" : part} (${count} files, ${formatSize(portion.bytes)})`)
  }
  for (const [file, state] of portion.files) files.set(file, state)
})

/** Stores the files of a place. */
const storePlace = Effect.fnUntraced(function* (
  reading: Reading,
  given: NamedPlace
): Effect.fn.Return<void, PlatformError> {
  const { fs, gaps, path } = reading
  // A path that still begins with `~` refers to another user's home, or the home is unknown.
  if ([given.path, given.directory ?? ""].some((text) => withHome(reading, text).startsWith("~")))
    return void gaps.add(`${given.path} (outside of the working tree)`)
  for (const root of yield* findRoots(reading, given)) {
    const isNested =
      given.listing !== undefined && (yield* Effect.orElseSucceed(fs.exists(path.join(root, ".git")), () => false))
    // git does not change these entries.
    if (isNested || !(yield* Effect.orElseSucceed(Effect.as(fs.lstat(root), true), () => false))) continue
    yield* storeRoot(reading, root, given.name)
  }
})

/** Stores a directory that can be recreated if all of it fits, and returns true if it does. */
const storeDisposable = Effect.fnUntraced(function* (reading: Reading, root: string): Effect.fn.Return<boolean> {
  const { files, gaps } = reading
  const portion: Portion = { files: new Map(), count: 0, bytes: 0 }
  const before = gaps.size
  yield* Effect.ignore(storeTree(reading, root, undefined, portion, undefined))
  if (gaps.size > before || !hasRoom(reading, portion)) {
    for (const gap of Array.from(gaps).slice(before)) gaps.delete(gap)
    return false
  }
  reading.bytes += portion.bytes
  for (const [file, state] of portion.files) files.set(file, state)
  return true
})

/** Reads the files at the given places. */
export const read = Effect.fnUntraced(function* (
  places: ReadonlyArray<NamedPlace>,
  surroundings: Surroundings
): Effect.fn.Return<NamedContents, never, FileSystem.FileSystem | Path.Path> {
  const gaps = new Set<string>()
  const reading: Reading = {
    ...surroundings,
    fs: yield* FileSystem.FileSystem,
    path: yield* Path.Path,
    files: new Map(),
    gaps,
    disposable: new Set(),
    bytes: 0
  }
  for (const each of places) {
    yield* Effect.catch(storePlace(reading, each), ({ reason }) =>
      Effect.sync(() => void gaps.add(`${each.path} (${reason.description ?? reason._tag})`))
    )
  }
  const rebuilt: Array<string> = []
  for (const root of reading.disposable)
    if (!(yield* storeDisposable(reading, root))) rebuilt.push(toRelative(reading, root))
  return { files: reading.files, gaps: Array.from(gaps), rebuilt }
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
