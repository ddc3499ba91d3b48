/**
 * Starts of tool calls in SQLite.
 *
 * **Details**
 *
 * A start that is stored together with a message is a mark on the row of that message (`messages.begun`, a list of call
 * ids as JSON), because a row of a separate table would be one more page in the commit, and one more to delete when the
 * result is stored. Any other start is a row of `begun_calls`. A marked call has ended if a later message has its
 * result. Marks before the last answer of the model are not read: all calls before an answer have a result.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Conversation from "../../base/domain/Conversation.ts"
import * as Json from "../../base/domain/Json.ts"
import type { Row } from "../SessionBackup.ts"
import * as StoredForm from "../StoredForm.ts"

interface MarkedMessage {
  readonly session_id: string
  readonly position: number
  readonly begun: string
}

const parseMark = (mark: string): ReadonlyArray<string> =>
  Json.readItems(Option.getOrUndefined(Json.parse(mark))).filter(Predicate.isString)

/** Creates the operations on starts of calls in a database. */
export const makeBegunCalls = (sql: SqlClient) => {
  const selectLastAnswer = (session: string) =>
    sql.literal(`coalesce((SELECT position FROM messages AS answers
    WHERE answers.session_id = ${session} AND role = 'assistant' ORDER BY position DESC LIMIT 1), 0)`)

  /** Lists the calls of marked messages that have no result. */
  const listMarked = Effect.fnUntraced(function* (marked: ReadonlyArray<MarkedMessage>) {
    const calls: Array<{ readonly session_id: string; readonly call_id: string }> = []
    for (const { begun, position, session_id } of marked) {
      const later = yield* sql<{ readonly envelope: string }>`SELECT envelope FROM messages
        WHERE session_id = ${session_id} AND position > ${position} AND role = 'tool'`
      const ended = new Set(
        later.flatMap(({ envelope }) =>
          Result.match(StoredForm.decode(envelope), { onFailure: () => [], onSuccess: Conversation.listResultIds })
        )
      )
      for (const call_id of parseMark(begun)) if (!ended.has(call_id)) calls.push({ session_id, call_id })
    }
    return calls
  })

  const readMarks = (id: string) => sql<MarkedMessage>`SELECT session_id, position, begun FROM messages
    WHERE session_id = ${id} AND position >= ${selectLastAnswer("messages.session_id")} AND begun IS NOT NULL`

  /** Lists the calls of a session that have started and have no result. */
  const listCalls = Effect.fnUntraced(function* (id: string): Effect.fn.Return<ReadonlyArray<string>, SqlError> {
    const rows = yield* sql<{ readonly call_id: string }>`SELECT call_id FROM begun_calls WHERE session_id = ${id}`
    const marked = yield* Effect.flatMap(readMarks(id), listMarked)
    return Array.from(new Set([...rows, ...marked].map(({ call_id }) => call_id)))
  })

  /** Forgets that calls have started. Must be called in a transaction. */
  const forgetCalls = Effect.fnUntraced(function* (
    id: string,
    callIds: ReadonlyArray<string>
  ): Effect.fn.Return<void, SqlError> {
    const marked = yield* Effect.flatMap(readMarks(id), listMarked)
    if (marked.some(({ call_id }) => callIds.includes(call_id))) {
      yield* sql`UPDATE messages SET begun = NULL
        WHERE session_id = ${id} AND position >= ${selectLastAnswer("messages.session_id")} AND begun IS NOT NULL`
      for (const { call_id } of marked)
        yield* sql`INSERT INTO begun_calls (session_id, call_id) VALUES (${id}, ${call_id}) ON CONFLICT DO NOTHING`
    }
    yield* sql`DELETE FROM begun_calls WHERE session_id = ${id} AND call_id IN ${sql.in(callIds)}`
  })

  return { listCalls, forgetCalls }
}

/** Reads the starts of all sessions, as rows of `begun_calls`. */
export const readAllCalls = Effect.fnUntraced(function* (
  sql: SqlClient
): Effect.fn.Return<ReadonlyArray<Row>, SqlError> {
  const sessions = yield* sql<{ readonly session_id: string }>`
    SELECT session_id FROM begun_calls UNION SELECT session_id FROM messages WHERE begun IS NOT NULL ORDER BY 1`
  const { listCalls } = makeBegunCalls(sql)
  const rows = yield* Effect.forEach(sessions, ({ session_id }) =>
    Effect.map(listCalls(session_id), (calls) => calls.toSorted().map((call_id) => ({ session_id, call_id })))
  )
  return rows.flat()
})
