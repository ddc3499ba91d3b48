/**
 * Lays out the visible blocks of a conversation again, after a change of the terminal's width, of the theme or of a
 * block's detail.
 */
import * as Block from "./Block.ts"
import * as BlockLines from "./BlockLines.ts"
import * as Paint from "./Paint.ts"
import type * as Screen from "./Screen.ts"
import * as Width from "./Width.ts"
import { type State, makeLook, readLook, getDetail, renderBlock, makeMarkdown, beginBlock } from "./TranscriptState.ts"

const splitLines = (text: string): ReadonlyArray<string> => (text === "" ? [] : text.replace(/\n$/, "").split("\n"))

/** Counts the rows that lines occupy on a terminal that wraps them. */
const countRows = (lines: ReadonlyArray<string>, width: number): number =>
  lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(Width.measure(Paint.strip(line)) / width)), 0)

/** Counts the rows of the open block at a width of the terminal, for the look with which it was written. */
const countOpenRows = (state: State, before: BlockLines.Look, width: number): number => {
  const { open } = state.end
  if (open?.isSeen !== true) return 0
  const renderer = open.block._tag === "Text" ? makeMarkdown(state, () => before.columns) : undefined
  return countRows(splitLines(renderer?.push(open.block.text.slice(0, open.given)) ?? ""), width) + 1
}

/** Finds the visible blocks: the position of the first one, and the number of rows of all. */
const findVisible = (
  state: State,
  before: BlockLines.Look,
  size: Screen.Size
): { readonly from: number; readonly rows: number } => {
  const { blocks, floor, written } = state.list
  let rows = countOpenRows(state, before, size.columns)
  let from = written
  while (from > floor && rows < size.rows) {
    from--
    const block = blocks[from]
    if (block === undefined) continue
    const lines = state.layouts.lines(block, getDetail(state, block), before)
    const gap = BlockLines.isApart(blocks[from - 1], block) && lines.length > 0 ? 1 : 0
    rows += countRows(lines, size.columns) + gap
  }
  return { from, rows }
}

/** Renders the open block again with the current look, and returns its text below a block. */
const replayOpen = (state: State, above: Block.Block | undefined): string => {
  const { end } = state
  const { open } = end
  if (open === undefined) return ""
  const next = beginBlock(state, open.block)
  const piece = next.push(open.block.text.slice(0, open.given))
  end.open = { ...next, given: open.given, isSeen: piece !== "" }
  if (piece === "") return ""
  end.last = open.block
  return (BlockLines.isApart(above, open.block) ? "\n" : "") + piece
}

/** Computes the layout of the visible blocks again. Returns the number of rows to replace and the new text. */
const layOutAgain = (state: State): { readonly rows: number; readonly text: string } => {
  const { display, end, list } = state
  const size = state.screen.size()
  const before = makeLook(state, display.columns)
  display.columns = size.columns
  const { from, rows } = findVisible(state, before, size)
  let above = list.blocks[from - 1]
  let text = ""
  for (const block of list.blocks.slice(from)) {
    const next = renderBlock(state, above, block, readLook(state))
    if (next !== "") above = block
    text += next
  }
  end.last = above ?? end.last
  list.written = list.blocks.length
  return { rows, text: text + replayOpen(state, above) }
}

export const rewriteScreen = (state: State): void => {
  const { screen } = state
  const { rows, text } = layOutAgain(state)
  const [all, most] = [text.split("\n"), 2 * screen.size().rows]
  screen.rewrite(rows, all.length > most ? all.slice(-most).join("\n") : text)
}

export const repaintScreen = (state: State): void => {
  const { rows, text } = layOutAgain(state)
  state.screen.repaint(rows, text)
}
