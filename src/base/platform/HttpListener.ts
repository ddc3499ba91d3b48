/**
 * An HTTP server for programs, with an address, a limit on connections, and a graceful shutdown.
 *
 * **Details**
 *
 * At the end of the scope the server accepts no more connections, waits for active requests up to a time limit, and
 * closes the remaining connections, which interrupts their handlers. If a client disconnects, the handler of its
 * request is interrupted.
 *
 * A client that does not read its answer is disconnected after `stallMillis`; until then writing is suspended. This
 * limit does not apply while an answer is still being computed.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Etag from "effect/http/Etag"
import type * as HttpPlatform from "effect/http/HttpPlatform"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type { HttpServerResponse } from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Http from "node:http"
import { BlockList, isIP } from "node:net"
import type { Platform } from "./ChildProcesses.ts"
import * as OptionalPackage from "./OptionalPackage.ts"

/** Address and limits of a server. */
export interface Options {
  readonly host: string
  /** Port to listen on; 0 selects any free port. */
  readonly port: number
  readonly maxConnections: number
  /** Time within which a whole request has to arrive, in milliseconds. */
  readonly requestTimeoutMillis: number
  /** Time that active requests have to complete when the server ends. */
  readonly graceful: Duration.Input
  /** Time within which a client has to read a part of its answer, in milliseconds. */
  readonly stallMillis: number
}

/** A server that listens on its address. */
export interface Listener {
  readonly port: number
  /** Answers requests until the scope closes. */
  readonly serve: (
    handler: Effect.Effect<HttpServerResponse, never, HttpServerRequest | Scope.Scope>
  ) => Effect.Effect<void, never, Scope.Scope>
}

/**
 * Returns a function that monitors responses, so that a connection is closed if its client stops reading written data.
 */
const cutStalled = (responses: Iterable<Http.ServerResponse>, stallMillis: number) => {
  const watched = new WeakSet<Http.ServerResponse>()
  return (): void => {
    for (const response of responses) {
      const { socket } = response
      const isWaiting = socket !== null && (response.writableNeedDrain || socket.writableLength > 0)
      // The timeout restarts whenever data is sent; when it expires the server closes the connection.
      if (isWaiting && !watched.has(response)) {
        watched.add(response)
        socket.setTimeout(stallMillis)
      } else if (!isWaiting && watched.delete(response)) {
        socket?.setTimeout(0)
      }
    }
  }
}

/** Listens on an address. Fails with the system's error message if the address cannot be used. */
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
    yield* Effect.forkScoped(Effect.schedule(Effect.sync(watch), Schedule.spaced(Math.ceil(stallMillis / 4))))
    const NodeHttpServer = yield* Effect.mapError(OptionalPackage.httpServers, ({ message }) => message)
    const { serve } = yield* Effect.mapError(
      NodeHttpServer.make(() => server, { host, port, gracefulShutdownTimeout: graceful }),
      ({ cause }) => (cause instanceof Error ? cause.message : String(cause))
    )
    // Closes connections that remain after the time limit for active requests.
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    const address = server.address()
    // Disables keep-alive for active responses; otherwise their connections would stay open for later requests.
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

/** Provides the platform services that API handlers require. */
export const layerServices: Layer.Layer<HttpPlatform.HttpPlatform | Etag.Generator | Platform, string> = Layer.unwrap(
  Effect.mapBoth(OptionalPackage.httpServers, {
    onFailure: ({ message }) => message,
    onSuccess: ({ layerHttpServices }) => layerHttpServices
  })
)

const loopback = new BlockList()
loopback.addSubnet("127.0.0.0", 8, "ipv4")
loopback.addAddress("::1", "ipv6")

/** Tests whether an address or name always refers to this machine. */
export const isLoopback = (host: string): boolean => {
  const bare = host.replace(/^\[(.*)\]$/u, "$1")
  const kind = isIP(bare)
  return kind === 0 ? bare === "localhost" : loopback.check(bare, kind === 4 ? "ipv4" : "ipv6")
}

/** Tests whether a host is an IP address. Unlike a name, an address cannot belong to another site. */
export const isAddress = (host: string): boolean => isIP(host.replace(/^\[(.*)\]$/u, "$1")) !== 0
