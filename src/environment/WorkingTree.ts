/**
 * The working tree that a directory belongs to: the repository that holds it, else the directory itself. A repository that holds
 * the user's whole home is none.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type { Rule } from "./SandboxRules.ts"

/** Finds working trees, each once. */
export interface WorkingTrees {
  /** Root of the working tree of an absolute directory. */
  readonly rootOf: (directory: string) => Effect.Effect<string>
}

/** Finds working trees below, beside or outside of the user's home. */
export const make = Effect.fnUntraced(function*(home: string | undefined): Effect.fn.Return<WorkingTrees, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const known = new Map<string, string>()
  const holdsHome = (directory: string): boolean => directory === home || (home ?? "").startsWith(`${directory}/`)

  const search = Effect.fnUntraced(function*(directory: string) {
    for (let at = directory; at !== path.dirname(at) && !holdsHome(at); at = path.dirname(at)) {
      // A directory that cannot be looked at is no repository of this user's.
      if (yield* Effect.orElseSucceed(fs.exists(path.join(at, ".git")), () => false)) return at
    }
    return directory
  })

  return {
    rootOf: (directory) => {
      const root = known.get(directory)
      return root === undefined ? Effect.tap(search(directory), (found) => Effect.sync(() => known.set(directory, found))) : Effect.succeed(root)
    }
  }
})

/** Directories of git's own files of a working tree. */
export interface GitFiles {
  /** Written by every commit. */
  readonly directories: ReadonlyArray<string>
  /** From which git runs commands. */
  readonly fixed: ReadonlyArray<string>
}

const pointer = /^gitdir: (\/.+)\n?$/

/**
 * The files of git for a working tree: its `.git` directory, or the repository that a linked working tree belongs to. A `.git` file
 * counts only where the repository names the tree too, so that a project cannot point at directories that are not its own.
 */
export const gitFiles = Effect.fnUntraced(function*(tree: string): Effect.fn.Return<GitFiles, PlatformError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const own = path.join(tree, ".git")
  const of = (directory: string, at: ReadonlyArray<string>): GitFiles => ({
    directories: [directory],
    fixed: [path.join(directory, "hooks"), path.join(directory, "config"), ...at]
  })
  const read = (file: string) => Effect.orElseSucceed(fs.readFileString(file), () => "")
  // Not followed: a link could make any directory a repository of this project.
  const kind = yield* Effect.map(fs.lstat(own), ({ type }) => type).pipe(
    // After any other error nothing is known of what has to be fixed.
    Effect.catchIf(({ reason: { _tag } }) => _tag === "NotFound", () => Effect.undefined)
  )
  if (kind === "Directory") return of(own, [])
  const linked = kind === "File" ? pointer.exec(yield* read(own))?.[1] : undefined
  if (linked === undefined) return { directories: [], fixed: kind === "File" ? [own] : [] }
  const repository = path.dirname(path.dirname(linked))
  const isLinked = path.basename(path.dirname(linked)) === "worktrees" && path.basename(repository) === ".git"
  const back = isLinked ? (yield* read(path.join(linked, "gitdir"))).trim() : ""
  return back === own ? of(repository, [own]) : { directories: [], fixed: [own] }
})

/** A rule at the real path of a file or a directory; none where nothing is there. */
export const ruleAt = Effect.fnUntraced(function*(allows: Rule["allows"], named: string): Effect.fn.Return<ReadonlyArray<Rule>, PlatformError, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.gen(function*() {
    const real = yield* fs.realPath(named)
    const { type } = yield* fs.stat(real)
    return [{ path: real, allows, isFile: type !== "Directory" }]
  }).pipe(
    // Not there, or not to be seen by this user and so by no command either. After any other error nothing runs: a hidden path would be seen.
    Effect.catchIf(({ reason: { _tag } }) => _tag === "NotFound" || _tag === "PermissionDenied", () => Effect.succeed([]))
  )
})

const isEnvironmentFile = (name: string): boolean => /^\.env(?:\.|$)/.test(name) && !/\.(?:example|sample|template|dist|defaults)$/.test(name)

/** Rules for a working tree and for what is fixed or hidden in it, for the files that exist now. */
export const rulesOf = Effect.fnUntraced(function*(
  tree: string,
  { hidesEnvFiles, policy }: { readonly policy: "read-only" | "workspace-write"; readonly hidesEnvFiles: boolean }
): Effect.fn.Return<ReadonlyArray<Rule>, PlatformError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const git = yield* gitFiles(tree)
  const hidden = hidesEnvFiles ? (yield* fs.readDirectory(tree)).filter(isEnvironmentFile) : []
  const lists = yield* Effect.all([
    Effect.forEach([tree, ...git.directories], (named) => ruleAt(policy === "read-only" ? "read" : "write", named)),
    Effect.forEach([...git.fixed, path.join(tree, ".hermes")], (named) => ruleAt("read", named)),
    Effect.forEach(hidden, (name) => ruleAt("nothing", path.join(tree, name)))
  ])
  return lists.flat(2)
})
