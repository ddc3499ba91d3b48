/**
 * Handlers of the endpoint group `anthropic`: messages in the form of Anthropic's API.
 *
 * Source: Anthropic API reference, messages and token counting.
 */
import * as Effect from "effect/Effect"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Json from "../../../base/domain/Json.ts"
import { estimateTokens } from "../../../models/routing/CallTokens.ts"
import * as AnthropicError from "../AnthropicError.ts"
import * as ApiError from "../ApiError.ts"
import { type BodyReader, makeEventStream, makeJsonResponse } from "../ServedRoutes.ts"
import { api, sessionHeader } from "./AgentApi.ts"
import * as SessionQuestions from "./SessionQuestions.ts"
import { AgentSessions, toUserMessages } from "./AgentSessions.ts"
import * as AnthropicAnswers from "./AnthropicAnswers.ts"
import * as AnthropicRequests from "./AnthropicRequests.ts"
import { formatMessageId } from "./OpenAiAnswers.ts"

type Request = HttpServerRequest.HttpServerRequest

/**
 * First version of the API in the header `anthropic-version` that is served. Later ones differ in fields, which are
 * checked by their names.
 */
const firstVersion = "2023-06-01"

const readRequest = Effect.fnUntraced(function* (
  readBody: BodyReader,
  request: Request
): Effect.fn.Return<
  { readonly body: Json.Fields; readonly wanted: AnthropicRequests.MessagesRequest },
  ApiError.ApiError
> {
  const given = request.headers["anthropic-version"] ?? firstVersion
  if (!/^\d{4}-\d{2}-\d{2}$/u.test(given) || given < firstVersion)
    return yield* ApiError.refuseField("anthropic-version", `anthropic-version is ${firstVersion} or a later one.`)
  const body = yield* readBody(request)
  return { body, wanted: yield* AnthropicRequests.readMessagesRequest(body, request.headers[sessionHeader]) }
})

const answerMessage = Effect.fnUntraced(function* (readBody: BodyReader, request: Request) {
  const { body, wanted } = yield* readRequest(readBody, request)
  const { exchange } = yield* AgentSessions
  const begun = yield* exchange({ ...wanted, unanswered: yield* SessionQuestions.readUnanswered(request) })
  const frame = {
    id: formatMessageId(begun.sessionId, begun.turn),
    model: Json.readString(body["model"]) ?? "hermes",
    showsThinking: wanted.showsThinking
  }
  const headers = { [sessionHeader]: begun.sessionId }
  return body["stream"] === true
    ? makeEventStream(AnthropicAnswers.streamMessage(frame, begun), headers)
    : makeJsonResponse(yield* AnthropicAnswers.completeMessage(frame, begun), 200, headers)
})

/** Estimates the tokens of a request, without the instructions and tools of the agent. */
const countTokens = Effect.fnUntraced(function* (readBody: BodyReader, request: Request) {
  const { body, wanted } = yield* readRequest(readBody, request)
  const { history, prompt, results, system = "" } = wanted
  const messages = [...history, ...toUserMessages(prompt)]
  const texts = [system, ...Array.from(results.values(), ({ output }) => output), JSON.stringify(body["tools"] ?? "")]
  const rest = texts.flatMap((text) => toUserMessages(text))
  return makeJsonResponse({ input_tokens: estimateTokens({ messages: [...messages, ...rest] }) })
})

/** Responds with the error, in the form of this API, if the effect fails. */
const respondToFailure = <R>(
  { url }: Request,
  work: Effect.Effect<HttpServerResponse.HttpServerResponse, ApiError.ApiError, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R> =>
  Effect.catch(work, (error) => Effect.succeed(AnthropicError.respondTo(url, error)))

/** Handlers of the endpoint group `anthropic`. */
export const makeMessageHandlers = (readBody: BodyReader) =>
  HttpApiBuilder.group(api, "anthropic", (group) =>
    group
      .handleRaw("messages", ({ request }) => respondToFailure(request, answerMessage(readBody, request)))
      .handleRaw("countTokens", ({ request }) => respondToFailure(request, countTokens(readBody, request)))
  )
