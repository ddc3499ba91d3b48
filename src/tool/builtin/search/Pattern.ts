/**
 * The regular expression of a search: compiled, and safe to run.
 *
 * **Details**
 *
 * Expressions are JavaScript's, matched line by line. `(?i)`, `(?s)` and `(?m)` at the beginning, as other tools know
 * them, are understood. A line is matched up to `maxLineChars`. That alone bounds an expression with at most one
 * repetition, which is what most searches are. Any other runs under a time limit: nested or neighbouring repetitions can
 * take longer than the universe has.
 *
 * Source: `hermes-product.md` §2.3 (`search_files`).
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import { within } from "../internal/SearchGuard.ts"

/** A compiled expression. */
export interface Pattern {
  /** Indices of the lines that match, or `undefined` where matching took too long. */
  readonly matching: (lines: ReadonlyArray<string>) => ReadonlyArray<number> | undefined
  /** Where the first match of a line begins; 0 where there is none. */
  readonly indexIn: (line: string) => number
}

/** Characters of a line that are looked at. */
export const maxLineChars = 16_384
/** Milliseconds that one piece of a file may take, which is far more than any sensible expression does. */
const maxMillis = 1_000

const inlineFlags = /^\(\?([ims]+)\)/
/** What is no repetition and no group: escapes, classes, and group heads with their `?`. */
const inert = /\\[^]|\[(?:\\[^]|[^\]\\])*\]|\(\?(?:[:=!]|<[=!]|<[^>]*>|[ims-]*:)/g
const repetition = /[*+?]|\{\d*,?\d*\}/g
const repeatedGroup = /\)(?:[*+]|\{\d)/

/** An expression without what can not repeat: classes and escapes as `x`, group heads as `(`, lazy repetitions as such. */
const skeletonOf = (source: string): string =>
  source.replace(inert, (found) => found.startsWith("(") ? "(" : "x").replace(/([*+?}])\?/g, "$1")

/** Whether the time that an expression takes is bounded by the length of a line alone. */
export const isBounded = (source: string): boolean => {
  const skeleton = skeletonOf(source)
  return !/\\[1-9k]/.test(source) && (skeleton.match(repetition)?.length ?? 0) <= 1 && !repeatedGroup.test(skeleton) &&
    skeleton.split("|").length <= 16
}

/** Characters of an expression at most. */
const longestPattern = 4_096

/** Compiles an expression, or says in one line what is wrong with it. */
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
  const scan = (lines: ReadonlyArray<string>): ReadonlyArray<number> => {
    const found: Array<number> = []
    for (const [index, each] of lines.entries()) {
      if (line.test(each.length > maxLineChars ? each.slice(0, maxLineChars) : each)) found.push(index)
    }
    return found
  }
  const bounded = isBounded(body)
  return Result.succeed({
    matching: (lines) => bounded ? scan(lines) : within(maxMillis, () => scan(lines)),
    indexIn: (each) => bounded ? Math.max(0, each.slice(0, maxLineChars).search(line)) : 0
  })
}
