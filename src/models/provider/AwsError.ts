/**
 * Converts errors thrown by the AWS SDK to `AiError`s with an exact reason.
 *
 * **Details**
 *
 * The reason is determined by the error's name, or by the HTTP status if the name is unknown. The reason's `metadata`
 * has the keys that the other providers use: `status`, `requestId`, `retryAfterMillis`, `type` (the name), and `code`,
 * which is `context_length_exceeded` if the error message says that the input is too long.
 *
 * Source: `hermes-llm.md` §4.4 and §16.
 */
import * as Duration from "effect/Duration"
import * as Predicate from "effect/Predicate"
import * as AiError from "effect/ai/AiError"
import * as Json from "../../base/domain/Json.ts"
import { redactStart } from "../../base/domain/Redaction.ts"
import * as NetworkFailure from "./NetworkFailure.ts"
import * as SdkError from "./SdkError.ts"

/** The region, endpoint and model that a failed call addressed. */
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

/** A failure with the facts that determine its reason. */
interface AwsFailureFacts {
  readonly error: Error
  /** Code of a network failure, such as `ECONNRESET`. */
  readonly code: unknown
  readonly message: string
  readonly status: number | undefined
  readonly place: AwsContext
  readonly retryAfter: Duration.Duration | undefined
  /** Fields that every reason derived from an HTTP response has. */
  readonly common: { readonly metadata: AiError.ProviderMetadata; readonly http: typeof AiError.HttpContext.Type }
}

const collectFailureFacts = (error: Error, place: AwsContext): AwsFailureFacts => {
  const fields = Json.readFields(error)
  const answer = Json.readFields(fields["$metadata"])
  const response = Json.readFields(fields["$response"])
  // An answer that cannot be parsed has its status only in the response.
  const status = [answer["httpStatusCode"], response["statusCode"]].find((code) => typeof code === "number")
  const requestId = Json.readWord(answer["requestId"])
  const message = toOneLine(error.message)
  const isTooLong = error.name === "ValidationException" && tooLong.test(message)
  const headers = Json.readFields(response["headers"])
  const retryAfter = SdkError.readRetryAfter((name) => Json.readString(headers[name]), place.clock)
  const common = {
    metadata: {
      type: error.name,
      ...(status === undefined ? {} : { status }),
      ...(requestId === "" ? {} : { requestId }),
      ...(isTooLong ? { code: "context_length_exceeded" } : {}),
      ...(retryAfter === undefined ? {} : { retryAfterMillis: Duration.toMillis(retryAfter) })
    },
    http: { body: message, ...(status === undefined ? {} : { response: { status, headers: {} } }) }
  }
  return { error, code: fields["code"], message, status, place, retryAfter, common }
}

const makeInvalidRequest = (
  { common }: AwsFailureFacts,
  description: string,
  parameter?: string
): AiError.InvalidRequestError =>
  new AiError.InvalidRequestError({ ...common, description, ...(parameter === undefined ? {} : { parameter }) })

const makeMissingModel = (facts: AwsFailureFacts): AiError.InvalidRequestError =>
  makeInvalidRequest(facts, `${facts.place.region} serves no model "${facts.place.model}": ${facts.message}`, "model")

const makeRateLimit = ({ common, retryAfter }: AwsFailureFacts): AiError.RateLimitError =>
  new AiError.RateLimitError({ ...common, ...(retryAfter === undefined ? {} : { retryAfter }) })

const makeAuthenticationError = (
  { common }: AwsFailureFacts,
  kind: AiError.AuthenticationError["kind"],
  description: string
): AiError.AuthenticationError => new AiError.AuthenticationError({ ...common, kind, description })

/** Returns the reason for a failure whose name is known, otherwise `undefined`. */
const classifyName = (facts: AwsFailureFacts): AiError.AiErrorReason | undefined => {
  const { common, error, message, place, status } = facts
  const { name } = error
  if (withoutCredentials.has(name)) {
    return makeAuthenticationError(facts, "MissingKey", `no AWS credentials (${message}): ${credentialsRemedy}`)
  }
  if (expired.has(name)) {
    const description = `${message}: renew them, for example with \`aws sso login\``
    return makeAuthenticationError(facts, "ExpiredKey", description)
  }
  if (unknownKey.has(name)) return makeAuthenticationError(facts, "InvalidKey", message)
  if (overloaded.has(name)) return new AiError.InternalProviderError({ ...common, description: message || name })
  if (rateLimited.has(name)) return makeRateLimit(facts)
  if (name === "AccessDeniedException" || status === 403) {
    const description = `${message}: allow ${permissions}, and enable "${place.model}" in ${place.region}`
    return makeAuthenticationError(facts, "InsufficientPermissions", description)
  }
  if (name === "ResourceNotFoundException") return makeMissingModel(facts)
  if (name !== "ValidationException") return undefined
  return noModel.test(message) ? makeMissingModel(facts) : makeInvalidRequest(facts, message)
}

/** Returns the reason for a failure without an HTTP response. */
const classifyUnanswered = (facts: AwsFailureFacts): AiError.AiErrorReason => {
  const { code, error, message, place } = facts
  if (error instanceof SyntaxError) {
    return new AiError.InvalidResponseError({ description: `the answer is not what Converse answers: ${message}` })
  }
  if (unwritable.test(message) || (error instanceof TypeError && code === undefined)) {
    return makeInvalidRequest(facts, `the request cannot be written: ${message}`)
  }
  return /truncated event message/i.test(message)
    ? NetworkFailure.makeNetworkReason(Object.assign(new Error(message), { code: "ECONNRESET" }), place.url)
    : NetworkFailure.makeNetworkReason(error, place.url)
}

/** Describes a failure of the server: its status, its place, and its message, if it sent one that can be read. */
const describeServerFailure = ({ error, message, place }: AwsFailureFacts, status: number): string => {
  const said =
    error instanceof SyntaxError ? "with an answer that is not JSON" : message === "UnknownError" ? "" : message
  const from = `HTTP ${status} from Bedrock in ${place.region} (${place.model})`
  return said === "" ? `${from} without a message` : `${from}: ${said}`
}

/** Returns the reason for a failure according to its HTTP status. */
const classifyStatus = (facts: AwsFailureFacts, status: number): AiError.AiErrorReason => {
  const { common, error, message } = facts
  if (status < 300 || (status < 500 && error instanceof SyntaxError)) {
    const description = `the answer is not what Converse answers: ${message}`
    return new AiError.InvalidResponseError({ ...common, description })
  }
  if (status === 401) return makeAuthenticationError(facts, "InvalidKey", message)
  if (status === 429 || exhausted.test(message)) return makeRateLimit(facts)
  if (status === 404) return makeMissingModel(facts)
  return status >= 500 || status === 408 || status === 424
    ? new AiError.InternalProviderError({ ...common, description: describeServerFailure(facts, status) })
    : makeInvalidRequest(facts, message || `HTTP ${status}`)
}

const classifyAwsError = (error: Error, place: AwsContext): AiError.AiErrorReason => {
  const facts = collectFailureFacts(error, place)
  const { status } = facts
  return classifyName(facts) ?? (status === undefined ? classifyUnanswered(facts) : classifyStatus(facts, status))
}

/** Converts an error thrown by the AWS SDK to an `AiError`. */
export const fromSdk = (error: unknown, place: AwsContext): AiError.AiError =>
  AiError.make({
    module: place.module,
    method: place.method,
    reason: classifyAwsError(Predicate.isError(error) ? error : new Error(String(error)), place)
  })
