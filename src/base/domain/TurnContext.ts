/**
 * Context of one turn (of hooks and of an external memory) that later turns send again, exactly as it was sent.
 *
 * **Details**
 *
 * The context precedes the text of a user message in requests only. The stored message never contains it: it is kept in
 * the options of the first stored answer of the turn,, which no search, title or export reads. It belongs to the user
 * message before that answer, as long as the text of that message is the same. If a compaction removes the answer or
 * the message, the context is not sent again.
 *
 * Source: `ARCHITECTURE.md` §7, `hermes-llm.md` §8.
 */
import * as Predicate from "effect/Predicate"
import * as Prompt from "effect/ai/Prompt"

/** Context of one turn. */
export interface TurnContext {
  /** Texts before the text of the message, in order. */
  readonly blocks: ReadonlyArray<string>
  /** Hash of the text of the message. */
  readonly of: string
  /** Session whose record contains the message with its context. */
  readonly session: string
}

const key = "hermes-effect"
const field = "turn_context"

const readOwn = (options: Prompt.ProviderOptions): Readonly<Record<string, unknown>> => {
  const own = options[key]
  // Options are JSON; an object in them is a record.
  return Predicate.isObject(own) ? (own as Readonly<Record<string, unknown>>) : {}
}

/** Returns the only text of a message that is plain text. */
const readPlainText = ({ content }: Prompt.UserMessage): string | undefined => {
  const [only] = content
  return only?.type === "text" && content.length === 1 ? only.text : undefined
}

/** Places texts before the text of a message. Returns a message that is not plain text unchanged. */
export const addToMessage = (message: Prompt.UserMessage, blocks: ReadonlyArray<string>): Prompt.UserMessage => {
  const text = readPlainText(message)
  return text === undefined
    ? message
    : Prompt.userMessage({
        content: [Prompt.textPart({ text: [...blocks, text].join("\n") })],
        options: message.options
      })
}

/** Creates the context of the turn that a message opens. */
export const makeContext = (
  message: Prompt.UserMessage,
  blocks: ReadonlyArray<string>,
  session: string,
  hash: (text: string) => string
): TurnContext => ({ blocks, of: hash(readPlainText(message) ?? ""), session })

/** Adds the context of a turn to the options of its first answer. */
export const addToOptions = (
  options: Prompt.ProviderOptions,
  { blocks, of, session }: TurnContext
): Prompt.ProviderOptions => ({
  ...options,
  [key]: { ...readOwn(options), [field]: { blocks: [...blocks], of, session } }
})

const readContext = (message: Prompt.Message): TurnContext | undefined => {
  if (message.role !== "assistant" || !Predicate.hasProperty(message.options, key)) return undefined
  const kept = readOwn(message.options)[field]
  if (!Predicate.hasProperty(kept, "blocks") || !Array.isArray(kept.blocks)) return undefined
  if (!Predicate.hasProperty(kept, "of") || typeof kept.of !== "string") return undefined
  const session = Predicate.hasProperty(kept, "session") ? `${kept.session}` : ""
  return { blocks: kept.blocks.filter(Predicate.isString), of: kept.of, session }
}

/** Returns a message without the context of its turn: the same message if it has no context. */
export const withoutContext = (message: Prompt.Message): Prompt.Message => {
  if (message.role !== "assistant" || readContext(message) === undefined) return message
  const { [field]: _, ...own } = readOwn(message.options)
  const { [key]: __, ...others } = message.options
  // The remaining options were JSON before.
  const options = (Object.keys(own).length === 0 ? others : { ...others, [key]: own }) as Prompt.ProviderOptions
  return Prompt.assistantMessage({ content: message.content, options })
}

/** A conversation with the contexts of its turns. */
export interface Restored {
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Messages with their context, and the stored message that each replaces. */
  readonly replaced: ReadonlyMap<Prompt.Message, Prompt.Message>
  /** Messages with their context that the record of a session contains. */
  readonly recordedIn: (session: string) => ReadonlyArray<Prompt.Message>
}

/** Message with its context, by the answer that keeps the context. Values cached for a message are thereby reused. */
const restoredMessages = new WeakMap<
  Prompt.Message,
  { readonly stored: Prompt.Message; readonly sent: Prompt.Message }
>()

const nothing: ReadonlyMap<Prompt.Message, Prompt.Message> = new Map()

/** Restores the contexts of a stored conversation. Without `hash` the messages remain as they are stored. */
export const restoreContexts = (
  messages: ReadonlyArray<Prompt.Message>,
  hash: ((text: string) => string) | undefined
): Restored => {
  if (hash === undefined) return { messages, replaced: nothing, recordedIn: () => [] }
  const all = messages.slice()
  const replaced = new Map<Prompt.Message, Prompt.Message>()
  const sessions = new Map<Prompt.Message, string>()
  let opening = -1
  messages.forEach((message, at) => {
    if (message.role === "user") opening = at
    const context = readContext(message)
    const stored = messages[opening]
    if (context === undefined || stored?.role !== "user" || replaced.has(all[opening] ?? stored)) return
    if (hash(readPlainText(stored) ?? "") !== context.of) return
    const known = restoredMessages.get(message)
    const sent = known?.stored === stored ? known.sent : addToMessage(stored, context.blocks)
    restoredMessages.set(message, { stored, sent })
    all[opening] = sent
    replaced.set(sent, stored)
    sessions.set(sent, context.session)
  })
  return {
    messages: all,
    replaced,
    recordedIn: (session) => Array.from(sessions).flatMap(([message, at]) => (at === session ? [message] : []))
  }
}
