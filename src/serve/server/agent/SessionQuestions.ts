/**
 * Questions of suspended runs over HTTP. Clients list the open questions of a session, and answer them at any server
 * that has its store. Answers are stored before the run continues: if a server dies in between, a request without
 * answers continues with the stored ones.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Resumption from "../../../agent/Resumption.ts"
import * as Json from "../../../base/domain/Json.ts"
import type { SessionId } from "../../../base/domain/Ids.ts"
import * as Question from "../../../base/domain/Question.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import { SessionStore } from "../../../store/SessionStore.ts"
import type { QuestionPolicy } from "../../../tools/CallQuestions.ts"
import * as ApiError from "../ApiError.ts"
import { makeEventStream, makeJsonResponse } from "../ServedRoutes.ts"
import { type NewAnswers, questionsHeader, type QuestionSettings } from "./AgentApi.ts"
import { AgentSessions } from "./AgentSessions.ts"
import type { NumberedEvent } from "./EventFeed.ts"
import * as EventPlace from "./EventPlace.ts"
import type { ServedSession } from "./ServedSessions.ts"
import { isQuestionSeenBy } from "./SessionOptions.ts"

/** Reads the header that sets the treatment of questions without an answer. */
export const readUnanswered = ({
  headers
}: HttpServerRequest.HttpServerRequest): Effect.Effect<"suspend" | "deny" | undefined, ApiError.ApiError> => {
  const given = headers[questionsHeader]
  return given === undefined || given === "suspend" || given === "deny"
    ? Effect.succeed(given)
    : Effect.fail(ApiError.refuseField(questionsHeader, `${questionsHeader} is suspend or deny.`))
}

/** Changes a policy as a client asks. Its audience and its expiry remain as the server sets them. */
export const mergePolicy = (
  policy: QuestionPolicy | undefined,
  { unanswered, wait }: typeof QuestionSettings.Type
): QuestionPolicy => ({ ...policy, unanswered, ...(wait === undefined ? {} : { wait: `${wait} seconds` }) })

/** Error of a named key that approves more than one call. */
export const onlyOnce = ApiError.make(
  403,
  "choice_unavailable",
  "Approvals by a named key hold for one call, longer ones are for the owner of the server: answer with once or deny."
)

/** Returns true if a choice approves more than the one call that was asked about. */
export const isLastingChoice = (choice: unknown): boolean => choice === "session" || choice === "always"

/** Renders events for an event stream. The first line shows the client that it is connected. */
export const renderEvents = <E>(events: Stream.Stream<NumberedEvent, E>): Stream.Stream<string, E> =>
  Stream.concat(
    Stream.make(": connected\n\n"),
    Stream.map(events, (event) => `id: ${EventPlace.formatId(event)}\ndata: ${event.data}\n\n`)
  )

const toView = (question: Question.Question) =>
  Redaction.redactValue({
    id: question.id,
    session_id: question.sessionId,
    call_id: question.callId,
    tool: question.tool,
    kind: question.kind,
    title: question.title,
    prompt: question.prompt,
    event: question.event,
    schema: question.schema,
    details: question.details,
    created_at: question.createdAt,
    expires_at: question.expiresAt,
    wake_at: question.wakeAt,
    audience: question.audience
  })

/** Lists the stored questions of a session that the client may see. */
const listSeen = Effect.fnUntraced(function* (
  sessionId: SessionId,
  states: ReadonlyArray<Question.State>
): Effect.fn.Return<ReadonlyArray<Question.StoredQuestion>, ApiError.ApiError, AgentSessions | SessionStore> {
  const { client } = yield* AgentSessions
  const store = yield* SessionStore
  const all = yield* Effect.mapError(
    store.listQuestions({ sessionId, states, limit: Number.MAX_SAFE_INTEGER }),
    ApiError.toStoreError
  )
  return all.filter(({ question }) => isQuestionSeenBy(client, question))
})

/** Responds with the open questions of a session, the oldest first. */
export const listQuestions = Effect.fnUntraced(function* ({ live }: ServedSession) {
  const open = yield* listSeen((yield* live.state).session.id, ["open"])
  return makeJsonResponse({ data: open.map(({ question }) => toView(question)) })
})

/** Refuses answers that the client may not give. */
const checkAudience = Effect.fnUntraced(function* (
  sessionId: SessionId,
  answers: ReadonlyArray<Question.Answer>
): Effect.fn.Return<void, ApiError.ApiError, AgentSessions | SessionStore> {
  const { client } = yield* AgentSessions
  const seen = yield* listSeen(sessionId, Question.State.literals)
  for (const { answer, questionId } of answers) {
    const found = seen.find(({ question }) => question.id === questionId)
    if (found === undefined)
      return yield* ApiError.fromQuestionError(new Question.QuestionUnknown({ sessionId, questionId }))
    const { choice } = Json.readFields(answer)
    if (client !== undefined && found.question.kind === "approval" && isLastingChoice(choice)) return yield* onlyOnce
  }
  if (seen.some(({ state }) => state === "open" || state === "answered")) return
  if (answers.length === 0)
    return yield* ApiError.make(
      409,
      "nothing_waits",
      `Session "${sessionId}" waits for no answer. Send it a message to continue.`
    )
})

/** Stores the answers, all or none. */
const storeAnswers = Effect.fnUntraced(function* (
  sessionId: SessionId,
  answers: ReadonlyArray<Question.Answer>
): Effect.fn.Return<void, ApiError.ApiError, AgentSessions | SessionStore> {
  yield* checkAudience(sessionId, answers)
  yield* Effect.catchTags(Resumption.takeAnswers(yield* SessionStore, sessionId, { answers }), {
    InvalidInput: ({ message }) => Effect.fail(ApiError.make(409, "nothing_waits", message)),
    SessionNotFound: ({ message }) => Effect.fail(ApiError.make(404, "session_not_found", message)),
    SessionStoreError: (error) => Effect.fail(ApiError.toStoreError(error)),
    QuestionUnknown: (error) => Effect.fail(ApiError.fromQuestionError(error)),
    QuestionAnswered: (error) => Effect.fail(ApiError.fromQuestionError(error)),
    QuestionClosed: (error) => Effect.fail(ApiError.fromQuestionError(error)),
    QuestionExpired: (error) => Effect.fail(ApiError.fromQuestionError(error)),
    AnswerInvalid: (error) => Effect.fail(ApiError.fromQuestionError(error))
  })
})

/** Returns true for the event that ends the turn of a message. */
const isTurnEnd =
  (messageId: string) =>
  ({ data }: NumberedEvent): boolean => {
    if (!data.startsWith('{"type":"turn_ended"')) return false
    return Json.readFields(JSON.parse(data))["message_id"] === messageId
  }

/**
 * Stores the answers and continues the run. Responds with the id of the message that continues it, or with the events
 * of its turn.
 */
export const answerQuestions = Effect.fnUntraced(function* (
  { feed, live }: ServedSession,
  { answers, stream = false }: typeof NewAnswers.Type
) {
  const { client } = yield* AgentSessions
  const given = answers.map(({ answer, by, question_id }) => ({ questionId: question_id, answer, by: client ?? by }))
  yield* storeAnswers((yield* live.state).session.id, given)
  const before = feed.last()
  const sent = yield* live.continueRun
  if (!stream)
    return makeJsonResponse(
      { status: sent._tag === "Started" ? "started" : "queued", message_id: sent.message.id },
      202
    )
  return makeEventStream(renderEvents(Stream.takeUntil(feed.after(before), isTurnEnd(sent.message.id))))
})
