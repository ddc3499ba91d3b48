/**
 * The repository of git that stores the states of a working tree: its files, its size, its index and its runs.
 *
 * **Details**
 *
 * Settings of the user, of the system and of the tree have no effect: no hook, filter, monitor or conversion runs.
 * Several programs share the objects of a tree. Each program has a separate index, which the next program inherits.
 */
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

/** Reports that git failed or is not installed. */
export class GitFailed extends Schema.TaggedError<GitFailed>("hermes-effect/GitFailed")("GitFailed", {
  message: Schema.String
}) {}

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

const decoder = new TextDecoder()

/** Decodes the output of git. */
export const decodeOutput = (output: Uint8Array): string => decoder.decode(output)

const maxOutput = 64 * 1024 * 1024

/** Age in milliseconds after which an index counts as abandoned by its program. */
const abandonedAfter = 24 * 60 * 60 * 1000

export const splitOutput = (output: Uint8Array): ReadonlyArray<string> =>
  decoder
    .decode(output)
    .split("\0")
    .filter((part) => part !== "")

/** A repository of git that stores the states of a tree. */
export interface ShadowGit extends TreeAccess {
  /** Absolute real path of the tree. */
  readonly tree: string
  /** Directory of the repository. */
  readonly directory: string
  /** Index of this program. */
  readonly index: string
  /** Environment variables of git. */
  readonly env: Readonly<Record<string, string>>
}

/** Options of one run of a program. */
export interface RunOptions {
  /** Text for the standard input, which is empty otherwise. */
  readonly input?: string | undefined
  /** Maximum number of bytes of the output, which is cut there. */
  readonly most?: number | undefined
  /** An index that replaces the index of this program. Paths are literal, too. */
  readonly index?: string | undefined
}

/** Runs a program in the tree until it ends. */
export const runProgram = Effect.fnUntraced(function* (
  git: ShadowGit,
  program: string,
  args: ReadonlyArray<string>,
  { index, input, most = maxOutput }: RunOptions = {}
) {
  // On another machine, git is looked up on that machine, whose programs are not protected from commands.
  const file = git.place === "here" ? yield* TrustedPrograms.find(program) : program
  const handle = yield* git.spawner.spawn(
    ChildProcess.make(file, args, {
      cwd: git.tree,
      env: index === undefined ? git.env : { ...git.env, GIT_INDEX_FILE: index, GIT_LITERAL_PATHSPECS: "1" },
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

export const runGit = Effect.fnUntraced(function* (
  git: ShadowGit,
  args: ReadonlyArray<string>,
  input?: string,
  most?: number
) {
  const result = yield* runProgram(git, "git", args, { input, most })
  if (result.code !== 0)
    return yield* new GitFailed({ message: `git ${args[0] ?? ""}: ${result.errors.trim().split("\n").at(-1) ?? ""}` })
  return result
})

/** Creates the files of the repository if they are missing. */
const createFiles = Effect.fnUntraced(function* ({ files, directory }: ShadowGit) {
  if (yield* files.exists(`${directory}/config`)) return
  yield* files.makeDirectory(`${directory}/info`, { recursive: true, mode: 0o700 })
  for (const name of ["objects", "refs"])
    yield* files.makeDirectory(`${directory}/${name}`, { recursive: true, mode: 0o700 })
  yield* files.writeFileString(`${directory}/HEAD`, "ref: refs/heads/none\n")
  yield* files.writeFileString(`${directory}/info/attributes`, attributes)
  yield* files.writeFileString(`${directory}/info/exclude`, `${alwaysIgnored.join("\n")}\n`)
  // Written last: a repository with a configuration is complete.
  yield* files.writeFileString(`${directory}/config`, configuration)
})

/**
 * Removes the states if they have become too large. Past states are not needed, because changed contents are also
 * stored elsewhere.
 */
const limitSize = Effect.fnUntraced(function* (git: ShadowGit) {
  const { directory, files } = git
  const counted = decodeOutput((yield* runProgram(git, "git", ["count-objects", "-v"])).output)
  const kibibytes = ["size", "size-pack"].reduce(
    (sum, name) => sum + Number(new RegExp(`^${name}: (\\d+)$`, "m").exec(counted)?.[1] ?? 0),
    0
  )
  if (kibibytes <= maxKibibytes) return
  for (const name of ["objects", "index"]) yield* files.remove(`${directory}/${name}`, { recursive: true, force: true })
  yield* files.makeDirectory(`${directory}/objects`, { recursive: true, mode: 0o700 })
})

/** Removes the indexes of programs that were killed. */
const removeAbandonedIndexes = Effect.fnUntraced(function* ({ directory, files }: ShadowGit) {
  const now = yield* Clock.currentTimeMillis
  for (const name of (yield* files.readDirectory(directory)).filter((name) => name.startsWith("index-"))) {
    yield* Effect.ignore(
      Effect.flatMap(files.stat(`${directory}/${name}`), ({ mtime }) =>
        now - Option.getOrElse(mtime, () => new Date(now)).getTime() > abandonedAfter
          ? files.remove(`${directory}/${name}`, { force: true })
          : Effect.void
      )
    )
  }
})

/**
 * Copies the index that the last program left, which avoids hashing all files again. When the scope closes, the index
 * is left for the next program.
 */
const inheritIndex = Effect.fnUntraced(function* ({ directory, files, index }: ShadowGit) {
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
})

/** Opens the repository of a tree, and creates it if it is missing. */
export const openGit = Effect.fnUntraced(function* (
  access: TreeAccess,
  { directory, tree }: Pick<ShadowGit, "directory" | "tree">
): Effect.fn.Return<ShadowGit, PlatformError, Scope.Scope> {
  const index = `${directory}/index-${yield* Ids.makeHex(12)}`
  const git: ShadowGit = {
    files: access.files,
    place: access.place,
    spawner: access.spawner,
    tree,
    directory,
    index,
    env: {
      ...(access.place === "here" ? { PATH: yield* TrustedPrograms.safePath } : {}),
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
  }
  yield* createFiles(git)
  yield* limitSize(git)
  yield* removeAbandonedIndexes(git)
  yield* inheritIndex(git)
  return git
})
