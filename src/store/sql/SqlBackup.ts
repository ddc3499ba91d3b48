/** Copies the tables of a session database to a backup and back, for SQLite and Postgres. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SqlClient } from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { SessionBusy, SessionStoreError } from "../../base/domain/AgentError.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import { type Row, type Service, type TableName, tableNames, type TableRows } from "../SessionBackup.ts"
import * as BackupTables from "./BackupTables.ts"
import type { SqlPlace } from "./SqlStore.ts"

/** Number of rows that are read and written at a time. */
const pageSize = 100

/** A database, and the parts of a copy that each database implements itself. */
export interface BackupPlace extends Pick<SqlPlace, "exact" | "made" | "read" | "sql"> {
  /** Runs an Effect with a client that sees one state of the database. */
  readonly inSnapshot: <A, E, R>(
    use: (sql: SqlClient) => Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | SqlError | SessionStoreError, R>
  /** Runs an Effect in one transaction. */
  readonly inTransaction: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | SqlError, R>
  /** Ids of the sessions that processes use. */
  readonly listHeld: Effect.Effect<ReadonlyArray<string>, SqlError>
  /** Adds the texts for search to a row of `messages` that is read, if the database stores them once. */
  readonly completeMessage?: ((row: Row) => Row) | undefined
  /** Reads the rows of `begun_calls` if the database stores starts of calls elsewhere as well. */
  readonly readBegun?: ((sql: SqlClient) => Effect.Effect<ReadonlyArray<Row>, SqlError>) | undefined
  /** Completes the tables after rows were added. */
  readonly completeTables?: Effect.Effect<void, SqlError> | undefined
  /** Adds rows of `messages`, with the columns that the search of the database needs. */
  readonly addMessages: (rows: ReadonlyArray<Row>) => Effect.Effect<unknown, SqlError>
  /** Converts a failure of the database. */
  readonly toStoreError: (operation: string) => (error: SqlError) => SessionStoreError
}

/** Reads the rows of a table with a number as their key, a page at a time. */
const readByNumber = Effect.fnUntraced(function* <E, R>(
  sql: SqlClient,
  table: TableName,
  key: string,
  onRows: (rows: ReadonlyArray<Row>) => Effect.Effect<void, E, R>
) {
  const names = BackupTables.columns[table].map(({ name }) => name).join(", ")
  let after = -1
  while (true) {
    const rows: ReadonlyArray<Row> = yield* sql<Row>`
      SELECT ${sql.literal(names)}, ${sql.literal(key)} AS backup_key FROM ${sql.literal(table)}
      WHERE ${sql.literal(key)} > ${after} ORDER BY ${sql.literal(key)} LIMIT ${pageSize}`
    if (rows.length > 0) yield* onRows(rows)
    if (rows.length < pageSize) return
    after = Number(rows.at(-1)?.["backup_key"])
  }
})

/** Reads all rows of a table at once. Tables of waiting calls are small. */
const readAll = Effect.fnUntraced(function* <E, R>(
  sql: SqlClient,
  table: TableName,
  onRows: (rows: ReadonlyArray<Row>) => Effect.Effect<void, E, R>
) {
  const names = BackupTables.columns[table].map(({ name }) => name).join(", ")
  const order = table === "questions" ? "created_at, id" : "session_id, call_id"
  const rows = yield* sql<Row>`SELECT ${sql.literal(names)} FROM ${sql.literal(table)} ORDER BY ${sql.literal(order)}`
  if (rows.length > 0) yield* onRows(rows)
})

/** Adds rows to a table. */
export const insertRows = (sql: SqlClient, table: TableName, rows: ReadonlyArray<Row>): Effect.Effect<void, SqlError> =>
  Arr.isReadonlyArrayNonEmpty(rows)
    ? Effect.asVoid(sql`INSERT INTO ${sql.literal(table)} ${sql.insert(rows)}`)
    : Effect.void

/** Creates the backup service of an open database. */
export const make = (place: BackupPlace): Service => {
  const { completeMessage, exact, inSnapshot, inTransaction, listHeld, made, read, sql, toStoreError } = place
  const keys: Readonly<Partial<Record<TableName, string>>> = {
    sessions: made,
    messages: "id",
    session_model_usage: made,
    run_record: "id"
  }
  /** Converts a failure of the database. Other failures pass. */
  const convertFailure = <A, E, R>(
    operation: string,
    effect: Effect.Effect<A, E | SqlError, R>
  ): Effect.Effect<A, E | SessionStoreError, R> =>
    Effect.catchIf(
      effect,
      (error): error is SqlError => isSqlError(error),
      (error) => Effect.fail(toStoreError(operation)(error))
    )

  const readRow = (table: TableName, row: Row): Row => {
    const converted = BackupTables.convertExact(table, row, exact.decode)
    return table === "messages" && completeMessage !== undefined ? completeMessage(converted) : converted
  }

  const readTables = <E, R>(from: SqlClient, onRows: (part: TableRows) => Effect.Effect<void, E, R>) =>
    Effect.forEach(
      tableNames,
      (table) => {
        const key = keys[table]
        const receiveRows = (rows: ReadonlyArray<Row>) =>
          onRows({ table, rows: rows.map((row) => readRow(table, row)) })
        if (key !== undefined) return readByNumber(from, table, key, receiveRows)
        return table === "begun_calls" && place.readBegun !== undefined
          ? Effect.flatMap(place.readBegun(from), receiveRows)
          : readAll(from, table, receiveRows)
      },
      { discard: true }
    )

  const addRows = ({ rows, table }: TableRows) => {
    const encoded = rows.map((row) => BackupTables.convertExact(table, row, exact.encode))
    return table === "messages" ? place.addMessages(encoded) : insertRows(sql, table, encoded)
  }

  const countSessions = Effect.map(sql<{ readonly count: number }>`SELECT count(*) AS count FROM sessions`, ([row]) =>
    Number(row?.count ?? 0)
  )

  /** Removes the sessions of the store, or fails if there are any. */
  const clearTables = Effect.fnUntraced(function* (replace: boolean) {
    if ((yield* countSessions) === 0) return
    if (!replace)
      return yield* new SessionStoreError({ operation: "restore", message: "the store already has sessions" })
    const [held] = yield* listHeld
    if (held !== undefined) return yield* new SessionBusy({ sessionId: SessionId.make(held) })
    // Messages are deleted before their session, so that triggers update the full-text index for each message.
    yield* sql`DELETE FROM messages`
    yield* sql`DELETE FROM sessions`
  })

  return {
    count: read("count", countSessions),
    read: (onRows) =>
      convertFailure(
        "backup",
        inSnapshot((from) => readTables(from, onRows))
      ),
    write: (parts, { replace }) =>
      convertFailure(
        "restore",
        inTransaction(
          clearTables(replace).pipe(
            Effect.andThen(Stream.runForEach(parts, addRows)),
            Effect.andThen(place.completeTables ?? Effect.void)
          )
        )
      )
  }
}
