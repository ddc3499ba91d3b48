/**
 * Files as an edit finds them and as it leaves them, and putting a set of such changes in place: all of them, or none.
 *
 * **Details**
 *
 * Each file is written at once and read back. Before a file is touched it must still be as it was when the edit was
 * worked out. When one change fails, those before it are undone in reverse order; what could not be undone is named.
 * Commit is not interruptible: it takes milliseconds, and half of it is worth nothing.
 *
 * Source: `hermes-product.md` §2.3 (two-phase), case 34.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { stampOf } from "../file/FileState.ts"
import type { Stamp } from "../file/FileState.ts"
import * as FileContent from "../file/FileContent.ts"
import * as Problem from "../file/Problem.ts"
import type { Target } from "../file/Target.ts"
import * as Write from "../file/Write.ts"

type Files = FileSystem.FileSystem | Path.Path
type Failed = Problem.Problem | PlatformError

/** Bytes of a file that is edited at most: an edit works on the whole text. */
const maxBytes = 10 * 1024 * 1024

/** A file as it is found: its bytes, unless it is not there. */
export interface Found {
  readonly target: Target
  readonly bytes: Uint8Array | undefined
  readonly mode: number | undefined
  readonly stamp: Stamp | undefined
}

/** A file and what is to become of it: new bytes, or `undefined` to remove it. */
export interface Change {
  readonly found: Found
  readonly after: Uint8Array | undefined
  /** The mode that a new file gets. */
  readonly mode: number | undefined
}

/** The file at a target. Directories and devices are refused. */
export const find: (target: Target) => Effect.Effect<Found, Failed, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(target) {
    const fs = yield* FileSystem.FileSystem
    const info = yield* Effect.catchIf(
      fs.stat(target.real),
      (error) => error.reason._tag === "NotFound",
      () => Effect.undefined
    )
    if (info === undefined) return { target, bytes: undefined, mode: undefined, stamp: undefined }
    if (info.type !== "File") {
      return yield* Problem.fail(
        `${target.given} is ${info.type === "Directory" ? "a directory" : `not a regular file (${info.type})`}`
      )
    }
    const bytes = yield* FileContent.whole(target.real, target.given, maxBytes)
    return { target, bytes, mode: info.mode, stamp: stampOf(info) }
  }
)

const unchanged = Effect.fnUntraced(function*({ target, stamp }: Found) {
  const fs = yield* FileSystem.FileSystem
  const now = yield* fs.stat(target.real).pipe(
    Effect.map(stampOf),
    Effect.catchIf((error) => error.reason._tag === "NotFound", () => Effect.undefined)
  )
  if (now !== stamp) return yield* Problem.fail(`${target.given} was changed by somebody else while it was being edited`)
})

/** A change that is in place, and how to take it back. */
interface Done {
  readonly change: Change
  readonly stamp: Stamp | undefined
  readonly undo: Effect.Effect<void, Failed, Files>
}

const put = Effect.fnUntraced(function*(change: Change): Effect.fn.Return<Done, Failed, Files> {
  const fs = yield* FileSystem.FileSystem
  const { found: { bytes, mode, target }, after } = change
  yield* unchanged(change.found)
  const restore = bytes === undefined ? Effect.void : Effect.asVoid(Write.replace(target.real, bytes, mode))
  if (after === undefined) {
    yield* fs.remove(target.real)
    return { change, stamp: undefined, undo: restore }
  }
  const { directories, stamp } = yield* Write.replace(target.real, after, change.mode)
  const undo = bytes === undefined
    ? Effect.andThen(fs.remove(target.real), Write.removeDirectories(directories))
    : restore
  return { change, stamp, undo }
})

const messageOf = (error: Failed): string => Problem.toFailure(error).error

/** Takes changes back, the last one first. Answers the files that could not be restored. */
const undoAll = (done: ReadonlyArray<Done>): Effect.Effect<ReadonlyArray<string>, never, Files> =>
  Effect.map(
    Effect.forEach(done.toReversed(), ({ change, undo }) =>
      Effect.match(undo, {
        onSuccess: () => [],
        onFailure: (error) => [`${change.found.target.given} (${messageOf(error)})`]
      })),
    (failed) => failed.flat()
  )

/** Puts changes in place, in order, all or none. Answers the new stamp of each file; none for one that is gone. */
export const commit: (
  changes: ReadonlyArray<Change>
) => Effect.Effect<ReadonlyArray<{ readonly change: Change; readonly stamp: Stamp | undefined }>, Failed, Files> = Effect
  .fnUntraced(
    function*(changes) {
      const done: Array<Done> = []
      for (const change of changes) {
        const result = yield* Effect.result(put(change))
        if (result._tag === "Success") {
          done.push(result.success)
          continue
        }
        const left = yield* undoAll(done)
        const message = messageOf(result.failure)
        return yield* left.length === 0
          ? Problem.fail(`${message}. Nothing was changed.`)
          : Problem.fail(`${message}. These files could not be restored: ${left.join(", ")}`)
      }
      return done
    },
    Effect.uninterruptible
  )
