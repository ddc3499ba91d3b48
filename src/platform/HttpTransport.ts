/**
 * Sends the requests of the official SDKs and of exporters by undici: a function of the shape of `fetch` for their `fetch` option, at about
 * half the CPU of the platform's `fetch` per request.
 *
 * **Details**
 *
 * - Connections are kept alive, in any number, and belong to the client: `close` ends them.
 * - An answer of 2xx is a {@link StreamedResponse}; every other one is a genuine `Response` whose body was read already
 *   (1 MiB at most), so that the error handling of the SDKs works on it.
 * - `init.signal` closes the connection, before the answer and while its body is read.
 * - A redirect is followed to the same origin only, five times at most: a key never travels to another host. 301, 302 and
 *   303 turn a POST into a GET, as `fetch` does; 307 and 308 send it again.
 * - Bodies encoded with gzip, deflate (raw too), br, zstd, or several of them are decoded.
 * - A proxy of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`) is used, never for loopback addresses.
 *
 * **Gotchas**
 *
 * Bodies of requests are strings or bytes. Connection errors carry the `code` of Node or undici. A request whose connection
 * breaks is never sent again here: the server may have read it.
 *
 * Source: `hermes-llm.md` §2.5.
 */
import type { Readable } from "node:stream"
import * as Undici from "undici"
import { withoutEncodings } from "./Compression.ts"
import { StreamedResponse } from "./StreamedResponse.ts"

/** A `fetch` with connections of its own. */
export interface HttpTransport {
  (input: string | URL | Request, init?: RequestInit): Promise<Response>
  /** Ends all connections, those in use too. */
  readonly close: () => void
}

interface Outgoing {
  readonly method: string
  readonly headers: Record<string, string>
  readonly body: string | Uint8Array | undefined
  readonly signal: AbortSignal | undefined
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
const maxErrorBytes = 1024 * 1024

const dispatcher = (connectMillis: number): Undici.Dispatcher => {
  const options = {
    connect: { timeout: connectMillis },
    allowH2: false,
    keepAliveTimeout: keepAliveMillis,
    headersTimeout: 0,
    bodyTimeout: 0
  }
  const isProxied = ["http_proxy", "https_proxy"].some((name) => (process.env[name] ?? process.env[name.toUpperCase()] ?? "") !== "")
  if (!isProxied) return new Undici.Agent(options)
  const own = process.env["no_proxy"] ?? process.env["NO_PROXY"]
  const noProxy = [...own === undefined || own === "" ? [] : [own], "localhost", "127.0.0.1", "::1"].join(",")
  return new Undici.EnvHttpProxyAgent({ ...options, noProxy })
}

const headersOf = (init: RequestInit["headers"]): Record<string, string> => {
  const out: Record<string, string> = {}
  if (init === undefined) return out
  const entries = Symbol.iterator in init ? init : Object.entries(init)
  for (const [name, value] of entries) {
    if (name !== undefined && value !== undefined) out[name.toLowerCase()] = String(value)
  }
  return out
}

const bodyOf = (init: RequestInit["body"]): string | Uint8Array | undefined => {
  if (init === undefined || init === null) return undefined
  if (typeof init === "string" || init instanceof Uint8Array) return init
  if (init instanceof ArrayBuffer) return new Uint8Array(init)
  throw new TypeError("a request body must be a string or bytes")
}

const outgoing = (init: RequestInit): Outgoing => {
  const headers = headersOf(init.headers)
  // undici counts the body itself and manages its connections.
  delete headers["content-length"]
  delete headers["connection"]
  headers["accept-encoding"] ??= "gzip, deflate, br, zstd"
  return { method: init.method ?? "GET", headers, body: bodyOf(init.body), signal: init.signal ?? undefined }
}

const errorOf = (signal: AbortSignal): Error =>
  signal.reason instanceof Error ? signal.reason : new DOMException("The operation was aborted", "AbortError")

const send = (agent: Undici.Dispatcher, url: URL, out: Outgoing): Promise<Undici.Dispatcher.ResponseData> =>
  Undici.request(url, {
    dispatcher: agent,
    // The SDKs name methods by their standard names; undici's type is the closed list of them.
    method: out.method as Undici.Dispatcher.HttpMethod,
    headers: out.headers,
    body: out.body ?? null,
    ...(out.signal === undefined ? {} : { signal: out.signal })
  }).catch((error: unknown) => {
    throw out.signal?.aborted === true ? errorOf(out.signal) : error
  })

const header = (value: string | Array<string> | undefined): string => Array.isArray(value) ? value.join(", ") : value ?? ""

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

const genuine = async ({ headers: fields, statusCode }: Undici.Dispatcher.ResponseData, source: Readable): Promise<Response> => {
  const body = await readError(source)
  const headers = new Headers()
  for (const [name, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? value : value === undefined ? [] : [value]) headers.append(name, one)
  }
  return new Response(nullBody.has(statusCode) ? null : body, { status: statusCode, headers })
}

const redirects = new Set([301, 302, 303, 307, 308])

interface Hop {
  readonly url: URL
  readonly out: Outgoing
}

/** The request that a redirect asks for; undefined where there is none to follow. */
const redirected = ({ headers, statusCode }: Undici.Dispatcher.ResponseData, { out, url }: Hop): Hop | undefined => {
  const location = header(headers["location"])
  if (!redirects.has(statusCode) || location === "") return undefined
  const target = URL.parse(location, url.href)
  if (target === null || target.origin !== url.origin) return undefined
  if (statusCode > 303 || out.method === "GET" || out.method === "HEAD") return { url: target, out }
  const { "content-type": _, ...rest } = out.headers
  return { url: target, out: { ...out, method: "GET", headers: rest, body: undefined } }
}

const run = async (agent: Undici.Dispatcher, first: Hop, readTimeoutMillis: number | undefined): Promise<Response> => {
  first.out.signal?.throwIfAborted()
  let hop = first
  let answer = await send(agent, hop.url, hop.out)
  for (let hops = 0; hops < maxRedirects; hops++) {
    const next = redirected(answer, hop)
    if (next === undefined) break
    await answer.body.dump()
    hop = next
    answer = await send(agent, hop.url, hop.out)
  }
  const { headers, statusCode: status } = answer
  const encoding = header(headers["content-encoding"])
  const source = encoding === "" ? answer.body : withoutEncodings(answer.body, encoding)
  if (status < 200 || status > 299) return genuine(answer, source)
  const isStream = /event-?stream/i.test(header(headers["content-type"]))
  const response = new StreamedResponse({
    status,
    url: hop.url.href,
    redirected: hop !== first,
    headers,
    source,
    silenceMillis: isStream ? readTimeoutMillis : undefined
  })
  // The callers, the SDKs and Effect's client, use the members that StreamedResponse has; it is not a subclass because constructing a
  // `Response` is what is to be saved.
  return response as unknown as Response
}

/** Makes a client with connections of its own. */
export const make = ({ connectTimeoutMillis = defaultConnectMillis, readTimeoutMillis }: Options = {}): HttpTransport => {
  const agent = dispatcher(connectTimeoutMillis)
  const fetch = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    if (typeof input !== "string" && !(input instanceof URL)) throw new TypeError("an address must be a string or URL")
    const url = new URL(input)
    if (url.protocol !== "http:" && url.protocol !== "https:") throw new TypeError(`unknown scheme ${url.protocol}`)
    if (url.username !== "" || url.password !== "") throw new TypeError("an address must not carry credentials")
    return run(agent, { url, out: outgoing(init) }, readTimeoutMillis)
  }
  return Object.assign(fetch, { close: () => void agent.destroy() })
}
