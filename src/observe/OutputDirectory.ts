/** Writes to the output directory of an exporter. */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"

/** Runs a write. If the directory does not exist, creates it and runs the write again. */
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
