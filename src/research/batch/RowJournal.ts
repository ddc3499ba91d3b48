/**
 * Stores the results of rows durably: one JSON line for each finished or discarded row, and records of all attempts.
 *
 * **Details**
 *
 * A result line contains `row_id`, `row_digest` and the fields of the result. The line of a discarded row also has a
 * `discarded` field with the reason. If a row has several lines, the last one counts. A line is written in one piece
 * and synced before the row counts as finished. Lines that are written at the same time share a sync. `attempts.jsonl`
 * next to the results contains starts and failures, so that the active rows are known after a crash.
 *
 * A partial line left by a crash or a full disk is removed when the journal is opened or when the write fails, so that
 * the file contains only whole lines. Other unreadable lines are reported in {@link Journal.problems}, and their rows
 * count as unfinished.
 *
 * Source: `hermes-product.md` §5.1.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Json from "../../base/domain/Json.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import { type AttemptFailure, type Attempts, readAttempts } from "./RowAttempts.ts"

export type { AttemptFailure, Attempts } from "./RowAttempts.ts"

/** Error raised when the results cannot be read or written. `message` states the cause and the remedy. */
export class JournalError extends Schema.TaggedError<JournalError>("hermes-effect/JournalError")("JournalError", {
  path: Schema.String,
  message: Schema.String,
  /** True if earlier results are safe, and the work can continue after the cause is removed. */
  canResume: Schema.Boolean
}) {}

/** Identity of a row in the journal. */
export interface RowKey {
  readonly id: string
  /** Digest of the row's content, which distinguishes the row from a changed row with the same id. */
  readonly digest?: string | undefined
}

/** Last result of a row. */
export interface Entry {
  readonly digest: string | undefined
  /** Reason why the row has no result. `undefined` for a finished row. */
  readonly discarded: string | undefined
}

/** A line of the results. */
export interface ResultLine {
  readonly id: string
  readonly digest: string | undefined
  readonly discarded: string | undefined
  readonly fields: Json.Fields
}

/** The journal of one directory. */
export interface Journal {
  /** Last result of each row, kept up to date. */
  readonly entries: ReadonlyMap<string, Entry>
  /** Attempts at rows without a result, kept up to date. */
  readonly attempts: ReadonlyMap<string, Attempts>
  /** Problems of unreadable lines, one message each. */
  readonly problems: ReadonlyArray<string>
  readonly begin: (row: RowKey, attempt: number) => Effect.Effect<void, JournalError>
  /** Records that an attempt is interrupted. It remains open, and the next run continues it. */
  readonly leave: (row: RowKey, attempt: number) => Effect.Effect<void, JournalError>
  readonly fail: (row: RowKey, attempt: number, failure: AttemptFailure) => Effect.Effect<void, JournalError>
  /** Records that an attempt waits for answers in a session. It remains open. */
  readonly suspend: (row: RowKey, attempt: number, sessionId: string) => Effect.Effect<void, JournalError>
  readonly finish: (row: RowKey, fields: Json.Fields) => Effect.Effect<void, JournalError>
  readonly discard: (row: RowKey, reason: string, fields?: Json.Fields) => Effect.Effect<void, JournalError>
  /** The last result line of every row, in the order of the files. The files are read again. */
  readonly results: Stream.Stream<ResultLine, JournalError>
}

/** Options of {@link open}. */
export interface Options {
  /** Directory of the journal. Created if it is missing. */
  readonly directory: string
  /** Returns the name of the file to which the result of a row is written. Defaults to `results.jsonl`. */
  readonly getFile?: ((id: string) => string) | undefined
  /** Name of the file of starts and failures. Defaults to `attempts.jsonl`. Two journals in one directory need two. */
  readonly attemptsFile?: string | undefined
  /** Returns true if a file in the directory contains results. By default, only `results.jsonl` contains results. */
  readonly isResults?: ((name: string) => boolean) | undefined
  /**
   * Effect that runs before each group of result lines is written, so that data referenced by the lines is stored
   * first.
   */
  readonly before?: Effect.Effect<void, JournalError> | undefined
}

const defaultAttemptsFile = "attempts.jsonl"
const defaultFile = "results.jsonl"
const isDefault = (name: string): boolean => name === defaultFile
const newline = 10

/**
 * Compares file names to sort the result files. If two files contain a line for the same row, the later file takes
 * precedence.
 */
const compareNames = (a: string, b: string): number => a.localeCompare(b, "en", { numeric: true })

const isFull = (error: PlatformError): boolean => {
  const { reason } = error
  const cause = "cause" in reason ? reason.cause : undefined
  return cause instanceof Error && "code" in cause && (cause.code === "ENOSPC" || cause.code === "EDQUOT")
}

const toJournalError =
  (path: string, verb: "read" | "written") =>
  (error: PlatformError): JournalError =>
    new JournalError({
      path,
      canResume: verb === "written",
      message:
        `${path} cannot be ${verb}: ${describeReason(error)}` +
        (isFull(error) ? "; finished rows are safe: free some space, then resume" : "")
    })

/** First characters of every journal line. */
const beginning = '{"row_id":'

/** Returns true for a file that is not a journal: it has content, but no complete or partial journal line. */
const isForeign = (text: string): boolean =>
  !text.startsWith(beginning) && !text.includes(`\n${beginning}`) && !beginning.startsWith(text.trimStart())

/** Returns the position after the last whole line of a file. */
const findWholeEnd = (bytes: Uint8Array): number => bytes.lastIndexOf(newline) + 1

const decoder = new TextDecoder()
const encoder = new TextEncoder()

interface PendingWrite {
  readonly text: string
  readonly done: Deferred.Deferred<void, JournalError>
}

/** Lines that wait to be written to a file. */
interface Queue {
  readonly turn: Semaphore.Semaphore
  readonly writes: Array<PendingWrite>
  users: number
}

/** Appends lines to files. Lines that wait at the same time are written and synced together. */
const appender = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const queues = new Map<string, Queue>()
  /** Sizes in bytes of the files written so far. This process is the only writer. */
  const sizes = new Map<string, number>()

  const writeText = (path: string, text: string, isSynced: boolean): Effect.Effect<void, JournalError> =>
    Effect.scoped(
      Effect.gen(function* () {
        const file = yield* fs.open(path, { flag: "a", mode: 0o600 })
        const before = sizes.get(path) ?? Number((yield* file.stat).size)
        const bytes = encoder.encode(text)
        sizes.delete(path)
        yield* Effect.andThen(file.writeAll(bytes), isSynced ? file.sync : Effect.void).pipe(
          // A partial line would later be reported as damaged. Truncating the file requires no disk space.
          Effect.onError(() => Effect.ignore(fs.truncate(path, before)))
        )
        sizes.set(path, before + bytes.length)
      })
    ).pipe(Effect.mapError(toJournalError(path, "written")))

  return (
    path: string,
    line: Json.Fields,
    before: Effect.Effect<void, JournalError>,
    isSynced: boolean
  ): Effect.Effect<void, JournalError> =>
    Effect.uninterruptible(
      Effect.gen(function* () {
        const done = Deferred.makeUnsafe<void, JournalError>()
        const queue = queues.get(path) ?? { turn: Semaphore.makeUnsafe(1), writes: [], users: 0 }
        queues.set(path, queue)
        queue.writes.push({ text: `${JSON.stringify(line)}\n`, done })
        queue.users++
        yield* queue.turn.withPermits(1)(
          Effect.suspend(() => {
            const group = queue.writes.splice(0)
            if (group.length === 0) return Effect.void
            return Effect.flatMap(
              Effect.exit(Effect.andThen(before, writeText(path, group.map(({ text }) => text).join(""), isSynced))),
              (exit) => Effect.sync(() => group.forEach(({ done }) => Deferred.doneUnsafe(done, exit)))
            )
          })
        )
        if (--queue.users === 0) queues.delete(path)
        yield* Deferred.await(done)
      })
    )
})

const toResultLine = (value: Json.Fields): ResultLine | undefined => {
  const { discarded, row_digest: digest, row_id: id, ...fields } = value
  return typeof id !== "string"
    ? undefined
    : { id, digest: Json.readString(digest), discarded: Json.readString(discarded), fields }
}

/** Number of lines of each row. */
type Lines = Map<string, number>

const incrementLines = (lines: Lines, id: string): void => void lines.set(id, (lines.get(id) ?? 0) + 1)

/**
 * Makes a reader of the files in a directory. `known` contains the number of lines for each row. If it is absent, the
 * lines are counted first.
 */
const makeReader = Effect.fnUntraced(function* (
  directory: string,
  isResults: (name: string) => boolean,
  known?: Lines
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path

  /** Reads the complete lines of a file as objects. A missing file is treated as empty. */
  const readObjects = Effect.fnUntraced(function* (name: string, told: Array<string>) {
    const path = paths.join(directory, name)
    const bytes = yield* fs.readFile(path).pipe(
      Effect.catchIf(
        ({ reason }) => reason._tag === "NotFound",
        () => Effect.succeed(new Uint8Array())
      ),
      Effect.mapError(toJournalError(path, "read"))
    )
    const whole = findWholeEnd(bytes)
    const found: Array<Json.Fields> = []
    const text = decoder.decode(bytes.subarray(0, whole))
    text.split("\n").forEach((line, index) => {
      if (line.trim() === "") return
      const value = Option.getOrUndefined(Json.parse(line))
      if (Json.isFields(value)) found.push(value)
      else told.push(`${path} line ${index + 1}: not readable, its row counts as not finished`)
    })
    return {
      found,
      isForeign: isForeign(text + decoder.decode(bytes.subarray(whole))),
      path,
      rest: bytes.length - whole,
      whole
    }
  })

  const resultFiles = Effect.map(
    Effect.mapError(fs.readDirectory(directory), toJournalError(directory, "read")),
    (names) => names.filter(isResults).toSorted(compareNames)
  )

  const results: Stream.Stream<ResultLine, JournalError> = Stream.unwrap(
    Effect.gen(function* () {
      const names = yield* resultFiles
      // Only the last line of a row counts, in whichever file it is. A row has several lines if it changed and ran
      // again.
      const counts: Lines = new Map(known)
      if (known === undefined) {
        for (const name of names)
          for (const value of (yield* readObjects(name, [])).found)
            incrementLines(counts, Json.readWord(value["row_id"]))
      }
      return Stream.fromIterable(names).pipe(
        Stream.mapEffect((name) => readObjects(name, [])),
        Stream.flatMap(({ found }) => Stream.fromIterable(found)),
        Stream.filter((value) => {
          const id = Json.readWord(value["row_id"])
          const left = (counts.get(id) ?? 1) - 1
          counts.set(id, left)
          return left === 0
        }),
        Stream.flatMap((value) => {
          const line = toResultLine(value)
          return line === undefined ? Stream.empty : Stream.succeed(line)
        })
      )
    })
  )
  return { objects: readObjects, resultFiles, results }
})

/**
 * Reads the results in a directory. Another process may be writing to the files. Reads only whole lines, and changes
 * nothing.
 */
export const readResults = Effect.fn("RowJournal.readResults")(function* (
  directory: string,
  isResults: (name: string) => boolean = isDefault
) {
  const { results } = yield* makeReader(directory, isResults)
  return results
})

/** Objects of a file, and its bytes up to the end of the last whole line. */
interface LoadedFile {
  readonly found: ReadonlyArray<Json.Fields>
  readonly isForeign: boolean
  readonly path: string
  readonly rest: number
  readonly whole: number
}

/** Removes a partial line from the end of a file. Fails if the file is not a journal. */
const dropBrokenEnd = Effect.fnUntraced(function* ({ found, isForeign, path, rest, whole }: LoadedFile) {
  if (isForeign) {
    return yield* new JournalError({
      path,
      canResume: false,
      message: `${path} is there and has no results: it is left as it is; name another file or directory`
    })
  }
  const fs = yield* FileSystem.FileSystem
  if (rest > 0) yield* Effect.mapError(fs.truncate(path, whole), toJournalError(path, "written"))
  return found
})

/** Opens the journal of a directory and reads its entries and attempts. */
export const open = Effect.fn("RowJournal.open")(function* ({
  attemptsFile = defaultAttemptsFile,
  before = Effect.void,
  directory,
  getFile = () => defaultFile,
  isResults = isDefault
}: Options): Effect.fn.Return<Journal, JournalError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  yield* Effect.mapError(
    fs.makeDirectory(directory, { recursive: true, mode: 0o700 }),
    toJournalError(directory, "written")
  )
  const append = yield* appender
  const lines: Lines = new Map()
  const { objects, resultFiles, results } = yield* makeReader(directory, isResults, lines)
  const problems: Array<string> = []
  const loadFile = (name: string) => Effect.flatMap(objects(name, problems), dropBrokenEnd)
  const entries = new Map<string, Entry>()
  /** File of each row's last line. */
  const files = new Map<string, string>()
  const addEntry = (name: string, { digest, discarded, id }: ResultLine): void => {
    // Stored without the result fields, because they are large.
    entries.set(id, { digest, discarded })
    files.set(id, name)
  }
  for (const name of yield* resultFiles) {
    for (const value of yield* loadFile(name)) {
      incrementLines(lines, Json.readWord(value["row_id"]))
      const line = toResultLine(value)
      if (line === undefined) problems.push(`${paths.join(directory, name)}: a line has no row_id`)
      else addEntry(name, line)
    }
  }
  const attempts = readAttempts(yield* loadFile(attemptsFile))

  const recordAttempt = (
    row: RowKey,
    attempt: number,
    event: "begin" | "fail" | "leave" | "suspend",
    { failure, suspendedIn }: Pick<Attempts, "failure" | "suspendedIn"> = {}
  ) =>
    Effect.andThen(
      append(
        paths.join(directory, attemptsFile),
        {
          row_id: row.id,
          row_digest: row.digest,
          event,
          attempt,
          session_id: suspendedIn,
          error: failure?.message,
          kind: failure?.kind
        },
        Effect.void,
        false
      ),
      Effect.sync(() => {
        const isOpen = failure === undefined
        attempts.set(row.id, { number: attempt, isOpen, deaths: 0, digest: row.digest, failure, suspendedIn })
      })
    )

  /** Chooses the file for the result of a row. The file must not precede the file with the row's previous line. */
  const chooseFile = (id: string): string => {
    const [wanted, last] = [getFile(id), files.get(id)]
    return last !== undefined && compareNames(last, wanted) > 0 ? last : wanted
  }

  const writeResult = (row: RowKey, discarded: string | undefined, fields: Json.Fields) => {
    const file = chooseFile(row.id)
    return Effect.andThen(
      append(
        paths.join(directory, file),
        { row_id: row.id, row_digest: row.digest, discarded, ...fields },
        before,
        true
      ),
      Effect.sync(() => {
        incrementLines(lines, row.id)
        addEntry(file, { id: row.id, digest: row.digest, discarded, fields })
        const last = attempts.get(row.id)
        if (last !== undefined)
          attempts.set(row.id, { ...last, isOpen: false, failure: undefined, suspendedIn: undefined })
      })
    )
  }

  return {
    entries,
    attempts,
    problems,
    begin: (row, attempt) => recordAttempt(row, attempt, "begin"),
    leave: (row, attempt) => recordAttempt(row, attempt, "leave"),
    fail: (row, attempt, failure) => recordAttempt(row, attempt, "fail", { failure }),
    suspend: (row, attempt, suspendedIn) => recordAttempt(row, attempt, "suspend", { suspendedIn }),
    finish: (row, fields) => writeResult(row, undefined, fields),
    discard: (row, reason, fields = {}) => writeResult(row, reason, fields),
    results
  }
})
