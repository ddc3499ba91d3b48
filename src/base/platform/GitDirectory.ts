/** Detects a git repository in a folder. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"

/**
 * Tests whether a folder is the working tree of a repository, that is, `.git` is a file or a non-empty directory. Git
 * also ignores an empty `.git`, which a killed sandbox may leave.
 */
export const isRepository: (
  folder: string
) => Effect.Effect<boolean, PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(function* (folder) {
  const fs = yield* FileSystem.FileSystem
  const mark = (yield* Path.Path).join(folder, ".git")
  if (!(yield* fs.exists(mark))) return false
  return (yield* fs.stat(mark)).type !== "Directory" || (yield* fs.readDirectory(mark)).length > 0
})
