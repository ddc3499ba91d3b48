// Prompt caches of providers, simulated: how many tokens of a request are read from the cache, written to it, or
// neither.
import { assert } from "@effect/vitest"
import { createHash } from "node:crypto"

/** A part of a request, in the order in which it is cached. */
export interface Block {
  readonly text: string
  /** True where a mark for the cache stands behind it. */
  readonly isMarked: boolean
}

/** Tokens of one request. */
export interface Counted {
  readonly read: number
  readonly written: number
  readonly fresh: number
}

type Content = ReadonlyArray<object>

interface MessagesBody {
  readonly tools?: Content
  readonly system?: Content
  readonly messages: ReadonlyArray<{ readonly content: Content }>
}

/** Blocks of a request of Anthropic's protocol. */
export const anthropicBlocks = ({ messages, system = [], tools = [] }: MessagesBody): ReadonlyArray<Block> =>
  [...tools, ...system, ...messages.flatMap(({ content }) => content)].map((block) => {
    const { cache_control: marker, ...rest } = block as { readonly cache_control?: unknown } // Any block may have one.
    return { text: JSON.stringify(rest), isMarked: marker !== undefined }
  })

interface ConverseBody extends Pick<MessagesBody, "messages" | "system"> {
  readonly toolConfig?: { readonly tools: Content }
}

/** Blocks of a request of Bedrock's protocol, in which marks are blocks themselves. */
export const bedrockBlocks = ({ messages, system = [], toolConfig }: ConverseBody): ReadonlyArray<Block> => {
  const all = [...(toolConfig?.tools ?? []), ...system, ...messages.flatMap(({ content }) => content)]
  return all.flatMap((block, at) =>
    "cachePoint" in block ? [] : [{ text: JSON.stringify(block), isMarked: "cachePoint" in (all[at + 1] ?? {}) }]
  )
}

/** Parts of a request of a protocol that has no marks; undefined where it has none of a part. */
export const unmarkedBlocks = (parts: ReadonlyArray<unknown>): ReadonlyArray<Block> =>
  parts.flatMap((part) => (part === undefined ? [] : [{ text: JSON.stringify(part), isMarked: false }]))

export const tokensOf = (blocks: ReadonlyArray<Block>): number =>
  Math.ceil(blocks.reduce((sum, { text }) => sum + text.length, 0) / 4)

/** Name of each prefix of a request, that of nothing first. */
const prefixes = (blocks: ReadonlyArray<Block>): ReadonlyArray<string> => {
  const names = [""]
  for (const { text } of blocks)
    names.push(
      createHash("sha1")
        .update(`${names.at(-1)}\n${text}`)
        .digest("base64")
    )
  return names
}

/** Tokens of a prefix that is cached at least. */
const least = 1_024

const counted = (blocks: ReadonlyArray<Block>, read: number, end: number): Counted => ({
  read: tokensOf(blocks.slice(0, read)),
  written: tokensOf(blocks.slice(read, end)),
  fresh: tokensOf(blocks.slice(end))
})

/** A cache that is written at marks, four in a request at most, and read at them or up to 20 blocks before them. */
export const marked = () => {
  const cache = new Set<string>()
  return (blocks: ReadonlyArray<Block>): Counted => {
    const names = prefixes(blocks)
    const points = blocks.flatMap(({ isMarked }, at) => (isMarked ? [at + 1] : []))
    assert.isAtMost(points.length, 4)
    let read = 0
    for (const point of points) {
      for (let end = point; end > Math.max(0, point - 20); end--) {
        if (end > read && cache.has(names[end] ?? "")) read = end
      }
    }
    const large = points.filter((point) => tokensOf(blocks.slice(0, point)) >= least)
    for (const point of large) cache.add(names[point] ?? "")
    return counted(blocks, read, Math.max(read, large.at(-1) ?? 0))
  }
}

/**
 * A cache that keeps each request by itself: the longest beginning that an earlier one of the same `key` had is read,
 * writing costs nothing.
 */
export const automatic = () => {
  const cache = new Set<string>()
  return (blocks: ReadonlyArray<Block>, key: string): Counted => {
    const names = prefixes(blocks).map((name) => `${key}\n${name}`)
    const read = names.findLastIndex((name, end) => cache.has(name) && tokensOf(blocks.slice(0, end)) >= least)
    for (const name of names) cache.add(name)
    return counted(blocks, Math.max(0, read), Math.max(0, read))
  }
}
