/**
 * The events of one attempt: `pre_api_request`, and `post_api_request` or `api_request_error` to close it. Fields are made
 * only when somebody listens.
 *
 * Source: `hermes-contract.md` §2.3, `ARCHITECTURE.md` §7.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Exit from "effect/Exit"
import * as AiError from "effect/ai/AiError"
import * as Cost from "../domain/Cost.ts"
import * as Json from "../domain/Json.ts"
import type { ModelRequest, ModelResponse } from "../domain/Model.ts"
import * as Usage from "../domain/Usage.ts"
import * as ApiPayload from "../hooks/ApiPayload.ts"
import type { Fields } from "../hooks/Payloads.ts"
import type * as Spans from "../hooks/Spans.ts"
import type { LlmContext } from "../middleware/Kind.ts"
import { decisionOf, type Progress, type RouteCallState } from "./RouteCallState.ts"

/** An attempt as its events describe it. */
export interface Sent {
  readonly state: RouteCallState
  readonly context: LlmContext
  readonly request: ModelRequest
  readonly progress: Progress
  readonly startedAt: number
  readonly clock: Clock.Clock
}

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

const requestMessages = ({ request }: Sent): ReadonlyArray<unknown> => {
  const { input, messages } = request
  return isList(messages) ? messages : isList(input) ? input : []
}

const common = ({ context, startedAt }: Sent) => ({
  session_id: context.sessionId,
  task_id: context.taskId,
  turn_id: context.turnId,
  api_request_id: context.apiRequestId,
  api_call_count: context.apiCallCount,
  retry_count: context.retryCount,
  platform: context.platform,
  model: context.model,
  provider: context.provider,
  base_url: context.baseUrl ?? "",
  api_mode: context.apiMode,
  started_at: startedAt / 1000,
  middleware_trace: context.trace
})

const timing = ({ clock, progress: { firstPartAt }, startedAt }: Sent) => {
  const ended = clock.currentTimeMillisUnsafe()
  return {
    api_duration: (ended - startedAt) / 1000,
    ended_at: ended / 1000,
    ...(firstPartAt === undefined ? {} : { time_to_first_token: (firstPartAt - startedAt) / 1000 })
  }
}

const isTokens = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value)

/** Output limit of a prepared request in tokens, under the names of all protocols; null where it asks for none. */
export const maxTokens = (request: ModelRequest): number | null => {
  for (const name of ["max_tokens", "max_completion_tokens", "max_output_tokens"]) {
    const value = request[name]
    if (isTokens(value)) return value
  }
  const inference = request["inferenceConfig"]
  const converse = typeof inference === "object" && inference !== null && "maxTokens" in inference
    ? inference.maxTokens
    : undefined
  return isTokens(converse) ? converse : null
}

/** The opening event. */
export const opening = (sent: Sent): Spans.Event<"pre_api_request"> => ["pre_api_request", () => {
  const messages = requestMessages(sent)
  const { tools } = sent.request
  const characters = Json.toText(sent.request).length
  return {
    ...common(sent),
    user_message: sent.state.question.userMessage,
    conversation_history: sent.state.question.call.messages,
    request_messages: messages,
    message_count: messages.length,
    tool_count: isList(tools) ? tools.length : 0,
    approx_input_tokens: Math.ceil(characters / 4),
    request_char_count: characters,
    max_tokens: maxTokens(sent.request),
    request: ApiPayload.request(sent.request)
  }
}]

const statusOf = (error: unknown): number | null => {
  if (!AiError.isAiError(error) || !("http" in error.reason)) return null
  return error.reason.http?.response?.status ?? null
}

/** Reason of a failure, and whether the same route may still answer. */
const judged = ({ state }: Sent, error: unknown, interrupted: boolean): { readonly reason: string; readonly retryable: boolean } => {
  if (interrupted) return { reason: "interrupted", retryable: false }
  if (!AiError.isAiError(error)) return { reason: "middleware", retryable: false }
  const { reason, retryable } = decisionOf(state, error)
  return { reason, retryable }
}

const failed = (sent: Sent, cause: Cause.Cause<unknown>): Fields<"api_request_error"> => {
  const interrupted = Cause.hasInterrupts(cause)
  const error = interrupted ? new Error("the request was interrupted") : Cause.squash(cause)
  return {
    ...common(sent),
    ...timing(sent),
    status_code: statusOf(error),
    max_retries: sent.state.shared.maxAttempts,
    ...judged(sent, error, interrupted),
    error: ApiPayload.error(error),
    request: ApiPayload.request(sent.request)
  }
}

/** The closing event. */
export const closing = (
  sent: Sent,
  exit: Exit.Exit<ModelResponse, unknown>
): Spans.Event<"post_api_request" | "api_request_error"> =>
  Exit.isSuccess(exit)
    ? ["post_api_request", () => ({
      ...common(sent),
      ...timing(sent),
      ...ApiPayload.answer(exit.value),
      ...Cost.toWire(Cost.spent(sent.state.known.cost(Usage.fromResponse(exit.value.usage), exit.value.reportedCost))),
      message_count: requestMessages(sent).length,
      request: ApiPayload.request(sent.request)
    })]
    : ["api_request_error", () => failed(sent, exit.cause)]
