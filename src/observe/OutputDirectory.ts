/** Writing to the output directory of an exporter. */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"

/** Performs a write. If it fails because the directory does not exist, creates the directory and repeats the write. */
export const writeInDirectory = <A>(
  fs: FileSystem.FileSystem,
  directory: string,
  write: Effect.Effect<A, PlatformError>
): Effect.Effect<A, PlatformError> =>
  Effect.catchIf(
    write,
    ({ reason }) => reason._tag === "NotFound",
    () => Effect.andThen(fs.makeDirectory(directory, { recursive: true, mode: 0o700 }), write)
  )
