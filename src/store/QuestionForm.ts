/**
 * Stored form of questions, answers and results of steps: JSON without the secrets that the runtime holds, and the
 * selection of questions by a filter.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Json from "../base/domain/Json.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import * as Question from "../base/domain/Question.ts"
import type { QuestionFilter, StepResult, Suspension } from "./SessionStorePort.ts"
import { heldMask } from "./StoredMask.ts"

/** Masks the secrets that the runtime holds in a JSON value. */
export const maskJson: Effect.Effect<(value: unknown) => unknown> = Effect.map(
  heldMask,
  (mask) => (value) => Json.toPlainData(value, mask)
)

/** Masks the secrets in the questions of a suspension. */
export const maskSuspension = (suspension: Suspension): Effect.Effect<Suspension> =>
  Effect.map(maskJson, (mask) => ({
    ...suspension,
    questions: suspension.questions.map((stored) => ({
      ...stored,
      // Masking changes texts only, and no text of a question is decoded by its schema.
      question: mask(stored.question) as Question.Question,
      ...(stored.answer === undefined ? {} : { answer: { ...stored.answer, answer: mask(stored.answer.answer) } })
    }))
  }))

/** Default number of questions that a store lists. */
export const defaultLimit = 100

/** Tests whether a stored question belongs to the questions of a filter. */
export const matchesFilter = (
  { question, state }: Question.StoredQuestion,
  { audience, kind, sessionId, states = ["open"] }: QuestionFilter
): boolean =>
  states.includes(state) &&
  (sessionId === undefined || question.sessionId === sessionId) &&
  (audience === undefined || question.audience === audience) &&
  (kind === undefined || question.kind === kind)

/** Columns of a stored question that are not part of its JSON. */
export interface QuestionColumns {
  readonly session_id: SessionId
  readonly place: string
  readonly state: Question.State
  readonly body: string
  readonly answer: string | null
  readonly answered_by: string | null
  readonly answered_at: number | null
}

/** Reads a stored question. Returns `undefined` for a question of another form, such as one of a newer version. */
export const readQuestion = (row: QuestionColumns): Question.StoredQuestion | undefined => {
  const body = Json.readFields(Option.getOrUndefined(Json.parse(row.body)))
  // The session of a compacted conversation changes, and its questions move with it.
  const question = Option.getOrUndefined(Question.fromJson({ ...body, sessionId: row.session_id }))
  if (question === undefined) return undefined
  const { answer, answered_at: at, answered_by: by, place, state } = row
  return {
    question,
    place,
    state,
    ...(answer === null || at === null
      ? {}
      : { answer: { answer: Option.getOrUndefined(Json.parse(answer)), by: by ?? undefined, answeredAt: at } })
  }
}

/** Reads the results of steps. */
export const readSteps = (
  rows: ReadonlyArray<{ readonly call_id: string; readonly name: string; readonly value: string }>
): ReadonlyArray<StepResult> =>
  rows.map(({ call_id: callId, name, value }) => ({ callId, name, value: Option.getOrUndefined(Json.parse(value)) }))
