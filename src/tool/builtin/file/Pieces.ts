/**
 * Reading a file piece by piece through one reused buffer, so that a file of any size costs the same memory.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import * as Problem from "./Problem.ts"

/** Bytes per piece. */
export const pieceSize = 64 * 1024

/**
 * Shows the bytes of a file to `visit`, in order, until it answers `false` or the file ends.
 *
 * **Gotchas**
 *
 * The array that `visit` gets is reused for the next piece.
 */
export const forEachPiece: (
  real: string,
  visit: (bytes: Uint8Array) => boolean
) => Effect.Effect<void, PlatformError, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(real, visit) {
    const fs = yield* FileSystem.FileSystem
    const file = yield* fs.open(real)
    const buffer = new Uint8Array(pieceSize)
    for (let size = yield* file.read(buffer); size > 0; size = yield* file.read(buffer)) {
      if (!visit(buffer.subarray(0, size))) return
    }
  },
  Effect.scoped
)

/** A file's bytes as a whole; refused beyond `max` bytes. */
export const whole: (
  real: string,
  given: string,
  max: number
) => Effect.Effect<Uint8Array, PlatformError | Problem.Problem, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(real, given, max) {
    const fs = yield* FileSystem.FileSystem
    const { size } = yield* fs.stat(real)
    return size > max
      ? yield* Problem.fail(`${given} has ${size} bytes, more than the ${max} that can be handled as a whole`, {
        hint: "Work on it with a command line tool in the terminal."
      })
      : yield* fs.readFile(real)
  }
)
