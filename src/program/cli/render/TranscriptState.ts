/** The state of a conversation on the terminal, and the text of its blocks in the current look. */
import * as Block from "./Block.ts"
import * as BlockLines from "./BlockLines.ts"
import * as BlockList from "./BlockList.ts"
import type * as Markdown from "./Markdown.ts"
import * as RunText from "./RunText.ts"
import type * as Screen from "./Screen.ts"
import type { Verbosity } from "./ToolFeed.ts"

/** Appearance of the blocks, which may change at any time. */
export interface Appearance {
  readonly markdown: Markdown.Mode
  readonly showReasoning: boolean
  readonly previewLength: number
  readonly verbosity: () => Verbosity
}

/** Text that is being written, and its length on the screen. */
export interface OpenBlock {
  readonly block: Block.TextBlock | Block.ReasoningBlock
  readonly push: (piece: string) => string
  readonly end: () => string
  readonly draft: () => string
  /** Number of characters of the block received so far. */
  readonly given: number
  /** True if lines of the block are on the screen. */
  readonly isSeen: boolean
}

/** The end of the text on the screen. */
interface TextEnd {
  /** Text that is being written. */
  open: OpenBlock | undefined
  /** Position at which the open text begins, if it can still be erased. */
  openMark: Screen.Mark | undefined
  /** The last block on the screen. */
  last: Block.Block | undefined
}

/** The condition of the screen. */
export interface Display {
  markdown: Markdown.Make | undefined
  /** Columns for which the blocks are laid out. */
  columns: number
  /** True while another view uses the terminal. */
  lent: boolean
  /** Work that is postponed until the terminal is available. */
  outdated: ((state: State) => void) | undefined
}

export interface State {
  readonly screen: Screen.Screen
  readonly appearance: Appearance
  readonly list: BlockList.BlockList
  readonly end: TextEnd
  readonly display: Display
  readonly layouts: BlockLines.Layouts
  /** Details that the user chose. */
  readonly details: WeakMap<Block.Block, Block.Detail>
  /** Positions at which texts begin. */
  readonly marks: WeakMap<Block.Block, Screen.Mark>
}

export const makeLook = ({ appearance, display, screen }: State, width: number): BlockLines.Look => ({
  columns: Math.max(1, width - 1),
  paint: screen.asidePaint,
  markdown: appearance.markdown,
  make: display.markdown,
  verbosity: appearance.verbosity(),
  showReasoning: appearance.showReasoning,
  previewLength: appearance.previewLength
})

export const readLook = (state: State): BlockLines.Look => makeLook(state, state.screen.size().columns)

export const getDetail = ({ details }: State, block: Block.Block): Block.Detail => details.get(block) ?? "part"

export const renderBlock = (
  state: State,
  before: Block.Block | undefined,
  block: Block.Block,
  look: BlockLines.Look
): string => {
  const lines = state.layouts.lines(block, getDetail(state, block), look)
  if (lines.length === 0) return ""
  const end = block._tag === "Lines" && !block.text.endsWith("\n") ? "" : "\n"
  return `${BlockLines.isApart(before, block) ? "\n" : ""}${lines.join("\n")}${end}`
}

export const makeMarkdown = (
  { appearance, display, screen }: State,
  columns: () => number
): ReturnType<Markdown.Make> | undefined =>
  display.markdown?.({ mode: appearance.markdown, paint: screen.asidePaint, columns })

export const beginBlock = (state: State, block: OpenBlock["block"]): OpenBlock => {
  const begun = { block, end: () => "", draft: () => "", given: 0, isSeen: false }
  const readColumns = (): number => readLook(state).columns
  if (block._tag === "Reasoning") {
    if (!state.appearance.showReasoning) return { ...begun, push: () => "" }
    const { end, push } = RunText.makeReasoningText(state.screen.asidePaint, readColumns)
    return { ...begun, push, end }
  }
  const renderer = makeMarkdown(state, readColumns)
  if (renderer === undefined) return { ...begun, push: (piece) => piece }
  return { ...begun, push: (piece) => renderer.push(piece), end: () => renderer.end(), draft: () => renderer.open() }
}
