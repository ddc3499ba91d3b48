/**
 * What the matchers of `patch` speak of: a text cut into lines once, places in it, and how a replacement fits a place.
 * Pure.
 *
 * @since 0.1.0
 */

/** A line without its line end, and where it stands in the text. */
export interface Line {
  readonly text: string
  readonly trimmed: string
  readonly start: number
  readonly end: number
}

/** A text and its lines. */
export interface Source {
  readonly text: string
  readonly lines: ReadonlyArray<Line>
}

/** A place in a text. `adapt` makes a replacement written for the wanted text fit the one that is there. */
export interface Match {
  readonly start: number
  readonly end: number
  readonly adapt: (replacement: string) => string
}

/** Every place, overlapping ones included, where a text is found by one rule. */
export type Matcher = (source: Source, wanted: string) => ReadonlyArray<Match>

/** A replacement as it is. */
export const asIs = (replacement: string): string => replacement

/** The lines of a text. A final line end does not begin another line. */
export const sourceOf = (text: string): Source => {
  const lines: Array<Line> = []
  for (let start = 0; start < text.length;) {
    const newline = text.indexOf("\n", start)
    const end = newline === -1 ? text.length : newline
    const line = text.slice(start, end)
    lines.push({ text: line, trimmed: line.trim(), start, end })
    start = end + 1
  }
  return { text, lines }
}

/** Every place where `wanted` stands in `text`, overlapping ones included. */
export const occurrences = (text: string, wanted: string): ReadonlyArray<number> => {
  const found: Array<number> = []
  if (wanted === "") return found
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + 1)) found.push(at)
  return found
}

/** The place of `count` lines from line `first` on, with the last line end if `closed`. */
export const linesAt = ({ text, lines }: Source, first: number, count: number, closed: boolean): {
  readonly start: number
  readonly end: number
} => {
  const end = lines[first + count - 1]?.end ?? text.length
  return { start: lines[first]?.start ?? text.length, end: closed && text[end] === "\n" ? end + 1 : end }
}

/** Number of the line, from 1, that a place begins in. */
export const lineNumber = ({ lines }: Source, at: number): number => {
  let low = 0
  let high = lines.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((lines[middle]?.end ?? 0) < at) low = middle + 1
    else high = middle
  }
  return low + 1
}
