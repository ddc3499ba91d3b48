/**
 * The history stage: converts a run's conversation to the messages for a route. It runs before every protocol and every
 * `LanguageModel` provider, which only translate its output.
 *
 * **Details**
 *
 * The messages follow the rules of the strictest endpoints, regardless of earlier interruptions and failures:
 *
 * - Adjacent messages of one role become one message. Pieces of one answer are joined without a separator.
 * - Every call is answered once, right after it; results without a call, and repeated results, are omitted.
 * - Arguments of a call are an object. If the model did not write a JSON object, the arguments are empty, and the
 *   result of the call begins with a line that says so.
 * - Answers with only reasoning and empty messages are omitted.
 * - The conversation begins with a user message. If a route accepts no user message after a tool's result
 *   (`Route.Abilities.userAfterTool`), an assistant message is inserted between them.
 * - Texts of users have no white space around them, and texts before calls none at their end.
 * - Thinking is included as the route requires it (`Route.Abilities.thinking`).
 * - A message marked by {@link markOnce} is sent only until the model has answered.
 *
 * Valid messages remain the same objects, and each message is converted once, so that the requests of one conversation
 * begin with the same bytes and the conversions can be cached. A request of a longer conversation converts only its new
 * messages (`GrowingList`). Pure.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §9.1 and §14.5.
 */
import { memoize } from "effect/Function"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "./Conversation.ts"
import * as GrowingList from "./GrowingList.ts"
import * as Json from "./Json.ts"
import * as Route from "./Route.ts"

const key = "hermes-effect"

/**
 * Marks a message from the runtime that is not part of the conversation. It is sent only until the model has answered.
 */
export const markOnce = <M extends Prompt.UserMessage | Prompt.AssistantMessage>(message: M): M =>
  // The constructor returns a message of the same role; the compiler cannot infer this.
  (message.role === "user"
    ? Prompt.userMessage({ content: message.content, options: { ...message.options, [key]: { once: true } } })
    : Prompt.assistantMessage({
        content: message.content,
        options: { ...message.options, [key]: { once: true } }
      })) as M

/** Tests whether {@link markOnce} marked a message. */
export const isOnce = ({ options }: Prompt.Message): boolean => {
  const own = options[key]
  return Predicate.hasProperty(own, "once") && own.once === true
}

/** Omits messages marked by {@link markOnce} that the model has answered. */
const withoutAnswered = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  if (!messages.some(isOnce)) return messages
  const answered = messages.findLastIndex(isAnswer)
  return messages.filter((message, index) => index > answered || !isOnce(message))
}

const isAnswer = (message: Prompt.Message): boolean => message.role === "assistant" && !isOnce(message)

/** Tests whether an answer contains more than reasoning and blank text. */
const hasContent = ({ content }: Prompt.AssistantMessage): boolean =>
  content.some((part) => (part.type === "text" ? part.text.trim() !== "" : part.type !== "reasoning"))

const isEmpty = (message: Prompt.Message): boolean =>
  message.role === "assistant"
    ? !hasContent(message)
    : message.role === "user" && message.content.every((part) => part.type === "text" && part.text.trim() === "")

/** Omits empty messages, except a user message at the end. */
const withoutEmpty = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> =>
  messages.some(isEmpty)
    ? messages.filter(
        (message, index) => !isEmpty(message) || (index === messages.length - 1 && message.role === "user")
      )
    : messages

const withoutThinking = memoize((message: Prompt.AssistantMessage): Prompt.AssistantMessage => {
  const content = message.content.filter(({ type }) => type !== "reasoning")
  return content.length === message.content.length
    ? message
    : Prompt.assistantMessage({ content, options: message.options })
})

/** Omits the thinking before an index. */
const dropThinking = (messages: ReadonlyArray<Prompt.Message>, from: number): ReadonlyArray<Prompt.Message> =>
  from === 0
    ? messages
    : messages.map((message, index) =>
        message.role === "assistant" && index < from ? withoutThinking(message) : message
      )

type SpokenMessage = Prompt.UserMessage | Prompt.AssistantMessage

const isPlainText = (part: Prompt.AssistantMessagePart | undefined): part is Prompt.TextPart =>
  part?.type === "text" && Object.keys(part.options).length === 0

/** Joins the parts of two messages that together form one answer. */
const joinParts = (
  before: ReadonlyArray<Prompt.AssistantMessagePart>,
  after: ReadonlyArray<Prompt.AssistantMessagePart>
): ReadonlyArray<Prompt.AssistantMessagePart> => {
  const last = before.at(-1)
  const [first, ...rest] = after
  return isPlainText(last) && isPlainText(first)
    ? [...before.slice(0, -1), Prompt.textPart({ text: last.text + first.text }), ...rest]
    : [...before, ...after]
}

const pairs = new WeakMap<SpokenMessage, WeakMap<SpokenMessage, SpokenMessage>>()

const mergeMessages = (before: SpokenMessage, after: SpokenMessage): SpokenMessage | undefined => {
  if (before.role !== after.role) return undefined
  const known = pairs.get(before)?.get(after)
  if (known !== undefined) return known
  const options = { ...before.options, ...after.options }
  let made: SpokenMessage
  if (before.role === "user" && after.role === "user") {
    made = Prompt.userMessage({ content: [...before.content, ...after.content], options })
  } else if (before.role === "assistant" && after.role === "assistant") {
    made = Prompt.assistantMessage({ content: joinParts(before.content, after.content), options })
  } else return undefined
  const others = pairs.get(before) ?? new WeakMap<SpokenMessage, SpokenMessage>()
  others.set(after, made)
  pairs.set(before, others)
  return made
}

const isSpoken = (message: Prompt.Message | undefined): message is SpokenMessage =>
  message?.role === "user" || message?.role === "assistant"

const makeContent = (value: string) => ({ content: [Prompt.textPart({ text: value })] })
const opening = Prompt.userMessage(makeContent("(the beginning of the conversation is left out)"))
const between = Prompt.assistantMessage(makeContent("(no answer)"))

/**
 * The first `length` messages of an array that grows at its end. Several beginnings of different lengths may share one
 * array.
 */
interface Beginning {
  items: Array<Prompt.Message>
  length: number
}

/**
 * Appends a message to a beginning. Copies the array only if it already contains a different message at that position.
 */
const pushMessage = (out: Beginning, message: Prompt.Message): void => {
  if (out.length < out.items.length && out.items[out.length] !== message) out.items = out.items.slice(0, out.length)
  out.items[out.length++] = message
}

/** Appends a message so that user and assistant messages alternate. `out` and the message must have no open calls. */
const pushAlternating = (out: Beginning, message: Prompt.Message, { userAfterTool }: Route.Abilities): void => {
  const last = out.items[out.length - 1]
  const one = isSpoken(last) && isSpoken(message) ? mergeMessages(last, message) : undefined
  if (one !== undefined) {
    out.length--
    pushMessage(out, one)
    return
  }
  if (message.role === "assistant" && (last === undefined || last.role === "system")) pushMessage(out, opening)
  if (message.role === "user" && last?.role === "tool" && !userAfterTool) pushMessage(out, between)
  pushMessage(out, message)
}

/** Text before the result of a call whose arguments were not a JSON object and are sent as `{}`. */
export const corruptedArguments = "[The arguments of this call were not a JSON object; they are left out here.]"

const isReadable = ({ params }: Prompt.ToolCallPart): boolean => Predicate.isObject(params)

/** Parses arguments as an object; `undefined` if they are not a JSON object. */
const readArguments = (params: unknown): object | undefined => {
  if (params === undefined || params === null) return {}
  if (typeof params !== "string") return undefined
  const text = params.trim()
  if (text === "" || text === "None") return {}
  const value = Option.getOrUndefined(Json.parse(text))
  return Predicate.isObject(value) ? value : value === null ? {} : undefined
}

const markedResults = new WeakMap<Prompt.ToolMessage, Prompt.ToolMessage>()

const withReadableCalls = memoize((message: Prompt.AssistantMessage): Prompt.AssistantMessage => {
  const content = message.content.map((part) =>
    part.type === "tool-call" && !isReadable(part)
      ? Prompt.toolCallPart({ ...part, params: readArguments(part.params) ?? {} })
      : part
  )
  return Prompt.assistantMessage({ content, options: message.options })
})

const withMarker = (message: Prompt.ToolMessage, corrupted: ReadonlySet<string>): Prompt.ToolMessage => {
  const known = markedResults.get(message)
  if (known !== undefined) return known
  const content = message.content.map((part) =>
    part.type === "tool-result" && corrupted.has(part.id)
      ? Prompt.toolResultPart({ ...part, result: `${corruptedArguments}\n${Json.toText(part.result)}` })
      : part
  )
  const made = Prompt.toolMessage({ content, options: message.options })
  markedResults.set(message, made)
  return made
}

/** Replaces call arguments that are not JSON objects. `messages` must have no open calls. */
const repairCalls = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const isFine = (message: Prompt.Message): boolean =>
    message.role !== "assistant" ||
    message.content.every((part) => part.type !== "tool-call" || part.providerExecuted || isReadable(part))
  if (messages.every(isFine)) return messages
  let corrupted: ReadonlySet<string> = new Set()
  return messages.map((message) => {
    if (message.role === "tool")
      return Conversation.listResultIds(message).some((id) => corrupted.has(id))
        ? withMarker(message, corrupted)
        : message
    if (message.role !== "assistant") return message
    const unread = Conversation.listToolCalls(message).filter((call) => !isReadable(call))
    corrupted = new Set(unread.filter(({ params }) => readArguments(params) === undefined).map(({ id }) => id))
    return unread.length === 0 ? message : withReadableCalls(message)
  })
}

type TrimText = (text: string) => string

const isLoose =
  (trim: TrimText) =>
  (part: { readonly type: string }): boolean =>
    part.type === "text" && "text" in part && typeof part.text === "string" && part.text !== trim(part.text)

/** Returns parts with trimmed texts, without texts that are blank. */
const trimParts = <Part extends { readonly type: string }>(
  parts: ReadonlyArray<Part>,
  trim: TrimText
): ReadonlyArray<Part | Prompt.TextPart> =>
  parts.flatMap((part): ReadonlyArray<Part | Prompt.TextPart> => {
    if (part.type !== "text" || !("text" in part) || typeof part.text !== "string") return [part]
    const text = trim(part.text)
    return text === "" ? [] : [Prompt.textPart({ ...part, text })]
  })

const trimBoth: TrimText = (text) => text.trim()
/** An answer may continue an earlier piece, so its beginning is unchanged. */
const trimEnd: TrimText = (text) => text.trimEnd()

const trimUser = memoize((message: Prompt.UserMessage): Prompt.Message =>
  Prompt.userMessage({ content: trimParts(message.content, trimBoth), options: message.options })
)
const trimCaller = memoize((message: Prompt.AssistantMessage): Prompt.Message =>
  Prompt.assistantMessage({ content: trimParts(message.content, trimEnd), options: message.options })
)

/**
 * Removes white space around the texts of users, and after the texts of an answer with calls. An answer without calls
 * is sent as the model wrote it, because the next one may continue it; results of tools are data.
 */
const trimTexts = (message: Prompt.Message): Prompt.Message => {
  switch (message.role) {
    case "user":
      return message.content.some(isLoose(trimBoth)) && !isEmpty(message) ? trimUser(message) : message
    case "assistant":
      return message.content.some(({ type }) => type === "tool-call") && message.content.some(isLoose(trimEnd))
        ? trimCaller(message)
        : message
    default:
      return message
  }
}

/** The messages before the newest answer, and the messages since then. */
interface Rounds {
  /**
   * Messages in sendable form. They contain their thinking if the route accepts all thinking, and otherwise no
   * thinking.
   */
  readonly sent: Beginning
  /** The same messages with the thinking since the newest user message; `undefined` if there is no such thinking. */
  thinking: Beginning | undefined
  /** The messages of the newest round, as they are in the conversation. */
  open: Array<Prompt.Message>
}

const hasThinking = (message: Prompt.Message): boolean =>
  message.role === "assistant" && message.content.some(({ type }) => type === "reasoning")

const isUser = ({ role }: Prompt.Message): boolean => role === "user"

/**
 * Builds the messages of a route round by round. A round is complete when the conversation contains the next answer.
 */
const makeStage = (abilities: Route.Abilities) => {
  const appendRound = (out: Beginning, round: ReadonlyArray<Prompt.Message>): void => {
    for (const message of repairCalls(Conversation.closeOpenCalls(round)))
      pushAlternating(out, trimTexts(message), abilities)
  }

  /** Closes the round before a new answer. */
  const closeRound = (rounds: Rounds, round: ReadonlyArray<Prompt.Message>): void => {
    const { sent } = rounds
    const bare = abilities.thinking === "all" ? round : dropThinking(round, round.length)
    if (abilities.thinking === "tool_loop") {
      const from = round.findLastIndex(isUser) + 1
      if (from > 0) rounds.thinking = undefined
      if (rounds.thinking !== undefined || round.some((message, index) => index >= from && hasThinking(message))) {
        appendRound((rounds.thinking ??= { ...sent }), dropThinking(round, from))
      }
    }
    appendRound(sent, bare)
  }

  const fold = GrowingList.fold<Prompt.Message, Rounds>({
    begin: () => ({ sent: { items: [], length: 0 }, thinking: undefined, open: [] }),
    add: (rounds, message) => {
      if (isAnswer(message) && !isEmpty(message)) {
        closeRound(
          rounds,
          rounds.open.filter((one) => !isOnce(one) && !isEmpty(one))
        )
        rounds.open = []
      }
      rounds.open.push(message)
    },
    copy: ({ open, sent, thinking }) => ({
      sent: { ...sent },
      thinking: thinking === undefined ? undefined : { ...thinking },
      open: open.slice()
    })
  })

  return (messages: ReadonlyArray<Prompt.Message>): Beginning => {
    const { open, sent, thinking } = fold(messages)
    const round = withoutEmpty(withoutAnswered(open))
    switch (abilities.thinking) {
      case "all":
        appendRound(sent, round)
        return sent
      case "none":
        appendRound(sent, dropThinking(round, round.length))
        return sent
      case "tool_loop": {
        const user = round.findLastIndex(isUser)
        const out = user === -1 ? (thinking ?? sent) : sent
        // The newest answer always retains its thinking.
        const newest = round.findLastIndex(({ role }) => role === "assistant")
        appendRound(out, dropThinking(round, newest === -1 ? round.length : Math.min(newest, user + 1)))
        return out
      }
    }
  }
}

const stages = new Map<string, ReturnType<typeof makeStage>>()

const findStage = (abilities: Route.Abilities): ReturnType<typeof makeStage> => {
  const name = `${abilities.thinking} ${abilities.userAfterTool}`
  const known = stages.get(name)
  if (known !== undefined) return known
  const made = makeStage(abilities)
  stages.set(name, made)
  return made
}

/** Returns the messages to send to a route: the same array if no message had to change. */
export const toSendableMessages = (
  messages: ReadonlyArray<Prompt.Message>,
  abilities: Route.Abilities
): ReadonlyArray<Prompt.Message> => {
  const { items, length } = findStage(abilities)(messages)
  let same = 0
  while (same < length && items[same] === messages[same]) same++
  return same === length && length === messages.length ? messages : items.slice(0, length)
}
