/**
 * Fetches a URL that a model named. The URL is admitted first and reached only at the admitted addresses. Every
 * redirect is admitted again, and a redirect to another host must pass the gate (`EgressGate`). Tools reach the web
 * only through this module.
 *
 * Source: `hermes-llm.md` §19.5.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { requestPinned } from "../../base/platform/Network.ts"
import * as EgressGate from "./EgressGate.ts"
import { type AdmittedUrl, fence, formatHost, UrlBlocked } from "./Urls.ts"

// Requests to an admitted address, and their responses.

/** Error raised when the server could not be reached or closed the connection early. */
class TransportFailed extends Schema.TaggedError<TransportFailed>("hermes-effect/TransportFailed")("TransportFailed", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** A response. Header names are in lower case. */
interface ReceivedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** True if the body is longer than its stored part. */
  readonly truncated: boolean
}

/** Options of a request. */
interface Options {
  readonly method?: "GET" | "POST"
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Maximum number of retained bytes of the response, after decompression. */
  readonly maxBytes: number
}

/** Sends one request to admitted addresses without following redirects. */
interface Send {
  readonly send: (to: AdmittedUrl, options: Options) => Effect.Effect<ReceivedResponse, TransportFailed>
}

/** Explains why a request failed, without a stack trace. */
const describeError = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return error.message === "" ? ("code" in error ? String(error.code) : error.name) : error.message
}

/** Sends one request to one of the admitted addresses, even if the name now resolves to another address. */
const pinnedTransport: Send = {
  send: ({ addresses, url }, { body, headers, maxBytes, method = "GET" }) =>
    Effect.tryPromise({
      try: (signal) => requestPinned({ url, addresses, method, headers, body, maxBytes }, signal),
      catch: (error) => new TransportFailed({ message: describeError(error), cause: error })
    })
}

/** Port for the network. The default uses the addresses of this machine. */
export const Transport = Context.Reference<Send>("hermes-effect/tool/fence/Transport", {
  defaultValue: () => pinnedTransport
})

/** A response, with its final address. */
interface FetchedResponse extends ReceivedResponse {
  readonly url: URL
}

const maxRedirects = 5
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
/** Headers that belong to one origin and are not sent to another. */
const ownHeaders = new Set(["authorization", "cookie", "proxy-authorization"])

/** Options of a request that follows redirects. */
interface FetchOptions extends Omit<Options, "method" | "body"> {
  /**
   * Time limit for all hops together, excluding the time in which a user is asked about a hop. By default, there is no
   * limit.
   */
  readonly within?: Duration.Duration | undefined
}

/** Fetches a URL that a model named. */
export const fetch = Effect.fn("Fetch.fetch")(function* (
  url: string,
  { within, ...options }: FetchOptions
): Effect.fn.Return<FetchedResponse, UrlBlocked | TransportFailed> {
  const urls = yield* fence
  const transport = yield* Transport
  let left = within ?? Duration.infinity
  /** Runs a part of the work within the remaining time. */
  const limitTime = <A, E>(work: Effect.Effect<A, E>): Effect.Effect<A, E | TransportFailed> =>
    Effect.gen(function* () {
      const since = yield* Clock.currentTimeMillis
      const result = yield* Effect.timeoutOrElse(work, {
        duration: left,
        orElse: () =>
          Effect.fail(new TransportFailed({ message: `no answer within ${Duration.format(within ?? left)}` }))
      })
      left = Duration.subtract(left, Duration.millis((yield* Clock.currentTimeMillis) - since))
      return result
    })
  let at = yield* limitTime(urls.admit(url))
  let headers = options.headers
  for (let hop = 0; hop <= maxRedirects; hop++) {
    const received = yield* limitTime(transport.send(at, { ...options, headers }))
    const location = received.headers["location"]
    if (!redirects.has(received.status) || location === undefined) return { ...received, url: at.url }
    const next = yield* limitTime(urls.follow(at, location))
    const host = formatHost(next.url)
    if (host !== formatHost(at.url) && !(yield* EgressGate.admitFurtherHost(host))) {
      return yield* new UrlBlocked({ url: at.url.href, reason: `it redirects to ${host}, a host that is not approved` })
    }
    if (next.url.origin !== at.url.origin) {
      headers = Object.fromEntries(Object.entries(headers).filter(([name]) => !ownHeaders.has(name.toLowerCase())))
    }
    at = next
  }
  return yield* new UrlBlocked({ url: at.url.href, reason: `it redirects more than ${maxRedirects} times` })
})

// Reads one address of the web, subject to the address checks and to limits on time and size, as bytes or as text.

/** Failure of one address or one search. `message` is one line for the model. */
export class WebError extends Schema.TaggedError<WebError>("hermes-effect/tool/WebError")("WebError", {
  /** `blocked` if a rule forbids the address; `failed` if it could not be read. */
  reason: Schema.Literals(["blocked", "failed"]),
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** Creates the error for an address that must not be reached. */
export const makeBlockedError = (message: string): WebError => new WebError({ reason: "blocked", message })

/** Creates the error for content that could not be read. */
export const makeFailedError = (message: string, cause?: unknown): WebError =>
  new WebError({ reason: "failed", message, ...(cause === undefined ? {} : { cause }) })

/** Time limit for all hops together. */
const pageTimeout = Duration.seconds(30)
/** Maximum number of bytes read from a page, after decompression. */
const maxPageBytes = 8 * 1024 * 1024

const pageHeaders = {
  "user-agent": "Mozilla/5.0 (compatible; hermes-effect)",
  accept: "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5",
  "accept-language": "en;q=0.8,*;q=0.5"
}

/** Content, with its final address. */
export interface DownloadedPage {
  readonly url: URL
  readonly type: string
  readonly text: string
  readonly truncated: boolean
}

/** Downloads the content of an address; fails unless the status is a success. */
export const download = (url: string, most: number): Effect.Effect<FetchedResponse, WebError> =>
  fetch(url, { headers: pageHeaders, maxBytes: most, within: pageTimeout }).pipe(
    Effect.catchTags({
      UrlBlocked: ({ message }) => Effect.fail(makeBlockedError(message)),
      TransportFailed: (error) =>
        Effect.fail(makeFailedError(`${URL.parse(url)?.host ?? url} could not be read: ${error.message}`, error))
    }),
    Effect.filterOrFail(
      ({ status }) => status < 400,
      ({ status, url }) => makeFailedError(`${url.host} answered ${status}`)
    )
  )

const detectCharset = (type: string, body: Uint8Array): string => {
  const head = new TextDecoder("latin1").decode(body.subarray(0, 2048))
  return /charset=["']?([\w-]+)/i.exec(type)?.[1] ?? /<meta[^>]+charset=["']?([\w-]+)/i.exec(head)?.[1] ?? "utf-8"
}

const decodeText = (type: string, body: Uint8Array): string => {
  try {
    return new TextDecoder(detectCharset(type, body)).decode(body)
  } catch {
    // The character set is unknown.
    return new TextDecoder().decode(body)
  }
}

const isText = (type: string): boolean =>
  type === "" || /^text\/|[/+](?:json|xml|javascript|yaml)\b|^application\/(?:xhtml|x-yaml|toml)/.test(type)

/** Downloads the text of a page. */
export const readPage = Effect.fnUntraced(function* (address: string): Effect.fn.Return<DownloadedPage, WebError> {
  const { body, headers, truncated, url } = yield* download(address, maxPageBytes)
  const type = (headers["content-type"] ?? "").toLowerCase()
  if (!isText(type))
    return yield* makeFailedError(
      `this is ${type.split(";")[0]}, not text: download it with the terminal if it is needed`
    )
  return { url, type, text: decodeText(type, body), truncated }
})
