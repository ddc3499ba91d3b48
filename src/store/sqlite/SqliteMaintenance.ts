/** Maintenance of an open session database. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { SessionBusy } from "../../base/domain/AgentError.ts"
import * as Leases from "../../base/platform/Leases.ts"
import type { Service, SourceCount } from "../SessionMaintenance.ts"
import type { Service as SessionStore } from "../SessionStorePort.ts"
import * as StoreFailure from "../StoreFailure.ts"
import type * as Database from "./Database.ts"
import * as MessageIndex from "./MessageIndex.ts"
import * as SignIndex from "./SignIndex.ts"
import { selectFamilies, formatOpenName } from "./SqliteRetention.ts"

interface Sums {
  readonly oldest: number | null
  readonly newest: number | null
  readonly records: number
  readonly record_bytes: number
  readonly message_bytes: number
  readonly prompt_bytes: number
}

interface Pages {
  readonly size: number
  readonly total: number
  readonly free: number
}

/** Creates the maintenance service of an open database and its store. */
export const make = (database: Database.Database, store: SessionStore): Service => {
  const { read, sql, write } = database
  const pages = Effect.map(
    sql<Pages>`SELECT page_size AS size, page_count AS total, freelist_count AS free
      FROM pragma_page_size, pragma_page_count, pragma_freelist_count`,
    ([row]) => row ?? { size: 0, total: 0, free: 0 }
  )

  return {
    stats: read(
      "stats",
      Effect.gen(function* () {
        const stored = yield* sql<SourceCount & { readonly all_sessions: number }>`
        SELECT source, count(*) AS all_sessions, sum(s.continues_session_id IS NULL OR NOT EXISTS
            (SELECT 1 FROM sessions b WHERE b.id = s.continues_session_id)) AS sessions,
          sum(message_count) AS messages, sum(tool_call_count) AS toolCalls
        FROM sessions s GROUP BY source ORDER BY sessions DESC, source`
        // For a session that begins with messages of another session, record entries refer to the originals.
        const copied = yield* sql<{ readonly source: string; readonly messages: number; readonly toolCalls: number }>`
        WITH copies AS (
          SELECT DISTINCT s.source, m.id, m.role, m.envelope
          FROM sessions s CROSS JOIN run_record r ON r.session_id = s.id
          CROSS JOIN messages m ON m.session_id = s.id AND m.position = r.position
          WHERE s.id IN (SELECT session_id FROM run_record WHERE kind = 'ReplayBegun') AND r.kind = 'MessageAppended'
            AND json_valid(r.body) AND (r.body ->> '$.copyOf.sessionId') IN (SELECT id FROM sessions)
        )
        SELECT source, count(*) AS messages,
          sum(CASE WHEN role = 'assistant' AND json_valid(envelope) THEN (SELECT count(*)
            FROM json_each(envelope, '$.message.content') p
            WHERE p.type = 'object' AND (p.value ->> '$.type') = 'tool-call'
              AND NOT coalesce(p.value ->> '$.providerExecuted', 0))
          ELSE 0 END) AS toolCalls
        FROM copies GROUP BY source`
        const repeated = new Map(copied.map((one) => [one.source, one]))
        const [sums] = yield* sql<Sums>`
        SELECT (SELECT min(started_at) FROM sessions) AS oldest, (SELECT max(updated_at) FROM sessions) AS newest,
          (SELECT count(*) FROM run_record) AS records,
          (SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM run_record) AS record_bytes,
          (SELECT coalesce(sum(length(CAST(envelope AS BLOB))), 0) FROM messages) AS message_bytes,
          (SELECT coalesce(sum(length(CAST(system_prompt AS BLOB))), 0) FROM sessions) AS prompt_bytes`
        const { free, size, total } = yield* pages
        const sources = stored.map((one) => ({
          ...one,
          messages: one.messages - (repeated.get(one.source)?.messages ?? 0),
          toolCalls: one.toolCalls - (repeated.get(one.source)?.toolCalls ?? 0)
        }))
        const sumCounts = (count: (one: (typeof sources)[number]) => number): number =>
          sources.reduce((sum, one) => sum + count(one), 0)
        const sessions = sumCounts((one) => one.sessions)
        return {
          sessions,
          continuations: sumCounts((one) => one.all_sessions) - sessions,
          messages: sumCounts(({ messages }) => messages),
          toolCalls: sumCounts(({ toolCalls }) => toolCalls),
          recordEntries: sums?.records ?? 0,
          sources: sources.map(({ all_sessions: _, ...one }) => one),
          oldestAt: sums?.oldest ?? undefined,
          newestAt: sums?.newest ?? undefined,
          fileBytes: size * total,
          freeBytes: size * free,
          messageBytes: sums?.message_bytes ?? 0,
          recordBytes: sums?.record_bytes ?? 0,
          promptBytes: sums?.prompt_bytes ?? 0
        }
      })
    ),

    remove: (id) =>
      Effect.flatMap(
        write(
          "remove",
          Effect.gen(function* () {
            const members = yield* sql<{ readonly id: string }>`${selectFamilies(sql, id)} SELECT id FROM family`
            const ids = members.map((member) => member.id)
            if (ids.length === 0) return yield* StoreFailure.makeUnknownSessionError("remove", id)
            const now = yield* Clock.currentTimeMillis
            if (
              yield* Leases.isAnyHeld(
                sql,
                ids.flatMap((one) => [Leases.toSessionName(one), formatOpenName(one)]),
                now
              )
            )
              return undefined
            // Messages are deleted before their session, so that triggers update the full-text index for each message.
            yield* sql`DELETE FROM messages WHERE session_id IN ${sql.in(ids)}`
            yield* sql`DELETE FROM sessions WHERE id IN ${sql.in(ids)}`
            return ids.length
          })
        ),
        (count) => (count === undefined ? Effect.fail(new SessionBusy({ sessionId: id })) : Effect.succeed(count))
      ),

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
        for (const index of [MessageIndex.makeWordIndex(database), SignIndex.make(database)])
          yield* index.fill(Number.MAX_SAFE_INTEGER)
        const before = yield* pages
        for (const index of ["messages_fts", "signs_fts"])
          yield* sql.unsafe(`INSERT INTO ${index} (${index}) VALUES ('optimize')`).unprepared
        yield* sql.unsafe("PRAGMA optimize").unprepared
        yield* sql.unsafe("VACUUM").unprepared
        yield* sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)").unprepared
        const after = yield* pages
        return { before: before.size * before.total, after: after.size * after.total }
      })
    )
  }
}
