/**
 * Text of a conversation, used to compare a client's messages with the messages of a stored session.
 *
 * **Details**
 *
 * Only text from the user and the agent is compared, with normalized white space. Calls, results and reasoning are
 * ignored, because clients store them in different forms or not at all. Consecutive messages from one speaker count as
 * one, because a client may store the text of several steps as one answer.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../base/domain/Conversation.ts"

/** Text of one speaker, up to the next text of the other speaker. */
export interface SpokenText {
  readonly role: "user" | "assistant"
  readonly text: string
  /** Position of the first message of the text. */
  readonly position: number
}

/** Reads the text of each speaker in a conversation, oldest first. */
export const readTexts = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<SpokenText> => {
  const texts: Array<SpokenText> = []
  for (const [position, message] of messages.entries()) {
    if (message.role !== "user" && message.role !== "assistant") continue
    const text = Conversation.readText(message).replaceAll(/\s+/g, " ").trim()
    const last = texts.at(-1)
    if (message.role === "assistant" && text === "") continue
    if (last?.role === message.role) texts[texts.length - 1] = { ...last, text: `${last.text} ${text}`.trim() }
    else texts.push({ role: message.role, text, position })
  }
  return texts
}

/** Result of comparing a client's conversation with the stored conversation. */
export type ConversationPlace =
  /** Both conversations have the same text. */
  | { readonly _tag: "Same" }
  /** The stored conversation continues with a user message at this position. */
  | { readonly _tag: "Earlier"; readonly position: number; readonly next: ReadonlyArray<SpokenText> }
  | { readonly _tag: "Other" }

/** Compares a client's conversation with the stored conversation. */
export const findPlace = (
  stored: ReadonlyArray<Prompt.Message>,
  kept: ReadonlyArray<Prompt.Message>
): ConversationPlace => {
  const [all, given] = [readTexts(stored), readTexts(kept)]
  const isBeginning = given.every(({ role, text }, index) => all[index]?.role === role && all[index]?.text === text)
  if (!isBeginning) return { _tag: "Other" }
  const next = all.slice(given.length)
  const [first] = next
  if (first === undefined) return { _tag: "Same" }
  return first.role === "user" ? { _tag: "Earlier", position: first.position, next } : { _tag: "Other" }
}
