/**
 * Limit for the files of one conversation's commands in the temporary directories of their sandbox, which are
 * directories of this machine.
 *
 * **Details**
 *
 * A check costs one `statfs`. The directories are measured only if free space has decreased enough since the last
 * measurement that they can exceed the limit. Files that a command keeps open after their names were removed count too.
 * If several commands share the directories, the one that wrote most is ended, and the files written since it started
 * are removed.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Semaphore from "effect/Semaphore"
import { measureTree, measureUnnamedFiles, readFreeBytes, removeFilesSince } from "../base/platform/DiskUsage.ts"

/** A command that can write to the directories. */
export interface Writer {
  /** Milliseconds of the clock. */
  readonly startedAt: number
  /** Its processes, the first one included. */
  readonly processes: Effect.Effect<ReadonlyArray<number>>
}

/** Temporary directories of one conversation on one file system, with their last measurement. */
export interface TemporarySpace {
  readonly directories: ReadonlyArray<string>
  readonly writers: Set<Writer>
  /** Held from a look to the end of the command that it ends: until then the files are still there. */
  readonly lock: Semaphore.Semaphore
  /** Bytes that the last measure found. */
  used: number
  /** Most bytes that were free since then; undefined before the first look. */
  free: number | undefined
}

/** State of directories that are empty. */
export const makeSpace = (directories: ReadonlyArray<string>): TemporarySpace => ({
  directories,
  writers: new Set(),
  lock: Semaphore.makeUnsafe(1),
  used: 0,
  free: undefined
})

/** Part of the bound by which free space has to change before the directories are measured again. */
const stepPart = 1 / 16

const readFree = ({ directories: [first] }: TemporarySpace) =>
  first === undefined ? Effect.succeed(Infinity) : readFreeBytes(first)

/** Measures the directories. If one cannot be read, the whole decrease of free space counts. */
const measureSpace = Effect.fnUntraced(function* (space: TemporarySpace, free: number) {
  const sizes = yield* Effect.forEach(space.directories, measureTree)
  const pids = yield* Effect.forEach(space.writers, ({ processes }) => processes)
  const found = sizes.reduce((sum, { bytes }) => sum + bytes, yield* measureUnnamedFiles(pids.flat()))
  const expected = space.used + (space.free ?? free) - free
  space.used = sizes.every(({ isComplete }) => isComplete) ? found : Math.max(found, expected)
  space.free = free
})

/** Tests whether the directories hold more than some bytes; fails where the system does not tell. */
export const isOverBound = Effect.fnUntraced(function* (space: TemporarySpace, bound: number) {
  const free = yield* readFree(space)
  space.free = Math.max(space.free ?? free, free)
  const lost = space.free - free
  if (space.used + lost <= bound || (space.used <= bound && lost < bound * stepPart)) return false
  yield* measureSpace(space, free)
  return space.used > bound
})

/** Reads how many bytes a command has sent to disks. */
const readWritten = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, { processes }: Writer) {
  const texts = yield* Effect.forEach(
    yield* processes,
    (pid) =>
      // A process that has ended is counted by its parent.
      Effect.orElseSucceed(fs.readFileString(`/proc/${pid}/io`), () => ""),
    { concurrency: 4 }
  )
  return texts.reduce((sum, text) => sum + Number(/^write_bytes: (\d+)/m.exec(text)?.[1] ?? 0), 0)
})

/** Finds the command that wrote most; the last one that was started, where the system does not tell. */
export const findMainWriter = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, { writers }: TemporarySpace) {
  const [first, ...others] = writers
  if (others.length === 0) return first
  const counted = yield* Effect.forEach(writers, (writer) =>
    Effect.map(readWritten(fs, writer), (written) => ({ writer, written }))
  )
  return counted.sort((a, b) => b.written - a.written || b.writer.startedAt - a.writer.startedAt)[0]?.writer
})

/** Removes what was written since a moment; everything, where the directories are over the bound without it. */
export const clearSpace = Effect.fnUntraced(function* (space: TemporarySpace, bound: number, since: number) {
  for (const moment of [since, 0]) {
    yield* Effect.forEach(space.directories, (directory) => removeFilesSince(directory, moment), { discard: true })
    yield* measureSpace(space, yield* readFree(space))
    if (space.used <= bound) return
  }
})
