/**
 * Low-level network functions: name resolution, requests to given addresses, and a page to which a browser is
 * redirected.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { randomBytes } from "node:crypto"
import { lookup } from "node:dns/promises"
import type * as Http from "node:http"
import { isIP, type LookupFunction, Socket } from "node:net"
import type { Readable } from "node:stream"

/** Resolves a name to all its addresses with the resolver on this machine, including its hosts file. */
export const resolveAddresses = (host: string) =>
  Effect.map(
    Effect.tryPromise(() => lookup(host, { all: true })),
    (answers) => answers.map(({ address }) => address)
  )

/**
 * A request that is sent to one of the given addresses, regardless of the address to which the host name in its URL
 * resolves.
 */
interface PinnedRequest {
  readonly url: URL
  readonly addresses: ReadonlyArray<string>
  readonly method: "GET" | "POST"
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  /** Maximum number of bytes of the response body to retain, after decompression. */
  readonly maxBytes: number
}

/** Answer to a pinned request. Header names are lower case. */
interface PinnedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** True if the body is longer than the retained part. */
  readonly truncated: boolean
}

/** Creates a lookup function that resolves every name to the given addresses. */
const makePinnedLookup =
  (addresses: ReadonlyArray<string>): LookupFunction =>
  (_host, options, done) => {
    const all = addresses.map((address) => ({ address, family: isIP(address) }))
    const [first] = all
    if (first === undefined) done(new Error("no address"), "")
    else if (options.all === true) done(null, all)
    else done(null, first.address, first.family)
  }

const collectBody = (stream: Readable, maxBytes: number): Promise<Pick<PinnedAnswer, "body" | "truncated">> =>
  new Promise((resolve, reject) => {
    const chunks: Array<Uint8Array> = []
    let bytes = 0
    const resolveBody = (truncated: boolean): void => {
      resolve({ body: new Uint8Array(Buffer.concat(chunks).subarray(0, maxBytes)), truncated })
    }
    stream.on("data", (chunk: Uint8Array) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes <= maxBytes) return
      resolveBody(true)
      stream.destroy()
    })
    stream.once("end", () => resolveBody(false))
    stream.once("error", reject)
  })

const readAnswer = async (
  response: Http.IncomingMessage,
  maxBytes: number,
  { withoutEncodings }: typeof import("./Compression.ts")
): Promise<PinnedAnswer> => {
  const headers = Object.entries(response.headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(", ") : value] as const]
  )
  const stream = withoutEncodings(response, response.headers["content-encoding"] ?? "")
  return {
    status: response.statusCode ?? 0,
    headers: Object.fromEntries(headers),
    ...(await collectBody(stream, maxBytes))
  }
}

/** Sends one request to the given addresses. Does not follow redirects, and retains at most `maxBytes` of the body. */
export const requestPinned = async (
  { addresses, body, headers, maxBytes, method, url }: PinnedRequest,
  signal: AbortSignal
): Promise<PinnedAnswer> => {
  // Loaded on the first request, so that programs without requests start faster.
  const [client, compression] = await Promise.all([
    url.protocol === "https:" ? import("node:https") : import("node:http"),
    import("./Compression.ts")
  ])
  return new Promise((resolve, reject) => {
    const request = client.request(
      url,
      {
        method,
        headers: { "accept-encoding": "gzip, deflate, br", ...headers },
        lookup: makePinnedLookup(addresses),
        agent: false,
        signal
      },
      (response) => {
        resolve(readAnswer(response, maxBytes, compression).finally(() => request.destroy()))
      }
    )
    request.on("error", reject)
    request.end(body)
  })
}

/** A page on this machine to which a browser is redirected once. */
interface CallbackPage {
  readonly url: string
  /** Random state parameter: 24 bytes in base64url. */
  readonly state: string
  /** Query of the redirect that the browser followed. */
  readonly returned: Effect.Effect<URLSearchParams>
}

const callbackPath = "/callback"

/**
 * Serves `html` on the loopback address until the scope ends; port 0 selects any free port. Fails with the system's
 * error message if the port cannot be used.
 */
export const openCallbackPage = (port: number, html: string): Effect.Effect<CallbackPage, string, Scope.Scope> =>
  Effect.gen(function* () {
    const { createServer } = yield* Effect.promise(() => import("node:http"))
    const returned = yield* Deferred.make<URLSearchParams>()
    const server = yield* Effect.acquireRelease(
      Effect.callback<Http.Server, string>((resume) => {
        const server = createServer((request, response) => {
          const url = new URL(request.url ?? "/", "http://127.0.0.1")
          if (url.pathname !== callbackPath) {
            response.writeHead(404).end()
            return
          }
          response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(html)
          Deferred.doneUnsafe(returned, Effect.succeed(url.searchParams))
        })
        server.once("error", ({ message }) => resume(Effect.fail(message)))
        server.listen(port, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const address = server.address()
    const at = typeof address === "object" && address !== null ? address.port : port
    return {
      url: `http://127.0.0.1:${at}${callbackPath}`,
      state: randomBytes(24).toString("base64url"),
      returned: Deferred.await(returned)
    }
  })

const isLoopbackName = (host: string): boolean => host === "localhost" || host === "::1" || host.startsWith("127.")

/** The address that a call of `Socket.connect` names; `undefined` for a local socket. */
const readHost = ([first, second]: ReadonlyArray<unknown>): string | undefined => {
  // Node passes the normalised arguments of `net.connect` as one list.
  const options: unknown = Array.isArray(first) ? first[0] : first
  if (typeof options === "number") return typeof second === "string" ? second : "localhost"
  if (typeof options !== "object" || options === null) return undefined
  if (typeof Reflect.get(options, "path") === "string") return undefined
  const host: unknown = Reflect.get(options, "host")
  return typeof host === "string" ? host : "localhost"
}

/**
 * Refuses connections to other machines until the scope closes. Connections to this machine are allowed. Processes that
 * this process starts are not affected.
 */
export const blockNetwork: Effect.Effect<void, never, Scope.Scope> = Effect.asVoid(
  Effect.acquireRelease(
    Effect.sync(() => {
      const { connect } = Socket.prototype
      // The overloads of `connect` have no common list of parameters.
      const refuseConnection = function (this: Socket, ...args: ReadonlyArray<unknown>): Socket {
        const host = readHost(args)
        if (host === undefined || isLoopbackName(host)) return Reflect.apply(connect, this, args)
        process.nextTick(() => this.destroy(new Error(`no network in tests of plugins: connection to ${host} refused`)))
        return this
      }
      Socket.prototype.connect = refuseConnection as typeof connect
      return connect
    }),
    (connect) => Effect.sync(() => void (Socket.prototype.connect = connect))
  )
)
