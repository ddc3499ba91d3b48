/**
 * Reads server-sent events. All events completed by one read of the socket are returned as one array, so that consumers
 * process them once per array instead of once per event.
 *
 * **Details**
 *
 * Lines may end in LF, CRLF or CR and may be split anywhere, even within a character. Several `data` lines of an event
 * are joined by LF. Comments, ids, retry times and events without data are skipped. The stream ends with `[DONE]` or
 * with the end of the body, which also completes an event whose blank line is missing.
 *
 * **Gotchas**
 *
 * An event larger than {@link maxEventBytes} fails the stream.
 *
 * The end of a stream does not prove that it was complete: each protocol has its own final event.
 */
import * as AiError from "effect/ai/AiError"

/** One event. `event` is `undefined` if the server sends no event name. */
export interface SseEvent {
  readonly event: string | undefined
  readonly data: string
}

/** Iterator over arrays of events. `return` stops reading the body, which drains or closes the connection. */
export interface SseReader extends AsyncIterableIterator<ReadonlyArray<SseEvent>, undefined, undefined> {
  /** True after `[DONE]` has been read. */
  readonly finished: boolean
  readonly return: () => Promise<IteratorResult<ReadonlyArray<SseEvent>, undefined>>
}

const lineFeed = 10
const done = "[DONE]"
/** Maximum size of one event, in bytes. This is enough for any image in an answer. */
export const maxEventBytes = 32 * 1024 * 1024
const noEvents: ReadonlyArray<SseEvent> = []

const tooLarge = (): AiError.AiError =>
  AiError.make({
    module: "SseReader",
    method: "next",
    reason: new AiError.InvalidResponseError({
      description: `an event of the stream is larger than ${maxEventBytes / 1024 / 1024} MiB`
    })
  })

/** Builds events from the fields in the lines. */
class Fields {
  #event: string | undefined
  #data: string | undefined
  /** True after `[DONE]` has been read. */
  finished = false

  line(line: string, out: Array<SseEvent>): void {
    if (line === "") {
      this.close(out)
      return
    }
    if (this.#data !== undefined && this.#data.length + line.length > maxEventBytes) throw tooLarge()
    const colon = line.indexOf(":")
    if (colon === 4 && line.startsWith("data")) {
      const value = line.charCodeAt(5) === 32 ? line.slice(6) : line.slice(5)
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`
    } else if (colon === 5 && line.startsWith("event")) {
      this.#event = line.charCodeAt(6) === 32 ? line.slice(7) : line.slice(6)
    } else if (line === "data") {
      this.#data = this.#data === undefined ? "" : `${this.#data}\n`
    }
  }

  close(out: Array<SseEvent>): void {
    const data = this.#data
    if (data === done) this.finished = true
    else if (data !== undefined && data !== "") out.push({ event: this.#event, data })
    this.#data = undefined
    this.#event = undefined
  }
}

/** Joins pieces of a body. */
const joinBytes = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  const joined = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    joined.set(piece, at)
    at += piece.length
  }
  return joined
}

/** A body of bytes. Streams of some browsers are not iterable. */
export type EventBody = AsyncIterable<Uint8Array> | Pick<ReadableStream<Uint8Array>, "getReader">

async function* iterateStream(body: Pick<ReadableStream<Uint8Array>, "getReader">): AsyncGenerator<Uint8Array> {
  const reader = body.getReader()
  try {
    for (let item = await reader.read(); !item.done; item = await reader.read()) yield item.value
  } finally {
    await reader.cancel()
  }
}

class Reader implements SseReader {
  readonly #body: AsyncIterator<Uint8Array>
  readonly #fields = new Fields()
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true })
  /** Bytes received after the last line break. */
  #rest: Array<Uint8Array> = []
  #restBytes = 0
  #first = true
  #ended = false

  constructor(body: EventBody) {
    this.#body = Symbol.asyncIterator in body ? body[Symbol.asyncIterator]() : iterateStream(body)
  }

  get finished(): boolean {
    return this.#fields.finished
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<ReadonlyArray<SseEvent>, undefined>> {
    while (!this.#ended) {
      const item = await this.#body.next()
      const events = item.done === true ? this.#last() : this.#chunk(item.value)
      if (this.#fields.finished && item.done !== true) {
        this.#ended = true
        await this.#body.return?.()
      }
      if (events.length > 0) return { done: false, value: events }
    }
    return { done: true, value: undefined }
  }

  async return(): Promise<IteratorResult<ReadonlyArray<SseEvent>, undefined>> {
    if (!this.#ended) {
      this.#ended = true
      await this.#body.return?.()
    }
    return { done: true, value: undefined }
  }

  #chunk(chunk: Uint8Array): ReadonlyArray<SseEvent> {
    const end = chunk.lastIndexOf(lineFeed) + 1
    if (end === 0) {
      this.#rest.push(chunk)
      this.#restBytes += chunk.length
      if (this.#restBytes > maxEventBytes) throw tooLarge()
      return noEvents
    }
    const whole = this.#rest.length === 0 ? chunk.subarray(0, end) : joinBytes([...this.#rest, chunk.subarray(0, end)])
    this.#rest = end === chunk.length ? [] : [chunk.subarray(end)]
    this.#restBytes = chunk.length - end
    return this.#lines(whole)
  }

  #last(): ReadonlyArray<SseEvent> {
    this.#ended = true
    const out = this.#rest.length === 0 ? [] : this.#lines(joinBytes([...this.#rest, Uint8Array.of(lineFeed)]))
    this.#rest = []
    if (!this.#fields.finished) this.#fields.close(out)
    return out
  }

  /**
   * Splits `bytes` into lines and returns the completed events. `bytes` ends with a line feed, so no UTF-8 character is
   * cut.
   */
  #lines(bytes: Uint8Array): Array<SseEvent> {
    let text = this.#decoder.decode(bytes)
    if (this.#first) {
      this.#first = false
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1)
    }
    if (text.includes("\r")) text = text.replaceAll(/\r\n?/g, "\n")
    const out: Array<SseEvent> = []
    let start = 0
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
      this.#fields.line(text.slice(start, end), out)
      if (this.#fields.finished) break
      start = end + 1
    }
    return out
  }
}

/** Returns a reader of the events in a body. */
export const readEvents = (body: EventBody): SseReader => new Reader(body)
