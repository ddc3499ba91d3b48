/**
 * Pure operations on the messages of a session. A conversation is an array of `Prompt.Message`; message objects are
 * never changed once they are in it, so that values derived from one, such as its wire form, can be cached.
 *
 * **Example** (A call that was interrupted)
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
 * **Example** (The part of a transcript that is sent after a provider rejected a message)
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

/** Closes a call that never started, or that only read: nothing came of it. */
export const cancelledResult = "Cancelled: the run was interrupted before this tool call changed anything."

/** Result that closes a call which started and whose end is unknown. */
export const mayHaveHappenedResult =
  "Interrupted while it ran: this tool call may have happened, in whole or in part. Look before you repeat it."

/** Options of an assistant message that the connection was lost in: its text is what was received. */
export const brokenOff: Prompt.ProviderOptions = { "hermes-effect": { broken_off: true } }

/** The tool calls of an assistant message, in model order; empty for every other message. */
export const listToolCalls = (message: Prompt.Message): ReadonlyArray<Prompt.ToolCallPart> =>
  message.role === "assistant"
    ? message.content.filter((part): part is Prompt.ToolCallPart => part.type === "tool-call" && !part.providerExecuted)
    : []

/** A tool message that answers one call. */
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
        providerExecuted: false
      })
    ]
  })

/** The text that closes a call without a result, by whether it had begun. */
export const describeUnknownResult = (begun: boolean): string => (begun ? mayHaveHappenedResult : cancelledResult)

/** The tool message that closes a call which never got its result. */
export const makeCancelledResult = (
  call: { readonly id: string; readonly name: string },
  begun = false
): Prompt.ToolMessage => makeToolResult(call, { output: describeUnknownResult(begun), isFailure: true })

const listResults = (message: Prompt.ToolMessage): ReadonlyArray<Prompt.ToolResultPart> =>
  message.content.filter((part) => part.type === "tool-result")

/** The ids of the calls that a message answers. */
export const listResultIds = (message: Prompt.Message): ReadonlyArray<string> =>
  message.role === "tool" ? listResults(message).map(({ id }) => id) : []

/** The calls of the last answer that have no result: those that ran when the conversation was left. */
export const listOpenCalls = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.ToolCallPart> => {
  const last = messages.findLastIndex(({ role }) => role === "assistant")
  const message = messages[last]
  const calls = message === undefined ? [] : listToolCalls(message)
  if (calls.length === 0) return []
  const answered = new Set(messages.slice(last + 1).flatMap(listResultIds))
  return calls.filter(({ id }) => !answered.has(id))
}

/** Returns tool messages that answer exactly these calls: the given messages if they already do. */
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

/** True if the calls of each answer are followed by one message for each, in their order, and by no other result. */
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
 * A conversation that every provider accepts: each call of an assistant message is answered once, right after it and in
 * model order; results without a call and repeated results are left out.
 *
 * **Details**
 *
 * Applied when a session is loaded. A run that was killed between a call and its result leaves the call open; it is
 * closed with {@link makeCancelledResult}. A user message between the results of one answer is moved after them: a
 * result counts up to the next answer. Valid messages are returned as the same objects. A message with the results of
 * several calls is split only if they do not match the calls exactly and in order.
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

/** Tests whether a tool result contains this piece of JSON verbatim. */
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
 * Note after a user message that a provider rejected: the message stays in the transcript and is not sent again, so
 * that the conversation does not grow with every attempt to continue. `why` is for people who read the transcript.
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

/** Messages up to the newest answer as they are sent, and those from it on as they are stored. */
interface ResumedState {
  readonly closed: Array<Prompt.Message>
  open: Array<Prompt.Message>
  /** The message before. */
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
      // No result after an answer belongs to a call before it.
      closed.push(...closeOpenCalls(open))
      state.open = []
    }
    state.open.push(message)
  },
  copy: ({ closed, last, open }) => ({ closed: closed.slice(), open: open.slice(), last })
})

/**
 * Returns the conversation from which a run of a stored session continues: applies {@link withoutRejected}, then
 * {@link closeOpenCalls}. Costs only the messages added since the run before.
 */
export const resume = (messages: ReadonlyArray<Prompt.Message>): Array<Prompt.Message> => {
  const { closed, open } = foldResumed(messages)
  closed.push(...closeOpenCalls(open))
  return closed
}

const systemMessages = new WeakMap<Prompt.Message, Prompt.SystemMessage>()

/**
 * The system prompt as a message: the same object in each run of a session, so that values cached for the conversation
 * are found again.
 */
export const makeSystemMessage = (content: string, [first]: ReadonlyArray<Prompt.Message>): Prompt.SystemMessage => {
  const known = first === undefined ? undefined : systemMessages.get(first)
  if (known?.content === content) return known
  const made = Prompt.systemMessage({ content })
  if (first !== undefined) systemMessages.set(first, made)
  return made
}

/** Returns a transcript without the rejected messages: the same array if no message was rejected. */
export const withoutRejected = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> =>
  messages.some(isRejection)
    ? messages.filter((message, index) => {
        const next = messages[index + 1]
        return !isRejection(message) && !(message.role === "user" && next !== undefined && isRejection(next))
      })
    : messages
