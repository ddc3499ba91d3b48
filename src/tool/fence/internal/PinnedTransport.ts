/**
 * Sends one request to one of the addresses that were admitted, whatever the name says meanwhile. No redirect is followed,
 * and no more than a given number of bytes is kept.
 */
import * as Http from "node:http"
import * as Https from "node:https"
import { isIP, type LookupFunction } from "node:net"
import { pipeline, type Readable } from "node:stream"
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib"
import * as Effect from "effect/Effect"
import type { Admitted } from "../Urls.ts"
import { type Options, type Received, type Send, TransportFailed } from "../Wire.ts"

/** Answers every question with the admitted addresses. */
const pinned = (addresses: ReadonlyArray<string>): LookupFunction => (_host, options, done) => {
  const all = addresses.map((address) => ({ address, family: isIP(address) }))
  const [first] = all
  if (first === undefined) done(new Error("no address"), "")
  else if (options.all === true) done(null, all)
  else done(null, first.address, first.family)
}

const decoders: Readonly<Record<string, () => NodeJS.ReadWriteStream & Readable>> = {
  gzip: createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress
}

const collect = (stream: Readable, maxBytes: number): Promise<Pick<Received, "body" | "truncated">> =>
  new Promise((resolve, reject) => {
    const chunks: Array<Uint8Array> = []
    let bytes = 0
    const done = (truncated: boolean): void => {
      resolve({ body: new Uint8Array(Buffer.concat(chunks).subarray(0, maxBytes)), truncated })
    }
    stream.on("data", (chunk: Uint8Array) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes <= maxBytes) return
      done(true)
      stream.destroy()
    })
    stream.once("end", () => done(false))
    stream.once("error", reject)
  })

const received = async (response: Http.IncomingMessage, maxBytes: number): Promise<Received> => {
  const decoder = decoders[response.headers["content-encoding"] ?? ""]?.()
  // Errors of either end come out of the decoder.
  const stream = decoder === undefined ? response : pipeline(response, decoder, () => undefined)
  const headers = Object.entries(response.headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(", ") : value] as const]
  )
  return { status: response.statusCode ?? 0, headers: Object.fromEntries(headers), ...await collect(stream, maxBytes) }
}

const send = (
  { addresses, url }: Admitted,
  { body, headers, maxBytes, method = "GET" }: Options,
  signal: AbortSignal
): Promise<Received> =>
  new Promise((resolve, reject) => {
    const request = (url.protocol === "https:" ? Https : Http).request(url, {
      method,
      headers: { "accept-encoding": "gzip, deflate, br", ...headers },
      lookup: pinned(addresses),
      agent: false,
      signal
    }, (response) => {
      resolve(received(response, maxBytes).finally(() => request.destroy()))
    })
    request.on("error", reject)
    request.end(body)
  })

/** Says why a request failed, without the stack. */
const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return error.message === "" ? ("code" in error ? String(error.code) : error.name) : error.message
}

/** Sends one request to one of the addresses that were admitted, whatever the name says meanwhile. */
export const pinnedTransport: Send = {
  send: (to, options) =>
    Effect.tryPromise({
      try: (signal) => send(to, options, signal),
      catch: (error) => new TransportFailed({ message: reasonOf(error), cause: error })
    })
}
