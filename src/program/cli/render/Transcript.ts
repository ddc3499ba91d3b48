/**
 * A conversation on the terminal: the retained list of its blocks, written below each other so that they scroll away
 * like other text and stay in the terminal's own history, with live lines at the end.
 *
 * **Details**
 *
 * - A block is laid out and written once, when it is complete. While text is being written, its final part is written
 *   and the rest is drawn above the live lines; the cost of an event does not depend on the number of blocks.
 * - After a change of the terminal's width or of the theme, the blocks that are (partly) on the screen are laid out
 *   again and replaced, at most two screens of lines. Lines that have scrolled away stay unchanged in the terminal's
 *   history, which may contain lines at the boundary twice. The view of the whole conversation (`TranscriptView`) shows
 *   all blocks at the new width.
 * - While that view uses the terminal, blocks are only stored. They are written when the view is closed.
 * - Only the latest blocks are stored (`BlockList`).
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Block from "./Block.ts"
import * as BlockLines from "./BlockLines.ts"
import * as BlockList from "./BlockList.ts"
import type * as Markdown from "./Markdown.ts"
import * as Paint from "./Paint.ts"
import type * as Screen from "./Screen.ts"
import * as Width from "./Width.ts"
import {
  type Appearance,
  type OpenBlock,
  type Display,
  type State,
  readLook,
  getDetail,
  renderBlock,
  beginBlock
} from "./TranscriptState.ts"
import { rewriteScreen, repaintScreen } from "./TranscriptLayout.ts"

/** Maximum number of characters of lines in one block. */
const mostLines = 65_536

/** The conversation on the screen: blocks above, live lines below. */
export interface Transcript extends Pick<
  Screen.Screen,
  "asidePaint" | "size" | "live" | "refresh" | "redraw" | "clear" | "endLine"
> {
  /** Adds lines from the program; the text may end in the middle of a line. */
  readonly say: (text: string) => void
  /** Adds a block. An open block is completed with the added block. */
  readonly put: (block: Block.Block) => void
  /** Shows text or reasoning that is being written. Each call passes the same text with more content. */
  readonly write: (open: Block.TextBlock | Block.ReasoningBlock) => void
  /**
   * Retracts the text of a step and of later steps of this turn. If the text has scrolled away, a line reports the
   * change.
   */
  readonly takeBack: (step: number, isChanged: boolean) => void
  /** Begins a turn. Text of earlier turns is not retracted. */
  readonly beginTurn: () => void
  /** Returns true if an empty line separates a turn's live lines from the text above them. */
  readonly isLiveApart: () => boolean
  /** Sets the Markdown renderer, which is loaded before the first text. */
  readonly setMarkdown: (make: Markdown.Make) => void
  readonly blocks: () => ReadonlyArray<Block.Block>
  /** Returns the text that is being written. */
  readonly open: () => Block.Block | undefined
  readonly look: () => BlockLines.Look
  readonly layouts: BlockLines.Layouts
  /** Returns the detail of a block; `part` unless the user chose another detail. */
  readonly getBlockDetail: (block: Block.Block) => Block.Detail
  readonly setDetail: (block: Block.Block, detail: Block.Detail) => void
  /** Repaints the screen in the colours of another theme. Lines written by the program itself retain their colours. */
  readonly repaint: () => void
  /** Lends the terminal to another view, and takes it back. */
  readonly lend: (isLent: boolean) => void
}

/** Writes the blocks that are not yet written. */
const writeBlocks = (state: State): void => {
  const { end, list, marks, screen } = state
  for (; list.written < list.blocks.length; list.written++) {
    const block = list.blocks[list.written]
    if (block === undefined) continue
    if (block._tag === "Text") {
      const mark = screen.mark()
      if (mark !== undefined) marks.set(block, mark)
    }
    const text = renderBlock(state, end.last, block, readLook(state))
    if (text === "") continue
    end.last = block
    screen.say(text)
  }
}

/** Writes a piece of the open block. */
const showPiece = ({ end, screen }: State, piece: string, open: OpenBlock): OpenBlock => {
  if (piece === "") return open
  const gap = !open.isSeen && BlockLines.isApart(end.last, open.block) ? "\n" : ""
  end.last = open.block
  const next = { ...open, isSeen: true }
  end.open = next
  screen.say(gap + piece)
  return next
}

const advanceOpen = (state: State, block: OpenBlock["block"]): void => {
  const { end } = state
  let open = end.open
  if (open === undefined || open.block._tag !== block._tag) {
    open = beginBlock(state, block)
    end.openMark = state.screen.mark()
  }
  const piece = open.push(block.text.slice(open.given))
  end.open = { ...open, block, given: block.text.length }
  showPiece(state, piece, end.open)
}

/** Returns true if a block is the final content of the open one. */
const isOpen = ({ end: { open } }: State, block: Block.Block): block is OpenBlock["block"] =>
  open !== undefined &&
  open.block._tag === block._tag &&
  (block._tag !== "Text" || open.block._tag !== "Text" || block.step === open.block.step)

/** Completes the open block with its final content. */
const completeOpen = (state: State, block: OpenBlock["block"], open: OpenBlock): void => {
  const { end, list } = state
  const rest = open.push(block.text.slice(open.given)) + open.end()
  const seen = showPiece(state, rest, open)
  end.open = undefined
  if (end.openMark !== undefined) state.marks.set(block, end.openMark)
  if (seen.isSeen) end.last = block
  BlockList.storeBlock(list, block)
  list.written = list.blocks.length
  state.screen.refresh()
}

const putBlock = (state: State, block: Block.Block): void => {
  const { display, end, list } = state
  // Hidden reasoning is shown in one line once it is complete.
  const isHidden = block._tag === "Reasoning" && !state.appearance.showReasoning
  if (isHidden) {
    if (end.open?.block._tag === "Reasoning") end.open = undefined
  } else if (isOpen(state, block)) {
    if (end.open !== undefined && !display.lent) return completeOpen(state, block, end.open)
    end.open = undefined
  }
  // The open text can no longer be erased, because this block is below it.
  if (!isHidden && end.open?.isSeen === true) end.openMark = undefined
  BlockList.storeBlock(list, block)
  if (!display.lent) writeBlocks(state)
}

/** Returns true if lines are continued by text of the program. */
const canContinue = (block: Block.Block | undefined): block is Block.LinesBlock =>
  block?._tag === "Lines" &&
  block.place === "own" &&
  block.text.length < mostLines &&
  !block.text.endsWith("\n\n") &&
  block.text !== "\n"

const sayText = (state: State, text: string): void => {
  if (text === "") return
  const { display, end, list } = state
  const before = list.blocks.at(-1)
  if (!canContinue(before) || (display.lent && list.written === list.blocks.length))
    return putBlock(state, { _tag: "Lines", text, place: "own" })
  const next = BlockList.extendLast(list, before, text)
  if (display.lent) return
  end.last = next
  // An unfinished line is continued. The lines after it are wrapped as in any block.
  const line = before.text.endsWith("\n") ? 0 : text.indexOf("\n") + 1 || text.length
  const rest = text.slice(line)
  state.screen.say(
    text.slice(0, line) +
      (rest === "" ? "" : renderBlock(state, undefined, { _tag: "Lines", text: rest, place: "own" }, readLook(state)))
  )
}

const endLine = (state: State): void => {
  const block = state.list.blocks.at(-1)
  if (block?._tag === "Lines" && !block.text.endsWith("\n")) sayText(state, "\n")
  else state.screen.endLine()
}

const drawDraft = ({ end: { last, open } }: State, { columns, rows }: Screen.Size): ReadonlyArray<string> => {
  const text = open?.draft() ?? ""
  if (text === "" || open === undefined) return []
  const lines = text
    .split("\n")
    .slice(0, -1)
    .map((line) => (Width.measure(Paint.strip(line)) < columns ? line : Width.cut(Paint.strip(line), columns - 1)))
  const apart = !open.isSeen && BlockLines.isApart(last, open.block) ? [""] : []
  return [...apart, ...lines].slice(-rows)
}

/** Erases text from the screen, which is possible if nothing else is below it and if it has not scrolled away. */
const eraseText = (state: State, first: number, open: OpenBlock | undefined): boolean => {
  const { display, end, list, marks, screen } = state
  const block = first < 0 ? undefined : list.blocks[first]
  const mark = block === undefined ? end.openMark : marks.get(block)
  const isUnseen = first < 0 && open?.isSeen !== true
  if (display.lent || !(isUnseen || (mark !== undefined && screen.takeBack(mark)))) return false
  if (first >= 0) BlockList.removeFrom(list, first)
  else list.written = Math.min(list.written, list.blocks.length)
  end.last = list.blocks.findLast((one) => state.layouts.lines(one, getDetail(state, one), readLook(state)).length > 0)
  return true
}

const takeBack = (state: State, step: number, isChanged: boolean): void => {
  const { end, list } = state
  const isTaken = (block: Block.Block | undefined): block is Block.TextBlock =>
    block?._tag === "Text" && block.step >= step
  const first = list.blocks.findIndex((block, index) => index >= list.turn && isTaken(block))
  const open = end.open?.block._tag === "Text" ? end.open : undefined
  if (first < 0 && open === undefined) return
  if (open !== undefined) end.open = undefined
  const isLast = first < 0 || list.blocks.slice(first).every(isTaken)
  if (isLast && eraseText(state, first, open)) return
  for (const [index, taken] of first < 0 ? [] : list.blocks.entries())
    if (index >= first && isTaken(taken)) list.blocks[index] = { ...taken, text: "" }
  putBlock(state, {
    _tag: "Notice",
    level: "info",
    text: isChanged ? "The answer was changed:" : "The answer above was retracted."
  })
}

const writeOpen = (state: State, block: OpenBlock["block"]): void => {
  const { display, end } = state
  if (!display.lent) return advanceOpen(state, block)
  const { open } = end
  end.open = open === undefined || open.block._tag !== block._tag ? beginBlock(state, block) : { ...open, block }
}

const redraw = (state: State): void => {
  const { display, screen } = state
  if (display.lent) display.outdated = rewriteScreen
  else if (screen.size().columns === display.columns) screen.redraw()
  else rewriteScreen(state)
}

/** Lends the terminal to another view. When it is taken back, the postponed work is done. */
const lendTerminal = (state: State, isLent: boolean): void => {
  const { display, end, screen } = state
  display.lent = isLent
  screen.lend(isLent)
  if (isLent) return
  const renew = screen.size().columns === display.columns ? display.outdated : rewriteScreen
  display.outdated = undefined
  if (renew !== undefined) return renew(state)
  writeBlocks(state)
  if (end.open !== undefined) advanceOpen(state, end.open.block)
  screen.refresh()
}

export const make = (screen: Screen.Screen, appearance: Appearance): Transcript => {
  const list = BlockList.make()
  const display: Display = { markdown: undefined, columns: screen.size().columns, lent: false, outdated: undefined }
  const state: State = {
    screen,
    appearance,
    list,
    end: { open: undefined, openMark: undefined, last: undefined },
    display,
    layouts: BlockLines.makeLayouts(),
    details: new WeakMap(),
    marks: new WeakMap()
  }
  screen.draft((room) => drawDraft(state, room))
  return {
    asidePaint: screen.asidePaint,
    size: screen.size,
    live: screen.live,
    refresh: screen.refresh,
    redraw: () => redraw(state),
    clear: () => {
      list.floor = list.blocks.length
      display.columns = screen.size().columns
      screen.clear()
    },
    endLine: () => endLine(state),
    say: (text) => sayText(state, text),
    put: (block) => putBlock(state, block),
    write: (block) => writeOpen(state, block),
    takeBack: (step, isChanged) => takeBack(state, step, isChanged),
    beginTurn: () => {
      list.turn = list.blocks.length
    },
    isLiveApart: () => state.end.open === undefined && BlockLines.isLiveApart(state.end.last),
    setMarkdown: (make) => {
      display.markdown = make
    },
    blocks: () => list.blocks,
    open: () => state.end.open?.block,
    look: () => readLook(state),
    layouts: state.layouts,
    getBlockDetail: (block) => getDetail(state, block),
    setDetail: (block, detail) => {
      if (getDetail(state, block) === detail) return
      display.outdated = rewriteScreen
      state.details.set(block, detail)
    },
    repaint: () => {
      if (display.lent) display.outdated ??= repaintScreen
      else repaintScreen(state)
    },
    lend: (isLent) => lendTerminal(state, isLent)
  }
}
