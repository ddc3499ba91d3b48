/**
 * Decides whether a failure matches the user's trigger: by its HTTP status, or by the error name in an SDK.
 *
 * **Details**
 *
 * Status and names are read from the error and from all errors that it wraps. Possible names are the tags of effect's
 * reasons, the error classes of the OpenAI and Anthropic SDKs (for Python and TypeScript, including parent classes),
 * and the code and type in the provider's body. A failure without a status (an event inside a stream) gets the usual
 * status of its kind.
 *
 * **Gotchas**
 *
 * The reference implementation compares the exact class name, so the name of a parent class never matches there.
 *
 * Source: `nexau.md` §2.3.
 */
import * as AiError from "effect/ai/AiError"
import type { Trigger } from "./Options.ts"

/** Names that the SDKs use for errors with an HTTP status, by status. */
const statusNames: Readonly<Record<number, ReadonlyArray<string>>> = {
  400: ["BadRequestError"],
  401: ["AuthenticationError"],
  402: ["PaymentRequiredError"],
  403: ["PermissionDeniedError"],
  404: ["NotFoundError"],
  408: ["RequestTimeoutError"],
  409: ["ConflictError"],
  413: ["RequestTooLargeError"],
  422: ["UnprocessableEntityError"],
  429: ["RateLimitError"],
  503: ["ServiceUnavailableError"],
  504: ["DeadlineExceededError"],
  529: ["OverloadedError"]
}

const maxDepth = 8

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** Returns an error and the errors that it wraps, outermost first. */
const listChain = (error: unknown): ReadonlyArray<unknown> => {
  const found = new Set<unknown>()
  const visit = (value: unknown, depth: number): void => {
    if (!isObject(value) || depth > maxDepth || found.has(value)) return
    found.add(value)
    // A failure translated by a plain function has the parts `downstream` and `thrown`.
    for (const name of ["reason", "cause", "error", "downstream", "thrown"]) visit(value[name], depth + 1)
  }
  visit(error, 0)
  return [...found]
}

const readOwnStatus = (error: unknown): number | undefined => {
  if (!isObject(error)) return undefined
  const { http, metadata, status, statusCode, status_code } = error
  const response = isObject(http) && isObject(http["response"]) ? http["response"]["status"] : undefined
  const noted = isObject(metadata) ? metadata["status"] : undefined
  return [status, statusCode, status_code, response, noted].find((value) => typeof value === "number")
}

const findImpliedStatus = (reason: AiError.AiErrorReason): number | undefined => {
  switch (reason._tag) {
    case "RateLimitError":
      return 429
    case "QuotaExhaustedError":
      return 402
    case "AuthenticationError":
      return reason.kind === "InsufficientPermissions" ? 403 : 401
    case "InternalProviderError":
      return /overloaded/i.test(String(reason.metadata["type"])) ? 529 : 500
    default:
      return undefined
  }
}

const isTimeout = ({ description }: AiError.NetworkError): boolean =>
  /did not answer within|in time|timed out|timeout/.test(description ?? "")

const isSilence = ({ description }: AiError.NetworkError): boolean =>
  /stale|silent|idle|nothing (more )?came/.test(description ?? "")

const listReasonNames = (reason: AiError.AiErrorReason): ReadonlyArray<string> => {
  switch (reason._tag) {
    case "NetworkError":
      return [
        "APIError",
        "APIConnectionError",
        "ConnectionError",
        ...(isTimeout(reason) ? ["APITimeoutError", "APIConnectionTimeoutError", "TimeoutError"] : []),
        ...(isSilence(reason) ? ["StreamIdleTimeoutError"] : [])
      ]
    case "InvalidResponseError":
    case "InvalidOutputError":
      return ["APIResponseValidationError", "RuntimeError"]
    default:
      return []
  }
}

const listStatusNames = (status: number): ReadonlyArray<string> => [
  "APIError",
  "APIStatusError",
  ...(statusNames[status] ?? []),
  ...(status >= 500 ? ["InternalServerError"] : [])
]

const listClassNames = (error: object): ReadonlyArray<string> => {
  const names: Array<string> = []
  for (let at: unknown = error; isObject(at); at = Object.getPrototypeOf(at)) {
    const name: unknown = at.constructor?.name
    if (typeof name === "string" && name !== "Object") names.push(name)
  }
  return names
}

const readWords = (value: Readonly<Record<string, unknown>>): ReadonlyArray<string> => {
  const metadata = isObject(value["metadata"]) ? value["metadata"] : {}
  return [value["_tag"], value["name"], value["code"], value["type"], metadata["code"], metadata["type"]].filter(
    (word) => typeof word === "string"
  )
}

const isReason = (value: unknown): value is AiError.AiErrorReason =>
  isObject(value) && typeof value["_tag"] === "string" && "isRetryable" in value && !AiError.isAiError(value)

/** Returns the status and names of one error of the chain. */
const describeFailure = (
  error: unknown
): { readonly status: number | undefined; readonly names: ReadonlyArray<string> } => {
  if (!isObject(error)) return { status: undefined, names: [] }
  const reason = isReason(error) ? error : undefined
  const status = readOwnStatus(error) ?? (reason === undefined ? undefined : findImpliedStatus(reason))
  return {
    status,
    names: [
      ...listClassNames(error),
      ...readWords(error),
      ...(reason === undefined ? [] : listReasonNames(reason)),
      ...(status === undefined ? [] : listStatusNames(status))
    ]
  }
}

/** Tests whether an error matches the trigger. */
export const matches = ({ exceptionTypes, statusCodes }: Trigger, error: unknown): boolean =>
  listChain(error).some((value) => {
    const { names, status } = describeFailure(value)
    return (status !== undefined && statusCodes.has(status)) || names.some((name) => exceptionTypes.has(name))
  })
