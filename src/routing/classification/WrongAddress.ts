/**
 * Recognises failures of an address that will never serve a model, however often it is asked, and says so in one line.
 *
 * **Details**
 *
 * A page in HTML where JSON is due, a 404 that names no model, a redirect, a host name that does not exist, a certificate that is
 * not accepted, another protocol on the port. What may pass is none of these: a refused connection (the server may be starting), a
 * name server that does not answer, a page of a gateway with a 5xx, an alert in the middle of a TLS connection.
 *
 * Source: `hermes-llm.md` §16.3; the issue decides over its rule that an unknown 404 is asked again.
 */
import * as AiError from "effect/ai/AiError"
import * as Predicate from "effect/Predicate"

/** The kinds of wrong addresses. */
export type WrongAddress = "not_found" | "html" | "redirect" | "name" | "certificate" | "protocol" | "url"

const codeOf = (cause: unknown): string =>
  Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : ""

const textOf = (cause: unknown): string => cause instanceof Error ? cause.message : ""

const unknownNames: ReadonlySet<string> = new Set(["ENOTFOUND", "EAI_NONAME", "EAI_NODATA"])
const certificates =
  /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_(GET|VERIFY|DECRYPT|DECODE)|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA|PATH_LENGTH_EXCEEDED)/
const otherProtocol = /wrong version number|packet length too long|unknown protocol|http request/i

const ofNetwork = ({ cause, reason }: AiError.NetworkError): WrongAddress | undefined => {
  if (reason === "InvalidUrlError") return "url"
  const code = codeOf(cause)
  if (unknownNames.has(code)) return "name"
  if (certificates.test(code)) return "certificate"
  if (/^(HPE_|ERR_SSL_WRONG_VERSION|ERR_SSL_PACKET_LENGTH|ERR_SSL_HTTP_REQUEST)/.test(code)) return "protocol"
  return code === "EPROTO" && otherProtocol.test(textOf(cause)) ? "protocol" : undefined
}

const isPage = (text: string): boolean => /^\s*<(!doctype\s+html|html|head|body|\?xml|title)\b/i.test(text)

/** Recognises a wrong address; undefined for every other failure. `status` is the HTTP status, where there was one. */
export const of = (reason: AiError.AiErrorReason, status: number | undefined): WrongAddress | undefined => {
  if (reason._tag === "NetworkError") return ofNetwork(reason)
  if (status !== undefined && status >= 500) return undefined
  const http = "http" in reason ? reason.http : undefined
  if (status === 404) return "not_found"
  if (status !== undefined && status >= 300 && status < 400) return "redirect"
  // A refusal in HTML (a login page, a firewall) is still about the key or the rate.
  const mayBePage = status === undefined || status < 400 || status === 405
  return mayBePage && http?.body !== undefined && isPage(http.body) ? "html" : undefined
}

/** Says what the address is instead, and what to do. Undefined where the failure's own words say it: they name the host. */
const wording = (kind: WrongAddress, status: number | undefined): string | undefined => {
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

/** The failure with one line for the user in place of the provider's words. */
export const explain = (
  error: AiError.AiError,
  kind: WrongAddress,
  { provider, status }: { readonly provider: string; readonly status: number | undefined }
): AiError.AiError => {
  const { reason } = error
  const what = wording(kind, status)
  if (what === undefined || (reason._tag !== "InvalidRequestError" && reason._tag !== "InvalidResponseError")) return error
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
