/**
 * The history stage: makes of a run's conversation the messages that a route is sent. It stands before all protocols,
 * foreign providers included; protocols only translate what it gives.
 *
 * **Details**
 *
 * The messages obey the rules of the strictest endpoints, whatever interruptions and failures left behind:
 *
 * - Neighbours of one role are one message. Pieces of one answer are joined without anything between them.
 * - Every call is answered once, right after it; results without a call, and second results, are left out.
 * - Arguments of a call are an object. Where the model wrote no JSON object, they are empty, and the result of the call
 *   begins with a line that says so.
 * - An answer of reasoning alone, and a message of nothing, are left out.
 * - The conversation begins with the user. Where a route takes no user message after a tool's result
 *   (`Route.Abilities.userAfterTool`), an assistant message stands between them.
 * - Of thinking, what the route wants back is kept (`Route.Abilities.thinking`).
 * - A message that is marked by {@link once} is sent until the model has answered, and never again.
 *
 * Messages that are fine stay the same objects, and what is made of a message is made once, so that requests of one
 * conversation begin with the same bytes and converted messages are found again. Pure.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §9.1 and §14.5.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "./Conversation.ts"
import * as Json from "./Json.ts"
import * as Route from "./Route.ts"

const key = "hermes-effect"

/** Marks a message of the runtime's own that is sent until the model has answered, and is no part of the conversation. */
export const once = <M extends Prompt.UserMessage | Prompt.AssistantMessage>(message: M): M =>
  // The constructor of its role gives the same role back.
  (message.role === "user"
    ? Prompt.userMessage({ content: message.content, options: { ...message.options, [key]: { once: true } } })
    : Prompt.assistantMessage({ content: message.content, options: { ...message.options, [key]: { once: true } } })) as M

const isOnce = ({ options }: Prompt.Message): boolean => {
  const own = options[key]
  return Predicate.hasProperty(own, "once") && own.once === true
}

const withoutAnswered = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  if (!messages.some(isOnce)) return messages
  const answered = messages.findLastIndex((message) => message.role === "assistant" && !isOnce(message))
  return messages.filter((message, index) => index > answered || !isOnce(message))
}

/** Something besides reasoning. */
const saysSomething = ({ content }: Prompt.AssistantMessage): boolean =>
  content.some((part) => part.type === "text" ? part.text.trim() !== "" : part.type !== "reasoning")

const isEmpty = (message: Prompt.Message): boolean =>
  message.role === "assistant"
    ? !saysSomething(message)
    : message.role === "user" && message.content.every((part) => part.type === "text" && part.text.trim() === "")

/** Leaves out what says nothing; the newest message stays, unless it is an answer. */
const withoutEmpty = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> =>
  messages.some(isEmpty)
    ? messages.filter((message, index) =>
      !isEmpty(message) || (index === messages.length - 1 && message.role === "user"))
    : messages

const unthinking = new WeakMap<Prompt.AssistantMessage, Prompt.AssistantMessage>()

const withoutThinking = (message: Prompt.AssistantMessage): Prompt.AssistantMessage => {
  if (!message.content.some(({ type }) => type === "reasoning")) return message
  const known = unthinking.get(message)
  if (known !== undefined) return known
  const content = message.content.filter(({ type }) => type !== "reasoning")
  const made = Prompt.assistantMessage({ content, options: message.options })
  unthinking.set(message, made)
  return made
}

/** The index from which on thinking is kept: the tool loop under way, and the newest answer in any case. */
const keptFrom = (messages: ReadonlyArray<Prompt.Message>, thinking: Route.Abilities["thinking"]): number => {
  switch (thinking) {
    case "all":
      return 0
    case "none":
      return messages.length
    case "tool_loop": {
      const newest = messages.findLastIndex(({ role }) => role === "assistant")
      return newest === -1 ? messages.length : Math.min(newest, messages.findLastIndex(({ role }) => role === "user") + 1)
    }
  }
}

const thoughtful = (
  messages: ReadonlyArray<Prompt.Message>,
  thinking: Route.Abilities["thinking"]
): ReadonlyArray<Prompt.Message> => {
  const from = keptFrom(messages, thinking)
  return from === 0
    ? messages
    : messages.map((message, index) => message.role === "assistant" && index < from ? withoutThinking(message) : message)
}

type Spoken = Prompt.UserMessage | Prompt.AssistantMessage

const isPlainText = (part: Prompt.AssistantMessagePart | undefined): part is Prompt.TextPart =>
  part?.type === "text" && Object.keys(part.options).length === 0

/** The parts of an answer that came in two pieces. */
const pieced = (
  before: ReadonlyArray<Prompt.AssistantMessagePart>,
  after: ReadonlyArray<Prompt.AssistantMessagePart>
): ReadonlyArray<Prompt.AssistantMessagePart> => {
  const last = before.at(-1)
  const [first, ...rest] = after
  return isPlainText(last) && isPlainText(first)
    ? [...before.slice(0, -1), Prompt.textPart({ text: last.text + first.text }), ...rest]
    : [...before, ...after]
}

const pairs = new WeakMap<Spoken, WeakMap<Spoken, Spoken>>()

const merged = (before: Spoken, after: Spoken): Spoken | undefined => {
  if (before.role !== after.role) return undefined
  const known = pairs.get(before)?.get(after)
  if (known !== undefined) return known
  const options = { ...before.options, ...after.options }
  let made: Spoken
  if (before.role === "user" && after.role === "user") {
    made = Prompt.userMessage({ content: [...before.content, ...after.content], options })
  } else if (before.role === "assistant" && after.role === "assistant") {
    made = Prompt.assistantMessage({ content: pieced(before.content, after.content), options })
  } else return undefined
  const others = pairs.get(before) ?? new WeakMap<Spoken, Spoken>()
  others.set(after, made)
  pairs.set(before, others)
  return made
}

const isSpoken = (message: Prompt.Message | undefined): message is Spoken =>
  message?.role === "user" || message?.role === "assistant"

const text = (value: string) => ({ content: [Prompt.textPart({ text: value })] })
const opening = Prompt.userMessage(text("(the beginning of the conversation is left out)"))
const between = Prompt.assistantMessage(text("(no answer)"))

/** User and assistant in turn; `messages` have no open calls. */
const alternating = (
  messages: ReadonlyArray<Prompt.Message>,
  { userAfterTool }: Route.Abilities
): ReadonlyArray<Prompt.Message> => {
  const out: Array<Prompt.Message> = []
  let changed = false
  for (const message of messages) {
    const last = out.at(-1)
    const one = isSpoken(last) && isSpoken(message) ? merged(last, message) : undefined
    if (one !== undefined) {
      out[out.length - 1] = one
      changed = true
      continue
    }
    if (message.role === "assistant" && (last === undefined || last.role === "system")) out.push(opening)
    if (message.role === "user" && last?.role === "tool" && !userAfterTool) out.push(between)
    out.push(message)
  }
  return changed || out.length !== messages.length ? out : messages
}

const closed = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const out = Conversation.closeOpenCalls(messages)
  return out.length === messages.length && out.every((message, index) => message === messages[index]) ? messages : out
}

/** Stands before the result of a call whose arguments were not readable and are sent as `{}`. */
export const corruptedArguments = "[The arguments of this call were not a JSON object; they are left out here.]"

const isReadable = ({ params }: Prompt.ToolCallPart): boolean => Predicate.isObject(params) && !Array.isArray(params)

/** The object that a text of arguments stands for; undefined where there is none. */
const argumentsIn = (params: unknown): object | undefined => {
  if (params === undefined || params === null) return {}
  if (typeof params !== "string") return undefined
  const text = params.trim()
  if (text === "" || text === "None") return {}
  const value = Option.getOrUndefined(Json.parse(text))
  return Predicate.isObject(value) && !Array.isArray(value) ? value : value === null ? {} : undefined
}

const readableCalls = new WeakMap<Prompt.AssistantMessage, Prompt.AssistantMessage>()
const markedResults = new WeakMap<Prompt.ToolMessage, Prompt.ToolMessage>()

const withReadableCalls = (message: Prompt.AssistantMessage): Prompt.AssistantMessage => {
  const known = readableCalls.get(message)
  if (known !== undefined) return known
  const content = message.content.map((part) =>
    part.type === "tool-call" && !isReadable(part) ? Prompt.toolCallPart({ ...part, params: argumentsIn(part.params) ?? {} }) : part)
  const made = Prompt.assistantMessage({ content, options: message.options })
  readableCalls.set(message, made)
  return made
}

const withMarker = (message: Prompt.ToolMessage, corrupted: ReadonlySet<string>): Prompt.ToolMessage => {
  const known = markedResults.get(message)
  if (known !== undefined) return known
  const content = message.content.map((part) =>
    part.type === "tool-result" && corrupted.has(part.id)
      ? Prompt.toolResultPart({ ...part, result: `${corruptedArguments}\n${Json.toText(part.result)}` })
      : part)
  const made = Prompt.toolMessage({ content, options: message.options })
  markedResults.set(message, made)
  return made
}

/** Calls with arguments that every endpoint reads; `messages` have no open calls. */
const readable = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const isFine = (message: Prompt.Message): boolean =>
    message.role !== "assistant" || message.content.every((part) => part.type !== "tool-call" || part.providerExecuted || isReadable(part))
  if (messages.every(isFine)) return messages
  let corrupted: ReadonlySet<string> = new Set()
  return messages.map((message) => {
    if (message.role === "tool") return Conversation.resultIds(message).some((id) => corrupted.has(id)) ? withMarker(message, corrupted) : message
    if (message.role !== "assistant") return message
    const unread = Conversation.toolCalls(message).filter((call) => !isReadable(call))
    corrupted = new Set(unread.filter(({ params }) => argumentsIn(params) === undefined).map(({ id }) => id))
    return unread.length === 0 ? message : withReadableCalls(message)
  })
}

/** The messages that a route is sent; the same array where nothing had to change. */
export const sendable = (
  messages: ReadonlyArray<Prompt.Message>,
  abilities: Route.Abilities
): ReadonlyArray<Prompt.Message> =>
  alternating(readable(closed(thoughtful(withoutEmpty(withoutAnswered(messages)), abilities.thinking))), abilities)
