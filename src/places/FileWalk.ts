/**
 * Streams the files below a directory, directory by directory, in the order of their names.
 *
 * **Details**
 *
 * Paths ignored by `.gitignore` files (inside a repository also by files above the directory), version control
 * directories and `node_modules` are skipped. Hidden files are included. Symbolic links are not followed, so that no
 * file outside the directory is found and every walk ends. An unreadable directory is skipped and counted.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Glob from "effect/Glob"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"

// A rule of a `.gitignore` file. Its evaluation is pure.
//
// **Details**
//
// Comments, `!`, directories (`build/`), anchored patterns (`/dist`, `a/b`), `*`, `?`, `[…]` and `**` are supported. If
// several rules match, the last rule of the innermost file decides. `.git/info/exclude` and the global file are not
// read.

interface Rule {
  readonly negated: boolean
  readonly directoryOnly: boolean
  /** True if the rule matches the path relative to the file's directory, and false if it only matches the name. */
  readonly anchored: boolean
  readonly fits: (path: string) => boolean
}

/** Rules of one `.gitignore` file. */
interface Rules {
  /** Directory of the file, relative to the root of the walk: `""` or `a/b/`. `../` is a directory above the root. */
  readonly prefix: string
  readonly rules: ReadonlyArray<Rule>
}

const magic = /[*?[\\]/

const parseRule = (raw: string): Rule | undefined => {
  const line = raw.replace(/(?<![\\\s])\s+$|(?<=\\\s)\s+$/, "")
  if (line === "" || line.startsWith("#")) return undefined
  const negated = line.startsWith("!")
  const bare = line.slice(negated ? 1 : 0).replace(/^\\(?=[#!])/, "")
  const directoryOnly = bare.endsWith("/")
  const body = directoryOnly ? bare.slice(0, -1) : bare
  const pattern = body.replace(/^\//, "")
  if (pattern === "") return undefined
  // Braces are literal characters in `.gitignore` patterns.
  const glob = magic.test(pattern) ? Glob.make(pattern.replace(/[{}]/g, "\\$&"), { dot: true }) : undefined
  return {
    negated,
    directoryOnly,
    anchored: body.includes("/"),
    fits: glob === undefined ? (path) => path === pattern : (path) => Glob.match(glob, path)
  }
}

/** Parses the text of a `.gitignore` file. */
export const parse = (prefix: string, text: string): Rules => ({
  prefix,
  rules: text
    .split(/\r?\n/)
    .map(parseRule)
    .filter((rule) => rule !== undefined)
})

/**
 * Returns true if an entry is ignored. `levels` are ordered from the outermost file to the innermost, and `path` is
 * relative to the root.
 */
export const isIgnored = (levels: ReadonlyArray<Rules>, path: string, name: string, directory: boolean): boolean => {
  for (const { prefix, rules } of levels.toReversed()) {
    // For a file above the root, the path of the root precedes the path of the entry.
    const local = prefix.startsWith("../")
      ? prefix.slice(prefix.lastIndexOf("../") + 3) + path
      : path.slice(prefix.length)
    for (const { anchored, directoryOnly, fits, negated } of rules.toReversed()) {
      if ((directory || !directoryOnly) && fits(anchored ? local : name)) return !negated
    }
  }
  return false
}

/** A file, with its absolute path and its path relative to the root of the walk, separated by `/`. */
export interface Entry {
  readonly path: string
  readonly relative: string
  readonly name: string
  /** True for a symbolic link, which is listed but not opened. */
  readonly link: boolean
}

/** Counts of entries that a walk skipped, updated during the walk. */
export interface Tally {
  unreadable: number
  /** True if the walk ended at `maxEntries`. */
  exhausted: boolean
}

/** Maximum number of entries that one walk examines. */
const maxEntries = 200_000

/** Number of entries that a walk examines before other fibers may run. */
export const examinedAtOnce = 512

const skipped = new Set([".git", ".hg", ".svn", ".jj", ".sl", "node_modules", "__pycache__"])

interface Pending {
  readonly entry: Entry
  readonly directory: boolean
  readonly levels: ReadonlyArray<Rules>
}

type Files = FileSystem.FileSystem | Path.Path

/** Runs an effect for pieces of a list, in order, and lets other fibers run between two pieces. */
const forEachPiece = <A, B, E, R>(
  items: ReadonlyArray<A>,
  use: (piece: ReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E, R>
): Effect.Effect<ReadonlyArray<B>, E, R> =>
  items.length <= examinedAtOnce
    ? use(items)
    : Effect.map(
        Effect.forEach(Arr.chunksOf(items, examinedAtOnce), (piece) => Effect.tap(use(piece), () => Effect.yieldNow)),
        Arr.flatten
      )

const compareBackwards = (a: FileSystem.DirectoryEntry, b: FileSystem.DirectoryEntry): number =>
  a.name < b.name ? 1 : -1

/** Sorts the entries of a directory backwards. The last sort has only to merge the sorted pieces. */
const sortBackwards = (entries: ReadonlyArray<FileSystem.DirectoryEntry>) =>
  Effect.map(
    forEachPiece(entries, (piece) => Effect.sync(() => piece.toSorted(compareBackwards))),
    (pieces) => pieces.toSorted(compareBackwards)
  )

/** Reads the rules of the `.gitignore` in a directory, if there is a readable one. */
const readRulesIn = Effect.fnUntraced(function* (directory: string, prefix: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const text = yield* Effect.option(fs.readFileString(path.join(directory, ".gitignore")))
  return Option.map(text, (text) => parse(prefix, text))
})

/** Reads the rules above the root, outermost first, if the root is inside a repository. */
const readRulesAbove = Effect.fnUntraced(function* (top: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const levels: Array<Rules> = []
  const isRepository = (directory: string) => Effect.orElseSucceed(fs.exists(path.join(directory, ".git")), () => false)
  for (let at = top; path.dirname(at) !== at; at = path.dirname(at)) {
    if (yield* isRepository(at)) return levels
    const above = path.dirname(at)
    const local = path.relative(above, top).replaceAll(path.sep, "/")
    const rules = yield* readRulesIn(above, `../${local}/`)
    if (Option.isSome(rules)) levels.unshift(rules.value)
  }
  return []
})

/** Streams the files below `top`. */
export const walkFiles = (top: string, tally: Tally): Stream.Stream<Entry, never, Files> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      let looked = 0

      const expandDirectory = Effect.fnUntraced(function* ({ entry, levels }: Pending) {
        const read = yield* Effect.result(fs.readDirectoryEntries(entry.path))
        if (read._tag === "Failure") {
          tally.unreadable++
          return []
        }
        const prefix = entry.relative === "" ? "" : `${entry.relative}/`
        const own = read.success.some(({ name }) => name === ".gitignore")
          ? yield* readRulesIn(entry.path, prefix)
          : Option.none()
        const inner = Option.isSome(own) ? [...levels, own.value] : levels
        const toPending = ({ name, type }: FileSystem.DirectoryEntry): ReadonlyArray<Pending> => {
          const directory = type === "Directory"
          if (directory ? skipped.has(name) : type !== "File" && type !== "SymbolicLink") return []
          const relative = prefix + name
          if (isIgnored(inner, relative, name, directory)) return []
          const link = type === "SymbolicLink"
          return [{ entry: { path: path.join(entry.path, name), relative, name, link }, directory, levels: inner }]
        }
        // Sorted backwards, because the end of the list is examined next.
        return yield* forEachPiece(yield* sortBackwards(read.success), (piece) =>
          Effect.sync(() => piece.flatMap(toPending))
        )
      })

      const root: Pending = {
        entry: { path: top, relative: "", name: path.basename(top), link: false },
        directory: true,
        levels: yield* readRulesAbove(top)
      }
      return Stream.paginate<Array<Pending>, Entry, never, Files>(
        [root],
        Effect.fnUntraced(function* (stack) {
          const found: Array<Entry> = []
          while (found.length === 0 && stack.length > 0 && looked < maxEntries) {
            let next = stack.pop()
            for (; next !== undefined && !next.directory && found.length < examinedAtOnce; next = stack.pop())
              found.push(next.entry)
            if (next === undefined) break
            if (!next.directory) {
              stack.push(next)
              yield* Effect.yieldNow
              break
            }
            const below = yield* expandDirectory(next)
            looked += below.length
            for (const each of below) stack.push(each)
          }
          if (looked >= maxEntries) tally.exhausted = true
          return [found, stack.length === 0 || tally.exhausted ? Option.none() : Option.some(stack)] as const
        })
      )
    })
  )
