/**
 * Collects the evidence of a failure from an `AiError`. The classification rules use only this evidence.
 *
 * **Details**
 *
 * The following indicate a wrong address: an HTML page instead of JSON, a 404 that does not mention a model, a
 * redirect, a host name that does not exist, a certificate that is not accepted, another protocol on the port. Possibly
 * temporary failures are excluded: a refused connection (the server may be starting), a name server that does not
 * answer, a gateway page with a 5xx, an alert within a TLS connection.
 *
 * Source: `hermes-llm.md` §16.1, §16.3, except for its rule that an unknown 404 is retried.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as AiError from "effect/ai/AiError"
import * as Json from "../../../base/domain/Json.ts"
import * as Adaptation from "../Adaptation.ts"

/** Kinds of wrong addresses. */
export type WrongAddress = "not_found" | "html" | "redirect" | "name" | "certificate" | "protocol" | "url"

const readErrorCode = (cause: unknown): string =>
  Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : ""

const readErrorText = (cause: unknown): string => (cause instanceof Error ? cause.message : "")

const unknownNames: ReadonlySet<string> = new Set(["ENOTFOUND", "EAI_NONAME", "EAI_NODATA"])
const certificates =
  /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_(GET|VERIFY|DECRYPT|DECODE)|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA|PATH_LENGTH_EXCEEDED)/
const otherProtocol = /wrong version number|packet length too long|unknown protocol|http request/i

const classifyNetworkError = ({ cause, reason }: AiError.NetworkError): WrongAddress | undefined => {
  if (reason === "InvalidUrlError") return "url"
  const code = readErrorCode(cause)
  if (unknownNames.has(code)) return "name"
  if (certificates.test(code)) return "certificate"
  if (/^(HPE_|ERR_SSL_WRONG_VERSION|ERR_SSL_PACKET_LENGTH|ERR_SSL_HTTP_REQUEST)/.test(code)) return "protocol"
  return code === "EPROTO" && otherProtocol.test(readErrorText(cause)) ? "protocol" : undefined
}

const isPage = (text: string): boolean => /^\s*<(!doctype\s+html|html|head|body|\?xml|title)\b/i.test(text)

/** Returns the kind of wrong address, or `undefined` for any other failure. `status` is the HTTP status, if any. */
export const findWrongAddress = (
  reason: AiError.AiErrorReason,
  status: number | undefined
): WrongAddress | undefined => {
  if (reason._tag === "NetworkError") return classifyNetworkError(reason)
  if (status !== undefined && status >= 500) return undefined
  const http = "http" in reason ? reason.http : undefined
  if (status === 404) return "not_found"
  if (status !== undefined && status >= 300 && status < 400) return "redirect"
  // An error page with another 4xx status (from a login page or a firewall) is a refusal because of the key or a rate
  // limit, not a wrong address.
  const mayBePage = status === undefined || status < 400 || status === 405
  return mayBePage && http?.body !== undefined && isPage(http.body) ? "html" : undefined
}

/**
 * Describes the wrong address and the remedy. Returns `undefined` if the failure's message already does so and names
 * the host.
 */
const describeWrongAddress = (kind: WrongAddress, status: number | undefined): string | undefined => {
  switch (kind) {
    case "not_found":
      return "returned 404 Not Found"
    case "html":
      return "returned an HTML page instead of JSON"
    case "redirect":
      return `returned a redirect (HTTP ${status ?? 300})`
    default:
      return undefined
  }
}

/** Returns the failure with a one-line explanation for the user instead of the provider's message. */
export const explainWrongAddress = (
  error: AiError.AiError,
  kind: WrongAddress,
  { provider, status }: { readonly provider: string; readonly status: number | undefined }
): AiError.AiError => {
  const { reason } = error
  const what = describeWrongAddress(kind, status)
  if (what === undefined || (reason._tag !== "InvalidRequestError" && reason._tag !== "InvalidResponseError"))
    return error
  const http = reason.http === undefined ? {} : { http: reason.http }
  return AiError.make({
    module: error.module,
    method: error.method,
    reason: new AiError.InvalidRequestError({
      ...http,
      metadata: reason._tag === "InvalidRequestError" ? reason.metadata : {},
      description: `${provider} ${what}; not retrying. Check model.base_url.`
    })
  })
}

/** Evidence of a failure. */
export interface Evidence {
  readonly tag: AiError.AiErrorReason["_tag"]
  /** HTTP status. It is 429 for a rate limit without a status. */
  readonly status: number | undefined
  /** Error codes and types of the provider in lower case, separated by spaces. */
  readonly code: string
  /** Unchanged message of the provider. */
  readonly message: string
  /** Message and codes in lower case. */
  readonly text: string
  /** Wait that the provider requests before a retry. */
  readonly retryAfter: Duration.Duration | undefined
  /** True if the request did not reach a provider, or its answer was incomplete. */
  readonly transport: boolean
  /** True if no server could be reached, because the address refuses connections. */
  readonly unreachable: boolean
  /** Kind of wrong address; `undefined` if the failure does not indicate a wrong address. */
  readonly wrongAddress: WrongAddress | undefined
  /** Parameters of the request that the refusal names; see `Adaptation`. */
  readonly parameters: ReadonlyArray<string>
}

/**
 * Size of a call and of its model's context window. A lost connection may have a different cause in a large
 * conversation than in a small one.
 */
export interface CallSituation {
  /** Estimated number of tokens in the request. */
  readonly tokens?: number | undefined
  /** Output limit of the request in tokens, if it has one. */
  readonly output?: number | undefined
  /** Size of the model's context window in tokens, if known. */
  readonly window?: number | undefined
  /** Number of messages in the conversation. */
  readonly messages?: number | undefined
}

const toWord = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : ""

const readField = (value: unknown, key: string): unknown => (Predicate.hasProperty(value, key) ? value[key] : undefined)

/**
 * Reads the error message from a body in the formats of OpenAI, Anthropic, Google, FastAPI, Ollama and compatible
 * servers.
 */
const readBodyMessage = (body: string): string => {
  const json = Option.getOrUndefined(Json.parse(body))
  // Google returns an array with one element.
  const parsed: unknown = Array.isArray(json) ? json[0] : json
  if (!Predicate.isObject(parsed)) return body
  const error = readField(parsed, "error")
  if (typeof error === "string") return error
  const inner = Predicate.isObject(error) ? error : parsed
  const own = toWord(readField(inner, "message")) || toWord(readField(inner, "detail"))
  const raw = readField(readField(inner, "metadata"), "raw")
  const upstream = raw === undefined ? "" : toWord(raw) || JSON.stringify(raw)
  return `${own} ${upstream}`.trim() || body
}

const readHttp = (reason: AiError.AiErrorReason) => ("http" in reason ? reason.http : undefined)

const readMetadata = (reason: AiError.AiErrorReason): AiError.ProviderMetadata =>
  "metadata" in reason ? reason.metadata : {}

const readMessage = (reason: AiError.AiErrorReason): string => {
  const description = "description" in reason ? (reason.description ?? "") : ""
  if (description !== "") return description
  const body = readHttp(reason)?.body
  return body === undefined ? "" : readBodyMessage(body)
}

const readStatus = (reason: AiError.AiErrorReason): number | undefined => {
  const status = readHttp(reason)?.response?.status ?? readMetadata(reason)["status"]
  if (typeof status === "number") return status
  switch (reason._tag) {
    case "RateLimitError":
      return 429
    case "QuotaExhaustedError":
      return 402
    case "AuthenticationError":
      return 401
    default:
      return undefined
  }
}

const readRetryAfter = (reason: AiError.AiErrorReason): Duration.Duration | undefined => {
  if (reason._tag === "RateLimitError" && reason.retryAfter !== undefined) return reason.retryAfter
  const millis = readMetadata(reason)["retryAfterMillis"]
  return typeof millis === "number" ? Duration.millis(millis) : undefined
}

const isUnreachable = (reason: AiError.AiErrorReason): boolean =>
  reason._tag === "NetworkError" && readField(reason.cause, "code") === "ECONNREFUSED"

/** Collects the evidence of a failure. */
export const collectEvidence = ({ reason }: AiError.AiError): Evidence => {
  const metadata = readMetadata(reason)
  // A code such as "400" only repeats the status.
  const code = [metadata["code"], metadata["type"]]
    .map(toWord)
    .filter((name) => name !== "" && !/^\d{3}$/.test(name))
    .join(" ")
    .toLowerCase()
  const message = readMessage(reason)
  const status = readStatus(reason)
  const param = toWord(metadata["param"]) || ("parameter" in reason ? reason.parameter : undefined)
  return {
    tag: reason._tag,
    status,
    code,
    message,
    text: `${message} ${code}`.toLowerCase(),
    retryAfter: readRetryAfter(reason),
    transport: reason._tag === "NetworkError" && reason.reason === "TransportError",
    unreachable: isUnreachable(reason),
    wrongAddress: findWrongAddress(reason, status),
    parameters: status === 400 || status === 422 ? Adaptation.findNamedParameters(message, param) : []
  }
}
