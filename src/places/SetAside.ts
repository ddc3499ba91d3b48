/**
 * Disables files that commands planted and that other programs would run later: each is renamed in its directory, so
 * that it has no effect but is not lost.
 *
 * **Details**
 *
 * The directory is held while the name in it changes, so that a process cannot redirect the operation by a link. A link
 * of the program that was there before is restored.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { type PlatformError, systemError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as HeldPath from "../base/platform/HeldPath.ts"
import { asideSuffix } from "./LaterFiles.ts"

/** A file or a directory that was renamed. */
export interface SetAside {
  /** Path of the file when it was created. */
  readonly path: string
  /** Current path of the file. */
  readonly now: string
}

const maxNames = 100

const makeReplacedError = (path: string): PlatformError =>
  systemError({
    _tag: "Busy",
    module: "FileSystem",
    method: "rename",
    pathOrDescriptor: path,
    description: "its directory was replaced in the meantime"
  })

/** Runs an operation in a held directory, if it is still the directory at its path. */
const workInDirectory = <A, R>(
  directory: string,
  work: (at: string) => Effect.Effect<A, PlatformError, R>
): Effect.Effect<A, PlatformError, Exclude<R, Scope.Scope>> =>
  Effect.scoped(
    Effect.flatMap(HeldPath.holdDirectory(directory), ({ at, real }): Effect.Effect<A, PlatformError, R> =>
      real === directory ? work(at) : Effect.fail(makeReplacedError(directory))
    )
  )

/** Runs an operation in a directory that its owner currently cannot write. */
const runWhileWritable = Effect.fnUntraced(function* <A, R>(
  directory: string,
  work: Effect.Effect<A, PlatformError, R>
) {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.catchIf(
    work,
    ({ reason }) => reason._tag === "PermissionDenied",
    Effect.fnUntraced(function* () {
      const { mode } = yield* fs.stat(directory)
      yield* fs.chmod(directory, (mode & 0o7777) | 0o300)
      return yield* Effect.ensuring(work, Effect.ignore(fs.chmod(directory, mode & 0o7777)))
    })
  )
})

/** Renames a planted file. `original` is the target of the program's link that the file replaced, if any. */
export const setAside = Effect.fnUntraced(function* (
  place: string,
  original?: string
): Effect.fn.Return<SetAside, PlatformError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const directory = path.dirname(place)
  const name = path.basename(place)
  return yield* workInDirectory(
    directory,
    Effect.fnUntraced(function* (at) {
      const names = Array.from(
        { length: maxNames },
        (_, number) => name + asideSuffix + (number === 0 ? "" : `-${number + 1}`)
      )
      const taken = new Set(yield* Effect.orElseSucceed(fs.readDirectory(at), () => []))
      const free = names.find((candidate) => !taken.has(candidate)) ?? `${name}${asideSuffix}`
      yield* runWhileWritable(at, fs.rename(path.join(at, name), path.join(at, free)))
      if (original !== undefined) yield* runWhileWritable(at, fs.symlink(original, path.join(at, name)))
      return { path: place, now: path.join(directory, free) }
    })
  )
})

/** Restores the name of a file, unless the name is now in use. */
export const putBack = Effect.fnUntraced(function* ({
  now,
  path: place
}: SetAside): Effect.fn.Return<void, PlatformError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  yield* workInDirectory(
    path.dirname(place),
    Effect.fnUntraced(function* (at) {
      const names = yield* fs.readDirectory(at)
      if (names.includes(path.basename(place))) {
        const error = {
          _tag: "AlreadyExists",
          module: "FileSystem",
          method: "rename",
          pathOrDescriptor: place
        } as const
        return yield* systemError(error)
      }
      yield* fs.rename(path.join(at, path.basename(now)), path.join(at, path.basename(place)))
    })
  )
})
