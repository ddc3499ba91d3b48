/**
 * Reads the results of lifecycle methods: messages, fields and results that control the loop. A value that breaks the
 * contract of its phase is a fault of the middleware.
 *
 * Source: `nexau.md` §1.3, `ARCHITECTURE.md` §6.
 */
import * as Predicate from "effect/Predicate"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../base/domain/Conversation.ts"
import * as Frozen from "./Frozen.ts"
import type { DeniedCall, Fields, Modifications, NoChanges, Phase, SkippedCall } from "./Lifecycle.ts"
import * as LoopControl from "./LoopControl.ts"
import { isParsedResponse, isParts } from "./ResultContract.ts"

/** Decoded result of a method. */
export type MethodOutcome = NoChanges | Modifications<keyof Fields> | DeniedCall | SkippedCall | LoopControl.LoopControl

const getMessages = new WeakMap<object, Prompt.Message>()
const copies = new WeakMap<Prompt.Message, Prompt.Message>()

/** Returns an immutable copy of a message. Repeated calls return the same copy, unless the message contains bytes. */
const copyMessage = (message: Prompt.Message): Prompt.Message => {
  const known = copies.get(message)
  if (known !== undefined) return known
  const copy = Frozen.copy(message)
  getMessages.set(copy, message)
  const content: unknown = message.content
  if (!Array.isArray(content) || !content.some((part) => Predicate.isObject(part) && part["type"] === "file"))
    copies.set(message, copy)
  return copy
}

/** Returns a view of a conversation whose messages are copied when the list is first read. */
export const copyConversation = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> =>
  Object.freeze(messages.map(copyMessage))

/** Converts runtime text after the system prompt to a user message for the model. */
const toUserMessage = (message: Prompt.Message, index: number): Prompt.Message =>
  message.role === "system" && index > 0
    ? Prompt.userMessage({ content: [Prompt.textPart({ text: Conversation.readText(message) })] })
    : message

/**
 * Reads a message. A copy is replaced by its original message of the conversation. `{ role, content }` with a text is
 * also accepted as a message.
 */
const readMessage = (value: unknown, index: number): Prompt.Message => {
  if (!Predicate.isObject(value)) throw new TypeError(`messages[${index}] is not a message: return { role, content }`)
  const known = getMessages.get(value)
  if (known !== undefined) return known
  const role = value["role"]
  const content = value["content"]
  if (Prompt.isMessage(value)) return toUserMessage(Frozen.accept(value), index)
  if (typeof content !== "string") throw new TypeError(`messages[${index}] is not a message: return { role, content }`)
  const text = [Prompt.textPart({ text: content })]
  if (role === "assistant") return Prompt.assistantMessage({ content: text })
  if (role === "system" && index === 0) return Prompt.systemMessage({ content })
  if (role === "system" || role === "user" || role === "framework") return Prompt.userMessage({ content: text })
  throw new TypeError(`messages[${index}] has the role ${JSON.stringify(role)}: use system, user or assistant`)
}

/**
 * Reads messages from foreign code. `from` is the index of the first message in the conversation. Throws a TypeError
 * for a value that is not a message.
 */
export const readMessages = (value: unknown, from: number): ReadonlyArray<Prompt.Message> => {
  if (!Array.isArray(value)) throw new TypeError("messages is not a list")
  return value.map((message, index) => readMessage(message, from + index))
}

const readers: { readonly [K in keyof Fields]: (value: unknown) => unknown } = {
  messages: (value) => readMessages(value, 0),
  promptMessages: (value) => readMessages(value, 1),
  compaction: (value) => {
    if (!Array.isArray(value)) throw new TypeError("compaction is not a list of plans")
    return value
  },
  forceContinue: (value) => value === true,
  toolInput: (value) => {
    if (!Predicate.isObject(value) || Array.isArray(value)) throw new TypeError("toolInput is not an object")
    return Frozen.acceptRequest(value)
  },
  parsedResponse: (value) => {
    if (isParsedResponse(value)) return Frozen.accept(value)
    throw new TypeError("parsedResponse is not a text with toolCalls that have an id and a name")
  },
  toolOutput: Frozen.accept,
  llmToolOutput: Frozen.accept,
  parts: (value) => {
    if (isParts(value)) return Frozen.accept(value)
    throw new TypeError("parts is not a list of parts of a streamed answer")
  },
  agentResponse: (value) => {
    if (typeof value !== "string") throw new TypeError("agentResponse is not a text")
    return value
  }
}

/** Names of all fields that a phase may change. */
export const fieldNames: ReadonlyArray<string> = Object.keys(readers)

const used: { readonly [K in Phase]: ReadonlyArray<keyof Fields> } = {
  beforeAgent: ["messages"],
  afterAgent: ["agentResponse"],
  beforeModel: ["messages", "promptMessages", "compaction"],
  afterModel: ["parsedResponse", "messages", "forceContinue"],
  beforeTool: ["toolInput"],
  afterTool: ["toolOutput", "llmToolOutput"],
  streamPart: ["parts"]
}

/** Result that changes nothing. */
export const nothing: MethodOutcome = { _tag: "NoChanges" }

/** Result that removes all parts. */
export const cut = { _tag: "Modifications", keys: ["parts"], fields: { parts: [] } } as const satisfies MethodOutcome

/**
 * Decodes the result of a method. Fields of other phases are ignored. Throws a TypeError for any other value, and for a
 * result that the phase may not return.
 */
export const readResult = (phase: Phase, value: unknown): MethodOutcome => {
  if (value === undefined || value === null) return nothing
  const tag = Predicate.isObject(value) ? value["_tag"] : undefined
  if (tag === "NoChanges") return nothing
  if (Predicate.isObject(value) && tag === "Modifications" && Predicate.isObject(value["fields"])) {
    const fields: Record<string, unknown> = {}
    for (const key of used[phase]) {
      const given: unknown = Reflect.get(value["fields"], key)
      if (given !== undefined && given !== null) fields[key] = readers[key](given)
    }
    return { _tag: "Modifications", keys: [], fields }
  }
  if (Predicate.isObject(value)) {
    LoopControl.checkPhase(phase, tag)
    if (tag === "Denied") return { _tag: "Denied", reason: String(value["reason"]) }
    if (tag === "Skipped") return { _tag: "Skipped", result: Frozen.accept(value["result"]) }
    const control = LoopControl.readControl(value)
    if (control !== undefined) return control
  }
  throw new TypeError("it returned neither noChanges nor withModifications(…)")
}
