/**
 * Stored conversations of a client, as OpenAI's APIs of responses and conversations read, write and remove them.
 *
 * **Details**
 *
 * A conversation is a session, and a response is a part of a session. The server remembers the last responses of its
 * process, with their usage and calls. Of other responses only the text is known, from the stored messages.
 *
 * Source: OpenAI API reference, responses and conversations.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../base/domain/Conversation.ts"
import * as Ids from "../../../base/domain/Ids.ts"
import type * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { Session, SessionStore } from "../../../store/SessionStore.ts"
import * as ApiError from "../ApiError.ts"
import type { Ending } from "./AnswerPieces.ts"
import { readResponseId } from "./OpenAiAnswers.ts"
import type { ServedSessions } from "./ServedSessions.ts"
import { isQuestionSeenBy, renderQuestions } from "./SessionOptions.ts"
import * as StoredItems from "./StoredItems.ts"

/** Returns the number of messages up to the end of the turn that begins at a position. */
export const findTurnEnd = (history: ReadonlyArray<Prompt.Message>, position: number): number => {
  const turn = history.findIndex(({ role }, index) => index >= position && role === "user")
  const next = turn === -1 ? -1 : history.findIndex(({ role }, index) => index > turn && role === "user")
  return next === -1 ? history.length : next
}

/** A response that ended in this process. `Body` is its body without the output. */
interface KnownResponse {
  /** Number of messages of the session before the response. */
  readonly begin: number
  readonly ending: Ending
  /** Body of the response, with the output that `text` and `ending` have. */
  readonly render: (text: string) => Json.Fields
}

/** A response that is found in its session. */
export interface StoredResponse {
  readonly session: Session
  readonly known: KnownResponse | undefined
  /** Messages up to the response. */
  readonly before: ReadonlyArray<Prompt.Message>
  readonly text: string
  /** True if nothing else is in the conversation. */
  readonly isWhole: boolean
}

/** Operations on the stored conversations of a client. Sessions of other clients are treated as missing. */
export interface StoredConversations {
  /** Creates a conversation with messages. */
  readonly create: (history: ReadonlyArray<Prompt.Message>) => Effect.Effect<Session, ApiError.ApiError>
  /** Returns the newest session of a conversation, with its messages. */
  readonly read: (id: string) => Effect.Effect<StoredMessages, ApiError.ApiError>
  /** Adds messages to a conversation that is not answering. */
  readonly append: (
    id: string,
    messages: ReadonlyArray<Prompt.Message>
  ) => Effect.Effect<StoredMessages, ApiError.ApiError>
  readonly remove: (id: string) => Effect.Effect<void, ApiError.ApiError>
  /** Remembers a response that ended. */
  readonly remember: (id: string, response: KnownResponse) => void
  readonly findResponse: (id: string) => Effect.Effect<StoredResponse, ApiError.ApiError>
  /** Returns the item of a request that an item id names, or `undefined` for reasoning. */
  readonly resolveItem: (id: string) => Effect.Effect<ReadonlyArray<Json.Fields>, ApiError.ApiError>
}

/** Messages of a stored session. */
export interface StoredMessages {
  readonly session: Session
  readonly messages: ReadonlyArray<Prompt.Message>
}

/** Maximum number of remembered responses. */
const mostResponses = 4_096

const makeMissing = (what: string, id: string): ApiError.ApiError =>
  ApiError.make(404, `${what}_not_found`, `There is no ${what} "${id}".`)

/** Values that the operations share. */
interface ConversationContext {
  /** Name of the key to which the sessions belong; `undefined` for the owner. */
  readonly client: string | undefined
  readonly served: ServedSessions
  readonly store: SessionStore["Service"]
  readonly known: ReadonlyMap<string, KnownResponse>
}

/** Reads the named session of a conversation, which may be an earlier one than the newest. */
const readPart = Effect.fnUntraced(function* (
  { served, store }: ConversationContext,
  id: string
): Effect.fn.Return<StoredMessages & { readonly newest: Session }, ApiError.ApiError> {
  const newest = yield* served.stored(id)
  const session = Option.getOrElse(
    yield* Effect.mapError(store.get(Ids.SessionId.make(id)), ApiError.toStoreError),
    () => newest
  )
  return { newest, session, messages: yield* Effect.mapError(store.messages(session.id), ApiError.toStoreError) }
})

/** Renders the questions for which the newest run of a session waits. */
const readQuestions = (
  { client, store }: ConversationContext,
  sessionId: Ids.SessionId
): Effect.Effect<string, ApiError.ApiError> =>
  Effect.mapBoth(store.listQuestions({ sessionId, limit: Number.MAX_SAFE_INTEGER }), {
    onFailure: ApiError.toStoreError,
    onSuccess: (open) =>
      Redaction.redactText(
        renderQuestions(open.flatMap(({ question }) => (isQuestionSeenBy(client, question) ? [question] : [])))
      )
  })

const findResponse = Effect.fnUntraced(function* (
  context: ConversationContext,
  id: string
): Effect.fn.Return<StoredResponse, ApiError.ApiError> {
  const place = readResponseId(id)
  if (place === undefined) return yield* makeMissing("response", id)
  const found = context.known.get(id)
  const { messages, newest, session } = yield* readPart(context, found?.ending.stored?.id ?? place.session).pipe(
    Effect.mapError((error) => (error.status === 404 ? makeMissing("response", id) : error))
  )
  const begin = found?.begin ?? place.position
  const end = found?.ending.stored?.messages ?? findTurnEnd(messages, begin)
  const first = messages.findIndex(({ role }, index) => index >= begin && role === "assistant")
  if (first === -1 || begin >= end) return yield* makeMissing("response", id)
  const said = StoredItems.joinAnswer(messages.slice(first, end))
  const asked = end < messages.length ? "" : yield* readQuestions(context, session.id)
  return {
    session,
    known: found,
    before: messages.slice(0, first),
    text: [said, asked].filter((text) => text !== "").join("\n\n"),
    isWhole: newest.id === session.id && begin === 0 && end >= messages.length
  }
})

const resolveItem = Effect.fnUntraced(function* (
  context: ConversationContext,
  id: string
): Effect.fn.Return<ReadonlyArray<Json.Fields>, ApiError.ApiError> {
  const place = StoredItems.readItemId(id)
  switch (place?._tag) {
    case undefined:
      return yield* makeMissing("item", id)
    case "Reasoning":
      return []
    case "Response": {
      const { text } = yield* findResponse(context, place.response)
      return [{ type: "message", role: "assistant", content: text }]
    }
    case "Message": {
      const { messages, session } = yield* readPart(context, place.session)
      const found = StoredItems.listItems(session.id, messages).find((item) => item["id"] === id)
      return found === undefined ? yield* makeMissing("item", id) : [found]
    }
    case "Call": {
      const { messages } = yield* readPart(context, place.session)
      const call = messages.flatMap(Conversation.listToolCalls).findLast((one) => one.id === place.runCall)
      if (call === undefined) return yield* makeMissing("item", id)
      const { name, params } = call
      return [{ type: "function_call", call_id: place.call, name, arguments: JSON.stringify(params) }]
    }
  }
})

/** Makes the operations on the sessions of a client. */
export const makeStoredConversations = ({
  client,
  create,
  served,
  store
}: Pick<ConversationContext, "client" | "served" | "store"> &
  Pick<StoredConversations, "create">): StoredConversations => {
  const known = new Map<string, KnownResponse>()
  const context: ConversationContext = { client, served, store, known }
  const readNewest: StoredConversations["read"] = (id) =>
    Effect.flatMap(served.stored(id), (session) =>
      Effect.map(Effect.mapError(store.messages(session.id), ApiError.toStoreError), (messages) => ({
        session,
        messages
      }))
    )

  return {
    create,
    read: readNewest,
    append: Effect.fnUntraced(function* (id, messages) {
      const { session } = yield* readNewest(id)
      yield* Effect.scoped(
        Effect.gen(function* () {
          // Fails while a run of any process works in the session.
          yield* store.acquire(session.id)
          yield* store.append(session.id, messages)
        })
      ).pipe(
        Effect.mapError((error) =>
          error._tag === "SessionBusy"
            ? ApiError.make(409, "session_busy", error.message)
            : ApiError.toStoreError(error)
        )
      )
      return yield* readNewest(session.id)
    }),
    remove: served.remove,
    remember: (id, response) => {
      known.set(id, response)
      const oldest = known.keys().next()
      if (known.size > mostResponses && oldest.done !== true) known.delete(oldest.value)
    },
    findResponse: (id) => findResponse(context, id),
    resolveItem: (id) => resolveItem(context, id)
  }
}
