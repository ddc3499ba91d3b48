/**
 * The port to the care of a session store: figures, removal of one conversation, sessions from elsewhere, free space;
 * and the repair of a database file, which needs no open store.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionBusy, SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import type { Session } from "./SessionStorePort.ts"

/** Counts of the sessions with one label. */
export interface SourceCount {
  readonly source: string
  /** Conversations: one that compaction carried over several sessions counts once. */
  readonly sessions: number
  /**
   * Messages, each counted in its first session: copies from a compacted or forked session are not counted again, as
   * long as the other session exists and the run record names the originals.
   */
  readonly messages: number
  readonly toolCalls: number
}

/** Figures of a store. Sizes are bytes, times epoch milliseconds. */
export interface Stats {
  /** Conversations, as in {@link SourceCount}. */
  readonly sessions: number
  /** Sessions that continue a compacted one. */
  readonly continuations: number
  readonly messages: number
  readonly toolCalls: number
  /** Entries of the run record. */
  readonly recordEntries: number
  /** Most sessions first. */
  readonly sources: ReadonlyArray<SourceCount>
  readonly oldestAt: number | undefined
  readonly newestAt: number | undefined
  readonly fileBytes: number
  /** Unused part of the file; `optimize` releases it. */
  readonly freeBytes: number
  /** Text of the messages as stored. */
  readonly messageBytes: number
  readonly recordBytes: number
  readonly promptBytes: number
}

/** Bytes of the file before and after. */
export interface OptimizeResult {
  readonly before: number
  readonly after: number
}

/** Data of a session from elsewhere. Its counts are computed from the messages given with it. */
export type ForeignSession = Omit<Session, "messageCount" | "toolCallCount">

/** Maintains a session store. */
export interface Service {
  readonly stats: Effect.Effect<Stats, SessionStoreError>
  /**
   * Removes a session with its sub-agents, their messages and run records, in one transaction. Fails with `SessionBusy`
   * while a process has one of them. Returns the number of sessions.
   */
  readonly remove: (id: SessionId) => Effect.Effect<number, SessionBusy | SessionStoreError>
  /** Adds a session with its own times and sums, in one transaction; fails when the id or the title exists. */
  readonly add: (
    session: ForeignSession,
    messages: ReadonlyArray<Prompt.Message>
  ) => Effect.Effect<void, SessionStoreError>
  /** Merges the segments of the search index and releases free space to the file system. */
  readonly optimize: Effect.Effect<OptimizeResult, SessionStoreError>
}

/** The care of a session store. */
export class SessionMaintenance extends Context.Service<SessionMaintenance, Service>()(
  "hermes-effect/session/SessionMaintenance"
) {}

/** Outcome of a check or a repair; each line is for people. */
export interface RepairReport {
  readonly problems: ReadonlyArray<string>
  /** Empty for a check. */
  readonly done: ReadonlyArray<string>
  /** Path of the damaged file, preserved next to the new one, if the file had to be recreated. */
  readonly keptAt: string | undefined
}

/**
 * Checks the database at `path`, and repairs it unless told only to check: rebuilds the search index, and copies the
 * readable data of a damaged file to a new one. Nothing is removed. A database of another program or of a newer version
 * is refused.
 */
export const repair = (
  path: string,
  options: { readonly checkOnly: boolean }
): Effect.Effect<RepairReport, SessionStoreError, FileSystem.FileSystem> =>
  Effect.flatMap(
    Effect.promise(() => import("./sqlite/SqliteRepair.ts")),
    ({ repair }) => repair(path, options)
  )
