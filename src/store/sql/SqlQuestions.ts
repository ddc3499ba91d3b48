/** Questions of suspended runs, and results of the steps of their calls, in the tables of a database. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import type * as Question from "../../base/domain/Question.ts"
import * as QuestionForm from "../QuestionForm.ts"
import type { CheckedAnswer, Service, Suspension } from "../SessionStorePort.ts"
import * as StoreFailure from "../StoreFailure.ts"
import type { BegunCalls, SqlPlace } from "./SqlStore.ts"

/** Rolls the transaction back in which one of several questions was not open any more. */
const conflict = new SessionStoreError({ operation: "answer", message: "a question is not open any more" })

/** A database with the tables of questions. */
type QuestionPlace = Pick<SqlPlace, "begunCalls" | "exact" | "read" | "sql" | "write">

/** Creates the access to started calls in a table of their own. */
export const makeBegunTable = (sql: SqlPlace["sql"]): BegunCalls => ({
  listCalls: (id) =>
    Effect.map(sql<{ readonly call_id: string }>`SELECT call_id FROM begun_calls WHERE session_id = ${id}`, (rows) =>
      rows.map(({ call_id }) => call_id)
    ),
  forgetCalls: (id, callIds) =>
    Effect.asVoid(sql`DELETE FROM begun_calls WHERE session_id = ${id} AND call_id IN ${sql.in(callIds)}`)
})

/** Creates the operations that store questions and their answers. */
const makeWrites = ({ begunCalls, exact, sql, write }: QuestionPlace) => {
  const insertQuestion = ({ answer, place, question, state }: Question.StoredQuestion, id: SessionId) => sql`
    INSERT INTO questions (id, session_id, call_id, place, kind, audience, state, created_at, expires_at, wake_at,
      body, answer, answered_by, answered_at)
    VALUES (${question.id}, ${id}, ${exact.encode(question.callId ?? "")}, ${exact.encode(place)}, ${question.kind},
      ${question.audience ?? null}, ${state}, ${question.createdAt}, ${question.expiresAt ?? null},
      ${question.wakeAt ?? null}, ${JSON.stringify(question)},
      ${answer === undefined ? null : JSON.stringify(answer.answer)}, ${answer?.by ?? null},
      ${answer?.answeredAt ?? null})
    ON CONFLICT (id) DO NOTHING`

  const storeSuspension = Effect.fnUntraced(function* (id: SessionId, given: Suspension) {
    const { callIds, questions, reason } = yield* QuestionForm.maskSuspension(given)
    const now = yield* Clock.currentTimeMillis
    yield* write(
      "suspend",
      Effect.gen(function* () {
        const ended = yield* sql`
        UPDATE sessions SET ended_at = ${now}, end_reason = ${reason} WHERE id = ${id} RETURNING id`
        if (ended.length === 0) return yield* StoreFailure.makeUnknownSessionError("suspend", id)
        for (const question of questions) yield* insertQuestion(question, id)
        if (callIds.length > 0) yield* begunCalls.forgetCalls(id, callIds.map(exact.encode))
      })
    )
  })

  /** A repeated transaction, whose first commit was not confirmed, finds its own answer. */
  const answerQuestion = (id: SessionId, { answer, answeredAt, by, questionId }: CheckedAnswer) => sql`
    UPDATE questions SET state = 'answered', answer = ${JSON.stringify(answer)}, answered_by = ${by ?? null},
      answered_at = ${answeredAt}
    WHERE id = ${questionId} AND session_id = ${id} AND (state = 'open'
      OR (state = 'answered' AND answer = ${JSON.stringify(answer)} AND answered_at = ${answeredAt}))
    RETURNING id`

  const answerQuestions: Service["answerQuestions"] = Effect.fnUntraced(function* (id, answers) {
    const mask = yield* QuestionForm.maskJson
    return yield* write(
      "answer",
      Effect.gen(function* () {
        for (const answer of answers) {
          const rows = yield* answerQuestion(id, { ...answer, answer: mask(answer.answer) })
          if (rows.length === 0) return yield* Effect.fail(conflict)
        }
        return true
      })
    ).pipe(
      Effect.catchIf(
        (error) => error === conflict,
        () => Effect.succeed(false)
      )
    )
  })

  return { suspend: storeSuspension, answerQuestions }
}

/** Creates the operations in a database. */
export const makeQuestions = (place: QuestionPlace) => {
  const { exact, read, sql, write } = place
  const listQuestions: Service["listQuestions"] = (filter = {}) => {
    const { audience, kind, limit = QuestionForm.defaultLimit, sessionId, states = ["open"], tenant } = filter
    return read(
      "questions",
      Effect.map(
        sql<QuestionForm.QuestionColumns>`
        SELECT session_id, place, state, body, answer, answered_by, answered_at FROM questions
        WHERE state IN ${sql.in(states)}
          ${sessionId === undefined ? sql`` : sql`AND session_id = ${sessionId}`}
          ${audience === undefined ? sql`` : sql`AND audience = ${audience}`}
          ${tenant === undefined ? sql`` : sql`AND session_id IN (SELECT id FROM sessions WHERE tenant = ${tenant})`}
          ${kind === undefined ? sql`` : sql`AND kind = ${kind}`}
        ORDER BY created_at, id LIMIT ${limit}`,
        (rows) => rows.flatMap((row) => QuestionForm.readQuestion({ ...row, place: exact.decode(row.place) }) ?? [])
      )
    )
  }

  const closeQuestions: Service["closeQuestions"] = (id, callIds, state) => {
    const calls = sql.in(callIds.map(exact.encode))
    return callIds.length === 0
      ? Effect.void
      : write(
          "close",
          Effect.gen(function* () {
            yield* sql`
            UPDATE questions SET state = ${state}
            WHERE session_id = ${id} AND call_id IN ${calls} AND state IN ('open', 'answered')`
            yield* sql`DELETE FROM call_steps WHERE session_id = ${id} AND call_id IN ${calls}`
          })
        )
  }

  const storeStep: Service["storeStep"] = Effect.fnUntraced(function* (id, { callId, name, value }) {
    const mask = yield* QuestionForm.maskJson
    yield* write(
      "step",
      sql`
      INSERT INTO call_steps (session_id, call_id, name, value)
      VALUES (${id}, ${exact.encode(callId)}, ${exact.encode(name)}, ${JSON.stringify(mask(value) ?? null)})
      ON CONFLICT DO NOTHING`
    )
  })

  const listSteps: Service["listSteps"] = (id) =>
    read(
      "steps",
      Effect.map(
        sql<{ readonly call_id: string; readonly name: string; readonly value: string }>`
        SELECT call_id, name, value FROM call_steps WHERE session_id = ${id}`,
        (rows) =>
          QuestionForm.readSteps(
            rows.map((row) => ({ ...row, call_id: exact.decode(row.call_id), name: exact.decode(row.name) }))
          )
      )
    )

  return {
    ...makeWrites(place),
    listQuestions,
    closeQuestions,
    storeStep,
    listSteps,
    moveQuestions: (from: SessionId, to: SessionId) =>
      Effect.andThen(
        sql`UPDATE questions SET session_id = ${to} WHERE session_id = ${from}`,
        sql`UPDATE call_steps SET session_id = ${to} WHERE session_id = ${from}`
      )
  }
}
