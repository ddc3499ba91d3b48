/**
 * Marks of the texts that other processes sent to a session, in the messages of that session. They tell the process
 * that continues the work of a killed one which texts the model has.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import * as SessionChain from "./SessionChain.ts"
import { SessionStore } from "./SessionStorePort.ts"

const key = "hermes-effect"
const field = "received"

/** Returns the line before a text that is delivered with the result of a tool. */
export const renderMark = (id: string): string => `[The user says, while you work (message ${id}):]`

/** Puts the mark of a text before it. */
export const addMark = (text: string, id: string): string => `${renderMark(id)}\n${text}`

/** Reads a text with a mark that {@link addMark} put before it. Returns `undefined` for a text without a mark. */
export const readMarked = (marked: string): { readonly id: string; readonly text: string } | undefined => {
  const [, id, text] = /^\[The user says, while you work \(message (\d+-[\da-z]+)\):\]\n(.*)$/su.exec(marked) ?? []
  return id === undefined || text === undefined ? undefined : { id, text }
}

/** Adds the mark of a text to the prompt that begins a turn with it. Models do not see the mark. */
export const markPrompt = (
  prompt: string | ReadonlyArray<Prompt.UserMessagePart>,
  id: string
): ReadonlyArray<Prompt.UserMessagePart> => {
  const parts = typeof prompt === "string" ? [Prompt.textPart({ text: prompt })] : prompt
  const at = parts.findIndex(({ type }) => type === "text")
  return parts.map((part, index) =>
    index === at && part.type === "text"
      ? Prompt.textPart({ text: part.text, options: { ...part.options, [key]: { [field]: id } } })
      : part
  )
}

const readMark = ({ options }: Prompt.UserMessagePart): unknown => {
  const own = options[key]
  return Predicate.hasProperty(own, field) ? own[field] : undefined
}

/** Tests whether a message has a text. */
const hasText = (message: Prompt.Message, id: string): boolean => {
  if (message.role === "user") return message.content.some((part) => readMark(part) === id)
  return message.role === "tool" && JSON.stringify(message.content).includes(renderMark(id))
}

/** Returns the ids of the texts that the conversation of a session has. */
export const findStored = Effect.fnUntraced(function* (
  sessionId: SessionId,
  ids: ReadonlyArray<string>
): Effect.fn.Return<ReadonlySet<string>, SessionStoreError, SessionStore> {
  const store = yield* SessionStore
  const found = new Set<string>()
  for (const session of yield* SessionChain.listConversation(sessionId))
    for (const { message } of (yield* store.readable(session)).messages)
      for (const id of ids) if (hasText(message, id)) found.add(id)
  return found
})
