/** Starts of tool calls in Postgres. */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { BegunCalls } from "../sql/SqlStore.ts"

/** Creates the access to the table of started calls. */
export const makeBegunCalls = (sql: SqlClient): BegunCalls => ({
  listCalls: (id) =>
    Effect.map(sql<{ readonly call_id: string }>`SELECT call_id FROM begun_calls WHERE session_id = ${id}`, (rows) =>
      rows.map(({ call_id }) => call_id)
    ),
  forgetCalls: (id, callIds) =>
    Effect.asVoid(sql`DELETE FROM begun_calls WHERE session_id = ${id} AND call_id IN ${sql.in(callIds)}`)
})
