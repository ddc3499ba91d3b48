/**
 * The working tree that a directory belongs to: the repository that holds it, else the directory itself. A repository that holds
 * the user's whole home is none.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"

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
