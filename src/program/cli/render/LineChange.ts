/**
 * Escape sequences that turn drawn lines into other lines. Only the changed parts are written, because a spinner or a
 * growing paragraph changes a few characters at a time, and a connection may be slow. Pure.
 */
import * as Paint from "./Paint.ts"
import * as Width from "./Width.ts"

const reset = "\u001b[0m"
const clearLine = "\u001b[K"
const clearBelow = "\u001b[J"

const measureWidth = (text: string): number => Width.measure(Paint.strip(text))

/** Moves the cursor by rows; negative numbers move it up. */
const moveRows = (rows: number): string => (rows === 0 ? "" : rows < 0 ? `\u001b[${-rows}A` : `\u001b[${rows}B`)

const moveToColumn = (column: number): string => (column > 0 ? `\r\u001b[${column}C` : "\r")

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

/** Changes one line into another; the cursor is in the row of the line. */
const changeLine = (before: string, after: string): string => {
  const start = findCommonStart(before, after)
  const end = findCommonEnd(before, after, start)
  const [old, next] = [before.slice(start, before.length - end), after.slice(start, after.length - end)]
  const move = moveToColumn(measureWidth(after.slice(0, start)))
  if (end > 0 && end <= before.length - start && measureWidth(old) === measureWidth(next)) return move + next
  const rest = after.slice(start)
  return move + rest + (measureWidth(rest) < measureWidth(before.slice(start)) ? clearLine : "")
}

/** Drawn lines, and the position of the cursor in them. */
export interface DrawnText {
  readonly lines: ReadonlyArray<string>
  readonly row: number
  readonly column: number
}

/** Changes drawn lines into other lines, and moves the cursor. No line may be as wide as the terminal. */
export const changeLines = (before: DrawnText, after: DrawnText): string => {
  let out = ""
  let at = before.row
  const moveToRow = (row: number): void => {
    out += moveRows(row - at)
    at = row
  }
  for (const [row, line] of after.lines.entries()) {
    const old = before.lines[row]
    if (old === line) continue
    if (old === undefined) {
      moveToRow(row - 1)
      out += `\n\r${line}`
      at = row
    } else {
      moveToRow(row)
      out += changeLine(old, line)
    }
  }
  if (after.lines.length < before.lines.length) {
    moveToRow(after.lines.length)
    out += `\r${clearBelow}`
  }
  moveToRow(after.row)
  return out + moveToColumn(after.column)
}
