/**
 * Finds the working tree of a directory: the repository or workspace that contains it, or else the directory itself. A
 * repository that contains the user's whole home directory is ignored.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { CurrentWorkspace, isInWorkspace } from "../base/domain/CallContext.ts"
import * as GitDirectory from "../base/platform/GitDirectory.ts"
import { isEnvironmentFile } from "./LaterFiles.ts"
import { type Rule, isWithin } from "./SandboxRules.ts"
import type { TreeScan } from "./TreeScan.ts"

/** Finds working trees, and caches the results. */
export interface WorkingTrees {
  /**
   * Returns the root of the working tree of an absolute directory. In the workspace of a tenant, a tree does not extend
   * beyond the workspace.
   */
  readonly findTreeRoot: (directory: string) => Effect.Effect<string>
}

/**
 * Name of a file that makes its directory a separate working tree, even inside a repository: the workspace of one run.
 */
export const ownTree = ".hermes-workspace"

/** Creates a finder of working trees, for directories below, next to or outside of the user's home directory. */
export const make = Effect.fnUntraced(function* (
  home: string | undefined
): Effect.fn.Return<WorkingTrees, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const known = new Map<string, string>()
  const hasHome = (directory: string): boolean => directory === home || (home ?? "").startsWith(`${directory}/`)

  const findRoot = Effect.fnUntraced(function* (directory: string) {
    for (let at = directory; at !== path.dirname(at) && !hasHome(at); at = path.dirname(at)) {
      // A directory that cannot be examined is not a repository of this user.
      const isRoot = Effect.flatMap(GitDirectory.isRepository(at), (found) =>
        found ? Effect.succeed(true) : fs.exists(path.join(at, ownTree))
      )
      if (yield* Effect.orElseSucceed(isRoot, () => false)) return at
    }
    return directory
  })

  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  return {
    findTreeRoot: (directory) => {
      const root = known.get(directory)
      const found =
        root === undefined
          ? Effect.tap(Effect.provideContext(findRoot(directory), services), (found) =>
              Effect.sync(() => known.set(directory, found))
            )
          : Effect.succeed(root)
      return Effect.flatMap(CurrentWorkspace, (workspace) =>
        workspace === undefined
          ? found
          : Effect.map(found, (tree) => (isInWorkspace(workspace, tree) ? tree : workspace.directory))
      )
    }
  }
})

/** Git's internal files and directories for a working tree. */
export interface GitFiles {
  /** Directories that every commit writes. */
  readonly directories: ReadonlyArray<string>
  /** Existing files and directories from which git runs commands. Missing ones cannot be protected. */
  readonly fixed: ReadonlyArray<string>
  /** Missing directories from which git would run commands if they were created. */
  readonly reserved: ReadonlyArray<string>
  /** Missing files that would redirect git to other directories, and that an independent repository never has. */
  readonly absent: ReadonlyArray<string>
}

const pointer = /^gitdir: (\/.+)\n?$/

/**
 * Returns git's files for a working tree: in its `.git` directory, or in the repository of a linked working tree. A
 * `.git` file is only accepted if the repository also names the tree, so that a project cannot refer to directories of
 * other projects.
 */
export const findGitFiles = Effect.fnUntraced(function* (
  tree: string
): Effect.fn.Return<GitFiles, PlatformError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const own = path.join(tree, ".git")
  /**
   * Lists git's files in a directory. A directory without a configuration is not a repository yet and is protected as a
   * whole.
   */
  const listGitFiles = Effect.fnUntraced(function* (
    directory: string,
    linked: string | undefined
  ): Effect.fn.Return<GitFiles, PlatformError> {
    if (!(yield* fs.exists(path.join(directory, "config"))))
      return { directories: [], fixed: linked === undefined ? [own] : [directory, own], reserved: [], absent: [] }
    return {
      directories: [directory, ...(linked === undefined ? [] : [linked])],
      fixed: [
        ...["config", "config.worktree", "modules", "worktrees"].map((name) => path.join(directory, name)),
        ...(linked === undefined
          ? []
          : [own, ...["commondir", "config.worktree", "gitdir"].map((name) => path.join(linked, name))])
      ],
      reserved: [path.join(directory, "hooks")],
      absent: [path.join(directory, "commondir")]
    }
  })
  const readOrEmpty = (file: string) => Effect.orElseSucceed(fs.readFileString(file), () => "")
  // Links are not followed: a link could make any directory a repository of this project.
  const kind = yield* Effect.map(fs.lstat(own), ({ type }) => type).pipe(
    // After any other error, the files to protect are unknown.
    Effect.catchIf(
      ({ reason: { _tag } }) => _tag === "NotFound",
      () => Effect.undefined
    )
  )
  const nothing: GitFiles = { directories: [], fixed: [], reserved: [own], absent: [] }
  if (kind === undefined) return nothing
  // Git ignores an empty `.git` directory.
  if (kind === "Directory")
    return (yield* fs.readDirectory(own)).length === 0 ? nothing : yield* listGitFiles(own, undefined)
  const linked = kind === "File" ? pointer.exec(yield* readOrEmpty(own))?.[1] : undefined
  const alone: GitFiles = { directories: [], fixed: kind === "File" ? [own] : [], reserved: [], absent: [] }
  if (linked === undefined) return alone
  const repository = path.dirname(path.dirname(linked))
  const isLinked = path.basename(path.dirname(linked)) === "worktrees" && path.basename(repository) === ".git"
  const back = isLinked ? (yield* readOrEmpty(path.join(linked, "gitdir"))).trim() : ""
  return back === own ? yield* listGitFiles(repository, linked) : alone
})

/** Returns a rule for the real path of a file or a directory. Empty if the path does not exist. */
export const findRuleAt = Effect.fnUntraced(function* (
  allows: Rule["allows"],
  named: string
): Effect.fn.Return<ReadonlyArray<Rule>, PlatformError, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.gen(function* () {
    const real = yield* fs.realPath(named)
    const { type } = yield* fs.stat(real)
    return [{ path: real, allows, isFile: type !== "Directory" }]
  }).pipe(
    // The path does not exist, or neither this user nor any command can see it. After any other error no command runs,
    // because a hidden path could be visible.
    Effect.catchIf(
      ({ reason: { _tag } }) => _tag === "NotFound" || _tag === "PermissionDenied",
      () => Effect.succeed([])
    )
  )
})

/**
 * Functions that return rules for paths that must not be created. An environment that cannot prevent their creation
 * only protects existing paths.
 */
interface Keeping {
  readonly reserved: (directory: string) => Effect.Effect<ReadonlyArray<Rule>, PlatformError, FileSystem.FileSystem>
  readonly absent: (file: string) => Effect.Effect<ReadonlyArray<Rule>, PlatformError, FileSystem.FileSystem>
}

const whatIsThere: Keeping = {
  reserved: (directory) => findRuleAt("read", directory),
  absent: (file) => findRuleAt("read", file)
}

/** Returns rules for files that other programs run later. Links to a place outside of the tree need no rule. */
const findLaterRules = Effect.fnUntraced(function* (tree: string, { laterPlaces }: Pick<TreeScan, "laterPlaces">) {
  const fs = yield* FileSystem.FileSystem
  const root = yield* Effect.orElseSucceed(fs.realPath(tree), () => tree)
  const rules = yield* Effect.forEach(laterPlaces, ({ path }) => findRuleAt("read", path))
  return rules
    .flat()
    .filter(({ path }) => path !== root && isWithin(path, root))
    .map((rule): Rule => ({ ...rule, keeps: "later" }))
})

/** Returns the rules for a working tree and for the protected and hidden files that currently exist in it. */
export const listRules = Effect.fnUntraced(function* (
  tree: string,
  {
    hidesEnvFiles,
    policy,
    scan
  }: {
    readonly policy: "read-only" | "workspace-write"
    readonly hidesEnvFiles: boolean
    /** Findings below the tree. Without them, only files in the root of the tree are protected. */
    readonly scan?: Pick<TreeScan, "environmentFiles" | "laterPlaces" | "repositories"> | undefined
  },
  { absent, reserved }: Keeping = whatIsThere
): Effect.fn.Return<ReadonlyArray<Rule>, PlatformError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const git = yield* findGitFiles(tree)
  const isRead = policy === "read-only"
  const inner = yield* Effect.forEach(isRead ? [] : (scan?.repositories ?? []), findGitFiles)
  const inRoot = Effect.map(fs.readDirectory(tree), (names) =>
    names.filter(isEnvironmentFile).map((name) => path.join(tree, name))
  )
  const hidden = !hidesEnvFiles ? [] : (scan?.environmentFiles ?? (yield* inRoot))
  const lists = yield* Effect.all([
    Effect.forEach([tree, ...git.directories], (named) => findRuleAt(isRead ? "read" : "write", named)),
    Effect.forEach(
      [git, ...inner].flatMap(({ fixed }) => fixed),
      (named) => findRuleAt("read", named)
    ),
    Effect.forEach([...[git, ...inner].flatMap((each) => each.reserved), path.join(tree, ".hermes")], reserved),
    Effect.forEach(
      [git, ...inner].flatMap((each) => each.absent),
      absent
    ),
    Effect.forEach(hidden, (named) => findRuleAt("nothing", named))
  ])
  return [...lists.flat(2), ...(isRead || scan === undefined ? [] : yield* findLaterRules(tree, scan))]
})
