/**
 * The conversation of a run as the model sees it, the calls that are being run, and the way of messages into the
 * session and the record. This module alone changes any of it.
 */
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { Origin } from "../base/domain/RecordEvent.ts"
import type { Recorder } from "../base/domain/RunRecorder.ts"
import type * as WindowProbing from "../models/routing/WindowProbing.ts"
import * as ContextCopy from "../store/ContextCopy.ts"
import { getApiRequestId, type RunState } from "./RunState.ts"
import { type AgentServices, Services } from "./Services.ts"

/** Calls of the newest assistant message, and the results that are stored already, by call id. */
export interface Batch {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly results: ReadonlyMap<string, Prompt.ToolMessage>
  /** Calls that started, by id; only of tools that can change something. */
  readonly begun: ReadonlySet<string>
  /** Work that calls had done until they were cut, by call id: their result, instead of the one that says nothing. */
  readonly salvaged: ReadonlyMap<string, string>
}

/** Calls of an answer, of which none has begun. */
const makeBatch = (calls: Batch["calls"]): OpenBatch => ({
  calls,
  results: new Map(),
  begun: new Set(),
  salvaged: new Map()
})

/** The conversation of one run. */
export interface RunConversation {
  /** System message first, then the conversation; grows, and its messages never change. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Sent messages that the session does not have, with the stored message that each one replaces. */
  readonly unstored: ReadonlyMap<Prompt.Message, Prompt.Message | undefined>
  /** The calls that are being run. */
  readonly batch: Batch
  /** True when the text of the newest answer is in `messages` already. */
  readonly isAnswerStored: boolean
  /** True when the conversation is no longer the one that the session has: the session continues in another one. */
  readonly isCompacted: boolean
  /** Number of times it was made smaller because it did not fit. */
  readonly compactions: WindowProbing.CompactionTurn | undefined
}

interface OpenBatch extends Batch {
  readonly results: Map<string, Prompt.ToolMessage>
  readonly begun: Set<string>
  readonly salvaged: Map<string, string>
}

/** {@link RunConversation} as this module changes it. */
interface OwnConversation extends RunConversation {
  readonly messages: Array<Prompt.Message>
  readonly unstored: Map<Prompt.Message, Prompt.Message | undefined>
  batch: OpenBatch
  isAnswerStored: boolean
  isCompacted: boolean
  compactions: WindowProbing.CompactionTurn | undefined
}

/** Makes the conversation of a run that starts with these messages. */
export const makeConversation = (messages: ReadonlyArray<Prompt.Message>): RunConversation => {
  const own: OwnConversation = {
    messages: [...messages],
    unstored: new Map(),
    batch: makeBatch([]),
    isAnswerStored: false,
    isCompacted: false,
    compactions: undefined
  }
  return own
}

/** The conversation of a run with the right to change it. */
const getOwn = ({ conversation }: RunState): OwnConversation =>
  // Every conversation is made by `makeConversation`; other modules see it without the right to change it.
  conversation as OwnConversation

/** Adds messages to the conversation alone. */
export const addMessages = (run: RunState, messages: ReadonlyArray<Prompt.Message>): void => {
  getOwn(run).messages.push(...messages)
}

/** Adds a message that is sent and never stored. */
export const addUnstored = (run: RunState, message: Prompt.Message): void => {
  const { messages, unstored } = getOwn(run)
  messages.push(message)
  unstored.set(message, undefined)
}

/** Sends `sent` in place of the newest message, which stays as the session has it. */
export const replaceNewest = (run: RunState, stored: Prompt.Message, sent: Prompt.Message): void => {
  const { messages, unstored } = getOwn(run)
  messages[messages.length - 1] = sent
  if (sent !== stored) unstored.set(sent, stored)
}

/** Replaces all messages; returns the messages as they were before. */
export const replaceMessages = (run: RunState, after: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const { messages } = getOwn(run)
  return messages.splice(0, messages.length, ...after)
}

/** Removes the newest messages from an index on, and returns them. */
export const removeFrom = (run: RunState, index: number): ReadonlyArray<Prompt.Message> =>
  getOwn(run).messages.splice(index)

/** Notes that the session continues in another one, because the conversation is another one. */
export const noteCompaction = (run: RunState): void => {
  getOwn(run).isCompacted = true
}

/** Counts the compactions of a conversation that did not fit. */
export const takeCompactionTurn = (
  run: RunState,
  make: () => WindowProbing.CompactionTurn
): WindowProbing.CompactionTurn => (getOwn(run).compactions ??= make())

/** Notes whether the text of the newest answer is in the conversation. */
export const noteAnswerStored = (run: RunState, isStored: boolean): void => {
  getOwn(run).isAnswerStored = isStored
}

/** Begins to run calls, of which none has begun. */
export const openBatch = (run: RunState, calls: ReadonlyArray<Prompt.ToolCallPart>): void => {
  getOwn(run).batch = makeBatch(calls)
}

/** Ends the batch: no calls are being run. */
export const closeBatch = (run: RunState): void => {
  getOwn(run).batch = makeBatch([])
}

/** The batch under way with the right to change it, for work that may outlast the batch. */
export const watchBatch = (run: RunState): BatchChanges => {
  const { batch } = getOwn(run)
  return {
    noteBegun: (ids) => {
      for (const id of ids) batch.begun.add(id)
    },
    noteResult: (id, message) => void batch.results.set(id, message)
  }
}

/** See {@link watchBatch}. */
export interface BatchChanges {
  readonly noteBegun: (ids: ReadonlyArray<string>) => void
  readonly noteResult: (id: string, message: Prompt.ToolMessage) => void
}

/** Stores the work that a call had done when it was cut; it becomes the result of the call. */
export const salvageOutput = (run: RunState, callId: string, output: string): void => {
  getOwn(run).batch.salvaged.set(callId, output)
}

/** Records that the conversation of a run is not `before` any more. */
export const recordRewrite = (
  { conversation: { messages }, recorder }: RunState,
  reason: string,
  before: ReadonlyArray<Prompt.Message>
): void => {
  if (recorder === undefined) return
  const removed = ContextCopy.listLeftOut(before, messages, recorder.stored)
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
 * Appends messages of one writer to the session and the record, to both or to neither. `told` writes the events that
 * follow from it to the record.
 */
export const storeMessages = (
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>,
  told?: () => void
): Effect.Effect<void, SessionStoreError, Services> =>
  Services.use(({ store }) => storeMessagesIn(store, run, messages, told))

/** {@link storeMessages} in the store of the run's agent. */
export const storeMessagesIn = (
  store: AgentServices["store"],
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>,
  told?: () => void
): Effect.Effect<void, SessionStoreError> =>
  Effect.uninterruptible(
    Effect.suspend(() => {
      const { recorder } = run
      const append = store.append(run.sessionId, messages)
      if (recorder === undefined || messages.length === 0) return Effect.asVoid(append)
      const recorded = makeStoredRecorder(run, recorder, messages)
      return Effect.asVoid(
        recorder.storing(append, (position) => {
          recorded(position)
          told?.()
        })
      )
    })
  )

/** {@link storeMessages}, postponed until the next write: stores the answer with the beginning of its calls. */
export const postponeMessages = (
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<void, SessionStoreError, Services> =>
  Services.use(({ store }) => {
    const { recorder } = run
    return recorder === undefined || messages.length === 0
      ? storeMessagesIn(store, run, messages)
      : recorder.postponed(store.append(run.sessionId, messages), makeStoredRecorder(run, recorder, messages))
  })

/** Writes messages that were stored to the record. */
const makeStoredRecorder = (
  run: RunState,
  recorder: Recorder,
  messages: ReadonlyArray<Prompt.Message>
): ((position: number) => void) => {
  const [first] = messages
  const by = first === undefined ? "runtime" : classifyOrigin(first)
  const request = by === "model" && run.questions.count > 0 ? getApiRequestId(run) : undefined
  return (position) => recorder.appended(by, position, messages, request)
}

/** Adds messages to the conversation and stores them at once. */
export const appendMessages = (
  run: RunState,
  ...messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<void, SessionStoreError, Services> => {
  addMessages(run, messages)
  return storeMessages(run, messages)
}
