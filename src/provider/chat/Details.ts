/**
 * `reasoning_details`: opaque blocks of reasoning that go back to the model as they came. A stream brings each block in
 * pieces, which are put together here.
 *
 * **Details**
 *
 * Pieces belong together when their type and index are the same, or when they follow each other without an index. Text,
 * summary and data are concatenated; of every other field the last value stands, which is how a signature that comes at
 * the end finds its text.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import * as Raw from "../Raw.ts"

const grows = new Set(["text", "summary", "data"])

const merged = (block: Raw.Fields, piece: Raw.Fields): Raw.Fields => {
  const out: Record<string, unknown> = { ...block }
  for (const [name, value] of Object.entries(piece)) {
    const before = out[name]
    if (value === null || value === undefined) continue
    out[name] = grows.has(name) && typeof value === "string" && typeof before === "string" ? before + value : value
  }
  return out
}

const belongs = (block: Raw.Fields, piece: Raw.Fields): boolean =>
  block["type"] === piece["type"] && block["index"] === piece["index"] &&
  (block["id"] === undefined || block["id"] === null || piece["id"] === undefined || piece["id"] === null ||
    block["id"] === piece["id"])

/** Blocks as metadata carries them; undefined when there are none. They come from JSON. */
export const toJson = (blocks: ReadonlyArray<unknown>): Schema.Json | undefined =>
  blocks.length === 0 ? undefined : blocks as Schema.Json

/** Takes pieces in and gives blocks out. */
export interface Details {
  readonly add: (pieces: ReadonlyArray<unknown>) => void
  /** The blocks since the last time; undefined when there are none. */
  readonly take: () => Schema.Json | undefined
}

/** See the module. */
export const make = (): Details => {
  let blocks: Array<Raw.Fields> = []
  return {
    add: (pieces) => {
      for (const piece of pieces) {
        if (!Raw.isFields(piece)) continue
        const at = piece["index"] === undefined
          ? blocks.length - 1
          : blocks.findLastIndex((block) => belongs(block, piece))
        const block = blocks[at]
        if (block !== undefined && belongs(block, piece)) blocks[at] = merged(block, piece)
        else blocks.push(piece)
      }
    },
    take: () => {
      const taken = toJson(blocks)
      blocks = []
      return taken
    }
  }
}

/** The text of a block that a user may read: its summary, thinking, content or text. */
export const textOf = (detail: unknown): string => {
  const { summary, thinking, content, text } = Raw.fields(detail)
  for (const value of [summary, thinking, content, text]) {
    if (typeof value === "string" && value !== "") return value
  }
  return ""
}
