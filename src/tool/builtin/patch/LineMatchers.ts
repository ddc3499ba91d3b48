/**
 * Matchers that compare whole lines. Each finds blocks of as many lines as are wanted. Pure.
 *
 * @since 0.1.0
 */
import { similarity } from "../../../domain/Similarity.ts"
import * as Indent from "./Indent.ts"
import { linesAt, sourceOf } from "./Match.ts"
import type { Line, Match, Matcher, Source } from "./Match.ts"

/** Of the wanted lines: whether the block of lines from `first` on is what is wanted. */
type Accepts = (wanted: ReadonlyArray<Line>) => (found: ReadonlyArray<Line>, first: number) => boolean

const blocks = (accepts: Accepts): Matcher => (source, text) => {
  const wanted = sourceOf(text).lines
  const matches: Array<Match> = []
  if (wanted.every(({ trimmed }) => trimmed === "")) return matches
  const accepted = accepts(wanted)
  for (let first = 0; first + wanted.length <= source.lines.length; first++) {
    if (accepted(source.lines, first)) matches.push(blockAt(source, wanted, first, text.endsWith("\n")))
  }
  return matches
}

const blockAt = (source: Source, wanted: ReadonlyArray<Line>, first: number, closed: boolean): Match => ({
  ...linesAt(source, first, wanted.length, closed),
  adapt: Indent.adapter(
    wanted.map(({ text }) => text),
    source.lines.slice(first, first + wanted.length).map(({ text }) => text)
  )
})

const every = (same: (found: Line, wanted: Line) => boolean): Accepts => (wanted) => (found, first) =>
  wanted.every((line, index) => {
    const other = found[first + index]
    return other !== undefined && same(other, line)
  })

/** Blanks at both ends of each line are not compared. */
export const lineTrimmed: Matcher = blocks(every((found, wanted) => found.trimmed === wanted.trimmed))

const collapse = (text: string): string => text.replace(/\s+/g, " ")

/** Indentation is not compared, and neither is how many blanks stand between words. */
export const indentationFlexible: Matcher = blocks(
  every((found, wanted) => found.trimmed === wanted.trimmed || collapse(found.trimmed) === collapse(wanted.trimmed))
)

const maxCompared = 400

/** How alike two lines are, 0 to 1; of long lines the beginning counts. */
const alike = (a: Line, b: Line): number =>
  a.trimmed === b.trimmed ? 1 : similarity(a.trimmed.slice(0, maxCompared), b.trimmed.slice(0, maxCompared))

/** Whether a line tells its place: a lone bracket or a blank line does not. */
const telling = ({ trimmed }: Line): boolean => /[\p{L}\p{N}].*[\p{L}\p{N}]/u.test(trimmed)

/** Mean likeness that the lines between two anchors must have. */
const anchored = 0.7

/** The first and the last of at least three lines are the same and at least one tells its place; those between are alike. */
export const blockAnchor: Matcher = blocks((wanted) => {
  const [head, tail] = [wanted[0], wanted[wanted.length - 1]]
  if (wanted.length < 3 || head === undefined || tail === undefined || !telling(head) && !telling(tail)) return () => false
  return (found, first) => {
    const end = found[first + wanted.length - 1]
    if (found[first]?.trimmed !== head.trimmed || end?.trimmed !== tail.trimmed) return false
    let sum = 0
    for (let index = 1; index < wanted.length - 1; index++) {
      const [a, b] = [found[first + index], wanted[index]]
      if (a !== undefined && b !== undefined) sum += alike(a, b)
    }
    return sum / (wanted.length - 2) >= anchored
  }
})

/** Share of the telling lines that may differ, and likeness that those must have. */
const mayDiffer = 0.25
const otherLikeness = 0.5

/** At least four telling lines, three quarters of them the same; the others are alike. */
export const contextAware: Matcher = blocks((wanted) => {
  const counted = wanted.flatMap((line, index) => telling(line) ? [{ line, index }] : [])
  if (counted.length < 4) return () => false
  const allowed = Math.floor(counted.length * mayDiffer)
  return (found, first) => {
    let different = 0
    for (const { index, line } of counted) {
      if (found[first + index]?.trimmed !== line.trimmed && ++different > allowed) return false
    }
    return counted.every(({ index, line }) => {
      const other = found[first + index]
      return other !== undefined && alike(other, line) >= otherLikeness
    })
  }
})
