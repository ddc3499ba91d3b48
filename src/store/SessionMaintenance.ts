/**
 * The port for maintaining a session store: statistics, removal of a conversation, import of sessions, and release of
 * free space. The module can also repair a database file, which does not require an open store.
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
  /** Number of conversations. A conversation that compaction split into several sessions counts once. */
  readonly sessions: number
  /**
   * Number of messages, each counted in its first session. Copies from a compacted or forked session are not counted
   * again if that session exists and the run record contains references to the originals.
   */
  readonly messages: number
  readonly toolCalls: number
}

/** Statistics of a store. Sizes are in bytes, times in epoch milliseconds. */
export interface Stats {
  /** Number of conversations, as in {@link SourceCount}. */
  readonly sessions: number
  /** Number of sessions that continue a compacted session. */
  readonly continuations: number
  readonly messages: number
  readonly toolCalls: number
  /** Number of entries in the run record. */
  readonly recordEntries: number
  /** Counts by label, most sessions first. */
  readonly sources: ReadonlyArray<SourceCount>
  readonly oldestAt: number | undefined
  readonly newestAt: number | undefined
  readonly fileBytes: number
  /** Size of the unused part of the file, which `optimize` releases. */
  readonly freeBytes: number
  /** Size of the stored messages as text. */
  readonly messageBytes: number
  readonly recordBytes: number
  readonly promptBytes: number
}

/** Size of the file before and after optimizing it, in bytes. */
export interface OptimizeResult {
  readonly before: number
  readonly after: number
}

/** Data of an imported session. Its counts are computed from its messages. */
export type ForeignSession = Omit<Session, "messageCount" | "toolCallCount">

/** Functions that maintain a session store. */
export interface Service {
  readonly stats: Effect.Effect<Stats, SessionStoreError>
  /**
   * Removes a session with its sub-agents, their messages and run records, in one transaction. Fails with `SessionBusy`
   * while a process uses one of them. Returns the number of removed sessions.
   */
  readonly remove: (id: SessionId) => Effect.Effect<number, SessionBusy | SessionStoreError>
  /**
   * Adds a session with its original times and totals, in one transaction. Fails if the id or the title already exists.
   */
  readonly add: (
    session: ForeignSession,
    messages: ReadonlyArray<Prompt.Message>
  ) => Effect.Effect<void, SessionStoreError>
  /** Merges the segments of the search index and releases free space to the file system. */
  readonly optimize: Effect.Effect<OptimizeResult, SessionStoreError>
}

/** Maintenance of a session store. */
export class SessionMaintenance extends Context.Service<SessionMaintenance, Service>()(
  "hermes-effect/session/SessionMaintenance"
) {}

/** Outcome of a check or a repair. Each line is text for the user. */
export interface RepairReport {
  readonly problems: ReadonlyArray<string>
  /** Repairs that were made. Empty for a check. */
  readonly done: ReadonlyArray<string>
  /** Path of the damaged file, preserved next to the new one, if the file had to be recreated. */
  readonly keptAt: string | undefined
}

/**
 * Checks the database at `path`. Unless only a check is requested, rebuilds the search index, and copies the readable
 * data of a damaged file to a new one. No file is removed. A database of another program or of a newer version is
 * rejected.
 */
export const repair = (
  path: string,
  options: { readonly checkOnly: boolean }
): Effect.Effect<RepairReport, SessionStoreError, FileSystem.FileSystem> =>
  Effect.flatMap(
    Effect.promise(() => import("./sqlite/SqliteRepair.ts")),
    ({ repair }) => repair(path, options)
  )
