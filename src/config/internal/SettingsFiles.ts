/**
 * Reads and replaces files of the home directory.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { ConfigError } from "../../domain/AgentError.ts"
import { reasonOf } from "../../domain/PathProblem.ts"
import * as Leases from "../../platform/Leases.ts"

/** The error of a path that the system refused. */
export const refused = (path: string, what: string) => (error: PlatformError): ConfigError =>
  new ConfigError({ path, message: `${path}: cannot be ${what}: ${reasonOf(error)}` })

const isMissing = (error: PlatformError): boolean => error.reason._tag === "NotFound"

/** The text of a file, or none when there is no such file. */
export const read = (path: string): Effect.Effect<Option.Option<string>, ConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    fs.readFileString(path).pipe(
      Effect.map(Option.some),
      Effect.catchIf(isMissing, () => Effect.succeedNone),
      Effect.mapError(refused(path, "read"))
    ))

const encoder = new TextEncoder()

/** Puts a file in the place of another, whole or not at all, on disk before it is seen. Only its owner can read it. */
const replace = (path: string, text: string): Effect.Effect<void, PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const drafts = yield* fs.makeTempDirectoryScoped({ directory: paths.dirname(path), prefix: ".draft-" })
    const draft = paths.join(drafts, paths.basename(path))
    yield* Effect.scoped(Effect.flatMap(
      fs.open(draft, { flag: "wx", mode: 0o600 }),
      (file) => Effect.andThen(file.writeAll(encoder.encode(text)), file.sync)
    ))
    yield* fs.rename(draft, path)
  }).pipe(Effect.scoped)

const leaseRefused = (path: string, error: Leases.LeaseTaken | Leases.LeaseFailed): ConfigError =>
  new ConfigError({
    path,
    message: error._tag === "LeaseTaken"
      ? `${path}: ${error.isOwn ? "this process" : `process ${error.pid}`} is changing it: try again`
      : `${path}: cannot be written: ${error.message}`
  })

/**
 * Changes a file: `change` makes the new text out of the old one. Writers of all processes that share `database` take turns,
 * so that no change is lost. A link is followed: a file that is kept elsewhere stays there.
 */
export const update = <A, R>(
  database: string,
  path: string,
  change: (text: string) => Effect.Effect<{ readonly text: string; readonly result: A }, ConfigError, R>
): Effect.Effect<A, ConfigError, R | FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const target = yield* Effect.orElseSucceed(fs.realPath(path), () => path)
    return yield* Leases.duringIn(database, target, (lease) =>
      Effect.gen(function*() {
        const before = Option.getOrElse(yield* read(target), () => "")
        const { result, text } = yield* change(before)
        if (text === before) return result
        if (!(yield* lease.isHeld)) {
          return yield* new ConfigError({ path: target, message: `${target}: another process took over while this one waited: try again` })
        }
        yield* Effect.mapError(replace(target, text), refused(target, "written"))
        return result
      })).pipe(
      Effect.mapError((error) => error._tag === "ConfigError" ? error : leaseRefused(target, error))
    )
  })
