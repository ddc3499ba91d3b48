/**
 * Replaces a text that a model quotes from memory. Nine rules are tried, from exact to fuzzy; the first that matches
 * decides. Pure.
 *
 * **Details**
 *
 * A rule that finds more than one place is an error, unless all places were requested: the edit never changes a wrong
 * place, and a looser rule is not used to break the tie. Overlapping places count as several. `replaceAll` works with
 * the rules that compare all visible characters; the other rules (trimmed ends, similarity) require a single place.
 *
 * Source: `hermes-product.md` §2.3 (`patch`, the nine-step chain).
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { similarity } from "../../../base/domain/Similarity.ts"
import * as Indent from "./Match.ts"
import {
  returnAsIs,
  type Line,
  findLineNumber,
  locateLines,
  type Match,
  type Matcher,
  findOccurrences,
  type Source,
  toSource
} from "./Match.ts"

// Matchers that find a text anywhere, including inside lines. Pure.

/** Matches the exact text. */
export const matchExact: Matcher = ({ text }, wanted) =>
  findOccurrences(text, wanted).map((start) => ({ start, end: start + wanted.length, adapt: returnAsIs }))

/** A rewritten piece of a text: its current position, and its source. */
interface Piece {
  readonly at: number
  readonly length: number
  readonly start: number
  readonly end: number
}

/** A text with rewritten pieces. Only pieces that changed are stored, so that most texts have few. */
interface FoldedText {
  readonly text: string
  readonly pieces: ReadonlyArray<Piece>
}

const foldText = (text: string, pattern: RegExp, rewrite: (piece: string) => string): FoldedText => {
  const pieces: Array<Piece> = []
  const parts: Array<string> = []
  let last = 0
  let at = 0
  for (const { 0: found, index } of text.matchAll(pattern)) {
    const rewritten = rewrite(found)
    if (rewritten === found) continue
    parts.push(text.slice(last, index), rewritten)
    at += index - last
    last = index + found.length
    pieces.push({ at, length: rewritten.length, start: index, end: last })
    at += rewritten.length
  }
  parts.push(text.slice(last))
  return { text: parts.join(""), pieces }
}

/** Returns the last piece that begins at or before a position. */
const findPieceBefore = (pieces: ReadonlyArray<Piece>, at: number): Piece | undefined => {
  let low = 0
  let high = pieces.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((pieces[middle]?.at ?? 0) <= at) low = middle + 1
    else high = middle
  }
  return pieces[low - 1]
}

/** Returns the original position of a unit of a folded text, with marks for the first and last unit of its piece. */
const findOrigin = ({ pieces }: FoldedText, at: number) => {
  const piece = findPieceBefore(pieces, at)
  if (piece === undefined) return { start: at, end: at + 1, first: true, last: true }
  const inside = at - piece.at
  if (inside < piece.length) {
    return { start: piece.start, end: piece.end, first: inside === 0, last: inside === piece.length - 1 }
  }
  const start = piece.end + inside - piece.length
  return { start, end: start + 1, first: true, last: true }
}

/** Finds `wanted` in a folded text and returns places in the original. A place never begins or ends inside a piece. */
const findInFolded = (
  folded: FoldedText,
  wanted: string
): ReadonlyArray<{ readonly start: number; readonly end: number }> =>
  findOccurrences(folded.text, wanted).flatMap((at) => {
    const head = findOrigin(folded, at)
    const tail = findOrigin(folded, at + wanted.length - 1)
    return head.first && tail.last ? [{ start: head.start, end: tail.end }] : []
  })

const isWord = (char: string | undefined): boolean => char !== undefined && /[\p{L}\p{N}_]/u.test(char)

/** Returns true if a place begins or ends in the middle of a word. */
const isSplittingWord = (text: string, start: number, end: number): boolean =>
  (isWord(text[start - 1]) && isWord(text[start])) || (isWord(text[end - 1]) && isWord(text[end]))

const takeLeadingBlanks = (text: string): string => text.slice(0, text.length - text.trimStart().length)
const takeTrailingBlanks = (text: string): string => text.slice(text.trimEnd().length)

/** Removes the text before and after the quoted text, which is not replaced, from a replacement. */
const trimReplacement = (replacement: string, before: string, after: string): string => {
  const head = replacement.startsWith(before) ? replacement.slice(before.length) : replacement.trimStart()
  return head.endsWith(after) ? head.slice(0, head.length - after.length) : head.trimEnd()
}

/**
 * Fits a replacement to a place that begins at the first word of a line: its lines are indented like the matched lines.
 * A replacement in the middle of a line is unchanged.
 */
const moveLines = (source: Source, wanted: string, start: number): ((replacement: string) => string) => {
  const body = wanted.replace(/^(?:[^\S\n]*\n)+/, "")
  const written = body.split("\n")
  const first = findLineNumber(source, start) - 1
  const found = source.lines.slice(first, first + written.length).map(({ text }) => text)
  const opening = source.text.slice(source.lines[first]?.start ?? 0, start)
  if (opening.trim() !== "") return returnAsIs
  const move = Indent.makeIndentAdapter(written, found)
  return (replacement) => {
    const moved = move(takeLeadingBlanks(body) + replacement)
    return moved.startsWith(opening) ? moved.slice(opening.length) : replacement
  }
}

const blanks = /[^\S\n]+/g
const blanksBefore = (text: string): string => /^[^\S\n]*/.exec(text)?.[0] ?? ""
const blanksAfter = (text: string): string => text.slice(text.replace(/(?<![^\S\n])[^\S\n]+$/, "").length)

/**
 * Matches any number of whitespace characters, at least one, between words. Whitespace at both ends of the quoted text
 * must be present too, and is preserved.
 */
export const matchWhitespaceNormalised: Matcher = (source, wanted) => {
  if (wanted.trim() === "") return []
  const [before, after] = [blanksBefore(wanted), blanksAfter(wanted)]
  const folded = foldText(source.text, blanks, () => " ")
  return findInFolded(folded, wanted.replace(blanks, " ")).flatMap((place): ReadonlyArray<Match> => {
    const found = source.text.slice(place.start, place.end)
    const start = place.start + blanksBefore(found).length
    const end = place.end - blanksAfter(found).length
    if (isSplittingWord(source.text, start, end)) return []
    const move = moveLines(source, wanted, start)
    return [{ start, end, adapt: (replacement) => move(trimReplacement(replacement, before, after)) }]
  })
}

const escapes: ReadonlyMap<string, string> = new Map([
  ["\\n", "\n"],
  ["\\r", "\r"],
  ["\\t", "\t"],
  ['\\"', '"'],
  ["\\'", "'"],
  ["\\`", "`"],
  ["\\$", "$"],
  ["\\\\", "\\"]
])
const escape = /\\[nrt"'`$\\]/g

/**
 * Matches the unescaped form of a quoted text that was escaped once too often. The same kinds of escapes are removed
 * from the replacement.
 */
export const matchEscapeNormalised: Matcher = (source, wanted) => {
  const kinds = new Set(wanted.match(escape) ?? [])
  if (kinds.size === 0) return []
  const unescape = (text: string): string =>
    text.replace(escape, (found) => (kinds.has(found) ? (escapes.get(found) ?? found) : found))
  return matchExact(source, unescape(wanted)).map((match) => ({ ...match, adapt: unescape }))
}

/** Ignores whitespace and blank lines at both ends of the quoted text. */
export const matchTrimmedBoundary: Matcher = (source, wanted) => {
  const core = wanted.trim()
  if (core === "" || core === wanted) return []
  return matchExact(source, core).flatMap(({ start, end }): ReadonlyArray<Match> =>
    isSplittingWord(source.text, start, end)
      ? []
      : [
          {
            start,
            end,
            adapt: (replacement) => trimReplacement(replacement, takeLeadingBlanks(wanted), takeTrailingBlanks(wanted))
          }
        ]
  )
}

const typographic: ReadonlyMap<string, string> = new Map([
  ...Array.from("\u2018\u2019\u201A\u201B\u2032", (char) => [char, "'"] as const),
  ...Array.from("\u201C\u201D\u201E\u201F\u2033\u00AB\u00BB", (char) => [char, '"'] as const),
  ...Array.from("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", (char) => [char, "-"] as const),
  ...Array.from("\u200B\u200C\u200D\u2060\uFEFF", (char) => [char, ""] as const)
])
const notAscii = /[^\0-\x7F]/gu
const toPlainCharacter = (char: string): string => typographic.get(char) ?? char.normalize("NFKD")

/** Matches typographic quotes, dashes, spaces and composed characters as their plain form. */
export const matchUnicodeNormalised: Matcher = (source, wanted) => {
  const plain = wanted.replace(notAscii, toPlainCharacter)
  if (plain.trim() === "" || (plain === wanted && source.text.search(notAscii) === -1)) return []
  return findInFolded(foldText(source.text, notAscii, toPlainCharacter), plain).map((place) => ({
    ...place,
    adapt: returnAsIs
  }))
}

// Matchers that compare whole lines. Each finds blocks with as many lines as the quoted text. Pure.

/** Creates, for the quoted lines, a test for whether the block of lines from `first` on matches. */
type Accepts = (wanted: ReadonlyArray<Line>) => (found: ReadonlyArray<Line>, first: number) => boolean

const makeBlockMatcher =
  (accepts: Accepts): Matcher =>
  (source, text) => {
    const wanted = toSource(text).lines
    const matches: Array<Match> = []
    if (wanted.every(({ trimmed }) => trimmed === "")) return matches
    const accepted = accepts(wanted)
    for (let first = 0; first + wanted.length <= source.lines.length; first++) {
      if (accepted(source.lines, first)) matches.push(makeBlockMatch(source, wanted, first, text.endsWith("\n")))
    }
    return matches
  }

const makeBlockMatch = (source: Source, wanted: ReadonlyArray<Line>, first: number, closed: boolean): Match => ({
  ...locateLines(source, first, wanted.length, closed),
  adapt: Indent.makeIndentAdapter(
    wanted.map(({ text }) => text),
    source.lines.slice(first, first + wanted.length).map(({ text }) => text)
  )
})

const acceptEveryLine =
  (same: (found: Line, wanted: Line) => boolean): Accepts =>
  (wanted) =>
  (found, first) =>
    wanted.every((line, index) => {
      const other = found[first + index]
      return other !== undefined && same(other, line)
    })

/** Ignores whitespace at both ends of each line. */
export const matchLineTrimmed: Matcher = makeBlockMatcher(
  acceptEveryLine((found, wanted) => found.trimmed === wanted.trimmed)
)

const collapseBlanks = (text: string): string => text.replace(/\s+/g, " ")

/** Ignores indentation and the amount of whitespace between words. */
export const matchIndentationFlexible: Matcher = makeBlockMatcher(
  acceptEveryLine(
    (found, wanted) =>
      found.trimmed === wanted.trimmed || collapseBlanks(found.trimmed) === collapseBlanks(wanted.trimmed)
  )
)

const maxCompared = 400

/** Returns the similarity of two lines, from 0 to 1. Only the beginning of long lines is compared. */
const computeLikeness = (a: Line, b: Line): number =>
  a.trimmed === b.trimmed ? 1 : similarity(a.trimmed.slice(0, maxCompared), b.trimmed.slice(0, maxCompared))

/** Returns true if a line is distinctive: a lone bracket or a blank line is not. */
const isTelling = ({ trimmed }: Line): boolean => /[\p{L}\p{N}].*[\p{L}\p{N}]/u.test(trimmed)

/** Minimum mean similarity of the lines between two anchors. */
const anchored = 0.7

/**
 * Matches at least three lines if the first and the last line are equal, at least one of them is distinctive, and the
 * lines between are similar.
 */
export const matchBlockAnchor: Matcher = makeBlockMatcher((wanted) => {
  const [head, tail] = [wanted[0], wanted[wanted.length - 1]]
  if (wanted.length < 3 || head === undefined || tail === undefined || (!isTelling(head) && !isTelling(tail)))
    return () => false
  return (found, first) => {
    const end = found[first + wanted.length - 1]
    if (found[first]?.trimmed !== head.trimmed || end?.trimmed !== tail.trimmed) return false
    let sum = 0
    for (let index = 1; index < wanted.length - 1; index++) {
      const [a, b] = [found[first + index], wanted[index]]
      if (a !== undefined && b !== undefined) sum += computeLikeness(a, b)
    }
    return sum / (wanted.length - 2) >= anchored
  }
})

/** Maximum share of distinctive lines that may differ, and the minimum similarity of those lines. */
const mayDiffer = 0.25
const otherLikeness = 0.5

/** Matches at least four distinctive lines if three quarters of them are equal and the others are similar. */
export const matchContextAware: Matcher = makeBlockMatcher((wanted) => {
  const counted = wanted.flatMap((line, index) => (isTelling(line) ? [{ line, index }] : []))
  if (counted.length < 4) return () => false
  const allowed = Math.floor(counted.length * mayDiffer)
  return (found, first) => {
    let different = 0
    for (const { index, line } of counted) {
      if (found[first + index]?.trimmed !== line.trimmed && ++different > allowed) return false
    }
    return counted.every(({ index, line }) => {
      const other = found[first + index]
      return other !== undefined && computeLikeness(other, line) >= otherLikeness
    })
  }
})

interface Step {
  readonly name: string
  readonly find: Matcher
  /** True if the rule may replace several places at once. */
  readonly several: boolean
}

/** The rules, from strictest to loosest. */
const steps = [
  { name: "exact", find: matchExact, several: true },
  { name: "line_trimmed", find: matchLineTrimmed, several: true },
  { name: "whitespace_normalized", find: matchWhitespaceNormalised, several: true },
  { name: "indentation_flexible", find: matchIndentationFlexible, several: true },
  { name: "escape_normalized", find: matchEscapeNormalised, several: true },
  { name: "trimmed_boundary", find: matchTrimmedBoundary, several: false },
  { name: "unicode_normalized", find: matchUnicodeNormalised, several: true },
  { name: "block_anchor", find: matchBlockAnchor, several: false },
  { name: "context_aware", find: matchContextAware, several: false }
] as const satisfies ReadonlyArray<Step>

/** Result of a replacement. */
interface Replacement {
  readonly text: string
  readonly count: number
  /** Name of the rule that found the text. */
  readonly step: (typeof steps)[number]["name"]
}

/** Reason why a replacement is refused. */
export type ReplacementRefusal =
  | { readonly _tag: "Empty" }
  | { readonly _tag: "Unchanged" }
  /**
   * `closest` is the line of the text that is most similar to the first distinctive quoted line. `applied` is true if
   * the text already contains the replacement. `applied`: the text already contains the replacement.
   */
  | { readonly _tag: "NotFound"; readonly closest: number | undefined; readonly applied: boolean }
  | { readonly _tag: "Ambiguous"; readonly lines: ReadonlyArray<number>; readonly step: Replacement["step"] }

/** A requested replacement. */
interface Request {
  readonly wanted: string
  readonly replacement: string
  readonly replaceAll: boolean
}

const maxShown = 10
/** Minimum length of a replacement for which finding it in the text is significant. */
const minTelling = 8
/** Limits of the search for a similar line: lines of the text, and characters of each line. */
const maxCandidates = 10_000
const maxClosest = 80

/** Returns the number of the line most similar to the first distinctive quoted line, starting at 1. */
const findClosestLine = ({ lines }: Source, wanted: string): number | undefined => {
  const key = toSource(wanted)
    .lines.find(({ trimmed }) => trimmed.length > 2)
    ?.trimmed.slice(0, maxClosest)
  if (key === undefined || lines.length > maxCandidates) return undefined
  let best: { readonly line: number; readonly score: number } | undefined
  for (const [index, { trimmed }] of lines.entries()) {
    const line = trimmed.slice(0, maxClosest)
    // Lines of very different length cannot be similar enough, so they are not compared.
    if (Math.min(line.length, key.length) < 0.6 * Math.max(line.length, key.length)) continue
    const score = similarity(line, key)
    if (score >= 0.6 && (best === undefined || score > best.score)) best = { line: index + 1, score }
  }
  return best?.line
}

const removeOverlaps = (matches: ReadonlyArray<Match>): ReadonlyArray<Match> => {
  let end = 0
  return matches.filter((match) => {
    if (match.start < end) return false
    end = match.end
    return true
  })
}

const applyMatches = (text: string, matches: ReadonlyArray<Match>, replacement: string): string => {
  const pieces: Array<string> = []
  let end = 0
  for (const match of matches) {
    pieces.push(text.slice(end, match.start), match.adapt(replacement))
    end = match.end
  }
  return pieces.join("") + text.slice(end)
}

/** Number of characters from which other fibers run between two steps. */
const longText = 65_536

/** Replaces a text that a model quoted from memory. Lets other fibers run between its steps if the text is long. */
export const replace = Effect.fnUntraced(function* (
  text: string,
  { wanted, replacement, replaceAll }: Request
): Effect.fn.Return<Result.Result<Replacement, ReplacementRefusal>> {
  if (wanted === "") return Result.fail({ _tag: "Empty" })
  if (wanted === replacement) return Result.fail({ _tag: "Unchanged" })
  const source = toSource(text)
  for (const { name, find, several } of steps) {
    if (text.length >= longText) yield* Effect.yieldNow
    const found = find(source, wanted)
    if (found.length === 0) continue
    if (found.length > 1 && !(replaceAll && several)) {
      const lines = found.slice(0, maxShown).map(({ start }) => findLineNumber(source, start))
      return Result.fail({ _tag: "Ambiguous", lines, step: name })
    }
    const matches = removeOverlaps(found)
    const next = applyMatches(text, matches, replacement)
    return next === text
      ? Result.fail({ _tag: "Unchanged" })
      : Result.succeed({ text: next, count: matches.length, step: name })
  }
  return Result.fail({
    _tag: "NotFound",
    closest: findClosestLine(source, wanted),
    applied: replacement.trim().length >= minTelling && text.includes(replacement)
  })
})
