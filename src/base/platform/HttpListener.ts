/**
 * An HTTP server for programs: an address, a bound on its connections, and an end that loses no request.
 *
 * **Details**
 *
 * It ends with the scope: it accepts no more connections, waits for active requests up to its limit, and closes the
 * remaining ones, whose handlers are interrupted. A client that goes away interrupts the handler of its request.
 *
 * A client that does not read its answer is disconnected after a while; until then writing is suspended. This limit
 * does not apply to an answer that is still being computed.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Etag from "effect/http/Etag"
import type * as HttpPlatform from "effect/http/HttpPlatform"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type { HttpServerResponse } from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Http from "node:http"
import { BlockList, isIP } from "node:net"
import type { Platform } from "./ChildProcesses.ts"
import * as OptionalPackage from "./OptionalPackage.ts"

/** Address and bounds of a server. */
export interface Options {
  readonly host: string
  /** 0 is any port that is free. */
  readonly port: number
  readonly maxConnections: number
  /** Time in which a request has to arrive whole. */
  readonly requestTimeoutMillis: number
  /** Time that requests under way have when the server ends. */
  readonly graceful: Duration.Input
  /** Time in milliseconds within which a client has to read some of its answer. */
  readonly stallMillis: number
}

/** A listening server. */
export interface Listener {
  readonly port: number
  /** Answers requests as long as the scope lives. */
  readonly serve: (
    handler: Effect.Effect<HttpServerResponse, never, HttpServerRequest | Scope.Scope>
  ) => Effect.Effect<void, never, Scope.Scope>
}

/**
 * Watches responses, so that a connection is cut through which nothing goes any more although something was written.
 */
const cutStalled = (responses: Iterable<Http.ServerResponse>, stallMillis: number) => {
  const watched = new WeakSet<Http.ServerResponse>()
  return (): void => {
    for (const response of responses) {
      const { socket } = response
      const isWaiting = socket !== null && (response.writableNeedDrain || socket.writableLength > 0)
      // The time starts over with everything that goes through; at its end the server closes the connection.
      if (isWaiting && !watched.has(response)) {
        watched.add(response)
        socket.setTimeout(stallMillis)
      } else if (!isWaiting && watched.delete(response)) {
        socket?.setTimeout(0)
      }
    }
  }
}

/** Listens on an address. Fails with the message of the system when that cannot be used. */
export const open = ({
  graceful,
  host,
  maxConnections,
  port,
  requestTimeoutMillis,
  stallMillis
}: Options): Effect.Effect<Listener, string, Scope.Scope> =>
  Effect.gen(function* () {
    const server = Http.createServer({
      requestTimeout: requestTimeoutMillis,
      headersTimeout: Math.min(requestTimeoutMillis, 60_000)
    })
    server.maxConnections = maxConnections
    const underWay = new Set<Http.ServerResponse>()
    server.on("request", (_, response: Http.ServerResponse) => {
      underWay.add(response)
      response.once("close", () => underWay.delete(response))
    })
    const watch = cutStalled(underWay, stallMillis)
    yield* Effect.forkScoped(
      Effect.forever(Effect.andThen(Effect.sleep(Math.ceil(stallMillis / 4)), Effect.sync(watch)))
    )
    const NodeHttpServer = yield* Effect.mapError(OptionalPackage.httpServers, ({ message }) => message)
    const { serve } = yield* Effect.mapError(
      NodeHttpServer.make(() => server, { host, port, gracefulShutdownTimeout: graceful }),
      ({ cause }) => (cause instanceof Error ? cause.message : String(cause))
    )
    // Cuts connections that are left after the time for requests under way.
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    const address = server.address()
    // Otherwise, their connections would stay open for another request.
    const last = Effect.sync(() => {
      for (const response of underWay) response.shouldKeepAlive = false
    })
    return {
      port: typeof address === "object" && address !== null ? address.port : port,
      serve: (handler) =>
        Effect.andThen(
          serve(handler),
          Effect.addFinalizer(() => last)
        )
    }
  })

/** Services of the platform that handlers of an API want. */
export const layerServices: Layer.Layer<HttpPlatform.HttpPlatform | Etag.Generator | Platform, string> = Layer.unwrap(
  Effect.mapBoth(OptionalPackage.httpServers, {
    onFailure: ({ message }) => message,
    onSuccess: ({ layerHttpServices }) => layerHttpServices
  })
)

const loopback = new BlockList()
loopback.addSubnet("127.0.0.0", 8, "ipv4")
loopback.addAddress("::1", "ipv6")

/** Tests if an address or name can only mean this machine. */
export const isLoopback = (host: string): boolean => {
  const bare = host.replace(/^\[(.*)\]$/u, "$1")
  const kind = isIP(bare)
  return kind === 0 ? bare === "localhost" : loopback.check(bare, kind === 4 ? "ipv4" : "ipv6")
}

/** Tests if a host is an IP address, which cannot be the name of another site. */
export const isAddress = (host: string): boolean => isIP(host.replace(/^\[(.*)\]$/u, "$1")) !== 0
