/**
 * Sends requests with a function like the global `fetch`, and applies the limits of model calls to it.
 *
 * **Details**
 *
 * - Time limits abort the request: an answer has to begin in time, and an event stream may not be silent for too long.
 * - Redirects are followed only to the same origin, at most five times, so that a key is never sent to another host.
 * - A body ends with an error above a size that is considered endless. The body of an error answer is cut.
 *
 * **Gotchas**
 *
 * Browsers do not show where a redirect leads, so that such an answer fails there. The function decides on connections,
 * proxies and TLS.
 */
import {
  isSuccess,
  makeSilenceError,
  makeTooLargeError,
  maxBytes,
  maxErrorBytes,
  maxRedirects,
  redirects,
  shouldRepeatRequest
} from "./AnswerLimits.ts"
import { Deadlines } from "./Deadlines.ts"
import type { Fetch, HttpTransport, Options } from "./ModelTransport.ts"

/** Status codes of answers without a body. */
const nullBody = new Set([204, 205, 304])

/** Aborts a request after a time limit, and the wait for the next bytes of its body. */
class Limits {
  readonly abort = new AbortController()
  readonly #deadlines: Deadlines
  readonly #release: () => void
  #waiting: { readonly expire: () => void } | undefined

  constructor(deadlines: Deadlines, signals: ReadonlyArray<AbortSignal>) {
    this.#deadlines = deadlines
    const listeners = signals.map((signal) => {
      const onAbort = (): void => this.abort.abort(signal.reason)
      if (signal.aborted) onAbort()
      signal.addEventListener("abort", onAbort)
      return () => signal.removeEventListener("abort", onAbort)
    })
    this.#release = () => {
      for (const remove of listeners) remove()
    }
  }

  /** Starts a time limit, which replaces the last one. */
  startLimit(millis: number | undefined, makeError: () => Error): void {
    this.stopLimit()
    if (millis === undefined) return
    this.#waiting = { expire: () => this.abort.abort(makeError()) }
    this.#deadlines.start(this.#waiting, millis)
  }

  stopLimit(): void {
    if (this.#waiting !== undefined) this.#deadlines.stop(this.#waiting)
    this.#waiting = undefined
  }

  /** Ends all limits of the request. */
  endLimits(): void {
    this.stopLimit()
    this.#release()
  }
}

const makeLateError = (): Error => new DOMException("the answer did not begin in time", "TimeoutError")

/** Waits for a promise, or for the abort of its request: not every function observes its signal. */
const waitFor = <A>(promise: Promise<A>, { signal }: AbortController): Promise<A> =>
  new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    if (signal.aborted) return onAbort()
    signal.addEventListener("abort", onAbort, { once: true })
    promise
      .then(resolve, (error) => reject(signal.aborted ? signal.reason : error))
      .finally(() => signal.removeEventListener("abort", onAbort))
  })

/** Stops reading a body. An error of its source no longer concerns anyone. */
const stopReading = (reader: ReadableStreamDefaultReader<Uint8Array>, reason: unknown): void => {
  void reader.cancel(reason).catch(() => {})
}

/** Returns the answer with a body that ends at the limits. */
const limitBody = (answer: Response, limits: Limits, readTimeoutMillis: number | undefined): Response => {
  if (answer.body === null || nullBody.has(answer.status)) {
    limits.endLimits()
    return answer
  }
  const type = answer.headers.get("content-type") ?? ""
  const silenceMillis = /event-?stream/i.test(type) ? readTimeoutMillis : undefined
  // Some servers send event streams without a type.
  const most = /^\s*(application\/json|text\/html)\b/i.test(type) ? maxBytes.whole : maxBytes.stream
  const reader = answer.body.getReader()
  let total = 0
  const giveUp = (error: unknown): void => {
    limits.endLimits()
    stopReading(reader, error)
  }
  const makeSilent = (): Error => makeSilenceError(silenceMillis ?? 0)
  const body = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        limits.startLimit(silenceMillis, makeSilent)
        try {
          const item = await waitFor(reader.read(), limits.abort)
          limits.stopLimit()
          if (item.done) {
            limits.endLimits()
            return controller.close()
          }
          total += item.value.length
          if (total > most) throw makeTooLargeError(most)
          controller.enqueue(item.value)
        } catch (error) {
          giveUp(error)
          throw error
        }
      },
      cancel: async (reason) => {
        limits.endLimits()
        await reader.cancel(reason)
      }
    },
    { highWaterMark: 0 }
  )
  return new Response(body, { status: answer.status, statusText: answer.statusText, headers: answer.headers })
}

/** Reads the whole answer of a failed request. */
const readErrorAnswer = async (answer: Response, limits: Limits): Promise<Response> => {
  const chunks: Array<Uint8Array<ArrayBuffer>> = []
  let size = 0
  try {
    const reader = (answer.body ?? new Blob([]).stream()).getReader()
    while (size < maxErrorBytes) {
      const item = await waitFor(reader.read(), limits.abort)
      if (item.done) break
      chunks.push(item.value.slice(0, maxErrorBytes - size))
      size += item.value.length
    }
    if (size >= maxErrorBytes) stopReading(reader, undefined)
  } finally {
    limits.endLimits()
  }
  const body = nullBody.has(answer.status) ? null : new Blob(chunks)
  return new Response(body, { status: answer.status, statusText: answer.statusText, headers: answer.headers })
}

interface Hop {
  readonly url: URL
  readonly init: RequestInit
}

/** Returns the request that follows a redirect; `undefined` if the answer is not a redirect or must not be followed. */
const findRedirect = (answer: Response, { init, url }: Hop): Hop | undefined => {
  const location = answer.headers.get("location")
  if (!redirects.has(answer.status) || location === null) return undefined
  const target = URL.parse(location, url.href)
  if (target === null || target.origin !== url.origin) return undefined
  if (shouldRepeatRequest(answer.status, init.method ?? "GET")) return { url: target, init }
  const headers = new Headers(init.headers)
  headers.delete("content-type")
  headers.delete("content-length")
  return { url: target, init: { ...init, method: "GET", headers, body: null } }
}

const parseTarget = (input: string | URL | Request): URL => {
  if (typeof input !== "string" && !(input instanceof URL)) throw new TypeError("an address must be a string or URL")
  const url = new URL(input)
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new TypeError(`unknown scheme ${url.protocol}`)
  if (url.username !== "" || url.password !== "") throw new TypeError("an address must not carry credentials")
  return url
}

/** Creates a transport that sends with the function. */
export const fromFetch = (fetch: Fetch, { readTimeoutMillis }: Options = {}): HttpTransport => {
  const deadlines = new Deadlines()
  const closing = new AbortController()
  const sendHop = async (hop: Hop, { abort }: Limits): Promise<Response> => {
    const answer = await waitFor(fetch(hop.url.href, hop.init), abort)
    if (answer.type === "opaqueredirect") throw new Error("the server redirects this request: use the final address")
    return answer
  }
  const sendRequest = async (
    input: string | URL | Request,
    init: RequestInit = {},
    answerMillis?: number
  ): Promise<Response> => {
    const url = parseTarget(input)
    init.signal?.throwIfAborted()
    const limits = new Limits(deadlines, [closing.signal, ...(init.signal ? [init.signal] : [])])
    limits.startLimit(answerMillis, makeLateError)
    try {
      let hop: Hop = { url, init: { ...init, redirect: "manual", signal: limits.abort.signal } }
      let answer = await sendHop(hop, limits)
      for (let hops = 0; hops < maxRedirects; hops++) {
        const next = findRedirect(answer, hop)
        if (next === undefined) break
        await answer.body?.cancel()
        hop = next
        answer = await sendHop(hop, limits)
      }
      if (!isSuccess(answer.status)) return await readErrorAnswer(answer, limits)
      limits.stopLimit()
      return limitBody(answer, limits, readTimeoutMillis)
    } catch (error) {
      limits.endLimits()
      throw error
    }
  }
  return Object.assign(sendRequest, {
    fixed: (headers: Headers): Headers => headers,
    close: () => closing.abort(new Error("the client was closed"))
  })
}
