/**
 * Creates the events of an attempt: `pre_api_request` when its request is ready, and `post_api_request` or
 * `api_request_error` when it has ended. Payloads are created only if there are listeners.
 *
 * Source: `hermes-contract.md` §1.10.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Exit from "effect/Exit"
import * as AiError from "effect/ai/AiError"
import { ExecutionBlocked, MiddlewareFailure } from "../../base/domain/AgentError.ts"
import * as Cost from "../../base/domain/Cost.ts"
import * as Json from "../../base/domain/Json.ts"
import type { ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as ApiPayload from "../../hooks/ApiPayload.ts"
import type { Service as Hooks } from "../../hooks/Hooks.ts"
import type * as PairedEvents from "../../hooks/PairedEvents.ts"
import type { Fields } from "../../hooks/Payloads.ts"
import type { LlmContext } from "../../middleware/Kind.ts"
import type { AttemptProgress } from "./AnswerProgress.ts"
import { findAttemptLimit } from "./RetryPolicy.ts"
import { decideOnFailure, findProviderFailure, type RouteCallState } from "./RouteCallState.ts"

/** Data of an attempt from which its events are created. */
export interface SentAttempt {
  readonly state: RouteCallState
  readonly context: LlmContext
  readonly request: ModelRequest
  readonly progress: AttemptProgress
  readonly startedAt: number
  readonly clock: Clock.Clock
}

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

const readRequestMessages = ({ request }: SentAttempt): ReadonlyArray<unknown> => {
  const { input, messages } = request
  return isList(messages) ? messages : isList(input) ? input : []
}

const buildCommonFields = ({ context, startedAt }: SentAttempt) => ({
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

const measureTiming = ({ clock, progress: { firstPartAt }, startedAt }: SentAttempt) => {
  const ended = clock.currentTimeMillisUnsafe()
  return {
    api_duration: (ended - startedAt) / 1000,
    ended_at: ended / 1000,
    ...(firstPartAt === undefined ? {} : { time_to_first_token: (firstPartAt - startedAt) / 1000 })
  }
}

const isTokens = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value)

/**
 * Reads the output limit of a prepared request in tokens, under the name that its protocol uses. Returns `null` if the
 * request sets no limit.
 */
export const readMaxTokens = (request: ModelRequest): number | null => {
  for (const name of ["max_tokens", "max_completion_tokens", "max_output_tokens"]) {
    const value = request[name]
    if (isTokens(value)) return value
  }
  const inference = request["inferenceConfig"]
  const converse =
    typeof inference === "object" && inference !== null && "maxTokens" in inference ? inference.maxTokens : undefined
  return isTokens(converse) ? converse : null
}

/** Creates the event for a request that is about to be sent. */
export const makeOpeningEvent = (sent: SentAttempt): PairedEvents.Event<"pre_api_request"> => [
  "pre_api_request",
  () => {
    const messages = readRequestMessages(sent)
    const { tools } = sent.request
    // The request is serialized only if a listener reads its length, because the cost grows with the history.
    let characters: number | undefined
    const countCharacters = (): number => (characters ??= Json.toText(sent.request).length)
    return {
      ...buildCommonFields(sent),
      user_message: sent.state.question.userMessage,
      conversation_history: sent.state.question.call.messages,
      request_messages: messages,
      message_count: messages.length,
      tool_count: isList(tools) ? tools.length : 0,
      approx_input_tokens: () => Math.ceil(countCharacters() / 4),
      request_char_count: countCharacters,
      max_tokens: readMaxTokens(sent.request),
      request: () => ApiPayload.toRequestFields(sent.request)
    }
  }
]

const readStatus = (error: unknown): number | null => {
  if (!AiError.isAiError(error) || !("http" in error.reason)) return null
  return error.reason.http?.response?.status ?? null
}

/** Returns true if middleware refused the request: by a veto, or because it failed and is registered as closed. */
const isRefusal = (cause: Cause.Cause<unknown>): boolean => {
  const error = Cause.squash(cause)
  return (
    error instanceof ExecutionBlocked ||
    (error instanceof MiddlewareFailure && error.kind === "llm_request" && error.isResultUnknown !== true)
  )
}

/** Returns the reason for a failure, and whether a retry on the same route may succeed. */
const classifyFailure = (
  { state }: SentAttempt,
  cause: Cause.Cause<unknown>
): { readonly reason: string; readonly retryable: boolean } => {
  if (Cause.hasInterrupts(cause)) return { reason: "interrupted", retryable: false }
  const error = findProviderFailure(cause)
  if (error === undefined) return { reason: isRefusal(cause) ? "blocked" : "middleware", retryable: false }
  const { reason, retryable } = decideOnFailure(state, error)
  return { reason, retryable }
}

const buildErrorFields = (sent: SentAttempt, cause: Cause.Cause<unknown>): Fields<"api_request_error"> => {
  const error = Cause.hasInterrupts(cause) ? new Error("the request was interrupted") : Cause.squash(cause)
  return {
    ...buildCommonFields(sent),
    ...measureTiming(sent),
    status_code: readStatus(findProviderFailure(cause)),
    max_retries: findAttemptLimit(sent.state.policy) ?? null,
    ...classifyFailure(sent, cause),
    error: ApiPayload.toErrorFields(error),
    request: () => ApiPayload.toRequestFields(sent.request)
  }
}

/** Creates the event for an attempt that has ended. */
export const makeClosingEvent = (
  sent: SentAttempt,
  exit: Exit.Exit<ModelResponse, unknown>
): PairedEvents.Event<"post_api_request" | "api_request_error"> =>
  Exit.isSuccess(exit)
    ? [
        "post_api_request",
        () => ({
          ...buildCommonFields(sent),
          ...measureTiming(sent),
          ...ApiPayload.makeLazyAnswerFields(exit.value),
          ...Cost.toWire(
            Cost.toSpent(sent.state.known.cost(Usage.fromResponse(exit.value.usage), exit.value.reportedCost))
          ),
          message_count: readRequestMessages(sent).length,
          request: () => ApiPayload.toRequestFields(sent.request)
        })
      ]
    : ["api_request_error", () => buildErrorFields(sent, exit.cause)]

/** Tests whether any attempt event has a listener. */
export const isHeard = (hooks: Hooks): boolean =>
  hooks.has("pre_api_request") || hooks.has("post_api_request") || hooks.has("api_request_error")
