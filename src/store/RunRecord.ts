/**
 * The port to the run record: all events of every run, complete, with secrets masked when they are stored. Code that
 * shows, exports or counts runs reads it. Active runs and stored runs provide the same entries.
 *
 * **Details**
 *
 * `append` takes all entries of a step at once and returns when they are durable. It never fails a run: a failed write
 * is reported once, and a `Gap` entry states how many entries are missing. `read` streams entries in the order in which
 * they were written. For an entry written by a newer version, the parts that this version knows are read; unreadable
 * and damaged entries are skipped. `unread` counts both.
 *
 * **Gotchas**
 *
 * {@link layerMemory} retains a bounded number of entries: the oldest are dropped first.
 *
 * **Example** (What a run did)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Stream from "effect/Stream"
 * import { Agent, RunRecord, Runtime } from "hermes-effect"
 *
 * const program = Effect.gen(function*() {
 *   const { sessionId } = yield* Agent.run({ prompt: "Reply exactly hello" })
 *   const record = yield* RunRecord.RunRecord
 *   return yield* Stream.runCollect(Stream.map(record.read({ sessionId }), ({ event }) => event._tag))
 * })
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer()))).join(" "))
 * // => RunStarted MessageAppended MessageAppended AttemptStarted AttemptEnded MessageAppended RunEnded
 * ```
 *
 * Source: `ARCHITECTURE.md` §4 and §8 (run record).
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId, TurnId } from "../base/domain/Ids.ts"
import type { Entry, Kind, Origin, RecordEvent } from "../base/domain/RecordEvent.ts"
import type { Together } from "../base/domain/RunRecorder.ts"
import * as MemoryBounds from "./MemoryBounds.ts"
import { type LoggedEntry, SessionLog } from "./SessionLog.ts"
import { SessionStore } from "./SessionStorePort.ts"
import * as StoredMask from "./StoredMask.ts"
import * as TenantScope from "./TenantScope.ts"
import * as Unread from "./Unread.ts"

/**
 * Selects entries to read. An absent field does not filter. A turn includes the entries that are written only once for
 * its session: tool definitions, and messages that are sent but not stored.
 */
export interface Filter {
  readonly sessionId?: string | undefined
  readonly turnId?: string | undefined
  readonly kinds?: ReadonlyArray<Kind> | undefined
  /** Only messages with these origins. Entries that are not messages are not filtered. */
  readonly origins?: ReadonlyArray<Origin> | undefined
}

/**
 * Function that receives entries in order as they are written. It must return quickly. Entries that are stored once per
 * session are delivered with each run that uses them.
 */
export type Listener = (entries: ReadonlyArray<Entry>) => void

/** Writes and reads the record of runs. */
export interface Service {
  /** Appends entries to the record. */
  readonly append: (entries: ReadonlyArray<Entry>) => Effect.Effect<void>
  /** Streams entries in the order in which they were written. */
  readonly read: (filter?: Filter) => Stream.Stream<Entry, SessionStoreError>
  /** Counts the entries matching the filter that `read` leaves out or reads only partly. */
  readonly unread: (filter?: Filter) => Effect.Effect<Unread.Unread, SessionStoreError>
  /** Passes new entries of this process to a listener until the scope closes. */
  readonly listen: (listener: Listener) => Effect.Effect<void, never, Scope.Scope>
  /**
   * Passes entries to the listeners without storing them, for a session that is not stored any more. If absent, the
   * listeners do not learn the end of such a session.
   */
  readonly announce?: ((entries: ReadonlyArray<Entry>) => Effect.Effect<void>) | undefined
  /** Tests whether the record has listeners. If absent, starts of calls may reach listeners late. */
  readonly isHeard?: (() => boolean) | undefined
  /**
   * Combines several writes into one transaction. A session store in the same database has the same function. Absent if
   * writing is not transactional.
   */
  readonly together?: Together | undefined
}

/** Maximum number of entries in the in-memory record. */
export const memoryCapacity = 50_000

/** Maximum number of message characters in the in-memory record. */
const memoryCharacters = MemoryBounds.defaultBounds.characters

const measureEntry = ({ event }: Entry): number =>
  event._tag === "MessageAppended" && event.message !== undefined ? MemoryBounds.measureMessage(event.message) : 0

/**
 * Returns the key of a message or tool set that is written only once per session: the system prompt, context that is
 * sent but not stored, or tool definitions. Returns `undefined` for every other event.
 */
export const getContentKey = ({ event }: Entry): string | undefined =>
  event._tag === "ToolsOffered"
    ? `tools ${event.hash}`
    : event._tag === "MessageAppended" && event.id !== undefined
      ? `message ${event.id}`
      : undefined

/**
 * Creates a test for entries that match a filter. Entries that are written once per session may belong to an earlier
 * turn.
 */
export const isInFilter =
  ({ kinds, origins, sessionId, turnId }: Filter) =>
  (entry: Entry): boolean =>
    (sessionId === undefined || entry.sessionId === sessionId) &&
    (turnId === undefined || entry.turnId === turnId || getContentKey(entry) !== undefined) &&
    (kinds === undefined || kinds.includes(entry.event._tag)) &&
    (origins === undefined || entry.event._tag !== "MessageAppended" || origins.includes(entry.event.origin))

/** Removes repeated entries of the kinds that are stored once per session. */
export const removeRepeatedContent = <E>(entries: Stream.Stream<Entry, E>): Stream.Stream<Entry, E> =>
  Stream.suspend(() => {
    const known = new Set<string>()
    return Stream.filter(entries, (entry) => {
      const key = getContentKey(entry)
      const name = `${entry.sessionId} ${key}`
      if (key === undefined) return true
      const isNew = !known.has(name)
      known.add(name)
      return isNew
    })
  })

/**
 * Creates `append` and `listen` for a store of entries. Listeners are called after the entries are durable, in the order
 * in which the entries were written: `keep` runs `then` after its writes are durable.
 */
export const makeMaskedWriter = (
  keep: (entries: ReadonlyArray<Entry>, then: Effect.Effect<void> | undefined) => Effect.Effect<void>
): Pick<Service, "announce" | "append" | "isHeard" | "listen"> => {
  const listeners = new Set<Listener>()
  /** Calls all listeners. The failure of a listener does not affect the run. */
  const notifyListeners = (entries: ReadonlyArray<Entry>): Effect.Effect<void> =>
    Effect.suspend(() => {
      const defects: Array<unknown> = []
      for (const listener of listeners) {
        try {
          listener(entries)
        } catch (defect) {
          defects.push(defect)
        }
      }
      return defects.length === 0
        ? Effect.void
        : Effect.forEach(
            defects,
            (defect) =>
              Effect.logWarning(
                "A listener of the run record failed; what it makes of these entries is missing.",
                defect
              ),
            { discard: true }
          )
    })
  return {
    append: (entries) =>
      StoredMask.useMaskedEntries(entries, (masked) =>
        keep(masked, listeners.size === 0 ? undefined : notifyListeners(masked))
      ),
    announce: (entries) => (listeners.size === 0 ? Effect.void : StoredMask.useMaskedEntries(entries, notifyListeners)),
    isHeard: () => listeners.size > 0,
    listen: (listener) =>
      Effect.acquireRelease(
        Effect.sync(() => void listeners.add(listener)),
        () => Effect.sync(() => listeners.delete(listener))
      )
  }
}

/** An in-memory record, from which the entries of sessions can be removed. */
interface MemoryRecord {
  readonly service: Service
  readonly forgetSessions: (ids: ReadonlyArray<string>) => void
}

/** Returns the entries of several sessions that pass a test, in the order in which they were written. */
const mergeEntries = (
  sessions: Iterable<SessionLog>,
  isWanted: (entry: Entry) => boolean
): ReadonlyArray<LoggedEntry> =>
  Array.from(sessions)
    .flatMap((session) => session.list())
    .filter(({ entry }) => isWanted(entry))
    .sort((one, other) => one.position - other.position)

const makeMemory = (capacity: number): MemoryRecord => {
  const sessions = new Map<string, SessionLog>()
  let count = 0
  let characters = 0
  let written = 0

  const forgetSessions: MemoryRecord["forgetSessions"] = (ids) => {
    for (const id of ids) {
      const session = sessions.get(id)
      if (session === undefined) continue
      sessions.delete(id)
      count -= session.size
      characters -= session.characters
    }
  }
  /** Drops the entries of a session up to a position. */
  const dropFirst = (id: string, session: SessionLog, last: number): void => {
    for (const entry of session.dropUntil(last, getContentKey)) {
      const size = measureEntry(entry)
      characters -= size
      session.characters -= size
      count--
    }
    if (session.size === 0) forgetSessions([id])
  }
  /**
   * Drops the oldest entries until at most half of each bound is used. Otherwise a full record would have to move all
   * entries at each step.
   */
  const dropOldest = (): void => {
    let left = count
    let size = characters
    let last = -1
    for (const { entry, position } of mergeEntries(sessions.values(), () => true)) {
      if (left <= capacity / 2 && size <= memoryCharacters / 2) break
      left--
      size -= measureEntry(entry)
      last = position
    }
    for (const [id, session] of Array.from(sessions)) dropFirst(id, session, last)
  }
  const storeEntry = (entry: Entry): void => {
    const session = sessions.get(entry.sessionId) ?? new SessionLog(entry.sessionId)
    const key = getContentKey(entry)
    if (key !== undefined && !session.addKey(key)) return
    if (session.size === 0) sessions.set(entry.sessionId, session)
    session.add(entry, written++)
    const size = measureEntry(entry)
    session.characters += size
    characters += size
    count++
  }
  const addEntries = (entries: ReadonlyArray<Entry>): void => {
    for (const entry of entries) storeEntry(entry)
    if (count > capacity || characters > memoryCharacters) dropOldest()
  }
  const storeEntries = (entries: ReadonlyArray<Entry>, then: Effect.Effect<void> | undefined) => {
    addEntries(entries)
    return then ?? Effect.void
  }
  const readEntries = (filter: Filter): ReadonlyArray<Entry> => {
    const isWanted = isInFilter(filter)
    if (filter.sessionId === undefined) return mergeEntries(sessions.values(), isWanted).map(({ entry }) => entry)
    const session = sessions.get(filter.sessionId)
    return session === undefined ? [] : mergeEntries([session], isWanted).map(({ entry }) => entry)
  }
  return {
    service: {
      ...makeMaskedWriter(storeEntries),
      read: (filter = {}) => Stream.suspend(() => Stream.fromIterable(readEntries(filter))),
      unread: () => Effect.succeed(Unread.none)
    },
    forgetSessions
  }
}

/**
 * The run record of a runtime.
 *
 * @see {@link Service} for its members.
 */
export class RunRecord extends Context.Service<RunRecord, Service>()("hermes-effect/session/RunRecord") {}

/** Layer with an in-memory record of at most `capacity` entries. */
export const layerMemory = (capacity: number = memoryCapacity): Layer.Layer<RunRecord> =>
  Layer.effect(
    RunRecord,
    Effect.map(Effect.serviceOption(SessionStore), (store) =>
      TenantScope.scopeRecord(makeMemory(capacity).service, Option.getOrUndefined(store))
    )
  )

/**
 * Layer that provides the record of the context, or an in-memory record if the context does not have one. The in-memory
 * record drops the entries of the sessions that a store in the context drops.
 */
export const layerDefault: Layer.Layer<RunRecord> = Layer.effect(
  RunRecord,
  Effect.gen(function* () {
    const given = Option.getOrUndefined(yield* Effect.serviceOption(RunRecord))
    if (given !== undefined) return given
    const { forgetSessions, service } = makeMemory(memoryCapacity)
    const store = Option.getOrUndefined(yield* Effect.serviceOption(SessionStore))
    yield* store?.dropped?.(forgetSessions) ?? Effect.void
    return TenantScope.scopeRecord(service, store)
  })
)

const countEntries = (sessionId: string, kind: Kind): Effect.Effect<number, SessionStoreError, RunRecord> =>
  RunRecord.use((record) => Stream.runCount(record.read({ sessionId, kinds: [kind] })))

/**
 * Appends an event immediately, and fails if it cannot be written. It is used for events that are recorded at the
 * request of a user. Returns the time of the event.
 */
export const appendChecked = Effect.fnUntraced(function* (
  sessionId: SessionId,
  turnId: TurnId,
  event: RecordEvent
): Effect.fn.Return<number, SessionStoreError, RunRecord> {
  const record = yield* RunRecord
  const at = yield* Clock.currentTimeMillis
  const before = yield* countEntries(sessionId, event._tag)
  yield* record.append([{ sessionId, turnId, at, event }])
  // `append` never fails, so counting the entries shows whether this one was written.
  if ((yield* countEntries(sessionId, event._tag)) === before) {
    return yield* new SessionStoreError({
      operation: "record",
      message:
        "The entry could not be written: free some space, or end the program that has the database locked, and " +
        "try again."
    })
  }
  return at
})
