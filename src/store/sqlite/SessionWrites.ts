/**
 * The writes to sessions and to the record in each step of a run.
 *
 * **Details**
 *
 * The operations of a transaction on one session are collected. At its end, one statement changes the row of the
 * session, one inserts its messages, and one adds to the usage of each model. While a run holds a session, its number
 * of messages is remembered and not read again. The statement that changes the row checks it: if another process has
 * changed it, the transaction fails like one that meets a locked file, and is repeated with the number in the file.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { LockTimeoutError, SqlError } from "effect/sql/SqlError"
import * as Leases from "../../base/platform/Leases.ts"
import type * as SqliteClient from "../../base/platform/SqliteClient.ts"
import * as SqlRecord from "../sql/SqlRecord.ts"
import * as SqlRows from "../sql/SqlRows.ts"
import type { SqlPlace } from "../sql/SqlStore.ts"
import type { Database } from "./Database.ts"
import * as RecordParts from "./RecordParts.ts"

const readRow = `SELECT message_count, EXISTS (SELECT 1 FROM begun_calls WHERE session_id = sessions.id) AS has_begun
  FROM sessions WHERE id = ?`
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
const appendCounts =
  "message_count = message_count + ?, tool_call_count = tool_call_count + ?, updated_at = ?, ended_at = NULL, " +
  "end_reason = NULL"
const addUsage = buildCounterUpdates(() => "?")
const buildUpdate = (set: string): string => `UPDATE sessions SET ${set} WHERE id = ? AND message_count = ?`
const updateCounts = buildUpdate(appendCounts)
const updateUsage = buildUpdate(addUsage)
const updateBoth = buildUpdate(`${appendCounts}, ${addUsage}`)
const addModelUsage = `INSERT INTO session_model_usage (session_id, provider, model, ${counterNames.join(", ")})
  VALUES (?, ?, ?, ${counterNames.map(() => "?").join(", ")})
  ON CONFLICT (session_id, provider, model) DO UPDATE SET ${buildCounterUpdates((name) => `excluded.${name}`)}`

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

/**
 * Makes the function that returns an insert statement for a number of rows. If the same text is used again, the
 * prepared statement is used again too.
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

/** Splits rows into the rows of one statement each. */
const splitRows = <A>(rows: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  rows.length > SqlRecord.insertSize ? Arr.chunksOf(rows, SqlRecord.insertSize) : [rows]

type All = SqliteClient.Database["all"]
type Run = SqliteClient.Database["run"]

/** Facts about a session in the file. */
interface SessionFacts {
  /** Number of messages. */
  count: number
  /** False if `begun_calls` has no call of the session. */
  hasBegun: boolean
  /** The newest part of the record that is listed for the session; undefined if it is unknown. */
  part: number | undefined
}

/** A session that a run holds. */
interface HeldSession {
  /** Undefined if they must be read. */
  facts: SessionFacts | undefined
  /** Number of rollbacks of the client before the facts were noted. A rollback may make them wrong. */
  rollbacks: number
}

/** A message that is about to be inserted. */
interface PendingMessage extends SqlRows.NewMessage {
  readonly position: number
  readonly now: number
  /** Ids of calls that start in the same transaction, as JSON. */
  begun: string | null
}

/** Usage of one model. */
interface PendingUsage {
  readonly provider: string
  readonly model: string
  counted: SqlRows.UsageCounts
}

/** Changes that a transaction makes to a session. */
interface SessionChange extends SessionFacts {
  /** Number of messages before the transaction. */
  readonly before: number
  readonly messages: Array<PendingMessage>
  readonly usage: Array<PendingUsage>
  appended: readonly [messages: number, calls: number, now: number] | undefined
}

const writeMessages = (run: Run, id: string, messages: ReadonlyArray<PendingMessage>): void => {
  for (const some of splitRows(messages)) {
    const values: Array<unknown> = []
    for (const { begun, content, envelope, now, position, role, toolCalls, toolNames } of some)
      values.push(id, position, role, now, content, toolNames, toolCalls, envelope, begun)
    run(insertMessages(some.length), values)
  }
}

const sumUsage = (usage: ReadonlyArray<PendingUsage>): ReadonlyArray<string | number> => {
  const [first, ...others] = usage.map(({ counted }) => counted)
  return first === undefined ? [] : Object.values(others.reduce(SqlRows.sum, first))
}

/** Writes the changes of a session. Returns false if another process has changed its number of messages. */
const writeChange = (run: Run, id: string, { appended, before, messages, usage }: SessionChange): boolean => {
  if (appended === undefined && usage.length === 0) return true
  const update = appended === undefined ? updateUsage : usage.length === 0 ? updateCounts : updateBoth
  if (run(update, [...(appended ?? []), ...sumUsage(usage), id, before]).changes === 0) return false
  if (messages.length > 0) writeMessages(run, id, messages)
  for (const { counted, model, provider } of usage) run(addModelUsage, [id, provider, model, ...Object.values(counted)])
  return true
}

const makeStaleError = (id: string) => {
  const message = `session ${id} was changed by another process`
  return new SqlError({ reason: new LockTimeoutError({ cause: new Error(message), message, operation: "execute" }) })
}

/** The writes in each step of a run. */
export interface SessionWrites
  extends Pick<SqlPlace, "addUsage" | "append" | "begin">, Pick<SqlRecord.RecordPlace, "keep"> {
  /** Remembers the session of a lease until the scope closes. */
  readonly holdSession: (leaseName: string) => Effect.Effect<void, never, Scope.Scope>
}

/** Creates the access to the changes of sessions in a transaction. */
const makeChanges = ({ sql }: Pick<Database, "sql">) => {
  /** Held sessions by the name of their lease. */
  const held = new Map<string, HeldSession>()
  /** Changes of sessions, by transaction and session id. */
  const changes = new WeakMap<SqliteClient.Transaction, Map<string, SessionChange>>()

  const findHeld = (id: string): HeldSession | undefined => {
    const session = held.get(Leases.toSessionName(id))
    if (session !== undefined && session.rollbacks !== sql.rollbacks()) session.facts = undefined
    return session
  }
  const readFacts = (all: All, id: string): SessionFacts | undefined => {
    const known = findHeld(id)?.facts
    if (known !== undefined) return known
    const [row] = all(readRow, [id])
    return row === undefined
      ? undefined
      : { count: Number(row["message_count"]), hasBegun: row["has_begun"] === 1, part: undefined }
  }
  const finishChange = (run: Run, id: string, change: SessionChange): void => {
    const isWritten = writeChange(run, id, change)
    const session = held.get(Leases.toSessionName(id))
    if (session !== undefined) {
      const { count, hasBegun, part } = change
      session.facts = isWritten ? { count, hasBegun, part } : undefined
      session.rollbacks = sql.rollbacks()
    }
    if (!isWritten) throw makeStaleError(id)
  }

  return {
    /** Returns the pending changes of a transaction to a session, if there are any. */
    getChange: (transaction: SqliteClient.Transaction, id: string): SessionChange | undefined =>
      changes.get(transaction)?.get(id),
    /** Returns the changes of a transaction to a session, or `undefined` if the session does not exist. */
    findChange: (all: All, transaction: SqliteClient.Transaction, id: string): SessionChange | undefined => {
      let known = changes.get(transaction)
      if (known === undefined) changes.set(transaction, (known = new Map()))
      const before = known.get(id)
      if (before !== undefined) return before
      const facts = readFacts(all, id)
      if (facts === undefined) return undefined
      const change: SessionChange = { ...facts, before: facts.count, messages: [], usage: [], appended: undefined }
      known.set(id, change)
      transaction.putOff(() => {
        // Later operations start with new changes.
        known.delete(id)
        finishChange(transaction.run, id, change)
      })
      return change
    },
    holdSession: (leaseName: string): Effect.Effect<void, never, Scope.Scope> =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => {
            const session: HeldSession = { facts: undefined, rollbacks: 0 }
            held.set(leaseName, session)
            return session
          }),
          (session) => Effect.sync(() => held.get(leaseName) === session && held.delete(leaseName))
        )
      )
  }
}

/** Notes that calls have started: with the newest message of the transaction, if there is one. */
const noteBegunCalls = (all: All, id: string, change: SessionChange, callIds: ReadonlyArray<string>): void => {
  const newest = change.messages.at(-1)
  if (newest !== undefined && newest.begun === null && callIds.length > 0) newest.begun = JSON.stringify(callIds)
  else {
    change.hasBegun = true
    for (const callId of callIds) all(noteBegun, [id, callId])
  }
}

/** Creates the writes of an open database. */
export const makeWrites = ({ sql, write, writeDirectly }: Database): SessionWrites => {
  const { findChange, getChange, holdSession } = makeChanges({ sql })

  const insertRows =
    (rows: ReadonlyArray<SqlRecord.Columns>): SqliteClient.Statements<void> =>
    (all, transaction) => {
      for (const some of splitRows(rows)) {
        const ids = new Set(some.map(SqlRecord.getSessionId))
        for (const id of ids)
          if (getChange(transaction, id) === undefined && all(findSession, [id]).length === 0)
            throw new Error(`no session "${id}"`)
        const { changes, lastInsertRowid } = transaction.run(insertEntries(some.length), some.flat())
        if (changes === 0) continue
        // The numbers of the rows of a statement follow one another.
        const last = RecordParts.toPart(Number(lastInsertRowid))
        const first = RecordParts.toPart(Number(lastInsertRowid) - Number(changes) + 1)
        for (const id of ids) {
          const change = getChange(transaction, id)
          if (first === last && change?.part === last) continue
          all(RecordParts.listParts, [id, first, id, last])
          if (change !== undefined) change.part = last
        }
      }
    }

  return {
    holdSession,
    append: (id, { answered, calls, now, rows }) =>
      writeDirectly("append", (all, transaction) => {
        const change = findChange(all, transaction, id)
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
        const change = findChange(all, transaction, id)
        if (change === undefined) return false
        noteBegunCalls(all, id, change, callIds)
        return true
      }
      return sql.committed === undefined
        ? writeDirectly("begin", noteCalls)
        : write("begin", Effect.andThen(sql.afterTransaction(sql.committed), sql.statements(noteCalls)))
    },
    addUsage: (id, { model, provider }, counted) =>
      writeDirectly("recordUsage", (all, transaction) => {
        const change = findChange(all, transaction, id)
        if (change === undefined) return false
        const before = change.usage.find((one) => one.model === model && one.provider === provider)
        if (before === undefined) change.usage.push({ provider, model, counted })
        else before.counted = SqlRows.sum(before.counted, counted)
        return true
      }),
    keep: (rows, then) =>
      then === undefined
        ? writeDirectly("record", insertRows(rows))
        : write("record", Effect.andThen(sql.statements(insertRows(rows)), sql.afterTransaction(then)))
  }
}
