/**
 * Recognizes conversations by their messages, for clients that store the messages themselves and do not name a session.
 *
 * **Details**
 *
 * Only the text of the user and of the agent is compared, not calls and results. A conversation is returned only once.
 * It is not returned if several sessions have the same text. Only a limited number of the newest conversations is
 * remembered.
 *
 * **Gotchas**
 *
 * Conversations are remembered only by this server process. After a restart, a client's messages begin a new session.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Digest from "../../../base/platform/Digest.ts"
import * as ConversationTexts from "../../../store/ConversationTexts.ts"

/** A stored session, and the point in it at which a conversation ended. */
export interface LeftSession {
  readonly id: string
  readonly messages: number
}

/** Remembered sessions, identified by their messages. */
export interface KnownConversations {
  /**
   * Remembers the session in which a conversation ended. If another session is known for the same messages, neither
   * session is returned from then on.
   */
  readonly remember: (messages: ReadonlyArray<Prompt.Message>, left: LeftSession) => void
  /**
   * Removes and returns the session that ends with these messages. Sending the same messages again does not return it a
   * second time.
   */
  readonly take: (messages: ReadonlyArray<Prompt.Message>) => LeftSession | undefined
}

/** Maximum number of remembered conversations. */
const most = 4_096

const computeFingerprint = (messages: ReadonlyArray<Prompt.Message>): string =>
  Digest.toHex(JSON.stringify(ConversationTexts.readTexts(messages).map(({ role, text }) => [role, text])), 64)

/** Makes an empty collection of known conversations. */
export const make = (): KnownConversations => {
  /** Sessions by conversation key. The value is `undefined` if several sessions share the key. */
  const known = new Map<string, LeftSession | undefined>()
  return {
    remember: (messages, left) => {
      const key = computeFingerprint(messages)
      const isOther = known.has(key) && known.get(key)?.id !== left.id
      known.delete(key)
      known.set(key, isOther ? undefined : left)
      const oldest = known.keys().next()
      if (known.size > most && oldest.done !== true) known.delete(oldest.value)
    },
    take: (messages) => {
      const key = computeFingerprint(messages)
      const left = known.get(key)
      if (left !== undefined) known.delete(key)
      return left
    }
  }
}
