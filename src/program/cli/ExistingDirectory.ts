/** Finds the part of a path that exists, for checks that create nothing. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"

/** Returns the directory, or its nearest existing parent. */
export const findExistingDirectory = (path: string): Effect.Effect<string, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const parent = paths.dirname(path)
    const isThere = yield* Effect.orElseSucceed(fs.exists(path), () => false)
    return isThere || parent === path ? path : yield* findExistingDirectory(parent)
  })
