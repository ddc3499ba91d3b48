/**
 * A successful HTTP answer. It has the members of `Response` that the official SDKs and Effect's client use, and reads
 * directly from the parser of the connection. A `Response` of the platform costs two stream conversions and a header
 * table for each request, and a Node stream costs one conversion.
 */
import type { IncomingHttpHeaders } from "node:http"
import { makeSilenceError, makeTooLargeError, maxBytes } from "./AnswerLimits.ts"
import { releaseTimer } from "./Deadlines.ts"

/** The connection that delivers a body. */
export interface BodySource {
  readonly pause: () => void
  readonly resume: () => void
  /** Closes the connection. */
  readonly abort: (error: Error) => void
}

/** Maximum delay of a timer, in milliseconds; a longer delay would overflow. */
const maxTimeoutMillis = 2_147_483_647

/** Number of silence checks during the allowed time. Periodic checks avoid resetting a timer for each piece. */
const looks = 4

/** Number of waiting bytes above which the socket is paused. */
const highWaterMark = 256 * 1024
/**
 * Limits on draining. After a reader has stopped, at most this number of bytes is read, for at most this time, before
 * the connection is closed.
 */
const drainBytes = 64 * 1024
const drainMillis = 1_000

const nothing = Buffer.alloc(0)

const makeReaderLeftError = (): Error => new Error("the reader has left")

/**
 * A body that can be read once.
 *
 * **Details**
 *
 * All data that has arrived since the last read is returned as one chunk, so that a reader runs once for each read of
 * the socket, not once for each piece that the server wrote. If a reader stops early (`return`), the rest is drained
 * for a short time, because the end of a stream is often only a few bytes after its last event and a drained connection
 * can be reused. After that, or on `cancel`, the connection is closed. If `silenceMillis` is set and the source sends
 * no bytes for that time, the body ends with an error. The time does not count while the reader still has bytes to
 * read.
 */
export class StreamedBody implements AsyncIterableIterator<Uint8Array> {
  readonly #source: BodySource
  #chunks: Array<Buffer> = []
  #size = 0
  #total = 0
  #started = false
  /** True if the whole body is read at once, so that the source is never paused. */
  #whole = false
  #ended = false
  #error: Error | undefined
  #wake: (() => void) | undefined
  #idle = 0
  #timer: NodeJS.Timeout | undefined
  /** Number of bytes that may still be drained; `undefined` if the reader has not stopped. */
  #draining: number | undefined

  constructor(source: BodySource, silenceMillis: number | undefined) {
    this.#source = source
    if (silenceMillis !== undefined) this.#watch(Math.min(silenceMillis, maxTimeoutMillis))
  }

  #watch(millis: number): void {
    this.#timer = setInterval(
      () => {
        if (!this.#started || (!this.#whole && this.#size > 0)) this.#idle = 0
        else if (++this.#idle > looks) this.#fail(makeSilenceError(millis))
      },
      Math.max(1, millis / looks)
    )
  }

  #fail(error: Error): void {
    this.finish(error)
    this.#source.abort(error)
  }

  /** Adds a chunk that arrived. */
  push(chunk: Buffer): void {
    if (this.#draining !== undefined) {
      this.#draining -= chunk.length
      if (this.#draining < 0) this.#source.abort(makeReaderLeftError())
      return
    }
    if (this.#ended) return
    this.#chunks.push(chunk)
    this.#size += chunk.length
    this.#total += chunk.length
    this.#idle = 0
    const most = this.#whole ? maxBytes.whole : maxBytes.stream
    if (this.#total > most) return this.#fail(makeTooLargeError(most))
    if (this.#whole) return
    if (this.#size > highWaterMark) this.#source.pause()
    this.#wake?.()
  }

  /** Ends the body, with an error if it is incomplete. */
  finish(error: Error | undefined): void {
    if (this.#draining !== undefined) clearTimeout(this.#timer)
    if (this.#ended) return
    this.#ended = true
    clearInterval(this.#timer)
    this.#error = error
    this.#wake?.()
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined
        resolve()
      }
    })
  }

  /** Returns all waiting data; `undefined` if there is no data. */
  #take(): Buffer | undefined {
    const chunks = this.#chunks
    const [first] = chunks
    if (first === undefined) {
      if (this.#error !== undefined) throw this.#error
      return undefined
    }
    const isFull = this.#size > highWaterMark
    const value = chunks.length === 1 ? first : Buffer.concat(chunks, this.#size)
    this.#chunks = []
    this.#size = 0
    if (isFull && !this.#whole) this.#source.resume()
    return value
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#started = true
    if (this.#chunks.length === 0 && !this.#ended) await this.#woken()
    const value = this.#take()
    return value === undefined ? { done: true, value: undefined } : { done: false, value }
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#chunks = []
    this.#size = 0
    if (!this.#ended) {
      this.finish(undefined)
      this.#draining = drainBytes
      this.#timer = setTimeout(() => this.#source.abort(makeReaderLeftError()), drainMillis)
      releaseTimer(this.#timer)
      this.#source.resume()
    }
    return { done: true, value: undefined }
  }

  /** Closes the connection, even if more data is to come. */
  async cancel(): Promise<void> {
    if (this.#ended) return
    this.#fail(makeReaderLeftError())
    this.#error = undefined
    this.#chunks = []
  }

  /**
   * Returns the whole body as one buffer, or `undefined` if the body has not arrived completely or already has a
   * reader.
   */
  arrived(): Buffer | undefined {
    if (!this.#ended || this.#started || this.#error !== undefined) return undefined
    this.#started = true
    return this.#take() ?? nothing
  }

  /** Reads the whole body as one buffer. */
  async bytes(): Promise<Buffer> {
    this.#started = true
    this.#whole = true
    if (this.#size > highWaterMark) this.#source.resume()
    while (!this.#ended) await this.#woken()
    if (this.#error !== undefined) throw this.#error
    return this.#take() ?? nothing
  }
}

const decodeText = (bytes: Buffer): string => {
  const text = bytes.toString("utf8")
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

/** Header fields with case-insensitive names. Several fields with one name are joined according to HTTP. */
class HeaderFields implements Iterable<[string, string]> {
  readonly #fields: IncomingHttpHeaders

  constructor(fields: IncomingHttpHeaders) {
    this.#fields = fields
  }

  get(name: string): string | null {
    // Inherited members, such as `constructor`, are not strings and are ignored.
    const given = this.#fields[name]
    if (typeof given === "string") return given
    const key = name.toLowerCase()
    const value = Object.hasOwn(this.#fields, key) ? this.#fields[key] : undefined
    return value === undefined ? null : typeof value === "string" ? value : value.join(", ")
  }

  has(name: string): boolean {
    return this.get(name) !== null
  }

  entries(): IterableIterator<[string, string]> {
    const entries: Array<[string, string]> = []
    for (const name of Object.keys(this.#fields)) {
      const value = this.get(name)
      if (value !== null) entries.push([name, value])
    }
    return entries.values()
  }

  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries()
  }

  keys(): IterableIterator<string> {
    return Object.keys(this.#fields)[Symbol.iterator]()
  }

  *values(): IterableIterator<string> {
    for (const [, value] of this.entries()) yield value
  }

  forEach(visit: (value: string, name: string) => void): void {
    for (const [name, value] of this.entries()) visit(value, name)
  }
}

/** A successful HTTP answer with its status, header fields and body. */
export class StreamedResponse {
  readonly ok = true
  readonly type = "basic"
  readonly redirected: boolean
  readonly status: number
  readonly statusText = ""
  /**
   * Address after redirects. It is empty if the request was not redirected, because the SDKs would parse every
   * non-empty address for a log entry that is not used.
   */
  readonly url: string
  readonly headers: HeaderFields
  readonly body: StreamedBody

  constructor(answer: {
    readonly status: number
    readonly url: string
    readonly headers: IncomingHttpHeaders
    readonly body: StreamedBody
  }) {
    this.status = answer.status
    this.url = answer.url
    this.redirected = answer.url !== ""
    this.headers = new HeaderFields(answer.headers)
    this.body = answer.body
  }

  bytes(): Promise<Uint8Array> {
    return this.body.bytes()
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    // The bytes are copied, because small buffers share memory with other data.
    return new Uint8Array(await this.body.bytes()).buffer
  }

  async text(): Promise<string> {
    return decodeText(await this.body.bytes())
  }

  /** Returns the text of a body that has arrived completely; `undefined` if it is still incomplete. */
  arrivedText(): string | undefined {
    const bytes = this.body.arrived()
    return bytes === undefined ? undefined : decodeText(bytes)
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text())
  }
}
