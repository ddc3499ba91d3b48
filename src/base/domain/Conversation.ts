/**
 * Pure operations on the messages of a session. A conversation is an array of `Prompt.Message`; a message object in the
 * array never changes, so that values derived from the object, such as its wire form, can be cached.
 *
 * **Example** (Closing a call that was interrupted)
 *
 * ```ts
 * import * as Prompt from "effect/ai/Prompt"
 * import { Conversation } from "hermes-effect"
 *
 * const messages = [
 *   Prompt.makeMessage("assistant", {
 *     content: [Prompt.makePart("tool-call", { id: "c1", name: "terminal", params: {}, providerExecuted: false })]
 *   })
 * ]
 *
 * console.log(Conversation.closeOpenCalls(messages).map(({ role }) => role))
 * // => [ 'assistant', 'tool' ]
 * ```
 *
 * **Example** (Omitting a rejected message from the sent conversation)
 *
 * ```ts
 * import * as Prompt from "effect/ai/Prompt"
 * import { Conversation } from "hermes-effect"
 *
 * const said = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
 * const transcript = [said("hello"), said("far too much"), Conversation.makeRejection("it is too long")]
 *
 * console.log(Conversation.withoutRejected(transcript).length)
 * // => 1
 * ```
 *
 * Source: `hermes-llm.md` §16.5 (15), `ARCHITECTURE.md` §6 (nothing that was written is lost).
 */
import * as Predicate from "effect/Predicate"
import * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "./GrowingList.ts"

/** Result of an interrupted call that never started or that was read-only. */
export const cancelledResult = "Cancelled: the run was interrupted before this tool call changed anything."

/** Result of an interrupted call that started and whose outcome is unknown. */
export const mayHaveHappenedResult =
  "Interrupted while it ran: this tool call may have happened, in whole or in part. Look before you repeat it."

/** Result of a call that waited for its approval when the user continued the conversation without an answer. */
export const withdrawnResult =
  "Not executed: this tool call waited for an approval, and the user continued the conversation without giving one."

/** Result of a call whose tool waited for an answer when the user continued the conversation without one. */
export const stoppedAtQuestionResult =
  "Stopped while it waited for an answer, because the user continued the conversation without giving one. What it " +
  "did before its question has happened."

/** Result of a call that waited for an answer when another call of the same answer ended the run. */
export const endedAtQuestionResult =
  "Stopped while it waited for an answer, because the run was ended after another tool call. What it did before its " +
  "question has happened."

/** Result of a call that had not begun when another call of the same answer ended the run. */
export const endedBeforeResult = "Not executed: the run was ended after another tool call."

/**
 * Options of an assistant message that was cut off by a lost connection. The text of the message is the received part.
 */
export const brokenOff: Prompt.ProviderOptions = { "hermes-effect": { broken_off: true } }

/** Returns the tool calls of an assistant message, in model order; an empty array for every other message. */
export const listToolCalls = (message: Prompt.Message): ReadonlyArray<Prompt.ToolCallPart> =>
  message.role === "assistant"
    ? message.content.filter((part): part is Prompt.ToolCallPart => part.type === "tool-call" && !part.providerExecuted)
    : []

/** Options of messages and parts that have none. They share it, because a conversation has many of them. */
export const noOptions: Prompt.ProviderOptions = Object.freeze({})

/** Returns the options of a part, or {@link noOptions} if they are empty. */
export const shareOptions = (options: Prompt.ProviderOptions): Prompt.ProviderOptions =>
  Object.keys(options).length === 0 ? noOptions : options

/** Creates a tool message that answers one call. */
export const makeToolResult = (
  call: { readonly id: string; readonly name: string },
  result: {
    readonly output: unknown
    readonly isFailure: boolean
    readonly modelOutput?: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
  }
): Prompt.ToolMessage =>
  Prompt.toolMessage({
    content: [
      Prompt.toolResultPart({
        id: call.id,
        name: call.name,
        isFailure: result.isFailure,
        result: result.output,
        ...(result.modelOutput === undefined ? {} : { modelOutput: result.modelOutput }),
        providerExecuted: false,
        options: noOptions
      })
    ],
    options: noOptions
  })

/** Returns the result text for a call without a result, depending on whether the call had started. */
export const describeUnknownResult = (begun: boolean): string => (begun ? mayHaveHappenedResult : cancelledResult)

/** Creates the tool message that closes a call without a result. */
export const makeCancelledResult = (
  call: { readonly id: string; readonly name: string },
  begun = false
): Prompt.ToolMessage => makeToolResult(call, { output: describeUnknownResult(begun), isFailure: true })

const listResults = (message: Prompt.ToolMessage): ReadonlyArray<Prompt.ToolResultPart> =>
  message.content.filter((part) => part.type === "tool-result")

/** Returns the ids of the calls that a message answers. */
export const listResultIds = (message: Prompt.Message): ReadonlyArray<string> =>
  message.role === "tool" ? listResults(message).map(({ id }) => id) : []

/** Returns the calls of the last answer that have no result because the conversation ended while they ran. */
export const listOpenCalls = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.ToolCallPart> => {
  const last = messages.findLastIndex(({ role }) => role === "assistant")
  const message = messages[last]
  const calls = message === undefined ? [] : listToolCalls(message)
  if (calls.length === 0) return []
  const answered = new Set(messages.slice(last + 1).flatMap(listResultIds))
  return calls.filter(({ id }) => !answered.has(id))
}

/** Returns tool messages that answer exactly the given calls; the given messages themselves if they already do so. */
const matchAnswers = (
  calls: ReadonlyArray<Prompt.ToolCallPart>,
  given: ReadonlyArray<Prompt.ToolMessage>
): ReadonlyArray<Prompt.ToolMessage> => {
  const found = given.flatMap((message) => listResults(message).map((part) => ({ message, part })))
  if (found.length === calls.length && found.every(({ part }, index) => part.id === calls[index]?.id)) return given
  return calls.map((call) => {
    const answer = found.find(({ part }) => part.id === call.id)
    if (answer === undefined) return makeCancelledResult(call)
    return answer.message.content.length === 1 ? answer.message : Prompt.toolMessage({ content: [answer.part] })
  })
}

/** Tests whether each answer is followed by exactly one result message for each of its calls, in order. */
const isClosed = (messages: ReadonlyArray<Prompt.Message>): boolean => {
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index]
    if (message === undefined || message.role === "tool") return false
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part.type !== "tool-call" || part.providerExecuted) continue
      const next = messages[++index]
      if (next?.role !== "tool" || next.content.length !== 1) return false
      const [answer] = next.content
      if (answer?.type !== "tool-result" || answer.id !== part.id) return false
    }
  }
  return true
}

/**
 * Returns a conversation that every provider accepts: each call of an assistant message is answered once, directly
 * after the message and in model order. Results without a call and repeated results are omitted.
 *
 * **Details**
 *
 * Applied when a session is loaded. A run that was killed between a call and its result leaves the call open; it is
 * closed with {@link makeCancelledResult}. A user message between the results of one answer is moved after them,
 * because results are accepted up to the next answer. Valid messages are returned as the same objects. A message with
 * the results of several calls is split only if they do not match the calls exactly and in order.
 */
export const closeOpenCalls = (messages: ReadonlyArray<Prompt.Message>): Array<Prompt.Message> => {
  if (isClosed(messages)) return messages.slice()
  const out: Array<Prompt.Message> = []
  let index = 0
  while (index < messages.length) {
    const message = messages[index++]
    if (message === undefined || message.role === "tool") continue
    out.push(message)
    const calls = listToolCalls(message)
    if (calls.length === 0) continue
    const given: Array<Prompt.ToolMessage> = []
    for (let at = index, next = messages[at]; next !== undefined && next.role !== "assistant"; next = messages[++at]) {
      if (next.role === "tool") given.push(next)
    }
    out.push(...matchAnswers(calls, given))
  }
  return out
}

/** Tests whether a tool result among the messages contains a piece of JSON verbatim. */
export const hasResultText = (messages: ReadonlyArray<Prompt.Message>, json: string): boolean =>
  messages.some(
    ({ content, role }) =>
      role === "tool" &&
      content.some(
        (part) => part.type === "tool-result" && typeof part.result === "string" && part.result.includes(json)
      )
  )

/** Returns the visible text of a message, without thoughts, calls and files. */
export const readText = (message: Prompt.Message): string => {
  if (message.role === "system") return message.content
  return message.role === "tool" ? "" : message.content.map((part) => (part.type === "text" ? part.text : "")).join("")
}

const key = "hermes-effect"

/**
 * Creates the note after a user message that a provider rejected. The message remains in the transcript but is not sent
 * again, so that the conversation does not grow with every attempt to continue. `why` is for readers of the transcript.
 */
export const makeRejection = (why: string): Prompt.AssistantMessage =>
  Prompt.assistantMessage({
    content: [Prompt.textPart({ text: `(The provider refused this message, and it is not sent again: ${why})` })],
    options: { [key]: { refused: true } }
  })

const isRejection = ({ options, role }: Prompt.Message): boolean => {
  const own = role === "assistant" ? options[key] : undefined
  return Predicate.hasProperty(own, "refused") && own.refused === true
}

/**
 * State of a resumed conversation. `closed` contains the messages before the newest answer in the form in which they
 * are sent; `open` contains the newest answer and the messages after it as they are stored.
 */
interface ResumedState {
  readonly closed: Array<Prompt.Message>
  open: Array<Prompt.Message>
  /** The previous message. */
  last: Prompt.Message | undefined
}

const foldResumed = GrowingList.fold<Prompt.Message, ResumedState>({
  begin: () => ({ closed: [], open: [], last: undefined }),
  add: (state, message) => {
    const { closed, last, open } = state
    state.last = message
    if (isRejection(message)) {
      if (last?.role === "user") open.pop()
      return
    }
    if (message.role === "assistant") {
      // A result after an answer never belongs to a call before that answer.
      closed.push(...closeOpenCalls(open))
      state.open = []
    }
    state.open.push(message)
  },
  copy: ({ closed, last, open }) => ({ closed: closed.slice(), open: open.slice(), last })
})

/**
 * Returns the conversation with which a new run of a stored session begins. Applies {@link withoutRejected}, then
 * {@link closeOpenCalls}. Processes only the messages added since the previous run.
 */
export const resume = (messages: ReadonlyArray<Prompt.Message>): Array<Prompt.Message> => {
  const { closed, open } = foldResumed(messages)
  closed.push(...closeOpenCalls(open))
  return closed
}

const systemMessages = new WeakMap<Prompt.Message, Prompt.SystemMessage>()

/**
 * Returns the system prompt as a message. All runs of a session receive the same message object, so that values cached
 * for it can be reused.
 */
export const makeSystemMessage = (content: string, [first]: ReadonlyArray<Prompt.Message>): Prompt.SystemMessage => {
  const known = first === undefined ? undefined : systemMessages.get(first)
  if (known?.content === content) return known
  const made = Prompt.systemMessage({ content })
  if (first !== undefined) systemMessages.set(first, made)
  return made
}

/** Returns a transcript without the rejected messages; the same array if no message was rejected. */
export const withoutRejected = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> =>
  messages.some(isRejection)
    ? messages.filter((message, index) => {
        const next = messages[index + 1]
        return !isRejection(message) && !(message.role === "user" && next !== undefined && isRejection(next))
      })
    : messages
