/**
 * Size limit for the files that the commands of one conversation create in the temporary directories of their sandbox.
 * These directories are on this machine.
 *
 * **Details**
 *
 * A check costs one `statfs`. The directories are measured only if free space has decreased so much since the last
 * measurement that they can exceed the limit. Files that a command holds open after their names were removed are also
 * counted. If several commands share the directories, the command that wrote most is ended, and the files written since
 * it started are removed.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Semaphore from "effect/Semaphore"
import { measureTree, measureUnnamedFiles, readFreeBytes, removeFilesSince } from "../base/platform/DiskUsage.ts"

/** A command that can write to the directories. */
export interface Writer {
  /** Start of the command, in milliseconds of the clock. */
  readonly startedAt: number
  /** Ids of its processes, including the first one. */
  readonly processes: Effect.Effect<ReadonlyArray<number>>
}

/** Temporary directories of one conversation on one file system, with their last measurement. */
export interface TemporarySpace {
  readonly directories: ReadonlyArray<string>
  readonly writers: Set<Writer>
  /** Held from a check until the end of the command that the check stops, because the files exist until then. */
  readonly lock: Semaphore.Semaphore
  /** Number of bytes found by the last measurement. */
  used: number
  /** Largest number of free bytes since then, `undefined` before the first check. */
  free: number | undefined
}

/** Creates the state of empty directories. */
export const makeSpace = (directories: ReadonlyArray<string>): TemporarySpace => ({
  directories,
  writers: new Set(),
  lock: Semaphore.makeUnsafe(1),
  used: 0,
  free: undefined
})

/** Share of the limit by which free space has to change before the directories are measured again. */
const stepPart = 1 / 16

const readFree = ({ directories: [first] }: TemporarySpace) =>
  first === undefined ? Effect.succeed(Infinity) : readFreeBytes(first)

/** Measures the directories. If a directory cannot be read, the whole decrease of free space is used. */
const measureSpace = Effect.fnUntraced(function* (space: TemporarySpace, free: number) {
  const sizes = yield* Effect.forEach(space.directories, measureTree)
  const pids = yield* Effect.forEach(space.writers, ({ processes }) => processes)
  const found = sizes.reduce((sum, { bytes }) => sum + bytes, yield* measureUnnamedFiles(pids.flat()))
  const expected = space.used + (space.free ?? free) - free
  space.used = sizes.every(({ isComplete }) => isComplete) ? found : Math.max(found, expected)
  space.free = free
})

/**
 * Tests whether the directories contain more bytes than the limit. Fails if the system cannot report the free space.
 */
export const isOverBound = Effect.fnUntraced(function* (space: TemporarySpace, bound: number) {
  const free = yield* readFree(space)
  space.free = Math.max(space.free ?? free, free)
  const lost = space.free - free
  if (space.used + lost <= bound || (space.used <= bound && lost < bound * stepPart)) return false
  yield* measureSpace(space, free)
  return space.used > bound
})

/** Reads the number of bytes that a command has written to disks. */
const readWritten = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, { processes }: Writer) {
  const texts = yield* Effect.forEach(
    yield* processes,
    (pid) =>
      // The parent of a process that has ended includes its bytes.
      Effect.orElseSucceed(fs.readFileString(`/proc/${pid}/io`), () => ""),
    { concurrency: 4 }
  )
  return texts.reduce((sum, text) => sum + Number(/^write_bytes: (\d+)/m.exec(text)?.[1] ?? 0), 0)
})

/**
 * Finds the command that wrote most, or the command that was started last if the system does not report written bytes.
 */
export const findMainWriter = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, { writers }: TemporarySpace) {
  const [first, ...others] = writers
  if (others.length === 0) return first
  const counted = yield* Effect.forEach(writers, (writer) =>
    Effect.map(readWritten(fs, writer), (written) => ({ writer, written }))
  )
  return counted.sort((a, b) => b.written - a.written || b.writer.startedAt - a.writer.startedAt)[0]?.writer
})

/** Removes the files written since a time, or all files if the directories would still exceed the limit. */
export const clearSpace = Effect.fnUntraced(function* (space: TemporarySpace, bound: number, since: number) {
  for (const moment of [since, 0]) {
    yield* Effect.forEach(space.directories, (directory) => removeFilesSince(directory, moment), { discard: true })
    yield* measureSpace(space, yield* readFree(space))
    if (space.used <= bound) return
  }
})
