/**
 * Reads and writes small files in the home directory that may be lost without harm, or must be private. They are
 * replaced as a whole, and only their owner can access them.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"

/** A file in the home directory. */
interface HomeFile {
  readonly path: string
  /** Content of the file; `undefined` if it does not exist. */
  readonly read: Effect.Effect<string | undefined, PlatformError>
  readonly write: (text: string) => Effect.Effect<void, PlatformError>
  readonly remove: Effect.Effect<void, PlatformError>
}

/** Creates a handle for a file below the home directory. The file system is not accessed yet. */
export const make = (home: string, name: string): Effect.Effect<HomeFile, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const path = paths.join(home, name)
    return {
      path,
      read: Effect.catchIf(
        fs.readFileString(path),
        ({ reason }) => reason._tag === "NotFound",
        () => Effect.succeed(undefined)
      ),
      write: (text) =>
        Effect.gen(function* () {
          yield* fs.makeDirectory(paths.dirname(path), { recursive: true, mode: 0o700 })
          const draft = `${path}.${(yield* Random.nextIntBetween(0, 2 ** 32)).toString(16)}.tmp`
          yield* fs.writeFileString(draft, text, { mode: 0o600, flag: "wx" }).pipe(
            Effect.andThen(fs.rename(draft, path)),
            Effect.onError(() => Effect.ignore(fs.remove(draft, { force: true })))
          )
        }),
      remove: fs.remove(path, { force: true })
    }
  })

/** A value stored in a JSON file that may be lost without harm. */
export interface Memory<A> {
  /** Reads the value; it is the empty value if the file does not exist or cannot be read. */
  readonly load: Effect.Effect<A>
  /** Replaces the file. A write failure is only logged. */
  readonly save: (value: A) => Effect.Effect<void>
}

/**
 * Creates a {@link Memory} that is stored in a JSON file. Read and write failures are logged, either at debug level or
 * as a warning.
 */
export const makeMemory = <A>(
  home: string,
  name: string,
  schema: Schema.Codec<A, string>,
  empty: A,
  level: "debug" | "warning" = "debug"
): Effect.Effect<Memory<A>, never, FileSystem.FileSystem | Path.Path> =>
  Effect.map(make(home, name), ({ path, read, write }) => {
    const log = level === "debug" ? Effect.logDebug : Effect.logWarning
    const hint = level === "debug" ? "" : ", remove it"
    return {
      load: read.pipe(
        Effect.flatMap((text) =>
          text === undefined ? Effect.succeed(empty) : Schema.decodeUnknownEffect(schema)(text)
        ),
        Effect.catch((error) => Effect.as(log(`${path} is not used${hint}: ${error.message}`), empty))
      ),
      save: (value) =>
        Schema.encodeEffect(schema)(value).pipe(
          Effect.flatMap((text) => write(`${text}\n`)),
          Effect.catch((error) => log(`${path} cannot be written: ${error.message}`))
        )
    }
  })
