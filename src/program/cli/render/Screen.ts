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
import { changeLines } from "./LineChange.ts"
import * as Paint from "./Paint.ts"
import * as Width from "./Width.ts"
import {
  clearBelow,
  moveToColumn,
  hideCursor,
  showCursor,
  moveUp,
  measureLineAdvance,
  measureAdvance
} from "./Cursor.ts"

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

/** Synchronised output (DEC 2026): the terminal shows a rewritten screen at once. Other terminals ignore it. */
const beginUpdate = "\u001b[?2026h"

const endUpdate = "\u001b[?2026l"

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

/** The end of the text on the terminal. */
interface TextEnd {
  column: number
  /** True if the cursor was moved back to a full line, after which the terminal no longer wraps automatically. */
  isReturned: boolean
}

/** Rows of the text, counted from the first mark. */
interface TextRows {
  /** True if marks are in use. */
  isCounting: boolean
  /** Row of the end of the text. */
  last: number
  /**
   * The lowest row written, including live lines. Rows that are more than the terminal's height above it have scrolled
   * away.
   */
  lowest: number
}

/** The live lines. */
interface LiveLines {
  view: View
  draft: Draft
  drawn: DrawnLines | undefined
  isCursorHidden: boolean
}

interface State extends Streams {
  /** The stream that goes to the terminal. */
  readonly terminal: Sink | undefined
  readonly end: TextEnd
  readonly rows: TextRows
  readonly live: LiveLines
  /** True while another view uses the terminal. */
  isLent: boolean
}

/** Live lines that are about to be drawn. */
interface Layout {
  readonly lines: ReadonlyArray<string>
  readonly drawn: DrawnLines
  /** True if the cursor is visible. */
  readonly visible: boolean
}

const toggleCursor = (live: LiveLines, visible: boolean): string => {
  if (live.isCursorHidden !== visible) return ""
  live.isCursorHidden = !visible
  return visible ? showCursor : hideCursor
}

/** Moves the cursor to the end of the text, and erases the live lines. */
const eraseLive = ({ end, live, size }: State): string => {
  const { drawn } = live
  if (drawn === undefined) return ""
  const { columns } = size()
  // Counts the rows of a line, because a terminal that became narrower has already wrapped the lines.
  const countRows = (width: number): number => Math.max(1, Math.ceil(width / columns))
  let rows = Math.floor(drawn.column / columns)
  for (const width of drawn.widths.slice(0, drawn.row)) rows += countRows(width)
  live.drawn = undefined
  const begin = `\r${moveUp(rows)}${clearBelow}`
  end.isReturned = end.column >= columns
  return end.column === 0 ? begin : `${begin}${moveUp(1)}${moveToColumn(Math.min(end.column, columns - 1))}`
}

const layOut = ({ live: { draft, view }, size }: State): Layout => {
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

/** Counts the rows of live lines, which start on the next line after an unfinished one. */
const includeLive = ({ end, rows }: State, lines: ReadonlyArray<string>): void => {
  rows.lowest = Math.max(rows.lowest, rows.last + lines.length - (end.column > 0 ? 0 : 1))
}

const drawLines = (state: State, { drawn: next, lines, visible }: Layout): string => {
  const { end, live } = state
  if (lines.length === 0) return toggleCursor(live, true)
  live.drawn = next
  includeLive(state, lines)
  return (
    (end.column > 0 ? "\n" : "") +
    next.text +
    moveUp(lines.length - 1 - next.row) +
    `${moveToColumn(next.column)}` +
    toggleCursor(live, visible)
  )
}

/** Lays out and draws the live lines. */
const drawLive = (state: State): string => drawLines(state, layOut(state))

/** Draws only what changed; `undefined` if the positions of the drawn lines are not certain. */
const drawChanges = (state: State, before: DrawnLines, next: Layout): string | undefined => {
  const { columns, rows } = next.drawn.size
  const isCertain =
    next.lines.length > 0 &&
    next.lines.length < rows &&
    before.size.columns === columns &&
    before.size.rows === rows &&
    [...before.widths, ...next.drawn.widths].every((width) => width < columns)
  if (!isCertain) return undefined
  const { text, ...at } = changeLines(before, next.drawn, next.visible)
  state.live.drawn = { ...next.drawn, ...at }
  includeLive(state, next.lines)
  return text + toggleCursor(state.live, next.visible)
}

/** Moves the end of the text by text that is written. */
const advanceEnd = ({ end, rows, size }: State, text: string): void => {
  const advance = measureAdvance(end.column, text, size().columns, rows.isCounting)
  end.column = advance.column
  rows.last += advance.rows
  rows.lowest = Math.max(rows.lowest, rows.last)
}

const writeTo = (state: State, sink: Sink, text: string): void => {
  if (text === "") return
  if (!sink.terminal) return sink.write(text)
  const before = eraseLive(state)
  const next = state.end.isReturned && !text.startsWith("\n") ? `\n${text}` : text
  state.end.isReturned = false
  advanceEnd(state, next)
  sink.write(before + next + drawLive(state))
}

/** Returns true if the terminal already shows a layout. */
const isDrawn = ({ drawn, isCursorHidden }: LiveLines, next: Layout): boolean => {
  if (drawn === undefined) return next.lines.length === 0
  if (drawn.text !== next.drawn.text || isCursorHidden === next.visible) return false
  return isCursorHidden || (drawn.row === next.drawn.row && drawn.column === next.drawn.column)
}

const refresh = (state: State): void => {
  const { isLent, live, terminal } = state
  if (isLent) return
  const next = layOut(state)
  if (isDrawn(live, next)) return
  const changed = live.drawn === undefined ? undefined : drawChanges(state, live.drawn, next)
  terminal?.write(changed ?? eraseLive(state) + drawLines(state, next))
}

/** Invalidates the positions of all marks. */
const forgetMarks = ({ rows, size }: State): void => {
  rows.last = rows.lowest + size().rows
  rows.lowest = rows.last
}

/** Redraws after a change of the terminal's size, which invalidates all positions. */
const redraw = (state: State): void => {
  forgetMarks(state)
  if (state.live.drawn !== undefined && !state.isLent) state.terminal?.write(eraseLive(state) + drawLive(state))
}

const rewrite = (state: State, count: number, text: string): void => {
  const { end, terminal } = state
  const { columns, rows } = state.size()
  forgetMarks(state)
  // After an unfinished line, the live lines start on the next line.
  const before = eraseLive(state)
  const back = count - (end.column > 0 ? 1 : 0)
  end.isReturned = false
  end.column = measureAdvance(0, text, columns, false).column
  const whole = `${before}\r${moveUp(Math.min(back, rows))}${clearBelow}${text}${drawLive(state)}`
  terminal?.write(`${beginUpdate}${whole}${endUpdate}`)
}

const repaintRows = (state: State, count: number, text: string): void => {
  const { columns, rows } = state.size()
  const lines = text.split("\n")
  let left = count
  let gone = Math.max(0, count - (rows - (state.live.drawn?.widths.length ?? 0)))
  let from = 0
  for (; from < lines.length; from++) {
    const height = measureLineAdvance(0, lines[from] ?? "", columns).rows + 1
    if (height > gone) break
    gone -= height
    left -= height
  }
  rewrite(state, left, lines.slice(from).join("\n"))
}

const placeMark = ({ answer, end, live, rows, size }: State): Mark | undefined => {
  if (!answer.terminal) return undefined
  if (!rows.isCounting) {
    rows.isCounting = true
    rows.lowest = rows.last + (live.drawn?.widths.length ?? 0)
  }
  return { row: rows.last, column: end.column, size: size() }
}

const takeBack = (state: State, mark: Mark): boolean => {
  const { answer, end, rows } = state
  const size = state.size()
  const isThere =
    mark.size.columns === size.columns &&
    mark.size.rows === size.rows &&
    mark.column < size.columns &&
    mark.row > rows.lowest - size.rows
  if (!isThere) return false
  const before = eraseLive(state)
  const back = `${moveUp(rows.last - mark.row)}${moveToColumn(mark.column)}${clearBelow}`
  rows.last = mark.row
  end.column = mark.column
  end.isReturned = false
  answer.write(before + back + drawLive(state))
  return true
}

const clearScreen = (state: State): void => {
  const { end, live, terminal } = state
  live.drawn = undefined
  forgetMarks(state)
  end.column = 0
  end.isReturned = false
  terminal?.write(`\u001b[2J\u001b[H${drawLive(state)}`)
}

/** Creates a screen on two streams. */
export const make = (streams: Streams): Screen => {
  const { answer, aside, size } = streams
  const terminal = [aside, answer].find((sink) => sink.terminal)
  const live: LiveLines = { view: renderNothing, draft: renderNoDraft, drawn: undefined, isCursorHidden: false }
  const state: State = {
    answer,
    aside,
    size,
    terminal,
    end: { column: 0, isReturned: false },
    rows: { isCounting: false, last: 0, lowest: 0 },
    live,
    isLent: false
  }
  return {
    answerPaint: answer.paint,
    asidePaint: aside.paint,
    joined: answer.terminal === aside.terminal,
    size,
    answerColumns: () => (answer.terminal ? size().columns - 1 : undefined),
    asideColumns: () => (aside.terminal ? size().columns - 1 : undefined),
    mark: () => placeMark(state),
    takeBack: (mark) => takeBack(state, mark),
    print: (text) => writeTo(state, answer, text),
    say: (text) => writeTo(state, aside, text),
    endLine: () => {
      if (state.end.column > 0 && terminal !== undefined) writeTo(state, terminal, "\n")
    },
    live: (next) => {
      live.view = next
      refresh(state)
    },
    draft: (next) => {
      live.draft = next ?? renderNoDraft
    },
    refresh: () => refresh(state),
    redraw: () => redraw(state),
    lend: (isLent) => {
      state.isLent = isLent
      if (!isLent) terminal?.write(live.isCursorHidden ? hideCursor : showCursor)
    },
    rewrite: (count, text) => rewrite(state, count, text),
    repaint: (count, text) => repaintRows(state, count, text),
    clear: () => clearScreen(state)
  }
}
