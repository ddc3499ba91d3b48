/**
 * The lines of one file that match, out of a stream of its bytes.
 *
 * **Details**
 *
 * Lines are put together from pieces; a line of which more than `maxKept` characters were read keeps only its beginning.
 *
 * @since 0.1.0
 */
import { maxLineChars } from "./Pattern.ts"
import type { Pattern } from "./Pattern.ts"

/** A line that matches, with the lines around it. */
export interface Hit {
  readonly line: number
  readonly content: string
  readonly before: ReadonlyArray<string>
  readonly after: Array<string>
}

/** What is wanted of a file. */
export interface Options {
  readonly pattern: Pattern
  /** Lines before and after a hit. */
  readonly context: number
  /** Matches after which the rest of the file is not looked at. */
  readonly maxMatches: number
  /** Whether the matching lines are wanted, or only how many there are. */
  readonly keepLines: boolean
}

/** What was found. `tooSlow` is the line from which on matching took too long. */
export interface Found {
  readonly count: number
  readonly hits: ReadonlyArray<Hit>
  readonly tooSlow: number | undefined
}

/** Takes the bytes piece by piece; `push` answers whether there is more to look for. */
export interface Scanner {
  readonly push: (bytes: Uint8Array) => boolean
  readonly end: () => Found
}

/** Characters of a line that are shown. */
const shown = 400
const maxKept = maxLineChars

const withoutReturn = (line: string): string => line.endsWith("\r") ? line.slice(0, -1) : line

/** A line as it is shown: of a long one the part around `at`. */
const clip = (line: string, at: number): string => {
  if (line.length <= shown) return line
  const from = Math.max(0, Math.min(at - (shown >> 2), line.length - shown))
  const to = Math.min(line.length, from + shown)
  return `${from > 0 ? "…" : ""}${line.slice(from, to)}${to < line.length ? "…" : ""}`
}

/** See the module. */
export const make = ({ context, keepLines, maxMatches, pattern }: Options): Scanner => {
  const decoder = new TextDecoder()
  const hits: Array<Hit> = []
  let count = 0
  /** Lines before `rest`. */
  let passed = 0
  /** The beginning of a line whose end was not read yet. */
  let rest = ""
  let recent: ReadonlyArray<string> = []
  let open: Array<Hit> = []
  let tooSlow: number | undefined

  const hit = (lines: ReadonlyArray<string>, index: number): void => {
    count++
    if (!keepLines) return
    const line = lines[index] ?? ""
    const before = context === 0 ? [] : [...recent, ...lines.slice(Math.max(0, index - context), index)].slice(-context)
    const found: Hit = {
      line: passed + index + 1,
      content: clip(line, pattern.indexIn(line)),
      before: before.map((line) => clip(line, 0)),
      after: []
    }
    hits.push(found)
    if (context > 0) open.push(found)
  }

  /** Gives the lines that follow hits to them. */
  const follow = (line: string, number: number): void => {
    for (const each of open) if (each.line < number) each.after.push(clip(line, 0))
    open = open.filter(({ after }) => after.length < context)
  }

  const done = (): boolean => tooSlow !== undefined || count >= maxMatches && open.length === 0

  const take = (lines: ReadonlyArray<string>): void => {
    const matching = pattern.matching(lines)
    if (matching === undefined) {
      tooSlow = passed + 1
      return
    }
    let next = 0
    if (context === 0) {
      for (const index of matching) if (count < maxMatches) hit(lines, index)
    } else {
      for (const [index, line] of lines.entries()) {
        follow(line, passed + index + 1)
        if (matching[next] !== index) continue
        next++
        if (count < maxMatches) hit(lines, index)
      }
      recent = [...recent, ...lines].slice(-context)
    }
    passed += lines.length
  }

  const add = (text: string): void => {
    const last = text.lastIndexOf("\n")
    if (last === -1) {
      if (rest.length < maxKept) rest += text
      return
    }
    const whole = rest + text.slice(0, last)
    rest = text.slice(last + 1)
    take(whole.split("\n").map(withoutReturn))
  }

  return {
    push: (bytes) => {
      add(decoder.decode(bytes, { stream: true }))
      return !done()
    },
    end: () => {
      rest += decoder.decode()
      if (rest !== "" && !done()) take([withoutReturn(rest)])
      return { count, hits, tooSlow }
    }
  }
}
