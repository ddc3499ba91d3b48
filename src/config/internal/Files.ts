/**
 * Reading and replacing the files of the home directory.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schedule from "effect/Schedule"
import { ConfigError } from "../../domain/AgentError.ts"

const reasons: Readonly<Record<string, string>> = {
  PermissionDenied: "permission denied",
  BadResource: "it is not a file",
  NotFound: "no such file or directory"
}

/** The error of a path that the system refused. */
export const refused = (path: string, what: string) => (error: PlatformError): ConfigError =>
  new ConfigError({ path, message: `${path}: can not be ${what}: ${reasons[error.reason._tag] ?? error.message}` })

const isMissing = (error: PlatformError): boolean => error.reason._tag === "NotFound"

/** The text of a file, or none when there is no such file. */
export const read = (path: string): Effect.Effect<Option.Option<string>, ConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    fs.readFileString(path).pipe(
      Effect.map(Option.some),
      Effect.catchIf(isMissing, () => Effect.succeedNone),
      Effect.mapError(refused(path, "read"))
    ))

/** Somebody else wrote the file while we made ours. */
class Changed {
  readonly _tag = "Changed"
}

const encoder = new TextEncoder()

/** Puts a file in the place of another, whole or not at all, on disk before it is seen. Only the owner can read it. */
const replace = (path: string, text: string, expected: Option.Option<string>) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const directory = paths.dirname(path)
    const unnamed = yield* fs.makeTempDirectoryScoped({ directory, prefix: ".config-" })
    const draft = paths.join(unnamed, paths.basename(path))
    yield* Effect.scoped(Effect.flatMap(
      fs.open(draft, { flag: "wx", mode: 0o600 }),
      (file) => Effect.andThen(file.writeAll(encoder.encode(text)), file.sync)
    ))
    const now = yield* read(path)
    if (Option.getOrUndefined(now) !== Option.getOrUndefined(expected)) return yield* Effect.fail(new Changed())
    yield* fs.rename(draft, path)
  }).pipe(Effect.scoped)

/**
 * Changes a file: `change` makes the new text out of the old one. A file that somebody else changes meanwhile is read again,
 * so that no change is lost; a link is followed, so that a file that is kept elsewhere stays there.
 */
export const update = <A, E, R>(
  path: string,
  change: (text: string) => Effect.Effect<{ readonly text: string; readonly result: A }, E, R>
): Effect.Effect<A, E | ConfigError, R | FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const target = yield* Effect.orElseSucceed(fs.realPath(path), () => path)
    const before = yield* read(target)
    const { result, text } = yield* change(Option.getOrElse(before, () => ""))
    if (text !== Option.getOrUndefined(before)) {
      yield* replace(target, text, before).pipe(
        Effect.mapError((error) => error._tag === "PlatformError" ? refused(target, "written")(error) : error)
      )
    }
    return result
  }).pipe(
    Effect.retry({ while: (error) => error instanceof Changed, schedule: Schedule.spaced("20 millis"), times: 50 }),
    Effect.catchIf(
      (error): error is Changed => error instanceof Changed,
      () => Effect.fail(new ConfigError({ path, message: `${path}: somebody else keeps changing it: try again` }))
    )
  )
