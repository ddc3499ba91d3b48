/**
 * The whole conversation on the alternate screen: its blocks at the current width, one after the other, to browse, fold
 * and expand. Only the blocks in the window are laid out, so that the cost does not depend on the length of the
 * conversation.
 *
 * Ctrl+O opens it, also during a turn, and selects the last block that can be expanded. The view follows new output
 * while the end is in the window. Esc, q, Ctrl+O and Ctrl+C go back; they do not stop a turn.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Block from "../render/Block.ts"
import * as BlockLines from "../render/BlockLines.ts"
import type { Size } from "../render/Screen.ts"
import type { Transcript } from "../render/Transcript.ts"
import * as Width from "../render/Width.ts"
import { type Dialog, printLines } from "./Dialog.ts"
import type { Key } from "./Keys.ts"
import { readKeys } from "./PromptLine.ts"

/** Position in the conversation: the selected block, and the first line of the window. */
export interface State {
  readonly selected: number
  readonly top: number
  /** Line of that block at the top of the window. */
  readonly line: number
}

/** The blocks of a conversation and their lines, with an empty line between separated blocks. */
export interface Source {
  readonly count: number
  readonly lines: (index: number) => ReadonlyArray<string>
  readonly isFoldable: (index: number) => boolean
  /** Switches a block between the folded and the open form. */
  readonly toggle: (index: number, isOpen: boolean | undefined) => void
}

const clamp = (value: number, least: number, most: number): number => Math.max(least, Math.min(most, value))

/** Returns the position `count` lines further up, or the first line if there are fewer lines. */
const findLineAbove = (
  { lines }: Source,
  { line, top }: Pick<State, "line" | "top">,
  count: number
): Pick<State, "line" | "top"> => {
  let left = count
  let at = { top, line }
  while (left > 0) {
    const step = Math.min(left, at.line)
    at = { top: at.top, line: at.line - step }
    left -= step
    if (left === 0 || at.top === 0) return at
    at = { top: at.top - 1, line: lines(at.top - 1).length }
  }
  return at
}

/** Returns the position `count` lines further down, and the number of lines moved. */
const findLineBelow = (
  { count, lines }: Source,
  { line, top }: Pick<State, "line" | "top">,
  wanted: number
): Pick<State, "line" | "top"> & { readonly found: number } => {
  let found = 0
  let at = { top, line }
  while (at.top < count) {
    const rest = lines(at.top).length - at.line
    if (found + rest > wanted) return { top: at.top, line: at.line + wanted - found, found: wanted }
    found += rest
    at = { top: at.top + 1, line: 0 }
  }
  return { ...at, found }
}

/** Returns the state with the window filled, if there are enough lines. */
const fillWindow = (source: Source, state: State, rows: number): State => {
  const { found } = findLineBelow(source, state, rows)
  return found >= rows ? state : { ...state, ...findLineAbove(source, state, rows - found) }
}

/** Returns the state at the end of the conversation. */
export const moveToEnd = (source: Source, selected: number, rows: number): State => ({
  selected,
  ...findLineAbove(source, { top: source.count, line: 0 }, rows)
})

/** Returns true if the last line is in the window. */
export const isAtEnd = (source: Source, state: State, rows: number): boolean =>
  findLineBelow(source, state, rows + 1).found <= rows

const findVisibleBlock = ({ count, lines }: Source, from: number, step: -1 | 1): number | undefined => {
  for (let index = from; index >= 0 && index < count; index += step) if (lines(index).length > 0) return index
  return undefined
}

/**
 * Moves the window as little as needed to show the selected block, or its beginning if it is taller than the window.
 */
const scrollToSelected = (source: Source, state: State, rows: number): State => {
  const { selected } = state
  if (selected < state.top || (selected === state.top && state.line > 0))
    return fillWindow(source, { selected, top: selected, line: 0 }, rows)
  let height = source.lines(selected).length
  for (let index = state.top; index < selected && height <= rows; index++)
    height += source.lines(index).length - (index === state.top ? state.line : 0)
  if (height <= rows) return state
  const own = source.lines(selected).length
  return own >= rows
    ? { selected, top: selected, line: 0 }
    : { selected, ...findLineAbove(source, { top: selected + 1, line: 0 }, rows) }
}

/** Selects the current block, or the nearest block that is in the window. */
const selectInWindow = (source: Source, state: State, rows: number): State => {
  const first = findVisibleBlock(
    source,
    state.line > 0 && source.lines(state.top).length - state.line <= 0 ? state.top + 1 : state.top,
    1
  )
  const end = findLineBelow(source, state, Math.max(0, rows - 1)).top
  const last = findVisibleBlock(source, Math.min(source.count - 1, end), -1)
  if (first === undefined || last === undefined) return state
  return { ...state, selected: clamp(state.selected, first, Math.max(first, last)) }
}

/** Selects the next or the previous block, or moves to the end of the conversation in that direction. */
const selectBlock = (source: Source, state: State, rows: number, step: -1 | 1): State => {
  const next = findVisibleBlock(source, state.selected + step, step)
  if (next !== undefined) return scrollToSelected(source, { ...state, selected: next }, rows)
  return step < 0 ? { ...state, top: 0, line: 0 } : moveToEnd(source, state.selected, rows)
}

/** Scrolls by lines: down, or up for a negative count. */
const scrollPage = (source: Source, state: State, rows: number, count: number): State => {
  const moved = count < 0 ? findLineAbove(source, state, -count) : findLineBelow(source, state, count)
  const top = Math.min(moved.top, Math.max(0, source.count - 1))
  return selectInWindow(source, fillWindow(source, { selected: state.selected, top, line: moved.line }, rows), rows)
}

/** Opens or folds the selected block. Without a direction, it is toggled. */
const foldBlock = (source: Source, state: State, rows: number, isOpen: boolean | undefined): State => {
  source.toggle(state.selected, isOpen)
  const line = Math.min(state.line, Math.max(0, source.lines(state.top).length - 1))
  return scrollToSelected(source, fillWindow(source, { ...state, line }, rows), rows)
}

/** Computes the state after a key, or `undefined` for the prompt. */
type KeyAction = (source: Source, state: State, rows: number) => State | undefined

/** Keys of the view, by their actions. */
const actions: ReadonlyArray<readonly [keys: ReadonlyArray<string>, run: KeyAction]> = [
  [["escape", "q", "ctrl-o", "ctrl-c", "ctrl-d"], () => undefined],
  [["up", "k", "ctrl-p"], (source, state, rows) => selectBlock(source, state, rows, -1)],
  [["down", "j", "ctrl-n"], (source, state, rows) => selectBlock(source, state, rows, 1)],
  [["pageup", "ctrl-b", "ctrl-u"], (source, state, rows) => scrollPage(source, state, rows, 1 - rows)],
  [["pagedown", "ctrl-f"], (source, state, rows) => scrollPage(source, state, rows, rows - 1)],
  [
    ["home", "g", "ctrl-home"],
    (source, _state, rows) =>
      scrollToSelected(source, { selected: findVisibleBlock(source, 0, 1) ?? 0, top: 0, line: 0 }, rows)
  ],
  [
    ["end", "G", "ctrl-end"],
    (source, _state, rows) => moveToEnd(source, findVisibleBlock(source, source.count - 1, -1) ?? 0, rows)
  ],
  [["enter", " ", "tab"], (source, state, rows) => foldBlock(source, state, rows, undefined)],
  [["right", "l"], (source, state, rows) => foldBlock(source, state, rows, true)],
  [["left", "h"], (source, state, rows) => foldBlock(source, state, rows, false)]
]

const actionByKey = new Map(actions.flatMap(([keys, run]) => keys.map((key) => [key, run] as const)))

/** Applies a key. Returns `undefined` if the key goes back to the prompt. */
export const pressKey = (source: Source, state: State, name: string, rows: number): State | undefined => {
  const run = actionByKey.get(name)
  return run === undefined ? state : run(source, state, rows)
}

/** Renders the lines of the window. The selected block has a bar on its left. */
export const renderWindow = (
  { count, lines }: Source,
  state: State,
  rows: number,
  mark: string
): ReadonlyArray<string> => {
  const found: Array<string> = []
  for (let index = state.top; index < count && found.length < rows; index++) {
    const own = lines(index).map((line, row) =>
      index === state.selected && (row > 0 || line !== "") ? mark + line : line === "" ? "" : `  ${line}`
    )
    found.push(...(index === state.top ? own.slice(state.line) : own))
  }
  return found.slice(0, rows)
}

/** Creates the source of the blocks as shown by this view. */
export const makeSource = (screen: Transcript): Source => {
  const open = screen.open()
  const blocks = open === undefined ? screen.blocks() : [...screen.blocks(), open]
  const given = screen.look()
  const look: BlockLines.Look = { ...given, columns: Math.max(1, given.columns - 2) }
  const chooseDetail = (block: Block.Block): Block.Detail => {
    const chosen = screen.getBlockDetail(block)
    return chosen === "part" && (block._tag === "Tool" || block._tag === "Reasoning") ? "folded" : chosen
  }
  const isUnseen = (block: Block.Block | undefined): boolean =>
    block !== undefined && screen.layouts.lines(block, chooseDetail(block), look).length === 0
  const layOutBlock = (index: number): ReadonlyArray<string> => {
    const block = blocks[index]
    if (block === undefined) return []
    // The program's own lines include their blank lines, but in this view every block is separated.
    const own = screen.layouts
      .lines(block, chooseDetail(block), look)
      .flatMap((line) => BlockLines.divideLine(line.replace(/\s+$/, ""), look.columns, look.paint))
    const end = own.findLastIndex((line) => line !== "") + 1
    const begin = own.findIndex((line) => line !== "")
    if (end === 0) return []
    let before = index - 1
    while (before >= 0 && isUnseen(blocks[before])) before--
    return [...(isApart(blocks[before], block) ? [""] : []), ...own.slice(begin, end)]
  }
  return {
    count: blocks.length,
    lines: layOutBlock,
    isFoldable: (index) => {
      const block = blocks[index]
      return block !== undefined && Block.isFoldable(block)
    },
    toggle: (index, isOpen) => {
      const block = blocks[index]
      if (block === undefined || !Block.isFoldable(block)) return
      screen.setDetail(block, (isOpen ?? screen.getBlockDetail(block) !== "open") ? "open" : "part")
    }
  }
}

const isApart = (before: Block.Block | undefined, block: Block.Block): boolean =>
  before !== undefined &&
  (before._tag === "User" ||
    before._tag === "Lines" ||
    block._tag === "User" ||
    block._tag === "Lines" ||
    BlockLines.isApart(before, block))

const hideCursor = "\u001b[?25l"

/** Number of rows without blocks: the line that lists the keys. */
const ownRows = 1

const renderPicture = (source: Source, state: State, { columns, rows }: Size, { asidePaint }: Transcript): string => {
  const body = renderWindow(source, state, rows - ownRows, `${asidePaint.text("▌", "accent")} `)
  const place = source.count === 0 ? "empty" : `${state.selected + 1} of ${source.count}`
  const keys = source.isFoldable(state.selected)
    ? "↑↓ blocks · Enter opens and folds · q goes back"
    : "↑↓ blocks · PgUp PgDn · Home End · q goes back"
  const line = asidePaint.text(Width.cut(`  ${place} · ${keys}`, columns - 1), "muted")
  const filler = Array.from({ length: Math.max(0, rows - ownRows - body.length) }, () => "")
  return `\u001b[H${[...body, ...filler, line].map((text) => `\u001b[2K${text}`).join("\n\r")}`
}

/** Interval at which the view is redrawn during activity. */
const refreshMillis = 300

/** Shows the conversation until the user returns to the prompt. */
export const show = (dialog: Pick<Dialog, "keyboard" | "options" | "screen">): Effect.Effect<void> =>
  Effect.suspend(() => {
    const {
      options: { terminal },
      screen
    } = dialog
    if (terminal.isLinear)
      return Effect.sync(() =>
        printLines(dialog, "The conversation cannot be drawn here. Type /history to show it.", "")
      )
    const countRows = (): number => Math.max(1, screen.size().rows - ownRows)
    const first = makeSource(screen)
    let last = first.count - 1
    while (last > 0 && !first.isFoldable(last)) last--
    let state = moveToEnd(
      first,
      first.isFoldable(last) ? last : (findVisibleBlock(first, first.count - 1, -1) ?? 0),
      countRows()
    )
    let wasAtEnd = true
    let size = screen.size()
    const draw = Effect.sync(() => {
      const source = makeSource(screen)
      const next = screen.size()
      const rows = countRows()
      if (next.columns !== size.columns)
        state = scrollToSelected(source, fillWindow(source, { ...state, line: 0 }, rows), rows)
      else if (wasAtEnd) state = moveToEnd(source, state.selected, rows)
      size = next
      wasAtEnd = isAtEnd(source, state, rows)
      terminal.write(renderPicture(source, state, next, screen))
    })
    const handleKey = (key: Key) =>
      Effect.sync((): true | undefined => {
        const source = makeSource(screen)
        const name = key._tag === "Key" ? key.name : key._tag === "Text" ? key.text : ""
        const next = pressKey(source, state, name, countRows())
        if (next === undefined) return true
        state = next
        wasAtEnd = isAtEnd(source, state, countRows()) && state.selected >= source.count - 1
        return undefined
      })
    const shows = Effect.andThen(
      draw,
      Effect.raceFirst(
        readKeys(dialog, handleKey, draw, true),
        Effect.andThen(Effect.schedule(draw, Schedule.spaced(refreshMillis)), Effect.never)
      )
    )
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        screen.lend(true)
        terminal.alternate(true)
        terminal.write(hideCursor)
      }),
      () => Effect.asVoid(shows),
      () =>
        Effect.sync(() => {
          terminal.alternate(false)
          screen.lend(false)
        })
    )
  })
