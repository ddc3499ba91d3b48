/**
 * Handlers of the endpoint group `responses`: OpenAI's responses, which are parts of sessions.
 *
 * Source: OpenAI API reference, responses.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Json from "../../../base/domain/Json.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import * as ApiError from "../ApiError.ts"
import { type BodyReader, makeEventStream, makeJsonResponse, respondToFailure } from "../ServedRoutes.ts"
import { api, sessionHeader } from "./AgentApi.ts"
import type { Exchange } from "./AgentExchange.ts"
import * as SessionQuestions from "./SessionQuestions.ts"
import { AgentSessions } from "./AgentSessions.ts"
import { formatConversationId, pageItems, readConversationId } from "./ItemPages.ts"
import * as OpenAiAnswers from "./OpenAiAnswers.ts"
import * as OpenAiMessages from "./OpenAiMessages.ts"
import type { StoredResponse } from "./StoredConversations.ts"
import * as StoredItems from "./StoredItems.ts"

type Request = HttpServerRequest.HttpServerRequest

/** Replaces references to items by the stored items. */
const resolveReferences = Effect.fnUntraced(function* (
  body: Json.Fields
): Effect.fn.Return<Json.Fields, ApiError.ApiError, AgentSessions> {
  const { input } = body
  if (!Array.isArray(input)) return body
  const { conversations } = yield* AgentSessions
  const items = yield* Effect.forEach(input, (item) => {
    const { id, type } = Json.readFields(item)
    return type === "item_reference"
      ? conversations.resolveItem(Json.readString(id) ?? "")
      : Effect.succeed([item] as ReadonlyArray<unknown>)
  })
  return { ...body, input: items.flat() }
})

/** Finds the session that a request continues. */
const readPrevious = (
  body: Json.Fields
): Effect.Effect<{ readonly session: string; readonly position?: number } | undefined, ApiError.ApiError> => {
  const { conversation, previous_response_id: given } = body
  if (conversation !== undefined && conversation !== null) {
    const id = typeof conversation === "string" ? conversation : Json.readString(Json.readFields(conversation)["id"])
    return Effect.map(readConversationId(id ?? ""), (session) => ({ session }))
  }
  if (typeof given !== "string") return Effect.undefined
  const previous = OpenAiAnswers.readResponseId(given)
  return previous === undefined
    ? Effect.fail(ApiError.make(404, "response_not_found", `There is no response "${given}".`))
    : Effect.succeed(previous)
}

const repeatFields = (body: Json.Fields, { sessionId }: Exchange): OpenAiAnswers.RepeatedFields => ({
  conversation:
    body["conversation"] === undefined || body["conversation"] === null
      ? null
      : { id: formatConversationId(sessionId) },
  store: body["store"] !== false,
  instructions: Json.readString(body["instructions"]) ?? null,
  previous_response_id: Json.readString(body["previous_response_id"]) ?? null,
  metadata: body["metadata"] ?? {}
})

const createResponse = Effect.fnUntraced(function* (readBody: BodyReader, request: Request) {
  const body = yield* readBody(request)
  const previous = yield* readPrevious(body)
  const { conversations, exchange } = yield* AgentSessions
  const asked = yield* OpenAiMessages.readResponseRequest(yield* resolveReferences(body), previous)
  const begun = yield* exchange({ ...asked, unanswered: yield* SessionQuestions.readUnanswered(request) })
  const { sessionId, turn } = begun
  const frame: OpenAiAnswers.ResponseFrame = {
    id: OpenAiAnswers.formatResponseId(sessionId, turn),
    session: sessionId,
    created: Math.floor((yield* Clock.currentTimeMillis) / 1000),
    model: Json.readString(body["model"]) ?? "hermes"
  }
  const repeated = repeatFields(body, begun)
  const answer: Exchange = {
    ...begun,
    pieces: Stream.tap(begun.pieces, (piece) =>
      Effect.sync(() => {
        if (piece._tag !== "Ended" || !repeated.store) return
        const { ending } = piece
        const renderText = (text: string) =>
          OpenAiAnswers.makeFinalResponse(frame, repeated, { text, reasoning: "", ending })
        conversations.remember(frame.id, { begin: turn.begin, ending, render: renderText })
      })
    )
  }
  const headers = { [sessionHeader]: sessionId }
  return body["stream"] === true
    ? makeEventStream(OpenAiAnswers.streamResponse(frame, repeated, answer), headers)
    : makeJsonResponse(yield* OpenAiAnswers.makeResponse(frame, repeated, answer), 200, headers)
})

/** Describes a response that an earlier process answered, without its usage. */
const describeStored = (id: string, { session, text }: StoredResponse): Json.Fields => ({
  ...OpenAiAnswers.makeFinalResponse(
    { id, session: session.id, created: Math.floor(session.startedAt / 1000), model: session.model },
    { conversation: null, store: true, instructions: null, previous_response_id: null, metadata: {} },
    {
      text,
      reasoning: "",
      ending: { finish: "stop", calls: [], usage: Usage.zero, model: session.model, stored: undefined }
    }
  ),
  usage: null
})

const findResponse = (id: string) => AgentSessions.use(({ conversations }) => conversations.findResponse(id))

const viewResponse = Effect.fnUntraced(function* (id: string, stream: string | undefined) {
  if (stream === "true")
    return yield* ApiError.refuseField("stream", "stream: a stored response is read as a whole. Leave it out.")
  const found = yield* findResponse(id)
  return makeJsonResponse(found.known?.render(found.text) ?? describeStored(id, found))
})

/** Removes the conversation of a response, if it has no other. */
const deleteResponse = Effect.fnUntraced(function* (id: string) {
  const { isWhole, session } = yield* findResponse(id)
  if (!isWhole)
    return yield* ApiError.refuseField(
      "response_id",
      `response_id: the response is a part of a longer conversation. Delete "${formatConversationId(session.id)}".`
    )
  yield* AgentSessions.use(({ conversations }) => conversations.remove(session.id))
  return makeJsonResponse({ id, object: "response", deleted: true })
})

const listInput = Effect.fnUntraced(function* (id: string, query: Readonly<Record<string, string | undefined>>) {
  const { before, session } = yield* findResponse(id)
  return makeJsonResponse(yield* pageItems(StoredItems.listItems(session.id, before), query))
})

/** Handlers of the endpoint group `responses`. */
export const makeResponseHandlers = (readBody: BodyReader) =>
  HttpApiBuilder.group(api, "responses", (group) =>
    group
      .handleRaw("respond", ({ request }) => respondToFailure(createResponse(readBody, request)))
      .handleRaw("response", ({ params, query }) => respondToFailure(viewResponse(params.id, query.stream)))
      .handleRaw("deleteResponse", ({ params }) => respondToFailure(deleteResponse(params.id)))
      .handleRaw("inputItems", ({ params, query }) => respondToFailure(listInput(params.id, query)))
  )
