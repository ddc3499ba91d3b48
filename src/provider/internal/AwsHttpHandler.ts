/**
 * The AWS SDK's connection to the network, over the HTTP client that all providers share. The SDK's own speaks HTTP/2 for
 * this service, which local servers and proxies do not; Converse needs no more than HTTP/1.1.
 */

/** A request as the SDK hands it over, signed. */
export interface HttpRequest {
  readonly protocol: string
  readonly hostname: string
  readonly port?: number | undefined
  readonly method: string
  readonly path: string
  readonly query?: Readonly<Record<string, string | ReadonlyArray<string> | null>> | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** An answer as the SDK reads it. */
export interface HttpResponse {
  readonly statusCode: number
  readonly reason: string
  readonly headers: Record<string, string>
  readonly body: unknown
}

/** A connection, as the SDK uses it. */
export interface Handler {
  readonly metadata: { readonly handlerProtocol: string }
  readonly handle: (
    request: HttpRequest,
    options?: { readonly abortSignal?: unknown }
  ) => Promise<{ readonly response: HttpResponse }>
  readonly destroy: () => void
  readonly updateHttpClientConfig: () => void
  readonly httpHandlerConfigs: () => Record<string, never>
}

/** As signatures want it: everything but letters, digits, `-`, `.`, `_` and `~` in percent signs. */
const escape = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

const queryOf = (query: HttpRequest["query"]): string => {
  const pairs = Object.entries(query ?? {}).toSorted(([a], [b]) => a < b ? -1 : 1).flatMap(([name, value]) =>
    value === null
      ? [escape(name)]
      : (typeof value === "string" ? [value] : value).map((one) => `${escape(name)}=${escape(one)}`)
  )
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`
}

const addressOf = (request: HttpRequest): string => {
  const port = request.port === undefined ? "" : `:${request.port}`
  return `${request.protocol}//${request.hostname}${port}${request.path}${queryOf(request.query)}`
}

const bodyOf = (body: unknown): string | Uint8Array<ArrayBuffer> | undefined => {
  if (typeof body === "string") return body
  // The SDK's serializer makes texts and fresh byte arrays.
  return body instanceof Uint8Array && body.byteLength > 0 ? body as Uint8Array<ArrayBuffer> : undefined
}

/** A connection over `fetch`. A failed answer's body is read whole; a good one is read as it comes. */
export const make = (fetch: typeof globalThis.fetch): Handler => ({
  metadata: { handlerProtocol: "http/1.1" },
  handle: async (request, options) => {
    const body = bodyOf(request.body)
    const signal = options?.abortSignal
    const response = await fetch(addressOf(request), {
      method: request.method,
      headers: { ...request.headers },
      ...(body === undefined ? {} : { body }),
      ...(signal instanceof AbortSignal ? { signal } : {})
    })
    return {
      response: {
        statusCode: response.status,
        reason: response.statusText,
        headers: Object.fromEntries(response.headers),
        body: response.ok ? response.body : new Uint8Array(await response.arrayBuffer())
      }
    }
  },
  destroy: () => {},
  updateHttpClientConfig: () => {},
  httpHandlerConfigs: () => ({})
})

/** Reads a body that {@link make} gave to the SDK to its end. */
export const collect = async (body: unknown): Promise<Uint8Array> => {
  if (body instanceof Uint8Array) return body
  const chunks: Array<Uint8Array> = []
  let size = 0
  // The body of a good answer is a stream of bytes.
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    chunks.push(chunk)
    size += chunk.length
  }
  const whole = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
  }
  return whole
}
