/**
 * A git repository for the states of a working tree, separate from the user's own repository: its directory, index and
 * configuration are elsewhere, and the user's repository is never written.
 *
 * **Details**
 *
 * A state is a tree object. Without changes it costs one `git ls-files`; otherwise the changed files are hashed and
 * stored. It does not include files that `.gitignore` files or `.git/info/exclude` name, `node_modules` and similar
 * directories, large files, hidden files and files of nested repositories. Settings of the user, of the system and of
 * the tree have no effect: no hook, filter, monitor or conversion runs, and contents are kept byte for byte.
 *
 * Several programs share the objects of a tree. Each program has a separate index, which the next program inherits.
 *
 * **Gotchas**
 *
 * The only file mode that is stored is the executable bit, as in git. Empty directories are not stored.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import type { TreeAccess } from "./CommandEnvironment.ts"
import type { Listing } from "./NamedFiles.ts"
import { GitFailed, decodeOutput, splitOutput, type ShadowGit, runProgram, runGit, openGit } from "./ShadowGit.ts"

/** A stored state of the tree. */
export interface State {
  /** Id of its tree object. */
  readonly id: string
  /** Large files by their path in the tree, each with its size and a stamp that changes with the file. */
  readonly large: ReadonlyMap<string, { readonly stamp: string; readonly size: number }>
  /** Paths of nested repositories, and of files that could not be read. */
  readonly unseen: ReadonlyArray<string>
  /** False if the tree is too large for one state and files remain to be stored; the next state continues with them. */
  readonly isWhole: boolean
}

/** The file on one side of a difference. */
export interface Side {
  readonly hash: string
  readonly type: "file" | "link"
  readonly mode: number
}

/** A path of the tree that differs between two states. */
export interface Difference {
  readonly path: string
  readonly before: Side | undefined
  readonly after: Side | undefined
}

/** Stored states of one tree. */
export interface ShadowRepository {
  /** Stores the current state. */
  readonly state: Effect.Effect<State, GitFailed | PlatformError>
  readonly differences: (
    before: string,
    after: string
  ) => Effect.Effect<ReadonlyArray<Difference>, GitFailed | PlatformError>
  /** Returns contents by their hash, as many as fit into the byte limit. */
  readonly contents: (
    hashes: ReadonlyArray<string>,
    maxBytes: number
  ) => Effect.Effect<ReadonlyMap<string, Uint8Array>, GitFailed | PlatformError>
  /** Returns true for a path of the tree that `.gitignore` files name. */
  readonly isIgnored: (path: string) => Effect.Effect<boolean>
  /**
   * Lists paths of the tree according to the index of the user's repository. Returns `undefined` if the index cannot be
   * read.
   */
  readonly listed: (listing: Listing, directory: string) => Effect.Effect<ReadonlyArray<string> | undefined>
}

/** A tree and the place where its states are stored. */
export interface Options {
  /** Absolute real path of the tree. */
  readonly tree: string
  /** Directory of the repository, on the machine that contains the tree. */
  readonly directory: string
  /** Maximum size of a stored file, in bytes. */
  readonly maxFileBytes: number
  /** Maximum number of files of a tree. Larger trees are not examined. */
  readonly maxFiles: number
  /** Time limit of one state, in milliseconds. The remaining files are stored with the next state. */
  readonly patience: number
  /** Absolute paths of directories that are excluded from a tree that contains them. */
  readonly apart: ReadonlyArray<string>
  /** Returns true for a path of the tree whose content is never stored. */
  readonly isHidden: (path: string) => boolean
}

const chunkSize = 1_000

const toSide = (mode: string | undefined, hash: string | undefined): Side | undefined =>
  mode === undefined || hash === undefined || mode === "000000"
    ? undefined
    : { hash, type: mode === "120000" ? "link" : "file", mode: mode === "100755" ? 0o755 : 0o644 }

/** Parses the differences that `git diff-tree` lists. */
const parseDifferences = (output: Uint8Array): ReadonlyArray<Difference> =>
  Arr.chunksOf(splitOutput(output), 2).map(([meta = "", path = ""]) => {
    const [before, after, beforeHash, afterHash] = meta.slice(1).split(" ")
    return { path, before: toSide(before, beforeHash), after: toSide(after, afterHash) }
  })

/** Parses the contents that `git cat-file --batch` returns. The last content may be cut. */
const parseContents = (output: Uint8Array): ReadonlyMap<string, Uint8Array> => {
  const found = new Map<string, Uint8Array>()
  for (let at = 0; at < output.length;) {
    const end = output.indexOf(0x0a, at)
    const [hash = "", , size = ""] = decodeOutput(output.subarray(at, end === -1 ? output.length : end)).split(" ")
    const from = end + 1
    const to = from + Number(size)
    if (end === -1 || !(to <= output.length)) break
    found.set(hash, output.slice(from, to))
    at = to + 1
  }
  return found
}

const readStamp = (git: ShadowGit, path: string) =>
  Effect.map(git.files.stat(`${git.tree}/${path}`), ({ ino, mtime, size }) => ({
    size: Number(size),
    stamp: `${size} ${Option.getOrElse(mtime, () => new Date(0)).getTime()} ${Option.getOrElse(ino, () => 0)}`
  }))

/** Adds files to the index. Returns the files that cannot be read. */
const storePaths = (
  git: ShadowGit,
  paths: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, GitFailed | PlatformError> =>
  paths.length === 0
    ? Effect.succeed([])
    : Effect.flatMap(
        runProgram(git, "git", ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"], {
          input: `${paths.join("\0")}\0`
        }),
        ({ code, errors }) => {
          if (code === 0) return Effect.succeed([])
          if (/index\.lock|index-\w+\.lock|No space left|Read-only/i.test(errors))
            return Effect.fail(new GitFailed({ message: errors.trim() }))
          if (paths.length === 1) return Effect.succeed(paths)
          const half = paths.length >> 1
          return Effect.zipWith(
            storePaths(git, paths.slice(0, half)),
            storePaths(git, paths.slice(half)),
            (some, more) => [...some, ...more]
          )
        }
      )

/** Returns the index of the user's repository. */
const findUserIndex = Effect.fnUntraced(function* ({ files, tree }: ShadowGit) {
  const pointer = yield* Effect.orElseSucceed(files.readFileString(`${tree}/.git`), () => "")
  return `${/^gitdir: (\/.+)$/m.exec(pointer)?.[1] ?? `${tree}/.git`}/index`
})

/**
 * Arguments of `git ls-files` for each listing. Changed files include tracked files that are ignored, because git also
 * changes them.
 */
const listings: Readonly<Record<Listing, (excludes: ReadonlyArray<string>) => ReadonlyArray<ReadonlyArray<string>>>> = {
  changed: () => [["-m"], ["-c", "-i", "--exclude-standard"]],
  untracked: (excludes) => [["-o", "--directory", "--exclude-standard", ...excludes]],
  ignored: () => [["-o", "--directory"]]
}

/** A tree whose states are stored. */
interface TrackedTree {
  readonly git: ShadowGit
  readonly options: Options
  /** Excludes of the user's repository, as arguments of git. */
  readonly excludes: ReadonlyArray<string>
  /** Id of the last state, empty before the first one. */
  last: string
}

const listFiles = (
  { excludes, git }: TrackedTree,
  listing: Listing,
  directory: string
): Effect.Effect<ReadonlyArray<string> | undefined> =>
  Effect.gen(function* () {
    const index = yield* findUserIndex(git)
    const below = directory === git.tree ? "." : directory.slice(git.tree.length + 1)
    const results = yield* Effect.forEach(listings[listing](excludes), (args) =>
      runProgram(git, "git", ["ls-files", "-z", ...args, "--", below], { index })
    )
    return results.every(({ code, isCut }) => code === 0 && !isCut)
      ? [...new Set(results.flatMap(({ output }) => splitOutput(output)))]
      : undefined
  }).pipe(Effect.orElseSucceed(() => undefined))

/** Finds the large files of the tree, by path. */
const findLarge = (git: ShadowGit, maxFileBytes: number) => {
  const pruned = ["(", "-name", ".git", "-o", "-name", "node_modules", ")", "-prune"]
  const large = ["-type", "f", "-size", `+${Math.floor(maxFileBytes / 512)}`, "-print0"]
  return Effect.map(
    runProgram(git, "find", [".", ...pruned, "-o", ...large]),
    ({ output }) => new Set(splitOutput(output).map((path) => path.slice(2)))
  )
}

/** Excludes the directories that are kept apart from a tree that contains them. */
const excludeApart = ({ apart, tree }: Options): ReadonlyArray<string> =>
  apart.flatMap((each) =>
    each.startsWith(`${tree}/`) ? [`--exclude=/${each.slice(tree.length + 1).replace(/[\\*?[\]!#]/g, "\\$&")}/`] : []
  )

/** Lists the files of the tree that differ from the index. */
const listEntries = Effect.fnUntraced(function* ({ excludes, git, options }: TrackedTree) {
  const changed = ["ls-files", "-z", "-t", "-m", "-d", "-o", "--exclude-standard"]
  const listed = yield* runGit(git, [...changed, ...excludeApart(options), ...excludes])
  const entries = splitOutput(listed.output).map((line) => ({ tag: line[0], path: line.slice(2) }))
  if (listed.isCut || entries.length > options.maxFiles)
    return yield* new GitFailed({ message: `more than ${options.maxFiles} files` })
  return entries
})

type Entry = Effect.Success<ReturnType<typeof listEntries>>[number]

/** Stamps the large files among entries of the tree. */
const stampLargeFiles = Effect.fnUntraced(function* (
  { git, options }: TrackedTree,
  candidates: ReadonlyArray<Entry>
): Effect.fn.Return<State["large"], GitFailed | PlatformError> {
  const paths = candidates.some(({ tag }) => tag !== "R")
    ? yield* findLarge(git, options.maxFileBytes)
    : new Set<string>()
  const large = new Map<string, { readonly stamp: string; readonly size: number }>()
  for (const path of new Set(candidates.flatMap(({ path }) => (paths.has(path) ? [path] : [])))) {
    const stamp = yield* Effect.option(readStamp(git, path))
    if (Option.isSome(stamp)) large.set(path, stamp.value)
  }
  return large
})

/** Adds files to the index until the time is up. Returns the files that cannot be read. */
const storeInTime = Effect.fnUntraced(function* (
  { git, options }: TrackedTree,
  paths: ReadonlyArray<string>,
  started: number
) {
  const unread: Array<string> = []
  for (const chunk of Arr.chunksOf(paths, chunkSize)) {
    if ((yield* Clock.currentTimeMillis) - started > options.patience) return { unread, isWhole: false }
    unread.push(...(yield* storePaths(git, chunk)))
  }
  return { unread, isWhole: true }
})

/** Stores the current state of the tree. */
const storeState = Effect.fnUntraced(function* (
  tracked: TrackedTree
): Effect.fn.Return<State, GitFailed | PlatformError> {
  const { git, options } = tracked
  const started = yield* Clock.currentTimeMillis
  const entries = yield* listEntries(tracked)
  const nested = entries.flatMap(({ path }) => (path.endsWith("/") ? [path] : []))
  const candidates = entries.filter(
    ({ path }) => !path.endsWith("/") && !path.includes("\uFFFD") && !options.isHidden(path)
  )
  const large = yield* stampLargeFiles(tracked, candidates)
  const grown = candidates.flatMap(({ path, tag }) => (tag === "C" && large.has(path) ? [path] : []))
  if (grown.length > 0) yield* runGit(git, ["update-index", "-z", "--force-remove", "--stdin"], `${grown.join("\0")}\0`)
  const changed = [...new Set(candidates.flatMap(({ path }) => (large.has(path) ? [] : [path])))]
  const { isWhole, unread } = yield* storeInTime(tracked, changed, started)
  if (tracked.last === "" || changed.length > 0 || grown.length > 0)
    tracked.last = decodeOutput((yield* runGit(git, ["write-tree"])).output).trim()
  return { id: tracked.last, large, unseen: [...nested, ...unread], isWhole }
})

/** Opens the states of a tree, and creates their directory if it is missing. */
export const open = Effect.fnUntraced(function* (
  access: TreeAccess,
  options: Options
): Effect.fn.Return<ShadowRepository, GitFailed | PlatformError, Scope.Scope> {
  const { tree } = options
  const git = yield* openGit(access, options)
  const ownExcludes = (yield* Effect.orElseSucceed(access.files.exists(`${tree}/.git/info/exclude`), () => false))
    ? [`--exclude-from=${tree}/.git/info/exclude`]
    : []
  const tracked: TrackedTree = { git, options, excludes: ownExcludes, last: "" }
  return {
    state: storeState(tracked),
    listed: (listing, directory) => listFiles(tracked, listing, directory),
    // Exit code 1 means that the path is not ignored, and 128 that git cannot determine it.
    isIgnored: (path) =>
      Effect.orElseSucceed(
        Effect.map(runProgram(git, "git", ["check-ignore", "-q", "--no-index", "--", path]), ({ code }) => code === 0),
        () => false
      ),
    differences: (before, after) =>
      before === after
        ? Effect.succeed([])
        : Effect.map(runGit(git, ["diff-tree", "-r", "-z", "--raw", "--no-renames", before, after]), ({ output }) =>
            parseDifferences(output)
          ),
    contents: (hashes, maxBytes) =>
      hashes.length === 0
        ? Effect.succeed(new Map())
        : Effect.map(runGit(git, ["cat-file", "--batch"], `${hashes.join("\n")}\n`, maxBytes), ({ output }) =>
            parseContents(output)
          )
  }
})
