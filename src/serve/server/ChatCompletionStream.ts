/**
 * Sends a chat completion as stream events to clients that request `stream: true`.
 *
 * **Details**
 *
 * The answer is sent when it is complete and stored, so that every answer that a client has read is part of an episode.
 * A comment every few seconds keeps the connection alive until then. A failure after the stream began is sent as an
 * event with `error`, as OpenAI clients expect.
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as ExitModule from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Json from "../../base/domain/Json.ts"
import * as ApiError from "./ApiError.ts"

const formatEvent = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

/** Returns the chunks of a completion in order. */
const toChunks = (body: Json.Fields, includeUsage: boolean): ReadonlyArray<Json.Fields> => {
  const choice = Json.readFields(Json.readItems(body["choices"])[0])
  const { tool_calls: calls, ...message } = Json.readFields(choice["message"])
  const frame = { id: body["id"], object: "chat.completion.chunk", created: body["created"], model: body["model"] }
  const makeChunk = (delta: Json.Fields, finish: unknown = null, more: Json.Fields = {}): Json.Fields => ({
    ...frame,
    choices: [{ index: 0, delta, finish_reason: finish, ...more }]
  })
  const { content, role: _, ...rest } = message
  const tokens = Object.fromEntries(
    ["logprobs", "token_ids"].flatMap((name) => (choice[name] === undefined ? [] : [[name, choice[name]]]))
  )
  return [
    {
      ...makeChunk({ role: "assistant", content: "", ...rest }),
      ...(body["prompt_token_ids"] === undefined ? {} : { prompt_token_ids: body["prompt_token_ids"] })
    },
    ...(typeof content === "string" && content !== "" ? [makeChunk({ content })] : []),
    ...(Json.readItems(calls).length === 0
      ? []
      : [makeChunk({ tool_calls: Json.readItems(calls).map((call, index) => ({ index, ...Json.readFields(call) })) })]),
    makeChunk({}, choice["finish_reason"] ?? "stop", tokens),
    ...(includeUsage && body["usage"] !== undefined ? [{ ...frame, choices: [], usage: body["usage"] }] : [])
  ]
}

const ending = "data: [DONE]\n\n"

const renderResult = (exit: Exit.Exit<Json.Fields, unknown>, includeUsage: boolean): string =>
  ExitModule.isSuccess(exit)
    ? toChunks(exit.value, includeUsage).map(formatEvent).join("") + ending
    : formatEvent(ApiError.toBody(ApiError.fromCause(exit.cause))) + ending

/**
 * A failure within `early` is still reported by the HTTP status. `alive` is the time between two keep-alive comments.
 */
const early = "5 seconds"
const alive = "15 seconds"

/** Makes the streamed response of a completion. If the client disconnects, the completion is interrupted. */
export const respond = Effect.fnUntraced(function* <E, R>(
  completion: Effect.Effect<Json.Fields, E, R>,
  { headers, includeUsage }: { readonly headers: Readonly<Record<string, string>>; readonly includeUsage: boolean }
) {
  // The completion runs in the scope of the request, which closes when the client disconnects.
  const fiber = yield* Effect.forkScoped(completion)
  const known = yield* Effect.timeoutOption(Fiber.await(fiber), early)
  if (known._tag === "Some" && ExitModule.isFailure(known.value))
    return ApiError.toResponse(ApiError.fromCause(known.value.cause))
  const answer = Stream.fromEffect(Effect.map(Fiber.await(fiber), (exit) => renderResult(exit, includeUsage)))
  const signs = Stream.map(Stream.fromSchedule(Schedule.spaced(alive)), () => ": waiting for the model\n\n")
  const text = known._tag === "Some" ? answer : Stream.merge(answer, signs, { haltStrategy: "left" })
  return HttpServerResponse.stream(Stream.encodeText(text), {
    contentType: "text/event-stream; charset=utf-8",
    headers: { ...headers, "cache-control": "no-store", "x-accel-buffering": "no" }
  })
})
