/**
 * The session store and the run record in an open SQLite database.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Arr from "effect/Array"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { SqlClient } from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Leases from "../../base/platform/Leases.ts"
import * as SqliteClient from "../../base/platform/SqliteClient.ts"
import { type Period, promptLength, type Service as SessionActivity, type SpokenCounts } from "../SessionActivity.ts"
import type { Backend } from "../SessionBackend.ts"
import type * as SessionStore from "../SessionStorePort.ts"
import * as SqlBackup from "../sql/SqlBackup.ts"
import * as SqlInbox from "../sql/SqlInbox.ts"
import * as SqlRecord from "../sql/SqlRecord.ts"
import * as SqlStore from "../sql/SqlStore.ts"
import * as MessageText from "../MessageText.ts"
import * as BegunCalls from "./BegunCalls.ts"
import * as Database from "./Database.ts"
import * as RecordParts from "./RecordParts.ts"
import * as SessionWrites from "./SessionWrites.ts"
import * as SqliteMaintenance from "./SqliteMaintenance.ts"
import * as SqliteRetention from "./SqliteRetention.ts"
import * as SqliteSearch from "./SqliteSearch.ts"

/** SQLite stores every string byte for byte. */
const exact: SqlStore.SqlPlace["exact"] = { encode: (text) => text, decode: (text) => text }

const makeLeases = ({ sql, write }: Database.Database): Leases.Service<SessionStoreError> =>
  Leases.make<SessionStoreError>(sql, (effect) => write("acquire", effect))

/**
 * Creates the leases of sessions. The run that holds one counts as a writer of the database, and its writes remember
 * the session.
 */
const makeSessionLeases = (
  database: Database.Database,
  { holdSession }: SessionWrites.SessionWrites
): Leases.Service<SessionStoreError> => {
  const leases = makeLeases(database)
  return {
    ...leases,
    take: (name) =>
      database.sql.writer.pipe(
        Effect.andThen(leases.take(name)),
        Effect.tap(() => holdSession(name))
      )
  }
}

/** Creates the session store in an open database. */
export const make = (
  database: Database.Database,
  writes: SessionWrites.SessionWrites = SessionWrites.makeWrites(database)
): SessionStore.Service => {
  const { committed, read, sql, write } = database
  return SqlStore.make({
    sql,
    read,
    write,
    leases: makeSessionLeases(database, writes),
    made: "rowid",
    exact,
    append: writes.append,
    begin: writes.begin,
    begunCalls: BegunCalls.makeBegunCalls(sql),
    committed,
    addUsage: writes.addUsage
  })
}

/** Interval at which messages to a session are looked for, while one waits for them. */
const inboxPoll = "500 millis"
/** Current time of the machine, in epoch milliseconds. */
const clock = "CAST(unixepoch('subsec') * 1000 AS INTEGER)"

interface SessionCounts {
  readonly messages: number
  readonly users: number
}

/** Number of entries whose messages are counted with one statement. */
const countedAtOnce = 16_384

/** Counts the messages of a period, by session. Lets other fibers run between two statements. */
const countSpoken = Effect.fnUntraced(function* (sql: SqlClient, { since, until }: Period) {
  const [newest] = yield* sql<{ readonly id: number | null }>`SELECT max(id) AS id FROM run_record`
  const counts = new Map<string, SessionCounts>()
  for (let after = 0; after < (newest?.id ?? 0); after += countedAtOnce) {
    const rows = yield* sql<SessionCounts & { readonly id: string }>`
      SELECT session_id AS id, count(*) AS messages, sum(body ->> '$.origin' = 'user') AS users FROM run_record
      WHERE id > ${after} AND id <= ${after + countedAtOnce} AND kind = 'MessageAppended'
        AND at >= ${since} AND at < ${until} AND json_valid(body)
        AND body ->> '$.copyOf' IS NULL AND position IS NOT NULL
      GROUP BY session_id`
    for (const { id, messages, users } of rows) {
      const known = counts.get(id) ?? { messages: 0, users: 0 }
      counts.set(id, { messages: known.messages + messages, users: known.users + users })
    }
    yield* Effect.yieldNow
  }
  return counts
})

const makeActivity = ({ read, sql }: Database.Database, { sequence, since }: SqlRecord.SqlRecord): SessionActivity => ({
  version: Effect.map(
    read("version", sql<{ readonly data_version: number }>`PRAGMA data_version`),
    ([row]) => row?.data_version ?? 0
  ),
  sequence,
  since,
  running: read(
    "running",
    Effect.map(Leases.listHeldSessions(sql), (ids) => new Set(ids))
  ),
  spoken: ({ since, until }) =>
    read(
      "spoken",
      Effect.gen(function* () {
        const counts = yield* countSpoken(sql, { since, until })
        const chosen = yield* sql<{ readonly id: string; readonly at: number; readonly text: string }>`
        SELECT session_id AS id, created_at AS at, substr(content, 1, ${promptLength}) AS text FROM messages
        WHERE role = 'user' AND created_at >= ${since} AND created_at < ${until} AND substr(content, 1, 6) = '<skill'
          AND NOT EXISTS (SELECT 1 FROM ${RecordParts.joinParts(sql, sql`messages.session_id`, 0)}
            WHERE run_record.position = messages.position AND json_valid(run_record.body)
              AND run_record.body ->> '$.copyOf' IS NOT NULL)`
        const skills = Map.groupBy(
          chosen.flatMap(({ at, id, text }) => {
            const name = MessageText.findChosenSkill(text)
            return name === undefined ? [] : [{ id, at, name }]
          }),
          ({ id }) => id
        )
        return new Map(
          Array.from(counts, ([id, { messages, users }]): [string, SpokenCounts] => [
            id,
            { messages, userMessages: users, skills: skills.get(id) ?? [] }
          ])
        )
      })
    ),
  prompts: (ids) =>
    Effect.map(
      Effect.forEach(Arr.chunksOf(ids, SqlRecord.insertSize), (some) =>
        read(
          "prompts",
          sql<{ readonly id: string; readonly text: string | null }>`
          SELECT id, (SELECT substr(content, 1, ${promptLength}) FROM messages
            WHERE session_id = sessions.id AND role = 'user' ORDER BY position LIMIT 1) AS text
          FROM sessions WHERE id IN ${sql.in(some)}`
        )
      ),
      (rows) => new Map(rows.flat().flatMap(({ id, text }) => (text === null ? [] : [[id, text] as const])))
    )
})

/** Creates the backup service of the open database at `path`. */
const makeBackup = (path: string, { read, sql }: Database.Database) =>
  SqlBackup.make({
    sql,
    read,
    made: "rowid",
    exact,
    // A second connection, so that this process also continues to write.
    inSnapshot: (use) =>
      Effect.scoped(
        Effect.gen(function* () {
          const reader = yield* SqliteClient.openForReading(path)
          yield* reader.unsafe("BEGIN").unprepared
          return yield* use(reader)
        })
      ),
    inTransaction: (effect) => SqliteClient.retryWhileLocked(sql.transaction(effect)),
    listHeld: Leases.listHeldSessions(sql),
    addMessages: (rows) => SqlBackup.insertRows(sql, "messages", rows),
    readBegun: BegunCalls.readAllCalls,
    completeTables: RecordParts.listAllParts(sql),
    toStoreError: (operation) => Database.toStoreError(path, operation)
  })

/** Opens the store, the search and the run record in a database file. The file is closed with the scope. */
export const open = (path: string, readOnly = false, commitsWithin?: Duration.Input) =>
  Effect.flatMap(
    readOnly ? Database.openForReading(path) : Database.open(path, undefined, commitsWithin),
    Effect.fnUntraced(function* (database): Effect.fn.Return<Backend, never, Scope.Scope> {
      const writes = SessionWrites.makeWrites(database)
      const record = SqlRecord.make({
        ...database,
        afterwards: database.sql.afterTransaction,
        keep: writes.keep,
        ofSession: (sessionId, after) => ({
          from: RecordParts.joinParts(database.sql, database.sql`${sessionId}`, after),
          order: database.sql.literal(RecordParts.order)
        })
      })
      const store = make(database, writes)
      return {
        record,
        backup: makeBackup(path, database),
        retention: SqliteRetention.make(database),
        store,
        search: SqliteSearch.make(database),
        activity: makeActivity(database, record),
        inbox: SqlInbox.makeInbox({
          ...database,
          notify: Effect.void,
          changes: Stream.tick(inboxPoll),
          leases: makeLeases(database),
          scope: yield* Effect.scope,
          clock
        }),
        maintenance: SqliteMaintenance.make(database, store),
        together: database.together
      }
    })
  )
