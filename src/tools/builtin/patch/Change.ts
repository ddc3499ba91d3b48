/**
 * Contains files before and after an edit, and commits a set of such changes as a unit: all changes or none.
 *
 * **Details**
 *
 * Each file is written atomically and read back. A file must not have changed since the edit was computed. If one
 * change fails, the previous ones are undone in reverse order, and changes that cannot be undone are named. A commit
 * cannot be interrupted: it takes milliseconds, and a partial commit is useless.
 *
 * Source: `hermes-product.md` §2.3 (two-phase), case 34.
 */
import * as Bytes from "effect/Bytes"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Ids from "../../../base/domain/Ids.ts"
import { type Stamp, toStamp } from "../file/FileState.ts"
import * as FileContent from "../file/FileContent.ts"
import * as Problem from "../file/Problem.ts"
import type { Target } from "../file/Fence.ts"
import type { Lint } from "../file/FileToolDefinitions.ts"

// Replaces the content of a file atomically: writes a temporary file in the same directory, flushes it, renames it over
// the old one and reads it back.
//
// **Details**
//
// The mode of a replaced file is preserved. Missing directories are created. A failure leaves the old file unchanged
// and removes partial results, including directories.
//
// **Gotchas**
//
// The file gets a new inode: hard links to it keep the old content, and its owner becomes the user of this process.

type Files = FileSystem.FileSystem | Path.Path

/** Result of a write. */
interface WriteResult {
  readonly stamp: Stamp
  /** Created directories, outermost first. */
  readonly directories: ReadonlyArray<string>
}

/** Logs an error during cleanup. It must not replace the error that is being handled. */
const logCleanupError = <R>(effect: Effect.Effect<void, PlatformError, R>): Effect.Effect<void, never, R> =>
  effect.pipe(Effect.catch((error) => Effect.logDebug("could not clean up", error)))

/** Removes created directories that are empty, innermost first. */
const removeDirectories: (directories: ReadonlyArray<string>) => Effect.Effect<void, never, FileSystem.FileSystem> =
  Effect.fnUntraced(function* (directories) {
    const fs = yield* FileSystem.FileSystem
    for (const directory of directories.toReversed()) {
      if ((yield* fs.readDirectory(directory)).length > 0) return
      yield* fs.remove(directory, { recursive: true })
    }
  }, logCleanupError)

const makeParents = Effect.fnUntraced(function* (real: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const missing: Array<string> = []
  for (let at = path.dirname(real); !(yield* fs.exists(at)); at = path.dirname(at)) missing.unshift(at)
  if (missing.length > 0) {
    yield* Effect.onError(fs.makeDirectory(path.dirname(real), { recursive: true }), () => removeDirectories(missing))
  }
  return missing
})

/** Replaces the content of the file at a real path with `bytes`. */
export const replaceFile: (
  real: string,
  bytes: Uint8Array,
  mode: number | undefined
) => Effect.Effect<WriteResult, Problem.Problem | PlatformError, Files> = Effect.fnUntraced(
  function* (real, bytes, mode) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directories = yield* makeParents(real)
    const temporary = path.join(
      path.dirname(real),
      `.${path.basename(real).slice(0, 200)}.${yield* Ids.makeHex(12)}.tmp`
    )
    const written = Effect.scoped(
      Effect.gen(function* () {
        const file = yield* fs.open(temporary, { flag: "wx" })
        if (mode !== undefined) yield* fs.chmod(temporary, mode & 0o7777)
        yield* file.writeAll(bytes)
        yield* file.sync
      })
    )
    yield* written.pipe(
      Effect.andThen(fs.rename(temporary, real)),
      Effect.onError(() =>
        Effect.andThen(logCleanupError(fs.remove(temporary, { force: true })), removeDirectories(directories))
      )
    )
    if (!Bytes.Equivalence(yield* fs.readFile(real), bytes)) {
      return yield* Problem.fail(`${real} does not hold what was written: something else writes to it`)
    }
    return { stamp: toStamp(yield* fs.stat(real)), directories }
  }
)

type ChangeFailure = Problem.Problem | PlatformError

/** Maximum size of an edited file in bytes: an edit works on the whole text. */
const maxBytes = 10 * 1024 * 1024

/** A file before the edit: its bytes, or `undefined` if it does not exist. */
export interface FoundFile {
  readonly target: Target
  readonly bytes: Uint8Array | undefined
  readonly mode: number | undefined
  readonly stamp: Stamp | undefined
}

/** A file and its new bytes, or `undefined` to remove it. */
export interface Change {
  readonly found: FoundFile
  readonly after: Uint8Array | undefined
  /** Mode of a new file. */
  readonly mode: number | undefined
}

/** Returns the file info of a target; `undefined` if it does not exist. Fails for directories and devices. */
export const statFile: (
  target: Target
) => Effect.Effect<FileSystem.File.Info | undefined, ChangeFailure, FileSystem.FileSystem> = Effect.fnUntraced(
  function* ({ given, real }) {
    const fs = yield* FileSystem.FileSystem
    const info = yield* Effect.catchIf(
      fs.stat(real),
      (error) => error.reason._tag === "NotFound",
      () => Effect.undefined
    )
    return info === undefined || info.type === "File"
      ? info
      : yield* Problem.fail(
          `${given} is ${info.type === "Directory" ? "a directory" : `not a regular file (${info.type})`}`
        )
  }
)

/** Returns the file at a target. Fails for directories and devices. */
export const findFile: (target: Target) => Effect.Effect<FoundFile, ChangeFailure, FileSystem.FileSystem> =
  Effect.fnUntraced(function* (target) {
    const info = yield* statFile(target)
    if (info === undefined) return { target, bytes: undefined, mode: undefined, stamp: undefined }
    const bytes = yield* FileContent.readWhole(target.real, target.given, maxBytes)
    return { target, bytes, mode: info.mode, stamp: toStamp(info) }
  })

const checkUnchanged = Effect.fnUntraced(function* ({ target, stamp }: FoundFile) {
  const fs = yield* FileSystem.FileSystem
  const now = yield* fs.stat(target.real).pipe(
    Effect.map(toStamp),
    Effect.catchIf(
      (error) => error.reason._tag === "NotFound",
      () => Effect.undefined
    )
  )
  if (now !== stamp) return yield* Problem.fail(`${target.given} was changed externally while it was being edited`)
})

/** An applied change, and the effect that undoes it. */
interface AppliedChange {
  readonly change: Change
  readonly stamp: Stamp | undefined
  readonly undo: Effect.Effect<void, ChangeFailure, Files>
}

const applyChange = Effect.fnUntraced(function* (
  change: Change
): Effect.fn.Return<AppliedChange, ChangeFailure, Files> {
  const fs = yield* FileSystem.FileSystem
  const {
    found: { bytes, mode, target },
    after
  } = change
  yield* checkUnchanged(change.found)
  const restore = bytes === undefined ? Effect.void : Effect.asVoid(replaceFile(target.real, bytes, mode))
  if (after === undefined) {
    yield* fs.remove(target.real)
    return { change, stamp: undefined, undo: restore }
  }
  const { directories, stamp } = yield* replaceFile(target.real, after, change.mode)
  const undo = bytes === undefined ? Effect.andThen(fs.remove(target.real), removeDirectories(directories)) : restore
  return { change, stamp, undo }
})

const describeFailure = (error: ChangeFailure): string => Problem.toFailure(error).error

/** Undoes changes in reverse order. Returns the files that could not be restored. */
const undoAll = (done: ReadonlyArray<AppliedChange>): Effect.Effect<ReadonlyArray<string>, never, Files> =>
  Effect.map(
    Effect.forEach(done.toReversed(), ({ change, undo }) =>
      Effect.match(undo, {
        onSuccess: () => [],
        onFailure: (error) => [`${change.found.target.given} (${describeFailure(error)})`]
      })
    ),
    (failed) => failed.flat()
  )

/** Applies changes in order, all or none. Returns the new stamp of each file; `undefined` for a removed file. */
export const commit: (
  changes: ReadonlyArray<Change>
) => Effect.Effect<
  ReadonlyArray<{ readonly change: Change; readonly stamp: Stamp | undefined }>,
  ChangeFailure,
  Files
> = Effect.fnUntraced(function* (changes) {
  const done: Array<AppliedChange> = []
  for (const change of changes) {
    const result = yield* Effect.result(applyChange(change))
    if (result._tag === "Success") {
      done.push(result.success)
      continue
    }
    const left = yield* undoAll(done)
    const message = describeFailure(result.failure)
    return yield* left.length === 0
      ? Problem.fail(`${message}. Nothing was changed.`)
      : Problem.fail(`${message}. These files could not be restored: ${left.join(", ")}`)
  }
  return done
}, Effect.uninterruptible)

// Checks quickly whether a written JSON, YAML or TOML file still parses. Other files are not checked, and neither are
// JSON files that customarily contain comments. A YAML file may have several documents and custom tags.
//
// Source: `hermes-product.md` §2.3 (`lint`).

const maxCheckedChars = 1_000_000
const withComments =
  /(^|\/)(tsconfig[^/]*|jsconfig[^/]*|\.?oxlint[^/]*|\.eslintrc|devcontainer|settings|launch|tasks)\.json$/i

const makeLintError = (output: string): Lint => ({ status: "error", output: Problem.clip(output, 500) })

const checkJson = (text: string): Lint => {
  try {
    JSON.parse(text)
    return { status: "ok" }
  } catch (error) {
    return makeLintError(error instanceof Error ? error.message : String(error))
  }
}

/** Checks the syntax of a text. Returns `undefined` if files with this name are not checked. */
export const checkSyntax = (name: string, text: string): Effect.Effect<Lint | undefined> => {
  if (text.length > maxCheckedChars) return Effect.undefined
  const path = name.replaceAll("\\", "/").toLowerCase()
  if (path.endsWith(".json") && !withComments.test(path)) return Effect.sync(() => checkJson(text))
  if (path.endsWith(".yaml") || path.endsWith(".yml")) {
    return Effect.map(
      Effect.promise(() => import("yaml")),
      ({ parseAllDocuments }) => {
        const documents = parseAllDocuments(text, { logLevel: "error" })
        const [error] = Array.from(documents).flatMap(({ errors }) => errors)
        return error === undefined ? { status: "ok" } : makeLintError(error.message)
      }
    )
  }
  if (path.endsWith(".toml")) {
    return Effect.map(
      Effect.promise(() => import("effect/encoding/Toml")),
      (Toml) => {
        const parsed = Toml.parse(text)
        return parsed._tag === "Success" ? { status: "ok" } : makeLintError(parsed.failure.message)
      }
    )
  }
  return Effect.undefined
}
