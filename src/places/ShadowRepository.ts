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
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Ids from "../base/domain/Ids.ts"
import * as TrustedPrograms from "../base/platform/TrustedPrograms.ts"
import type { TreeAccess } from "./CommandEnvironment.ts"
import type { Listing } from "./NamedFiles.ts"

/** Reports that git failed or is not installed. */
export class GitFailed extends Schema.TaggedError<GitFailed>("hermes-effect/GitFailed")("GitFailed", {
  message: Schema.String
}) {}

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

/** Build results and downloaded packages, ignored regardless of `.gitignore`. */
const alwaysIgnored = ["node_modules/", ".venv/", "__pycache__/", ".hermes/", ".DS_Store"]

const configuration = `[core]
	repositoryformatversion = 0
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	autocrlf = false
	safecrlf = false
	fsmonitor = false
	untrackedCache = false
	hooksPath = /dev/null
	attributesFile = /dev/null
	excludesFile = /dev/null
	compression = 1
	fsync = none
[gc]
	auto = 0
[submodule]
	recurse = false
`
/** Overrides the attributes of the tree: no conversion, and no filter. */
const attributes = "* -text -eol -ident -filter -working-tree-encoding -crlf\n"

/** Maximum size of all states of a tree, in KiB. When it is exceeded, the states are removed. */
const maxKibibytes = 2 * 1024 * 1024
const chunkSize = 1_000
const decoder = new TextDecoder()
const maxOutput = 64 * 1024 * 1024
/** Age in milliseconds after which an index counts as abandoned by its program. */
const abandonedAfter = 24 * 60 * 60 * 1000

const splitOutput = (output: Uint8Array): ReadonlyArray<string> =>
  decoder
    .decode(output)
    .split("\0")
    .filter((part) => part !== "")

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
    const [hash = "", , size = ""] = decoder.decode(output.subarray(at, end === -1 ? output.length : end)).split(" ")
    const from = end + 1
    const to = from + Number(size)
    if (end === -1 || !(to <= output.length)) break
    found.set(hash, output.slice(from, to))
    at = to + 1
  }
  return found
}

/** Opens the states of a tree, and creates their directory if it is missing. */
export const open = Effect.fnUntraced(function* (
  { files, place, spawner }: TreeAccess,
  { apart, directory, isHidden, maxFileBytes, maxFiles, patience, tree }: Options
): Effect.fn.Return<ShadowRepository, GitFailed | PlatformError, Scope.Scope> {
  const index = `${directory}/index-${yield* Ids.makeHex(12)}`
  const env = {
    ...(place === "here" ? { PATH: yield* TrustedPrograms.safePath } : {}),
    LC_ALL: "C",
    GIT_DIR: directory,
    GIT_WORK_TREE: tree,
    GIT_INDEX_FILE: index,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_SYSTEM: "/dev/null",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_NO_LAZY_FETCH: "1",
    HOME: directory
  }

  /** Runs a program in the tree until it ends. Its output is cut at `most` bytes. */
  const runProgram = Effect.fnUntraced(function* (
    program: string,
    args: ReadonlyArray<string>,
    input: string | undefined,
    most = maxOutput,
    index?: string
  ) {
    // On another machine, git is looked up on that machine, whose programs are not protected from commands.
    const file = place === "here" ? yield* TrustedPrograms.find(program) : program
    const handle = yield* spawner.spawn(
      ChildProcess.make(file, args, {
        cwd: tree,
        env: index === undefined ? env : { ...env, GIT_INDEX_FILE: index, GIT_LITERAL_PATHSPECS: "1" },
        stdin: input === undefined ? "ignore" : Stream.encodeText(Stream.make(input)),
        killSignal: "SIGKILL"
      })
    )
    let length = 0
    const pieces: Array<Uint8Array> = []
    const collected = Stream.runForEachWhile(handle.stdout, (bytes) =>
      Effect.sync(() => {
        pieces.push(bytes)
        length += bytes.length
        return length < most
      })
    )
    const [, errors] = yield* Effect.all([collected, Stream.mkString(Stream.decodeText(handle.stderr))], {
      concurrency: 2
    })
    // Cut output is intended: the rest has no reader, and the program ends with the scope.
    const code = length < most ? Number(yield* handle.exitCode) : 0
    const output = new Uint8Array(length)
    let at = 0
    for (const piece of pieces) {
      output.set(piece, at)
      at += piece.length
    }
    return { code, errors, output, isCut: length >= most }
  }, Effect.scoped)

  const runGit = Effect.fnUntraced(function* (args: ReadonlyArray<string>, input?: string, most?: number) {
    const result = yield* runProgram("git", args, input, most)
    if (result.code !== 0)
      return yield* new GitFailed({ message: `git ${args[0] ?? ""}: ${result.errors.trim().split("\n").at(-1) ?? ""}` })
    return result
  })

  if (!(yield* files.exists(`${directory}/config`))) {
    yield* files.makeDirectory(`${directory}/info`, { recursive: true, mode: 0o700 })
    for (const name of ["objects", "refs"])
      yield* files.makeDirectory(`${directory}/${name}`, { recursive: true, mode: 0o700 })
    yield* files.writeFileString(`${directory}/HEAD`, "ref: refs/heads/none\n")
    yield* files.writeFileString(`${directory}/info/attributes`, attributes)
    yield* files.writeFileString(`${directory}/info/exclude`, `${alwaysIgnored.join("\n")}\n`)
    // Written last: a repository with a configuration is complete.
    yield* files.writeFileString(`${directory}/config`, configuration)
  }

  // Past states are not needed, because changed contents are also stored elsewhere.
  const counted = decoder.decode((yield* runProgram("git", ["count-objects", "-v"], undefined)).output)
  const kibibytes = ["size", "size-pack"].reduce(
    (sum, name) => sum + Number(new RegExp(`^${name}: (\\d+)$`, "m").exec(counted)?.[1] ?? 0),
    0
  )
  if (kibibytes > maxKibibytes) {
    for (const name of ["objects", "index"])
      yield* files.remove(`${directory}/${name}`, { recursive: true, force: true })
    yield* files.makeDirectory(`${directory}/objects`, { recursive: true, mode: 0o700 })
  }

  // The index of a killed program is removed. The newest abandoned index is reused, which avoids hashing all files
  // again.
  const now = yield* Clock.currentTimeMillis
  const readAge = (name: string) =>
    Effect.map(
      files.stat(`${directory}/${name}`),
      ({ mtime }) => now - Option.getOrElse(mtime, () => new Date(now)).getTime()
    )
  for (const name of (yield* files.readDirectory(directory)).filter((name) => name.startsWith("index-"))) {
    yield* Effect.ignore(
      Effect.flatMap(readAge(name), (age) =>
        age > abandonedAfter ? files.remove(`${directory}/${name}`, { force: true }) : Effect.void
      )
    )
  }
  yield* Effect.ignore(
    Effect.gen(function* () {
      const { atime, mtime } = yield* files.stat(`${directory}/index`)
      const at = Option.getOrElse(mtime, () => new Date(0))
      yield* files.copyFile(`${directory}/index`, index)
      // Git examines a file again if its modification time is as late as the time of the index.
      yield* files.utimes(
        index,
        Option.getOrElse(atime, () => at),
        at
      )
    })
  )
  yield* Effect.addFinalizer(() =>
    Effect.ignore(Effect.catch(files.rename(index, `${directory}/index`), () => files.remove(index, { force: true })))
  )

  const below = apart.flatMap((each) =>
    each.startsWith(`${tree}/`) ? [`--exclude=/${each.slice(tree.length + 1).replace(/[\\*?[\]!#]/g, "\\$&")}/`] : []
  )
  const ownExcludes = (yield* Effect.orElseSucceed(files.exists(`${tree}/.git/info/exclude`), () => false))
    ? [`--exclude-from=${tree}/.git/info/exclude`]
    : []

  /** Finds the large files of the tree, by path. */
  const findLarge = Effect.map(
    runProgram(
      "find",
      [
        ".",
        "(",
        "-name",
        ".git",
        "-o",
        "-name",
        "node_modules",
        ")",
        "-prune",
        "-o",
        "-type",
        "f",
        "-size",
        `+${Math.floor(maxFileBytes / 512)}`,
        "-print0"
      ],
      undefined
    ),
    ({ output }) => new Set(splitOutput(output).map((path) => path.slice(2)))
  )

  const readStamp = (path: string) =>
    Effect.map(files.stat(`${tree}/${path}`), ({ ino, mtime, size }) => ({
      size: Number(size),
      stamp: `${size} ${Option.getOrElse(mtime, () => new Date(0)).getTime()} ${Option.getOrElse(ino, () => 0)}`
    }))

  /** Adds files to the index. Returns the files that cannot be read. */
  const storePaths = (paths: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<string>, GitFailed | PlatformError> =>
    paths.length === 0
      ? Effect.succeed([])
      : Effect.flatMap(
          runProgram(
            "git",
            ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"],
            `${paths.join("\0")}\0`
          ),
          ({ code, errors }) => {
            if (code === 0) return Effect.succeed([])
            if (/index\.lock|index-\w+\.lock|No space left|Read-only/i.test(errors))
              return Effect.fail(new GitFailed({ message: errors.trim() }))
            if (paths.length === 1) return Effect.succeed(paths)
            const half = paths.length >> 1
            return Effect.zipWith(storePaths(paths.slice(0, half)), storePaths(paths.slice(half)), (some, more) => [
              ...some,
              ...more
            ])
          }
        )

  /** Returns the index of the user's repository. */
  const userIndex = Effect.gen(function* () {
    const pointer = yield* Effect.orElseSucceed(files.readFileString(`${tree}/.git`), () => "")
    return `${/^gitdir: (\/.+)$/m.exec(pointer)?.[1] ?? `${tree}/.git`}/index`
  })

  /**
   * Arguments of `git ls-files` for each listing. Changed files include tracked files that are ignored, because git
   * also changes them.
   */
  const listings: Readonly<Record<Listing, ReadonlyArray<ReadonlyArray<string>>>> = {
    changed: [["-m"], ["-c", "-i", "--exclude-standard"]],
    untracked: [["-o", "--directory", "--exclude-standard", ...ownExcludes]],
    ignored: [["-o", "--directory"]]
  }

  const listFiles: ShadowRepository["listed"] = (listing, directory) =>
    Effect.gen(function* () {
      const index = yield* userIndex
      const below = directory === tree ? "." : directory.slice(tree.length + 1)
      const results = yield* Effect.forEach(listings[listing], (args) =>
        runProgram("git", ["ls-files", "-z", ...args, "--", below], undefined, maxOutput, index)
      )
      return results.every(({ code, isCut }) => code === 0 && !isCut)
        ? [...new Set(results.flatMap(({ output }) => splitOutput(output)))]
        : undefined
    }).pipe(Effect.orElseSucceed(() => undefined))

  let last = ""
  let isWhole = true

  const state = Effect.gen(function* () {
    const started = yield* Clock.currentTimeMillis
    const listed = yield* runGit(
      ["ls-files", "-z", "-t", "-m", "-d", "-o", "--exclude-standard", ...below, ...ownExcludes],
      undefined,
      maxOutput
    )
    const entries = splitOutput(listed.output).map((line) => ({ tag: line[0], path: line.slice(2) }))
    if (listed.isCut || entries.length > maxFiles)
      return yield* new GitFailed({ message: `more than ${maxFiles} files` })
    const nested = entries.flatMap(({ path }) => (path.endsWith("/") ? [path] : []))
    const candidates = entries.filter(({ path }) => !path.endsWith("/") && !path.includes("\uFFFD") && !isHidden(path))
    const largePaths = candidates.some(({ tag }) => tag !== "R") ? yield* findLarge : new Set<string>()
    const large = new Map<string, { readonly stamp: string; readonly size: number }>()
    for (const path of new Set(candidates.flatMap(({ path }) => (largePaths.has(path) ? [path] : [])))) {
      const stamp = yield* Effect.option(readStamp(path))
      if (Option.isSome(stamp)) large.set(path, stamp.value)
    }
    const grown = candidates.flatMap(({ path, tag }) => (tag === "C" && large.has(path) ? [path] : []))
    if (grown.length > 0) yield* runGit(["update-index", "-z", "--force-remove", "--stdin"], `${grown.join("\0")}\0`)
    const changed = [...new Set(candidates.flatMap(({ path }) => (large.has(path) ? [] : [path])))]
    const unread: Array<string> = []
    isWhole = true
    for (const chunk of Arr.chunksOf(changed, chunkSize)) {
      if ((yield* Clock.currentTimeMillis) - started > patience) {
        isWhole = false
        break
      }
      unread.push(...(yield* storePaths(chunk)))
    }
    if (last === "" || changed.length > 0 || grown.length > 0)
      last = decoder.decode((yield* runGit(["write-tree"])).output).trim()
    return { id: last, large, unseen: [...nested, ...unread], isWhole } satisfies State
  })

  return {
    state,
    listed: listFiles,
    // Exit code 1 means that the path is not ignored, and 128 that git cannot determine it.
    isIgnored: (path) =>
      Effect.orElseSucceed(
        Effect.map(
          runProgram("git", ["check-ignore", "-q", "--no-index", "--", path], undefined),
          ({ code }) => code === 0
        ),
        () => false
      ),
    differences: (before, after) =>
      before === after
        ? Effect.succeed([])
        : Effect.map(runGit(["diff-tree", "-r", "-z", "--raw", "--no-renames", before, after]), ({ output }) =>
            parseDifferences(output)
          ),
    contents: (hashes, maxBytes) =>
      hashes.length === 0
        ? Effect.succeed(new Map())
        : Effect.map(runGit(["cat-file", "--batch"], `${hashes.join("\n")}\n`, maxBytes), ({ output }) =>
            parseContents(output)
          )
  }
})
