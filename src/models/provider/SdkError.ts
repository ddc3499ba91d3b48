/**
 * Converts errors thrown by the OpenAI and Anthropic SDKs, and error objects inside answers, to `AiError`s with an
 * exact reason. It does not decide about retries, but retains the facts that such a decision needs.
 *
 * **Details**
 *
 * `AiError.reasonFromHttpStatus` provides the initial reason; the code, type and message in the body refine it
 * (`hermes-llm.md` §16.2 to §16.4). The reason's `metadata` holds `status`, `requestId`, `code`, `type`, `param` and
 * `retryAfterMillis` as far as the provider returned them; `http` holds status, headers and a bounded copy of the body.
 * Headers that contain credentials are omitted.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as AiError from "effect/ai/AiError"
import * as Json from "../../base/domain/Json.ts"
import { redactStart, redactText } from "../../base/domain/Redaction.ts"
import * as NetworkFailure from "./NetworkFailure.ts"

/** Describes the call in which a failure occurred. */
export interface Context {
  readonly module: string
  readonly method: string
  /** Base URL of the route; `undefined` if the SDK's default is used. */
  readonly url: string | undefined
  readonly model: string
}

/** Describes a call, with the clock used to interpret `retry-after` dates. */
export interface TimedContext extends Context {
  readonly clock: Clock.Clock
}

/** A failure reported by an API, in a form common to all APIs. */
interface Failure {
  readonly status: number | undefined
  readonly message: string
  readonly code: string
  readonly type: string
  readonly param: string | undefined
  readonly requestId: string | undefined
  readonly retryAfter: Duration.Duration | undefined
  readonly http: typeof AiError.HttpContext.Type
}

/** Returns the value of a header; the name is in lower case. */
type GetHeader = (name: string) => string | undefined

/**
 * Reads `retry-after-ms`, otherwise `retry-after`, which is a number of seconds or a date. A date is compared with the
 * server's `date` header, so that a wrong local clock does not matter, or with the time of `clock` if that header is
 * missing. Past dates and invalid numbers are ignored.
 */
export const readRetryAfter = (get: GetHeader, clock: Clock.Clock): Duration.Duration | undefined => {
  const millis = Number.parseFloat(get("retry-after-ms") ?? "")
  if (millis >= 0) return Duration.millis(millis)
  const value = get("retry-after")?.trim()
  if (value === undefined || value === "") return undefined
  const seconds = Number(value)
  if (!Number.isNaN(seconds)) return seconds >= 0 ? Duration.millis(seconds * 1_000) : undefined
  const at = Date.parse(value)
  const sentAt = Date.parse(get("date") ?? "")
  const wait = at - (Number.isNaN(sentAt) ? clock.currentTimeMillisUnsafe() : sentAt)
  return wait >= 0 ? Duration.millis(wait) : undefined
}

const maxBody = 4_000
const maxMessage = 500
const sensitive = /authorization|cookie|api-?key|secret|password|credential|(^|[-_])token$/i

const toOneLine = (text: string): string => {
  const title = /<title[^<>]*>([^<]*)<\/title>/i.exec(text)?.[1]
  const plain = title === undefined ? text.replaceAll(/<[^<>]*>/g, " ") : `HTML page "${title.trim()}"`
  const line = plain.replaceAll(/\s+/g, " ").trim()
  return line.length > maxMessage ? `${redactStart(line, maxMessage)}…` : redactText(line)
}

const collectHeaders = (headers: unknown): Record<string, string> => {
  const out: Record<string, string> = {}
  if (!Predicate.hasProperty(headers, "forEach") || typeof headers.forEach !== "function") return out
  headers.forEach((value: unknown, name: unknown) => {
    if (typeof name === "string" && typeof value === "string") out[name.toLowerCase()] = value
  })
  return out
}

/** Returns the object that describes the error: the `error` field of the body, or the body itself. */
const findErrorObject = (body: unknown): unknown => {
  const { error } = Json.readFields(body)
  return error === undefined || error === null ? body : error
}

/** Reads the upstream provider's error message, which OpenRouter wraps in `metadata.raw`. */
const readWrappedMessage = (error: Json.Fields): string => {
  const { raw } = Json.readFields(error["metadata"])
  return raw === undefined ? "" : typeof raw === "string" ? raw : JSON.stringify(raw)
}

const readMessage = (error: unknown): string => {
  if (typeof error === "string") return error
  const fields = Json.readFields(error)
  const own = Json.readWord(fields["message"]) || Json.readWord(fields["detail"]) || Json.readWord(fields["error"])
  const inner = readWrappedMessage(fields)
  return inner === "" || own.includes(inner) ? own : `${own}: ${inner}`
}

const readFailure = (input: {
  readonly status: number | undefined
  readonly body: unknown
  readonly headers: Readonly<Record<string, string>>
  readonly retryAfter: Duration.Duration | undefined
  readonly text: string
}): Failure => {
  const error = findErrorObject(input.body)
  const fields = Json.readFields(error)
  const { headers, retryAfter } = input
  const code = Json.readWord(fields["code"])
  const status = input.status ?? (/^[45]\d\d$/.test(code) ? Number(code) : undefined)
  const shown = Object.fromEntries(Object.entries(headers).filter(([name]) => !sensitive.test(name)))
  const body = input.body === undefined || input.body === null ? input.text : JSON.stringify(input.body)
  return {
    status,
    message: toOneLine(readMessage(error) || input.text),
    code,
    type: Json.readWord(fields["type"]) || Json.readWord(Json.readFields(input.body)["type"]),
    param: Json.readWord(fields["param"]) || undefined,
    requestId:
      headers["x-request-id"] ??
      headers["request-id"] ??
      (Json.readWord(Json.readFields(input.body)["request_id"]) || undefined),
    retryAfter,
    http: {
      ...(status === undefined ? {} : { response: { status, headers: shown } }),
      ...(body === "" ? {} : { body: redactStart(body, maxBody) })
    }
  }
}

const buildMetadata = (failed: Failure): AiError.ProviderMetadata => ({
  ...(failed.status === undefined ? {} : { status: failed.status }),
  ...(failed.requestId === undefined ? {} : { requestId: failed.requestId }),
  ...(failed.code === "" ? {} : { code: failed.code }),
  ...(failed.type === "" ? {} : { type: failed.type }),
  ...(failed.param === undefined ? {} : { param: failed.param }),
  ...(failed.retryAfter === undefined ? {} : { retryAfterMillis: Duration.toMillis(failed.retryAfter) })
})

const quotaCode = /insufficient_quota|billing|payment_required|insufficient_balance|credits?_exhausted/
const quotaText =
  /insufficient (credits|balance|funds)|insufficient_quota|credit balance|credits have been exhausted|top up your credits|payment required|billing hard limit|can only afford|account is deactivated|plan does not include|(key|spending) limit exceeded/
/** Some providers also use this wording for per-minute limits, with status 429. */
const ambiguousQuotaText = /exceeded your current quota/
const usageText = /usage limit|quota|limit exceeded/
const transientText = /try again|retry|resets at|reset in|\bwait\b|requests remaining|periodic|window/
const policyCode = /content_filter|content_policy|moderation_blocked|safety/
const policyText = /content management policy|content policy|usage polic|safety system|flagged (as|for|by)/
const rateCode = /rate_limit|throttl|resource_exhausted|too_many_requests/
const overloadCode = /overloaded|server_error|internal|api_error|unavailable|timeout/
const modelText = /model/

/** Infers the HTTP status of a failure that has only a code or type, such as an error event in a stream. */
const inferStatus = (name: string): number | undefined => {
  if (rateCode.test(name)) return 429
  if (/authentication|invalid_api_key/.test(name)) return 401
  if (/permission/.test(name)) return 403
  if (/not_found/.test(name)) return 404
  if (overloadCode.test(name)) return 500
  if (/invalid_request|invalid_prompt|context_length|max_tokens|request_too_large|bad_request/.test(name)) return 400
  return undefined
}

const classifyKeyError = (text: string): "ExpiredKey" | "MissingKey" | "InvalidKey" =>
  /expired/.test(text)
    ? "ExpiredKey"
    : /(no|missing|without) (api|auth)|(not|n't) provide|must provide|is required/.test(text)
      ? "MissingKey"
      : "InvalidKey"

/** A failure with the facts that determine its reason. */
interface FailureFacts {
  readonly failed: Failure
  readonly context: Context
  /** Error message in lower case. */
  readonly text: string
  /** Error code and type in lower case. */
  readonly name: string
  /** HTTP status of the failure. If the failure has no status, it is inferred from the name. */
  readonly status: number | undefined
  /** Fields that are included in every reason. */
  readonly common: Pick<Failure, "http"> & { readonly metadata: AiError.ProviderMetadata }
}

const collectFailureFacts = (failed: Failure, context: Context): FailureFacts => {
  const name = `${failed.code} ${failed.type}`.toLowerCase()
  return {
    failed,
    context,
    text: failed.message.toLowerCase(),
    name,
    status: failed.status ?? inferStatus(name),
    common: { http: failed.http, metadata: buildMetadata(failed) }
  }
}

const makeInvalidRequest = (
  { common, failed }: FailureFacts,
  description: string,
  parameter = failed.param
): AiError.InvalidRequestError =>
  new AiError.InvalidRequestError({ ...common, description, ...(parameter === undefined ? {} : { parameter }) })

const makeRateLimit = ({ common, failed }: FailureFacts): AiError.RateLimitError =>
  new AiError.RateLimitError({
    ...common,
    ...(failed.retryAfter === undefined ? {} : { retryAfter: failed.retryAfter })
  })

/**
 * Returns the reason for a failure whose wording is more specific than its status, such as an exhausted quota or
 * refused content.
 */
const classifyWording = (facts: FailureFacts): AiError.AiErrorReason | undefined => {
  const { common, failed, name, status, text } = facts
  if (status === 402 && usageText.test(text) && transientText.test(text)) return makeRateLimit(facts)
  const refusal = failed.status === undefined || failed.status < 500
  const spent = quotaText.test(text) || (status !== 429 && ambiguousQuotaText.test(text))
  if (status === 402 || quotaCode.test(name) || (refusal && spent)) return new AiError.QuotaExhaustedError(common)
  return policyCode.test(name) || (refusal && policyText.test(text))
    ? new AiError.ContentPolicyError({ ...common, description: failed.message || "the provider refused the content" })
    : undefined
}

const classifyNotFound = (facts: FailureFacts): AiError.AiErrorReason => {
  const { context, failed, name, text } = facts
  const { message } = failed
  const host = NetworkFailure.formatHost(context.url)
  return modelText.test(`${name} ${text}`)
    ? makeInvalidRequest(
        facts,
        `${host} has no model "${context.model}"${message === "" ? "" : `: ${message}`}`,
        "model"
      )
    : makeInvalidRequest(
        facts,
        `${host} has nothing at this address${message === "" ? "" : ` (${message})`}: check the base URL`
      )
}

/** Returns the reason for a failure with a status below 500. */
const classifyStatus = (facts: FailureFacts, status: number): AiError.AiErrorReason => {
  const { common, context, failed, text } = facts
  const { message } = failed
  switch (status) {
    case 401:
      return new AiError.AuthenticationError({ ...common, kind: classifyKeyError(text), description: message })
    case 404:
      return classifyNotFound(facts)
    case 408:
    case 409:
    case 425:
      return new AiError.InternalProviderError({ ...common, description: message || `HTTP ${status}` })
    case 413:
      return makeInvalidRequest(facts, message || "the request is too large")
    case 429:
      return makeRateLimit(facts)
    default:
      if (status < 400) {
        const host = NetworkFailure.formatHost(context.url)
        return makeInvalidRequest(
          facts,
          `${host} answers with a redirect (HTTP ${status}): set the base URL to its target`
        )
      }
      return status === 400 || status === 403
        ? AiError.reasonFromHttpStatus({ ...common, status, description: message || undefined })
        : makeInvalidRequest(facts, message || `HTTP ${status}`)
  }
}

const classifyFailure = (failed: Failure, context: Context): AiError.AiErrorReason => {
  const facts = collectFailureFacts(failed, context)
  const { common, status } = facts
  const worded = classifyWording(facts)
  if (worded !== undefined) return worded
  if (status !== undefined && status < 500) return classifyStatus(facts, status)
  const description = failed.message || (status === undefined ? "the provider reported an error" : `HTTP ${status}`)
  return new AiError.InternalProviderError({ ...common, description })
}

/** Converts an error object received in a body with status 200, or as an event of a stream, to an `AiError`. */
export const fromBody = (options: Context & { readonly body: unknown }): AiError.AiError =>
  AiError.make({
    module: options.module,
    method: options.method,
    reason: classifyFailure(
      readFailure({ status: undefined, body: options.body, headers: {}, retryAfter: undefined, text: "" }),
      options
    )
  })

/** Creates the error for an answer that violates the protocol. */
export const makeInvalidResponse = (options: Context & { readonly description: string; readonly body?: unknown }) =>
  AiError.make({
    module: options.module,
    method: options.method,
    reason: new AiError.InvalidResponseError({
      description: options.description,
      ...(options.body === undefined
        ? {}
        : {
            http: {
              body: redactStart(
                typeof options.body === "string" ? options.body : (JSON.stringify(options.body) ?? ""),
                maxBody
              )
            }
          })
    })
  })

/** Returns a function that takes a description and creates the failure for an invalid body. */
export const failInvalidBody =
  (body: unknown, context: Context) =>
  (description: string): Result.Result<never, AiError.AiError> =>
    Result.fail(makeInvalidResponse({ ...context, description, body }))

/** Creates the error for a stream that ended before the answer was complete. */
export const makeCutStreamError = (context: Context): AiError.AiError =>
  AiError.make({
    module: context.module,
    method: context.method,
    reason: NetworkFailure.makeNetworkReason(
      Object.assign(new Error("the stream ended before the answer was complete"), { code: "ECONNRESET" }),
      context.url
    )
  })

const classifyPlainError = (error: Error, context: Context): AiError.AiErrorReason => {
  const { message } = error
  if (/could not resolve authentication|missing credentials/i.test(message)) {
    return new AiError.AuthenticationError({ kind: "MissingKey" })
  }
  if (error instanceof SyntaxError) {
    return new AiError.InvalidResponseError({ description: `the answer is not JSON: ${toOneLine(message)}` })
  }
  // The message of this error is not passed on, because it contains the header's value, which may be the API key.
  if (/invalid header value|header content|Headers\.(append|set)|ByteString/i.test(message)) {
    return new AiError.InvalidRequestError({
      description:
        "the API key or a header has a character that HTTP does not allow, such as a line break: set it again"
    })
  }
  return NetworkFailure.makeNetworkReason(error, context.url)
}

/** Converts an error thrown by an SDK call to an `AiError`. */
export const fromSdk = (options: TimedContext & { readonly error: unknown }): AiError.AiError => {
  const { error } = options
  if (AiError.isAiError(error)) return error
  const fields = Json.readFields(error)
  const status = typeof fields["status"] === "number" ? fields["status"] : undefined
  const body = fields["error"]
  const text = error instanceof Error ? error.message.replace(/^\d{3} (status code \(no body\))?/, "") : String(error)
  const classifyAnswer = (): AiError.AiErrorReason => {
    const headers = collectHeaders(fields["headers"])
    const retryAfter = readRetryAfter((name) => headers[name], options.clock)
    return classifyFailure(readFailure({ status, body, headers, retryAfter, text }), options)
  }
  const reason =
    status !== undefined || (body !== undefined && body !== null)
      ? classifyAnswer()
      : classifyPlainError(error instanceof Error ? error : new Error(text), options)
  return AiError.make({ module: options.module, method: options.method, reason })
}
