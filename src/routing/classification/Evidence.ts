/**
 * Evidence of a failure, read once from an `AiError`: the rules look at this and at nothing else.
 *
 * Source: `hermes-llm.md` §16.1.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as AiError from "effect/ai/AiError"
import * as Json from "../../domain/Json.ts"
import * as Parameters from "./Parameters.ts"
import * as WrongAddress from "./WrongAddress.ts"

/** Evidence of a failure. */
export interface Evidence {
  readonly tag: AiError.AiErrorReason["_tag"]
  /** HTTP status; of a rate limit that came without one, 429. */
  readonly status: number | undefined
  /** Codes and types as the provider names them, lower-cased, separated by spaces. */
  readonly code: string
  /** Message of the provider, as it is. */
  readonly message: string
  /** Message and codes, lower-cased. */
  readonly text: string
  /** Time that the provider asks to be left alone. */
  readonly retryAfter: Duration.Duration | undefined
  /** The request never reached a provider, or its answer never came to an end. */
  readonly transport: boolean
  /** There was nobody to talk to: the address refuses connections. */
  readonly unreachable: boolean
  /** The address will never serve a model; see `WrongAddress`. */
  readonly wrongAddress: WrongAddress.WrongAddress | undefined
  /** Parameters of the request that the refusal names; see `Parameters`. */
  readonly parameters: ReadonlyArray<string>
}

/** Size of a call and of its model's window: a lost connection means another thing in a huge conversation than in a small one. */
export interface Facts {
  /** Estimated tokens of the request. */
  readonly tokens?: number | undefined
  /** Tokens that the model's window holds, where that is known. */
  readonly window?: number | undefined
  /** Messages of the conversation. */
  readonly messages?: number | undefined
}

const word = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : ""

const field = (value: unknown, key: string): unknown => Predicate.hasProperty(value, key) ? value[key] : undefined

/** The message of a body: what OpenAI, Anthropic, Google, FastAPI, Ollama and those who copy them have. */
const messageOfBody = (body: string): string => {
  const json = Option.getOrUndefined(Json.parse(body))
  // Google answers a list of one.
  const parsed: unknown = Array.isArray(json) ? json[0] : json
  if (!Predicate.isObject(parsed)) return body
  const error = field(parsed, "error")
  if (typeof error === "string") return error
  const inner = Predicate.isObject(error) ? error : parsed
  const own = word(field(inner, "message")) || word(field(inner, "detail"))
  const raw = field(field(inner, "metadata"), "raw")
  const upstream = raw === undefined ? "" : word(raw) || JSON.stringify(raw)
  return `${own} ${upstream}`.trim() || body
}

const httpOf = (reason: AiError.AiErrorReason) => "http" in reason ? reason.http : undefined

const metadataOf = (reason: AiError.AiErrorReason): AiError.ProviderMetadata =>
  "metadata" in reason ? reason.metadata : {}

const messageOf = (reason: AiError.AiErrorReason): string => {
  const description = "description" in reason ? reason.description ?? "" : ""
  if (description !== "") return description
  const body = httpOf(reason)?.body
  return body === undefined ? "" : messageOfBody(body)
}

const statusOf = (reason: AiError.AiErrorReason): number | undefined => {
  const status = httpOf(reason)?.response?.status ?? metadataOf(reason)["status"]
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

const retryAfterOf = (reason: AiError.AiErrorReason): Duration.Duration | undefined => {
  if (reason._tag === "RateLimitError" && reason.retryAfter !== undefined) return reason.retryAfter
  const millis = metadataOf(reason)["retryAfterMillis"]
  return typeof millis === "number" ? Duration.millis(millis) : undefined
}

const isUnreachable = (reason: AiError.AiErrorReason): boolean =>
  reason._tag === "NetworkError" && field(reason.cause, "code") === "ECONNREFUSED"

/** Reads a failure; see the module. */
export const of = ({ reason }: AiError.AiError): Evidence => {
  const metadata = metadataOf(reason)
  // "400" as a code says nothing that the status does not.
  const code = [metadata["code"], metadata["type"]].map(word).filter((name) => name !== "" && !/^\d{3}$/.test(name))
    .join(" ").toLowerCase()
  const message = messageOf(reason)
  const status = statusOf(reason)
  const param = word(metadata["param"]) || ("parameter" in reason ? reason.parameter : undefined)
  return {
    tag: reason._tag,
    status,
    code,
    message,
    text: `${message} ${code}`.toLowerCase(),
    retryAfter: retryAfterOf(reason),
    transport: reason._tag === "NetworkError" && reason.reason === "TransportError",
    unreachable: isUnreachable(reason),
    wrongAddress: WrongAddress.of(reason, status),
    parameters: status === 400 || status === 422 ? Parameters.named(message, param) : []
  }
}
