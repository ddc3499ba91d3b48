/**
 * Finds the matching lines of one file in a stream of its bytes.
 *
 * **Details**
 *
 * Lines are assembled from chunks; only the beginning of a line with more than `maxKept` characters is retained.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Result from "effect/Result"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import { redactText } from "../../../base/domain/Redaction.ts"
import { runWithin } from "../../../base/platform/TimeLimit.ts"
import * as FileContent from "../file/FileContent.ts"
import * as Problem from "../file/Problem.ts"
import * as FileWalk from "../../../places/FileWalk.ts"

// Compiles the regular expression of a search and makes it safe to run.
//
// **Details**
//
// Expressions are JavaScript regular expressions, matched line by line. `(?i)`, `(?s)` and `(?m)` at the beginning, as
// in other tools, are supported. `(?i)`, `(?s)` and `(?m)` at the beginning, as other tools know them, are understood.
// A line is matched up to `maxLineChars`. For an expression with at most one repetition, as in most searches, this is a
// sufficient limit. That alone bounds an expression with at most one repetition, which is what most searches are. Any
// other expression runs under a time limit, because nested or adjacent repetitions can take exponential time.
//
// Source: `hermes-product.md` §2.3 (`search_files`).

/** A compiled expression. */
export interface Pattern {
  /** Indices of the matching lines; `undefined` if matching took too long. */
  readonly matching: (lines: ReadonlyArray<string>) => ReadonlyArray<number> | undefined
  /** Returns the index of the first match in a line, or 0 without a match. */
  readonly indexIn: (line: string) => number
}

/** Maximum number of characters of a line that are examined. */
const maxLineChars = 16_384
/** Maximum time for one piece of a file in milliseconds, far more than a sensible expression needs. */
const maxMillis = 1_000

const inlineFlags = /^\(\?([ims]+)\)/
/**
 * Parts of a pattern that are neither repetitions nor groups: escapes, classes, and the beginnings of groups with `?`.
 */
const inert = /\\[^]|\[(?:\\[^]|[^\]\\])*\]|\(\?(?:[:=!]|<[=!]|<[^>]*>|[ims-]*:)/g
const repetition = /[*+?]|\{\d*,?\d*\}/g
const repeatedGroup = /\)(?:[*+]|\{\d)/

/**
 * Reduces an expression to the parts that can repeat: classes and escapes become `x`, beginnings of groups become `(`,
 * and lazy repetitions become plain ones.
 */
const stripInertParts = (source: string): string =>
  source.replace(inert, (found) => (found.startsWith("(") ? "(" : "x")).replace(/([*+?}])\?/g, "$1")

/** Returns true if the length of a line alone limits the time that an expression takes. */
export const isBounded = (source: string): boolean => {
  const skeleton = stripInertParts(source)
  return (
    !/\\[1-9k]/.test(source) &&
    (skeleton.match(repetition)?.length ?? 0) <= 1 &&
    !repeatedGroup.test(skeleton) &&
    skeleton.split("|").length <= 16
  )
}

/** Maximum length of an expression, in characters. */
const longestPattern = 4_096

/** Compiles an expression. The failure is a one-line description of the mistake. */
export const compile = (source: string): Result.Result<Pattern, string> => {
  if (source.length > longestPattern) return Result.fail(`it is longer than ${longestPattern} characters`)
  const inline = inlineFlags.exec(source)
  const body = inline === null ? source : source.slice(inline[0].length)
  const flags = Array.from(new Set((inline?.[1] ?? "") + (/\\[pPu]\{/.test(body) ? "u" : ""))).join("")
  let line: RegExp
  try {
    line = new RegExp(body, flags)
  } catch (error) {
    return Result.fail(error instanceof Error ? error.message : String(error))
  }
  const scanLines = (lines: ReadonlyArray<string>): ReadonlyArray<number> => {
    const found: Array<number> = []
    for (const [index, each] of lines.entries()) {
      if (line.test(each.length > maxLineChars ? each.slice(0, maxLineChars) : each)) found.push(index)
    }
    return found
  }
  const bounded = isBounded(body)
  return Result.succeed({
    matching: (lines) => (bounded ? scanLines(lines) : runWithin(maxMillis, () => scanLines(lines))),
    indexIn: (each) => (bounded ? Math.max(0, each.slice(0, maxLineChars).search(line)) : 0)
  })
}

/** A matching line, with the lines around it. */
interface Hit {
  readonly line: number
  readonly content: string
  readonly before: ReadonlyArray<string>
  readonly after: Array<string>
}

/** Options of a search in one file. */
export interface Options {
  readonly pattern: Pattern
  /** Number of lines before and after a hit. */
  readonly context: number
  /** Number of matches after which the rest of the file is not searched. */
  readonly maxMatches: number
  /** True to return the matching lines, false to count them only. */
  readonly keepLines: boolean
  /** Value of `Redaction.RedactSecrets`. A line is redacted before a part of it is shown. */
  readonly redact: boolean
}

/** Matches of one file. `tooSlow` is the line from which matching took too long. */
interface FileMatches {
  readonly count: number
  readonly hits: ReadonlyArray<Hit>
  readonly tooSlow: number | undefined
}

/** Searches bytes in pieces; `push` returns true if the search must continue. */
interface Scanner {
  readonly push: (bytes: Uint8Array) => boolean
  readonly end: () => FileMatches
}

/** Maximum number of characters of a line that are shown. */
const shown = 400
const maxKept = maxLineChars

const dropCarriageReturn = (line: string): string => (line.endsWith("\r") ? line.slice(0, -1) : line)

/** Shortens a long line to the part around `at`. */
const cutAround = (line: string, at: number): string => {
  if (line.length <= shown) return line
  const from = Math.max(0, Math.min(at - (shown >> 2), line.length - shown))
  const to = Math.min(line.length, from + shown)
  return `${from > 0 ? "…" : ""}${line.slice(from, to)}${to < line.length ? "…" : ""}`
}

/** A search in one file: the lines that were read, and the matches in them. */
class LineSearch {
  readonly hits: Array<Hit> = []
  count = 0
  tooSlow: number | undefined
  readonly #options: Options
  /** Number of lines that were searched. */
  #passed = 0
  /** The last lines, which are the context of the next match. */
  #recent: ReadonlyArray<string> = []
  /** Matches that still need lines of context. */
  #open: Array<Hit> = []

  constructor(options: Options) {
    this.#options = options
  }

  #clipLine(line: string, at: number): string {
    return cutAround(this.#options.redact && line.length > shown ? redactText(line) : line, at)
  }

  #addHit(lines: ReadonlyArray<string>, index: number): void {
    const { context, keepLines, pattern } = this.#options
    this.count++
    if (!keepLines) return
    const line = lines[index] ?? ""
    const near = context === 0 ? [] : [...this.#recent, ...lines.slice(Math.max(0, index - context), index)]
    const found: Hit = {
      line: this.#passed + index + 1,
      content: this.#clipLine(line, pattern.indexIn(line)),
      before: context === 0 ? [] : near.slice(-context).map((line) => this.#clipLine(line, 0)),
      after: []
    }
    this.hits.push(found)
    if (context > 0) this.#open.push(found)
  }

  /** Adds a line to the preceding hits that still need context lines. */
  #addContextLine(line: string, number: number): void {
    for (const each of this.#open) if (each.line < number) each.after.push(this.#clipLine(line, 0))
    this.#open = this.#open.filter(({ after }) => after.length < this.#options.context)
  }

  /** Adds the matches among lines, and the lines of context around them. */
  #takeWithContext(lines: ReadonlyArray<string>, matching: ReadonlyArray<number>): void {
    const { context, maxMatches } = this.#options
    let next = 0
    for (const [index, line] of lines.entries()) {
      this.#addContextLine(line, this.#passed + index + 1)
      if (matching[next] !== index) continue
      next++
      if (this.count < maxMatches) this.#addHit(lines, index)
    }
    this.#recent = [...this.#recent, ...lines].slice(-context)
  }

  takeLines(lines: ReadonlyArray<string>): void {
    const { context, maxMatches, pattern } = this.#options
    const matching = pattern.matching(lines)
    if (matching === undefined) {
      this.tooSlow = this.#passed + 1
      return
    }
    if (context > 0) this.#takeWithContext(lines, matching)
    else for (const index of matching) if (this.count < maxMatches) this.#addHit(lines, index)
    this.#passed += lines.length
  }

  isDone(): boolean {
    return this.tooSlow !== undefined || (this.count >= this.#options.maxMatches && this.#open.length === 0)
  }
}

/** Finds the matching lines of one file in a stream of its bytes. */
export const make = (options: Options): Scanner => {
  const search = new LineSearch(options)
  const decoder = new TextDecoder()
  /** Beginning of a line whose end has not been read yet. */
  let rest = ""
  const addText = (text: string): void => {
    const last = text.lastIndexOf("\n")
    if (last === -1) {
      if (rest.length < maxKept) rest += text
      return
    }
    const whole = rest + text.slice(0, last)
    rest = text.slice(last + 1)
    search.takeLines(whole.split("\n").map(dropCarriageReturn))
  }
  return {
    push: (bytes) => {
      addText(decoder.decode(bytes, { stream: true }))
      return !search.isDone()
    },
    end: () => {
      rest += decoder.decode()
      if (rest !== "" && !search.isDone()) search.takeLines([dropCarriageReturn(rest)])
      const { count, hits, tooSlow } = search
      return { count, hits, tooSlow }
    }
  }
}

// Searches a directory or a file.
//
// **Details**
//
// A few files are searched at the same time, and results are in the order of the walk, so that the same search returns
// the same result. It ends when it has one match more than the requested page, when all files are searched, or after
// {@link deadline}, and returns the matches found so far. Files that are not text, contain credentials or cannot be
// read are skipped.
//
// Source: `hermes-product.md` §2.3 (`search_files`).

/** Time after which a search returns the matches found so far. */
export const deadline = "30 seconds"
const concurrency = 8

/** Files to search. */
export interface Scope {
  /** Real path of the searched directory or file. */
  readonly top: string
  readonly single: boolean
  /** Returns true if a file is searched. */
  readonly wanted: (entry: FileWalk.Entry) => boolean
}

/** A file and its matches. */
interface FileFound {
  readonly entry: FileWalk.Entry
  readonly found: FileMatches
}

/** Files that a search skipped, and the reason if it ended early. */
export interface Notes {
  readonly unreadable: number
  readonly exhausted: boolean
  readonly late: boolean
}

type Files = FileSystem.FileSystem | Path.Path

const listEntries = (scope: Scope, name: string, tally: FileWalk.Tally): Stream.Stream<FileWalk.Entry, never, Files> =>
  scope.single
    ? Stream.succeed({ path: scope.top, relative: name, name, link: false })
    : Stream.filter(FileWalk.walkFiles(scope.top, tally), scope.wanted)

/** Runs a stream of findings until `enough` or the deadline. */
const untilDeadline = Effect.fnUntraced(function* <A, E, R>(
  tally: FileWalk.Tally,
  found: Stream.Stream<A, E, R>,
  enough: (one: A) => boolean
) {
  const all: Array<A> = []
  const run = Stream.runForEachWhile(found, (one) =>
    Effect.sync(() => {
      all.push(one)
      return !enough(one)
    })
  )
  const inTime = yield* Effect.timeoutOption(run, deadline)
  return { all, notes: { ...tally, late: Option.isNone(inTime) } satisfies Notes }
})

/** Returns the files of a scope, at most `max`. */
export const findFiles = (scope: Scope, name: string, max: number) => {
  const tally: FileWalk.Tally = { unreadable: 0, exhausted: false }
  let count = 0
  return untilDeadline(tally, listEntries(scope, name, tally), () => ++count >= max)
}

/** Searches one file; a file that is not text has no matches. */
const scanFile = Effect.fnUntraced(function* (entry: FileWalk.Entry, options: Options) {
  const scanner = make(options)
  let first = true
  let text = true
  yield* FileContent.forEachPiece(entry.path, (bytes) => {
    if (first) text = FileContent.classifyBytes(bytes) === undefined
    first = false
    return text && scanner.push(bytes)
  })
  const found: FileMatches = text ? scanner.end() : { count: 0, hits: [], tooSlow: undefined }
  return found.tooSlow === undefined
    ? ({ entry, found } satisfies FileFound)
    : yield* Problem.fail(`the pattern takes too long to match ${entry.relative} (from line ${found.tooSlow} on)`, {
        hint:
          "Make it simpler: no repetition inside of a repetition such as (a+)+, fewer of * and +, literal text " +
          "first."
      })
})

/** Searches the files of a scope until `enough`, and returns the files with matches. */
export const searchContents = (scope: Scope, name: string, options: Options, enough: (one: FileFound) => boolean) => {
  const tally: FileWalk.Tally = { unreadable: 0, exhausted: false }
  const countUnreadable = (_: PlatformError): Effect.Effect<undefined> =>
    Effect.sync(() => {
      tally.unreadable++
      return undefined
    })
  const found = listEntries(scope, name, tally).pipe(
    Stream.filter((entry) => !entry.link && FileContent.classifyFileName(entry.name) === undefined),
    // A missing or inaccessible file does not fail the search; it is counted and reported.
    Stream.mapEffect((entry) => Effect.catchTag(scanFile(entry, options), "PlatformError", countUnreadable), {
      concurrency
    }),
    Stream.filter((result): result is FileFound => result !== undefined && result.found.count > 0)
  )
  return untilDeadline(tally, found, enough)
}
