/**
 * The files below a directory, in the order of their names, directory by directory, as they are asked for.
 *
 * **Details**
 *
 * Left out are what `.gitignore` files name (those above the directory too, inside a repository), version control
 * directories and `node_modules`. Hidden files are there. Symbolic links are not followed, so that nothing outside the
 * directory is found and no walk is endless. A directory that cannot be read is passed over and counted.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Glob from "effect/Glob"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"

// The rules of `.gitignore` files. Pure.
//
// **Details**
//
// Comments, `!`, directories (`build/`), anchored patterns (`/dist`, `a/b`), `*`, `?`, `[…]` and `**` are understood;
// of several rules that fit, the last one of the innermost file decides. `.git/info/exclude` and the global file are
// not read.

interface Rule {
  readonly negated: boolean
  readonly directoryOnly: boolean
  /** True when the rule is about the path from the file's directory on, and not about the name alone. */
  readonly anchored: boolean
  readonly fits: (path: string) => boolean
}

/** The rules of one file. */
interface Rules {
  /** Directory of the file, relative to the top of the walk: `""` or `a/b/`. `../` leads above it. */
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
  // Braces are plain characters here.
  const glob = magic.test(pattern) ? Glob.make(pattern.replace(/[{}]/g, "\\$&"), { dot: true }) : undefined
  return {
    negated,
    directoryOnly,
    anchored: body.includes("/"),
    fits: glob === undefined ? (path) => path === pattern : (path) => Glob.match(glob, path)
  }
}

/** The rules of a file's text. */
export const parse = (prefix: string, text: string): Rules => ({
  prefix,
  rules: text
    .split(/\r?\n/)
    .map(parseRule)
    .filter((rule) => rule !== undefined)
})

/** True when an entry is left out. `levels` from the outermost file to the innermost, `path` relative to the top. */
export const isIgnored = (levels: ReadonlyArray<Rules>, path: string, name: string, directory: boolean): boolean => {
  for (const { prefix, rules } of levels.toReversed()) {
    // A file above the top sees the top's own path before the entry's.
    const local = prefix.startsWith("../")
      ? prefix.slice(prefix.lastIndexOf("../") + 3) + path
      : path.slice(prefix.length)
    for (const { anchored, directoryOnly, fits, negated } of rules.toReversed()) {
      if ((directory || !directoryOnly) && fits(anchored ? local : name)) return !negated
    }
  }
  return false
}

/** A file, absolute and relative to the directory of the walk with `/` between its parts. */
export interface Entry {
  readonly path: string
  readonly relative: string
  readonly name: string
  /** A symbolic link: it can be listed, and is not opened. */
  readonly link: boolean
}

/** Entries that a walk passed over, counted as it goes. */
export interface Tally {
  unreadable: number
  /** True when the walk ended at `maxEntries`. */
  exhausted: boolean
}

/** Entries that one walk looks at. */
const maxEntries = 200_000

const skipped = new Set([".git", ".hg", ".svn", ".jj", ".sl", "node_modules", "__pycache__"])

interface Pending {
  readonly entry: Entry
  readonly directory: boolean
  readonly levels: ReadonlyArray<Rules>
}

type Files = FileSystem.FileSystem | Path.Path

/** The rules of the `.gitignore` in a directory, if it has one that can be read. */
const readRulesIn = Effect.fnUntraced(function* (directory: string, prefix: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const text = yield* Effect.option(fs.readFileString(path.join(directory, ".gitignore")))
  return Option.map(text, (text) => parse(prefix, text))
})

/** The rules above the top, outermost first, when it is inside a repository. */
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

/** The files below `top`. */
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
        const pending: Array<Pending> = []
        // Last name first: the end of the list is examined next.
        for (const { name, type } of Array.from(read.success).sort((a, b) => (a.name < b.name ? 1 : -1))) {
          const directory = type === "Directory"
          if (directory ? skipped.has(name) : type !== "File" && type !== "SymbolicLink") continue
          const relative = prefix + name
          if (isIgnored(inner, relative, name, directory)) continue
          const link = type === "SymbolicLink"
          pending.push({ entry: { path: path.join(entry.path, name), relative, name, link }, directory, levels: inner })
        }
        return pending
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
            for (; next !== undefined && !next.directory; next = stack.pop()) found.push(next.entry)
            if (next === undefined) break
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
