/**
 * Handlers for requests about sessions. Clients can list, open, change and close sessions, and read their messages,
 * events and questions.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Conversation from "../../../base/domain/Conversation.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import * as SessionAudience from "../../../store/SessionAudience.ts"
import { SessionStore } from "../../../store/SessionStore.ts"
import type { Answer } from "../../host/HostEvent.ts"
import type { LiveSession } from "../../host/LiveSession.ts"
import * as ApiError from "../ApiError.ts"
import { parseWholeNumber } from "../OpenAiShapes.ts"
import { type BodyReader, makeDecoder, makeEventStream, makeJsonResponse, respondToFailure } from "../ServedRoutes.ts"
import { api, NewAnswer, NewAnswers, NewMessage, NewSettings, sessionHeader } from "./AgentApi.ts"
import { AgentSessions } from "./AgentSessions.ts"
import * as EventPlace from "./EventPlace.ts"
import * as SessionQuestions from "./SessionQuestions.ts"
import type { ServedSession } from "./ServedSessions.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

const describeSession = Effect.fnUntraced(function* ({ id, live }: ServedSession) {
  const { mode, questions, queue, route, turn } = yield* live.state
  return {
    id,
    mode,
    model: route?.model ?? null,
    turn: turn === undefined ? null : { id: turn.id, message_id: turn.message.id, started_at: turn.startedAt },
    queue: queue.map((message) => ({ message_id: message.id, prompt: Redaction.redactText(message.shown) })),
    questions: questions.map((question) => question.id)
  }
})

/** Changes the requested settings. Changes nothing if one of them is invalid. */
const changeSettings = Effect.fnUntraced(function* (
  { input, live }: ServedSession,
  { mode, model, questions }: typeof NewSettings.Type
) {
  const models = model === undefined ? [] : yield* (yield* AgentSessions).models
  const found = models.find(({ id }) => id === model)
  if (model !== undefined && found === undefined && model !== "hermes")
    return yield* ApiError.make(404, "model_not_found", `There is no model "${model}". GET /v1/models lists them.`)
  if (mode !== undefined)
    yield* Effect.mapError(live.setMode(mode), ({ message }) => ApiError.make(403, "mode_unavailable", message))
  if (model !== undefined) yield* live.setRoute(found?.route)
  if (questions !== undefined) input.questions = SessionQuestions.mergePolicy(input.questions, questions)
})

const toAnswer = (given: typeof NewAnswer.Type): Answer => {
  if ("answers" in given) return { _tag: "Clarification", answers: given.answers }
  return "mode" in given ? { _tag: "Plan", ...given } : { _tag: "Approval", reply: given }
}

const submitAnswer = (
  live: LiveSession,
  question: string,
  given: typeof NewAnswer.Type
): Effect.Effect<void, ApiError.ApiError> =>
  Effect.mapError(live.answer(question, toAnswer(given)), ({ message, reason }) =>
    reason === "closed"
      ? ApiError.make(404, "question_not_open", message)
      : ApiError.make(400, "invalid_request", message)
  )

/** Returns true if an answer approves more than the one call that was asked about. */
const isLasting = (given: typeof NewAnswer.Type): boolean =>
  "choice" in given && SessionQuestions.isLastingChoice(given.choice)

/** Streams the events of a session that follow `Last-Event-ID` (or `after`). */
const streamFeed = Effect.fnUntraced(function* (request: Request, session: ServedSession, after: string | undefined) {
  const from = yield* EventPlace.parseId(request.headers["last-event-id"] ?? after ?? "0")
  const { resume } = yield* AgentSessions
  return makeEventStream(SessionQuestions.renderEvents(resume(session, from)))
})

const listMessages = ({ live }: ServedSession): Effect.Effect<Response, ApiError.ApiError> =>
  live.messages.pipe(
    Effect.mapError(({ message }) => ApiError.make(500, "store_failed", message)),
    Effect.map((messages) =>
      makeJsonResponse({
        data: messages.flatMap((message) => {
          const content = Conversation.readText(message)
          const calls = Conversation.listToolCalls(message).map(({ id, name, params }) => ({
            id,
            name,
            arguments: params
          }))
          return message.role === "system" || (content === "" && calls.length === 0 && message.role !== "tool")
            ? []
            : [Redaction.redactValue({ role: message.role, content, ...(calls.length === 0 ? {} : { calls }) })]
        })
      })
    )
  )

const listSessions = Effect.fnUntraced(function* (limit: number) {
  const store = yield* SessionStore
  const { client } = yield* AgentSessions
  const all = yield* Effect.mapError(
    store.list({ source: SessionAudience.formatSource("api-server", client), limit }),
    ({ message }) => ApiError.make(500, "store_failed", message)
  )
  return {
    data: all.map(({ endedAt, id, messageCount, model, source, startedAt, title }) => ({
      id,
      title: title ?? null,
      source,
      model,
      messages: messageCount,
      started_at: startedAt,
      ended_at: endedAt ?? null
    }))
  }
})

const makeRequestDecoder = <S extends Schema.Codec<unknown, unknown, never, never>>(
  readBody: BodyReader,
  schema: S
) => {
  const decode = makeDecoder(schema)
  return (request: Request): Effect.Effect<S["Type"], ApiError.ApiError> => Effect.flatMap(readBody(request), decode)
}

const nothing = HttpServerResponse.empty({ status: 204 })

/** Opens a session. A turn that another process runs in it is followed, so that requests reach it. */
const openSession = (id: string) =>
  Effect.tap(
    AgentSessions.use(({ open }) => open(id)),
    ({ live }) => live.attach
  )

/** Opens a new session with the settings of a request. */
const beginSession = Effect.fnUntraced(function* (given: typeof NewSettings.Type) {
  const { close, open } = yield* AgentSessions
  const made = yield* open()
  yield* Effect.onError(changeSettings(made, given), () => close(made.id))
  return makeJsonResponse(yield* describeSession(made), 201, { [sessionHeader]: made.id })
})

const closeSession = Effect.fnUntraced(function* (id: string) {
  const isClosed = yield* AgentSessions.use(({ close }) => close(id))
  if (!isClosed) return yield* ApiError.make(404, "session_not_open", `Session "${id}" is not open.`)
  return nothing
})

const sendMessage = Effect.fnUntraced(function* (id: string, given: typeof NewMessage.Type) {
  const { live } = yield* openSession(id)
  const sent = yield* live.send(given)
  return makeJsonResponse({ status: sent._tag.toLowerCase(), message_id: sent.message.id }, 202)
})

const answerQuestion = Effect.fnUntraced(function* (id: string, question: string, given: typeof NewAnswer.Type) {
  const { live } = yield* openSession(id)
  const { client } = yield* AgentSessions
  if (client !== undefined && isLasting(given)) return yield* SessionQuestions.onlyOnce
  yield* submitAnswer(live, question, given)
  return nothing
})

const notStopped = ApiError.make(
  409,
  "turn_elsewhere",
  "The turn runs in another process, which reads no messages. Stop it there."
)

/** Stops the turn of a session, and returns the queued messages. */
const stopSession = Effect.fnUntraced(function* (id: string) {
  const { live } = yield* openSession(id)
  // Removes the messages before the turn ends, because its end would start the next turn.
  const messages = yield* live.takeBack
  const isElsewhere = yield* live.isFollowing
  const stopped = yield* live.stop
  if (isElsewhere && !stopped) return yield* notStopped
  const returned = messages.map((message) => ({ message_id: message.id, prompt: Redaction.redactText(message.shown) }))
  return makeJsonResponse({ stopped, returned })
})

const toJson = <A, E, R>(value: Effect.Effect<A, E, R>): Effect.Effect<Response, E, R> =>
  Effect.map(value, (found) => makeJsonResponse(found))

/** Handlers of the endpoint group `sessions`. */
export const layer = (readBody: BodyReader) => {
  const readSettings = makeRequestDecoder(readBody, NewSettings)
  const readMessage = makeRequestDecoder(readBody, NewMessage)
  const readAnswer = makeRequestDecoder(readBody, NewAnswer)
  const readAnswers = makeRequestDecoder(readBody, NewAnswers)
  return HttpApiBuilder.group(api, "sessions", (group) =>
    group
      .handleRaw("list", ({ query }) =>
        respondToFailure(
          Effect.flatMap(parseWholeNumber("limit", query.limit, { least: 1, most: 1_000, other: 100 }), (limit) =>
            toJson(listSessions(limit))
          )
        )
      )
      .handleRaw("open", ({ request }) => respondToFailure(Effect.flatMap(readSettings(request), beginSession)))
      .handleRaw("view", ({ params }) =>
        respondToFailure(toJson(Effect.flatMap(openSession(params.id), describeSession)))
      )
      .handleRaw("change", ({ params, request }) =>
        respondToFailure(
          Effect.gen(function* () {
            const given = yield* readSettings(request)
            const found = yield* openSession(params.id)
            yield* changeSettings(found, given)
            return makeJsonResponse(yield* describeSession(found))
          })
        )
      )
      .handleRaw("close", ({ params }) => respondToFailure(closeSession(params.id)))
      .handleRaw("messages", ({ params }) => respondToFailure(Effect.flatMap(openSession(params.id), listMessages)))
      .handleRaw("send", ({ params, request }) =>
        respondToFailure(Effect.flatMap(readMessage(request), (given) => sendMessage(params.id, given)))
      )
      .handleRaw("events", ({ params, query, request }) =>
        respondToFailure(Effect.flatMap(openSession(params.id), (found) => streamFeed(request, found, query.after)))
      )
      .handleRaw("answer", ({ params, request }) =>
        respondToFailure(
          Effect.flatMap(readAnswer(request), (given) => answerQuestion(params.id, params.question, given))
        )
      )
      .handleRaw("questions", ({ params }) =>
        respondToFailure(Effect.flatMap(openSession(params.id), SessionQuestions.listQuestions))
      )
      .handleRaw("answers", ({ params, request }) =>
        respondToFailure(
          Effect.flatMap(readAnswers(request), (given) =>
            Effect.flatMap(openSession(params.id), (session) => SessionQuestions.answerQuestions(session, given))
          )
        )
      )
      .handleRaw("stop", ({ params }) => respondToFailure(stopSession(params.id)))
  )
}
