/**
 * One writer at a time over all processes, by a file that only one of them can create.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as PlatformError from "effect/PlatformError"
import * as Schedule from "effect/Schedule"

/** A lock older than this was left behind by a process that died. */
const staleMillis = 10_000

const isTaken = (error: PlatformError.PlatformError): boolean => error.reason._tag === "AlreadyExists"

/** Runs an Effect while nobody else holds the lock; fails when somebody holds it for longer than ten seconds. */
export const withLock = <A, E, R>(
  path: string,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | PlatformError.PlatformError, R | FileSystem.FileSystem> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const removeStale = Effect.gen(function*() {
      const found = yield* Effect.option(fs.stat(path))
      const since = Option.flatMap(found, (info) => info.mtime)
      const now = yield* Clock.currentTimeMillis
      if (Option.isSome(since) && now - since.value.getTime() > staleMillis) yield* fs.remove(path, { force: true })
    })
    const acquire = fs.writeFileString(path, "", { flag: "wx" }).pipe(
      Effect.tapError((error) => isTaken(error) ? removeStale : Effect.void),
      Effect.retry({ while: isTaken, schedule: Schedule.spaced("50 millis"), times: 240 })
    )
    return yield* Effect.acquireUseRelease(
      acquire,
      () => effect,
      // What was done is done; a lock that stays is stale soon.
      () => Effect.catch(fs.remove(path, { force: true }), (error) => Effect.logWarning(error.message))
    )
  })
