/**
 * Bounds of the in-memory session store, and the selection of the conversations that are dropped when it is full.
 *
 * **Details**
 *
 * A conversation is a session with its continuations and child sessions. It is retained or dropped as a whole, so that
 * no retained session refers to a dropped one. The least recently used conversation is dropped first. A conversation
 * with an active run is never dropped.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { SessionId } from "../base/domain/Ids.ts"

/** Limits of an in-memory store. If one of them is exceeded, conversations are dropped. */
export interface Bounds {
  /** Maximum number of sessions. */
  readonly sessions: number
  /** Maximum number of characters (and bytes of files) in all messages. */
  readonly characters: number
}

/** Default bounds of a store. */
export const defaultBounds: Bounds = { sessions: 5_000, characters: 50_000_000 }

/** Estimated size of a message without its text, in characters. */
const messageOverhead = 200

const countCharacters = (value: unknown): number => {
  if (typeof value === "string") return value.length
  if (typeof value !== "object" || value === null) return 0
  if (ArrayBuffer.isView(value)) return value.byteLength
  let sum = 0
  for (const key in value) sum += countCharacters(Reflect.get(value, key))
  return sum
}

/** Estimates the size of a message in characters. */
export const measureMessage = ({ content }: Prompt.Message): number => messageOverhead + countCharacters(content)

interface Conversation {
  readonly sessions: Set<SessionId>
  characters: number
}

/** Sessions of a store by conversation, with their sizes. */
export interface Ledger {
  /** Adds a session. A session with a parent is added to the parent's conversation. */
  readonly add: (id: SessionId, parentId: SessionId | undefined) => void
  /** Adds a number of characters to the size of a session. Its conversation becomes the most recently used one. */
  readonly grow: (id: SessionId, characters: number) => void
  readonly remove: (id: SessionId, characters: number) => void
  /**
   * Removes sessions until the bounds hold, and returns them so that the store can drop them. A conversation is
   * protected if `isInUse` returns true for one of its sessions.
   */
  readonly takeSurplus: (isInUse: (id: SessionId) => boolean) => ReadonlyArray<SessionId>
}

/** Creates an empty ledger. */
export const makeLedger = (bounds: Bounds): Ledger => {
  /** Conversations, the least recently used first. */
  const conversations = new Set<Conversation>()
  const bySession = new Map<SessionId, Conversation>()
  let characters = 0

  const touch = (conversation: Conversation): void => {
    conversations.delete(conversation)
    conversations.add(conversation)
  }
  const isOver = (): boolean => bySession.size > bounds.sessions || characters > bounds.characters

  return {
    add: (id, parentId) => {
      const parent = parentId === undefined ? undefined : bySession.get(parentId)
      const conversation = parent ?? { sessions: new Set(), characters: 0 }
      conversation.sessions.add(id)
      bySession.set(id, conversation)
      touch(conversation)
    },
    grow: (id, added) => {
      const conversation = bySession.get(id)
      if (conversation === undefined) return
      conversation.characters += added
      characters += added
      touch(conversation)
    },
    remove: (id, removed) => {
      const conversation = bySession.get(id)
      if (conversation === undefined) return
      bySession.delete(id)
      conversation.sessions.delete(id)
      conversation.characters -= removed
      characters -= removed
      if (conversation.sessions.size === 0) conversations.delete(conversation)
    },
    takeSurplus: (isInUse) => {
      if (!isOver()) return []
      const surplus: Array<SessionId> = []
      for (const conversation of conversations) {
        if (!isOver()) break
        const ids = Array.from(conversation.sessions)
        if (ids.some(isInUse)) continue
        conversations.delete(conversation)
        characters -= conversation.characters
        for (const id of ids) bySession.delete(id)
        surplus.push(...ids)
      }
      return surplus
    }
  }
}
