/**
 * Describes failures of a connection, in words that name the host and the remedy.
 */
import * as Predicate from "effect/Predicate"
import * as AiError from "effect/ai/AiError"

/** Host and port of a base URL; a word for it when there is none. */
export const host = (url: string | undefined): string => {
  const parsed = url === undefined ? null : URL.parse(url)
  return parsed === null ? "the API" : parsed.host
}

/** A URL without query and credentials. */
const bare = (url: string | undefined): string => {
  const parsed = url === undefined ? null : URL.parse(url)
  return parsed === null ? "" : `${parsed.origin}${parsed.pathname}`
}

const maxDepth = 5

/** The first `code` on the way down the causes, which is where Node says what happened. */
const codeOf = (error: unknown, depth = 0): string | undefined => {
  if (depth > maxDepth || !Predicate.isObject(error)) return undefined
  if (Predicate.hasProperty(error, "code") && typeof error.code === "string") return error.code
  return Predicate.hasProperty(error, "cause") ? codeOf(error.cause, depth + 1) : undefined
}

const rootOf = (error: Error): Error => {
  let root = error
  for (let depth = 0; depth < maxDepth && root.cause instanceof Error; depth++) root = root.cause
  return root
}

const describe = (code: string | undefined, name: string, error: Error): string => {
  switch (code) {
    case "ECONNREFUSED":
      return `nothing listens at ${name}: start the server or correct the base URL`
    case "ENOTFOUND":
    case "EAI_AGAIN":
    case "EAI_NONAME":
    case "EAI_NODATA":
      return `the name of ${name} cannot be resolved: correct the base URL or check the network`
    case "ECONNRESET":
    case "EPIPE":
    case "UND_ERR_SOCKET":
      return `${name} closed the connection before its answer was complete`
    case "ETIMEDOUT":
    case "ESOCKETTIMEDOUT":
    case "UND_ERR_CONNECT_TIMEOUT":
      return `${name} cannot be reached in time: check the network and the base URL`
    case "ENETUNREACH":
    case "EHOSTUNREACH":
      return `there is no way to ${name}: check the network`
    case "ERR_STREAM_SILENT":
      return `${name} stopped sending in the middle of its answer (${rootOf(error).message}): `
        + "raise network.stream_read_timeout_seconds if it needs longer"
    case "EPROTO":
    case "ERR_SSL_WRONG_VERSION_NUMBER":
      return `${name} does not speak TLS: use http:// in the base URL if that is meant`
    default:
      break
  }
  if (code !== undefined && /CERT|SIGNATURE|UNABLE_TO_|TLS|SSL/.test(code)) {
    return `the certificate of ${name} is not accepted (${code}): correct the host or trust its authority by NODE_EXTRA_CA_CERTS`
  }
  if (code?.startsWith("HPE_") === true) return `${name} does not answer in HTTP: correct the base URL`
  const { message } = rootOf(error)
  return `${name}: ${message === "" ? code ?? "the connection failed" : message}`
}

const isTimeout = (error: Error): boolean =>
  error.constructor.name.endsWith("TimeoutError") || error.name === "TimeoutError"

/** The reason for a call that got no answer, or only a part of one. */
export const fromError = (error: Error, url: string | undefined): AiError.NetworkError => {
  const code = codeOf(error)
  const name = host(url)
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
    url: bare(url),
    description: isTimeout(error) && (code === undefined || code === "ETIMEDOUT")
      ? `${name} did not answer within the request timeout: raise request_timeout_seconds or check the network`
      : describe(code, name, error),
    cause: rootOf(error)
  })
}
