/**
 * The session store and the run record on an open SQLite database.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Arr from "effect/Array"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { SessionStoreError } from "../../domain/AgentError.ts"
import * as Leases from "../../platform/Leases.ts"
import { promptLength, type Service as SessionActivity, type Spoken } from "../SessionActivity.ts"
import type { Backend } from "../SessionBackend.ts"
import type * as SessionStore from "../SessionStorePort.ts"
import * as SqlRecord from "../sql/SqlRecord.ts"
import * as SqlStore from "../sql/SqlStore.ts"
import * as StoredForm from "../StoredForm.ts"
import * as Database from "./Database.ts"
import * as SqliteMaintenance from "./SqliteMaintenance.ts"
import * as SqliteRetention from "./SqliteRetention.ts"
import * as SqliteSearch from "./SqliteSearch.ts"

const appendCounts = `UPDATE sessions SET
  message_count = message_count + ?, tool_call_count = tool_call_count + ?, updated_at = ?, ended_at = NULL, end_reason = NULL
  WHERE id = ? RETURNING message_count`
const appendMessage = `INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, envelope)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
const isSession = "SELECT 1 FROM sessions WHERE id = ?"

const noteBegun = "INSERT INTO begun_calls (session_id, call_id) VALUES (?, ?) ON CONFLICT DO NOTHING"

const forgetBegun = "DELETE FROM begun_calls WHERE session_id = ? AND call_id = ?"

/** Columns that `SqlRows.Counted` has values for, in their order; the last two are replaced. */
const counterNames = [
  "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "api_call_count",
  "estimated_cost_usd", "cost_status", "cost_source"
]
const countedBy = (value: (name: string) => string): string =>
  counterNames.map((name, index) => index < counterNames.length - 2 ? `${name} = ${name} + ${value(name)}` : `${name} = ${value(name)}`).join(", ")
const addUsage = `UPDATE sessions SET ${countedBy(() => "?")} WHERE id = ? RETURNING id`
const addModelUsage = `INSERT INTO session_model_usage (session_id, provider, model, ${counterNames.join(", ")})
  VALUES (?, ?, ?, ${counterNames.map(() => "?").join(", ")})
  ON CONFLICT (session_id, provider, model) DO UPDATE SET ${countedBy((name) => `excluded.${name}`)}`

const rowPlaces = `(${SqlRecord.columnNames.map(() => "?").join(", ")})`
/** By the number of rows: a text that stays the same is a statement that stays prepared. */
const inserts: Array<string> = []
const insertOf = (rows: number): string =>
  inserts[rows] ??= `INSERT OR IGNORE INTO run_record (${SqlRecord.columnNames.join(", ")}) VALUES ${Array.from({ length: rows }, () => rowPlaces).join(", ")}`

const keepIn = ({ writeDirectly }: Database.Database): SqlRecord.RecordPlace["keep"] => (rows) =>
  writeDirectly("record", (all) => {
    for (const some of Arr.chunksOf(rows, SqlRecord.insertSize)) all(insertOf(some.length), some.flat())
  })

/** Makes the session store on an open database. */
export const make = ({ committed, read, sql, write, writeDirectly }: Database.Database): SessionStore.Service =>
  SqlStore.make({
    sql,
    read,
    write,
    leases: Leases.make<SessionStoreError>(sql, (effect) => write("acquire", effect)),
    made: "rowid",
    exact: { encode: (text) => text, decode: (text) => text },
    append: (id, { answered, calls, now, rows }) =>
      writeDirectly("append", (all) => {
        const [after] = all(appendCounts, [rows.length, calls, now, id])
        if (after === undefined) return undefined
        const first = Number(after["message_count"]) - rows.length
        rows.forEach(({ content, envelope, role, toolCalls, toolNames }, index) =>
          all(appendMessage, [id, first + index, role, now, content, toolNames, toolCalls, envelope]))
        answered.forEach((callId) => all(forgetBegun, [id, callId]))
        return first
      }),
    begin: (id, callIds) =>
      write("begin", Effect.andThen(
        sql.afterTransaction(sql.committed ?? Effect.void),
        sql.statements((all) => {
          if (all(isSession, [id]).length === 0) return false
          callIds.forEach((callId) => all(noteBegun, [id, callId]))
          return true
        })
      )),
    committed,
    addUsage: (id, { model, provider }, counted) => {
      const values = Object.values(counted)
      return writeDirectly("recordUsage", (all) => {
        const rows = all(addUsage, [...values, id])
        if (rows.length > 0) all(addModelUsage, [id, provider, model, ...values])
        return rows.length > 0
      })
    }
  })

const activityOf = ({ read, sql }: Database.Database, { sequence, since }: SqlRecord.SqlRecord): SessionActivity => ({
  version: Effect.map(read("version", sql<{ readonly data_version: number }>`PRAGMA data_version`), ([row]) => row?.data_version ?? 0),
  sequence,
  since,
  running: read("running", Effect.map(Leases.heldSessions(sql), (ids) => new Set(ids))),
  spoken: ({ since, until }) =>
    read("spoken", Effect.gen(function*() {
      const counts = yield* sql<{ readonly id: string; readonly messages: number; readonly users: number }>`
        SELECT session_id AS id, count(*) AS messages, sum(body ->> '$.origin' = 'user') AS users FROM run_record
        WHERE kind = 'MessageAppended' AND at >= ${since} AND at < ${until} AND json_valid(body)
          AND body ->> '$.copyOf' IS NULL AND position IS NOT NULL
        GROUP BY session_id`
      const chosen = yield* sql<{ readonly id: string; readonly at: number; readonly text: string }>`
        SELECT session_id AS id, created_at AS at, substr(content, 1, ${promptLength}) AS text FROM messages
        WHERE role = 'user' AND created_at >= ${since} AND created_at < ${until} AND substr(content, 1, 6) = '<skill'
          AND NOT EXISTS (SELECT 1 FROM run_record r WHERE r.session_id = messages.session_id AND r.position = messages.position
            AND json_valid(r.body) AND r.body ->> '$.copyOf' IS NOT NULL)`
      const skills = Map.groupBy(
        chosen.flatMap(({ at, id, text }) => {
          const name = StoredForm.chosenSkill(text)
          return name === undefined ? [] : [{ id, at, name }]
        }),
        ({ id }) => id
      )
      return new Map(counts.map(({ id, messages, users }): [string, Spoken] => [id, { messages, userMessages: users, skills: skills.get(id) ?? [] }]))
    })),
  prompts: (ids) =>
    Effect.map(
      Effect.forEach(Arr.chunksOf(ids, SqlRecord.insertSize), (some) =>
        read("prompts", sql<{ readonly id: string; readonly text: string | null }>`
          SELECT id, (SELECT substr(content, 1, ${promptLength}) FROM messages
            WHERE session_id = sessions.id AND role = 'user' ORDER BY position LIMIT 1) AS text
          FROM sessions WHERE id IN ${sql.in(some)}`)),
      (rows) => new Map(rows.flat().flatMap(({ id, text }) => text === null ? [] : [[id, text] as const]))
    )
})

/** Opens the store, the search and the run record on the database in a file, which is closed with the scope. */
export const open = (path: string, readOnly = false, commitsWithin?: Duration.Input) =>
  Effect.map(readOnly ? Database.openForReading(path) : Database.open(path, undefined, commitsWithin), (database): Backend => {
    const record = SqlRecord.make({ ...database, afterwards: database.sql.afterTransaction, keep: keepIn(database) })
    const store = make(database)
    return {
      record,
      retention: SqliteRetention.make(database),
      store,
      search: SqliteSearch.make(database),
      activity: activityOf(database, record),
      maintenance: SqliteMaintenance.make(database, store),
      together: database.together
    }
  })
