/**
 * Encodes messages as content blocks for the Messages API and Converse: user and assistant messages alternate, and tool
 * results are in the user message after the calls.
 *
 * **Details**
 *
 * The history stage (`base/domain/History`) has already repaired the conversation; here its messages are translated,
 * and consecutive messages with the same role are joined.
 *
 * Each message is converted once: the result is cached by the identity of its `content`, so a copy of the message with
 * other options (a cache breakpoint) reuses it. Converted blocks are shared and never changed.
 *
 * Source: `hermes-llm.md` §4.2, §4.4 and §14.5.
 */
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../base/domain/GrowingList.ts"

/** Any message except a system message. */
export type Turn = Exclude<Prompt.Message, Prompt.SystemMessage>

/** A message in the format of the API. */
export interface Message<Block> {
  readonly role: "user" | "assistant"
  readonly content: ReadonlyArray<Block>
}

/** Operations on the content blocks of one protocol. */
export interface Dialect<Block> {
  readonly convert: (message: Turn) => Message<Block>
  readonly isCall: (block: Block) => boolean
  readonly isThinking: (block: Block) => boolean
  /** Adds the marks that a message's options request to its blocks. */
  readonly mark: (blocks: ReadonlyArray<Block>, message: Turn) => ReadonlyArray<Block>
}

/** Returns a converter that caches the messages that it has converted. */
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

/** Creates a function that translates conversations, without their system messages, to one protocol. */
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

/** Returns the system messages of a conversation. */
export const systemMessages = GrowingList.fold<Prompt.Message, Array<Prompt.SystemMessage>>({
  begin: () => [],
  add: (out, message) => {
    if (message.role === "system") out.push(message)
  },
  copy: (out) => out.slice()
})

/** Tests whether the newest assistant message calls tools and does not start with a thinking block. */
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

/**
 * Returns the arguments of a tool call as an object. The history stage has already converted them; any value that is
 * not an object becomes `{}`.
 */
export const toInput = (params: unknown): Readonly<Record<string, unknown>> =>
  Predicate.isReadonlyObject(params) ? params : {}
