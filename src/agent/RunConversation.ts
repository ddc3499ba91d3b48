/**
 * The conversation of a run as the model sees it, its running calls, and the functions that write messages to the
 * session and the record. Only this module changes them.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import type { Origin } from "../base/domain/RecordEvent.ts"
import type { CallEnd } from "../base/domain/RunDetails.ts"
import * as TurnContext from "../base/domain/TurnContext.ts"
import type { Recorder } from "../base/domain/RunRecorder.ts"
import type * as WindowProbing from "../models/routing/WindowProbing.ts"
import * as ContextCopy from "../store/ContextCopy.ts"
import { getApiRequestId, type RunState } from "./RunState.ts"
import { type AgentServices, Services } from "./Services.ts"

/** Calls of the newest assistant message, and their results stored so far, by call id. */
export interface Batch {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly results: ReadonlyMap<string, Prompt.ToolMessage>
  /** Started calls of tools that can change something, by id. */
  readonly begun: ReadonlySet<string>
  /**
   * Partial output of interrupted calls, by call id. It becomes the result of the call instead of a generic message.
   */
  readonly salvaged: ReadonlyMap<string, string>
}

/** Creates a batch of calls, none of which has started. */
const makeBatch = (calls: Batch["calls"]): OpenBatch => ({
  calls,
  results: new Map(),
  begun: new Set(),
  salvaged: new Map()
})

/** The conversation of one run. */
export interface RunConversation {
  /** System message, followed by the conversation. The list grows, and its messages never change. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Index of the first message that the run added. */
  readonly start: number
  /** Ends of the calls of the run, by their result. */
  readonly ends: ReadonlyMap<Prompt.Message, CallEnd>
  /** Sent messages that the session does not store, with the stored message that each one replaces. */
  readonly unstored: ReadonlyMap<Prompt.Message, Prompt.Message | undefined>
  /** Context of the turn, until the answer that keeps it is stored. */
  readonly context: TurnContext.TurnContext | undefined
  /** Calls that are being run. */
  readonly batch: Batch
  /** True if the text of the newest answer is already in `messages`. */
  readonly isAnswerStored: boolean
  /**
   * True if the conversation differs from the stored one because it was compacted. It then continues in another
   * session.
   */
  readonly isCompacted: boolean
  /** Compactions so far because the conversation did not fit. */
  readonly compactions: WindowProbing.CompactionTurn | undefined
}

interface OpenBatch extends Batch {
  readonly results: Map<string, Prompt.ToolMessage>
  readonly begun: Set<string>
  readonly salvaged: Map<string, string>
}

/** Mutable {@link RunConversation}, used only in this module. */
interface OwnConversation extends RunConversation {
  readonly messages: Array<Prompt.Message>
  start: number
  readonly ends: Map<Prompt.Message, CallEnd>
  readonly unstored: Map<Prompt.Message, Prompt.Message | undefined>
  context: TurnContext.TurnContext | undefined
  batch: OpenBatch
  isAnswerStored: boolean
  isCompacted: boolean
  compactions: WindowProbing.CompactionTurn | undefined
}

/**
 * Creates the conversation of a run that starts with the messages `before`, and adds the messages `added`. `replaced`
 * contains those that the session stores in another form.
 */
export const makeConversation = (
  before: ReadonlyArray<Prompt.Message>,
  added: ReadonlyArray<Prompt.Message> = [],
  replaced: ReadonlyMap<Prompt.Message, Prompt.Message> = new Map()
): RunConversation => {
  const own: OwnConversation = {
    messages: [...before, ...added],
    start: before.length,
    ends: new Map(),
    unstored: new Map(replaced),
    context: undefined,
    batch: makeBatch([]),
    isAnswerStored: false,
    isCompacted: false,
    compactions: undefined
  }
  return own
}

/** Returns the conversation of a run as a mutable value. */
const getOwn = ({ conversation }: RunState): OwnConversation =>
  // Every conversation is created by `makeConversation`. Other modules see it as read-only.
  conversation as OwnConversation

/** Adds messages to the conversation without storing them. */
export const addMessages = (run: RunState, messages: ReadonlyArray<Prompt.Message>): void => {
  getOwn(run).messages.push(...messages)
}

/** Adds a message that is sent and never stored. */
export const addUnstored = (run: RunState, message: Prompt.Message): void => {
  const { messages, unstored } = getOwn(run)
  messages.push(message)
  unstored.set(message, undefined)
}

/** Sends `sent` in place of the newest message. The session retains the stored message. */
export const replaceNewest = (run: RunState, stored: Prompt.Message, sent: Prompt.Message): void => {
  const { messages, unstored } = getOwn(run)
  messages[messages.length - 1] = sent
  if (sent !== stored) unstored.set(sent, stored)
}

/** Keeps the context of the turn with its first answer, so that later turns send it again. */
export const keepContext = (run: RunState, context: TurnContext.TurnContext): void => {
  getOwn(run).context = context
}

/** Creates an answer that is stored next. The first one of a turn has the context of the turn in its options. */
export const makeAnswer = (
  run: RunState,
  content: ReadonlyArray<Prompt.AssistantMessagePart>,
  options: Prompt.ProviderOptions = Conversation.noOptions
): Prompt.AssistantMessage => {
  const own = getOwn(run)
  const { context } = own
  own.context = undefined
  return Prompt.assistantMessage({
    content,
    options: context === undefined ? options : TurnContext.addToOptions(options, context)
  })
}

/** Replaces all messages; returns the messages as they were before. */
export const replaceMessages = (run: RunState, after: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const own = getOwn(run)
  const { messages } = own
  const added = new Set(messages.slice(own.start))
  const start = after.findIndex((message) => added.has(message))
  own.start = start === -1 ? after.length : start
  const before = messages.splice(0, messages.length, ...after)
  if (own.ends.size > 0) {
    const kept = new Set(after)
    for (const message of own.ends.keys()) if (!kept.has(message)) own.ends.delete(message)
  }
  return before
}

/** Removes the newest messages from an index onwards, and returns them. */
export const removeFrom = (run: RunState, index: number): ReadonlyArray<Prompt.Message> => {
  const own = getOwn(run)
  own.start = Math.min(own.start, index)
  return own.messages.splice(index)
}

/** Records that the conversation was compacted and continues in another session. */
export const noteCompaction = (run: RunState): void => {
  getOwn(run).isCompacted = true
}

/** Counts a compaction of a conversation that did not fit. */
export const takeCompactionTurn = (
  run: RunState,
  make: () => WindowProbing.CompactionTurn
): WindowProbing.CompactionTurn => (getOwn(run).compactions ??= make())

/** Records whether the text of the newest answer is in the conversation. */
export const noteAnswerStored = (run: RunState, isStored: boolean): void => {
  getOwn(run).isAnswerStored = isStored
}

/** Opens a batch of calls, none of which has started. */
export const openBatch = (run: RunState, calls: ReadonlyArray<Prompt.ToolCallPart>): void => {
  getOwn(run).batch = makeBatch(calls)
}

/** Closes the batch. No calls are running then. */
export const closeBatch = (run: RunState): void => {
  getOwn(run).batch = makeBatch([])
}

/** Returns the current batch as a mutable value, for work that may outlast the batch. */
export const watchBatch = (run: RunState): BatchChanges => {
  const { batch, ends } = getOwn(run)
  return {
    noteBegun: (ids) => {
      for (const id of ids) batch.begun.add(id)
    },
    noteResult: (id, message, end) => {
      batch.results.set(id, message)
      ends.set(message, end)
    }
  }
}

/** Changes to a batch; see {@link watchBatch}. */
export interface BatchChanges {
  readonly noteBegun: (ids: ReadonlyArray<string>) => void
  readonly noteResult: (id: string, message: Prompt.ToolMessage, end: CallEnd) => void
}

/** Stores the partial output of an interrupted call, which becomes the result of the call. */
export const salvageOutput = (run: RunState, callId: string, output: string): void => {
  getOwn(run).batch.salvaged.set(callId, output)
}

/** Records that the conversation of a run has replaced `before`. */
export const recordRewrite = (
  { conversation: { messages, unstored }, recorder }: RunState,
  reason: string,
  before: ReadonlyArray<Prompt.Message>
): void => {
  if (recorder === undefined) return
  const toStored = (message: Prompt.Message): Prompt.Message => unstored.get(message) ?? message
  const removed = ContextCopy.listLeftOut(before.map(toStored), messages.map(toStored), recorder.stored)
  recorder.write({
    _tag: "ContextRewritten",
    reason,
    before: before.length,
    after: messages.length,
    ...(removed.length === 0 ? {} : { removed })
  })
}

const classifyOrigin = ({ role }: Prompt.Message): Origin =>
  role === "assistant" ? "model" : role === "tool" ? "tool" : "runtime"

/**
 * Appends messages of one writer to both the session and the record, or to neither. `told` writes the resulting events
 * to the record.
 */
export const storeMessages = (
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>,
  told?: () => void
): Effect.Effect<void, SessionStoreError, Services> =>
  Services.use(({ store }) => storeMessagesIn(store, run, messages, told))

/** Like {@link storeMessages}, but uses the store of the run's agent. */
const storeMessagesIn = (
  store: Pick<AgentServices["store"], "append">,
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>,
  told?: () => void,
  writer?: Origin
): Effect.Effect<void, SessionStoreError> =>
  Effect.uninterruptible(Effect.suspend(() => Effect.asVoid(storeInRegion(store, run, messages, told, writer))))

/** Like {@link storeMessagesIn}, in an uninterruptible region. */
export const storeInRegion = (
  store: Pick<AgentServices["store"], "append">,
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>,
  told?: () => void,
  writer?: Origin
): Effect.Effect<unknown, SessionStoreError> => {
  const { recorder } = run
  const append = store.append(run.sessionId, messages)
  if (recorder === undefined || messages.length === 0) return append
  const recorded = makeStoredRecorder(run, recorder, messages, writer)
  return recorder.storing(append, (position) => {
    recorded(position)
    told?.()
  })
}

/**
 * Postpones {@link storeMessages} until the next write, so that an answer is stored together with the beginning of its
 * calls. `writer` is the origin in the record if it does not follow from the role.
 */
export const postponeMessages = (
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>,
  writer?: Origin
): Effect.Effect<void, SessionStoreError, Services> =>
  Services.use(({ store }) => postponeMessagesIn(store, run, messages, undefined, writer))

/** Like {@link postponeMessages}, but uses the store of the run's agent. */
export const postponeMessagesIn: typeof storeMessagesIn = (store, run, messages, told, writer) => {
  const { recorder } = run
  if (recorder === undefined || messages.length === 0) return storeMessagesIn(store, run, messages, told, writer)
  const recorded = makeStoredRecorder(run, recorder, messages, writer)
  return recorder.postponed(store.append(run.sessionId, messages), (position) => {
    recorded(position)
    told?.()
  })
}

/** Creates the writer of stored messages to the record. */
const makeStoredRecorder = (
  run: RunState,
  recorder: Recorder,
  messages: ReadonlyArray<Prompt.Message>,
  writer?: Origin
): ((position: number) => void) => {
  const [first] = messages
  const by = writer ?? (first === undefined ? "runtime" : classifyOrigin(first))
  const request = by === "model" && run.questions.count > 0 ? getApiRequestId(run) : undefined
  return (position) => recorder.appended(by, position, messages, request)
}

/** Adds messages to the conversation and stores them immediately. */
export const appendMessages = (
  run: RunState,
  ...messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<void, SessionStoreError, Services> => {
  addMessages(run, messages)
  return storeMessages(run, messages)
}

/** Adds an answer that the model did not write to the conversation, and stores it immediately. */
export const appendOwnAnswer = (
  run: RunState,
  message: Prompt.AssistantMessage
): Effect.Effect<void, SessionStoreError, Services> => {
  addMessages(run, [message])
  noteAnswerStored(run, true)
  return Services.use(({ store }) => storeMessagesIn(store, run, [message], undefined, "runtime"))
}
