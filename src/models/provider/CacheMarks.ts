/**
 * Marks in a request (breakpoints): the provider stores the prefix up to a mark in the prompt cache.
 *
 * **Details**
 *
 * A request has four at most: after the tools, after the system prompt, and at the end of the conversation. With tools,
 * the conversation's marks are on its last two user messages: each ended a request, so the prefix before the earlier
 * one was cached by the previous request, however many blocks followed. Without tools they are on the last three
 * messages, or on the last four if there is no system prompt either. Only wire forms that are new get marks, so a mark
 * that moves on leaves the bytes before it as they were.
 *
 * A conversation that already carries marks from its caller gets no others.
 *
 * Source: `hermes-llm.md` §7.2.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../base/domain/GrowingList.ts"
import * as Json from "../../base/domain/Json.ts"
import type { PromptCache } from "../../base/domain/ModelCall.ts"
import * as Digest from "../../base/platform/Digest.ts"

/** Marks of one request at most. */
const limit = 4

/** A mark as Anthropic and those who follow it write it. */
export interface CacheControl {
  readonly type: "ephemeral"
  /** Five minutes when absent. */
  readonly ttl?: "1h"
}

const short: CacheControl = { type: "ephemeral" }
const long: CacheControl = { type: "ephemeral", ttl: "1h" }

/** The mark that caches a prefix for as long as a call requests; always the same object. */
export const toCacheControl = ({ ttl }: PromptCache): CacheControl => (ttl === "1h" ? long : short)

/** The longest key of a prompt cache that OpenAI takes. */
const maxKey = 64

/** Key of a conversation's prompt cache, for providers that take a key in place of marks. */
export const makeCacheKey = (conversationId: string): string =>
  conversationId.length <= maxKey ? conversationId : Digest.toHex(conversationId, maxKey)

/** Parts of a request that take marks before its conversation does. */
interface Head {
  readonly system: boolean
  readonly tools: boolean
}

/**
 * Marks the wire messages of a conversation. `mark` returns the marked form of a message, or undefined for a message
 * that cannot carry a mark.
 */
export const markConversation = <Message extends { readonly role?: unknown }>(
  messages: ReadonlyArray<Message>,
  { system, tools }: Head,
  mark: (message: Message) => Message | undefined
): ReadonlyArray<Message> => {
  const marked = messages.slice()
  let left = limit - (system ? 1 : 0) - (tools ? 1 : 0)
  for (let at = messages.length - 1; at >= 0 && left > 0; at--) {
    const message = messages[at]
    if (message === undefined || (tools && message.role !== "user")) continue
    const replaced = mark(message)
    if (replaced === undefined) continue
    marked[at] = replaced
    left--
  }
  return marked
}

/** Makes the test for marks of a caller in the options of a protocol's messages. */
export const makeMarkTest = (protocol: string): ((messages: ReadonlyArray<Prompt.Message>) => boolean) => {
  const marks = GrowingList.fold<Prompt.Message, { found: boolean }>({
    begin: () => ({ found: false }),
    add: (state, { content, options }) => {
      const hasMark = (options: Prompt.ProviderOptions): boolean =>
        Json.readFields(options[protocol])["cache_control"] !== undefined
      if (hasMark(options) || (typeof content !== "string" && content.some((part) => hasMark(part.options))))
        state.found = true
    },
    copy: ({ found }) => ({ found })
  })
  return (messages) => marks(messages).found
}
