/**
 * One writer at a time over all processes, by a file that only one of them can create.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type { PlatformError } from "effect/PlatformError"
import * as Schedule from "effect/Schedule"

/** A lock older than this was left behind by a process that died. */
const staleMillis = 10_000

const isTaken = (error: PlatformError): boolean => error.reason._tag === "AlreadyExists"

const removeStale = (fs: FileSystem.FileSystem, path: string): Effect.Effect<void, PlatformError> =>
  Effect.gen(function*() {
    const info = yield* Effect.option(fs.stat(path))
    const since = Option.flatMap(info, ({ mtime }) => mtime)
    const now = yield* Clock.currentTimeMillis
    if (Option.isSome(since) && now - since.value.getTime() > staleMillis) yield* fs.remove(path, { force: true })
  })

/** Runs an Effect while nobody else holds the lock; fails with `AlreadyExists` when somebody holds it too long. */
export const withLock = <A, E, R>(
  path: string,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | PlatformError, R | FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.acquireUseRelease(
      fs.writeFileString(path, "", { flag: "wx", mode: 0o600 }).pipe(
        Effect.tapError((error) => isTaken(error) ? removeStale(fs, path) : Effect.void),
        Effect.retry({ while: isTaken, schedule: Schedule.spaced("50 millis"), times: 240 })
      ),
      () => effect,
      // What was done is done; a lock that stays is stale soon.
      () => Effect.catch(fs.remove(path, { force: true }), (error) => Effect.logWarning(error.message))
    ))
