/**
 * Record of the files that each session has read and edited. It prevents repeated output of the same text, stops a
 * session that repeats itself, and warns before a session overwrites changes made by others.
 *
 * **Details**
 *
 * The record is stored in memory by session and is limited in size; the least recently active sessions are dropped. The
 * runtime reports two events that clear entries: a tool other than `read_file` and `search_files` ran
 * ({@link Service.otherToolRan}), and a compaction removed text from the conversation ({@link Service.forgetContents}).
 *
 * Files are identified by their real path. `exclusive` runs one edit at a time across all sessions of the process: an
 * edit takes milliseconds, and two agents that patch one file must not lose each other's changes.
 *
 * **Example** (A file that another program changed)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Ids } from "hermes-effect"
 * import { FileState } from "hermes-effect/tools/files"
 *
 * const session = Ids.SessionId.make("s1")
 *
 * const program = Effect.gen(function*() {
 *   const state = yield* FileState.FileState
 *   yield* state.saw(session, "/home/ada/notes.md", "yesterday")
 *   return yield* state.changedSinceSeen(session, "/home/ada/notes.md", "today")
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, FileState.layer)))
 * // => true
 * ```
 *
 * Source: `hermes-product.md` §2.3 (unchanged re-read, same read in a row, patch failures), §3 (stale paths).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import type { SessionId } from "../../../base/domain/Ids.ts"

/** Time, size and identity of a file. Equal stamps mean equal content, as far as the file system can tell. */
export type Stamp = string

/** Returns the stamp of a file. */
export const toStamp = (info: FileSystem.File.Info): Stamp => {
  const mtime = Option.match(info.mtime, { onNone: () => 0, onSome: (date) => date.getTime() })
  return `${mtime}:${info.size}:${Option.getOrElse(info.ino, () => 0n)}`
}

/** A window of a file that a session received. `content` is a fingerprint of the text. */
export interface Reading {
  readonly window: string
  readonly stamp: Stamp
  readonly content: number
}

/**
 * Record of the files that each session has read and edited. It prevents repeated output of the same text, stops a
 * session that repeats itself, and warns before it overwrites changes made by others.
 */
export interface Service {
  /** Returns the number of identical requests of the session in a row, including this one. */
  readonly repeated: (session: SessionId, request: string) => Effect.Effect<number>
  /**
   * Records that the conversation requests a text and returns how many stubs have replaced it, including this one. The
   * result is 0 if the text must be returned because it is new, changed, or not in the conversation (`isHeld`).
   */
  readonly given: (session: SessionId, reading: Reading, isHeld: () => boolean) => Effect.Effect<number>
  /** Records that the session knows this state of the file. */
  readonly saw: (session: SessionId, real: string, stamp: Stamp) => Effect.Effect<void>
  /**
   * Records that the session wrote this state of the file; `undefined` if it deleted the file. `isKnown` is false if
   * the conversation does not contain the new text, because a script of the conversation wrote it.
   */
  readonly wrote: (session: SessionId, real: string, stamp: Stamp | undefined, isKnown?: boolean) => Effect.Effect<void>
  /** Returns true if the session knows only an earlier state of the file. */
  readonly changedSinceSeen: (session: SessionId, real: string, stamp: Stamp) => Effect.Effect<boolean>
  /**
   * Returns the files that the session knows and that another session (one of `by`, if given) has written since,
   * sorted.
   */
  readonly stale: (session: SessionId, by?: ReadonlySet<string>) => Effect.Effect<ReadonlyArray<string>>
  /** Counts consecutive failures of an edit of a file, and returns the count including this failure. */
  readonly editFailed: (session: SessionId, what: string) => Effect.Effect<number>
  readonly editSucceeded: (session: SessionId, what: string) => Effect.Effect<void>
  /**
   * Records that a tool other than `read_file` and `search_files` ran, so that the session does not count as repeating
   * itself.
   */
  readonly otherToolRan: (session: SessionId) => Effect.Effect<void>
  /** Records that a compaction removed texts from the conversation, so that they are returned again. */
  readonly forgetContents: (session: SessionId) => Effect.Effect<void>
  /** Transfers the record of a session to the session that continues it. */
  readonly moved: (from: SessionId, to: SessionId) => Effect.Effect<void>
  /** Runs one edit at a time. */
  readonly exclusive: <A, E, R>(edit: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

const maxSessions = 256
const maxEntries = 1_024

/** Sets an entry as the newest and drops the oldest entries beyond `max`. */
const putEntry = <K, V>(map: Map<K, V>, key: K, value: V, max = maxEntries): V => {
  map.delete(key)
  map.set(key, value)
  const oldest = map.keys().next()
  if (map.size > max && oldest.done !== true) map.delete(oldest.value)
  return value
}

interface GivenWindow {
  readonly stamp: Stamp
  readonly content: number
  readonly stubs: number
}

interface SessionState {
  last: { readonly request: string; readonly count: number } | undefined
  readonly given: Map<string, GivenWindow>
  readonly seen: Map<string, { readonly stamp: Stamp; readonly at: number }>
  readonly failures: Map<string, number>
}

const make: Effect.Effect<Service> = Effect.sync(() => {
  const sessions = new Map<SessionId, SessionState>()
  const writes = new Map<string, { readonly by: SessionId; readonly at: number }>()
  const gate = Semaphore.makeUnsafe(1)
  let clock = 0

  const getState = (id: SessionId): SessionState =>
    putEntry(
      sessions,
      id,
      sessions.get(id) ?? { last: undefined, given: new Map(), seen: new Map(), failures: new Map() },
      maxSessions
    )
  const recordSeen = (id: SessionId, real: string, stamp: Stamp): void => {
    putEntry(getState(id).seen, real, { stamp, at: ++clock })
  }

  return FileState.of({
    repeated: (id, request) =>
      Effect.sync(() => {
        const state = getState(id)
        const count = state.last?.request === request ? state.last.count + 1 : 1
        state.last = { request, count }
        return count
      }),
    given: (id, { window, stamp, content }, isHeld) =>
      Effect.sync(() => {
        const { given } = getState(id)
        const before = given.get(window)
        const same = before !== undefined && before.stamp === stamp && before.content === content && isHeld()
        return putEntry(given, window, { stamp, content, stubs: same ? before.stubs + 1 : 0 }).stubs
      }),
    saw: (id, real, stamp) => Effect.sync(() => recordSeen(id, real, stamp)),
    wrote: (id, real, stamp, isKnown = true) =>
      Effect.sync(() => {
        putEntry(writes, real, { by: id, at: ++clock })
        if (stamp === undefined) getState(id).seen.delete(real)
        else if (isKnown) recordSeen(id, real, stamp)
      }),
    changedSinceSeen: (id, real, stamp) =>
      Effect.sync(() => {
        const seen = getState(id).seen.get(real)
        return seen !== undefined && seen.stamp !== stamp
      }),
    stale: (id, by) =>
      Effect.sync(() =>
        Array.from(getState(id).seen)
          .flatMap(([real, { at }]) => {
            const write = writes.get(real)
            return write !== undefined && write.by !== id && write.at > at && (by?.has(write.by) ?? true) ? [real] : []
          })
          .sort()
      ),
    editFailed: (id, what) =>
      Effect.sync(() => {
        const { failures } = getState(id)
        return putEntry(failures, what, (failures.get(what) ?? 0) + 1)
      }),
    editSucceeded: (id, what) =>
      Effect.sync(() => {
        getState(id).failures.delete(what)
      }),
    otherToolRan: (id) =>
      Effect.sync(() => {
        const state = getState(id)
        state.last = undefined
        for (const [window, given] of state.given) state.given.set(window, { ...given, stubs: 0 })
      }),
    forgetContents: (id) =>
      Effect.sync(() => {
        const state = getState(id)
        state.last = undefined
        state.given.clear()
      }),
    moved: (from, to) =>
      Effect.sync(() => {
        const state = sessions.get(from)
        if (state === undefined) return
        sessions.delete(from)
        putEntry(sessions, to, state, maxSessions)
        for (const [real, write] of writes) if (write.by === from) writes.set(real, { ...write, by: to })
      }),
    exclusive: gate.withPermits(1)
  })
})

/**
 * Record of the files that each session has read and edited. It prevents repeated output of the same text, stops a
 * session that repeats itself, and warns before it overwrites changes made by others.
 */
export class FileState extends Context.Service<FileState, Service>()("hermes-effect/tool/FileState") {}

/** Provides an empty record in memory. */
export const layer: Layer.Layer<FileState> = Layer.effect(FileState, make)
