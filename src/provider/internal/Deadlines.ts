/**
 * How long a connection may take to come about, and how long a stream of events may send no byte at all.
 *
 * **Details**
 *
 * The wait between bytes is that of the socket itself, which costs nothing for a piece that arrives. It holds for streams
 * of events only, and only once their answer has begun: before that, and between events, others watch who know how large the
 * request is. A reader that takes its time, with bytes waiting for it, is no silence.
 *
 * Source: `hermes-llm.md` §2.5.
 *
 * @since 0.1.0
 */
import type { ClientRequest, IncomingMessage } from "node:http"
import type { Readable } from "node:stream"

/** A connection that is not there after this long, TLS included, does not come any more. */
export const connectMillis = 30_000

/** The code of the error that a silent stream ends with. */
export const silentCode = "ERR_STREAM_SILENT"

/** More would overflow the timer of a socket. */
const maxTimeoutMillis = 2_147_483_647

const unconnected = (millis: number): Error =>
  Object.assign(new Error(`no connection after ${millis} ms`), { code: "ETIMEDOUT" })

const silent = (millis: number): Error =>
  Object.assign(new Error(`no byte for ${Math.round(millis / 1_000)} s`), { code: silentCode })

/** Ends a request whose connection does not come about. */
export const connecting = (request: ClientRequest, millis = connectMillis): void => {
  request.once("socket", (socket) => {
    if (!socket.connecting) return
    const timer = setTimeout(() => request.destroy(unconnected(millis)), millis)
    const stop = (): void => clearTimeout(timer)
    socket.once("encrypted" in socket ? "secureConnect" : "connect", stop)
    socket.once("close", stop)
  })
}

const isStream = (message: IncomingMessage): boolean => /event-?stream/i.test(message.headers["content-type"] ?? "")

/** Ends the body of a stream when no byte of it came for so long. `source` is what is read: the message, or it decoded. */
export const reading = (message: IncomingMessage, source: Readable, asked: number | undefined): void => {
  if (asked === undefined || !isStream(message)) return
  const millis = Math.min(asked, maxTimeoutMillis)
  const { socket } = message
  const onTimeout = (): void => {
    if (source.isPaused()) socket.setTimeout(millis)
    else source.destroy(silent(millis))
  }
  socket.setTimeout(millis)
  socket.on("timeout", onTimeout)
  const stop = (): void => {
    socket.off("timeout", onTimeout)
    socket.setTimeout(0)
  }
  // The connection may serve another request by then.
  message.once("end", stop)
  message.once("close", stop)
}
