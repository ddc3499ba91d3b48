/**
 * Typed text as lines of a terminal, and where the cursor stands in them.
 */
import type { Lines, Size } from "../render/Screen.ts"
import * as Width from "../render/Width.ts"
import type { State } from "./Editor.ts"

/** Prefix of the first line. */
export interface Look {
  /** Before the first line, painted. */
  readonly prompt: string
  /** Columns of it; the lines that follow are indented by as many. */
  readonly indent: number
  /** Under the text, painted, no wider than the terminal. */
  readonly below: ReadonlyArray<string>
}

const tab = "    "

interface Row {
  readonly text: string
  /** Offset of its begin in the typed text. */
  readonly from: number
}

/** The rows that one line of the text takes. */
const rowsOf = (line: string, from: number, columns: number): ReadonlyArray<Row> => {
  const rows: Array<Row> = []
  let text = ""
  let width = 0
  let begin = from
  let at = from
  for (const grapheme of Width.graphemes(line)) {
    const shown = grapheme.text === "\t" ? tab : grapheme.text
    const columnsOf = grapheme.text === "\t" ? tab.length : grapheme.width
    if (width + columnsOf > columns) {
      rows.push({ text, from: begin })
      text = ""
      width = 0
      begin = at
    }
    text += shown
    width += columnsOf
    at += grapheme.text.length
  }
  rows.push({ text, from: begin })
  // The cursor behind a full row stands on the next one.
  return width >= columns ? [...rows, { text: "", from: at }] : rows
}

/** The lines, cut to the rows that the terminal has, around the cursor. */
export const render = (state: State, look: Look, { columns, rows }: Size): Lines => {
  const room = Math.max(4, columns - look.indent - 1)
  const all: Array<Row> = []
  let from = 0
  for (const line of state.text.split("\n")) {
    all.push(...rowsOf(line, from, room))
    from += line.length + 1
  }
  const row = Math.max(0, all.findLastIndex((candidate) => candidate.from <= state.cursor))
  const current = all[row]
  const typed = state.text.slice(current?.from ?? 0, state.cursor)
  const column = look.indent + Width.of(typed.replaceAll("\t", tab))

  const most = Math.max(1, rows - 1 - look.below.length)
  const first = Math.max(0, Math.min(row - (most >> 1), all.length - most))
  const shown = all.slice(first, first + most)
  const lines = shown.map(({ text }, index) =>
    (first + index === 0 ? look.prompt : " ".repeat(look.indent)) + text)
  return { lines: [...lines, ...look.below], cursor: { row: row - first, column } }
}
