/**
 * Maintenance and retention of sessions in a Postgres database.
 *
 * **Details**
 *
 * Old conversations are removed only on request: several machines share the database, so no program removes sessions by
 * itself when it starts. Sizes cover the whole database.
 */
import * as Effect from "effect/Effect"
import { SessionBusy } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import type * as PostgresClient from "../../base/platform/PostgresClient.ts"
import * as PostgresLeases from "../../base/platform/PostgresLeases.ts"
import { hiddenSources } from "../SessionSearch.ts"
import type { Service as Maintenance, SourceCount } from "../SessionMaintenance.ts"
import type { Limit, PruneResult, Service as Retention } from "../SessionRetention.ts"
import type { Service as Store } from "../SessionStorePort.ts"
import type * as SqlRows from "../sql/SqlRows.ts"
import { toSession } from "../sql/SqlRows.ts"
import type * as SqlStore from "../sql/SqlStore.ts"
import * as StoreFailure from "../StoreFailure.ts"

/** Parts of an open database that maintenance uses. */
interface Place {
  readonly sql: PostgresClient.Client
  readonly read: SqlStore.Run
  readonly write: SqlStore.Run
  readonly store: Store
}

/** Selects the sessions below the root of each conversation, or below one root. */
const selectFamilies = (sql: PostgresClient.Client, root: string | undefined) => sql`
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
const removeFamily = Effect.fnUntraced(function* (sql: PostgresClient.Client, root: string) {
  const members = yield* sql<{ readonly id: string }>`${selectFamilies(sql, root)} SELECT id FROM family`
  const ids = members.map(({ id }) => id)
  if (ids.length === 0) return 0
  const held = new Set(yield* PostgresLeases.listHeldSessions(sql))
  if (ids.some((id) => held.has(id))) return undefined
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
  readonly file_bytes: number
}

const readDatabaseSize = (sql: PostgresClient.Client) =>
  Effect.map(
    sql<{ readonly bytes: number }>`SELECT CAST(pg_database_size(current_database()) AS DOUBLE PRECISION) AS bytes`,
    ([row]) => row?.bytes ?? 0
  )

const readStats = Effect.fnUntraced(function* (sql: PostgresClient.Client) {
  const stored = yield* sql<SourceCount & { readonly all_sessions: number }>`
    SELECT source, CAST(count(*) AS INTEGER) AS all_sessions,
      CAST(count(*) FILTER (WHERE s.continues_session_id IS NULL OR NOT EXISTS
        (SELECT 1 FROM sessions b WHERE b.id = s.continues_session_id)) AS INTEGER) AS sessions,
      CAST(sum(message_count) AS DOUBLE PRECISION) AS messages,
      CAST(sum(tool_call_count) AS DOUBLE PRECISION) AS "toolCalls"
    FROM sessions s GROUP BY source ORDER BY sessions DESC, source`
  // For a session that begins with messages of another session, record entries refer to the originals.
  const copied = yield* sql<{ readonly source: string; readonly messages: number; readonly calls: number }>`
    WITH copies AS (
      SELECT DISTINCT s.source, m.session_id, m.position, m.role, m.envelope
      FROM sessions s JOIN run_record r ON r.session_id = s.id
      JOIN messages m ON m.session_id = s.id AND m.position = r.position
      WHERE s.id IN (SELECT session_id FROM run_record WHERE kind = 'ReplayBegun') AND r.kind = 'MessageAppended'
        AND (CAST(r.body AS json) #>> '{copyOf,sessionId}') IN (SELECT id FROM sessions)
    )
    SELECT source, CAST(count(*) AS INTEGER) AS messages,
      CAST(coalesce(sum(CASE WHEN role = 'assistant' THEN (SELECT count(*)
        FROM json_array_elements(CAST(envelope AS json) #> '{message,content}') p
        WHERE (p ->> 'type') = 'tool-call' AND coalesce(p ->> 'providerExecuted', 'false') <> 'true')
      ELSE 0 END), 0) AS INTEGER) AS calls
    FROM copies GROUP BY source`
  const [sums] = yield* sql<Sums>`
    SELECT (SELECT CAST(min(started_at) AS DOUBLE PRECISION) FROM sessions) AS oldest,
      (SELECT CAST(max(updated_at) AS DOUBLE PRECISION) FROM sessions) AS newest,
      (SELECT CAST(count(*) AS DOUBLE PRECISION) FROM run_record) AS records,
      (SELECT CAST(coalesce(sum(octet_length(body)), 0) AS DOUBLE PRECISION) FROM run_record) AS record_bytes,
      (SELECT CAST(coalesce(sum(octet_length(envelope)), 0) AS DOUBLE PRECISION) FROM messages) AS message_bytes,
      (SELECT CAST(coalesce(sum(octet_length(system_prompt)), 0) AS DOUBLE PRECISION) FROM sessions) AS prompt_bytes,
      CAST(pg_database_size(current_database()) AS DOUBLE PRECISION) AS file_bytes`
  const repeated = new Map(copied.map((one) => [one.source, one]))
  const sources = stored.map(({ messages, sessions, source, toolCalls }) => ({
    source,
    sessions,
    messages: messages - (repeated.get(source)?.messages ?? 0),
    toolCalls: toolCalls - (repeated.get(source)?.calls ?? 0)
  }))
  const sessions = sources.reduce((sum, one) => sum + one.sessions, 0)
  return {
    sessions,
    continuations: stored.reduce((sum, one) => sum + one.all_sessions, 0) - sessions,
    messages: sources.reduce((sum, one) => sum + one.messages, 0),
    toolCalls: sources.reduce((sum, one) => sum + one.toolCalls, 0),
    recordEntries: sums?.records ?? 0,
    sources,
    oldestAt: sums?.oldest ?? undefined,
    newestAt: sums?.newest ?? undefined,
    fileBytes: sums?.file_bytes ?? 0,
    freeBytes: 0,
    messageBytes: sums?.message_bytes ?? 0,
    recordBytes: sums?.record_bytes ?? 0,
    promptBytes: sums?.prompt_bytes ?? 0
  }
})

/** Creates the maintenance service of an open database and its store. */
export const makeMaintenance = ({ read, sql, store, write }: Place): Maintenance => ({
  stats: read("stats", readStats(sql)),
  remove: Effect.fnUntraced(function* (id: SessionId) {
    const count = yield* write("remove", removeFamily(sql, id))
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
    ),
  optimize: read(
    "optimize",
    Effect.gen(function* () {
      const before = yield* readDatabaseSize(sql)
      yield* sql.unsafe("VACUUM (ANALYZE) sessions, messages, run_record")
      return { before, after: yield* readDatabaseSize(sql) }
    })
  )
})

/** Creates the retention service of an open database. */
export const makeRetention = ({ read, sql, write }: Place): Retention => {
  const selectSource = (source: string | undefined) =>
    source === undefined ? sql`` : sql`AND count(*) FILTER (WHERE family.id = family.root AND source = ${source}) = 1`
  const selectTenant = (tenant: string | undefined) =>
    tenant === undefined ? sql`` : sql`AND count(*) FILTER (WHERE family.id = family.root AND tenant = ${tenant}) = 1`
  const selectOldRoots = ({ before, source, tenant }: Limit, root?: string) =>
    sql<{ readonly root: string }>`
      ${selectFamilies(sql, root)}
      SELECT family.root FROM family JOIN sessions ON sessions.id = family.id
      GROUP BY family.root
      HAVING max(greatest(updated_at, coalesce(ended_at, 0))) < ${before}
        AND count(*) FILTER (WHERE ended_at IS NULL
          AND (family.id = family.root OR source NOT IN ${sql.in(hiddenSources)})) = 0
        AND NOT bool_or(EXISTS (
          SELECT 1 FROM questions WHERE session_id = family.id AND state IN ('open', 'answered')))
        ${selectSource(source)} ${selectTenant(tenant)}`
  return {
    expired: (limit) =>
      read(
        "prune",
        Effect.flatMap(selectOldRoots(limit), (roots) =>
          roots.length === 0
            ? Effect.succeed([])
            : sql<SqlRows.SessionRow>`SELECT * FROM sessions WHERE id IN ${sql.in(roots.map(({ root }) => root))}
                ORDER BY updated_at, id`
        )
      ).pipe(Effect.map((rows) => rows.map(toSession))),
    prune: Effect.fnUntraced(function* (limit) {
      const pruned: { -readonly [K in keyof PruneResult]: PruneResult[K] } = { removed: 0, kept: 0 }
      for (const { root } of yield* read("prune", selectOldRoots(limit))) {
        const count = yield* write(
          "prune",
          Effect.flatMap(selectOldRoots(limit, root), (still) =>
            still.length === 0 ? Effect.undefined : removeFamily(sql, root)
          )
        )
        pruned[count === undefined || count === 0 ? "kept" : "removed"]++
      }
      return pruned
    }),
    // The server reuses free space by itself.
    compact: Effect.void,
    // Programs that share a database remove nothing by themselves.
    whenDue: () => Effect.undefined,
    hold: () => Effect.void
  }
}
