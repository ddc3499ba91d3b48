/**
 * The rules of `.gitignore` files. Pure.
 *
 * **Details**
 *
 * Comments, `!`, directories (`build/`), anchored patterns (`/dist`, `a/b`), `*`, `?`, `[…]` and `**` are understood; of
 * several rules that fit, the last one of the innermost file decides. `.git/info/exclude` and the global file are not
 * read.
 *
 * @since 0.1.0
 */
import * as Glob from "effect/Glob"

interface Rule {
  readonly negated: boolean
  readonly directoryOnly: boolean
  /** Whether the rule is about the path from the file's directory on, and not about the name alone. */
  readonly anchored: boolean
  readonly fits: (path: string) => boolean
}

/** The rules of one file. */
export interface Rules {
  /** Directory of the file, relative to the top of the walk: `""` or `a/b/`. `../` leads above it. */
  readonly prefix: string
  readonly rules: ReadonlyArray<Rule>
}

const magic = /[*?[\\]/

const ruleOf = (raw: string): Rule | undefined => {
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
  rules: text.split(/\r?\n/).map(ruleOf).filter((rule) => rule !== undefined)
})

/** Whether an entry is left out. `levels` from the outermost file to the innermost, `path` relative to the top. */
export const ignores = (levels: ReadonlyArray<Rules>, path: string, name: string, directory: boolean): boolean => {
  for (const { prefix, rules } of levels.toReversed()) {
    // A file above the top sees the top's own path before the entry's.
    const local = prefix.startsWith("../") ? prefix.slice(prefix.lastIndexOf("../") + 3) + path : path.slice(prefix.length)
    for (const { anchored, directoryOnly, fits, negated } of rules.toReversed()) {
      if ((directory || !directoryOnly) && fits(anchored ? local : name)) return !negated
    }
  }
  return false
}
