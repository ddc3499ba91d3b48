/**
 * Copies the readable rows of a damaged database into a new one.
 *
 * **Details**
 *
 * Rows are read from the beginning and from the end of each table. Between the first and the last damaged place, single
 * row numbers are tried to find the readable parts. If many numbers after the last row found yield nothing, only every
 * {@link coarseStep}th number is tried.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as SqlFailure from "../../base/platform/SqlFailure.ts"
import * as Database from "./Database.ts"
import * as RecordParts from "./RecordParts.ts"
import * as SignIndex from "./SignIndex.ts"

type Sql = SqlClient

/** Names of the tables that are copied, parents first. */
const tables = [
  "sessions",
  "messages",
  "session_model_usage",
  "begun_calls",
  "run_record",
  "state_meta",
  "questions",
  "call_steps"
] as const

/** Number of row numbers that are tried one by one after the last row found, and the step between the later numbers. */
const [fineSteps, coarseStep] = [4096, 32] as const

/** Maximum number of row numbers that are tried in a table. */
const maxSeeks = 50_000

/** Reads the readable rows of a table, in pages, and passes them to `use`. Returns true if all rows were read. */
const readRows = Effect.fnUntraced(function* (
  sql: Sql,
  table: string,
  pages: number,
  use: (rows: ReadonlyArray<Record<string, unknown>>) => Effect.Effect<void, SqlError>
) {
  const selectRows = (where: string) =>
    Effect.result(sql.unsafe<Record<string, unknown>>(`SELECT rowid AS rowid_, * FROM ${table} ${where}`).unprepared)
  const getRowNumber = (row: Record<string, unknown> | undefined): number => Number(row?.["rowid_"] ?? 0)
  const dropRowNumbers = (rows: ReadonlyArray<Record<string, unknown>>) => rows.map(({ rowid_: _, ...row }) => row)
  if (table === "begun_calls" || table === "state_meta" || table === "call_steps") {
    const rows = yield* Effect.result(sql.unsafe<Record<string, unknown>>(`SELECT * FROM ${table}`).unprepared)
    if (Result.isFailure(rows)) return false
    yield* use(rows.success)
    return true
  }
  /**
   * Reads pages in one direction. When a page cannot be read, reads single rows until one cannot be read. Returns the
   * number of the last row read, and whether all rows were read.
   */
  const walk = Effect.fnUntraced(function* (from: number, until: number, isUp: boolean) {
    let at = from
    let size = 100
    while (true) {
      const page = yield* selectRows(
        isUp
          ? `WHERE rowid > ${at} AND rowid < ${until} ORDER BY rowid LIMIT ${size}`
          : `WHERE rowid < ${at} AND rowid > ${until} ORDER BY rowid DESC LIMIT ${size}`
      )
      if (Result.isFailure(page)) {
        if (size === 1) return { at, isWhole: false }
        size = 1
        continue
      }
      if (page.success.length === 0) return { at, isWhole: true }
      yield* use(dropRowNumbers(page.success))
      at = getRowNumber(page.success.at(-1))
    }
  })
  const most = Number.MAX_SAFE_INTEGER
  const up = yield* walk(-most, most, true)
  if (up.isWhole) return true
  const down = yield* walk(most, up.at, false)
  if (down.isWhole) return true
  // If the end of a table is lost, its last row number is unknown.
  const isAnyRead = up.at !== -most || down.at !== most
  const seekLimit = !isAnyRead ? 300 : down.at === most ? Math.min(Math.max(1000, pages * 2), maxSeeks / 5) : maxSeeks
  const top = Math.min(down.at, Math.max(up.at, 0) + seekLimit * coarseStep)
  /** Reads the first row whose number is at least `number`, if the pages on the way to it are readable. */
  const seekRow = (number: number) => selectRows(`WHERE rowid >= ${number} AND rowid < ${top} ORDER BY rowid LIMIT 1`)
  let gap = Math.max(up.at, 0)
  let seeks = 0
  for (let number = gap + 1; number < top && seeks < seekLimit; number += number - gap > fineSteps ? coarseStep : 1) {
    seeks++
    const found = yield* seekRow(number)
    if (Result.isFailure(found)) continue
    if (found.success.length === 0) return false
    // Rows that a coarse step skipped are read now.
    for (let back = Math.max(number - coarseStep, gap + fineSteps) + 1; back < number; back++) {
      const row = yield* selectRows(`WHERE rowid = ${back}`)
      if (Result.isSuccess(row)) yield* use(dropRowNumbers(row.success))
    }
    yield* use(dropRowNumbers(found.success))
    const next = yield* walk(getRowNumber(found.success[0]), top, true)
    if (next.isWhole) return false
    gap = next.at
    number = gap
  }
  return false
})

/** Result of copying rows, with the number of copied sessions and messages. */
export interface SalvageReport {
  /** Tables that were not copied completely. */
  readonly incomplete: ReadonlyArray<string>
  readonly sessions: number
  readonly messages: number
  /** Number of messages that the copied sessions should contain but that could not be read. */
  readonly lostMessages: number
}

const countSalvaged = (sql: Sql) =>
  sql<Omit<SalvageReport, "incomplete">>`
    SELECT count(*) AS sessions, coalesce(sum(found), 0) AS messages,
      coalesce(sum(max(0, expected - found)), 0) AS lostMessages FROM (
      SELECT message_count AS expected, (SELECT count(*) FROM messages WHERE session_id = sessions.id) AS found
      FROM sessions
    )`

/** Copies the readable data to a new file. */
export const salvage = Effect.fnUntraced(function* (
  damaged: Sql,
  target: string
): Effect.fn.Return<SalvageReport, SessionStoreError, Scope.Scope> {
  const { sql } = yield* Database.open(target)
  const incomplete: Array<string> = []
  return yield* Effect.mapError(
    Effect.gen(function* () {
      yield* sql.unsafe("PRAGMA foreign_keys = OFF").unprepared
      const pages = yield* Effect.orElseSucceed(damaged<{ readonly page_count: number }>`PRAGMA page_count`, () => [])
      for (const table of tables) {
        const columns = new Set(
          (yield* sql.unsafe<{ readonly name: string }>(`SELECT name FROM pragma_table_info('${table}')`)
            .unprepared).map(({ name }) => name)
        )
        let refused = 0
        const isWhole = yield* readRows(damaged, table, pages[0]?.page_count ?? 0, (rows) =>
          sql.withTransaction(
            Effect.forEach(
              rows,
              (row) => {
                const known = Object.fromEntries(Object.entries(row).filter(([name]) => columns.has(name)))
                // Existing values in `state_meta` of the new file are retained.
                const insert = sql.literal(table === "state_meta" ? "INSERT OR IGNORE INTO" : "INSERT INTO")
                return Effect.catchIf(sql`${insert} ${sql(table)} ${sql.insert(known)}`, SqlFailure.isRefusedRow, () =>
                  Effect.sync(() => void refused++)
                )
              },
              { discard: true }
            )
          )
        )
        if (!isWhole || refused > 0) incomplete.push(table)
      }
      yield* sql`DELETE FROM state_meta WHERE key = ${SignIndex.placeKey}`
      yield* sql`
      INSERT INTO sessions (id, source, provider, model, started_at, updated_at, system_prompt)
      SELECT DISTINCT session_id, 'repaired', '', '', min(created_at), max(created_at), '' FROM messages
      WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id`
      for (const table of ["session_model_usage", "begun_calls", "run_record", "questions", "call_steps"]) {
        yield* sql`DELETE FROM ${sql(table)} WHERE session_id NOT IN (SELECT id FROM sessions)`
      }
      yield* RecordParts.listAllParts(sql)
      // The messages of each session are renumbered to close the gaps left by lost messages.
      yield* sql`UPDATE messages SET position = -1 - position`
      yield* sql`
      UPDATE messages SET position = numbered.place FROM (
        SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY position DESC) - 1 AS place FROM messages
      ) AS numbered WHERE numbered.id = messages.id`
      const [counts] = yield* countSalvaged(sql)
      yield* sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)").unprepared
      return { sessions: 0, messages: 0, lostMessages: 0, ...counts, incomplete }
    }),
    (error) => new SessionStoreError({ operation: "repair", message: SqlFailure.describe(target, error) })
  )
})
