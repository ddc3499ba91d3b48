/**
 * Texts and matches for the matchers of `patch`: a text split into lines once, positions in it, and the adaptation of a
 * replacement to a match. Pure.
 */

// Changes the indentation of a replacement. If the matched lines are indented differently from the quoted lines, the
// replacement was written with the wrong indentation too. Pure.

const readIndent = (line: string): string => line.slice(0, line.length - line.trimStart().length)

/**
 * Pairs each quoted indentation with the indentation found; `undefined` if one quoted indentation corresponds to
 * several.
 */
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

/**
 * Maps the indentation `from`: directly if it is known, otherwise by the longest known indentation that it starts or
 * ends with.
 */
const mapIndent = (from: string, known: ReadonlyMap<string, string>): string => {
  const direct = known.get(from)
  if (direct !== undefined) return direct
  let best: readonly [string, string] | undefined
  for (const pair of known) {
    if (from.startsWith(pair[0]) && (best === undefined || pair[0].length > best[0].length)) best = pair
  }
  if (best !== undefined) return best[1] + from.slice(best[0].length)
  for (const [written, found] of known) {
    // The line is indented less than every quoted line, so the same leading whitespace is removed or added.
    if (written.endsWith(found) && from.startsWith(written.slice(0, written.length - found.length))) {
      return from.slice(written.length - found.length)
    }
    if (found.endsWith(written)) return found.slice(0, found.length - written.length) + from
  }
  return from
}

/** Creates a function that adapts a replacement, written with the indentation of `written`, to the lines `found`. */
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

/** A line without its line ending, and its position in the text. */
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

/** A place in a text. `adapt` fits a replacement written for the quoted text to the matched text. */
export interface Match {
  readonly start: number
  readonly end: number
  readonly adapt: (replacement: string) => string
}

/** Finds every place where one rule matches a text, including overlapping places. */
export type Matcher = (source: Source, wanted: string) => ReadonlyArray<Match>

/** Returns a replacement unchanged. */
export const returnAsIs = (replacement: string): string => replacement

/** Splits a text into lines. A final line ending does not begin another line. */
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

/** Returns the place of `count` lines from line `first` on, including the last line ending if `closed` is true. */
export const locateLines = (
  { text, lines }: Source,
  first: number,
  count: number,
  closed: boolean
): { readonly start: number; readonly end: number } => {
  const end = lines[first + count - 1]?.end ?? text.length
  return { start: lines[first]?.start ?? text.length, end: closed && text[end] === "\n" ? end + 1 : end }
}

/** Returns the number of the line in which a place begins, starting at 1. */
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
