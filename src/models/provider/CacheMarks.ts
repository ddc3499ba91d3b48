/**
 * Places cache marks (breakpoints) in a request. The provider stores the prefix up to each mark in its prompt cache.
 *
 * **Details**
 *
 * A request has at most four marks: after the tools, after the system prompt, and at the end of the conversation. If
 * the request has tools, the conversation's marks are on its last two user messages. The earlier of the two ended the
 * previous request, so the prefix up to it is already cached, regardless of the number of blocks after it. Without
 * tools the marks are on the last three messages, or on the last four if there is no system prompt either. Marks are
 * added to copies of the encoded messages, so the cached messages themselves never change.
 *
 * A conversation that already has marks set by the caller gets no additional marks.
 *
 * Source: `hermes-llm.md` §7.2.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../base/domain/GrowingList.ts"
import * as Json from "../../base/domain/Json.ts"
import type { PromptCache } from "../../base/domain/ModelCall.ts"
import * as Digest from "../../base/platform/Digest.ts"

/** Maximum number of marks in one request. */
const limit = 4

/** A mark in the format of Anthropic and compatible endpoints. */
export interface CacheControl {
  readonly type: "ephemeral"
  /** Lifetime of the cached prefix. Defaults to five minutes. */
  readonly ttl?: "1h"
}

const short: CacheControl = { type: "ephemeral" }
const long: CacheControl = { type: "ephemeral", ttl: "1h" }

/** Returns the mark with the cache lifetime that a call requests. Equal lifetimes return the same object. */
export const toCacheControl = ({ ttl }: PromptCache): CacheControl => (ttl === "1h" ? long : short)

/** Maximum length of a prompt cache key at OpenAI, in characters. */
const maxKey = 64

/** Returns the prompt cache key of a conversation, for providers that use a key instead of marks. */
export const makeCacheKey = (conversationId: string): string =>
  conversationId.length <= maxKey ? conversationId : Digest.toHex(conversationId, maxKey)

/**
 * Flags for the parts of a request before the conversation: `true` if the part carries a mark. Each mark reduces the
 * number left for messages.
 */
interface Head {
  readonly system: boolean
  readonly tools: boolean
}

/**
 * Adds marks to the encoded messages of a conversation. `mark` returns the marked form of a message, or `undefined` if
 * the message cannot carry a mark.
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

/**
 * Creates a function that tests whether the options of messages or parts for this protocol contain marks set by the
 * caller.
 */
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
