/** An HTTP server on the loopback address, and the secrets that its clients send. */
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type { HttpServerResponse } from "effect/http/HttpServerResponse"
import type * as Scope from "effect/Scope"
import { randomBytes } from "node:crypto"
import * as Http from "node:http"
import * as OptionalPackage from "./OptionalPackage.ts"
import { isSecret } from "./SharedSecret.ts"

/** A server that listens on the loopback address. */
interface Server {
  /** Port that was requested or selected. */
  readonly port: number
  /** Answers requests until the scope closes. */
  readonly serve: (
    handler: Effect.Effect<HttpServerResponse, never, HttpServerRequest | Scope.Scope>
  ) => Effect.Effect<void, never, Scope.Scope>
}

/**
 * Listens on 127.0.0.1; port 0 selects any free port. Fails with the system's error message if the port cannot be used.
 * Open connections are closed when the scope ends.
 */
export const open = (port: number): Effect.Effect<Server, string, Scope.Scope> =>
  Effect.gen(function* () {
    const server = Http.createServer({ requestTimeout: 30_000 })
    const NodeHttpServer = yield* Effect.mapError(OptionalPackage.httpServers, ({ message }) => message)
    const { serve } = yield* Effect.mapError(
      NodeHttpServer.make(() => server, { host: "127.0.0.1", port, disablePreemptiveShutdown: true }),
      ({ cause }) => (cause instanceof Error ? cause.message : String(cause))
    )
    // Closes connections before the server waits for them to end, because event streams never end.
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    const address = server.address()
    return { port: typeof address === "object" && address !== null ? address.port : port, serve }
  })

/** Secrets of a server: the token in its address, and the cookie that a browser receives for the token. */
interface Keys {
  readonly token: string
  /**
   * Value of the header `set-cookie`. Scripts cannot read the cookie, and other sites cannot make a browser send it.
   */
  readonly setCookie: string
  /** Tests whether a string is the token. */
  readonly isToken: (given: string) => boolean
  /** Tests whether a request contains the cookie, or the token as `Authorization: Bearer`. */
  readonly admits: (request: Pick<HttpServerRequest, "cookies" | "headers">) => boolean
}

/** Creates keys of 24 random bytes each for the server on a port. */
export const makeKeys = (port: number): Effect.Effect<Keys> =>
  Effect.sync(() => {
    const [token, value] = [randomBytes(24).toString("base64url"), randomBytes(24).toString("base64url")]
    // The name contains the port, because all ports of a host share cookies.
    const name = `hermes_studio_${port}`
    const isToken = (given: string): boolean => isSecret(given, token)
    return {
      token,
      setCookie: `${name}=${value}; Path=/; HttpOnly; SameSite=Strict`,
      isToken,
      admits: ({ cookies, headers }) =>
        isSecret(cookies[name] ?? "", value) ||
        isToken(/^Bearer (.+)$/u.exec(headers["authorization"] ?? "")?.[1] ?? "")
    }
  })

/** Returns the names for this machine that a browser may use to address a server on a port. */
const listHostNames = (port: number): ReadonlyArray<string> => [`127.0.0.1:${port}`, `localhost:${port}`]

/**
 * Tests whether a request addresses this server and comes from its own pages. A page of another site can reach a
 * loopback address through a domain name that resolves to it (DNS rebinding); `Host` or `Origin` then contains that
 * name.
 */
export const isOwnName = (port: number, headers: HttpServerRequest["headers"]): boolean => {
  const { host, origin } = headers
  return (
    host !== undefined && listHostNames(port).includes(host) && (origin === undefined || origin === `http://${host}`)
  )
}
