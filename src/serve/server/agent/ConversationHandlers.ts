/**
 * Handlers of the endpoint group `conversations`: OpenAI's conversations, each of which is a session.
 *
 * **Details**
 *
 * Sessions have no metadata, and single items cannot be removed: requests for these are refused with the field's name.
 *
 * Source: OpenAI API reference, conversations.
 */
import * as Effect from "effect/Effect"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Json from "../../../base/domain/Json.ts"
import type { Session } from "../../../store/SessionStore.ts"
import * as ApiError from "../ApiError.ts"
import { type BodyReader, makeJsonResponse, respondToFailure } from "../ServedRoutes.ts"
import { api } from "./AgentApi.ts"
import { AgentSessions } from "./AgentSessions.ts"
import { formatConversationId, makeItemList, pageItems, readConversationId } from "./ItemPages.ts"
import * as OpenAiMessages from "./OpenAiMessages.ts"
import * as StoredItems from "./StoredItems.ts"

type Request = HttpServerRequest.HttpServerRequest

/** Reads the body of a request, which has no metadata. */
const readPlainBody = Effect.fnUntraced(function* (
  readBody: BodyReader,
  request: Request
): Effect.fn.Return<Json.Fields, ApiError.ApiError> {
  const body = yield* readBody(request)
  const metadata = body["metadata"] ?? {}
  return Json.isFields(metadata) && Object.keys(metadata).length === 0
    ? body
    : yield* ApiError.refuseField("metadata", "metadata: conversations have no metadata. Leave it out.")
})

const readMessages = ({ items }: Json.Fields) =>
  items === undefined || items === null
    ? Effect.succeed([])
    : Array.isArray(items)
      ? OpenAiMessages.readItems(items)
      : Effect.fail(ApiError.refuseField("items", "items: expected a list of items."))

const describeConversation = ({ id, startedAt }: Pick<Session, "id" | "startedAt">, named = formatConversationId(id)) =>
  makeJsonResponse({ id: named, object: "conversation", created_at: Math.floor(startedAt / 1000), metadata: {} })

const createConversation = Effect.fnUntraced(function* (readBody: BodyReader, request: Request) {
  const history = yield* readMessages(yield* readPlainBody(readBody, request))
  return describeConversation(yield* AgentSessions.use(({ conversations }) => conversations.create(history)))
})

/** Reads the session of a conversation and its messages. */
const readConversation = Effect.fnUntraced(function* (id: string) {
  const { conversations } = yield* AgentSessions
  return yield* conversations
    .read(yield* readConversationId(id))
    .pipe(
      Effect.mapError((error) =>
        error.status === 404 ? ApiError.make(404, "conversation_not_found", `There is no conversation "${id}".`) : error
      )
    )
})

const viewConversation = (id: string) =>
  Effect.map(readConversation(id), ({ session }) => describeConversation(session, id))

const deleteConversation = Effect.fnUntraced(function* (id: string) {
  const { session } = yield* readConversation(id)
  yield* AgentSessions.use(({ conversations }) => conversations.remove(session.id))
  return makeJsonResponse({ id, object: "conversation.deleted", deleted: true })
})

const listConversationItems = (id: string) =>
  Effect.map(readConversation(id), ({ messages, session }) => StoredItems.listItems(session.id, messages))

const addItems = Effect.fnUntraced(function* (readBody: BodyReader, request: Request, id: string) {
  const added = yield* readMessages(yield* readPlainBody(readBody, request))
  if (added.length === 0) return yield* ApiError.refuseField("items", "items: expected at least one message.")
  const { session } = yield* readConversation(id)
  const { messages } = yield* AgentSessions.use(({ conversations }) => conversations.append(session.id, added))
  const from = messages.length - added.length
  return makeJsonResponse(makeItemList(StoredItems.listItems(session.id, messages.slice(from), from)))
})

const viewItem = Effect.fnUntraced(function* (id: string, item: string) {
  const found = (yield* listConversationItems(id)).find((one) => one["id"] === item)
  return found === undefined
    ? yield* ApiError.make(404, "item_not_found", `There is no item "${item}".`)
    : makeJsonResponse(found)
})

const refuseRemoval = (id: string) =>
  Effect.andThen(
    readConversation(id),
    Effect.fail(
      ApiError.refuseField("item_id", "item_id: single items of a conversation are not removed. Delete all of it.")
    )
  )

/** Handlers of the endpoint group `conversations`. */
export const makeConversationHandlers = (readBody: BodyReader) =>
  HttpApiBuilder.group(api, "conversations", (group) =>
    group
      .handleRaw("createConversation", ({ request }) => respondToFailure(createConversation(readBody, request)))
      .handleRaw("conversation", ({ params }) => respondToFailure(viewConversation(params.id)))
      .handleRaw("updateConversation", ({ params, request }) =>
        respondToFailure(Effect.andThen(readPlainBody(readBody, request), viewConversation(params.id)))
      )
      .handleRaw("deleteConversation", ({ params }) => respondToFailure(deleteConversation(params.id)))
      .handleRaw("items", ({ params, query }) =>
        respondToFailure(
          Effect.map(
            Effect.flatMap(listConversationItems(params.id), (items) => pageItems(items, query)),
            (page) => makeJsonResponse(page)
          )
        )
      )
      .handleRaw("addItems", ({ params, request }) => respondToFailure(addItems(readBody, request, params.id)))
      .handleRaw("item", ({ params }) => respondToFailure(viewItem(params.id, params.item)))
      .handleRaw("deleteItem", ({ params }) => respondToFailure(refuseRemoval(params.id)))
  )
