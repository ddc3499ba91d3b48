/**
 * The tool `search_files`, which finds lines that match a regular expression, or files by name.
 *
 * **Details**
 *
 * The search is implemented here and does not call another program: the same search returns the same result on every
 * machine, in path order. It respects `.gitignore`, skips version control, `node_modules`, binary files and
 * credentials, and streams, so that its memory does not depend on file sizes. Five matches or more are returned as text
 * grouped by file.
 *
 * **Gotchas**
 *
 * `total_count` is the number of results found; if `truncated` is true, there may be more. A regular expression that
 * may backtrack excessively runs under a time limit, see `search/ContentSearch`.
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Glob from "effect/Glob"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import { RedactSecrets } from "../../base/domain/Redaction.ts"
import { ConversationHistory, ToolContext } from "../ToolContext.ts"
import { FileState } from "./file/FileState.ts"
import { searchFiles } from "./file/FileToolDefinitions.ts"
import * as Problem from "./file/Problem.ts"
import { Targets } from "./file/Fence.ts"
import * as Pattern from "./search/ContentSearch.ts"
import type { Entry } from "../../places/FileWalk.ts"

/** A matching line of a file. */
interface LineMatch {
  readonly path: string
  readonly line: number
  readonly content: string
  readonly before?: ReadonlyArray<string>
  readonly after?: ReadonlyArray<string>
}

/** Collects the lines of a match and its context, by number. */
const collectLines = ({
  after = [],
  before = [],
  content,
  line
}: LineMatch): ReadonlyArray<readonly [number, string]> => [
  ...before.map((text, index) => [line - before.length + index, `-${text}`] as const),
  [line, `:${content}`],
  ...after.map((text, index) => [line + index + 1, `-${text}`] as const)
]

/**
 * Formats matches as text grouped by file, which takes far fewer tokens than a list of objects. Pure.
 *
 * **Example**
 *
 * ```
 * src/a.ts
 *   12: const found = 1
 *   13- return found
 *   --
 *   40: found()
 * ```
 *
 * Matches of one file must be consecutive. A line that belongs to several matches is shown once.
 */
export const groupByFile = (matches: ReadonlyArray<LineMatch>): string => {
  const files = new Map<string, Map<number, string>>()
  for (const match of matches) {
    const lines = files.get(match.path) ?? new Map<number, string>()
    files.set(match.path, lines)
    for (const [number, text] of collectLines(match)) {
      if (!lines.has(number) || text.startsWith(":")) lines.set(number, text)
    }
  }
  const withContext = matches.some(({ after, before }) => after !== undefined || before !== undefined)
  return Array.from(files, ([path, lines]) => {
    let last: number | undefined
    const shown = Array.from(lines)
      .sort(([a], [b]) => a - b)
      .flatMap(([number, text]) => {
        const gap = withContext && last !== undefined && number > last + 1
        last = number
        return [...(gap ? ["  --"] : []), `  ${number}${text.slice(0, 1)} ${text.slice(1)}`]
      })
    return [path, ...shown].join("\n")
  }).join("\n")
}

const defaultLimit = 50
const maxLimit = 1_000
const maxContext = 20
/** Maximum number of characters of matching lines in one result. */
const maxChars = 60_000
/** Minimum number of matches for a result that is grouped by file. */
const grouping = 5

/** The tool `search_files`. */
export const tool = searchFiles

type Params = typeof tool.parametersSchema.Type

/** The part of the results that is wanted. */
interface Page {
  readonly offset: number
  readonly limit: number
}

/** Number of results up to the end of the page, plus one to detect further results. */
const countNeededResults = ({ limit, offset }: Page): number => offset + limit + 1

const takePage = <A>(all: ReadonlyArray<A>, { limit, offset }: Page): ReadonlyArray<A> =>
  all.slice(offset, offset + limit)

/**
 * Creates a test for whether a path matches a glob. The glob is compared with the file name, or with the path relative
 * to the searched directory if it contains a slash.
 */
const makeGlobTest = (glob: string): ((entry: Entry) => boolean) => {
  const compiled = Glob.make(glob.replace(/^\.?\//, ""), { dot: true })
  return glob.includes("/")
    ? ({ relative }) => Glob.match(compiled, relative)
    : ({ name }) => Glob.match(compiled, name)
}

/** Creates a test for a file name. The pattern is a glob, or a case-insensitive part of the name. */
const makeNameTest = (pattern: string): ((entry: Entry) => boolean) => {
  if (/[*?[{/]/.test(pattern)) return makeGlobTest(pattern)
  const part = pattern.toLowerCase()
  return ({ name }) => name.toLowerCase().includes(part)
}

const renderHint = (page: Page, more: boolean, notes: Pattern.Notes, empty: string | undefined): string | undefined => {
  const hints = [
    more ? `There is more: go on with offset ${page.offset + page.limit}, or narrow the search.` : undefined,
    notes.late ? `Stopped after ${Pattern.deadline}: narrow path or file_glob.` : undefined,
    notes.exhausted ? "Stopped: too many files. Narrow path." : undefined,
    notes.unreadable > 0 ? `Could not be read: ${notes.unreadable} files or directories.` : undefined,
    empty
  ].filter((hint) => hint !== undefined)
  return hints.length === 0 ? undefined : hints.join(" ")
}

/** Builds the fields that every result has in addition to its matches. */
const buildFrame = (page: Page, total: number, more: boolean, notes: Pattern.Notes, empty?: string) => {
  const hint = renderHint(page, more, notes, total === 0 ? empty : undefined)
  return {
    total_count: total,
    truncated: more || notes.late || notes.exhausted,
    ...(hint === undefined ? {} : { hint })
  }
}

/** Services of the toolset. */
interface SearchServices {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly targets: Targets["Service"]
  readonly state: FileState["Service"]
}

/** Resolves the searched directory or file, and result paths that the other tools accept. */
const resolveScope = Effect.fnUntraced(function* ({ targets, fs, path }: SearchServices, params: Params) {
  const { cwd } = yield* ToolContext
  const given = params.path ?? "."
  const target = yield* targets.resolve(given, "read")
  const info = yield* Effect.catchIf(
    fs.stat(target.real),
    (error) => error.reason._tag === "NotFound",
    () => Problem.fail(`no such file or directory: ${given}`)
  )
  if (info.type !== "Directory" && info.type !== "File") {
    return yield* Problem.fail(`${given} is neither a file nor a directory`)
  }
  const single = info.type === "File"
  const local = path.relative(cwd, target.path)
  const base = local === ".." || local.startsWith(`..${path.sep}`) || path.isAbsolute(local) ? target.path : local
  const formatPath = ({ relative }: Entry): string => (single ? given : path.join(base, relative))
  const judge = yield* targets.readJudge
  const isReadable = (entry: Entry): boolean => judge(entry.path) === undefined
  return { top: target.real, single, shown: formatPath, readable: isReadable, name: path.basename(target.path) }
})

const searchByName = Effect.fnUntraced(function* (services: SearchServices, params: Params, page: Page) {
  const { name, shown, single, top } = yield* resolveScope(services, params)
  const { all, notes } = yield* Pattern.findFiles(
    { top, single, wanted: makeNameTest(params.pattern) },
    name,
    countNeededResults(page)
  )
  const more = all.length > page.offset + page.limit
  return { ...buildFrame(page, all.length, more, notes), files: takePage(all, page).map(shown) }
})

const prepareSearch = Effect.fnUntraced(function* (services: SearchServices, params: Params) {
  if (params.pattern === "") return yield* Problem.fail("the pattern is empty")
  const pattern = Pattern.compile(params.pattern)
  if (Result.isFailure(pattern)) {
    return yield* Problem.fail(pattern.failure, {
      hint: "Escape characters that are meant as they are: \\( \\[ \\{ \\. \\* \\+ \\?"
    })
  }
  const { name, readable, shown, single, top } = yield* resolveScope(services, params)
  const fits = params.file_glob === undefined ? () => true : makeGlobTest(params.file_glob)
  const scope: Pattern.Scope = { top, single, wanted: (entry) => fits(entry) && readable(entry) }
  const empty = params.pattern.includes("\\n") ? "Patterns match within single lines: \\n never matches." : undefined
  return { pattern: pattern.success, scope, name, shown, empty }
})

const searchByLine = Effect.fnUntraced(function* (services: SearchServices, params: Params, page: Page) {
  const { empty, name, pattern, scope, shown } = yield* prepareSearch(services, params)
  const context = Math.min(maxContext, params.context ?? 0)
  let count = 0
  let chars = 0
  const options = {
    pattern,
    context,
    maxMatches: countNeededResults(page),
    keepLines: true,
    redact: yield* RedactSecrets
  }
  const { all, notes } = yield* Pattern.searchContents(scope, name, options, ({ entry, found }) => {
    for (const hit of found.hits) if (count++ >= page.offset) chars += countCharacters(shown(entry), hit)
    return count >= countNeededResults(page) || chars > maxChars
  })
  const matches = all.flatMap(({ entry, found }) =>
    found.hits.map(({ after, before, content, line }): LineMatch => ({
      path: shown(entry),
      line,
      content,
      ...(context === 0 ? {} : { before, after })
    }))
  )
  const wanted = limitMatches(takePage(matches, page))
  const end = { offset: page.offset, limit: wanted.length }
  return {
    ...buildFrame(end, matches.length, matches.length > page.offset + wanted.length, notes, empty),
    ...(wanted.length < grouping ? { matches: wanted } : { matches_text: groupByFile(wanted) })
  }
})

const searchByFile = Effect.fnUntraced(function* (services: SearchServices, params: Params, page: Page) {
  const { empty, name, pattern, scope, shown } = yield* prepareSearch(services, params)
  const counting = params.output_mode === "count"
  const maxMatches = counting ? Number.POSITIVE_INFINITY : 1
  let files = 0
  const { all, notes } = yield* Pattern.searchContents(
    scope,
    name,
    { pattern, context: 0, maxMatches, keepLines: false, redact: false },
    () => ++files >= countNeededResults(page)
  )
  const more = all.length > page.offset + page.limit
  const wanted = takePage(all, page)
  return counting
    ? {
        ...buildFrame(
          page,
          all.reduce((sum, { found }) => sum + found.count, 0),
          more,
          notes,
          empty
        ),
        counts: Object.fromEntries(wanted.map(({ entry, found }) => [shown(entry), found.count]))
      }
    : { ...buildFrame(page, all.length, more, notes, empty), files: wanted.map(({ entry }) => shown(entry)) }
})

const search = (services: SearchServices, params: Params, page: Page) => {
  if (params.target === "files") return searchByName(services, params, page)
  return params.output_mode === "files_only" || params.output_mode === "count"
    ? searchByFile(services, params, page)
    : searchByLine(services, params, page)
}

/** Counts how often the same search was repeated in a row, including this one. */
const countRepetitions = Effect.fnUntraced(function* ({ state }: SearchServices, params: Params) {
  const { sessionId } = yield* ToolContext
  // Repeated searches by a script are not counted, because a script may search in a loop.
  return (yield* ConversationHistory) === undefined
    ? 1
    : yield* state.repeated(sessionId, `search_files:${JSON.stringify(params)}`)
})

/** Creates the handler from the services of the toolset. */
export const make = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const services: SearchServices = { fs, path, targets: yield* Targets, state: yield* FileState }
  return Effect.fnUntraced(
    function* (params: Params) {
      const times = yield* countRepetitions(services, params)
      if (times > 3) {
        return yield* Problem.fail(`refused: the same search was asked for ${times} times in a row`, {
          hint: "Use the results that you have, or search for something else."
        })
      }
      const page = { offset: params.offset ?? 0, limit: Math.min(maxLimit, params.limit ?? defaultLimit) }
      const answer = yield* search(services, params, page)
      return times < 3
        ? answer
        : {
            ...answer,
            warning: "This is the third identical search in a row. The next one is refused: use these results."
          }
    },
    Effect.provideService(FileSystem.FileSystem, fs),
    Effect.provideService(Path.Path, path),
    Problem.mapToFailure
  )
})

/** Counts the characters that a match takes in a result. */
const countCharacters = (path: string, { after = [], before = [], content }: Omit<LineMatch, "path">): number =>
  [...before, ...after].reduce((sum, line) => sum + line.length + 8, path.length + content.length + 8)

/** Returns as many matches as fit in a result, in order from the first and at least one. */
const limitMatches = (matches: ReadonlyArray<LineMatch>): ReadonlyArray<LineMatch> => {
  let chars = 0
  const end = matches.findIndex((match) => (chars += countCharacters(match.path, match)) > maxChars)
  return end === -1 ? matches : matches.slice(0, Math.max(1, end))
}
