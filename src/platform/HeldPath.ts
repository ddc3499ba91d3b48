/**
 * Holds a file or a directory itself, and not its name: whatever is renamed or put in its place meanwhile, what is done at the
 * path of the handle is done to what was found.
 *
 * **Details**
 *
 * The handle is a descriptor that neither reads nor writes (`O_PATH`), and its path is `/proc/self/fd/N`: the kernel leads it to what
 * the descriptor stands for, and `/proc/self/fd/N/name` to a name in that directory. This is what `openat(2)` is for, which Node does
 * not have.
 *
 * **Gotchas**
 *
 * Linux only: other systems have no such paths for directories.
 */
import * as Effect from "effect/Effect"
import { type PlatformError, systemError, type SystemErrorTag } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import { close, constants, open, readlink, rmdir } from "node:fs"

/** `O_PATH` of Linux, which Node does not name. */
const pathOnly = 0o10000000

const tags: Readonly<Record<string, SystemErrorTag>> = {
  ENOENT: "NotFound",
  EACCES: "PermissionDenied",
  EPERM: "PermissionDenied",
  EEXIST: "AlreadyExists",
  EBUSY: "Busy",
  EISDIR: "BadResource",
  ENOTDIR: "BadResource",
  ELOOP: "BadResource"
}

const called = <A>(
  method: string,
  path: string,
  call: (done: (error: NodeJS.ErrnoException | null, value: A) => void) => void
): Effect.Effect<A, PlatformError> =>
  Effect.callback((resume) =>
    call((error, value) =>
      resume(error === null
        ? Effect.succeed(value)
        : Effect.fail(systemError({ _tag: tags[error.code ?? ""] ?? "Unknown", module: "FileSystem", method, pathOrDescriptor: path, syscall: error.syscall, cause: error }))))
  )

/** A file or a directory that is held. */
export interface Held {
  /** Path that leads to it while it is held. */
  readonly at: string
  /** Its real path at the moment of the opening. */
  readonly real: string
}

const holdWith = (flags: number) => (path: string): Effect.Effect<Held, PlatformError, Scope.Scope> =>
  Effect.gen(function*() {
    const descriptor = yield* Effect.acquireRelease(
      called<number>("open", path, (done) => open(path, pathOnly | flags, done)),
      (descriptor) => Effect.ignore(called<void>("close", path, (done) => close(descriptor, (error) => done(error ?? null))))
    )
    const at = `/proc/self/fd/${descriptor}`
    return { at, real: yield* called<string>("readLink", path, (done) => readlink(at, done)) }
  })

/** Holds what is at a path, links followed, until the scope ends. */
export const hold = holdWith(0)

/** Holds the directory at a path; fails where a link stands there. */
export const holdDirectory = holdWith(constants.O_NOFOLLOW | constants.O_DIRECTORY)

/** Removes an empty directory; a link in its place is not followed, and fails. */
export const removeEmptyDirectory = (path: string): Effect.Effect<void, PlatformError> =>
  called<void>("remove", path, (done) => rmdir(path, (error) => done(error)))
