/**
 * The session store and the run record in an open SQLite database.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Arr from "effect/Array"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
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
import * as BegunCalls from "./BegunCalls.ts"
import * as Database from "./Database.ts"
import * as RecordParts from "./RecordParts.ts"
import * as SqliteMaintenance from "./SqliteMaintenance.ts"
import * as SqliteRetention from "./SqliteRetention.ts"
import * as SqliteSearch from "./SqliteSearch.ts"

const readRow = `SELECT message_count, EXISTS (SELECT 1 FROM begun_calls WHERE session_id = sessions.id) AS has_begun
  FROM sessions WHERE id = ?`
const appendCounts =
  "message_count = message_count + ?, tool_call_count = tool_call_count + ?, updated_at = ?, ended_at = NULL, " +
  "end_reason = NULL"
const messageColumns = [
  "session_id",
  "position",
  "role",
  "created_at",
  "content",
  "tool_name",
  "tool_calls",
  "envelope",
  "begun"
]
const findSession = "SELECT 1 FROM sessions WHERE id = ?"
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
const updateCounts = buildUpdate(appendCounts)
const updateUsage = buildUpdate(addUsage)
const updateBoth = buildUpdate(`${appendCounts}, ${addUsage}`)
const addModelUsage = `INSERT INTO session_model_usage (session_id, provider, model, ${counterNames.join(", ")})
  VALUES (?, ?, ?, ${counterNames.map(() => "?").join(", ")})
  ON CONFLICT (session_id, provider, model) DO UPDATE SET ${buildCounterUpdates((name) => `excluded.${name}`)}`

/**
 * Makes the function that returns an insert statement for a number of rows. If the same text is used again, the prepared
 * statement is used again too.
 */
const makeInsert = (start: string, columns: ReadonlyArray<string>) => {
  const places = `(${columns.map(() => "?").join(", ")})`
  const statements: Array<string> = []
  return (rows: number): string =>
    (statements[rows] ??=
      `${start} (${columns.join(", ")}) VALUES ${Array.from({ length: rows }, () => places).join(", ")}`)
}
const insertEntries = makeInsert("INSERT OR IGNORE INTO run_record", SqlRecord.columnNames)
const insertMessages = makeInsert("INSERT INTO messages", messageColumns)

type All = SqliteClient.Database["all"]

/** A message that is about to be inserted. */
interface PendingMessage extends SqlRows.NewMessage {
  readonly position: number
  readonly now: number
  /** Ids of calls that start in the same transaction, as JSON. */
  begun: string | null
}

/**
 * Changes that a transaction makes to a session. They are written by one statement for the messages and one for the row
 * of the session, regardless of the number of operations.
 */
interface RowChange {
  /** Number of messages in the session, including messages added by the transaction. */
  count: number
  /** False if `begun_calls` has no call of the session. */
  hasBegun: boolean
  messages: Array<PendingMessage>
  appended: readonly [messages: number, calls: number, now: number] | undefined
  counted: SqlRows.UsageCounts | undefined
}

const writeMessages = (all: All, id: string, messages: ReadonlyArray<PendingMessage>): void => {
  for (const some of messages.length > SqlRecord.insertSize
    ? Arr.chunksOf(messages, SqlRecord.insertSize)
    : [messages]) {
    const values: Array<unknown> = []
    for (const { begun, content, envelope, now, position, role, toolCalls, toolNames } of some)
      values.push(id, position, role, now, content, toolNames, toolCalls, envelope, begun)
    all(insertMessages(some.length), values)
  }
}

const writeChange = (all: All, id: string, { appended, counted, messages }: RowChange): void => {
  if (messages.length > 0) writeMessages(all, id, messages)
  if (appended !== undefined && counted !== undefined) all(updateBoth, [...appended, ...Object.values(counted), id])
  else if (appended !== undefined) all(updateCounts, [...appended, id])
  else if (counted !== undefined) all(updateUsage, [...Object.values(counted), id])
}

/** Changes of sessions, by transaction and session id. */
const changes = new WeakMap<SqliteClient.Transaction, Map<string, RowChange>>()

/** Returns the pending changes of the transaction to a session, or `undefined` if the session does not exist. */
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
    messages: [],
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

/** Notes that calls have started: with the newest message of the transaction, if there is one. */
const noteBegunCalls = (all: All, id: string, change: RowChange, callIds: ReadonlyArray<string>): void => {
  const newest = change.messages.at(-1)
  if (newest !== undefined && newest.begun === null && callIds.length > 0) newest.begun = JSON.stringify(callIds)
  else {
    change.hasBegun = true
    for (const callId of callIds) all(noteBegun, [id, callId])
  }
}

const makeKeep =
  ({ sql, write, writeDirectly }: Database.Database): SqlRecord.RecordPlace["keep"] =>
  (rows, then) => {
    const insertRows: SqliteClient.Statements<void> = (all, transaction) => {
      for (const some of rows.length > SqlRecord.insertSize ? Arr.chunksOf(rows, SqlRecord.insertSize) : [rows]) {
        const known = changes.get(transaction)
        const ids = new Set(some.map(SqlRecord.getSessionId))
        for (const id of ids)
          if (known?.has(id) !== true && all(findSession, [id]).length === 0) throw new Error(`no session "${id}"`)
        all(insertEntries(some.length), some.flat())
        for (const id of ids) all(RecordParts.listParts, [id])
      }
    }
    return then === undefined
      ? writeDirectly("record", insertRows)
      : write("record", Effect.andThen(sql.statements(insertRows), sql.afterTransaction(then)))
  }

/** SQLite stores every string byte for byte. */
const exact: SqlStore.SqlPlace["exact"] = { encode: (text) => text, decode: (text) => text }

/** Creates the leases of sessions. The run that holds one counts as a writer of the database. */
const makeLeases = ({ sql, write }: Database.Database): Leases.Service<SessionStoreError> => {
  const leases = Leases.make<SessionStoreError>(sql, (effect) => write("acquire", effect))
  return { ...leases, take: (name) => Effect.andThen(sql.writer, leases.take(name)) }
}

/** Creates the session store in an open database. */
export const make = (database: Database.Database): SessionStore.Service => {
  const { committed, read, sql, write, writeDirectly } = database
  return SqlStore.make({
    sql,
    read,
    write,
    leases: makeLeases(database),
    made: "rowid",
    exact,
    append: (id, { answered, calls, now, rows }) =>
      writeDirectly("append", (all, transaction) => {
        const change = findRowChange(all, transaction, id)
        if (change === undefined) return undefined
        const first = change.count
        rows.forEach((row, index) => change.messages.push({ ...row, position: first + index, now, begun: null }))
        if (change.hasBegun) answered.forEach((callId) => all(forgetBegun, [id, callId]))
        const [messagesBefore, callsBefore] = change.appended ?? [0, 0]
        change.appended = [messagesBefore + rows.length, callsBefore + calls, now]
        change.count = first + rows.length
        return first
      }),
    begin: (id, callIds) => {
      const noteCalls: SqliteClient.Statements<boolean> = (all, transaction) => {
        const change = findRowChange(all, transaction, id)
        if (change === undefined) return false
        noteBegunCalls(all, id, change, callIds)
        return true
      }
      return sql.committed === undefined
        ? writeDirectly("begin", noteCalls)
        : write("begin", Effect.andThen(sql.afterTransaction(sql.committed), sql.statements(noteCalls)))
    },
    begunCalls: BegunCalls.make(sql),
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
    readBegun: BegunCalls.readAllCalls,
    completeTables: RecordParts.listAllParts(sql),
    toStoreError: (operation) => Database.toStoreError(path, operation)
  })

/** Opens the store, the search and the run record in a database file. The file is closed with the scope. */
export const open = (path: string, readOnly = false, commitsWithin?: Duration.Input) =>
  Effect.map(
    readOnly ? Database.openForReading(path) : Database.open(path, undefined, commitsWithin),
    (database): Backend => {
      const record = SqlRecord.make({
        ...database,
        afterwards: database.sql.afterTransaction,
        keep: makeKeep(database),
        ofSession: (sessionId, after) => ({
          from: RecordParts.joinParts(database.sql, database.sql`${sessionId}`, after),
          order: database.sql.literal(RecordParts.order)
        })
      })
      const store = make(database)
      return {
        record,
        backup: makeBackup(path, database),
        retention: SqliteRetention.make(database),
        store,
        search: SqliteSearch.make(database),
        activity: makeActivity(database, record),
        inbox: SqlInbox.makeInbox({ ...database, notify: Effect.void, changes: Stream.tick(inboxPoll) }),
        maintenance: SqliteMaintenance.make(database, store),
        together: database.together
      }
    }
  )
