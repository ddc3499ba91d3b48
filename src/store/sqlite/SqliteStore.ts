/**
 * The session store and the run record in an open SQLite database.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Arr from "effect/Array"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Leases from "../../base/platform/Leases.ts"
import * as SqliteClient from "../../base/platform/SqliteClient.ts"
import { promptLength, type Service as SessionActivity, type SpokenCounts } from "../SessionActivity.ts"
import type { Backend } from "../SessionBackend.ts"
import type * as SessionStore from "../SessionStorePort.ts"
import * as SqlBackup from "../sql/SqlBackup.ts"
import * as SqlInbox from "../sql/SqlInbox.ts"
import * as SqlRecord from "../sql/SqlRecord.ts"
import * as SqlRows from "../sql/SqlRows.ts"
import * as SqlStore from "../sql/SqlStore.ts"
import * as MessageText from "../MessageText.ts"
import * as Database from "./Database.ts"
import * as SqliteMaintenance from "./SqliteMaintenance.ts"
import * as SqliteRetention from "./SqliteRetention.ts"
import * as SqliteSearch from "./SqliteSearch.ts"

const readRow = `SELECT message_count, EXISTS (SELECT 1 FROM begun_calls WHERE session_id = sessions.id) AS has_begun
  FROM sessions WHERE id = ?`
const appendCounts =
  "message_count = message_count + ?, tool_call_count = tool_call_count + ?, updated_at = ?, ended_at = NULL, " +
  "end_reason = NULL"
const appendMessage = `INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, envelope)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
const noteBegun = "INSERT INTO begun_calls (session_id, call_id) VALUES (?, ?) ON CONFLICT DO NOTHING"

const forgetBegun = "DELETE FROM begun_calls WHERE session_id = ? AND call_id = ?"

/** Columns of `SqlRows.UsageCounts`, in order. The values of the last two are replaced instead of added. */
const counterNames = [
  "input_tokens",
  "output_tokens",
  "cache_read_tokens",
  "cache_write_tokens",
  "reasoning_tokens",
  "api_call_count",
  "estimated_cost_usd",
  "cost_status",
  "cost_source"
]
const buildCounterUpdates = (value: (name: string) => string): string =>
  counterNames
    .map((name, index) =>
      index < counterNames.length - 2 ? `${name} = ${name} + ${value(name)}` : `${name} = ${value(name)}`
    )
    .join(", ")
const addUsage = buildCounterUpdates(() => "?")
const buildUpdate = (set: string): string => `UPDATE sessions SET ${set} WHERE id = ?`
const addModelUsage = `INSERT INTO session_model_usage (session_id, provider, model, ${counterNames.join(", ")})
  VALUES (?, ?, ?, ${counterNames.map(() => "?").join(", ")})
  ON CONFLICT (session_id, provider, model) DO UPDATE SET ${buildCounterUpdates((name) => `excluded.${name}`)}`

const rowPlaces = `(${SqlRecord.columnNames.map(() => "?").join(", ")})`
/**
 * Insert statements by number of rows. If the same statement text is used again, SQLite can reuse the prepared
 * statement.
 */
const inserts: Array<string> = []
const buildInsert = (rows: number): string =>
  (inserts[rows] ??=
    `INSERT OR IGNORE INTO run_record (${SqlRecord.columnNames.join(", ")}) VALUES ` +
    `${Array.from({ length: rows }, () => rowPlaces).join(", ")}`)

const makeKeep =
  ({ sql, write, writeDirectly }: Database.Database): SqlRecord.RecordPlace["keep"] =>
  (rows, then) => {
    const insertRows = (all: All): void => {
      for (const some of Arr.chunksOf(rows, SqlRecord.insertSize)) all(buildInsert(some.length), some.flat())
    }
    return then === undefined
      ? writeDirectly("record", insertRows)
      : write("record", Effect.andThen(sql.statements(insertRows), sql.afterTransaction(then)))
  }

type All = SqliteClient.Database["all"]

/**
 * Changes that a transaction makes to the row of a session. They are written by one statement, regardless of the number
 * of operations.
 */
interface RowChange {
  /** Number of messages in the session, including messages added by the transaction. */
  count: number
  /** False if no call of the session has begun. */
  hasBegun: boolean
  appended: readonly [messages: number, calls: number, now: number] | undefined
  counted: SqlRows.UsageCounts | undefined
}

const writeChange = (all: All, id: string, { appended, counted }: RowChange): void => {
  if (appended !== undefined && counted !== undefined)
    all(buildUpdate(`${appendCounts}, ${addUsage}`), [...appended, ...Object.values(counted), id])
  else if (appended !== undefined) all(buildUpdate(appendCounts), [...appended, id])
  else if (counted !== undefined) all(buildUpdate(addUsage), [...Object.values(counted), id])
}

/** Changes of session rows, by transaction and session id. */
const changes = new WeakMap<SqliteClient.Transaction, Map<string, RowChange>>()

/**
 * Returns the pending changes of the transaction to the row of a session, or `undefined` if the session does not exist.
 */
const findRowChange = (all: All, transaction: SqliteClient.Transaction, id: string): RowChange | undefined => {
  let known = changes.get(transaction)
  if (known === undefined) changes.set(transaction, (known = new Map()))
  const before = known.get(id)
  if (before !== undefined) return before
  const [row] = all(readRow, [id])
  if (row === undefined) return undefined
  const change: RowChange = {
    count: Number(row["message_count"]),
    hasBegun: row["has_begun"] === 1,
    appended: undefined,
    counted: undefined
  }
  known.set(id, change)
  transaction.putOff((all) => {
    writeChange(all, id, change)
    // Later operations read the row again.
    known.delete(id)
  })
  return change
}

/** SQLite stores every string byte for byte. */
const exact: SqlStore.SqlPlace["exact"] = { encode: (text) => text, decode: (text) => text }

/** Creates the leases of sessions. The run that holds one counts as a writer of the database. */
const makeSessionLeases = (database: Database.Database): Leases.Service<SessionStoreError> => {
  const leases = makeLeases(database)
  return { ...leases, take: (name) => Effect.andThen(database.sql.writer, leases.take(name)) }
}

const makeLeases = ({ sql, write }: Database.Database): Leases.Service<SessionStoreError> =>
  Leases.make<SessionStoreError>(sql, (effect) => write("acquire", effect))

/** Creates the session store in an open database. */
export const make = (database: Database.Database): SessionStore.Service => {
  const { committed, read, sql, write, writeDirectly } = database
  return SqlStore.make({
    sql,
    read,
    write,
    leases: makeSessionLeases(database),
    made: "rowid",
    exact,
    append: (id, { answered, calls, now, rows }) =>
      writeDirectly("append", (all, transaction) => {
        const change = findRowChange(all, transaction, id)
        if (change === undefined) return undefined
        const first = change.count
        rows.forEach(({ content, envelope, role, toolCalls, toolNames }, index) =>
          all(appendMessage, [id, first + index, role, now, content, toolNames, toolCalls, envelope])
        )
        if (change.hasBegun) answered.forEach((callId) => all(forgetBegun, [id, callId]))
        const [messagesBefore, callsBefore] = change.appended ?? [0, 0]
        change.appended = [messagesBefore + rows.length, callsBefore + calls, now]
        change.count = first + rows.length
        return first
      }),
    begin: (id, callIds) => {
      const noteBegunCalls: SqliteClient.Statements<boolean> = (all, transaction) => {
        const change = findRowChange(all, transaction, id)
        if (change === undefined) return false
        change.hasBegun = true
        callIds.forEach((callId) => all(noteBegun, [id, callId]))
        return true
      }
      return sql.committed === undefined
        ? writeDirectly("begin", noteBegunCalls)
        : write("begin", Effect.andThen(sql.afterTransaction(sql.committed), sql.statements(noteBegunCalls)))
    },
    committed,
    addUsage: (id, { model, provider }, counted) =>
      writeDirectly("recordUsage", (all, transaction) => {
        const change = findRowChange(all, transaction, id)
        if (change === undefined) return false
        all(addModelUsage, [id, provider, model, ...Object.values(counted)])
        change.counted = change.counted === undefined ? counted : SqlRows.sum(change.counted, counted)
        return true
      })
  })
}

/** Interval at which messages to a session are looked for, while one waits for them. */
const inboxPoll = "500 millis"
/** Current time of the machine, in epoch milliseconds. */
const clock = "CAST(unixepoch('subsec') * 1000 AS INTEGER)"

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
        const counts = yield* sql<{ readonly id: string; readonly messages: number; readonly users: number }>`
        SELECT session_id AS id, count(*) AS messages, sum(body ->> '$.origin' = 'user') AS users FROM run_record
        WHERE kind = 'MessageAppended' AND at >= ${since} AND at < ${until} AND json_valid(body)
          AND body ->> '$.copyOf' IS NULL AND position IS NOT NULL
        GROUP BY session_id`
        const chosen = yield* sql<{ readonly id: string; readonly at: number; readonly text: string }>`
        SELECT session_id AS id, created_at AS at, substr(content, 1, ${promptLength}) AS text FROM messages
        WHERE role = 'user' AND created_at >= ${since} AND created_at < ${until} AND substr(content, 1, 6) = '<skill'
          AND NOT EXISTS (SELECT 1 FROM run_record r WHERE r.session_id = messages.session_id
          AND r.position = messages.position
            AND json_valid(r.body) AND r.body ->> '$.copyOf' IS NOT NULL)`
        const skills = Map.groupBy(
          chosen.flatMap(({ at, id, text }) => {
            const name = MessageText.findChosenSkill(text)
            return name === undefined ? [] : [{ id, at, name }]
          }),
          ({ id }) => id
        )
        return new Map(
          counts.map(({ id, messages, users }): [string, SpokenCounts] => [
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
    toStoreError: (operation) => Database.toStoreError(path, operation)
  })

/** Opens the store, the search and the run record in a database file. The file is closed with the scope. */
export const open = (path: string, readOnly = false, commitsWithin?: Duration.Input) =>
  Effect.flatMap(
    readOnly ? Database.openForReading(path) : Database.open(path, undefined, commitsWithin),
    Effect.fnUntraced(function* (database): Effect.fn.Return<Backend, never, Scope.Scope> {
      const record = SqlRecord.make({
        ...database,
        afterwards: database.sql.afterTransaction,
        keep: makeKeep(database)
      })
      const store = make(database)
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
