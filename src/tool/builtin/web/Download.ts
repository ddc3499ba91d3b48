/**
 * Reads one address of the web: every hop of a redirect is judged before it is followed, within bounds of time and size.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as WebRequest from "../internal/WebRequest.ts"
import * as UrlGuard from "./UrlGuard.ts"
import { blocked, failed, WebError } from "./WebError.ts"

/** Time for all hops together. */
export const timeout = "30 seconds"
/** Bytes that are read at most, after decompression. */
export const maxBytes = 8 * 1024 * 1024

const maxRedirects = 5

const headers = {
  "user-agent": "Mozilla/5.0 (compatible; hermes-effect)",
  accept: "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5",
  "accept-language": "en;q=0.8,*;q=0.5"
}

/** What was read, and where it came from in the end. */
export interface Downloaded {
  readonly url: URL
  readonly type: string
  readonly text: string
  readonly truncated: boolean
}

/** Says why a request failed, without the stack. */
export const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return error.message === "" ? ("code" in error ? String(error.code) : error.name) : error.message
}

/** One request to a judged address. */
export const request = (judged: UrlGuard.Judged, more: Partial<WebRequest.Request> = {}): Effect.Effect<WebRequest.Answer, WebError> =>
  Effect.tryPromise({
    try: (signal) => WebRequest.send({ headers, maxBytes, ...more, ...judged, signal }),
    catch: (error) => failed(`${judged.url.host} could not be read: ${reasonOf(error)}`, error)
  })

const charsetOf = (type: string, body: Uint8Array): string => {
  const head = new TextDecoder("latin1").decode(body.subarray(0, 2048))
  return /charset=["']?([\w-]+)/i.exec(type)?.[1] ?? /<meta[^>]+charset=["']?([\w-]+)/i.exec(head)?.[1] ?? "utf-8"
}

const decode = (type: string, body: Uint8Array): string => {
  try {
    return new TextDecoder(charsetOf(type, body)).decode(body)
  } catch {
    // A character set that nobody knows.
    return new TextDecoder().decode(body)
  }
}

const isText = (type: string): boolean =>
  type === "" || /^text\/|[/+](?:json|xml|javascript|yaml)\b|^application\/(?:xhtml|x-yaml|toml)/.test(type)

const follow = Effect.fnUntraced(function*(start: string, allowance: UrlGuard.Allowance): Effect.fn.Return<Downloaded, WebError> {
  let next = start
  for (let hops = 0; hops <= maxRedirects; hops++) {
    const judged = yield* UrlGuard.judge(next, allowance)
    const { body, headers, status, truncated } = yield* request(judged)
    const location = headers["location"]
    if (status >= 300 && status < 400 && location !== undefined) {
      if (!URL.canParse(location, judged.url.href)) return yield* failed(`${judged.url.host} redirects to something that is no URL`)
      next = new URL(location, judged.url).href
      continue
    }
    if (status >= 400) return yield* failed(`${judged.url.host} answered ${status}`)
    const type = (headers["content-type"] ?? "").toLowerCase()
    if (!isText(type)) return yield* failed(`this is ${type.split(";")[0]}, not text: download it with the terminal if it is needed`)
    return { url: judged.url, type, text: decode(type, body), truncated }
  }
  return yield* blocked(`more than ${maxRedirects} redirects`)
})

/** See the module. */
export const read = (url: string, allowance: UrlGuard.Allowance): Effect.Effect<Downloaded, WebError> =>
  Effect.timeoutOrElse(follow(url, allowance), {
    duration: timeout,
    orElse: () => Effect.fail(failed(`no answer within ${timeout}`))
  })
