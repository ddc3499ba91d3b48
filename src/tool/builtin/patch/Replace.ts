/**
 * Replacing a text that a model wrote from memory: nine rules from exact to fuzzy, the first that finds something decides.
 * Pure.
 *
 * **Details**
 *
 * A rule that finds more than one place is an error, unless all were asked for: the edit never lands in a wrong place,
 * and a looser rule is not asked to break the tie. Overlapping places count as several. `replaceAll` works with the rules
 * that compare everything that is visible; with those that leave something out (trimmed ends, likeness) a single place is
 * required.
 *
 * Source: `hermes-product.md` §2.3 (`patch`, the nine-step chain).
 */
import * as Result from "effect/Result"
import { similarity } from "../../../domain/Similarity.ts"
import { blockAnchor, contextAware, indentationFlexible, lineTrimmed } from "./TextMatchers.ts"
import { lineNumber, sourceOf } from "./Match.ts"
import type { Match, Matcher, Source } from "./Match.ts"
import { escapeNormalised, exact, trimmedBoundary, unicodeNormalised, whitespaceNormalised } from "./TextMatchers.ts"

interface Step {
  readonly name: string
  readonly find: Matcher
  /** True when the rule may replace several places at once. */
  readonly several: boolean
}

/** The rules, strictest first. */
export const steps = [
  { name: "exact", find: exact, several: true },
  { name: "line_trimmed", find: lineTrimmed, several: true },
  { name: "whitespace_normalized", find: whitespaceNormalised, several: true },
  { name: "indentation_flexible", find: indentationFlexible, several: true },
  { name: "escape_normalized", find: escapeNormalised, several: true },
  { name: "trimmed_boundary", find: trimmedBoundary, several: false },
  { name: "unicode_normalized", find: unicodeNormalised, several: true },
  { name: "block_anchor", find: blockAnchor, several: false },
  { name: "context_aware", find: contextAware, several: false }
] as const satisfies ReadonlyArray<Step>

/** Result of a replacement. */
export interface Replaced {
  readonly text: string
  readonly count: number
  /** Name of the rule that found the text. */
  readonly step: (typeof steps)[number]["name"]
}

/** Why nothing was done. */
export type Refused =
  | { readonly _tag: "Empty" }
  | { readonly _tag: "Unchanged" }
  /** `closest` is the line of the text most like the first wanted one; `applied`: the replacement stands there already. */
  | { readonly _tag: "NotFound"; readonly closest: number | undefined; readonly applied: boolean }
  | { readonly _tag: "Ambiguous"; readonly lines: ReadonlyArray<number>; readonly step: Replaced["step"] }

/** A replacement to be made. */
export interface Request {
  readonly wanted: string
  readonly replacement: string
  readonly replaceAll: boolean
}

const maxShown = 10
/** Characters from which on a replacement that stands in the text already says something. */
const minTelling = 8
/** Bounds of the search for a similar line: lines of the text, and characters of each. */
const maxCandidates = 10_000
const maxCompared = 80

/** Line, from 1, most like the first telling wanted line. */
const closestLine = ({ lines }: Source, wanted: string): number | undefined => {
  const key = sourceOf(wanted).lines.find(({ trimmed }) => trimmed.length > 2)?.trimmed.slice(0, maxCompared)
  if (key === undefined || lines.length > maxCandidates) return undefined
  let best: { readonly line: number; readonly score: number } | undefined
  for (const [index, { trimmed }] of lines.entries()) {
    const line = trimmed.slice(0, maxCompared)
    // Lines of very different length can not be alike enough, and need not be compared.
    if (Math.min(line.length, key.length) < 0.6 * Math.max(line.length, key.length)) continue
    const score = similarity(line, key)
    if (score >= 0.6 && (best === undefined || score > best.score)) best = { line: index + 1, score }
  }
  return best?.line
}

const withoutOverlaps = (matches: ReadonlyArray<Match>): ReadonlyArray<Match> => {
  let end = 0
  return matches.filter((match) => {
    if (match.start < end) return false
    end = match.end
    return true
  })
}

const applied = (text: string, matches: ReadonlyArray<Match>, replacement: string): string => {
  const pieces: Array<string> = []
  let end = 0
  for (const match of matches) {
    pieces.push(text.slice(end, match.start), match.adapt(replacement))
    end = match.end
  }
  return pieces.join("") + text.slice(end)
}

/** Replacing a text that a model wrote from memory. */
export const replace = (text: string, { wanted, replacement, replaceAll }: Request): Result.Result<Replaced, Refused> => {
  if (wanted === "") return Result.fail({ _tag: "Empty" })
  if (wanted === replacement) return Result.fail({ _tag: "Unchanged" })
  const source = sourceOf(text)
  for (const { name, find, several } of steps) {
    const found = find(source, wanted)
    if (found.length === 0) continue
    if (found.length > 1 && !(replaceAll && several)) {
      const lines = found.slice(0, maxShown).map(({ start }) => lineNumber(source, start))
      return Result.fail({ _tag: "Ambiguous", lines, step: name })
    }
    const matches = withoutOverlaps(found)
    const next = applied(text, matches, replacement)
    return next === text
      ? Result.fail({ _tag: "Unchanged" })
      : Result.succeed({ text: next, count: matches.length, step: name })
  }
  return Result.fail({
    _tag: "NotFound",
    closest: closestLine(source, wanted),
    applied: replacement.trim().length >= minTelling && text.includes(replacement)
  })
}
