/**
 * Access to the entries of one session in the record of SQLite.
 *
 * **Details**
 *
 * The record is divided into parts of 256 rows by the numbers of the rows. `record_parts` lists the parts in which a
 * session has entries. An index of the rows by session would be one more page in every commit; a part is listed once,
 * with the first entry of the session in it.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"

/** Number of bits of a row number within a part. */
const partBits = 8
const [bits, lastInPart] = [String(partBits), String((1 << partBits) - 1)]

/** Returns the part of a row by its number. */
export const toPart = (id: number): number => Math.floor(id / (1 << partBits))

/** Lists two parts of a session, which may be the same. */
export const listParts = "INSERT OR IGNORE INTO record_parts (session_id, part) VALUES (?, ?), (?, ?)"

/**
 * Joins `run_record` with the parts of a session that may have entries after a row number. Rows are in the order of
 * {@link order}.
 */
export const joinParts = (sql: SqlClient, session: Fragment, after: number): Fragment => sql`
  record_parts CROSS JOIN run_record ON run_record.id BETWEEN record_parts.part << ${sql.literal(bits)}
    AND (record_parts.part << ${sql.literal(bits)}) + ${sql.literal(lastInPart)}
    AND run_record.session_id = record_parts.session_id
    AND record_parts.session_id = ${session} AND record_parts.part >= (${after} >> ${sql.literal(bits)})`

/** Columns that order joined entries by their number. */
export const order = "record_parts.part, run_record.id"

/** Lists the parts of all entries, for rows that were not inserted by this program. */
export const listAllParts = (sql: SqlClient): Effect.Effect<void, SqlError> =>
  Effect.asVoid(
    sql.unsafe(`INSERT OR IGNORE INTO record_parts (session_id, part)
      SELECT DISTINCT session_id, id >> ${partBits} FROM run_record`).unprepared
  )

/** Tests whether the parts of all entries are listed. */
export const areAllListed = (sql: SqlClient): Effect.Effect<boolean, SqlError> =>
  Effect.map(
    sql.unsafe(`SELECT 1 FROM (SELECT DISTINCT session_id, id >> ${partBits} AS part FROM run_record) AS used
      WHERE NOT EXISTS (SELECT 1 FROM record_parts
        WHERE record_parts.session_id = used.session_id AND record_parts.part = used.part) LIMIT 1`),
    (rows) => rows.length === 0
  )
