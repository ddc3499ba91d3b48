/**
 * The run record in a session database, shared by SQLite and Postgres.
 *
 * **Details**
 *
 * Entries of a step are written in one transaction. A message that the session stores is not stored again in the
 * record: the row of the record contains the position of the message, and reading joins the two rows. Entries that
 * cannot be written (a full disk, a removed session) cause one warning and are counted; a `Gap` with their number
 * precedes the next entry that is written.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { Fragment } from "effect/sql/Statement"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as RecordEvent from "../../base/domain/RecordEvent.ts"
import * as RunRecord from "../RunRecord.ts"
import type { Service as SessionActivity } from "../SessionActivity.ts"
import * as StoredForm from "../StoredForm.ts"
import * as Unread from "../Unread.ts"
import * as RecordForm from "./RecordForm.ts"
import type { SqlPlace } from "./SqlStore.ts"

/** Maximum number of rows in one statement, because SQLite limits the number of variables. */
export const insertSize = 200

/** Number of rows that are read at a time. */
const pageSize = 500

/** Columns of a row of `run_record`, in the order of {@link Columns}. */
export const columnNames = ["session_id", "turn_id", "at", "version", "kind", "content_key", "position", "body"]

interface EntryRow {
  readonly id: number
  readonly session_id: RecordEvent.Entry["sessionId"]
  readonly turn_id: RecordEvent.Entry["turnId"]
  readonly at: number
  readonly version: number
  readonly kind: string
  readonly body: string
  readonly envelope: string | null
}

/** Values of the columns, in the order of {@link columnNames}. */
export type Columns = ReadonlyArray<string | number | null>

/** Returns the session of a row. */
export const getSessionId = ([sessionId]: Columns): string => String(sessionId)

/** Encodes entries without changes. */
const encodeLong: RecordForm.Shorten = (entries) =>
  Result.all(
    entries.map(({ event }) =>
      Result.map(StoredForm.encodeEvent(event, true), (body) => ({
        body,
        position: event._tag === "MessageAppended" ? (event.position ?? null) : null
      }))
    )
  )

const toColumns = (entry: RecordEvent.Entry, { body, position }: RecordForm.ShortBody): Columns => {
  const { at, event, sessionId, turnId } = entry
  return [
    sessionId,
    turnId,
    at,
    RecordEvent.version,
    event._tag,
    RunRecord.getContentKey(entry) ?? null,
    position,
    body
  ]
}

const readRow = (row: EntryRow): StoredForm.Reading<RecordEvent.RecordEvent> =>
  StoredForm.readEvent(RecordForm.readBody(row), row.envelope ?? undefined, row.version)

const fromRow = (row: EntryRow): Option.Option<RecordEvent.Entry> =>
  Option.map(StoredForm.getValue(readRow(row)), (event) => ({
    sessionId: row.session_id,
    turnId: row.turn_id,
    at: row.at,
    event
  }))

/** The record in a database: stores masked entries and reads them. */
export interface SqlRecord
  extends Pick<RunRecord.Service, "read" | "unread">, Pick<SessionActivity, "sequence" | "since"> {
  /** Adds entries, and runs `then` after they are durable, or after their loss is reported. */
  readonly keep: (
    entries: ReadonlyArray<RecordEvent.Entry>,
    then?: Effect.Effect<void> | undefined
  ) => Effect.Effect<void>
}

/** The database of the record, and the writes that each database implements itself. */
export interface RecordPlace extends Pick<SqlPlace, "read" | "sql"> {
  /**
   * Adds rows in one transaction, and runs `then` after it. A row is skipped if its session already has a row with the
   * same content key.
   */
  readonly keep: (
    rows: ReadonlyArray<Columns>,
    then: Effect.Effect<void> | undefined
  ) => Effect.Effect<void, SessionStoreError>
  /**
   * Joins `run_record` with a list of the places of a session's entries after an entry, and returns the columns that
   * order them. Absent if the table has an index by session.
   */
  readonly ofSession?:
    | ((sessionId: string, after: number) => { readonly from: Fragment; readonly order: Fragment })
    | undefined
  /** Runs an Effect after the current transaction, or immediately outside a transaction. */
  readonly afterwards: (effect: Effect.Effect<void>) => Effect.Effect<void>
  /** True if rows are written in the short form (`RecordForm`). Both forms are read. */
  readonly isShort?: boolean | undefined
}

/** Creates the run record in a session database. */
export const make = ({ afterwards, isShort = false, keep: keepRows, ofSession, read, sql }: RecordPlace): SqlRecord => {
  const encode = isShort ? RecordForm.makeShorten() : encodeLong
  let lost = 0
  let reason = ""

  const reportLoss = (count: number, error: SessionStoreError, then = Effect.void): Effect.Effect<void> =>
    Effect.suspend(() => {
      const isFirst = lost === 0
      lost += count
      reason = error.message
      if (!isFirst) return then
      return Effect.andThen(Effect.logWarning(`Run record: entries are not written: ${error.message}`), then)
    })

  const makeGapBefore = (first: RecordEvent.Entry): ReadonlyArray<RecordEvent.Entry> =>
    lost === 0 ? [] : [{ ...first, event: { _tag: "Gap", entries: lost, reason } }]

  /** Converts entries to rows. Fails with the fault of the first entry that cannot be stored. */
  const toRows = (
    entries: ReadonlyArray<RecordEvent.Entry>
  ): Result.Result<ReadonlyArray<Columns>, SessionStoreError> => {
    const bodies = encode(entries)
    if (Result.isFailure(bodies)) {
      const { cause, message } = bodies.failure
      return Result.fail(new SessionStoreError({ operation: "record", message: `a message ${message}`, cause }))
    }
    return Result.succeed(
      entries.flatMap((entry, index) => {
        const body = bodies.success[index]
        return body === undefined ? [] : [toColumns(entry, body)]
      })
    )
  }

  const keep = (
    entries: ReadonlyArray<RecordEvent.Entry>,
    then?: Effect.Effect<void> | undefined
  ): Effect.Effect<void> =>
    Effect.suspend(() => {
      const [first] = entries
      if (first === undefined) return then ?? Effect.void
      const rows = toRows(lost === 0 ? entries : [...makeGapBefore(first), ...entries])
      if (Result.isFailure(rows)) return reportLoss(entries.length, rows.failure, then)
      return Effect.matchEffect(keepRows(rows.success, then), {
        onSuccess: () => (lost === 0 ? Effect.void : afterwards(Effect.sync(() => void (lost = 0)))),
        onFailure: (error) => reportLoss(entries.length, error, then)
      })
    })

  const buildCondition = ({ kinds, origins, sessionId, turnId }: RunRecord.Filter, after: number) =>
    sql.and([
      sql`run_record.id > ${after}`,
      ...(sessionId === undefined ? [] : [sql`run_record.session_id = ${sessionId}`]),
      // Entries written once per session may belong to an earlier turn.
      ...(turnId === undefined ? [] : [sql`(run_record.turn_id = ${turnId} OR run_record.content_key IS NOT NULL)`]),
      ...(kinds === undefined ? [] : [kinds.length === 0 ? sql`FALSE` : sql`run_record.kind IN ${sql.in(kinds)}`]),
      // Text inside a message may look like this field, so the filter is checked again after decoding.
      ...(origins === undefined
        ? []
        : [
            sql.or([
              "run_record.kind <> 'MessageAppended'",
              ...origins.map((origin) => sql`run_record.body LIKE ${`%"origin":"${origin}"%`}`)
            ])
          ])
    ])

  const readRowsAfter = (
    filter: RunRecord.Filter,
    after: number
  ): Effect.Effect<ReadonlyArray<EntryRow>, SessionStoreError> => {
    const { from, order } = (filter.sessionId === undefined ? undefined : ofSession?.(filter.sessionId, after)) ?? {
      from: sql`run_record`,
      order: sql`run_record.id`
    }
    return read(
      "record",
      sql<EntryRow>`
      SELECT run_record.id, run_record.session_id, run_record.turn_id, at, version, kind, body, envelope
      FROM ${from} LEFT JOIN messages
        ON messages.session_id = run_record.session_id AND messages.position = run_record.position
      WHERE ${buildCondition(filter, after)} ORDER BY ${order} LIMIT ${pageSize}`
    )
  }

  const streamRows = (filter: RunRecord.Filter, from = 0): Stream.Stream<EntryRow, SessionStoreError> =>
    Stream.paginate(from, (after) =>
      Effect.map(readRowsAfter(filter, after), (page) => [
        page,
        page.length < pageSize ? Option.none<number>() : Option.map(Option.fromUndefinedOr(page.at(-1)), ({ id }) => id)
      ])
    )

  return {
    keep,
    read: (filter = {}) =>
      Stream.flatMap(streamRows(filter), (row) =>
        Option.match(fromRow(row), { onNone: () => Stream.empty, onSome: Stream.succeed })
      ).pipe(Stream.filter(RunRecord.isInFilter({ origins: filter.origins }))),
    sequence: Effect.map(
      read("record", sql<{ readonly id: number | null }>`SELECT max(id) AS id FROM run_record`),
      ([newest]) => newest?.id ?? 0
    ),
    since: (after, filter = {}) =>
      Stream.flatMap(streamRows(filter, after), (row) =>
        Option.match(fromRow(row), {
          onNone: () => Stream.empty,
          onSome: (entry) => Stream.succeed({ sequence: row.id, entry })
        })
      ).pipe(Stream.filter(({ entry }) => RunRecord.isInFilter({ origins: filter.origins })(entry))),
    unread: (filter = {}) =>
      Stream.runFold(
        streamRows(filter),
        () => Unread.none,
        (sum, row) => Unread.addReading(sum, readRow(row))
      )
  }
}
