/**
 * Errors of the server in the format of the OpenAI API, as its clients expect:
 * `{ "error": { "message", "type", "code", "param" } }`.
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { type AgentError, TenantRefused } from "../../base/domain/AgentError.ts"
import type { QuestionError } from "../../base/domain/Question.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { type refusals, RolloutRefused } from "../../base/domain/RolloutPort.ts"
import type { RunLost } from "../../store/RunWatch.ts"
import * as TextCut from "../../base/domain/TextCut.ts"

/** Body of an error response. */
export const ErrorBody = Schema.Struct({
  error: Schema.Struct({
    message: Schema.String,
    type: Schema.String,
    code: Schema.String,
    /** Name of the request field that was refused. */
    param: Schema.NullOr(Schema.String)
  })
})

/** A request that cannot be answered, with its status, its code, and a message that states the cause and the remedy. */
export class ApiError extends Schema.TaggedError<ApiError>("hermes-effect/server/ApiError")("ApiError", {
  status: Schema.Int,
  code: Schema.String,
  message: Schema.String,
  /** Name of the request field that was refused. */
  param: Schema.optionalKey(Schema.String),
  /** Seconds after which the request may succeed. */
  retryAfter: Schema.optionalKey(Schema.Int)
}) {}

/** Makes an {@link ApiError}. */
export const make = (status: number, code: string, message: string): ApiError => new ApiError({ status, code, message })

/** Makes the error for a request field that requests an unsupported feature. */
export const refuseField = (param: string, message: string): ApiError =>
  new ApiError({ status: 400, code: "unsupported_parameter", message, param })

/**
 * Makes the error for a request whose tenant has no allowance left. `freeAt` is the time at which the period ends, in
 * milliseconds since 1970; `undefined` if the allowance of one run is too small.
 */
export const makeAllowanceError = (message: string, freeAt: number | undefined, now: number): ApiError =>
  new ApiError({
    status: 429,
    code: "allowance_exhausted",
    message: Redaction.redactText(message),
    ...(freeAt === undefined ? {} : { retryAfter: Math.max(1, Math.ceil((freeAt - now) / 1_000)) })
  })

/** Reasons that the operator of the server can remove, in the settings of the tenant. */
const operatorReasons: ReadonlySet<TenantRefused["reason"]> = new Set(["limits", "price", "route", "workspace"])

/** Message for a client in place of one that names settings of the operator. */
const operatorMessage = "The settings of this tenant do not permit the request. The server's log says why."

/** Makes the error for a run that the limits or the settings of its tenant refuse. */
const fromTenantRefused = ({ reason }: TenantRefused, message: string): ApiError => {
  if (reason === "busy") return new ApiError({ status: 429, code: "tenant_busy", message, retryAfter: 1 })
  if (reason === "allowance") return make(429, "allowance_exhausted", message)
  return operatorReasons.has(reason)
    ? make(403, "tenant_refused", operatorMessage)
    : make(403, "tenant_refused", message)
}

/**
 * Returns the message of a failed turn that only the operator of the server may see, without secrets: it names settings
 * and directories.
 */
const findOperatorMessage = (cause: Cause.Cause<AgentError>): string | undefined => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  return error?._tag === "TenantRefused" && operatorReasons.has(error.reason)
    ? Redaction.redactText(error.message)
    : undefined
}

/** Logs the message of a failed turn that only the operator of the server may see, if it has one. */
export const logOperatorMessage = (exit: Exit.Exit<unknown, AgentError>): Effect.Effect<void> => {
  const message = Exit.isFailure(exit) ? findOperatorMessage(exit.cause) : undefined
  return message === undefined ? Effect.void : Effect.logWarning(message)
}

/** Returns the message of a failed turn for the events of its session. */
export const describeTurnFailure = (cause: Cause.Cause<{ readonly message: string }>): string => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  if (error === undefined) return "an error of the program"
  return error instanceof TenantRefused && operatorReasons.has(error.reason) ? operatorMessage : error.message
}

/** Returns the message of a recorded failure for the events of its session. The record has no reason of a refusal. */
export const describeRecordedFailure = ({ error, message }: Pick<RunLost, "error" | "message">): string =>
  error === "TenantRefused" ? operatorMessage : message

const statuses: Readonly<Record<(typeof refusals)[number], number>> = {
  invalid_request: 400,
  unknown_rollout: 404,
  rollout_exists: 409,
  rollout_busy: 409,
  rollout_finished: 409,
  history_diverged: 409,
  not_trainable: 422,
  store_failed: 500
}

/**
 * Returns the HTTP status for a failure of the model: 4xx if the client can fix it, 429 for a rate limit, otherwise a
 * gateway error.
 */
const chooseStatus = ({ reason }: AiError.AiError): number => {
  switch (reason._tag) {
    case "RateLimitError":
    case "QuotaExhaustedError":
      return 429
    case "InvalidRequestError":
    case "InvalidUserInputError":
    case "ContentPolicyError":
      return 400
    case "NetworkError":
      return 504
    default:
      return 502
  }
}

/** Converts a failure to an {@link ApiError}. */
export const fromError = (error: unknown): ApiError => {
  if (error instanceof ApiError) return error
  if (error instanceof RolloutRefused) return make(statuses[error.reason], error.reason, error.message)
  if (AiError.isAiError(error))
    return make(
      chooseStatus(error),
      "model_failed",
      Redaction.redactText(`The model did not answer: ${error.reason.message}`)
    )
  return make(500, "internal_error", "The server failed at this request. Its log says why.")
}

/** Converts a cause to an {@link ApiError}: its first failure, or an internal server error. */
export const fromCause = (cause: Cause.Cause<unknown>): ApiError =>
  fromError(cause.reasons.find(Cause.isFailReason)?.error)

/** Converts the cause of a failed turn to an {@link ApiError} whose message states the remedy. */
export const fromTurnCause = (cause: Cause.Cause<AgentError>): ApiError => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  if (error === undefined || AiError.isAiError(error)) return fromError(error)
  const message = Redaction.redactText(error.message)
  if (error._tag === "TenantRefused") return fromTenantRefused(error, message)
  if (error._tag === "SessionBusy") return make(409, "session_busy", message)
  if (error._tag === "InvalidOutput" && error.exit === "suspended") return make(409, "run_suspended", message)
  // A client that asks again would pay for the same corrections again, and clients retry after 500.
  return error._tag === "InvalidOutput"
    ? make(422, "invalid_output", message)
    : make(error._tag === "InvalidInput" ? 400 : 500, "turn_failed", message)
}

/** Converts an error of an answer to a suspended run. Nothing was stored. */
export const fromQuestionError = (error: QuestionError): ApiError => {
  const message = Redaction.redactText(error.message)
  switch (error._tag) {
    case "QuestionUnknown":
      return make(404, "question_unknown", message)
    case "QuestionAnswered":
      return make(409, "question_answered", message)
    case "QuestionClosed":
      return make(410, "question_closed", message)
    case "QuestionExpired":
      return make(410, "question_expired", message)
    case "AnswerInvalid":
      return make(400, "answer_invalid", message)
  }
}

/** Maximum number of characters of a message, which may quote the request, and of a field's name. */
const longestMessage = 2_000
const longestName = 200

/** Returns the body of an error response. */
export const toBody = ({ code, message, param, status }: ApiError): typeof ErrorBody.Type => ({
  error: {
    message: TextCut.shorten(message, longestMessage),
    type: status >= 500 ? "server_error" : status === 401 ? "authentication_error" : "invalid_request_error",
    code,
    param: param === undefined ? null : TextCut.shorten(param, longestName)
  }
})

/**
 * Makes the response for an error. OpenAI clients retry after status 409. This is useful only if another request is
 * active.
 */
export const toResponse = (error: ApiError): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.jsonUnsafe(toBody(error), {
    status: error.status,
    headers: {
      ...(error.status === 401 ? { "www-authenticate": 'Bearer realm="hermes"' } : {}),
      ...(error.status === 409 ? { "x-should-retry": error.code === "rollout_busy" ? "true" : "false" } : {}),
      ...(error.code === "allowance_exhausted" ? { "x-should-retry": "false" } : {}),
      ...(error.retryAfter === undefined ? {} : { "retry-after": String(error.retryAfter) }),
      ...(error.status === 503 ? { "retry-after": "1" } : {})
    }
  })

/** Converts an error of the store to an error for the client. */
export const toStoreError = (error: { readonly message: string }): ApiError => make(500, "store_failed", error.message)
