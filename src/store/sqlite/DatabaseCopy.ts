/**
 * Copies a database that SQLite cannot open. SQLite can open the copy, because it includes the pages of the log, is
 * padded to whole pages, and has a repaired header. The original is never written.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import { applicationId } from "../../base/platform/LeaseFile.ts"
import * as DatabaseBytes from "./DatabaseBytes.ts"

/** Number of bytes from the beginning of a file that are inspected. */
const sampleSize = 4_194_304

const empty = new Uint8Array(0)

const readAt = (file: FileSystem.File, at: number, size: number): Effect.Effect<Uint8Array, PlatformError> =>
  Effect.andThen(
    file.seek(BigInt(at), "start"),
    Effect.map(
      file.readAlloc(size),
      Option.getOrElse(() => empty)
    )
  )

const writeAt = (file: FileSystem.File, at: number, bytes: Uint8Array): Effect.Effect<void, PlatformError> =>
  Effect.andThen(file.seek(BigInt(at), "start"), file.writeAll(bytes))

/** Returns the size of a file, or 0 if it is missing. */
const readSize = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  return (yield* fs.exists(path)) ? Number((yield* fs.stat(path)).size) : 0
})

const readStart = (path: string, size: number) =>
  Effect.scoped(
    Effect.flatMap(FileSystem.FileSystem, (fs) =>
      Effect.flatMap(fs.open(path, { flag: "r" }), (file) => readAt(file, 0, size))
    )
  )

/** State of a database and of its log, determined without SQLite. */
export interface Inspection extends DatabaseBytes.FileState {
  readonly size: number
  /** True if the log is damaged. SQLite would silently ignore such a log. */
  readonly isLogDamaged: boolean
  readonly hasLog: boolean
}

/** Inspects the files of a database. */
export const inspect = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<Inspection, PlatformError, FileSystem.FileSystem> {
  const size = yield* readSize(path)
  const isPresent = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.exists(path))
  const logSize = yield* readSize(`${path}-wal`)
  const log =
    logSize === 0
      ? undefined
      : DatabaseBytes.readLogHeader(yield* readStart(`${path}-wal`, DatabaseBytes.logHeaderSize))
  const state = DatabaseBytes.inspectFile(size === 0 ? empty : yield* readStart(path, sampleSize), size)
  return {
    // The page size in the header of the log is certain. The page size found in the file may be a guess.
    pageSize:
      size === 0 || (state.problem !== undefined && log !== undefined)
        ? (log?.pageSize ?? state.pageSize)
        : state.pageSize,
    // A checkpoint interrupted by a crash leaves a file that is shorter than its header states. SQLite completes it
    // from the log.
    problem: !isPresent || (size > 0 && DatabaseBytes.isCutOff(state) && log !== undefined) ? undefined : state.problem,
    size,
    isLogDamaged: logSize > 0 && log === undefined,
    hasLog: log !== undefined
  }
})

/**
 * Writes the pages of the committed transactions in a log to the copy. Returns the number of pages in the database
 * after them.
 */
const applyLog = Effect.fnUntraced(function* (
  copy: FileSystem.File,
  log: FileSystem.File
): Effect.fn.Return<number, PlatformError> {
  const header = DatabaseBytes.readLogHeader(yield* readAt(log, 0, DatabaseBytes.logHeaderSize))
  if (header === undefined) return 0
  const frameSize = DatabaseBytes.frameHeaderSize + header.pageSize
  let checksum = header.checksum
  let pages = 0
  /** Pages of the current transaction, with their offsets in the log. */
  let pending: Array<{ readonly page: number; readonly at: number }> = []
  for (let at = DatabaseBytes.logHeaderSize; ; at += frameSize) {
    const frame = DatabaseBytes.readFrame(yield* readAt(log, at, frameSize), header, checksum)
    if (frame === undefined) return pages
    checksum = frame.checksum
    pending.push({ page: frame.page, at: at + DatabaseBytes.frameHeaderSize })
    if (frame.pagesAfter === 0) continue
    for (const { at, page } of pending)
      yield* writeAt(copy, (page - 1) * header.pageSize, yield* readAt(log, at, header.pageSize))
    pending = []
    pages = frame.pagesAfter
  }
})

/** Creates the copy at `target`. It is removed with the scope. */
export const make = Effect.fnUntraced(function* (
  path: string,
  target: string,
  { hasLog, pageSize, size }: Inspection
): Effect.fn.Return<void, PlatformError, FileSystem.FileSystem | Scope.Scope> {
  const fs = yield* FileSystem.FileSystem
  const remove = Effect.forEach(
    ["", "-wal", "-shm", "-journal"],
    (end) => fs.remove(`${target}${end}`, { force: true }),
    { discard: true }
  )
  yield* remove
  yield* Effect.addFinalizer(() => Effect.ignore(remove))
  yield* Effect.scoped(fs.open(target, { flag: "wx", mode: 0o600 }))
  yield* fs.copyFile(path, target)
  yield* fs.chmod(target, 0o600)
  yield* Effect.scoped(
    Effect.gen(function* () {
      const copy = yield* fs.open(target, { flag: "r+" })
      const logged = hasLog ? yield* applyLog(copy, yield* fs.open(`${path}-wal`, { flag: "r" })) : 0
      const before = yield* readAt(copy, 0, DatabaseBytes.headerSize)
      const view = new DataView(before.buffer, before.byteOffset, before.byteLength)
      // A truncated file is extended to the length in its header, if that is plausible, so that missing pages are
      // detected as missing.
      const named = DatabaseBytes.hasMagic(before) && before.length >= 32 ? view.getUint32(28) : 0
      const present = Math.ceil(Math.max(size, logged * pageSize) / pageSize)
      const pages = Math.max(present, logged, Math.min(named, present * 64))
      if (pages === 0) return
      yield* fs.truncate(target, pages * pageSize)
      yield* writeAt(copy, 0, DatabaseBytes.makeHeader(before, pageSize, pages, applicationId))
    })
  )
})
