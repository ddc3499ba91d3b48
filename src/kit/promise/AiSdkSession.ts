/**
 * Selects the session of an AI SDK call. The caller's messages are compared with the stored messages, and take
 * precedence.
 *
 * **Details**
 *
 * | messages before the last one | the run |
 * | --- | --- |
 * | none | continues the named session; if the last message repeats the session's only message, one of the rows below applies |
 * | some, and the session is not stored | starts the session with these messages |
 * | the session's messages | continues the session |
 * | the session's messages except its unanswered last one, which the prompt repeats | continues from that message |
 * | the beginning of the session, as for a regenerated answer | continues in a copy of that beginning, with a warning |
 * | other messages | starts another session with these messages, with a warning |
 *
 * The copies and the other sessions of a named session are remembered for the lifetime of the model, so that the next
 * call finds the session that has its messages. A compacted session is recognized by its summary, and continues with
 * only the last message.
 *
 * **Gotchas**
 *
 * A runtime whose layer provides only the agent has no store for the comparison: the named session is continued, with a
 * warning.
 */
import type { RunInput } from "../../agent/RunInput.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as ConversationTexts from "../../store/ConversationTexts.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import * as SessionFork from "../../store/SessionFork.ts"
import { type Service as Store, type Session, SessionStore } from "../../store/SessionStore.ts"
import * as StoredMask from "../../store/StoredMask.ts"
import type { HermesInput } from "./HermesOptions.ts"

/** A call that names a session. */
export interface NamedCall {
  readonly sessionId: string
  /** Messages before the last message, as stored by the caller. */
  readonly history: ReadonlyArray<Prompt.Message>
  readonly prompt: RunInput["prompt"]
  /** Source of a session that is created for the call. */
  readonly source: string
}

/** Session and messages of the run, with a warning to the caller if they differ from the named session. */
export interface PlacedCall {
  readonly input: Pick<HermesInput, "goesOn" | "history" | "sessionId">
  readonly warning: string | undefined
}

/** Sessions that continue conversations of a named session, newest last. */
export type Branches = Map<string, ReadonlyArray<Ids.SessionId>>

/** Maximum number of sessions remembered for a named session. */
const mostBranches = 16

/** Maximum number of named sessions whose branches are remembered. */
const mostNamed = 1_000

const addBranch = (branches: Branches, named: string, id: Ids.SessionId): void => {
  const known = branches.get(named) ?? []
  branches.delete(named)
  branches.set(named, [...known.filter((one) => one !== id), id].slice(-mostBranches))
  const oldest = branches.keys().next()
  if (branches.size > mostNamed && oldest.done !== true) branches.delete(oldest.value)
}

/** A stored session, with the newest part of its conversation. */
interface StoredConversation {
  readonly session: Session
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly isCompacted: boolean
}

const readStored = Effect.fnUntraced(function* (
  store: Store,
  id: Ids.SessionId
): Effect.fn.Return<StoredConversation | undefined, SessionStoreError> {
  const newest = yield* store.newest(id)
  const session = Option.getOrUndefined(yield* store.get(newest))
  return session === undefined
    ? undefined
    : { session, messages: yield* store.messages(newest), isCompacted: newest !== id }
})

/** Returns true if the conversation ends with exactly this unanswered message. */
const isWaitingFor = (
  prompt: NamedCall["prompt"],
  { messages }: StoredConversation,
  place: ConversationTexts.ConversationPlace
): boolean => {
  const last = messages.at(-1)
  if (place._tag !== "Earlier" || place.next.length > 1 || typeof prompt !== "string" || last?.role !== "user")
    return false
  const isText = last.content.every(({ type }) => type === "text")
  const asked = Prompt.userMessage({ content: [Prompt.textPart({ text: prompt })] })
  return isText && Conversation.readText(last).trim() === Conversation.readText(asked).trim()
}

/**
 * Returns true if a call without a history repeats the only message of a conversation instead of adding the next one.
 */
const isOnlyMessage = (prompt: NamedCall["prompt"], { messages }: StoredConversation): boolean => {
  const asked = Prompt.userMessage({
    content: typeof prompt === "string" ? [Prompt.textPart({ text: prompt })] : prompt
  })
  const said = ConversationTexts.readTexts(messages).filter(({ role }) => role === "user")
  return said.length === 1 && said[0]?.text === ConversationTexts.readTexts([asked])[0]?.text
}

/** Creates a copy of the first messages of a session. */
const branchOff = Effect.fnUntraced(function* (
  { messages, session }: StoredConversation,
  position: number,
  source: string
): Effect.fn.Return<Ids.SessionId | undefined, SessionStoreError> {
  const [record, store] = [yield* Effect.serviceOption(RunRecord), yield* Effect.serviceOption(SessionStore)]
  if (Option.isNone(record) || Option.isNone(store)) return undefined
  const copy = { history: messages.slice(0, position), originals: messages, position, changed: ["prompt"], source }
  const { id } = yield* SessionFork.fork(session, copy).pipe(
    Effect.provideService(RunRecord, record.value),
    Effect.provideService(SessionStore, store.value)
  )
  return id
})

const formatWarning = (named: string, id: string, why: string): string =>
  `session "${named}" ${why}: this call is answered in the session "${id}" (providerMetadata.hermes.sessionId)`

/** Finds the session in which a call continues, according to the table of this module. */
export const placeCall = Effect.fnUntraced(function* (
  { history, prompt, sessionId, source }: NamedCall,
  branches: Branches
): Effect.fn.Return<PlacedCall, SessionStoreError> {
  const named = { input: { sessionId }, warning: undefined }
  const store = Option.getOrUndefined(yield* Effect.serviceOption(SessionStore))
  if (store === undefined) {
    const warning =
      history.length === 0
        ? undefined
        : `the messages before the last one are not compared with session "${sessionId}": ` +
          "the runtime has no session store"
    return { input: { sessionId }, warning }
  }
  const first = yield* readStored(store, Ids.SessionId.make(sessionId))
  if (first === undefined) return { input: { sessionId, history }, warning: undefined }
  const isNext = history.length === 0 && !isOnlyMessage(prompt, first)
  if (isNext) return named
  // Secrets are masked before the messages are stored.
  const kept = yield* StoredMask.maskMessages(history)
  const others = yield* Effect.forEach((branches.get(sessionId) ?? []).toReversed(), (id) => readStored(store, id))
  const found = [first, ...others.flatMap((one) => one ?? [])].map((conversation) => ({
    conversation,
    place: ConversationTexts.findPlace(conversation.messages, kept)
  }))
  for (const { conversation, place } of found) {
    const { id } = conversation.session
    const goesOn = isWaitingFor(prompt, conversation, place)
    if (goesOn) return { input: { sessionId: id, goesOn }, warning: undefined }
    if (place._tag === "Same") return { input: { sessionId: id }, warning: undefined }
  }
  if (first.isCompacted) return named
  for (const { conversation, place } of found) {
    if (place._tag !== "Earlier") continue
    const id = yield* branchOff(conversation, place.position, source)
    if (id === undefined) break
    addBranch(branches, sessionId, id)
    return {
      input: { sessionId: id },
      warning: formatWarning(sessionId, id, "went on behind the messages of this call")
    }
  }
  const id = yield* Ids.makeSessionId
  addBranch(branches, sessionId, id)
  return {
    input: { sessionId: id, history },
    warning: formatWarning(sessionId, id, "has other messages than this call")
  }
})
