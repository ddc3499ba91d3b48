/**
 * Replacing the content of a file so that nobody ever sees half of it: written beside it, flushed, renamed over it, read
 * back.
 *
 * **Details**
 *
 * The mode of a replaced file is kept. Missing directories are made. What fails leaves the old file as it was and removes
 * what was begun, directories included.
 *
 * **Gotchas**
 *
 * The file becomes another inode: hard links to it keep the old content, and its owner becomes the user of this process.
 */
import * as Bytes from "effect/Bytes"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Ids from "../../../domain/Ids.ts"
import { stampOf } from "./FileState.ts"
import type { Stamp } from "./FileState.ts"
import * as Problem from "./Problem.ts"

type Files = FileSystem.FileSystem | Path.Path

/** Result of a write. */
export interface Written {
  readonly stamp: Stamp
  /** Directories that were made, outermost first. */
  readonly directories: ReadonlyArray<string>
}

/** Cleaning up what may be gone already: what matters is the error that is being handled, so this one is only logged. */
const discard = <R>(effect: Effect.Effect<void, PlatformError, R>): Effect.Effect<void, never, R> =>
  effect.pipe(Effect.catch((error) => Effect.logDebug("could not clean up", error)))

/** Removes directories that were made, innermost first, as far as they are empty. */
export const removeDirectories: (
  directories: ReadonlyArray<string>
) => Effect.Effect<void, never, FileSystem.FileSystem> = Effect.fnUntraced(function*(directories) {
  const fs = yield* FileSystem.FileSystem
  for (const directory of directories.toReversed()) {
    if ((yield* fs.readDirectory(directory)).length > 0) return
    yield* fs.remove(directory, { recursive: true })
  }
}, discard)

const makeParents = Effect.fnUntraced(function*(real: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const missing: Array<string> = []
  for (let at = path.dirname(real); !(yield* fs.exists(at)); at = path.dirname(at)) missing.unshift(at)
  if (missing.length > 0) {
    yield* Effect.onError(
      fs.makeDirectory(path.dirname(real), { recursive: true }),
      () => removeDirectories(missing)
    )
  }
  return missing
})

/** Makes `bytes` the content of the file at a real path. */
export const replace: (
  real: string,
  bytes: Uint8Array,
  mode: number | undefined
) => Effect.Effect<Written, Problem.Problem | PlatformError, Files> = Effect.fnUntraced(
  function*(real, bytes, mode) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directories = yield* makeParents(real)
    const temporary = path.join(path.dirname(real), `.${path.basename(real).slice(0, 200)}.${yield* Ids.hex(12)}.tmp`)
    const written = Effect.scoped(Effect.gen(function*() {
      const file = yield* fs.open(temporary, { flag: "wx" })
      if (mode !== undefined) yield* fs.chmod(temporary, mode & 0o7777)
      yield* file.writeAll(bytes)
      yield* file.sync
    }))
    yield* written.pipe(
      Effect.andThen(fs.rename(temporary, real)),
      Effect.onError(() => Effect.andThen(discard(fs.remove(temporary, { force: true })), removeDirectories(directories)))
    )
    if (!Bytes.Equivalence(yield* fs.readFile(real), bytes)) {
      return yield* Problem.fail(`${real} does not hold what was written: something else writes to it`)
    }
    return { stamp: stampOf(yield* fs.stat(real)), directories }
  }
)
