/**
 * Takes the answers with which a suspended session is resumed: checks all of them, and stores them before the run
 * continues.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import { InvalidInput, SessionNotFound, type SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import * as Json from "../base/domain/Json.ts"
import * as Question from "../base/domain/Question.ts"
import { decodeAnswer } from "../base/domain/QuestionAnswer.ts"
import type { CheckedAnswer, Service as StoreService } from "../store/SessionStorePort.ts"
import type { ResumeOptions } from "./RunInput.ts"

/** Answers with which a session is resumed. */
export type Answers = Pick<ResumeOptions, "answers" | "audience">

/** States of the questions that an answer may be given for. */
const allStates: ReadonlyArray<Question.State> = ["open", "answered", "used", "withdrawn"]

const checkAnswer = Effect.fnUntraced(function* (
  sessionId: SessionId,
  stored: ReadonlyArray<Question.StoredQuestion>,
  { audience, now }: { readonly audience: string | undefined; readonly now: number },
  { answer: given, by, questionId }: Question.Answer
): Effect.fn.Return<CheckedAnswer, Question.QuestionError> {
  const found = stored.find(({ question }) => question.id === questionId)
  const place = { sessionId, questionId }
  if (found === undefined || (audience !== undefined && found.question.audience !== audience))
    return yield* new Question.QuestionUnknown(place)
  const { answer: before, question, state } = found
  if (state === "withdrawn") return yield* new Question.QuestionClosed(place)
  if (state !== "open" || question.kind === "time")
    return yield* new Question.QuestionAnswered({ ...place, ...(before?.by === undefined ? {} : { by: before.by }) })
  if (Question.isExpired(question, now))
    return yield* new Question.QuestionExpired({ ...place, expiredAt: question.expiresAt ?? now })
  const answer = Json.toPlainData(given)
  yield* Effect.mapError(
    decodeAnswer(question.schema, answer),
    (problem) => new Question.AnswerInvalid({ ...place, problem })
  )
  return { questionId, answer, by, answeredAt: now }
})

const findRepeated = (answers: ReadonlyArray<Question.Answer>): string | undefined =>
  answers.find(({ questionId }, index) => answers.findIndex((one) => one.questionId === questionId) < index)?.questionId

const readLastPrompt = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.UserMessagePart> => {
  const user = messages.findLast(({ role }) => role === "user")
  return user?.role === "user" ? user.content : []
}

/**
 * Stores the answers of a session that the caller owns, all or none. Returns the prompt of the run that continues: the
 * message of the user that the suspended run worked on.
 */
export const takeAnswers = Effect.fnUntraced(function* (
  store: StoreService,
  sessionId: SessionId,
  { answers = [], audience }: Answers
): Effect.fn.Return<
  ReadonlyArray<Prompt.UserMessagePart>,
  InvalidInput | Question.QuestionError | SessionNotFound | SessionStoreError
> {
  if (Option.isNone(yield* store.get(sessionId))) return yield* new SessionNotFound({ sessionId, candidates: [] })
  if (answers.length > 0) {
    const now = yield* Clock.currentTimeMillis
    const repeated = findRepeated(answers)
    if (repeated !== undefined) return yield* new Question.QuestionAnswered({ sessionId, questionId: repeated })
    const limit = Number.MAX_SAFE_INTEGER
    const stored = yield* store.listQuestions({ sessionId, states: allStates, limit })
    const checked = yield* Effect.forEach(answers, (answer) =>
      checkAnswer(sessionId, stored, { audience, now }, answer)
    )
    const [first] = checked
    if (!(yield* store.answerQuestions(sessionId, checked)) && first !== undefined)
      return yield* new Question.QuestionAnswered({ sessionId, questionId: first.questionId })
  }
  const prompt = readLastPrompt(yield* store.messages(sessionId))
  if (prompt.length > 0) return prompt
  return yield* new InvalidInput({ message: `session ${sessionId} waits for nothing: continue it with a prompt` })
})

/** Lists the open questions of a session, or of its newest continuation. */
export const listQuestions = (
  store: StoreService,
  sessionId: SessionId
): Effect.Effect<ReadonlyArray<Question.Question>, SessionStoreError> =>
  Effect.flatMap(store.newest(sessionId), (newest) =>
    Effect.map(store.listQuestions({ sessionId: newest }), (stored) => stored.map(({ question }) => question))
  )
