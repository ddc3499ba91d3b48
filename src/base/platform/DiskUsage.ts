/**
 * Disk space: free space, the size of a directory, and the removal of files written since a given time.
 *
 * **Details**
 *
 * Directories are held while they are read (`HeldPath`), and links are not followed, so that a process cannot redirect
 * the measurement or the removal by renaming directories. Linux only.
 */
import * as Effect from "effect/Effect"
import type { Stats } from "node:fs"
import { chmod, lstat, readdir, rmdir, stat, statfs, unlink } from "node:fs/promises"
import { holdDirectory } from "./HeldPath.ts"

/**
 * Minimum number of bytes counted for a file or a directory, because a file system can run out of entries before it
 * runs out of bytes.
 */
const entryBytes = 4096

/** Maximum depth of nested directories that are read; each level holds a descriptor. */
const maxDepth = 256

/**
 * Returns the free space for ordinary users in the file system of a directory, in bytes. Each free file entry counts as
 * {@link entryBytes} more.
 */
export const readFreeBytes = (directory: string) =>
  Effect.map(
    Effect.tryPromise(() => statfs(directory)),
    ({ bavail, bsize, ffree }) => bavail * bsize + ffree * entryBytes
  )

const countBytes = ({ blocks }: Stats): number => Math.max(blocks * 512, entryBytes)

/** Disk space used by a directory. */
export interface TreeSize {
  readonly bytes: number
  /** False if a part of the directory could not be read and is not counted. */
  readonly isComplete: boolean
}

const listEntries = (directory: string) =>
  Effect.flatMap(
    Effect.tryPromise(() => readdir(directory)),
    (names) =>
      Effect.forEach(
        names,
        (name) =>
          Effect.tryPromise(() => lstat(`${directory}/${name}`)).pipe(
            Effect.map((stats) => ({ name, stats })),
            // An entry may be removed between the two calls.
            Effect.option
          ),
        { concurrency: 16 }
      )
  )

/** Measures a directory with everything below it; a file with several hard links counts once. */
export const measureTree = Effect.fnUntraced(function* (directory: string) {
  const counted = new Set<number>()
  let bytes = 0
  let isComplete = true
  const measureBelow = (path: string, depth: number): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { at } = yield* holdDirectory(path)
      for (const entry of yield* listEntries(at)) {
        if (entry._tag === "None") continue
        const { name, stats } = entry.value
        if (stats.nlink > 1 && !stats.isDirectory()) {
          if (counted.has(stats.ino)) continue
          counted.add(stats.ino)
        }
        bytes += countBytes(stats)
        if (!stats.isDirectory()) continue
        if (depth < maxDepth) yield* measureBelow(`${at}/${name}`, depth + 1)
        else isComplete = false
      }
    }).pipe(
      Effect.scoped,
      Effect.catch(() => Effect.sync(() => void (isComplete = false)))
    )
  yield* measureBelow(directory, 0)
  return { bytes, isComplete } satisfies TreeSize
})

/**
 * Measures the deleted files that the given processes still hold open. Processes whose descriptors cannot be read, such
 * as processes of other users, are ignored.
 */
export const measureUnnamedFiles = Effect.fnUntraced(function* (pids: ReadonlyArray<number>) {
  const sizes = new Map<string, number>()
  yield* Effect.forEach(
    pids,
    (pid) =>
      Effect.tryPromise(() => readdir(`/proc/${pid}/fd`)).pipe(
        Effect.flatMap((names) =>
          Effect.forEach(
            names,
            (name) =>
              Effect.tryPromise(() => stat(`/proc/${pid}/fd/${name}`)).pipe(
                Effect.map((stats) => {
                  if (stats.isFile() && stats.nlink === 0) sizes.set(`${stats.dev} ${stats.ino}`, countBytes(stats))
                }),
                // The file was closed meanwhile.
                Effect.ignore
              ),
            { concurrency: 16, discard: true }
          )
        ),
        // The process has ended meanwhile.
        Effect.ignore
      ),
    { concurrency: 4, discard: true }
  )
  return [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0)
})

/**
 * Removes the files below a directory that were created or changed since a time (in epoch milliseconds). Also removes
 * directories that were created since then and become empty. The directory itself and files that cannot be removed
 * remain.
 */
export const removeFilesSince = (directory: string, since: number): Effect.Effect<void> => {
  const removeBelow = (path: string, depth: number): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { at } = yield* holdDirectory(path)
      // A command may have removed the permission to list the directory.
      const entries = yield* Effect.catch(listEntries(at), () =>
        Effect.andThen(
          Effect.tryPromise(() => chmod(at, 0o700)),
          listEntries(at)
        )
      )
      yield* Effect.forEach(
        entries,
        Effect.fnUntraced(
          function* (entry) {
            if (entry._tag === "None") return
            const { name, stats } = entry.value
            const found = `${at}/${name}`
            if (!stats.isDirectory()) {
              if (stats.ctimeMs >= since) yield* Effect.tryPromise(() => unlink(found))
              return
            }
            if (depth < maxDepth) yield* removeBelow(found, depth + 1)
            if (stats.birthtimeMs >= since) yield* Effect.tryPromise(() => rmdir(found))
            // Failures for busy, non-empty or missing entries are ignored; the caller measures again.
          },
          (removal) => Effect.ignore(removal)
        ),
        { discard: true }
      )
    }).pipe(Effect.scoped, Effect.ignore)
  return removeBelow(directory, 0)
}
