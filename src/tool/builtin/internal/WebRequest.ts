/**
 * One HTTP request to an address that was judged before: the name is not looked up again, so that it can not mean another
 * address by now. Redirects are not followed, and no more than a given number of bytes is kept.
 *
 * @since 0.1.0
 */
import { request as httpRequest } from "node:http"
import { request as httpsRequest } from "node:https"
import type { LookupFunction } from "node:net"
import { isIP } from "node:net"
import { pipeline, type Readable } from "node:stream"
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib"

/** What to ask for. */
export interface Request {
  readonly url: URL
  /** Judged addresses of the host, tried in order by the system. */
  readonly addresses: ReadonlyArray<string>
  readonly method?: "GET" | "POST"
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** What came back. Header names are lower case. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** There was more than `maxBytes`. */
  readonly truncated: boolean
}

const pinned = (addresses: ReadonlyArray<string>): LookupFunction => (_host, options, callback) => {
  const all = addresses.map((address) => ({ address, family: isIP(address) }))
  const [first] = all
  if (options.all === true) callback(null, all)
  else callback(null, first?.address ?? "", first?.family)
}

const decoders: Readonly<Record<string, () => NodeJS.ReadWriteStream & Readable>> = {
  gzip: createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress
}

const collect = (stream: Readable, maxBytes: number): Promise<Pick<Answer, "body" | "truncated">> =>
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

/** See the module. */
export const send = ({ addresses, body, headers = {}, maxBytes, method = "GET", signal, url }: Request): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const make = url.protocol === "https:" ? httpsRequest : httpRequest
    const request = make(url, {
      method,
      headers: { "accept-encoding": "gzip, deflate, br", ...headers },
      lookup: pinned(addresses),
      agent: false,
      signal
    }, (response) => {
      const decoder = decoders[response.headers["content-encoding"] ?? ""]?.()
      // Errors of either end come out of the decoder.
      const stream = decoder === undefined ? response : pipeline(response, decoder, () => undefined)
      const given = Object.entries(response.headers).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, Array.isArray(value) ? value.join(", ") : value] as const]
      )
      const { statusCode = 0 } = response
      resolve(collect(stream, maxBytes).then((content) => {
        request.destroy()
        return { status: statusCode, headers: Object.fromEntries(given), ...content }
      }))
    })
    request.on("error", reject)
    request.end(body)
  })
