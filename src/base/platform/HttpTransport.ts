/**
 * Sends the requests of the official SDKs and of exporters by undici: a function of the shape of `fetch` for their
 * `fetch` option, at about half the CPU of the platform's `fetch` per request.
 *
 * **Details**
 *
 * - Connections are kept alive, in any number, and belong to the client: `close` ends them.
 * - An answer of 2xx is a {@link StreamedResponse}; any other is a genuine `Response` whose body was read already (16
 *   MiB at most).
 * - `init.signal` closes the connection, before the answer and while its body is read.
 * - A redirect is followed to the same origin only, five times at most: a key never travels to another host. 301, 302
 *   and 303 turn a POST into a GET, as `fetch` does; 307 and 308 send it again.
 * - Bodies encoded with gzip, deflate (raw too), br, zstd, or several of them are decoded.
 * - A proxy of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`) is used, never for loopback addresses.
 *
 * **Gotchas**
 *
 * Bodies of requests are strings or bytes. Connection errors carry the `code` of Node or undici. A request whose
 * connection breaks is never sent again here: the server may have read it.
 *
 * Source: `hermes-llm.md` §2.5.
 */
// The declarations are no module that could be imported.
// oxlint-disable-next-line typescript/triple-slash-reference
/// <reference path="./UndiciParts.d.ts" />
import type { IncomingHttpHeaders } from "node:http"
import { Readable } from "node:stream"
import type * as Undici from "undici"
import connect from "undici/lib/api/api-connect.js"
import EnvHttpProxyAgent from "undici/lib/dispatcher/env-http-proxy-agent.js"
import Pool from "undici/lib/dispatcher/pool.js"
import { withoutEncodings } from "./Compression.ts"
import { Deadlines, type ExpiringItem } from "./Deadlines.ts"
import { type BodySource, StreamedBody, StreamedResponse } from "./StreamedResponse.ts"

/** A `fetch` with its own connections. */
export interface HttpTransport {
  /**
   * `answerMillis` is the time for an answer of 2xx to begin, and for any other to be complete, from now on; without
   * limit when absent.
   */
  (input: string | URL | Request, init?: RequestInit, answerMillis?: number): Promise<Response>
  /** Prepares headers that many requests share and that no longer change, so that they are encoded once. */
  readonly fixed: (headers: Headers) => Headers
  /** Ends all connections, those in use too. */
  readonly close: () => void
}

interface Outgoing {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | undefined
  readonly signal: AbortSignal | undefined
  /** Milliseconds for the answer to begin. */
  readonly answerMillis: number | undefined
}

/** An address, taken apart once for all requests to it. */
interface Address {
  readonly href: string
  readonly origin: string
  readonly path: string
}

/** Deadlines of a client, in milliseconds. */
interface Options {
  /** Time in which a stream of events has to send a byte; without limit when absent. */
  readonly readTimeoutMillis?: number | undefined
  /** Time for a connection, TLS included. Default: 30,000. */
  readonly connectTimeoutMillis?: number | undefined
}

const defaultConnectMillis = 30_000
/** An idle connection is closed after this long, unless the server names another time. */
const keepAliveMillis = 60_000
const maxRedirects = 5
/** Longer bodies of error answers are cut. */
const maxErrorBytes = 16 * 1024 * 1024

/**
 * Connections to a proxy, which can be asked for a tunnel: undici adds that method to its dispatchers only in its
 * index.
 */
class ProxyConnections extends Pool {
  override connect = connect
}

/** Connections, to each origin its own. */
interface Connections {
  readonly to: (origin: string) => Undici.Dispatcher
  readonly destroy: () => void
}

const makeConnections = (connectMillis: number): Connections => {
  const options = {
    connect: { timeout: connectMillis },
    allowH2: false,
    keepAliveTimeout: keepAliveMillis,
    headersTimeout: 0,
    bodyTimeout: 0
  }
  const isProxied = ["http_proxy", "https_proxy"].some(
    (name) => (process.env[name] ?? process.env[name.toUpperCase()] ?? "") !== ""
  )
  if (!isProxied) {
    // An Agent looks its pool up anew for each request, by a name that it puts together.
    const pools = new Map<string, Pool>()
    let isClosed = false
    const makePool = (origin: string): Pool => {
      const pool = new Pool(origin, options)
      pools.set(origin, pool)
      if (isClosed) void pool.destroy()
      return pool
    }
    return {
      to: (origin) => pools.get(origin) ?? makePool(origin),
      destroy: () => {
        isClosed = true
        for (const pool of pools.values()) void pool.destroy()
      }
    }
  }
  const own = process.env["no_proxy"] ?? process.env["NO_PROXY"]
  const noProxy = [...(own === undefined || own === "" ? [] : [own]), "localhost", "127.0.0.1", "::1"].join(",")
  const proxied = new EnvHttpProxyAgent({
    ...options,
    connectTimeout: connectMillis,
    noProxy,
    clientFactory: (proxy, settings) => new ProxyConnections(proxy, settings)
  })
  return { to: () => proxied, destroy: () => void proxied.destroy() }
}

const toHeaders = (init: RequestInit["headers"]): Record<string, string> => {
  const out: Record<string, string> = {}
  if (init === undefined) return out
  const entries = Symbol.iterator in init ? init : Object.entries(init)
  for (const [name, value] of entries) {
    if (name !== undefined && value !== undefined) out[name.toLowerCase()] = String(value)
  }
  return out
}

const toBody = (init: RequestInit["body"]): string | Uint8Array | undefined => {
  if (init === undefined || init === null) return undefined
  if (typeof init === "string" || init instanceof Uint8Array) return init
  if (init instanceof ArrayBuffer) return new Uint8Array(init)
  throw new TypeError("a request body must be a string or bytes")
}

const toSentHeaders = (init: RequestInit["headers"]): Record<string, string> => {
  const headers = toHeaders(init)
  // undici counts the body itself and manages its connections.
  delete headers["content-length"]
  delete headers["connection"]
  headers["accept-encoding"] ??= "gzip, deflate, br, zstd"
  return headers
}

const getAbortError = (signal: AbortSignal): Error =>
  signal.reason instanceof Error ? signal.reason : new DOMException("The operation was aborted", "AbortError")

/** The error of a proxy that made no tunnel, which undici names as if the caller had given up. */
const makeProxyError = (cause: Error): Error =>
  Object.assign(
    new Error(
      `the proxy did not connect to this host (${cause.message}): check HTTPS_PROXY, or name the host in NO_PROXY`,
      { cause }
    ),
    { code: "ERR_PROXY_TUNNEL" }
  )

const joinHeader = (value: string | Array<string> | undefined): string =>
  Array.isArray(value) ? value.join(", ") : (value ?? "")

/** An answer whose body follows: a Node stream if it has to be decoded or is read as an error. */
interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: StreamedBody | Readable
}

const isSuccess = (status: number): boolean => status >= 200 && status <= 299

/** Time in which the body of an answer with these headers has to send a byte. */
type SilenceOf = (headers: IncomingHttpHeaders) => number | undefined

/** Connections with their time limits. */
interface Client extends Connections {
  readonly deadlines: Deadlines
  readonly getSilence: SilenceOf
}

/**
 * Receives the answer of one request from its connection, without a Node stream if the body does not have to be
 * decoded.
 */
class Reception implements Undici.Dispatcher.DispatchHandler, ExpiringItem {
  readonly #signal: AbortSignal | undefined
  readonly #deadlines: Deadlines
  readonly #getSilence: SilenceOf
  readonly #begun: (answer: Answer) => void
  readonly #failed: (error: Error) => void
  readonly #onAbort: () => void
  #controller: Undici.Dispatcher.DispatchController | undefined
  #body: StreamedBody | Readable | undefined
  #isOver = false

  constructor(
    { answerMillis, signal }: Outgoing,
    { deadlines, getSilence }: Client,
    begun: (answer: Answer) => void,
    failed: (error: Error) => void
  ) {
    this.#signal = signal
    this.#deadlines = deadlines
    this.#getSilence = getSilence
    this.#begun = begun
    this.#failed = failed
    this.#onAbort = () => {
      if (signal !== undefined) this.#abort(getAbortError(signal))
    }
    signal?.addEventListener("abort", this.#onAbort)
    if (answerMillis !== undefined) deadlines.start(this, answerMillis)
  }

  /** Gives up the wait for an answer that did not begin in time. */
  expire(): void {
    this.#abort(new DOMException("the answer did not begin in time", "TimeoutError"))
  }

  #abort(error: Error): void {
    this.#end(error)
    this.#controller?.abort(error)
  }

  /** Tells the reader that nothing more comes. */
  #end(error: Error | undefined): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#signal?.removeEventListener("abort", this.#onAbort)
    this.#deadlines.stop(this)
    const body = this.#body
    if (body === undefined) this.#failed(error ?? new Error("the connection was closed without an answer"))
    else if (body instanceof StreamedBody) body.finish(error)
    else if (error === undefined) body.push(null)
    else body.destroy(error)
  }

  onRequestStart(controller: Undici.Dispatcher.DispatchController): void {
    this.#controller = controller
    // It was given up while it waited for a connection.
    if (this.#isOver)
      controller.abort(this.#signal === undefined ? new Error("the request was given up") : getAbortError(this.#signal))
  }

  onResponseStart(
    controller: Undici.Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders
  ): void {
    if (status < 200) return
    // Other answers are read whole before the request has one.
    if (isSuccess(status)) this.#deadlines.stop(this)
    const source: BodySource = {
      pause: () => controller.pause(),
      resume: () => controller.resume(),
      abort: (error) => this.#abort(error)
    }
    this.#body =
      isSuccess(status) && joinHeader(headers["content-encoding"]) === ""
        ? new StreamedBody(source, this.#getSilence(headers))
        : new Readable({
            read: source.resume,
            destroy: (error, done) => {
              if (!this.#isOver) this.#abort(error ?? new Error("the reader has left"))
              done(error)
            }
          })
    this.#begun({ status, headers, body: this.#body })
  }

  onResponseData(controller: Undici.Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#body instanceof StreamedBody) this.#body.push(chunk)
    else if (this.#body?.push(chunk) === false) controller.pause()
  }

  onResponseEnd(): void {
    this.#end(undefined)
  }

  onResponseError(_: Undici.Dispatcher.DispatchController, error: Error): void {
    if (this.#signal?.aborted === true) this.#end(getAbortError(this.#signal))
    else this.#end(error.name === "AbortError" ? makeProxyError(error) : error)
  }
}

const sendRequest = (client: Client, { address: { origin, path }, out }: Hop): Promise<Answer> =>
  new Promise((begun, failed) => {
    client.to(origin).dispatch(
      {
        origin,
        path,
        // The SDKs name methods by their standard names; undici's type is the closed list of them.
        method: out.method as Undici.Dispatcher.HttpMethod,
        headers: out.headers,
        body: out.body ?? null
      },
      new Reception(out, client, begun, failed)
    )
  })

/** The body of a stream that was decoded. */
const toStreamedBody = (stream: Readable, silenceMillis: number | undefined): StreamedBody => {
  const body = new StreamedBody(
    {
      pause: () => void stream.pause(),
      resume: () => void stream.resume(),
      abort: (error) => void stream.destroy(error)
    },
    silenceMillis
  )
  stream.on("data", (chunk: Buffer) => body.push(chunk))
  stream.on("error", (error) => body.finish(error))
  stream.on("end", () => body.finish(undefined))
  stream.on("close", () => body.finish(new Error("the connection was closed before the answer was complete")))
  return body
}

const readError = async (source: Readable): Promise<Buffer> => {
  const chunks: Array<Buffer> = []
  let size = 0
  for await (const chunk of source) {
    if (!(chunk instanceof Buffer)) continue
    chunks.push(chunk)
    size += chunk.length
    if (size > maxErrorBytes) break
  }
  return Buffer.concat(chunks).subarray(0, maxErrorBytes)
}

const nullBody = new Set([204, 205, 304])

const toGenuineResponse = async (fields: IncomingHttpHeaders, status: number, source: Readable): Promise<Response> => {
  const body = await readError(source)
  const headers = new Headers()
  for (const [name, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? value : value === undefined ? [] : [value]) headers.append(name, one)
  }
  return new Response(nullBody.has(status) ? null : body, { status, headers })
}

const redirects = new Set([301, 302, 303, 307, 308])

interface Hop {
  readonly address: Address
  readonly out: Outgoing
}

const toAddress = ({ href, origin, pathname, search }: URL): Address => ({ href, origin, path: `${pathname}${search}` })

/** Returns the request of a redirect; `undefined` if the answer is not a redirect to follow. */
const findRedirect = ({ headers, status }: Answer, { address, out }: Hop): Hop | undefined => {
  const location = joinHeader(headers["location"])
  if (!redirects.has(status) || location === "") return undefined
  const target = URL.parse(location, address.href)
  if (target === null || target.origin !== address.origin) return undefined
  if (status > 303 || out.method === "GET" || out.method === "HEAD") return { address: toAddress(target), out }
  const { "content-type": _, ...rest } = out.headers
  return { address: toAddress(target), out: { ...out, method: "GET", headers: rest, body: undefined } }
}

// The SDKs and Effect's client use the members that StreamedResponse has; it is no subclass: constructing a `Response`
// is to be saved.
const toResponse = (answer: Answer, body: StreamedBody, url: string): Response =>
  new StreamedResponse({ status: answer.status, url, headers: answer.headers, body }) as unknown as Response

/** Follows redirects, decodes the body, reads the answer of a request that failed. */
const followRedirects = async (client: Client, first: Hop, begun: Answer): Promise<Response> => {
  let hop = first
  let answer = begun
  for (let hops = 0; hops < maxRedirects; hops++) {
    const next = findRedirect(answer, hop)
    if (next === undefined) break
    if (answer.body instanceof Readable) await readError(answer.body)
    hop = next
    answer = await sendRequest(client, hop)
  }
  const { body: received, headers, status } = answer
  const url = hop === first ? "" : hop.address.href
  if (received instanceof StreamedBody) return toResponse(answer, received, url)
  const decoded = withoutEncodings(received, joinHeader(headers["content-encoding"]))
  return isSuccess(status)
    ? toResponse(answer, toStreamedBody(decoded, client.getSilence(headers)), url)
    : toGenuineResponse(headers, status, decoded)
}

/** Makes a client with its own connections. */
export const make = ({
  connectTimeoutMillis = defaultConnectMillis,
  readTimeoutMillis
}: Options = {}): HttpTransport => {
  const client: Client = {
    ...makeConnections(connectTimeoutMillis),
    deadlines: new Deadlines(),
    getSilence: (headers) =>
      readTimeoutMillis !== undefined && /event-?stream/i.test(joinHeader(headers["content-type"]))
        ? readTimeoutMillis
        : undefined
  }
  const prepared = new WeakMap<object, Record<string, string>>()
  let last: Address | undefined
  const parseTarget = (input: string | URL): Address => {
    const url = new URL(input)
    if (url.protocol !== "http:" && url.protocol !== "https:") throw new TypeError(`unknown scheme ${url.protocol}`)
    if (url.username !== "" || url.password !== "") throw new TypeError("an address must not carry credentials")
    return (last = toAddress(url))
  }
  const fetch = async (
    input: string | URL | Request,
    init: RequestInit = {},
    answerMillis?: number
  ): Promise<Response> => {
    if (typeof input !== "string" && !(input instanceof URL)) throw new TypeError("an address must be a string or URL")
    const address = last !== undefined && input === last.href ? last : parseTarget(input)
    const { body, headers, method, signal } = init
    const out: Outgoing = {
      method: method?.toUpperCase() ?? "GET",
      headers: (typeof headers === "object" ? prepared.get(headers) : undefined) ?? toSentHeaders(headers),
      body: toBody(body),
      signal: signal ?? undefined,
      answerMillis
    }
    const hop = { address, out }
    out.signal?.throwIfAborted()
    const answer = await sendRequest(client, hop)
    return answer.body instanceof StreamedBody
      ? toResponse(answer, answer.body, "")
      : followRedirects(client, hop, answer)
  }
  return Object.assign(fetch, {
    fixed: (headers: Headers): Headers => {
      prepared.set(headers, toSentHeaders(headers))
      return headers
    },
    close: client.destroy
  })
}
