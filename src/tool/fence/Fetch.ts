/**
 * Fetches a URL that a model named: admitted first, reached only at the admitted addresses, every redirect admitted anew.
 *
 * Source: `hermes-llm.md` §19.5.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type Admitted, UrlBlocked, Urls } from "./Urls.ts"

/** The other side could not be reached, or broke off. */
export class TransportFailed extends Schema.TaggedError<TransportFailed>("hermes-effect/TransportFailed")("TransportFailed", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** What came back. */
export interface Received {
  readonly status: number
  readonly location: string | undefined
  readonly contentType: string | undefined
  readonly body: Uint8Array
  /** The body is longer than what was kept of it. */
  readonly truncated: boolean
}

/** How a request is sent. */
export interface Options {
  readonly headers: Readonly<Record<string, string>>
  readonly maxBytes: number
}

/** The port that sends one request to admitted addresses, and follows no redirect. */
export class Transport extends Context.Service<Transport, {
  readonly send: (to: Admitted, options: Options) => Effect.Effect<Received, TransportFailed>
}>()("hermes-effect/tool/fence/Transport") {}

/** What was fetched, and from where in the end. */
export interface Fetched extends Received {
  readonly url: string
}

const maxRedirects = 5
const isRedirect = (status: number): boolean => status === 301 ||
  status === 302 ||
  status === 303 ||
  status === 307 ||
  status === 308
/** What belongs to one origin is not told to another. */
const ownHeaders = new Set(["authorization", "cookie", "proxy-authorization"])

/** See the module. */
export const fetch = Effect.fn("Fetch.fetch")(function*(
  url: string,
  options: Options
): Effect.fn.Return<Fetched, UrlBlocked | TransportFailed, Transport | Urls> {
  const urls = yield* Urls
  const transport = yield* Transport
  let at = yield* urls.admit(url)
  let headers = options.headers
  for (let hop = 0; hop <= maxRedirects; hop++) {
    const received = yield* transport.send(at, { ...options, headers })
    if (!isRedirect(received.status) || received.location === undefined) return { ...received, url: at.url.href }
    const next = yield* urls.follow(at, received.location)
    if (next.url.origin !== at.url.origin) {
      headers = Object.fromEntries(Object.entries(headers).filter(([name]) => !ownHeaders.has(name.toLowerCase())))
    }
    at = next
  }
  return yield* new UrlBlocked({ url: at.url.href, reason: `it redirects more than ${maxRedirects} times` })
})
