/**
 * Maintenance and retention of sessions in a database, for SQLite and Postgres. Each database implements its
 * differences as a {@link MaintenancePlace}.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { SessionBusy } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import { hiddenSources } from "../SessionSearch.ts"
import type { Service as Maintenance, SourceCount } from "../SessionMaintenance.ts"
import type { Limit, PruneResult, Service as Retention } from "../SessionRetention.ts"
import type { Service as Store } from "../SessionStorePort.ts"
import * as StoreFailure from "../StoreFailure.ts"
import * as SqlRows from "./SqlRows.ts"
import type { SqlPlace } from "./SqlStore.ts"

/** Messages of sessions with one label that are copies of messages of another session, and their tool calls. */
export interface CopyCount {
  readonly source: string
  readonly messages: number
  readonly calls: number
}

/** A database, and the parts that each database implements itself. */
export interface MaintenancePlace extends Pick<SqlPlace, "made" | "read" | "sql" | "write"> {
  /** Tests whether a process uses one of the sessions. */
  readonly isInUse: (ids: ReadonlyArray<string>) => Effect.Effect<boolean, SqlError>
}

/** A database with the parts of its statistics. */
export interface StatsPlace extends MaintenancePlace {
  readonly store: Store
  /** Counts messages that a session begins with, for which entries of the record refer to the originals. */
  readonly countCopies: Effect.Effect<ReadonlyArray<CopyCount>, SqlError>
  /** Size of the database and of its unused part, in bytes. */
  readonly readSizes: Effect.Effect<{ readonly file: number; readonly free: number }, SqlError>
}

/**
 * Selects the sessions below the root of each conversation, or below one root. `UNION` ends cycles in the parents of a
 * damaged database.
 */
const selectFamilies = (sql: SqlClient, root: string | undefined) => sql`
  WITH RECURSIVE family (root, id) AS (
    SELECT id, id FROM sessions
    WHERE ${
      root === undefined
        ? sql`parent_session_id IS NULL OR parent_session_id NOT IN (SELECT id FROM sessions)`
        : sql`id = ${root}`
    }
    UNION
    SELECT family.root, sessions.id FROM family JOIN sessions ON sessions.parent_session_id = family.id
  )`

/** Removes a session with its sub-agents. Returns their number, 0 if it is unknown, or `undefined` if one is in use. */
const removeFamily = Effect.fnUntraced(function* (
  { isInUse, sql }: Pick<MaintenancePlace, "isInUse" | "sql">,
  root: string
) {
  const members = yield* sql<{ readonly id: string }>`${selectFamilies(sql, root)} SELECT id FROM family`
  const ids = members.map(({ id }) => id)
  if (ids.length === 0) return 0
  if (yield* isInUse(ids)) return undefined
  // Messages are deleted before their session, so that triggers update the full-text index for each message.
  yield* sql`DELETE FROM messages WHERE session_id IN ${sql.in(ids)}`
  yield* sql`DELETE FROM sessions WHERE id IN ${sql.in(ids)}`
  return ids.length
})

interface Sums {
  readonly oldest: number | null
  readonly newest: number | null
  readonly records: number
  readonly record_bytes: number
  readonly message_bytes: number
  readonly prompt_bytes: number
}

const readStats = Effect.fnUntraced(function* ({ countCopies, readSizes, sql }: StatsPlace) {
  const stored = yield* sql<SourceCount & { readonly all_sessions: number }>`
    SELECT source, count(*) AS all_sessions,
      count(*) FILTER (WHERE s.continues_session_id IS NULL OR NOT EXISTS
        (SELECT 1 FROM sessions b WHERE b.id = s.continues_session_id)) AS sessions,
      CAST(sum(message_count) AS DOUBLE PRECISION) AS messages,
      CAST(sum(tool_call_count) AS DOUBLE PRECISION) AS "toolCalls"
    FROM sessions s GROUP BY source ORDER BY sessions DESC, source`
  const repeated = new Map((yield* countCopies).map((one) => [one.source, one]))
  const [sums] = yield* sql<Sums>`
    SELECT (SELECT min(started_at) FROM sessions) AS oldest, (SELECT max(updated_at) FROM sessions) AS newest,
      (SELECT count(*) FROM run_record) AS records,
      (SELECT CAST(coalesce(sum(octet_length(body)), 0) AS DOUBLE PRECISION) FROM run_record) AS record_bytes,
      (SELECT CAST(coalesce(sum(octet_length(envelope)), 0) AS DOUBLE PRECISION) FROM messages) AS message_bytes,
      (SELECT CAST(coalesce(sum(octet_length(system_prompt)), 0) AS DOUBLE PRECISION) FROM sessions) AS prompt_bytes`
  const { file, free } = yield* readSizes
  const sources = stored.map(({ messages, sessions, source, toolCalls }) => ({
    source,
    sessions,
    messages: messages - (repeated.get(source)?.messages ?? 0),
    toolCalls: toolCalls - (repeated.get(source)?.calls ?? 0)
  }))
  const sumCounts = (count: (one: SourceCount) => number): number => sources.reduce((sum, one) => sum + count(one), 0)
  const sessions = sumCounts((one) => one.sessions)
  return {
    sessions,
    continuations: stored.reduce((sum, one) => sum + one.all_sessions, 0) - sessions,
    messages: sumCounts(({ messages }) => messages),
    toolCalls: sumCounts(({ toolCalls }) => toolCalls),
    recordEntries: sums?.records ?? 0,
    sources,
    oldestAt: sums?.oldest ?? undefined,
    newestAt: sums?.newest ?? undefined,
    fileBytes: file,
    freeBytes: free,
    messageBytes: sums?.message_bytes ?? 0,
    recordBytes: sums?.record_bytes ?? 0,
    promptBytes: sums?.prompt_bytes ?? 0
  }
})

/** Creates the maintenance service of a database, without the release of free space. */
export const makeMaintenance = (place: StatsPlace): Omit<Maintenance, "optimize"> => {
  const { read, sql, store, write } = place
  return {
    stats: read("stats", readStats(place)),
    remove: Effect.fnUntraced(function* (id: SessionId) {
      const count = yield* write("remove", removeFamily(place, id))
      if (count === 0) return yield* StoreFailure.makeUnknownSessionError("remove", id)
      return count ?? (yield* new SessionBusy({ sessionId: id }))
    }),
    add: (session, messages) =>
      write(
        "import",
        Effect.gen(function* () {
          const { cost, endReason, endedAt, id, model, provider, startedAt, usage } = session
          yield* store.create(session)
          if (messages.length > 0) yield* store.append(id, messages)
          if (usage.requestCount > 0) yield* store.recordUsage(id, { provider, model, usage, cost })
          yield* sql`
            UPDATE sessions SET started_at = ${startedAt}, updated_at = ${Math.max(startedAt, endedAt ?? startedAt)},
              ended_at = ${endedAt ?? null}, end_reason = ${endReason ?? null} WHERE id = ${id}`
          yield* sql`UPDATE messages SET created_at = ${startedAt} WHERE session_id = ${id}`
        })
      )
  }
}

/** Creates the removal of old sessions of a database. */
export const makeRetention = (place: MaintenancePlace): Pick<Retention, "expired" | "prune"> => {
  const { made, read, sql, write } = place
  const selectRoot = (column: "source" | "tenant", value: string | undefined) =>
    value === undefined
      ? sql``
      : sql`AND count(*) FILTER (WHERE family.id = family.root AND ${sql.literal(column)} = ${value}) = 1`
  /**
   * Selects the roots of conversations that have ended, are old and do not wait for an answer. A sub-agent whose end is
   * missing because its process was killed does not count as active.
   */
  const selectOldRoots = ({ before, source, tenant }: Limit, root?: string) =>
    sql<{ readonly root: string }>`
      ${selectFamilies(sql, root)}
      SELECT family.root FROM family JOIN sessions ON sessions.id = family.id
      GROUP BY family.root
      HAVING max(updated_at) < ${before} AND coalesce(max(ended_at), 0) < ${before}
        AND count(*) FILTER (WHERE ended_at IS NULL
          AND (family.id = family.root OR source NOT IN ${sql.in(hiddenSources)})) = 0
        AND max(CASE WHEN EXISTS (
          SELECT 1 FROM questions WHERE session_id = family.id AND state IN ('open', 'answered')) THEN 1 ELSE 0 END) = 0
        ${selectRoot("source", source)} ${selectRoot("tenant", tenant)}`
  return {
    expired: (limit) =>
      read(
        "prune",
        Effect.flatMap(selectOldRoots(limit), (roots) =>
          roots.length === 0
            ? Effect.succeed([])
            : sql<SqlRows.SessionRow>`SELECT * FROM sessions WHERE id IN ${sql.in(roots.map(({ root }) => root))}
                ORDER BY updated_at, ${sql.literal(made)}`
        )
      ).pipe(Effect.map((rows) => rows.map(SqlRows.toSession))),
    prune: Effect.fnUntraced(function* (limit) {
      const pruned: { -readonly [K in keyof PruneResult]: PruneResult[K] } = { removed: 0, kept: 0 }
      for (const { root } of yield* read("prune", selectOldRoots(limit))) {
        // Removed only if it is still old and not in use.
        const count = yield* write(
          "prune",
          Effect.flatMap(selectOldRoots(limit, root), (still) =>
            still.length === 0 ? Effect.undefined : removeFamily(place, root)
          )
        )
        pruned[count === undefined || count === 0 ? "kept" : "removed"]++
        // Lets other fibers of this program write.
        yield* Effect.yieldNow
      }
      return pruned
    })
  }
}
