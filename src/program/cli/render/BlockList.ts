/**
 * The stored blocks of a conversation on the terminal: the latest ones, at most {@link mostBlocks} blocks and
 * {@link mostCharacters} characters.
 */
import * as Block from "./Block.ts"

/** Maximum number of stored blocks. */
const mostBlocks = 5000
/** Maximum number of stored characters. */
const mostCharacters = 16 * 1024 * 1024
/** Number of blocks discarded at once, so that the average cost for each block is small. */
const discarded = 500

/** Blocks in their order, and positions among them. */
export interface BlockList {
  readonly blocks: Array<Block.Block>
  /** Number of characters of the blocks. */
  weight: number
  /** Number of written blocks. */
  written: number
  /** Number of blocks that can no longer be repainted because the terminal was cleared. */
  floor: number
  /** Number of blocks of earlier turns. */
  turn: number
}

export const make = (): BlockList => ({ blocks: [], weight: 0, written: 0, floor: 0, turn: 0 })

/** Discards the first block. */
const discardFirst = (list: BlockList): void => {
  const first = list.blocks.shift()
  if (first !== undefined) list.weight -= Block.measureWeight(first)
  list.written = Math.max(0, list.written - 1)
  list.floor = Math.max(0, list.floor - 1)
  list.turn = Math.max(0, list.turn - 1)
}

/** Adds a block, and discards the first ones if there are too many. */
export const storeBlock = (list: BlockList, block: Block.Block): void => {
  const { blocks } = list
  blocks.push(block)
  list.weight += Block.measureWeight(block)
  if (blocks.length <= mostBlocks && list.weight <= mostCharacters) return
  while (blocks.length > mostBlocks - discarded || (list.weight > mostCharacters && blocks.length > 1))
    discardFirst(list)
}

/** Adds text to the last block, which consists of lines. */
export const extendLast = (list: BlockList, before: Block.LinesBlock, text: string): Block.LinesBlock => {
  const next: Block.LinesBlock = { ...before, text: before.text + text }
  list.weight += text.length
  list.blocks[list.blocks.length - 1] = next
  return next
}

/** Removes the blocks from a position to the end. */
export const removeFrom = (list: BlockList, first: number): void => {
  for (const taken of list.blocks.splice(first)) list.weight -= Block.measureWeight(taken)
  list.written = Math.min(list.written, list.blocks.length)
}
