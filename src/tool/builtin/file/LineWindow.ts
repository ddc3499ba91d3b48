/**
 * A window of numbered lines out of a stream of bytes, in memory that depends on the window and not on the file.
 *
 * **Details**
 *
 * A line is its number, right-aligned to six columns, a bar and the text: `     1|text`. Six columns keep the text of a
 * file of up to 999 999 lines aligned, so that the model sees the indentation as it is. A line keeps its line end only if
 * it has one: a missing final newline shows. CRLF is shown as LF, a byte order mark is not shown, bytes that are not
 * UTF-8 show as U+FFFD. Lines before and after the window are only counted.
 *
 * Source: `hermes-product.md` §2.3 (`N|text`); the observability document prints the result of a read.
 */

import { redactStart } from "../../../domain/Redaction.ts"

/** Range of lines, and the bounds of each. */
export interface Options {
  /** Number of the first line, from 1. */
  readonly offset: number
  readonly limit: number
  /** Characters of the numbered text at most; beyond, `overflow` is set and the rest is only counted. */
  readonly maxChars: number
  /** Characters of one line at most; the rest is left out and marked. */
  readonly maxLineChars: number
  /** `Redaction.RedactSecrets`: a line is redacted before it is cut. */
  readonly redact: boolean
}

/** Lines that were read. */
export interface Window {
  readonly content: string
  /** Lines in `content`. */
  readonly shown: number
  readonly totalLines: number
  readonly overflow: boolean
  /** Numbers of the lines that were cut. */
  readonly cut: ReadonlyArray<number>
  /** True when a shown line has bytes that are not UTF-8. */
  readonly invalid: boolean
}

/** Takes the bytes piece by piece; a piece may be reused by the caller afterwards. */
export interface Reader {
  readonly push: (bytes: Uint8Array) => void
  readonly end: () => Window
}

const newline = 0x0a
const exact = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const lenient = new TextDecoder("utf-8", { ignoreBOM: true })
/** A UTF-16 unit takes three bytes of UTF-8 at most; one more character tells a cut line from a whole one. */
const bytesFor = (chars: number): number => chars * 3 + 4

const numbered = (line: number, text: string): string => `${String(line).padStart(6)}|${text}`

/** A window of numbered lines out of a stream of bytes, in memory that depends on the window and not on the file. */
export const make = ({ offset, limit, maxChars, maxLineChars, redact }: Options): Reader => {
  const last = offset + limit - 1
  const kept = new Uint8Array(bytesFor(maxLineChars))
  const lines: Array<string> = []
  const cut: Array<number> = []
  let chars = 0
  let overflow = false
  let invalid = false
  /** The line that is being read, its bytes kept so far, and how many bytes it has. */
  let current = 1
  let held = 0
  let length = 0
  let endsWithNewline = false

  const decode = (bytes: Uint8Array): string => {
    try {
      return exact.decode(bytes)
    } catch {
      // A line that is longer than what was kept may have been cut inside a character: that alone is not invalid.
      invalid ||= length <= kept.length
      return lenient.decode(bytes)
    }
  }

  const finish = (): void => {
    if (current >= offset && current <= last && !overflow) {
      let text = decode(kept.subarray(0, held))
      if (current === 1 && text.startsWith("\uFEFF")) text = text.slice(1)
      if (text.endsWith("\r")) text = text.slice(0, -1)
      if (text.length > maxLineChars) {
        const start = redact ? redactStart(text, maxLineChars) : text.slice(0, maxLineChars)
        text = `${start.replace(/[\uD800-\uDBFF]$/, "")}… [line cut: ${length} bytes]`
        cut.push(current)
      }
      const line = numbered(current, text)
      chars += line.length + 1
      if (chars > maxChars) overflow = true
      else lines.push(line)
    }
    current++
    held = 0
    length = 0
  }

  const keep = (bytes: Uint8Array, from: number, to: number): void => {
    if (current >= offset && current <= last) {
      const room = Math.min(to - from, kept.length - held)
      kept.set(bytes.subarray(from, from + room), held)
      held += room
    }
    length += to - from
  }

  return {
    push: (bytes) => {
      let from = 0
      for (let at = bytes.indexOf(newline); at !== -1; at = bytes.indexOf(newline, from)) {
        keep(bytes, from, at)
        finish()
        from = at + 1
      }
      keep(bytes, from, bytes.length)
      if (bytes.length > 0) endsWithNewline = from === bytes.length
    },
    end: () => {
      if (length > 0) finish()
      const totalLines = current - 1
      const closed = lines.length > 0 && (offset + lines.length - 1 < totalLines || endsWithNewline)
      return {
        content: lines.join("\n") + (closed ? "\n" : ""),
        shown: lines.length,
        totalLines,
        overflow,
        cut,
        invalid
      }
    }
  }
}
