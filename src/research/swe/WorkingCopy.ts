/**
 * The isolated workspace of a task: a copy of a directory, or of a repository at a commit. It provides a patch with all
 * changes made in the workspace, and is removed when its scope closes.
 *
 * **Details**
 *
 * A copy has two repositories. The repository inside the workspace is for the agent. It contains only the history up to
 * the base commit, without other branches, tags or later commits, so that the agent cannot find a solution in it. The
 * repository outside the workspace is used to make the patch from the file contents. The patch is therefore not
 * affected by commits, resets, a removed `.git`, or configuration inside the workspace.
 *
 * The patch contains new files, removed files, modes and binary contents in the format of `git apply`. It excludes
 * files ignored by `.gitignore`. Text that is not UTF-8 is written as binary.
 *
 * If a process is killed, its copies remain. {@link removeAbandoned} removes the copies of processes that no longer
 * exist.
 *
 * **Gotchas**
 *
 * A linked worktree (`git worktree`) would share refs and objects with the user's repository, which commands could then
 * modify. A copy takes as long as a checkout but shares nothing with the repository. Submodules remain empty, and LFS
 * files remain pointers.
 *
 * **Example** (Creating the patch for a new file)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as FileSystem from "effect/FileSystem"
 * import { WorkingCopy } from "hermes-effect/swe"
 *
 * const program = Effect.gen(function*() {
 *   const fs = yield* FileSystem.FileSystem
 *   const copy = yield* WorkingCopy.make({ _tag: "Empty" })
 *   yield* fs.writeFileString(`${copy.directory}/new.txt`, "hello\n")
 *   console.log(WorkingCopy.listPaths(yield* copy.patch).join())
 * })
 *
 * await Effect.runPromise(Effect.scoped(Effect.provide(program, NodeServices.layer)))
 * // => new.txt
 * ```
 *
 * Source: `hermes-product.md` §5.3 (the environment is always cleaned).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { getTemporaryDirectory } from "../../base/platform/CurrentProcess.ts"
import * as ProcessIdentity from "../../base/platform/ProcessIdentity.ts"
import * as GitCommand from "./GitCommand.ts"

/** Error raised when a workspace cannot be made or read. The message states the remedy. */
export class WorkspaceError extends Schema.TaggedError<WorkspaceError>("hermes-effect/runner/swe/WorkspaceError")(
  "WorkspaceError",
  { message: Schema.String }
) {}

/** Error raised when a patch does not apply to the files. */
export class PatchRejected extends Schema.TaggedError<PatchRejected>("hermes-effect/runner/swe/PatchRejected")(
  "PatchRejected",
  { message: Schema.String }
) {}

/** Source of a workspace's contents. */
export type Source =
  /** A commit of a repository, without uncommitted changes. */
  | { readonly _tag: "Commit"; readonly repository: string; readonly commit: string }
  /** A directory in its current state, including ignored files but without the entries named in `without`. */
  | { readonly _tag: "Directory"; readonly path: string; readonly without?: ReadonlyArray<string> }
  | { readonly _tag: "Empty" }

/** An isolated workspace. */
export interface WorkingCopy {
  /** Absolute path of the working directory. */
  readonly directory: string
  /** Patch with the changes since the workspace was made. Empty if nothing changed. */
  readonly patch: Effect.Effect<string, WorkspaceError, Needs>
  /** Applies a patch to the files. If the patch does not apply, no file is changed. */
  readonly apply: (patch: string) => Effect.Effect<void, PatchRejected | WorkspaceError, Needs>
  /** Restores the original contents of files. Files that did not exist originally are removed. */
  readonly restore: (paths: ReadonlyArray<string>) => Effect.Effect<void, WorkspaceError, Needs>
}

/** Services required to make workspaces. */
export type Needs = ChildProcessSpawner | FileSystem.FileSystem | Path.Path

const makeProblem = (message: string): WorkspaceError => new WorkspaceError({ message })

const toWorkspaceError = ({ message }: GitCommand.GitFailed | PlatformError): WorkspaceError => makeProblem(message)

const runGit = (args: ReadonlyArray<string>, cwd: string) =>
  Effect.mapError(GitCommand.readText(args, { cwd }), toWorkspaceError)

/**
 * Finds the repository that contains a directory, and the directory's path relative to the repository root. Returns
 * `undefined` outside a repository.
 */
export const findRepository = Effect.fnUntraced(function* (directory: string) {
  const found = yield* Effect.option(
    GitCommand.readText(["rev-parse", "--show-toplevel", "--show-prefix"], { cwd: directory })
  )
  if (found._tag === "None") return undefined
  const [root = directory, prefix = ""] = found.value.split("\n")
  return { root, prefix: prefix.replace(/\/$/, "") }
})

/** Returns true if the files of a repository differ from its last commit. */
export const hasUncommitted = (repository: string) =>
  Effect.map(runGit(["status", "--porcelain", "--untracked-files=normal"], repository), (status) => status !== "")

const isDirectory = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.match(fs.stat(path), { onFailure: () => false, onSuccess: ({ type }) => type === "Directory" })
})

/** Returns the full id of a commit in a repository. */
const resolveCommit = Effect.fnUntraced(function* (repository: string, commit: string) {
  if (!(yield* isDirectory(repository)))
    return yield* makeProblem(`the repository ${repository} does not exist: clone it there, or name its directory`)
  const refused = Effect.flatMap(findRepository(repository), (found) =>
    makeProblem(
      found === undefined
        ? `${repository} is not a git repository: name one, or leave out the commit`
        : `${repository} has no commit "${commit}": fetch it there, or correct base_commit`
    )
  )
  return yield* Effect.catch(
    GitCommand.readText(["rev-parse", "--verify", "--quiet", "--end-of-options", `${commit}^{commit}`], {
      cwd: repository
    }),
    () => refused
  )
})

/** Lets a repository use the objects of another repository without copying them. */
const borrowObjects = Effect.fnUntraced(function* (gitDirectory: string, repository: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const [objects = "", shallow = ""] = (yield* runGit(
    ["rev-parse", "--path-format=absolute", "--git-path", "objects", "--git-path", "shallow"],
    repository
  )).split("\n")
  yield* Effect.mapError(
    fs.writeFileString(paths.join(gitDirectory, "objects/info/alternates"), `${objects}\n`),
    toWorkspaceError
  )
  if (yield* Effect.mapError(fs.exists(shallow), toWorkspaceError))
    yield* Effect.mapError(fs.copyFile(shallow, paths.join(gitDirectory, "shallow")), toWorkspaceError)
})

/** Prefix for directory names of copies. */
const copyPrefix = "hermes-swe-"

/** File in a copy that identifies the process that made the copy. */
const ownerFile = "owner.json"

const Owner = Schema.fromJsonString(
  Schema.Struct({ machine: Schema.String, pid: Schema.Int, startTime: Schema.String })
)

/** Removes the copies of processes that no longer exist, and returns the number of removed copies. */
export const removeAbandoned = Effect.fn("WorkingCopy.removeAbandoned")(function* (
  directory: string = getTemporaryDirectory()
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const names = yield* Effect.orElseSucceed(fs.readDirectory(directory), () => [])
  const removed = yield* Effect.forEach(
    names.filter((name) => name.startsWith(copyPrefix)),
    Effect.fnUntraced(function* (name) {
      const path = paths.join(directory, name)
      // A copy whose owner file is missing or belongs to another user cannot be identified and is left unchanged.
      const owner = yield* Effect.option(
        Effect.flatMap(fs.readFileString(paths.join(path, ownerFile)), Schema.decodeEffect(Owner))
      )
      if (owner._tag === "None" || !ProcessIdentity.isDead(owner.value)) return false
      return yield* Effect.match(fs.remove(path, { recursive: true }), {
        onFailure: () => false,
        onSuccess: () => true
      })
    })
  )
  return removed.filter((one) => one).length
})

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** Directories of a copy. */
interface CopyPlace {
  /** Directory that contains the whole copy. It is removed when the scope closes. */
  readonly root: string
  /** The repository outside the workspace, from which the patch is made. */
  readonly outer: string
  /** The workspace directory. */
  readonly directory: string
}

/** Builds the git arguments for using the outer repository with the workspace. */
const buildGitArguments = ({ directory, outer }: CopyPlace, ...args: ReadonlyArray<string>) => [
  `--git-dir=${outer}`,
  `--work-tree=${directory}`,
  ...args
]

/**
 * Adds all files to the index. Exit code 1 means that some files could not be added, such as an unreadable file or a
 * nested repository without a commit. All other files are then added.
 */
const addFiles = (place: CopyPlace) =>
  GitCommand.readBytes(buildGitArguments(place, "add", "--all", "--ignore-errors"), { cwd: place.directory }).pipe(
    Effect.catch((error) =>
      error.code === 1
        ? Effect.logWarning(`a file is left out of the patch: ${error.message}`)
        : Effect.fail(toWorkspaceError(error))
    )
  )

/** Makes the directories of a copy and its outer repository. The owner file is written first, for `removeAbandoned`. */
const makePlace = Effect.fnUntraced(function* () {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const root = yield* Effect.mapError(
    fs.makeTempDirectoryScoped({ prefix: copyPrefix }).pipe(Effect.flatMap(fs.realPath)),
    toWorkspaceError
  )
  const place: CopyPlace = { root, outer: paths.join(root, "base.git"), directory: paths.join(root, "work") }
  yield* Effect.mapError(
    fs.writeFileString(paths.join(root, ownerFile), JSON.stringify(ProcessIdentity.getCurrentProcess())),
    toWorkspaceError
  )
  yield* Effect.mapError(fs.makeDirectory(place.directory), toWorkspaceError)
  yield* runGit(["init", "--quiet", "--bare", "--template=", place.outer], root)
  yield* Effect.mapError(fs.makeDirectory(paths.join(place.outer, "info"), { recursive: true }), toWorkspaceError)
  return place
})

/** Copies the files of a source directory into the workspace. */
const copySource = Effect.fnUntraced(function* (
  { directory }: CopyPlace,
  { path, without = [] }: Extract<Source, { readonly _tag: "Directory" }>
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  yield* Effect.mapError(GitCommand.copyDirectory(path, directory), toWorkspaceError)
  for (const name of [".git", ...without]) {
    yield* Effect.mapError(fs.remove(paths.join(directory, name), { recursive: true, force: true }), toWorkspaceError)
  }
})

/** Fills the two repositories of a copy. Returns the commit to which patches refer. */
const fillCopy = Effect.fnUntraced(function* (place: CopyPlace, source: Source, commit: string | undefined) {
  const { directory, outer, root } = place
  if (source._tag === "Commit") yield* borrowObjects(outer, source.repository)
  if (source._tag === "Directory") yield* copySource(place, source)
  if (commit === undefined) {
    yield* addFiles(place)
    yield* runGit(
      buildGitArguments(place, "commit", "--quiet", "--no-verify", "--allow-empty", "--message", "Start"),
      directory
    )
  }
  const start = commit ?? (yield* runGit(buildGitArguments(place, "rev-parse", "HEAD"), directory))
  yield* runGit(["init", "--quiet", "--template=", directory], root)
  yield* runGit(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", outer, start], directory)
  yield* runGit(["update-ref", "refs/heads/main", start], directory)
  yield* runGit(["reset", "--quiet", commit === undefined ? "--mixed" : "--hard", "main"], directory)
  yield* runGit(buildGitArguments(place, "read-tree", start), directory)
  return start
})

const diffArguments = [
  "diff",
  "--cached",
  "--binary",
  "--full-index",
  "--no-color",
  "--no-ext-diff",
  "--no-textconv",
  "--no-renames"
]

/** Returns the patch of the workspace since `start`. Files that are not UTF-8 are included as binary files. */
const readPatch = Effect.fnUntraced(function* (place: CopyPlace, start: string) {
  const { directory, outer } = place
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  if (!(yield* isDirectory(directory))) return yield* makeProblem("the workspace was removed: its changes are lost")
  yield* addFiles(place)
  const differences = Effect.mapError(
    GitCommand.readBytes(buildGitArguments(place, ...diffArguments, start), { cwd: directory }),
    toWorkspaceError
  )
  const text = Effect.flatMap(differences, (bytes) =>
    Effect.try({ try: () => utf8.decode(bytes), catch: () => makeProblem("the patch is not UTF-8") })
  )
  const attributes = paths.join(outer, "info/attributes")
  return yield* Effect.catch(text, () =>
    Effect.mapError(fs.writeFileString(attributes, "* -diff\n"), toWorkspaceError).pipe(
      Effect.andThen(text),
      Effect.ensuring(Effect.ignore(fs.remove(attributes)))
    )
  )
})

const applyPatch = (place: CopyPlace, patch: string) =>
  patch.trim() === ""
    ? Effect.void
    : GitCommand.readBytes(buildGitArguments(place, "apply", "--whitespace=nowarn", "-"), {
        cwd: place.directory,
        input: patch.endsWith("\n") ? patch : `${patch}\n`
      }).pipe(
        Effect.asVoid,
        Effect.mapError(
          ({ message }) =>
            new PatchRejected({
              message: `the patch does not apply: ${message.replace(/^git apply failed: (?:error: )?/, "")}`
            })
        )
      )

/** Restores files to their content in `start`. Files that did not exist in `start` are removed. */
const restoreFiles = Effect.fnUntraced(function* (place: CopyPlace, start: string, names: ReadonlyArray<string>) {
  const { directory } = place
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const listed = yield* runGit(buildGitArguments(place, "ls-tree", "-r", "--name-only", "-z", start), directory)
  const tracked = new Set(listed.split("\0"))
  for (const name of names) {
    // The name comes from a patch, so it may lead out of the workspace. Such a name is skipped.
    if (!paths.join(directory, name).startsWith(`${directory}${paths.sep}`)) continue
    if (tracked.has(name))
      yield* runGit(buildGitArguments(place, "checkout", start, "--", `:(literal)${name}`), directory)
    else
      yield* Effect.mapError(fs.remove(paths.join(directory, name), { recursive: true, force: true }), toWorkspaceError)
  }
})

/** Makes a workspace for the lifetime of the scope. */
export const make = Effect.fn("WorkingCopy.make")(function* (
  source: Source
): Effect.fn.Return<WorkingCopy, WorkspaceError, Needs | Scope.Scope> {
  const commit = source._tag === "Commit" ? yield* resolveCommit(source.repository, source.commit) : undefined
  if (source._tag === "Directory" && !(yield* isDirectory(source.path)))
    return yield* makeProblem(`the directory ${source.path} does not exist: name one that does`)
  const place = yield* makePlace()
  const start = yield* fillCopy(place, source, commit)
  const files = Context.make(FileSystem.FileSystem, yield* FileSystem.FileSystem).pipe(
    Context.add(Path.Path, yield* Path.Path)
  )
  return {
    directory: place.directory,
    patch: Effect.provideContext(readPatch(place, start), files),
    apply: (patch) => applyPatch(place, patch),
    restore: (names) => Effect.provideContext(restoreFiles(place, start, names), files)
  }
})

/** Returns the paths of the files that a patch changes. */
export const listPaths = (patch: string): ReadonlyArray<string> => {
  const named = Array.from(
    patch.matchAll(/^(?:---|\+\+\+) (?:"[ab]\/(.+)"|[ab]\/([^\t\n]+))/gm),
    ([, quoted, plain]) => quoted ?? plain ?? ""
  )
  return Array.from(new Set(named.filter((name) => name !== "")))
}
