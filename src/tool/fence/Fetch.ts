/**
 * Fetches a URL that a model named: admitted first, reached only at the admitted addresses, every redirect admitted anew. The
 * one way from a tool to the web.
 *
 * Source: `hermes-llm.md` §19.5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { requestPinned } from "../../platform/Network.ts"
import { fence, hostWithPort, UrlBlocked, UrlPolicy } from "./Urls.ts"
import { type Options, type Received, type Send, TransportFailed } from "./Wire.ts"

/** Says why a request failed, without the stack. */
const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return error.message === "" ? ("code" in error ? String(error.code) : error.name) : error.message
}

/** Sends one request to one of the addresses that were admitted, whatever the name resolves to meanwhile. */
const pinnedTransport: Send = {
  send: ({ addresses, url }, { body, headers, maxBytes, method = "GET" }) =>
    Effect.tryPromise({
      try: (signal) => requestPinned({ url, addresses, method, headers, body, maxBytes }, signal),
      catch: (error) => new TransportFailed({ message: reasonOf(error), cause: error })
    })
}

/** The port to the network; the addresses of this machine's own where nobody else is provided. */
export const Transport = Context.Reference<Send>("hermes-effect/tool/fence/Transport", { defaultValue: () => pinnedTransport })

/** A response, with the address that it came from in the end. */
export interface Fetched extends Received {
  readonly url: URL
}

const maxRedirects = 5
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
/** Headers that belong to one origin are not sent to another. */
const ownHeaders = new Set(["authorization", "cookie", "proxy-authorization"])

/** Fetches a URL that a model named. */
export const fetch = Effect.fn("Fetch.fetch")(function*(
  url: string,
  options: Omit<Options, "method" | "body">
): Effect.fn.Return<Fetched, UrlBlocked | TransportFailed> {
  const urls = yield* fence
  const transport = yield* Transport
  const { unknownHosts } = yield* UrlPolicy
  let at = yield* urls.admit(url)
  let headers = options.headers
  for (let hop = 0; hop <= maxRedirects; hop++) {
    const received = yield* transport.send(at, { ...options, headers })
    const location = received.headers["location"]
    if (!redirects.has(received.status) || location === undefined) return { ...received, url: at.url }
    const next = yield* urls.follow(at, location)
    if (unknownHosts === "ask" && hostWithPort(next.url) !== hostWithPort(at.url)) {
      const reason = `it redirects to ${hostWithPort(next.url)}, a host that is not approved; to have the user asked, name the address there`
      return yield* new UrlBlocked({ url: at.url.href, reason })
    }
    if (next.url.origin !== at.url.origin) {
      headers = Object.fromEntries(Object.entries(headers).filter(([name]) => !ownHeaders.has(name.toLowerCase())))
    }
    at = next
  }
  return yield* new UrlBlocked({ url: at.url.href, reason: `it redirects more than ${maxRedirects} times` })
})
