/**
 * Messages of content blocks, as the Messages API and Converse take them: user and assistant in turn, the results of
 * tools in the user's message after the calls.
 *
 * **Details**
 *
 * The history stage (`base/domain/History`) makes a conversation fit before it comes here; its messages are translated and
 * joined.
 *
 * Each message is converted once: the result is cached by its content, so that a copy of a message with other options
 * (a cache breakpoint) finds it too. Converted blocks are shared and never changed.
 *
 * Source: `hermes-llm.md` §4.2, §4.4 and §14.5.
 */
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../base/domain/GrowingList.ts"

/** Any message but a system message. */
export type Turn = Exclude<Prompt.Message, Prompt.SystemMessage>

/** A message on the wire. */
export interface Message<Block> {
  readonly role: "user" | "assistant"
  readonly content: ReadonlyArray<Block>
}

/** The blocks of one protocol. */
export interface Dialect<Block> {
  readonly convert: (message: Turn) => Message<Block>
  readonly isCall: (block: Block) => boolean
  readonly isThinking: (block: Block) => boolean
  /** Adds the marks that a message's options request to its blocks. */
  readonly mark: (blocks: ReadonlyArray<Block>, message: Turn) => ReadonlyArray<Block>
}

/** A converter that remembers the messages that it has converted. */
export const rememberConversions = <Block>(
  convert: (message: Turn) => Message<Block>
): ((message: Turn) => Message<Block>) => {
  const known = new WeakMap<object, Message<Block>>()
  return (message) => {
    const before = known.get(message.content)
    if (before !== undefined) return before
    const converted = convert(message)
    known.set(message.content, converted)
    return converted
  }
}

/** Makes the translation of conversations, without their system messages, to one protocol. */
export const makeWriter = <Block>(
  dialect: Dialect<Block>
): ((messages: ReadonlyArray<Prompt.Message>) => ReadonlyArray<Message<Block>>) =>
  GrowingList.fold<Prompt.Message, Array<Message<Block>>>({
    begin: () => [],
    add: (out, message) => {
      if (message.role === "system") return
      const { content, role } = dialect.convert(message)
      const blocks = dialect.mark(content, message)
      const last = out.at(-1)
      if (last?.role === role) out[out.length - 1] = { role, content: [...last.content, ...blocks] }
      else out.push({ role, content: blocks })
    },
    copy: (out) => out.slice()
  })

/** The system messages of a conversation. */
export const systemMessages = GrowingList.fold<Prompt.Message, Array<Prompt.SystemMessage>>({
  begin: () => [],
  add: (out, message) => {
    if (message.role === "system") out.push(message)
  },
  copy: (out) => out.slice()
})

/** Tests whether the newest assistant message called tools without having thought first. */
export const calledWithoutThinking = <Block>(
  messages: ReadonlyArray<Message<Block>>,
  dialect: Dialect<Block>
): boolean => {
  const content = messages.findLast((message) => message.role === "assistant")?.content ?? []
  const [first] = content
  return first !== undefined && !dialect.isThinking(first) && content.some(dialect.isCall)
}

/** Placeholder for a result without text. */
export const noOutput = "(no output)"

/** Arguments as the object that the history stage created from them. */
export const toInput = (params: unknown): Readonly<Record<string, unknown>> =>
  Predicate.isReadonlyObject(params) ? params : {}
