/**
 * Errors of the server in the format of Anthropic's API: `{ "type": "error", "error": { "type", "message" } }`. The
 * code and the refused field are added, as in {@link ApiError.toBody}.
 *
 * Source: Anthropic API reference, errors.
 */
import * as Schema from "effect/Schema"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as ApiError from "./ApiError.ts"
import { statuses } from "./OpenAiShapes.ts"

const types: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error"
}

/** Body of an error response. */
const ErrorBody = Schema.Struct({
  type: Schema.Literal("error"),
  error: ApiError.ErrorBody.fields.error,
  request_id: Schema.Null
})

/** Error responses of the endpoints of this API. */
export const errors = statuses.map((status) => ErrorBody.pipe(HttpApiSchema.status(status)))

/** Returns the body of an error response. */
export const toBody = (error: ApiError.ApiError): typeof ErrorBody.Type => ({
  type: "error",
  error: {
    ...ApiError.toBody(error).error,
    type: types[error.status] ?? (error.status >= 500 ? "api_error" : "invalid_request_error")
  },
  request_id: null
})

const isAnthropic = (url: string): boolean => /^\/v1\/messages(?:[/?]|$)/u.test(url)

/** Makes the response for an error of a request, in the format of the API that the address belongs to. */
export const respondTo = (url: string, error: ApiError.ApiError): HttpServerResponse.HttpServerResponse => {
  const response = ApiError.toResponse(error)
  return isAnthropic(url)
    ? HttpServerResponse.jsonUnsafe(toBody(error), { status: response.status, headers: response.headers })
    : response
}
