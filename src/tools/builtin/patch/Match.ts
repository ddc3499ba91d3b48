/**
 * Texts and places for the matchers of `patch`: a text cut into lines once, places in it, and how a replacement fits a
 * place. Pure.
 */

// Text written for one indentation moved to another. When the wanted lines were found with other indentation than they
// were written with, the replacement was written with the wrong one too. Pure.

const readIndent = (line: string): string => line.slice(0, line.length - line.trimStart().length)

/** Pairs of indentation, as written and as found; `undefined` where one was found as several. */
const pairIndents = (
  written: ReadonlyArray<string>,
  found: ReadonlyArray<string>
): ReadonlyMap<string, string> | undefined => {
  const map = new Map<string, string>()
  for (const [index, line] of written.entries()) {
    const other = found[index]
    if (line.trim() === "" || other === undefined) continue
    const from = readIndent(line)
    const to = readIndent(other)
    const known = map.get(from)
    if (known !== undefined && known !== to) return undefined
    map.set(from, to)
  }
  return map
}

/** Maps indentation `from`: as a known one, or by the longest known one that it begins with or ends. */
const mapIndent = (from: string, known: ReadonlyMap<string, string>): string => {
  const direct = known.get(from)
  if (direct !== undefined) return direct
  let best: readonly [string, string] | undefined
  for (const pair of known) {
    if (from.startsWith(pair[0]) && (best === undefined || pair[0].length > best[0].length)) best = pair
  }
  if (best !== undefined) return best[1] + from.slice(best[0].length)
  for (const [written, found] of known) {
    // Less indented than every wanted line: takes off, or adds, at its beginning what they lost or gained.
    if (written.endsWith(found) && from.startsWith(written.slice(0, written.length - found.length))) {
      return from.slice(written.length - found.length)
    }
    if (found.endsWith(written)) return found.slice(0, found.length - written.length) + from
  }
  return from
}

/** Adapts a replacement, written with the indentation of `written`, to the lines `found`. */
export const makeIndentAdapter = (
  written: ReadonlyArray<string>,
  found: ReadonlyArray<string>
): ((replacement: string) => string) => {
  const known = pairIndents(written, found)
  if (known === undefined || Array.from(known).every(([from, to]) => from === to)) return (replacement) => replacement
  return (replacement) =>
    replacement
      .split("\n")
      .map((line) => (line.trim() === "" ? line : mapIndent(readIndent(line), known) + line.trimStart()))
      .join("\n")
}

/** A line without its line end, and its position in the text. */
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
export const returnAsIs = (replacement: string): string => replacement

/** The lines of a text. A final line end does not begin another line. */
export const toSource = (text: string): Source => {
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

/** Finds every occurrence of `wanted` in `text`, including overlapping ones. */
export const findOccurrences = (text: string, wanted: string): ReadonlyArray<number> => {
  const found: Array<number> = []
  if (wanted === "") return found
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + 1)) found.push(at)
  return found
}

/** The place of `count` lines from line `first` on, with the last line end if `closed`. */
export const locateLines = (
  { text, lines }: Source,
  first: number,
  count: number,
  closed: boolean
): { readonly start: number; readonly end: number } => {
  const end = lines[first + count - 1]?.end ?? text.length
  return { start: lines[first]?.start ?? text.length, end: closed && text[end] === "\n" ? end + 1 : end }
}

/** Number of the line, from 1, that a place begins in. */
export const findLineNumber = ({ lines }: Source, at: number): number => {
  let low = 0
  let high = lines.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((lines[middle]?.end ?? 0) < at) low = middle + 1
    else high = middle
  }
  return low + 1
}
