/**
 * Creates the error reasons for calls that received no answer or only a part of one. Each reason describes the
 * connection failure and its remedy.
 *
 * **Details**
 *
 * Node and undici identify failures by a `code`. The first code found along the chain of causes determines the reason.
 */
import * as Predicate from "effect/Predicate"
import * as AiError from "effect/ai/AiError"

/** Returns the host and port of a base URL, or "the API" if the URL is absent or invalid. */
export const formatHost = (url: string | undefined): string => {
  const parsed = url === undefined ? null : URL.parse(url)
  return parsed === null ? "the API" : parsed.host
}

/** Returns the URL without its query and credentials. */
const stripUrl = (url: string | undefined): string => {
  const parsed = url === undefined ? null : URL.parse(url)
  return parsed === null ? "" : `${parsed.origin}${parsed.pathname}`
}

const maxDepth = 5

/** Returns the first `code` found along the chain of causes, where Node reports the reason. */
const findCode = (error: unknown, depth = 0): string | undefined => {
  if (depth > maxDepth || !Predicate.isObject(error)) return undefined
  if (Predicate.hasProperty(error, "code") && typeof error.code === "string") return error.code
  return Predicate.hasProperty(error, "cause") ? findCode(error.cause, depth + 1) : undefined
}

const findRootCause = (error: Error): Error => {
  let root = error
  for (let depth = 0; depth < maxDepth && root.cause instanceof Error; depth++) root = root.cause
  return root
}

const describeRefused = (name: string): string => `nothing listens at ${name}: start the server or correct the base URL`
const describeUnresolved = (name: string): string =>
  `the name of ${name} cannot be resolved: correct the base URL or check the network`
const describeReset = (name: string): string => `${name} closed the connection before its answer was complete`
const describeUnanswered = (name: string): string =>
  `${name} cannot be reached in time: check the network and the base URL`
const describeUnreachable = (name: string): string => `there is no way to ${name}: check the network`
const describeSilence = (name: string, error: Error): string =>
  `${name} stopped sending in the middle of its answer (${findRootCause(error).message}): ` +
  "raise network.stream_read_timeout_seconds if it needs longer"
const describePlainServer = (name: string): string =>
  `${name} does not speak TLS: use http:// in the base URL if that is meant`

/** Codes of connections that were not opened. */
const unopened =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_|ENETUNREACH|EHOSTUNREACH|UND_ERR_CONNECT_TIMEOUT|EPROTO|ERR_SSL_)|CERT|UNABLE_TO_/u

/** Tests whether a failed connection was never opened, so that no request was sent. */
export const isUnsent = (error: unknown): boolean => {
  const code = findCode(error)
  return code !== undefined && unopened.test(code)
}

/** Descriptions of failed connections by the code of Node or undici. */
const networkDescriptions: Readonly<Record<string, (name: string, error: Error) => string>> = {
  ECONNREFUSED: describeRefused,
  ENOTFOUND: describeUnresolved,
  EAI_AGAIN: describeUnresolved,
  EAI_NONAME: describeUnresolved,
  EAI_NODATA: describeUnresolved,
  ECONNRESET: describeReset,
  EPIPE: describeReset,
  UND_ERR_SOCKET: describeReset,
  ETIMEDOUT: describeUnanswered,
  ESOCKETTIMEDOUT: describeUnanswered,
  UND_ERR_CONNECT_TIMEOUT: describeUnanswered,
  ENETUNREACH: describeUnreachable,
  EHOSTUNREACH: describeUnreachable,
  ERR_STREAM_SILENT: describeSilence,
  EPROTO: describePlainServer,
  ERR_SSL_WRONG_VERSION_NUMBER: describePlainServer
}

const describeNetworkError = (code: string | undefined, name: string, error: Error): string => {
  const describe =
    code !== undefined && Object.hasOwn(networkDescriptions, code) ? networkDescriptions[code] : undefined
  if (describe !== undefined) return describe(name, error)
  if (code !== undefined && /CERT|SIGNATURE|UNABLE_TO_|TLS|SSL/.test(code)) {
    return (
      `the certificate of ${name} is not accepted (${code}): correct the host or trust its authority with ` +
      "NODE_EXTRA_CA_CERTS"
    )
  }
  if (code?.startsWith("HPE_") === true) return `${name} does not answer in HTTP: correct the base URL`
  const { message } = findRootCause(error)
  return `${name}: ${message === "" ? (code ?? "the connection failed") : message}`
}

const isTimeout = (error: Error): boolean =>
  error.constructor.name.endsWith("TimeoutError") || error.name === "TimeoutError"

/** Creates the reason for a call that received no answer or only a part of one. */
export const makeNetworkReason = (error: Error, url: string | undefined): AiError.NetworkError => {
  const code = findCode(error)
  const name = formatHost(url)
  if (code === "ERR_INVALID_URL") {
    return new AiError.NetworkError({
      reason: "InvalidUrlError",
      method: "POST",
      url: url ?? "",
      description: "the base URL is not a URL: correct it"
    })
  }
  return new AiError.NetworkError({
    reason: "TransportError",
    method: "POST",
    url: stripUrl(url),
    description:
      isTimeout(error) && (code === undefined || code === "ETIMEDOUT")
        ? `${name} did not answer within the request timeout: raise request_timeout_seconds or check the network`
        : describeNetworkError(code, name, error),
    cause: findRootCause(error)
  })
}
