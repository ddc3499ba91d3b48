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
 * - Only the latest blocks are stored, at most {@link mostBlocks} blocks and {@link mostCharacters} characters.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Block from "./Block.ts"
import * as BlockLines from "./BlockLines.ts"
import type * as Markdown from "./Markdown.ts"
import * as Paint from "./Paint.ts"
import * as RunText from "./RunText.ts"
import type * as Screen from "./Screen.ts"
import type { Verbosity } from "./ToolFeed.ts"
import * as Width from "./Width.ts"

/** Maximum number of stored blocks. */
export const mostBlocks = 5000
/** Maximum number of stored characters. */
const mostCharacters = 16 * 1024 * 1024
/** Number of blocks discarded at once, so that the average cost for each block is small. */
const givenUp = 500
/** Maximum number of characters of lines in one block. */
const mostLines = 65_536

/** Appearance of the blocks, which may change at any time. */
export interface Appearance {
  readonly markdown: Markdown.Mode
  readonly showReasoning: boolean
  readonly previewLength: number
  readonly verbosity: () => Verbosity
}

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

/** Text that is being written, and its length on the screen. */
interface OpenBlock {
  readonly block: Block.TextBlock | Block.ReasoningBlock
  readonly push: (piece: string) => string
  readonly end: () => string
  readonly draft: () => string
  /** Number of characters of the block received so far. */
  readonly given: number
  /** True if lines of the block are on the screen. */
  readonly isSeen: boolean
}

const splitLines = (text: string): ReadonlyArray<string> => (text === "" ? [] : text.replace(/\n$/, "").split("\n"))

export const make = (screen: Screen.Screen, appearance: Appearance): Transcript => {
  const blocks: Array<Block.Block> = []
  const details = new WeakMap<Block.Block, Block.Detail>()
  const marks = new WeakMap<Block.Block, Screen.Mark>()
  const layouts = BlockLines.makeLayouts()
  let weight = 0
  /** Number of written blocks. */
  let written = 0
  /** Number of blocks that can no longer be repainted because the terminal was cleared. */
  let floor = 0
  let turn = 0
  let markdown: Markdown.Make | undefined
  let open: OpenBlock | undefined
  let openMark: Screen.Mark | undefined
  let last: Block.Block | undefined
  let lent = false
  /** Work that is postponed until the terminal is available. */
  let outdated: (() => void) | undefined
  let columns = screen.size().columns

  const makeLook = (width: number): BlockLines.Look => ({
    columns: Math.max(1, width - 1),
    paint: screen.asidePaint,
    markdown: appearance.markdown,
    make: markdown,
    verbosity: appearance.verbosity(),
    showReasoning: appearance.showReasoning,
    previewLength: appearance.previewLength
  })
  const readLook = (): BlockLines.Look => makeLook(screen.size().columns)
  const getDetail = (block: Block.Block): Block.Detail => details.get(block) ?? "part"

  const storeBlock = (block: Block.Block): void => {
    blocks.push(block)
    weight += Block.measureWeight(block)
    if (blocks.length <= mostBlocks && weight <= mostCharacters) return
    while (blocks.length > mostBlocks - givenUp || (weight > mostCharacters && blocks.length > 1)) {
      const first = blocks.shift()
      if (first !== undefined) weight -= Block.measureWeight(first)
      written = Math.max(0, written - 1)
      floor = Math.max(0, floor - 1)
      turn = Math.max(0, turn - 1)
    }
  }

  const renderBlock = (before: Block.Block | undefined, block: Block.Block, at: BlockLines.Look): string => {
    const lines = layouts.lines(block, getDetail(block), at)
    if (lines.length === 0) return ""
    const end = block._tag === "Lines" && !block.text.endsWith("\n") ? "" : "\n"
    return `${BlockLines.isApart(before, block) ? "\n" : ""}${lines.join("\n")}${end}`
  }

  /** Writes the blocks that are not yet written. */
  const writeBlocks = (): void => {
    for (; written < blocks.length; written++) {
      const block = blocks[written]
      if (block === undefined) continue
      if (block._tag === "Text") {
        const mark = screen.mark()
        if (mark !== undefined) marks.set(block, mark)
      }
      const text = renderBlock(last, block, readLook())
      if (text === "") continue
      last = block
      screen.say(text)
    }
  }

  const beginBlock = (block: OpenBlock["block"]): OpenBlock => {
    if (block._tag === "Reasoning") {
      if (!appearance.showReasoning)
        return { block, push: () => "", end: () => "", draft: () => "", given: 0, isSeen: false }
      const { end, push } = RunText.makeReasoningText(screen.asidePaint, () => readLook().columns)
      return { block, push, end, draft: () => "", given: 0, isSeen: false }
    }
    const renderer = markdown?.({
      mode: appearance.markdown,
      paint: screen.asidePaint,
      columns: () => readLook().columns
    })
    if (renderer === undefined)
      return { block, push: (piece) => piece, end: () => "", draft: () => "", given: 0, isSeen: false }
    return {
      block,
      push: (piece) => renderer.push(piece),
      end: () => renderer.end(),
      draft: () => renderer.open(),
      given: 0,
      isSeen: false
    }
  }

  /** Writes a piece of the open block. */
  const showPiece = (piece: string, state: OpenBlock): OpenBlock => {
    if (piece === "") return state
    const gap = !state.isSeen && BlockLines.isApart(last, state.block) ? "\n" : ""
    last = state.block
    const next = { ...state, isSeen: true }
    open = next
    screen.say(gap + piece)
    return next
  }

  const advanceOpen = (block: OpenBlock["block"]): void => {
    if (open === undefined || open.block._tag !== block._tag) {
      open = beginBlock(block)
      openMark = screen.mark()
    }
    const piece = open.push(block.text.slice(open.given))
    open = { ...open, block, given: block.text.length }
    showPiece(piece, open)
  }

  const isOpen = (block: Block.Block): boolean =>
    open !== undefined &&
    open.block._tag === block._tag &&
    (block._tag !== "Text" || open.block._tag !== "Text" || block.step === open.block.step)

  /** Completes the open block with its final content. */
  const completeOpen = (block: OpenBlock["block"], state: OpenBlock): void => {
    const rest = state.push(block.text.slice(state.given)) + state.end()
    const seen = showPiece(rest, state)
    open = undefined
    if (openMark !== undefined) marks.set(block, openMark)
    if (seen.isSeen) last = block
    storeBlock(block)
    written = blocks.length
    screen.refresh()
  }

  const put = (block: Block.Block): void => {
    const state = open
    if (block._tag === "Reasoning" && !appearance.showReasoning) {
      // It is shown in one line once it is complete.
      if (state?.block._tag === "Reasoning") open = undefined
      storeBlock(block)
      if (!lent) writeBlocks()
      return
    }
    if ((block._tag === "Text" || block._tag === "Reasoning") && state !== undefined && isOpen(block) && !lent)
      return completeOpen(block, state)
    if ((block._tag === "Text" || block._tag === "Reasoning") && isOpen(block)) open = undefined
    // The open text can no longer be erased, because this block is below it.
    if (open?.isSeen === true) openMark = undefined
    storeBlock(block)
    if (!lent) writeBlocks()
  }

  const say = (text: string): void => {
    if (text === "") return
    const before = blocks.at(-1)
    const goesOn =
      before?._tag === "Lines" &&
      before.place === "own" &&
      before.text.length < mostLines &&
      !before.text.endsWith("\n\n") &&
      before.text !== "\n"
    if (!goesOn || (lent && written === blocks.length)) return put({ _tag: "Lines", text, place: "own" })
    const next: Block.LinesBlock = { ...before, text: before.text + text }
    weight += text.length
    blocks[blocks.length - 1] = next
    if (lent) return
    last = next
    // An unfinished line is continued. The lines after it are wrapped as in any block.
    const end = before.text.endsWith("\n") ? 0 : text.indexOf("\n") + 1 || text.length
    const rest = text.slice(end)
    screen.say(
      text.slice(0, end) +
        (rest === "" ? "" : renderBlock(undefined, { _tag: "Lines", text: rest, place: "own" }, readLook()))
    )
  }

  const drawDraft: Screen.Draft = ({ columns, rows }) => {
    const text = open?.draft() ?? ""
    if (text === "" || open === undefined) return []
    const lines = text
      .split("\n")
      .slice(0, -1)
      .map((line) => (Width.measure(Paint.strip(line)) < columns ? line : Width.cut(Paint.strip(line), columns - 1)))
    const apart = !open.isSeen && BlockLines.isApart(last, open.block) ? [""] : []
    return [...apart, ...lines].slice(-rows)
  }
  screen.draft(drawDraft)

  /** Counts the rows that lines occupy on a terminal that wraps them. */
  const countRows = (lines: ReadonlyArray<string>, width: number): number =>
    lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(Width.measure(Paint.strip(line)) / width)), 0)

  /**
   * Renders the open block again with the current look. Returns its final text and the state with which the block
   * continues.
   */
  const replayOpen = (state: OpenBlock): { readonly piece: string; readonly next: OpenBlock } => {
    const next = beginBlock(state.block)
    return { piece: next.push(state.block.text.slice(0, state.given)), next: { ...next, given: state.given } }
  }

  /** Computes the layout of the visible blocks again. Returns the number of rows to replace and the new text. */
  const layOutAgain = (): { readonly rows: number; readonly text: string } => {
    const size = screen.size()
    const before = makeLook(columns)
    columns = size.columns
    let rows = 0
    let from = written
    if (open?.isSeen === true) {
      const renderer =
        open.block._tag === "Text"
          ? markdown?.({ mode: appearance.markdown, paint: screen.asidePaint, columns: () => before.columns })
          : undefined
      const shown = renderer?.push(open.block.text.slice(0, open.given)) ?? ""
      rows += countRows(splitLines(shown), size.columns) + 1
    }
    while (from > floor && rows < size.rows) {
      from--
      const block = blocks[from]
      if (block === undefined) continue
      const lines = layouts.lines(block, getDetail(block), before)
      rows += countRows(lines, size.columns) + (BlockLines.isApart(blocks[from - 1], block) && lines.length > 0 ? 1 : 0)
    }
    let above = blocks[from - 1]
    let text = ""
    for (const block of blocks.slice(from)) {
      const next = renderBlock(above, block, readLook())
      if (next !== "") above = block
      text += next
    }
    last = above ?? last
    written = blocks.length
    if (open !== undefined) {
      const { next, piece } = replayOpen(open)
      if (piece !== "") text += (BlockLines.isApart(above, open.block) ? "\n" : "") + piece
      open = { ...next, isSeen: piece !== "" }
      if (open.isSeen) last = open.block
    }
    return { rows, text }
  }

  const rewriteScreen = (): void => {
    const { rows, text } = layOutAgain()
    const [all, most] = [text.split("\n"), 2 * screen.size().rows]
    screen.rewrite(rows, all.length > most ? all.slice(-most).join("\n") : text)
  }

  const takeBack = (step: number, isChanged: boolean): void => {
    const isTaken = (block: Block.Block | undefined): block is Block.TextBlock =>
      block?._tag === "Text" && block.step >= step
    const first = blocks.findIndex((block, index) => index >= turn && isTaken(block))
    const state = open?.block._tag === "Text" ? open : undefined
    if (first < 0 && state === undefined) return
    open = state === undefined ? open : undefined
    const isLast = first < 0 || blocks.slice(first).every(isTaken)
    const block = first < 0 ? undefined : blocks[first]
    const mark = block === undefined ? openMark : marks.get(block)
    const isUnseen = first < 0 && state?.isSeen !== true
    if (!lent && isLast && (isUnseen || (mark !== undefined && screen.takeBack(mark)))) {
      if (first >= 0) for (const taken of blocks.splice(first)) weight -= Block.measureWeight(taken)
      written = Math.min(written, blocks.length)
      last = blocks.findLast((one) => layouts.lines(one, getDetail(one), readLook()).length > 0)
      return
    }
    for (const [index, taken] of first < 0 ? [] : blocks.entries()) {
      if (index < first) continue
      if (isTaken(taken)) blocks[index] = { ...taken, text: "" }
    }
    put({
      _tag: "Notice",
      level: "info",
      text: isChanged ? "The answer was changed:" : "The answer above was retracted."
    })
  }

  const repaintScreen = (): void => {
    const { rows, text } = layOutAgain()
    screen.repaint(rows, text)
  }

  const redraw = (): void => {
    if (lent) outdated = rewriteScreen
    else if (screen.size().columns === columns) screen.redraw()
    else rewriteScreen()
  }

  return {
    asidePaint: screen.asidePaint,
    size: screen.size,
    live: screen.live,
    refresh: screen.refresh,
    redraw,
    clear: () => {
      floor = blocks.length
      columns = screen.size().columns
      screen.clear()
    },
    endLine: () => {
      const block = blocks.at(-1)
      if (block?._tag === "Lines" && !block.text.endsWith("\n")) say("\n")
      else screen.endLine()
    },
    say,
    put,
    write: (block) => {
      if (!lent) return advanceOpen(block)
      open = open === undefined || open.block._tag !== block._tag ? beginBlock(block) : { ...open, block }
    },
    takeBack,
    beginTurn: () => {
      turn = blocks.length
    },
    isLiveApart: () => open === undefined && BlockLines.isLiveApart(last),
    setMarkdown: (make) => {
      markdown = make
    },
    blocks: () => blocks,
    open: () => open?.block,
    look: readLook,
    layouts,
    getBlockDetail: getDetail,
    setDetail: (block, detail) => {
      if (getDetail(block) === detail) return
      outdated = rewriteScreen
      details.set(block, detail)
    },
    repaint: () => {
      if (lent) outdated ??= repaintScreen
      else repaintScreen()
    },
    lend: (isLent) => {
      lent = isLent
      screen.lend(isLent)
      if (isLent) return
      const renew = screen.size().columns === columns ? outdated : rewriteScreen
      outdated = undefined
      if (renew !== undefined) renew()
      else {
        writeBlocks()
        if (open !== undefined) advanceOpen(open.block)
        screen.refresh()
      }
    }
  }
}
