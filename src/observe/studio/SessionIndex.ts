/**
 * Maintains the facts about all sessions of a store. Each entry of the run record is read once, even if another process
 * wrote it.
 *
 * **Details**
 *
 * A store that does not exist yet is treated as empty and is not created. When sessions are removed, the index is
 * rebuilt, because their sequence numbers may be reused.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as StoredMask from "../../store/StoredMask.ts"
import { SessionActivity } from "../../store/SessionActivity.ts"
import { type Session, SessionStore } from "../../store/SessionStore.ts"
import { toOneLine } from "../trace/Row.ts"
import * as SessionFacts from "./SessionFacts.ts"
import { nowhere, summarizeAll, type World, type WorldFacts } from "./SessionQueries.ts"

/** Index of the sessions of a store. */
export interface Index {
  /** Reads new entries, and returns all sessions. */
  readonly refresh: Effect.Effect<World, SessionStoreError>
  /** Returns all sessions. Reads new entries only if the store was written since the last read. */
  readonly current: Effect.Effect<World, SessionStoreError>
}

const collectLinks = (
  sessions: ReadonlyMap<string, Session>,
  facts: ReadonlyMap<string, SessionFacts.SessionFacts>
) => {
  const parents = new Map<string, string>()
  const children = new Map<string, Array<string>>()
  const replays = new Map<string, Array<string>>()
  const addToList = (map: Map<string, Array<string>>, key: string, value: string): void => {
    const known = map.get(key)
    if (known === undefined) map.set(key, [value])
    else known.push(value)
  }
  const linkChild = (parent: string, child: string): void => {
    if (parents.has(child) || parent === child) return
    parents.set(child, parent)
    addToList(children, parent, child)
  }
  for (const one of facts.values()) {
    for (const { session } of one.children) linkChild(one.id, session)
    if (one.replayOf !== undefined) addToList(replays, one.replayOf.session, one.id)
  }
  for (const { continues, id, parentId } of sessions.values()) {
    if (parentId !== undefined && continues === undefined && sessions.has(parentId)) linkChild(parentId, id)
  }
  return { parents, children, replays }
}

/** Number of sessions whose texts are redacted before other fibers may run. */
const cleanedAtOnce = 256

/** Returns a session without its system prompt, and without secrets. */
const cleanSession = (session: Session, clean: (text: string) => string): Session => ({
  ...session,
  systemPrompt: "",
  ...(session.title === undefined ? {} : { title: clean(session.title) }),
  ...(session.cwd === undefined ? {} : { cwd: clean(session.cwd) })
})

/** Creates an index of the sessions of a store. `exists` returns true once the store has been created. */
export const make = (exists: Effect.Effect<boolean>): Effect.Effect<Index, never, SessionActivity | SessionStore> =>
  Effect.gen(function* () {
    const activity = yield* SessionActivity
    const store = yield* SessionStore
    const clean = yield* StoredMask.textForExport
    const lock = yield* Semaphore.make(1)
    let facts = new Map<string, SessionFacts.SessionFacts>()
    const prompts = new Map<string, string>()
    let sequence = 0
    let version: number | undefined
    let world = nowhere
    const removed = new Set<string>()

    const read = Effect.gen(function* () {
      const newest = yield* activity.sequence
      const found = yield* store.list({ limit: Number.MAX_SAFE_INTEGER })
      const sessions = new Map<string, Session>()
      for (const some of Arr.chunksOf(found, cleanedAtOnce)) {
        for (const session of some) sessions.set(session.id, cleanSession(session, clean))
        yield* Effect.yieldNow
      }
      const gone = Array.from(world.sessions.keys()).filter((id) => !sessions.has(id))
      for (const id of gone) removed.add(id)
      for (const id of sessions.keys()) removed.delete(id)
      if (newest < sequence || gone.length > 0) {
        facts = new Map()
        sequence = 0
      }
      if (newest > sequence) {
        yield* Stream.runForEach(
          activity.since(sequence, { kinds: SessionFacts.kinds }),
          ({ entry, sequence: number }) =>
            Effect.sync(() => {
              const known = facts.get(entry.sessionId) ?? SessionFacts.make(entry.sessionId)
              facts.set(entry.sessionId, known)
              SessionFacts.addEntry(known, number, entry, clean)
              sequence = number
            })
        )
        sequence = Math.max(sequence, newest)
      }
      const unknown = found.flatMap(({ id }) => (prompts.has(id) ? [] : [id]))
      for (const [id, text] of yield* activity.prompts(unknown)) prompts.set(id, toOneLine(clean(text)))
      const known: WorldFacts = {
        sequence,
        sessions,
        removed: new Set(removed),
        facts,
        running: yield* activity.running,
        prompts,
        ...collectLinks(sessions, facts)
      }
      world = { ...known, summaries: yield* summarizeAll(known) }
      return world
    })

    const runIfThere = (work: Effect.Effect<World, SessionStoreError>) =>
      lock.withPermit(Effect.flatMap(exists, (isThere) => (isThere ? work : Effect.succeed(nowhere))))

    const noted = Effect.gen(function* () {
      // The version is taken before reading, so that entries written in the meantime are read next time.
      version = yield* activity.version
      return yield* read
    })
    return {
      refresh: runIfThere(noted),
      current: runIfThere(Effect.flatMap(activity.version, (now) => (now === version ? Effect.succeed(world) : noted)))
    }
  })
