/** Reads the branch of a repository from its files, without starting git. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import { FolderBranch } from "../domain/FolderBranch.ts"

/** Maximum number of parent folders that are searched for a repository. */
const maxLevels = 64

/** Maximum size of a file of the repository that is read, in bytes. */
const mostBytes = 65_536

/** Maximum length of a branch in characters. Git refuses longer names, because a branch is a file. */
const maxLength = 255

/**
 * Returns the branch of the repository that contains a folder, or the abbreviated commit id if no branch is checked
 * out. Returns `undefined` outside a repository, and if its files cannot be read.
 */
export const readBranch = Effect.fnUntraced(function* (
  folder: string
): Effect.fn.Return<string | undefined, never, FileSystem.FileSystem | Path.Path> {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  // A pipe or a huge file in an unknown folder must not hold the session up.
  const readFile = (name: string) =>
    files.stat(name).pipe(
      Effect.flatMap(({ size, type }) =>
        type === "File" && Number(size) <= mostBytes ? files.readFileString(name) : Effect.succeed("")
      ),
      Effect.orElseSucceed(() => "")
    )
  let at = path.resolve(folder)
  for (let level = 0; level < maxLevels; level++) {
    const mark = path.join(at, ".git")
    // In a linked working tree, `.git` is a file that contains the path of the git directory.
    const linked = /^gitdir: (.+)$/m.exec(yield* readFile(mark))?.[1]
    const head = yield* readFile(path.join(linked === undefined ? mark : path.resolve(at, linked.trim()), "HEAD"))
    const branch = /^ref: refs\/heads\/(.+)$/m.exec(head)?.[1]?.trim().slice(0, maxLength)
    if (branch !== undefined) return branch
    if (head !== "") return /^[0-9a-f]{40}/.test(head) ? head.slice(0, 8) : undefined
    const above = path.dirname(at)
    if (above === at) return undefined
    at = above
  }
  return undefined
})

/** Sessions are stored with the branch of their folder. */
export const layer: Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> = Layer.effect(
  FolderBranch,
  Effect.map(
    Effect.context<FileSystem.FileSystem | Path.Path>(),
    (context) => (folder: string) => Effect.provideContext(readBranch(folder), context)
  )
)
