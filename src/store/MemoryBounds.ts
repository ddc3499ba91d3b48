/**
 * Bounds of the in-memory session store, and the selection of the conversations that are dropped when it is full.
 *
 * **Details**
 *
 * A conversation is a session with its continuations and child sessions. It is retained or dropped as a whole, so that
 * no retained session refers to a dropped one. The least recently used conversation is dropped first, and every
 * conversation that was idle for too long. Of the conversations without a name, only the newest are retained when their
 * runs end. A conversation with an active run is never dropped.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { SessionId } from "../base/domain/Ids.ts"

/** Limits of an in-memory store. If one of them is exceeded, conversations are dropped. */
export interface Bounds {
  /** Maximum number of sessions. */
  readonly sessions: number
  /** Maximum number of characters (and bytes of files) in all messages. */
  readonly characters: number
  /** Time in milliseconds after its last run for which a conversation is retained. */
  readonly idleMillis: number
  /** Maximum number of ended conversations without a name. With 0, they end with their run. */
  readonly unnamed: number
}

/** Default bounds of a store. */
export const defaultBounds: Bounds = {
  sessions: 5_000,
  characters: 50_000_000,
  idleMillis: 24 * 3_600_000,
  unnamed: Infinity
}

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
  readonly sessions: Array<SessionId>
  characters: number
  /** Time at which the last run began or ended. */
  usedAt: number
  isNamed: boolean
}

/** A use of a session. */
export interface Use {
  readonly at: number
  /** True if the caller of the run chose the id of the session, or continues the session by its id. */
  readonly isNamed: boolean
}

/** Sessions of a store by conversation, with their sizes. */
export interface Ledger {
  /** Adds a session. A session with a parent is added to the parent's conversation. */
  readonly add: (id: SessionId, parentId: SessionId | undefined, use: Use) => void
  /** Records that a run on a session begins or ends. A conversation remains named. */
  readonly recordUse: (id: SessionId, use: Use) => void
  /** Adds a number of characters to the size of a session. Its conversation becomes the most recently used one. */
  readonly grow: (id: SessionId, characters: number) => void
  readonly remove: (id: SessionId, characters: number) => void
  /**
   * Removes sessions until the bounds hold, and returns them so that the store can drop them. A conversation is
   * protected if `isInUse` returns true for one of its sessions.
   */
  readonly takeSurplus: (isInUse: (id: SessionId) => boolean, now: number) => ReadonlyArray<SessionId>
  /**
   * Counts the conversation of a session as ended unless it is named or in use. Removes the oldest ended conversations
   * above the bound, and returns their sessions.
   */
  readonly takeEnded: (id: SessionId, isInUse: (id: SessionId) => boolean) => ReadonlyArray<SessionId>
  /** Returns true if there are more sessions or characters than the bounds permit. */
  readonly isFull: () => boolean
  /** Returns the sessions of the conversation of a session. */
  readonly listConversation: (id: SessionId) => ReadonlyArray<SessionId>
}

const isBusy = ({ sessions }: Conversation, isInUse: (id: SessionId) => boolean): boolean =>
  sessions.some((id) => isInUse(id))

/** Creates an empty ledger. */
export const makeLedger = (bounds: Bounds): Ledger => {
  /** Conversations, the least recently used first. */
  const conversations = new Set<Conversation>()
  const bySession = new Map<SessionId, Conversation>()
  /** Ended conversations without a name, the oldest first. */
  const ended = new Set<Conversation>()
  let characters = 0

  const touch = (conversation: Conversation): void => {
    conversations.delete(conversation)
    conversations.add(conversation)
  }
  const isOver = (): boolean => bySession.size > bounds.sessions || characters > bounds.characters

  const removeConversation = (conversation: Conversation): ReadonlyArray<SessionId> => {
    const ids = conversation.sessions.slice()
    conversations.delete(conversation)
    ended.delete(conversation)
    characters -= conversation.characters
    for (const id of ids) bySession.delete(id)
    return ids
  }

  return {
    add: (id, parentId, use) => {
      const parent = parentId === undefined ? undefined : bySession.get(parentId)
      const conversation = parent ?? { sessions: [], characters: 0, usedAt: use.at, isNamed: use.isNamed }
      conversation.sessions.push(id)
      bySession.set(id, conversation)
      conversation.usedAt = use.at
      touch(conversation)
    },
    recordUse: (id, { at, isNamed }) => {
      const conversation = bySession.get(id)
      if (conversation === undefined) return
      conversation.usedAt = at
      conversation.isNamed ||= isNamed
      ended.delete(conversation)
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
      conversation.sessions.splice(conversation.sessions.indexOf(id), 1)
      conversation.characters -= removed
      characters -= removed
      if (conversation.sessions.length === 0) removeConversation(conversation)
    },
    takeSurplus: (isInUse, now) => {
      const surplus: Array<SessionId> = []
      for (const conversation of conversations) {
        if (!isOver() && now - conversation.usedAt <= bounds.idleMillis) break
        if (!isBusy(conversation, isInUse)) surplus.push(...removeConversation(conversation))
      }
      return surplus
    },
    takeEnded: (id, isInUse) => {
      const conversation = bySession.get(id)
      if (conversation === undefined || conversation.isNamed || isBusy(conversation, isInUse)) return []
      ended.add(conversation)
      const surplus: Array<SessionId> = []
      for (const oldest of ended) {
        if (ended.size <= bounds.unnamed) break
        surplus.push(...removeConversation(oldest))
      }
      return surplus
    },
    isFull: isOver,
    listConversation: (id) => bySession.get(id)?.sessions.slice() ?? []
  }
}
