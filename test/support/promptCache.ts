// Prompt caches of providers, simulated: how many tokens of a request are read from the cache, written to it, or
// neither.
import { createHash } from "node:crypto"

/** A part of a request, in the order in which it is cached. */
export interface Block {
  readonly text: string
  /** True where a mark for the cache stands behind it. */
  readonly isMarked: boolean
  /** True where the mark asks for an hour. */
  readonly isLong?: boolean
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
  readonly messages: ReadonlyArray<{ readonly role?: string; readonly content: Content }>
}

const hasType = (block: object, type: string): boolean => "type" in block && block.type === type

/** What a model reads that removes the thinking of earlier turns. */
export const withoutEarlierThinking = (body: MessagesBody): MessagesBody => {
  const opening = body.messages.findLastIndex(
    ({ content, role }) => role === "user" && content.some((block) => !hasType(block, "tool_result"))
  )
  const messages = body.messages.map((message, at) =>
    at < opening ? { ...message, content: message.content.filter((block) => !hasType(block, "thinking")) } : message
  )
  return { ...body, messages }
}

const isLongMark = (marker: unknown): boolean => JSON.stringify(marker ?? null).includes('"1h"')

/** Blocks of a request of Anthropic's protocol. */
export const anthropicBlocks = ({ messages, system = [], tools = [] }: MessagesBody): ReadonlyArray<Block> =>
  [...tools, ...system, ...messages.flatMap(({ content }) => content)].map((block) => {
    const { cache_control: marker, ...rest } = block as { readonly cache_control?: unknown } // Any block may have one.
    return { text: JSON.stringify(rest), isMarked: marker !== undefined, isLong: isLongMark(marker) }
  })

interface ConverseBody extends Pick<MessagesBody, "messages" | "system"> {
  readonly toolConfig?: { readonly tools: Content }
}

/** Blocks of a request of Bedrock's protocol, in which marks are blocks themselves. */
export const bedrockBlocks = ({ messages, system = [], toolConfig }: ConverseBody): ReadonlyArray<Block> => {
  const all = [...(toolConfig?.tools ?? []), ...system, ...messages.flatMap(({ content }) => content)]
  return all.flatMap((block, at) =>
    "cachePoint" in block
      ? []
      : [
          {
            text: JSON.stringify(block),
            isMarked: "cachePoint" in (all[at + 1] ?? {}),
            isLong: isLongMark("cachePoint" in (all[at + 1] ?? {}) ? all[at + 1] : undefined)
          }
        ]
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

const refuseMany = (points: ReadonlyArray<number>): void => {
  if (points.length > 4) throw new Error(`a request has ${points.length} marks, and providers refuse more than four`)
}

/** A cache that is written at marks, four in a request at most, and read at them or up to 20 blocks before them. */
export const marked = () => {
  const cache = new Set<string>()
  return (blocks: ReadonlyArray<Block>): Counted => {
    const names = prefixes(blocks)
    const points = blocks.flatMap(({ isMarked }, at) => (isMarked ? [at + 1] : []))
    refuseMany(points)
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

/** Blocks of a chat request: the tools and the parts of the messages, marked or not. */
export const chatBlocks = ({
  messages,
  tools = []
}: {
  readonly tools?: Content
  readonly messages: ReadonlyArray<{ readonly content: unknown }>
}): ReadonlyArray<Block> => [
  ...tools.map((tool) => ({ text: JSON.stringify(tool), isMarked: false })),
  ...messages.map((message) => {
    const text = JSON.stringify(message)
    const bare = text.replaceAll(/,?"cache_control":\{[^}]*\}/gu, "")
    return { text: bare, isMarked: bare !== text, isLong: bare !== text && text.includes(`"ttl":"1h"`) }
  })
]

/** A request with the time at which it was sent, in milliseconds. */
export interface Timed {
  readonly at: number
  /** Requests share a cache if this is the same. */
  readonly key: string
  /** True if the request asks for a cache of a day. */
  readonly isLong?: boolean
  readonly blocks: ReadonlyArray<Block>
}

/** The prices of a kind of cache, in tokens that are not cached. */
export interface Pricing {
  /** Cost of requests in their order. */
  readonly pay: (requests: ReadonlyArray<Timed>) => number
  /** Cost of the same requests if nothing that was sent once were paid for at more than a tenth. */
  readonly least: (requests: ReadonlyArray<Timed>) => number
}

/** Whatever a request before had costs a tenth, wherever it stood in it. */
const leastOf = (requests: ReadonlyArray<Timed>, write: number): number => {
  const sent = new Set<string>()
  let sum = 0
  for (const { blocks } of requests) {
    for (const block of blocks) {
      sum += tokensOf([block]) * (sent.has(block.text) ? 0.1 : write)
      sent.add(block.text)
    }
  }
  return sum
}

/**
 * Anthropic's prices. A prefix is written at marks, and read at them or up to 20 blocks before them; it lasts five
 * minutes, or an hour where the mark says so, after it was used.
 */
export const byMarks: Pricing = {
  pay: (requests) => {
    const until = new Map<string, { end: number; lasts: number }>()
    let sum = 0
    for (const { at, blocks } of requests) {
      const names = prefixes(blocks)
      const points = blocks.flatMap(({ isMarked }, index) => (isMarked ? [index + 1] : []))
      refuseMany(points)
      const isWarm = (end: number): boolean => (until.get(names[end] ?? "")?.end ?? -1) > at
      let read = 0
      for (const point of points)
        for (let end = point; end > Math.max(0, point - 20); end--) if (end > read && isWarm(end)) read = end
      const written = points.filter((point) => tokensOf(blocks.slice(0, point)) >= least)
      const lasts = blocks.some(({ isLong }) => isLong === true) ? 3_600_000 : 300_000
      for (const point of [...written, ...(read > 0 ? [read] : [])])
        until.set(names[point] ?? "", { end: at + lasts, lasts })
      const { fresh, read: cached, written: stored } = counted(blocks, read, Math.max(read, written.at(-1) ?? 0))
      sum += cached * 0.1 + stored * (lasts === 300_000 ? 1.25 : 2) + fresh
    }
    return sum
  },
  least: (requests) => leastOf(requests, 1.25)
}

/** OpenAI's prices: the longest beginning of an earlier request is read, if it was used in the last ten minutes. */
export const byBeginnings: Pricing = {
  pay: (requests) => {
    const until = new Map<string, number>()
    let sum = 0
    for (const { at, blocks, key, isLong } of requests) {
      const names = prefixes(blocks).map((name) => `${key}\n${name}`)
      const found = names.findLastIndex(
        (name, end) => (until.get(name) ?? -1) > at && tokensOf(blocks.slice(0, end)) >= least
      )
      const read = Math.max(0, found)
      for (const name of names) until.set(name, at + (isLong === true ? 86_400_000 : 600_000))
      sum += tokensOf(blocks.slice(0, read)) * 0.1 + tokensOf(blocks.slice(read))
    }
    return sum
  },
  least: (requests) => leastOf(requests, 1)
}

/** The requests that do not begin with all of the request before, and the place of the first block that differs. */
export const findBreaks = (
  requests: ReadonlyArray<ReadonlyArray<Block>>
): ReadonlyArray<{
  readonly request: number
  readonly block: number
  readonly before: string
  readonly after: string
}> =>
  requests.flatMap((blocks, request) => {
    const before = requests[request - 1] ?? []
    const block = before.findIndex(({ text }, at) => blocks[at]?.text !== text)
    return block === -1
      ? []
      : [
          {
            request,
            block,
            before: (before[block]?.text ?? "").slice(0, 200),
            after: (blocks[block]?.text ?? "").slice(0, 200)
          }
        ]
  })
