/**
 * The port for observing activity in all sessions of a store, regardless of the process that causes it.
 *
 * **Details**
 *
 * Entries of the run record are numbered in the order in which they were written. A reader remembers the number of the
 * last entry it has read and requests only later entries, so the cost depends only on the number of new entries.
 * Requesting the newest number reads a single row.
 *
 * **Gotchas**
 *
 * If the newest entries are removed, their numbers may be reused: a reader that sees a `sequence` lower than before
 * must start over.
 *
 * **Example** (Entries of every process, as they come)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Stream from "effect/Stream"
 * import { SessionStore } from "hermes-effect"
 * import { SessionActivity } from "hermes-effect/sessions"
 *
 * const news = Effect.gen(function*() {
 *   const activity = yield* SessionActivity.SessionActivity
 *   return yield* Stream.runCollect(activity.since(0, { kinds: ["RunStarted"] }))
 * })
 *
 * const store = SessionStore.layerSqlite({ path: "state.db" })
 * console.log((await Effect.runPromise(Effect.provide(news, store))).length)
 * // => 0
 * ```
 *
 * Source: `ARCHITECTURE.md` §4 and §8 (run record).
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { Entry } from "../base/domain/RecordEvent.ts"
import type { Filter } from "./RunRecord.ts"

/** An entry of the run record and its sequence number. */
export interface NumberedEntry {
  readonly sequence: number
  readonly entry: Entry
}

/** Maximum length of a prompt in {@link Service.prompts}, in characters. */
export const promptLength = 400

/** A period, with its limits in epoch milliseconds. `until` is exclusive. */
export interface Period {
  readonly since: number
  readonly until: number
}

/** Message counts of a session in a period, without system prompts and copies of another session's messages. */
export interface SpokenCounts {
  readonly messages: number
  /** Number of messages that a user wrote. */
  readonly userMessages: number
  /** Skills that a user chose for a message, each with the time of the message. */
  readonly skills: ReadonlyArray<{ readonly name: string; readonly at: number }>
}

/** Functions that read the activity in the sessions of a store. */
export interface Service {
  /** Version of the store, which changes when another connection writes to the store. Reading it is very cheap. */
  readonly version: Effect.Effect<number, SessionStoreError>
  /** Number of the newest entry, or 0 if the record is empty. */
  readonly sequence: Effect.Effect<number, SessionStoreError>
  /** Returns the entries with a number above `after`, in order. */
  readonly since: (after: number, filter?: Filter) => Stream.Stream<NumberedEntry, SessionStoreError>
  /** Ids of the sessions that have an active run in a live process. */
  readonly running: Effect.Effect<ReadonlySet<string>, SessionStoreError>
  /** Counts the messages of a period, by session. */
  readonly spoken: (period: Period) => Effect.Effect<ReadonlyMap<string, SpokenCounts>, SessionStoreError>
  /** Returns the beginnings of the first prompts of sessions as they were typed, without redaction. */
  readonly prompts: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, string>, SessionStoreError>
}

/**
 * The activity in a session store.
 *
 * @see {@link Service} for its members.
 */
export class SessionActivity extends Context.Service<SessionActivity, Service>()(
  "hermes-effect/session/SessionActivity"
) {}
