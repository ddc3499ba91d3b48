/** A `fetch` function that sends with Effect's `HttpClient`, with the client's tracing, retries and transformations. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpClient } from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import { isHttpMethod } from "effect/http/HttpMethod"
import * as Stream from "effect/Stream"
import type { Fetch } from "./ModelTransport.ts"

/** Status codes of answers without a body. */
const nullBody = new Set([204, 205, 304])

const addBody = (
  request: HttpClientRequest.HttpClientRequest,
  body: RequestInit["body"],
  type: string | undefined
): HttpClientRequest.HttpClientRequest => {
  if (typeof body === "string") return HttpClientRequest.bodyText(request, body, type)
  if (body instanceof Uint8Array) return HttpClientRequest.bodyUint8Array(request, body, type)
  if (body === undefined || body === null) return request
  throw new TypeError("a request body must be a string or bytes")
}

/** Creates the function from the client of the context. Its requests belong to the fiber that sends them. */
export const make: Effect.Effect<Fetch, never, HttpClient> = Effect.gen(function* () {
  const context = yield* Effect.context<HttpClient>()
  const client = Context.get(context, HttpClient)
  return async (input, init = {}) => {
    if (typeof input !== "string" && !(input instanceof URL)) throw new TypeError("an address must be a string or URL")
    const method = init.method?.toUpperCase() ?? "GET"
    if (!isHttpMethod(method)) throw new TypeError(`unknown method ${method}`)
    const headers = Object.fromEntries(new Headers(init.headers))
    const request = addBody(HttpClientRequest.make(method)(input, { headers }), init.body, headers["content-type"])
    const run = Effect.runPromiseWith(context)
    const response = await run(client.execute(request), init.signal ? { signal: init.signal } : {})
    const body = nullBody.has(response.status) ? null : Stream.toReadableStream(response.stream)
    return new Response(body, { status: response.status, headers: response.headers })
  }
})
