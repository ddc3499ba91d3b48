/**
 * Holds a file or a directory independently of its name: operations on the path of the handle apply to the original
 * file, even if the file is renamed or replaced meanwhile.
 *
 * **Details**
 *
 * The handle is a descriptor without read or write access (`O_PATH`), and its path is `/proc/self/fd/N`: the kernel
 * resolves it to the file of the descriptor, and `/proc/self/fd/N/name` to a name in that directory. Node does not
 * provide `openat(2)`, the usual function for this purpose. On macOS the path is `/.vol/DEVICE/INODE`, which refers to
 * a file by its number, and the descriptor (`O_EVTONLY`) prevents the reuse of the number.
 *
 * **Gotchas**
 *
 * Linux and macOS only. Not tested on macOS. There, files on a volume that does not support such paths are not found.
 */
import * as Effect from "effect/Effect"
import { type PlatformError, systemError, type SystemErrorTag } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import { type BigIntStats, close, constants, fstat, open, readlink, realpath, rmdir, stat } from "node:fs"
import { operatingSystem } from "./CurrentProcess.ts"

/** `O_PATH` of Linux, for which Node has no constant. */
const pathOnly = 0o10000000
/** `O_EVTONLY` of macOS, for which Node has no constant; `O_NONBLOCK` prevents waiting for the other end of a pipe. */
const eventsOnly = 0x8000 | constants.O_NONBLOCK

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

const runCallback = <A>(
  method: string,
  path: string,
  call: (done: (error: NodeJS.ErrnoException | null, value: A) => void) => void
): Effect.Effect<A, PlatformError> =>
  Effect.callback((resume) =>
    call((error, value) =>
      resume(
        error === null
          ? Effect.succeed(value)
          : Effect.fail(
              systemError({
                _tag: tags[error.code ?? ""] ?? "Unknown",
                module: "FileSystem",
                method,
                pathOrDescriptor: path,
                syscall: error.syscall,
                cause: error
              })
            )
      )
    )
  )

/** A held file or directory. */
export interface HeldFile {
  /** Path of the file while it is held. */
  readonly at: string
  /** Real path of the file at the time of opening. */
  readonly real: string
}

const openDescriptor = (path: string, flags: number): Effect.Effect<number, PlatformError, Scope.Scope> =>
  Effect.acquireRelease(
    runCallback<number>("open", path, (done) => open(path, flags, done)),
    (descriptor) =>
      Effect.ignore(runCallback<void>("close", path, (done) => close(descriptor, (error) => done(error ?? null))))
  )

type Hold = (flags: number) => (path: string) => Effect.Effect<HeldFile, PlatformError, Scope.Scope>

const holdByDescriptor: Hold = (flags) => (path) =>
  Effect.gen(function* () {
    const at = `/proc/self/fd/${yield* openDescriptor(path, pathOnly | flags)}`
    return { at, real: yield* runCallback<string>("readLink", path, (done) => readlink(at, done)) }
  })

const holdByNumber: Hold = (flags) => (path) =>
  Effect.gen(function* () {
    const descriptor = yield* openDescriptor(path, eventsOnly | flags)
    const held = yield* runCallback<BigIntStats>("stat", path, (done) => fstat(descriptor, { bigint: true }, done))
    const real = yield* runCallback<string>("realPath", path, (done) => realpath.native(path, done))
    const now = yield* runCallback<BigIntStats>("stat", path, (done) => stat(real, { bigint: true }, done))
    if (now.dev !== held.dev || now.ino !== held.ino)
      return yield* systemError({
        _tag: "Busy",
        module: "FileSystem",
        method: "open",
        pathOrDescriptor: path,
        description: "it was replaced in the meantime"
      })
    return { at: `/.vol/${held.dev}/${held.ino}`, real }
  })

const holdWith = operatingSystem === "darwin" ? holdByNumber : holdByDescriptor

/** Holds the file or directory at a path until the scope ends. Links are followed. */
export const hold = holdWith(0)

/** Holds the directory at a path until the scope ends. Fails if the path is a link. */
export const holdDirectory = holdWith(constants.O_NOFOLLOW | constants.O_DIRECTORY)

/** Removes an empty directory. Fails if the path is a link. */
export const removeEmptyDirectory = (path: string): Effect.Effect<void, PlatformError> =>
  runCallback<void>("remove", path, (done) => rmdir(path, (error) => done(error)))
