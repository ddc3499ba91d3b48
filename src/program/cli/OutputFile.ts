/** Writes files that a user requests with `--output`. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Random from "effect/Random"
import { type Failure, toUnwritableFailure } from "./Failure.ts"

/**
 * Returns the real path and the mode of the regular file at a path, following links; `undefined` if there is no such
 * file.
 */
const findRegularFile = Effect.fnUntraced(
  function* (path: string) {
    const fs = yield* FileSystem.FileSystem
    const target = yield* fs.realPath(path)
    const { mode, type } = yield* fs.stat(target)
    return type === "File" ? { target, mode: mode & 0o777 } : undefined
  },
  (effect) => Effect.orElseSucceed(effect, () => undefined)
)

/**
 * Writes a file that only its owner may read. An existing file retains its mode, and its content until the new content
 * is complete. An incomplete new file is removed.
 */
export const write = Effect.fnUntraced(function* (
  path: string,
  content: string | Uint8Array
): Effect.fn.Return<void, Failure, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content
  const wasThere = yield* Effect.orElseSucceed(fs.exists(path), () => true)
  const known = yield* findRegularFile(path)
  const direct = fs
    .writeFile(path, bytes, { mode: 0o600 })
    .pipe(Effect.onError(() => (wasThere ? Effect.void : Effect.ignore(fs.remove(path)))))
  if (known === undefined) return yield* Effect.mapError(direct, toUnwritableFailure(path))
  const beside = `${known.target}.${(yield* Random.nextInt).toString(36).slice(-8)}.draft`
  yield* fs.writeFile(beside, bytes, { flag: "wx", mode: known.mode }).pipe(
    Effect.andThen(fs.rename(beside, known.target)),
    Effect.onError(() => Effect.ignore(fs.remove(beside))),
    // In a directory of another user, a file may be writable although no file can be created beside it.
    Effect.catchIf(
      (error) => error.reason._tag === "PermissionDenied",
      () => direct
    ),
    Effect.mapError(toUnwritableFailure(path))
  )
})
