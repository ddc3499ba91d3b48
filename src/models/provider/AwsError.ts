/**
 * Turns what the AWS SDK throws into `AiError`s with an exact reason.
 *
 * **Details**
 *
 * AWS names its failures; the name decides, and the HTTP status where the name is unknown. The reason's `metadata` has
 * the keys that the other providers use: `status`, `requestId`, `retryAfterMillis`, `type` (the name), and `code`,
 * which is `context_length_exceeded` where the wording says that the input was too long.
 *
 * Source: `hermes-llm.md` §4.4 and §16.
 */
import * as Duration from "effect/Duration"
import * as Predicate from "effect/Predicate"
import * as AiError from "effect/ai/AiError"
import * as Json from "../../base/domain/Json.ts"
import { redactStart } from "../../base/domain/Redaction.ts"
import * as SdkError from "./SdkError.ts"

/** The place and the model that were asked. */
export interface AwsContext extends SdkError.TimedContext {
  readonly region: string
}

const tooLong =
  /too many (input )?tokens|(input|prompt) is too long|exceeds? the (model|maximum)|max(imum)? input tokens?|context (length|window|limit)/i
const noModel =
  /model identifier is invalid|could not resolve the foundation model|end of its life|no such model|on-demand throughput/i
const unwritable = /no value provided for input|cannot be null or undefined/i
const exhausted = /quota|too many (requests|tokens|concurrent)|throttl|rate exceeded/i

const rateLimited = new Set(["ThrottlingException", "ServiceQuotaExceededException", "TooManyRequestsException"])
const overloaded = new Set([
  "ModelNotReadyException",
  "ModelTimeoutException",
  "ModelErrorException",
  "ModelStreamErrorException",
  "ServiceUnavailableException",
  "InternalServerException"
])
const expired = new Set(["ExpiredTokenException", "ExpiredToken", "RequestExpired"])
const unknownKey = new Set([
  "UnrecognizedClientException",
  "InvalidSignatureException",
  "IncompleteSignature",
  "InvalidClientTokenId",
  "MissingAuthenticationTokenException"
])
const withoutCredentials = new Set(["CredentialsProviderError", "TokenProviderError"])

const credentialsRemedy =
  "run `aws configure` or `aws sso login`, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a Bedrock API key"

const permissions = "bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream"

const maxMessage = 500

const toOneLine = (text: string): string => redactStart(text.replaceAll(/\s+/g, " ").trim(), maxMessage)

const classifyAwsError = (error: Error, place: AwsContext): AiError.AiErrorReason => {
  const fields = Json.readFields(error)
  const answer = Json.readFields(fields["$metadata"])
  const status = typeof answer["httpStatusCode"] === "number" ? answer["httpStatusCode"] : undefined
  const requestId = Json.readWord(answer["requestId"])
  const message = toOneLine(error.message)
  const { name } = error
  const isTooLong = name === "ValidationException" && tooLong.test(message)
  const headers = Json.readFields(Json.readFields(fields["$response"])["headers"])
  const retryAfter = SdkError.readRetryAfter((name) => Json.readString(headers[name]), place.clock)
  const common = {
    metadata: {
      type: name,
      ...(status === undefined ? {} : { status }),
      ...(requestId === "" ? {} : { requestId }),
      ...(isTooLong ? { code: "context_length_exceeded" } : {}),
      ...(retryAfter === undefined ? {} : { retryAfterMillis: Duration.toMillis(retryAfter) })
    },
    http: { body: message, ...(status === undefined ? {} : { response: { status, headers: {} } }) }
  }
  const makeInvalidRequest = (description: string, parameter?: string): AiError.InvalidRequestError =>
    new AiError.InvalidRequestError({ ...common, description, ...(parameter === undefined ? {} : { parameter }) })
  const makeMissingModel = (): AiError.InvalidRequestError =>
    makeInvalidRequest(`${place.region} serves no model "${place.model}": ${message}`, "model")
  const makeRateLimit = (): AiError.RateLimitError =>
    new AiError.RateLimitError({ ...common, ...(retryAfter === undefined ? {} : { retryAfter }) })
  const makeAuthenticationError = (kind: AiError.AuthenticationError["kind"], description: string) =>
    new AiError.AuthenticationError({ ...common, kind, description })

  if (withoutCredentials.has(name)) {
    return makeAuthenticationError("MissingKey", `no AWS credentials (${message}): ${credentialsRemedy}`)
  }
  if (expired.has(name))
    return makeAuthenticationError("ExpiredKey", `${message}: renew them, for example with \`aws sso login\``)
  if (unknownKey.has(name)) return makeAuthenticationError("InvalidKey", message)
  if (overloaded.has(name)) return new AiError.InternalProviderError({ ...common, description: message || name })
  if (rateLimited.has(name)) return makeRateLimit()
  if (name === "AccessDeniedException" || status === 403) {
    return makeAuthenticationError(
      "InsufficientPermissions",
      `${message}: allow ${permissions}, and enable "${place.model}" in ${place.region}`
    )
  }
  if (name === "ResourceNotFoundException") return makeMissingModel()
  if (name === "ValidationException") return noModel.test(message) ? makeMissingModel() : makeInvalidRequest(message)
  if (status === undefined) {
    if (error instanceof SyntaxError) {
      return new AiError.InvalidResponseError({ description: `the answer is not what Converse answers: ${message}` })
    }
    if (unwritable.test(message) || (error instanceof TypeError && fields["code"] === undefined)) {
      return makeInvalidRequest(`the request cannot be written: ${message}`)
    }
    return /truncated event message/i.test(message)
      ? SdkError.makeNetworkReason(Object.assign(new Error(message), { code: "ECONNRESET" }), place.url)
      : SdkError.makeNetworkReason(error, place.url)
  }
  if (status < 300 || error instanceof SyntaxError) {
    const description = `the answer is not what Converse answers: ${message}`
    return new AiError.InvalidResponseError({ ...common, description })
  }
  if (status === 401) return makeAuthenticationError("InvalidKey", message)
  if (status === 429 || exhausted.test(message)) return makeRateLimit()
  if (status === 404) return makeMissingModel()
  return status >= 500 || status === 408 || status === 424
    ? new AiError.InternalProviderError({ ...common, description: message || `HTTP ${status}` })
    : makeInvalidRequest(message || `HTTP ${status}`)
}

/** The failure that the AWS SDK threw. */
export const fromSdk = (error: unknown, place: AwsContext): AiError.AiError =>
  AiError.make({
    module: place.module,
    method: place.method,
    reason: classifyAwsError(Predicate.isError(error) ? error : new Error(String(error)), place)
  })
