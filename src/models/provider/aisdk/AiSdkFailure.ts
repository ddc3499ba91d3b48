/**
 * Converts failures of an AI SDK model to `AiError`. HTTP failures are classified by status and body, others by the AI
 * SDK's error name.
 *
 * **Details**
 *
 * A failure without a status (no connection, an incomplete body) is classified by its cause. If the cause is unknown
 * and the AI SDK would retry, the failure is a transient provider error. Errors are distinguished by name and not by
 * class, because the package is not loaded for this purpose, and an application may have several versions of it.
 */
import * as AiError from "effect/ai/AiError"
import * as Json from "../../../base/domain/Json.ts"
import { redactText } from "../../../base/domain/Redaction.ts"
import * as SdkError from "../SdkError.ts"

const invalidRequests = new Set([
  "AI_UnsupportedFunctionalityError",
  "AI_InvalidPromptError",
  "AI_InvalidArgumentError",
  "AI_LoadSettingError",
  "AI_NoSuchProviderReferenceError"
])

const invalidAnswers = new Set([
  "AI_EmptyResponseBodyError",
  "AI_InvalidResponseDataError",
  "AI_JSONParseError",
  "AI_TypeValidationError",
  "AI_NoContentGeneratedError"
])

/** Converts the failure of an HTTP call. The response body is more specific than the error message. */
const fromCallError = (error: Error, context: SdkError.TimedContext): AiError.AiError => {
  const { data, isRetryable, responseBody, responseHeaders, statusCode, url } = Json.readFields(error)
  const at = typeof url === "string" && URL.canParse(url) ? new URL(url).origin : context.url
  if (typeof statusCode === "number") {
    const body = typeof responseBody === "string" ? Json.parseOrKeep(responseBody) : data
    const headers = new Headers(
      Object.entries(Json.readFields(responseHeaders)).flatMap(([name, value]): Array<[string, string]> =>
        typeof value === "string" ? [[name, value]] : []
      )
    )
    const known = Object.assign(new Error(error.message), {
      status: statusCode,
      error: Json.isFields(body) ? (body["error"] ?? body) : body,
      headers
    })
    return SdkError.fromSdk({ ...context, url: at, error: known })
  }
  const found = SdkError.fromSdk({ ...context, url: at, error: error.cause instanceof Error ? error.cause : error })
  return isRetryable !== true || found.isRetryable
    ? found
    : AiError.make({
        module: context.module,
        method: context.method,
        reason: new AiError.InternalProviderError({ description: redactText(error.message) })
      })
}

/** Converts an error that a model call threw or that its stream reported. */
export const fromAiSdk = (thrown: unknown, context: SdkError.TimedContext): AiError.AiError => {
  const error = thrown instanceof Error ? thrown : new Error(typeof thrown === "string" ? thrown : Json.toText(thrown))
  const { name } = error
  const makeFailure = (reason: AiError.AiErrorReason): AiError.AiError =>
    AiError.make({ module: context.module, method: context.method, reason })
  const description = redactText(error.message)
  if (name === "AI_APICallError") return fromCallError(error, context)
  if (name === "AI_LoadAPIKeyError")
    return makeFailure(new AiError.AuthenticationError({ kind: "MissingKey", description }))
  if (name === "AI_NoSuchModelError")
    return makeFailure(new AiError.InvalidRequestError({ parameter: "model", description }))
  if (invalidRequests.has(name)) return makeFailure(new AiError.InvalidRequestError({ description }))
  if (invalidAnswers.has(name)) return makeFailure(new AiError.InvalidResponseError({ description }))
  return SdkError.fromSdk({
    ...context,
    error:
      thrown instanceof Error ? thrown : Json.isFields(thrown) ? Object.assign(new Error(""), { error: thrown }) : error
  })
}
