/**
 * Maintenance and retention of sessions in a Postgres database.
 *
 * **Details**
 *
 * Old conversations are removed only on request: several machines share the database, so no program removes sessions by
 * itself when it starts. Sizes cover the whole database.
 */
import * as Effect from "effect/Effect"
import type * as PostgresClient from "../../base/platform/PostgresClient.ts"
import * as PostgresLeases from "../../base/platform/PostgresLeases.ts"
import type { Service as Maintenance } from "../SessionMaintenance.ts"
import type { Service as Retention } from "../SessionRetention.ts"
import type { Service as Store } from "../SessionStorePort.ts"
import * as SqlMaintenance from "../sql/SqlMaintenance.ts"
import type * as SqlStore from "../sql/SqlStore.ts"

/** Parts of an open database that maintenance uses. */
interface Place {
  readonly sql: PostgresClient.Client
  readonly read: SqlStore.Run
  readonly write: SqlStore.Run
  readonly store: Store
}

const readDatabaseSize = (sql: PostgresClient.Client) =>
  Effect.map(
    sql<{ readonly bytes: number }>`SELECT CAST(pg_database_size(current_database()) AS DOUBLE PRECISION) AS bytes`,
    ([row]) => row?.bytes ?? 0
  )

const countCopies = (sql: PostgresClient.Client) => sql<SqlMaintenance.CopyCount>`
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

const makePlace = ({ read, sql, write }: Place): SqlMaintenance.MaintenancePlace => ({
  sql,
  read,
  write,
  made: "made",
  isInUse: (ids) =>
    Effect.map(PostgresLeases.listHeldSessions(sql), (held) => {
      const names = new Set(held)
      return ids.some((id) => names.has(id))
    })
})

/** Creates the maintenance service of an open database and its store. */
export const makeMaintenance = (place: Place): Maintenance => {
  const { read, sql, store } = place
  return {
    ...SqlMaintenance.makeMaintenance({
      ...makePlace(place),
      store,
      countCopies: countCopies(sql),
      readSizes: Effect.map(readDatabaseSize(sql), (file) => ({ file, free: 0 }))
    }),
    optimize: read(
      "optimize",
      Effect.gen(function* () {
        const before = yield* readDatabaseSize(sql)
        yield* sql.unsafe("VACUUM (ANALYZE) sessions, messages, run_record")
        return { before, after: yield* readDatabaseSize(sql) }
      })
    )
  }
}

/** Creates the retention service of an open database. */
export const makeRetention = (place: Place): Retention => ({
  ...SqlMaintenance.makeRetention(makePlace(place)),
  // The server reuses free space by itself.
  compact: Effect.void,
  // Programs that share a database remove nothing by themselves.
  whenDue: () => Effect.undefined,
  hold: () => Effect.void
})
