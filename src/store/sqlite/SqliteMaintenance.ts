/** Maintenance of an open session database. */
import * as Effect from "effect/Effect"
import type { Service } from "../SessionMaintenance.ts"
import type { Service as SessionStore } from "../SessionStorePort.ts"
import * as SqlMaintenance from "../sql/SqlMaintenance.ts"
import type * as Database from "./Database.ts"
import * as MessageIndex from "./MessageIndex.ts"
import * as RecordParts from "./RecordParts.ts"
import * as SignIndex from "./SignIndex.ts"
import * as SqliteRetention from "./SqliteRetention.ts"

interface Pages {
  readonly size: number
  readonly total: number
  readonly free: number
}

const countCopies = (sql: Database.Database["sql"]) => sql<SqlMaintenance.CopyCount>`
  WITH copies AS (
    SELECT DISTINCT s.source, m.id, m.role, m.envelope
    FROM sessions s CROSS JOIN ${RecordParts.joinParts(sql, sql`s.id`, 0)}
    CROSS JOIN messages m ON m.session_id = s.id AND m.position = run_record.position
    WHERE s.id IN (SELECT session_id FROM run_record WHERE kind = 'ReplayBegun') AND run_record.kind = 'MessageAppended'
      AND json_valid(run_record.body) AND (run_record.body ->> '$.copyOf.sessionId') IN (SELECT id FROM sessions)
  )
  SELECT source, count(*) AS messages,
    sum(CASE WHEN role = 'assistant' AND json_valid(envelope) THEN (SELECT count(*)
      FROM json_each(envelope, '$.message.content') p
      WHERE p.type = 'object' AND (p.value ->> '$.type') = 'tool-call'
        AND NOT coalesce(p.value ->> '$.providerExecuted', 0))
    ELSE 0 END) AS calls
  FROM copies GROUP BY source`

/** Creates the maintenance service of an open database and its store. */
export const make = (database: Database.Database, store: SessionStore): Service => {
  const { read, sql, write } = database
  const pages = Effect.map(
    sql<Pages>`SELECT page_size AS size, page_count AS total, freelist_count AS free
      FROM pragma_page_size, pragma_page_count, pragma_freelist_count`,
    ([row]) => row ?? { size: 0, total: 0, free: 0 }
  )

  return {
    ...SqlMaintenance.makeMaintenance({
      sql,
      read,
      write,
      store,
      made: "rowid",
      isInUse: SqliteRetention.isInUse(sql),
      countCopies: countCopies(sql),
      readSizes: Effect.map(pages, ({ free, size, total }) => ({ file: size * total, free: size * free }))
    }),

    optimize: read(
      "optimize",
      Effect.gen(function* () {
        for (const index of [MessageIndex.makeWordIndex(database), SignIndex.make(database)])
          yield* index.fill(Number.MAX_SAFE_INTEGER)
        yield* RecordParts.listAllParts(sql)
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
