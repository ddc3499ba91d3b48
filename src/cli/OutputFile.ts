/**
 * Files that a user asks for by `--output`.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { type Failure, unwritable } from "./Failure.ts"

/** Writes a file that only its owner may read. One that could not be written whole and was not there before is removed. */
export const write = Effect.fnUntraced(function*(
  path: string,
  content: string | Uint8Array
): Effect.fn.Return<void, Failure, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content
  const wasThere = yield* Effect.orElseSucceed(fs.exists(path), () => true)
  yield* fs.writeFile(path, bytes, { mode: 0o600 }).pipe(
    Effect.onError(() => wasThere ? Effect.void : Effect.ignore(fs.remove(path))),
    Effect.mapError(unwritable(path))
  )
})
