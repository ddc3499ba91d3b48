/**
 * Sends one request to one of the addresses that were admitted, whatever the name says meanwhile. No redirect is followed.
 *
 * @since 0.1.0
 */
import * as Http from "node:http"
import * as Https from "node:https"
import type { LookupFunction } from "node:net"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Received, Transport, TransportFailed } from "../Fetch.ts"

const familyOf = (address: string): 4 | 6 => address.includes(":") ? 6 : 4

/** Answers every question with the admitted addresses. */
const pinned = (addresses: ReadonlyArray<string>): LookupFunction => (_host, options, done) => {
  const all = addresses.map((address) => ({ address, family: familyOf(address) }))
  const [first] = all
  if (first === undefined) done(new Error("no address"), "")
  else if (options.all === true) done(null, all)
  else done(null, first.address, first.family)
}

/** See the module. */
export const layer: Layer.Layer<Transport> = Layer.succeed(Transport, {
  send: ({ addresses, url }, { headers, maxBytes }) =>
    Effect.callback<Received, TransportFailed>((resume) => {
      const failed = (error: Error) => resume(Effect.fail(new TransportFailed({ message: error.message, cause: error })))
      const request = (url.protocol === "https:" ? Https : Http).request(
        url,
        { method: "GET", headers: { ...headers, "accept-encoding": "identity" }, lookup: pinned(addresses), agent: false },
        (response) => {
          const chunks: Array<Buffer> = []
          let bytes = 0
          const finish = (truncated: boolean) =>
            resume(Effect.succeed({
              status: response.statusCode ?? 0,
              location: response.headers.location,
              contentType: response.headers["content-type"],
              body: Buffer.concat(chunks).subarray(0, maxBytes),
              truncated
            }))
          response.on("data", (chunk: Buffer) => {
            bytes += chunk.length
            chunks.push(chunk)
            if (bytes <= maxBytes) return
            finish(true)
            request.destroy()
          })
          response.on("end", () => finish(false))
          response.on("error", failed)
        }
      )
      request.on("error", failed)
      request.end()
      return Effect.sync(() => void request.destroy())
    })
})
