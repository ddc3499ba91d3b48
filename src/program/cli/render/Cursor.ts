/** The cursor of the terminal: escape sequences that move it, and its position after text is written. */
import * as Paint from "./Paint.ts"
import * as Width from "./Width.ts"

/** Erases everything below the cursor. */
export const clearBelow = "\u001b[J"

/** Moves the cursor by rows; negative numbers move it up. */
export const moveRows = (rows: number): string => (rows === 0 ? "" : rows < 0 ? `\u001b[${-rows}A` : `\u001b[${rows}B`)

/** Moves the cursor to a column of its row. */
export const moveToColumn = (column: number): string => (column > 0 ? `\r\u001b[${column}C` : "\r")

/** Moves left by a few columns. */
export const moveBack = (columns: number): string => (columns < 4 ? "\b".repeat(columns) : `\u001b[${columns}D`)

export const hideCursor = "\u001b[?25l"

export const showCursor = "\u001b[?25h"

export const moveUp = (rows: number): string => (rows > 0 ? `\u001b[${rows}A` : "")

/** Number of rows by which text moves the cursor, and the column of the cursor after it. */
interface CursorAdvance {
  readonly rows: number
  readonly column: number
}

export const measureLineAdvance = (from: number, line: string, columns: number): CursorAdvance => {
  let column = from
  let rows = 0
  for (const part of Paint.strip(line).split(/(\t)/)) {
    if (part === "\t") column = Math.min(columns, (Math.floor(column / 8) + 1) * 8)
    else {
      for (const { width } of Width.splitGraphemes(part)) {
        if (column + width > columns) {
          rows++
          column = width
        } else column += width
      }
    }
  }
  return { rows, column }
}

/** Computes the cursor position after text is written. Rows are counted only if marks are in use. */
export const measureAdvance = (from: number, text: string, columns: number, counting: boolean): CursorAdvance => {
  if (!counting) {
    const line = text.slice(text.lastIndexOf("\n") + 1)
    return { rows: 0, column: measureLineAdvance(line.length === text.length ? from : 0, line, columns).column }
  }
  const lines = text.split("\n")
  let rows = lines.length - 1
  let column = from
  for (const [index, line] of lines.entries()) {
    const advance = measureLineAdvance(index === 0 ? from : 0, line, columns)
    rows += advance.rows
    column = advance.column
  }
  return { rows, column }
}
