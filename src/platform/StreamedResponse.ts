/**
 * A successful HTTP answer: the members of `Response` that the official SDKs and Effect's client use, straight over a Node stream. A
 * `Response` of the platform costs two stream conversions and a header table for each request.
 */
import type { IncomingHttpHeaders } from "node:http"
import type { Readable } from "node:stream"

/** The code of the error that a silent stream ends with. */
export const silentCode = "ERR_STREAM_SILENT"

/** A longer time would overflow a timer. */
const maxTimeoutMillis = 2_147_483_647

const silence = (millis: number): Error =>
  Object.assign(new Error(`no byte for ${Math.round(millis / 1_000)} s`), { code: silentCode })

/** Looks for silence this many times in the time that is allowed, which costs nothing for a piece that arrives. */
const looks = 4

/** Bytes of a whole body, and of a stream over all its life, at most: what goes on longer has no end. */
const maxBytes = { whole: 64 * 1024 * 1024, stream: 512 * 1024 * 1024 }

const tooLarge = (bytes: number): Error =>
  new Error(`the answer is larger than ${bytes / 1024 / 1024} MiB`)

/** More than this waiting in memory pauses the socket. */
const highWaterMark = 256 * 1024
/** Bytes that may still come, and for how long, after a reader has left, before the connection is given up. */
const drainBytes = 64 * 1024
const drainMillis = 1_000

const leave = (source: Readable): void => {
  let left = drainBytes
  const timer = setTimeout(() => source.destroy(), drainMillis)
  timer.unref()
  source.on("data", (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) source.destroy()
  })
  source.once("close", () => clearTimeout(timer))
  source.once("end", () => clearTimeout(timer))
  source.resume()
}

/**
 * A body that can be read once.
 *
 * **Details**
 *
 * Everything that has arrived since the last read comes as one chunk, so that a reader works once for each read of the
 * socket and not once for each piece that the server wrote. A reader that leaves early (`return`) lets the rest run out
 * for a moment, because the end of a stream is often only a few bytes behind its last event and a drained connection is
 * used again; after that, or on `cancel`, the connection is closed. With `silenceMillis` a source that sends no byte for so
 * long ends as an error; a reader that takes its time, with bytes waiting for it, is no silence.
 */
class StreamedBody implements AsyncIterableIterator<Uint8Array> {
  #source: Readable
  #chunks: Array<Buffer> = []
  #size = 0
  #total = 0
  #started = false
  #ended = false
  #error: Error | undefined
  #wake: (() => void) | undefined
  #idle = 0
  #timer: NodeJS.Timeout | undefined

  constructor(source: Readable, silenceMillis: number | undefined) {
    this.#source = source
    if (silenceMillis !== undefined) this.#watch(Math.min(silenceMillis, maxTimeoutMillis))
    source.on("error", (error) => this.#stop(error))
    source.on("end", () => this.#stop(undefined))
    source.on("close", () => this.#stop(new Error("the connection was closed before the answer was complete")))
  }

  #watch(millis: number): void {
    this.#timer = setInterval(() => {
      if (!this.#started || this.#size > 0) this.#idle = 0
      else if (++this.#idle > looks) this.#source.destroy(silence(millis))
    }, Math.max(1, millis / looks))
  }

  #stop(error: Error | undefined): void {
    if (this.#ended) return
    this.#ended = true
    clearInterval(this.#timer)
    this.#error = error
    this.#wake?.()
  }

  #start(): void {
    this.#started = true
    this.#source.on("data", (chunk: Buffer) => {
      this.#chunks.push(chunk)
      this.#size += chunk.length
      this.#total += chunk.length
      if (this.#total > maxBytes.stream) this.#source.destroy(tooLarge(maxBytes.stream))
      this.#idle = 0
      if (this.#size > highWaterMark) this.#source.pause()
      this.#wake?.()
    })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (!this.#started) this.#start()
    if (this.#chunks.length === 0 && !this.#ended) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      this.#wake = undefined
    }
    const [first] = this.#chunks
    if (first === undefined) {
      if (this.#error !== undefined) throw this.#error
      return { done: true, value: undefined }
    }
    const value = this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks, this.#size)
    if (this.#size > highWaterMark) this.#source.resume()
    this.#chunks = []
    this.#size = 0
    return { done: false, value }
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#chunks = []
    this.#size = 0
    if (!this.#ended) leave(this.#source)
    this.#stop(undefined)
    return { done: true, value: undefined }
  }

  /** Closes the connection, whatever is still to come. */
  async cancel(): Promise<void> {
    this.#stop(undefined)
    this.#source.destroy()
  }

  /** Everything, in one piece. */
  async bytes(): Promise<Uint8Array> {
    const chunks: Array<Uint8Array> = []
    for (let item = await this.next(); item.done !== true; item = await this.next()) {
      chunks.push(item.value)
      if (this.#total > maxBytes.whole) {
        await this.cancel()
        throw tooLarge(maxBytes.whole)
      }
    }
    const [first] = chunks
    return first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks)
  }
}

/** Header fields by name in any case; several fields of one name are joined as HTTP says. */
class HeaderFields implements Iterable<[string, string]> {
  readonly #fields: IncomingHttpHeaders

  constructor(fields: IncomingHttpHeaders) {
    this.#fields = fields
  }

  get(name: string): string | null {
    const key = name.toLowerCase()
    const value = Object.hasOwn(this.#fields, key) ? this.#fields[key] : undefined
    return value === undefined ? null : typeof value === "string" ? value : value.join(", ")
  }

  has(name: string): boolean {
    return this.get(name) !== null
  }

  *entries(): IterableIterator<[string, string]> {
    for (const name of Object.keys(this.#fields)) {
      const value = this.get(name)
      if (value !== null) yield [name, value]
    }
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

/** A body, its status and its header fields. */
export class StreamedResponse {
  readonly ok = true
  readonly type = "basic"
  readonly redirected: boolean
  readonly status: number
  readonly statusText = ""
  readonly url: string
  readonly headers: HeaderFields
  readonly body: StreamedBody

  constructor(answer: {
    readonly status: number
    readonly url: string
    readonly redirected: boolean
    readonly headers: IncomingHttpHeaders
    readonly source: Readable
    /** Milliseconds that the body may send nothing for; without limit when absent. */
    readonly silenceMillis: number | undefined
  }) {
    this.status = answer.status
    this.url = answer.url
    this.redirected = answer.redirected
    this.headers = new HeaderFields(answer.headers)
    this.body = new StreamedBody(answer.source, answer.silenceMillis)
  }

  bytes(): Promise<Uint8Array> {
    return this.body.bytes()
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    // A copy: small bodies stand in memory that others share.
    return new Uint8Array(await this.body.bytes()).buffer
  }

  async text(): Promise<string> {
    const bytes = await this.body.bytes()
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8")
    return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text())
  }
}
