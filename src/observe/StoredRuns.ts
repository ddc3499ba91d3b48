/**
 * The runs of a stored session and its children as a tree. It is built from the run record, or only from the messages
 * if the session is older than its record.
 *
 * Source: `ARCHITECTURE.md` §4 (run record).
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import { SessionId, TurnId } from "../base/domain/Ids.ts"
import * as RecordEvent from "../base/domain/RecordEvent.ts"
import * as StoredMask from "../store/StoredMask.ts"
import { RunRecord } from "../store/RunRecord.ts"
import { type Session, SessionStore } from "../store/SessionStore.ts"
import * as Unread from "../store/Unread.ts"
import * as RunSpans from "./RunSpans.ts"
import * as EntrySlices from "./EntrySlices.ts"
import * as RunTree from "./RunTree.ts"

const toOrigin = (role: string): RecordEvent.Origin =>
  role === "user" ? "user" : role === "assistant" ? "model" : role === "tool" ? "tool" : "runtime"

/** Returns entries for the messages of a session that are missing from its record. Their times are unknown. */
const readBeforeRecord = Effect.fnUntraced(function* (
  session: Session,
  entries: ReadonlyArray<RecordEvent.Entry>
): Effect.fn.Return<ReadonlyArray<RecordEvent.Entry>, SessionStoreError, SessionStore> {
  const recorded = new Set(
    entries.flatMap(({ event }) => (event._tag === "MessageAppended" ? (event.position ?? []) : []))
  )
  if (recorded.size >= session.messageCount) return []
  const store = yield* SessionStore
  const { messages } = yield* store.readable(session.id)
  const all = yield* store.list({ limit: Number.MAX_SAFE_INTEGER })
  const known = new Set(entries.flatMap(({ event }) => (event._tag === "ChildStarted" ? [event.sessionId] : [])))
  const children = all.filter(
    ({ continues, id, parentId }) => parentId === session.id && continues === undefined && !known.has(id)
  )
  const missing = messages.filter(({ position }) => !recorded.has(position))
  const place = { sessionId: session.id, turnId: TurnId.make(`${session.id}:before`), at: 0 }
  const { cwd = "", model, provider, source, systemPrompt } = session
  const start: RecordEvent.RecordEvent = {
    _tag: "RunStarted",
    version: RecordEvent.version,
    source,
    platform: source,
    provider,
    model,
    cwd,
    resumed: false
  }
  return [
    { ...place, event: start },
    ...(systemPrompt === ""
      ? []
      : [
          {
            ...place,
            event: {
              _tag: "MessageAppended",
              origin: "runtime",
              message: Prompt.systemMessage({ content: systemPrompt })
            } as const
          }
        ]),
    ...missing.map(({ message, position }): RecordEvent.Entry => ({
      ...place,
      event: { _tag: "MessageAppended", origin: toOrigin(message.role), position, message }
    })),
    ...children.map((child): RecordEvent.Entry => ({
      ...place,
      event: {
        _tag: "ChildStarted",
        subagentId: child.id,
        sessionId: child.id,
        goal: child.title ?? "",
        role: "leaf",
        background: false
      }
    }))
  ]
})

/**
 * Adds the messages that a killed process stored but did not record, each after the run of the previous message.
 * Messages from before the record are left out.
 */
const completeEntries = Effect.fnUntraced(function* (
  session: Session,
  entries: ReadonlyArray<RecordEvent.Entry>
): Effect.fn.Return<ReadonlyArray<RecordEvent.Entry>, SessionStoreError, SessionStore> {
  const turns = new Map(
    entries.flatMap(({ event, turnId }) =>
      event._tag === "MessageAppended" && event.position !== undefined ? [[event.position, turnId] as const] : []
    )
  )
  if (turns.size === 0 || turns.size >= session.messageCount) return entries
  const { messages } = yield* (yield* SessionStore).readable(session.id)
  const behind = new Map<string, Array<RecordEvent.Entry>>()
  let turnId: TurnId | undefined
  for (const { message, position } of messages) {
    turnId = turns.get(position) ?? turnId
    if (turnId === undefined || turns.has(position)) continue
    const more = behind.get(turnId) ?? []
    more.push({
      sessionId: session.id,
      turnId,
      at: 0,
      event: { _tag: "MessageAppended", origin: toOrigin(message.role), position, message }
    })
    behind.set(turnId, more)
  }
  const last = new Map(entries.map((entry, index) => [entry.turnId, index]))
  return entries.flatMap((entry, index) => {
    const more = last.get(entry.turnId) === index ? (behind.get(entry.turnId) ?? []) : []
    return [entry, ...more.map((one) => ({ ...one, at: entry.at }))]
  })
})

/** Returns the entries that were written before the first entry of a turn, in the order in which they were written. */
const takeBefore = (
  entries: ReadonlyArray<RecordEvent.Entry>,
  turnId: string | undefined
): ReadonlyArray<RecordEvent.Entry> => {
  const first = turnId === undefined ? -1 : entries.findIndex((entry) => entry.turnId === turnId)
  return first < 0 ? entries : entries.slice(0, first)
}

const readEntries = (
  session: Session,
  turnId: string | undefined
): Effect.Effect<ReadonlyArray<RecordEvent.Entry>, SessionStoreError, SessionStore | RunRecord> =>
  Effect.gen(function* () {
    const record = yield* RunRecord
    const store = yield* SessionStore
    const recorded = yield* Stream.runCollect(record.read({ sessionId: session.id }))
    const whole = yield* completeEntries(session, recorded)
    const own = [...(yield* readBeforeRecord(session, whole)), ...takeBefore(whole, turnId)]
    const below = yield* Effect.forEach(own, ({ event }) =>
      event._tag === "ChildStarted"
        ? Effect.flatMap(store.get(SessionId.make(event.sessionId)), (child) =>
            child._tag === "Some" ? readEntries(child.value, undefined) : Effect.succeed([])
          )
        : Effect.succeed([])
    )
    return [...own, ...below.flat()]
  })

/** Reads the runs of a session and of its children, without secrets. */
export const read = (session: Session): Effect.Effect<RunTree.Tree, SessionStoreError, SessionStore | RunRecord> =>
  Effect.gen(function* () {
    const entries = yield* readEntries(session, undefined)
    const safe = yield* StoredMask.forExport
    const tree = RunTree.make()
    yield* EntrySlices.forEachSlice(entries, (slice) =>
      Effect.sync(() => {
        for (const entry of safe(slice)) tree.add(entry)
      })
    )
    return tree
  })

const listSessionsBelow = (run: RunTree.Run): ReadonlyArray<string> =>
  RunSpans.listChildren(run).flatMap(({ run: inner, start }) => [
    start.sessionId,
    ...(inner === undefined ? [] : listSessionsBelow(inner))
  ])

/** Counts the entries of a session and of its children that {@link read} leaves out or reads only partly. */
export const countUnread = (
  sessionId: string,
  tree: RunTree.Tree
): Effect.Effect<Unread.Unread, SessionStoreError, RunRecord> =>
  RunRecord.use((record) =>
    Effect.reduce(
      new Set([sessionId, ...tree.roots.flatMap(listSessionsBelow)]),
      () => Unread.none,
      (sum, id) => Effect.map(record.unread({ sessionId: id }), (one) => Unread.plus(sum, one))
    )
  )

/**
 * Reads the recorded entries of a session and its children before one of its turns. Returns an empty list if the store
 * does not know the session.
 */
export const readEarlier = (
  sessionId: string,
  turnId: string
): Effect.Effect<ReadonlyArray<RecordEvent.Entry>, SessionStoreError, SessionStore | RunRecord> =>
  Effect.gen(function* () {
    const store = yield* SessionStore
    const session = yield* store.get(SessionId.make(sessionId))
    return session._tag === "None" ? [] : (yield* StoredMask.forExport)(yield* readEntries(session.value, turnId))
  })
