/**
 * Writes a stream of events to a file as they occur: one event per line, in order, and only whole lines.
 *
 * **Details**
 *
 * - The caller adds events without waiting; one fiber writes them to disk, at most once every 20 ms. When the disk is
 *   slower than the run, the run waits once {@link capacity} events are pending.
 * - `append` adds to an existing file, after a line feed if its last line is incomplete; `overwrite` starts an empty
 *   file at the first event. Without events there is no file.
 * - With `maxBytes`, a full file is renamed to `<name>.1`, the previous one to `<name>.2`, and so on. `maxFiles` full
 *   files are retained.
 * - An unwritable directory and a full disk each log one warning; writing is retried with later events.
 *
 * **Gotchas**
 *
 * Several programs may append to one file: lines are never interleaved, and each program notices when another one
 * rotates the file. Only one program should use `overwrite`.
 *
 * Source: `relay-atof-atif.md` §1.5 and §1.7, `hermes-contract.md` §4.2.
 */
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Atof from "./Atof.ts"
import * as GrowingBytes from "./GrowingBytes.ts"
import { sliceChars } from "./EntrySlices.ts"
import { writeInDirectory } from "./OutputDirectory.ts"
import { FlushDeadline } from "./TraceSettings.ts"

/** Maximum number of events that wait to be written. */
const capacity = 4096

/** Pause between two writes. Events that arrive during a pause are written together. */
const pause = Duration.millis(20)

/** Path, mode and rotation of the file. */
export interface Options {
  readonly directory: string
  readonly filename: string
  readonly mode: "append" | "overwrite"
  /** Maximum size of a file in bytes, after which the next file begins. `undefined` if there is no limit. */
  readonly maxBytes?: number | undefined
  /** Number of full files to retain. The default is 5. */
  readonly maxFiles?: number | undefined
}

/** Takes events for the file. A single fiber writes them. */
interface Writer {
  readonly write: (events: ReadonlyArray<Atof.Event>) => Effect.Effect<void>
}

const lineFeed = 10

/** Creates the functions that access the file of a writer. */
const makeFile = (options: Options, fs: FileSystem.FileSystem, paths: Path.Path) => {
  const path = paths.join(options.directory, options.filename)
  const { maxBytes = Number.POSITIVE_INFINITY, maxFiles = 5 } = options
  let size = 0
  let isOpen = false
  let isBroken = false

  /** Tests whether the last line of the existing file lacks its line feed. */
  const hasUnfinishedLine = Effect.fnUntraced(function* (length: number) {
    const file = yield* fs.open(path, { flag: "r" })
    yield* file.seek(BigInt(length - 1), "start")
    const last = yield* file.readAlloc(1)
    return Option.isSome(last) && last.value[0] !== lineFeed
  }, Effect.scoped)

  const open = Effect.gen(function* () {
    if (options.mode === "overwrite")
      yield* writeInDirectory(fs, options.directory, fs.writeFile(path, new Uint8Array(), { mode: 0o600 }))
    else {
      size = yield* fs.stat(path).pipe(
        Effect.map((found) => Number(found.size)),
        Effect.catchIf(
          ({ reason }) => reason._tag === "NotFound",
          () => Effect.succeed(0)
        )
      )
      isBroken = size > 0 && (yield* hasUnfinishedLine(size))
    }
    isOpen = true
  })

  const formatRotatedPath = (n: number): string => (n === 0 ? path : `${path}.${n}`)
  const rotate = Effect.gen(function* () {
    for (let n = maxFiles - 1; n >= 0; n--) {
      if (yield* fs.exists(formatRotatedPath(n))) yield* fs.rename(formatRotatedPath(n), formatRotatedPath(n + 1))
    }
    if (maxFiles <= 0) yield* fs.remove(path, { force: true })
    size = 0
    isBroken = false
  })

  /** Appends whole lines. If a failed write left a partial line, a line feed is written first. */
  const append = (lines: Uint8Array): Effect.Effect<void, PlatformError> =>
    Effect.gen(function* () {
      if (!isOpen) yield* open
      const bytes = isBroken ? new Uint8Array(lines.length + 1) : lines
      if (isBroken) {
        bytes[0] = lineFeed
        bytes.set(lines, 1)
      }
      if (size > 0 && size + bytes.length > maxBytes) {
        yield* rotate
        return yield* append(lines)
      }
      yield* writeInDirectory(fs, options.directory, fs.writeFile(path, bytes, { flag: "a", mode: 0o600 })).pipe(
        Effect.tapError(() =>
          Effect.sync(() => {
            isBroken = true
          })
        )
      )
      isBroken = false
      size += bytes.length
    })

  return { path, append }
}

/**
 * Groups lines so that each group fits into a file of `maxBytes`. A burst of events is thus distributed over files in
 * the same way as single events. Lines and groups are given by their end offsets.
 */
const groupLines = (ends: ReadonlyArray<number>, maxBytes = Number.POSITIVE_INFINITY): ReadonlyArray<number> => {
  const out: Array<number> = []
  for (const end of ends) {
    if (out.length > 0 && end - (out.at(-2) ?? 0) <= maxBytes) out[out.length - 1] = end
    else out.push(end)
  }
  return out
}

/**
 * Opens a writer that is closed with the scope. After closing, all events are on disk, or a warning reports that they
 * are not.
 */
export const make = (options: Options): Effect.Effect<Writer, never, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function* () {
    const file = makeFile(options, yield* FileSystem.FileSystem, yield* Path.Path)
    const deadline = yield* FlushDeadline
    const queue = yield* Queue.make<ReadonlyArray<Atof.Event>, Cause.Done>({ capacity })
    const told = new Set<string>()
    const warnOnce = (message: string): Effect.Effect<void> => {
      if (told.has(message)) return Effect.void
      told.add(message)
      return Effect.logWarning(message)
    }
    /** Lines of the current write. The fiber performs one write at a time. */
    const lines = GrowingBytes.make()
    const drain = Effect.gen(function* () {
      const batches = yield* Queue.takeAll(queue)
      const ends: Array<number> = []
      lines.clear()
      const written: Array<Atof.Parts> = []
      let size = 0
      let sliceEnd = sliceChars
      for (const event of batches.flat()) {
        if (size > sliceEnd) {
          yield* Effect.yieldNow
          sliceEnd = size + sliceChars
        }
        const line = Atof.encodeParts(event)
        if (Result.isSuccess(line)) {
          written.push(line.success)
          for (const { length } of line.success) size += length
        } else yield* warnOnce(`an event was not written: ${line.failure.message}`)
      }
      lines.reserve(size)
      for (const line of written) {
        for (const part of line) lines.add(part)
        lines.add("\n")
        ends.push(lines.length())
      }
      let from = 0
      for (const to of groupLines(ends, options.maxBytes)) {
        yield* Effect.catch(file.append(lines.slice(from, to)), (error) =>
          warnOnce(
            `ATOF events cannot be written to ${file.path}: ${error.message}: ` +
              `choose another directory or free some space`
          )
        )
        from = to
      }
    })
    const ending = yield* Deferred.make<void>()
    const paused = Effect.raceFirst(Effect.sleep(pause), Deferred.await(ending))
    // Ending the queue stops the fiber.
    const worker = yield* Effect.forkScoped(
      Effect.catchTag(Effect.forever(Effect.andThen(drain, paused)), "Done", () => Effect.void)
    )
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => Queue.endUnsafe(queue)).pipe(
        Effect.andThen(Deferred.succeed(ending, undefined)),
        Effect.andThen(Effect.timeoutOption(Fiber.await(worker), deadline)),
        Effect.flatMap((done) =>
          Option.isSome(done) ? Effect.void : warnOnce(`some ATOF events were not written to ${file.path}`)
        )
      )
    )
    return { write: (events) => (events.length === 0 ? Effect.void : Effect.asVoid(Queue.offer(queue, events))) }
  })
