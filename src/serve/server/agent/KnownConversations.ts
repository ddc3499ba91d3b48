/**
 * Conversations that are recognised by their messages, for clients that store the messages and name no session.
 *
 * **Details**
 *
 * Texts of the user and of the agent count; calls and results belong to the agent. A conversation is returned once, and
 * not at all if several sessions have the same texts. Only a bounded number of the newest conversations is remembered.
 *
 * **Gotchas**
 *
 * Conversations are known to this server alone, as long as it runs: after that, a client's messages begin a new
 * session.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Digest from "../../../base/platform/Digest.ts"
import * as ConversationTexts from "../../../store/ConversationTexts.ts"

/** A stored session as a conversation left it. */
export interface LeftSession {
  readonly id: string
  readonly messages: number
}

/** Sessions by their messages. */
export interface KnownConversations {
  /**
   * Remembers the session that a conversation was left in. Where another session is known for the same messages,
   * neither is given away any more.
   */
  readonly remember: (messages: ReadonlyArray<Prompt.Message>, left: LeftSession) => void
  /**
   * Removes and returns the session that ends with these messages. Sending the same messages again gets another
   * session.
   */
  readonly take: (messages: ReadonlyArray<Prompt.Message>) => LeftSession | undefined
}

/** Conversations that are remembered. */
const most = 4_096

const computeFingerprint = (messages: ReadonlyArray<Prompt.Message>): string =>
  Digest.toHex(JSON.stringify(ConversationTexts.readTexts(messages).map(({ role, text }) => [role, text])), 64)

/** Knows no conversation yet. */
export const make = (): KnownConversations => {
  /** The value is `undefined` if several sessions share the key. */
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
