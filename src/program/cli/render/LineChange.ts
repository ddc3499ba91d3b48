/**
 * Escape sequences that turn drawn lines into other lines. Only the changed parts are written, because a spinner or a
 * growing paragraph changes a few characters at a time, and a connection may be slow. Pure.
 */
import * as Paint from "./Paint.ts"
import * as Width from "./Width.ts"
import { clearBelow, moveRows, moveToColumn, moveBack } from "./Cursor.ts"

const reset = "\u001b[0m"

const clearLine = "\u001b[K"

const measureWidth = (text: string): number => Width.measure(Paint.strip(text))

/** Returns the length of the common beginning of two lines, at which no style is active. */
const findCommonStart = (before: string, after: string): number => {
  let end = 0
  while (end < before.length && end < after.length && before[end] === after[end]) end++
  // `lastIndexOf` searches at 0 for a negative position.
  if (end === 0) return 0
  // A space is never a part of a longer character.
  const start = after.lastIndexOf(" ", end - 1) + 1
  const common = after.slice(0, start)
  if (common.includes("\u001b]")) return 0
  const style = common.lastIndexOf("\u001b[")
  return style === -1 || common.startsWith(reset, style) ? start : style
}

/** Returns the length of the common end of two lines after a common beginning; it follows the end of a style. */
const findCommonEnd = (before: string, after: string, start: number): number => {
  const most = Math.min(before.length, after.length) - start
  let length = 0
  while (length < most && before.at(-1 - length) === after.at(-1 - length)) length++
  const end = after.indexOf(reset, Math.max(start, after.length - length - reset.length))
  return end === -1 ? 0 : Math.max(0, after.length - end - reset.length)
}

/** Text whose width is the same on every terminal: ASCII, and the frames of a spinner. */
const certain = /^[\u0020-\u007e\u2800-\u28ff]*$/u

/** Part of a line to write, and its column. */
interface Piece {
  readonly column: number
  readonly text: string
  readonly clear: string
}

/** Returns what to write in order to change one line into another. */
const findPiece = (before: string, after: string): Piece => {
  const start = findCommonStart(before, after)
  const end = findCommonEnd(before, after, start)
  const [old, next] = [before.slice(start, before.length - end), after.slice(start, after.length - end)]
  const column = measureWidth(after.slice(0, start))
  if (end > 0 && end <= before.length - start && measureWidth(old) === measureWidth(next))
    return { column, text: next, clear: "" }
  const text = after.slice(start)
  return { column, text, clear: measureWidth(text) < measureWidth(before.slice(start)) ? clearLine : "" }
}

/** Drawn lines, and the position of the cursor in them. */
export interface DrawnText {
  readonly lines: ReadonlyArray<string>
  readonly row: number
  readonly column: number
}

/** Text to write, and the position of the cursor after it. */
export interface WrittenChange {
  readonly text: string
  readonly row: number
  readonly column: number
  /** True if every terminal agrees on the column. */
  readonly isCertain: boolean
}

/**
 * Changes drawn lines into other lines. A visible cursor moves to its position; a hidden one remains where the last
 * change ends, so that the next frame of a spinner takes a few bytes. No line may be as wide as the terminal.
 */
export const changeLines = (
  before: DrawnText & { readonly isCertain?: boolean },
  after: DrawnText,
  isVisible = true
): WrittenChange => {
  let out = ""
  let at = before.row
  let column = before.column
  let isCertain = before.isCertain === true
  const moveTo = (row: number, to: number): void => {
    out += moveRows(row - at)
    if (column !== to || !isCertain) {
      const back = isCertain && to < column ? moveBack(column - to) : undefined
      const whole = moveToColumn(to)
      out += back !== undefined && back.length < whole.length ? back : whole
    }
    at = row
    column = to
    isCertain = true
  }
  const write = (text: string): void => {
    out += text
    column += measureWidth(text)
    isCertain = isCertain && certain.test(Paint.strip(text))
  }
  for (const [row, line] of after.lines.entries()) {
    const old = before.lines[row]
    if (old === line) continue
    if (old === undefined) {
      out += `${moveRows(row - 1 - at)}\n\r`
      at = row
      column = 0
      isCertain = true
      write(line)
    } else {
      const piece = findPiece(old, line)
      moveTo(row, piece.column)
      write(piece.text)
      out += piece.clear
    }
  }
  if (after.lines.length < before.lines.length) {
    moveTo(after.lines.length, 0)
    out += clearBelow
    // Below the last line there is nothing to change.
    moveTo(after.lines.length - 1, 0)
  }
  if (isVisible) moveTo(after.row, after.column)
  return { text: out, row: at, column, isCertain }
}
