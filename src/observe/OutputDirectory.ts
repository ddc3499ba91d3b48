/** The directory of the files of exporters. */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"

/** Runs a write again, after making the directory, where that was not there. */
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
