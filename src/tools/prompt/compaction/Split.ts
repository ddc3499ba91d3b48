/**
 * Divides a conversation that is to be compacted: a head and a tail that are preserved verbatim, and a middle that a
 * summary replaces.
 *
 * **Details**
 *
 * The head is the system prompt and the first messages; the tail is the newest messages within its budget, at least
 * three. Neither boundary separates a call from its results. The newest user message is preserved verbatim: if it would
 * be in the middle, it follows the summary.
 *
 * Source: `hermes-llm.md` §10.3 and §10.5.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Prune from "./Prune.ts"

const charsPerToken = 4
const messageTokens = 10
const fileTokens = 1_600

/** Minimum number of messages in the tail. */
const leastTail = 3

const countChars = (part: Prompt.UserMessagePart | Prompt.AssistantMessagePart | Prompt.ToolMessagePart): number => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text.length
    case "file":
      return fileTokens * charsPerToken
    case "tool-call":
      return part.name.length + JSON.stringify(part.params ?? {}).length
    case "tool-result":
      return part.modelOutput?.some(({ type }) => type === "file") === true
        ? Prune.readResultText(part).length + fileTokens * charsPerToken
        : Prune.readResultText(part).length
    default:
      return 0
  }
}

/** Estimates the tokens of a message. */
const estimateTokens = ({ content }: Prompt.Message): number =>
  messageTokens +
  Math.ceil(
    (typeof content === "string" ? content.length : content.reduce((sum, part) => sum + countChars(part), 0)) /
      charsPerToken
  )

/** Estimates the tokens of messages. */
export const estimateTotalTokens = (messages: ReadonlyArray<Prompt.Message>): number =>
  messages.reduce((sum, message) => sum + estimateTokens(message), 0)

/** Returns the number of messages at the end that fit in `tokens`. */
export const countFittingMessages = (messages: ReadonlyArray<Prompt.Message>, tokens: number): number => {
  let left = tokens
  let count = 0
  for (const message of messages.toReversed()) {
    left -= estimateTokens(message)
    if (left < 0) break
    count++
  }
  return count
}

/** Parts of a conversation. */
export interface Parts {
  readonly head: ReadonlyArray<Prompt.Message>
  readonly middle: ReadonlyArray<Prompt.Message>
  /** Newest user message, if it was in the middle. */
  readonly pinned: Prompt.Message | undefined
  readonly tail: ReadonlyArray<Prompt.Message>
}

/** Finds the end of the head: after the first messages and the results of their calls. */
const findHeadEnd = (messages: ReadonlyArray<Prompt.Message>, protectFirst: number): number => {
  let end = Math.min(messages.length, (messages[0]?.role === "system" ? 1 : 0) + protectFirst)
  while (messages[end]?.role === "tool") end++
  return end
}

/** Divides a conversation; returns `undefined` if there are no messages between head and tail. */
export const split = (
  messages: ReadonlyArray<Prompt.Message>,
  {
    keepExchanges,
    protectFirst,
    tailTokens
  }: {
    readonly protectFirst: number
    readonly tailTokens: number
    /** Number of newest exchanges in the tail, regardless of their tokens. */
    readonly keepExchanges?: number | undefined
  }
): Parts | undefined => {
  const start = findHeadEnd(messages, protectFirst)
  if (keepExchanges !== undefined) return splitAt(messages, start, findTailStart(messages, keepExchanges))
  const kept = Math.max(leastTail, countFittingMessages(messages, tailTokens * 1.5))
  let end = messages.length - (kept >= messages.length - start ? leastTail : kept)
  while (end > start && messages[end]?.role === "tool") end--
  return splitAt(messages, start, end)
}

/** Finds the start of the newest exchanges. */
const findTailStart = (messages: ReadonlyArray<Prompt.Message>, exchanges: number): number => {
  const users = messages.flatMap(({ role }, index) => (role === "user" ? [index] : []))
  return users.at(-exchanges) ?? 0
}

/** Divides a conversation at two positions; returns `undefined` if there are no messages between them. */
const splitAt = (messages: ReadonlyArray<Prompt.Message>, start: number, end: number): Parts | undefined => {
  if (end <= start) return undefined
  const user = messages.findLastIndex(({ role }) => role === "user")
  const pinned = user >= start && user < end ? messages[user] : undefined
  const middle = messages.slice(start, end).filter((message) => message !== pinned)
  return middle.length === 0 ? undefined : { head: messages.slice(0, start), middle, pinned, tail: messages.slice(end) }
}
