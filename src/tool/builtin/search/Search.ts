/**
 * One search over a directory or a file: which files, what is in them, and when to stop.
 *
 * **Details**
 *
 * Files are looked at a few at a time and answered in the order of the walk, so that the same search gives the same
 * answer. It ends when enough was found for the page that is wanted and one more, when everything was looked at, or after
 * {@link deadline}; what was found until then is the answer. Files that are not text, that hold credentials, or that can
 * not be read are passed over.
 *
 * Source: `hermes-product.md` §2.3 (`search_files`).
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import * as Binary from "../file/FileContent.ts"
import * as FileContent from "../file/FileContent.ts"
import * as Problem from "../file/Problem.ts"
import * as ContentSearch from "./ContentSearch.ts"
import * as FileWalk from "./FileWalk.ts"

/** A search gives what it has after this time. */
export const deadline = "30 seconds"
const concurrency = 8

/** Files to look at. */
export interface Scope {
  /** Real path of a directory or a file. */
  readonly top: string
  readonly single: boolean
  /** True when a file is looked at at all. */
  readonly wanted: (entry: FileWalk.Entry) => boolean
}

/** A file and what was found in it. */
export interface Result {
  readonly entry: FileWalk.Entry
  readonly found: ContentSearch.Found
}

/** Files that a search passed over, and the reason if it ended early. */
export interface Notes {
  readonly unreadable: number
  readonly exhausted: boolean
  readonly late: boolean
}

type Files = FileSystem.FileSystem | Path.Path

const entries = (scope: Scope, name: string, tally: FileWalk.Tally): Stream.Stream<FileWalk.Entry, never, Files> =>
  scope.single
    ? Stream.succeed({ path: scope.top, relative: name, name, link: false })
    : Stream.filter(FileWalk.files(scope.top, tally), scope.wanted)

/** Runs a stream of findings until `enough` or the deadline. */
const within = Effect.fnUntraced(function*<A, E, R>(
  tally: FileWalk.Tally,
  found: Stream.Stream<A, E, R>,
  enough: (one: A) => boolean
) {
  const all: Array<A> = []
  const run = Stream.runForEachWhile(found, (one) =>
    Effect.sync(() => {
      all.push(one)
      return !enough(one)
    }))
  const inTime = yield* Effect.timeoutOption(run, deadline)
  return { all, notes: { ...tally, late: Option.isNone(inTime) } satisfies Notes }
})

/** The files of a scope, at most `max`. */
export const files = (scope: Scope, name: string, max: number) => {
  const tally: FileWalk.Tally = { unreadable: 0, exhausted: false }
  let count = 0
  return within(tally, entries(scope, name, tally), () => ++count >= max)
}

/** Searches one file; nothing is found in one that is not text. */
const scan = Effect.fnUntraced(function*(entry: FileWalk.Entry, options: ContentSearch.Options) {
  const scanner = ContentSearch.make(options)
  let first = true
  let text = true
  yield* FileContent.forEachPiece(entry.path, (bytes) => {
    if (first) text = Binary.kindOfBytes(bytes) === undefined
    first = false
    return text && scanner.push(bytes)
  })
  const found: ContentSearch.Found = text ? scanner.end() : { count: 0, hits: [], tooSlow: undefined }
  return found.tooSlow === undefined
    ? { entry, found } satisfies Result
    : yield* Problem.fail(`the pattern takes too long to match ${entry.relative} (from line ${found.tooSlow} on)`, {
      hint: "Make it simpler: no repetition inside of a repetition such as (a+)+, fewer of * and +, literal text first."
    })
})

/** The files of a scope in which something was found, until `enough`. */
export const contents = (
  scope: Scope,
  name: string,
  options: ContentSearch.Options,
  enough: (one: Result) => boolean
) => {
  const tally: FileWalk.Tally = { unreadable: 0, exhausted: false }
  const unreadable = (_: PlatformError): Effect.Effect<undefined> =>
    Effect.sync(() => {
      tally.unreadable++
      return undefined
    })
  const found = entries(scope, name, tally).pipe(
    Stream.filter((entry) => !entry.link && Binary.kindOfName(entry.name) === undefined),
    // A file that is gone or closed to us is no failure of the search; it is counted and told.
    Stream.mapEffect((entry) => Effect.catchTag(scan(entry, options), "PlatformError", unreadable), { concurrency }),
    Stream.filter((result): result is Result => result !== undefined && result.found.count > 0)
  )
  return within(tally, found, enough)
}
