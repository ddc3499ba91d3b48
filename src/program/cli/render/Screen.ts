/**
 * Output on the terminal: permanent text that scrolls away, and below it a few live lines (a spinner, the prompt) that
 * are redrawn after every change.
 *
 * An answer and the messages about it may go to different streams (stdout and stderr), which may or may not be the same
 * terminal. Live lines are drawn only on a terminal; everything else works the same without a terminal. An answer may
 * end in the middle of a line when live lines are drawn: they start on the next line, and the answer continues at its
 * position.
 *
 * Each call is one synchronous write, so that concurrent output cannot be interleaved.
 *
 * **Gotchas**
 *
 * Text must be sanitized (`SafeText`) before it is written. The only escape sequences allowed are the ones added by
 * `Paint`.
 */
import * as LineChange from "./LineChange.ts"
import * as Paint from "./Paint.ts"
import * as Width from "./Width.ts"

/** One output stream. */
export interface Sink {
  readonly write: (text: string) => void
  readonly terminal: boolean
  readonly paint: Paint.Paint
}

/** Columns and rows of the terminal. */
export interface Size {
  readonly columns: number
  readonly rows: number
}

/** Streams to which text is written. */
export interface Streams {
  readonly answer: Sink
  /** Stream of messages about the answer. */
  readonly aside: Sink
  readonly size: () => Size
}

/**
 * The live lines, which must fit the width of the terminal, and the position of the cursor in them, if it is visible.
 */
export interface Lines {
  readonly lines: ReadonlyArray<string>
  readonly cursor?: { readonly row: number; readonly column: number } | undefined
}

/** Renders the live lines each time they are drawn. */
export type View = (size: Size) => Lines

/** Renders text that is not yet final, in the rows not used by live lines. The text is drawn above the live lines. */
export type Draft = (room: Size) => ReadonlyArray<string>

const renderNoDraft: Draft = () => []

/** View without live lines. */
export const renderNothing: View = () => ({ lines: [] })

const hideCursor = "\u001b[?25l"
const showCursor = "\u001b[?25h"
const clearBelow = "\u001b[J"
/** Synchronised output (DEC 2026): the terminal shows a rewritten screen at once. Other terminals ignore it. */
const beginUpdate = "\u001b[?2026h"
const endUpdate = "\u001b[?2026l"

const moveUp = (rows: number): string => (rows > 0 ? `\u001b[${rows}A` : "")
const moveRight = (columns: number): string => (columns > 0 ? `\u001b[${columns}C` : "")

interface DrawnLines {
  readonly widths: ReadonlyArray<number>
  readonly row: number
  readonly column: number
  /** True if every terminal agrees on the column. */
  readonly isCertain?: boolean
  readonly text: string
  readonly lines: ReadonlyArray<string>
  readonly size: Size
}

/** Position in the text on the terminal; see {@link Screen.takeBack}. */
export interface Mark {
  readonly row: number
  readonly column: number
  readonly size: Size
}

/** The two streams of the program as places for an answer and for messages about it. */
export interface Screen {
  readonly answerPaint: Paint.Paint
  readonly asidePaint: Paint.Paint
  /** True if the answer and messages about it appear on the same terminal. */
  readonly joined: boolean
  readonly size: () => Size
  /** Returns the maximum width of answer lines in columns; `undefined` if the answer does not go to a terminal. */
  readonly answerColumns: () => number | undefined
  readonly asideColumns: () => number | undefined
  /** Writes text of the answer. */
  readonly print: (text: string) => void
  /** Writes text about the answer. */
  readonly say: (text: string) => void
  /** Returns the position of the end of the text; `undefined` if the answer does not go to a terminal. */
  readonly mark: () => Mark | undefined
  /**
   * Erases everything written since a mark. Returns `false` without erasing if a part of that text has scrolled away or
   * the size of the terminal has changed.
   */
  readonly takeBack: (mark: Mark) => boolean
  /** Ends an unfinished line. */
  readonly endLine: () => void
  /** Sets the live lines. */
  readonly live: (view: View) => void
  /** Sets the lines above the live lines, without drawing them. */
  readonly draft: (draft: Draft | undefined) => void
  /** Draws the live lines, if they changed. */
  readonly refresh: () => void
  /** Draws the live lines after the terminal's size changed. */
  readonly redraw: () => void
  /** Clears the terminal but not its scrollback. */
  readonly clear: () => void
  /**
   * Replaces the last `rows` rows with text, except for rows that have scrolled away. Used when the terminal's size or
   * the rendering of the text has changed.
   */
  readonly rewrite: (rows: number, text: string) => void
  /**
   * Replaces the last rows like `rewrite`, for text with unchanged wrapping. Rows that have scrolled away are not
   * written again.
   */
  readonly repaint: (rows: number, text: string) => void
  /** Stops drawing live lines while another view uses the terminal. No text may be written in the meantime. */
  readonly lend: (isLent: boolean) => void
}

/** Number of rows by which text moves the cursor, and the column of the cursor after it. */
interface CursorAdvance {
  readonly rows: number
  readonly column: number
}

const measureLineAdvance = (from: number, line: string, columns: number): CursorAdvance => {
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
const measureAdvance = (from: number, text: string, columns: number, counting: boolean): CursorAdvance => {
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

export const make = ({ answer, aside, size }: Streams): Screen => {
  const terminal = [aside, answer].find((sink) => sink.terminal)
  /** Column at which the text on the terminal ends. */
  let column = 0
  let view = renderNothing
  let draft = renderNoDraft
  let drawn: DrawnLines | undefined
  let hidden = false
  /** Row of the end of the text, counted from the first mark. */
  let row = 0
  let counting = false
  /**
   * The lowest row written since the first mark, including live lines. Rows that are more than the terminal's height
   * above it have scrolled away.
   */
  let lowest = 0
  /** True if the cursor was moved back to a full line, after which the terminal no longer wraps automatically. */
  let returned = false
  let lent = false

  const toggleCursor = (visible: boolean): string => {
    if (hidden !== visible) return ""
    hidden = !visible
    return visible ? showCursor : hideCursor
  }

  /** Moves the cursor to the end of the text, and erases the live lines. */
  const eraseLive = (): string => {
    if (drawn === undefined) return ""
    const { columns } = size()
    // Counts the rows of a line, because a terminal that became narrower has already wrapped the lines.
    const countRows = (width: number): number => Math.max(1, Math.ceil(width / columns))
    let rows = Math.floor(drawn.column / columns)
    for (const width of drawn.widths.slice(0, drawn.row)) rows += countRows(width)
    drawn = undefined
    const begin = `\r${moveUp(rows)}${clearBelow}`
    returned = column >= columns
    return column === 0 ? begin : `${begin}${moveUp(1)}\r${moveRight(Math.min(column, columns - 1))}`
  }

  const layOut = (): {
    readonly lines: ReadonlyArray<string>
    readonly drawn: DrawnLines
    readonly visible: boolean
  } => {
    const { columns, rows } = size()
    const { cursor: below, lines: live } = view({ columns, rows })
    const above = draft({ columns, rows: Math.max(1, rows - live.length - 1) })
    const lines = above.length === 0 ? live : [...above, ...live]
    const cursor = below === undefined ? undefined : { row: above.length + below.row, column: below.column }
    const widths = lines.map((line) => Width.measure(Paint.strip(line)))
    const last = Math.max(0, lines.length - 1)
    const at = cursor ?? { row: last, column: widths[last] ?? 0 }
    return {
      lines,
      drawn: { widths, ...at, text: lines.join("\n"), lines, size: { columns, rows } },
      visible: cursor !== undefined || lines.length === 0
    }
  }

  const drawLines = ({ drawn: next, lines, visible }: ReturnType<typeof layOut>): string => {
    if (lines.length === 0) return toggleCursor(true)
    drawn = next
    lowest = Math.max(lowest, row + lines.length - (column > 0 ? 0 : 1))
    return (
      (column > 0 ? "\n" : "") +
      next.text +
      moveUp(lines.length - 1 - next.row) +
      `\r${moveRight(next.column)}` +
      toggleCursor(visible)
    )
  }

  /** Draws only what changed; `undefined` if the positions of the drawn lines are not certain. */
  const drawChanges = (before: DrawnLines, next: ReturnType<typeof layOut>): string | undefined => {
    const { columns, rows } = next.drawn.size
    const isCertain =
      next.lines.length > 0 &&
      next.lines.length < rows &&
      before.size.columns === columns &&
      before.size.rows === rows &&
      [...before.widths, ...next.drawn.widths].every((width) => width < columns)
    if (!isCertain) return undefined
    const { text, ...at } = LineChange.changeLines(before, next.drawn, next.visible)
    drawn = { ...next.drawn, ...at }
    lowest = Math.max(lowest, row + next.lines.length - (column > 0 ? 0 : 1))
    return text + toggleCursor(next.visible)
  }

  const writeTo = (sink: Sink, text: string): void => {
    if (text === "") return
    if (!sink.terminal) return sink.write(text)
    const { columns } = size()
    const before = eraseLive()
    const next = returned && !text.startsWith("\n") ? `\n${text}` : text
    returned = false
    const advance = measureAdvance(column, next, columns, counting)
    column = advance.column
    row += advance.rows
    lowest = Math.max(lowest, row)
    sink.write(before + next + drawLines(layOut()))
  }

  const refresh = (): void => {
    if (lent) return
    const next = layOut()
    const same =
      drawn === undefined
        ? next.lines.length === 0
        : drawn.text === next.drawn.text &&
          hidden !== next.visible &&
          (hidden || (drawn.row === next.drawn.row && drawn.column === next.drawn.column))
    if (same) return
    const changed = drawn === undefined ? undefined : drawChanges(drawn, next)
    terminal?.write(changed ?? eraseLive() + drawLines(next))
  }

  /** Invalidates the positions of all marks. */
  const forgetMarks = (): void => {
    row = lowest + size().rows
    lowest = row
  }

  /** Redraws after a change of the terminal's size, which invalidates all positions. */
  const redraw = (): void => {
    forgetMarks()
    if (drawn !== undefined && !lent) terminal?.write(eraseLive() + drawLines(layOut()))
  }

  const rewrite = (count: number, text: string): void => {
    const { columns, rows } = size()
    forgetMarks()
    // After an unfinished line, the live lines start on the next line.
    const before = eraseLive()
    const back = count - (column > 0 ? 1 : 0)
    returned = false
    column = measureAdvance(0, text, columns, false).column
    const whole = `${before}\r${moveUp(Math.min(back, rows))}${clearBelow}${text}${drawLines(layOut())}`
    terminal?.write(`${beginUpdate}${whole}${endUpdate}`)
  }

  return {
    answerPaint: answer.paint,
    asidePaint: aside.paint,
    joined: answer.terminal === aside.terminal,
    size,
    answerColumns: () => (answer.terminal ? size().columns - 1 : undefined),
    asideColumns: () => (aside.terminal ? size().columns - 1 : undefined),
    mark: () => {
      if (!answer.terminal) return undefined
      if (!counting) {
        counting = true
        lowest = drawn === undefined ? row : row + drawn.widths.length
      }
      return { row, column, size: size() }
    },
    takeBack: (mark) => {
      const { columns, rows } = size()
      const isThere =
        mark.size.columns === columns && mark.size.rows === rows && mark.column < columns && mark.row > lowest - rows
      if (!isThere) return false
      const before = eraseLive()
      const back = `${moveUp(row - mark.row)}\r${moveRight(mark.column)}${clearBelow}`
      row = mark.row
      column = mark.column
      returned = false
      answer.write(before + back + drawLines(layOut()))
      return true
    },
    print: (text) => writeTo(answer, text),
    say: (text) => writeTo(aside, text),
    endLine: () => {
      if (column > 0 && terminal !== undefined) writeTo(terminal, "\n")
    },
    live: (next) => {
      view = next
      refresh()
    },
    draft: (next) => {
      draft = next ?? renderNoDraft
    },
    refresh,
    redraw,
    lend: (isLent) => {
      lent = isLent
      if (!isLent) terminal?.write(hidden ? hideCursor : showCursor)
    },
    rewrite,
    repaint: (count, text) => {
      const { columns, rows } = size()
      const lines = text.split("\n")
      let gone = Math.max(0, count - (rows - (drawn?.widths.length ?? 0)))
      let from = 0
      for (; from < lines.length; from++) {
        const height = measureLineAdvance(0, lines[from] ?? "", columns).rows + 1
        if (height > gone) break
        gone -= height
        count -= height
      }
      rewrite(count, lines.slice(from).join("\n"))
    },
    clear: () => {
      drawn = undefined
      forgetMarks()
      column = 0
      returned = false
      terminal?.write(`\u001b[2J\u001b[H${drawLines(layOut())}`)
    }
  }
}
