/**
 * A page on this machine that a browser comes back to after a login, once.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { randomBytes } from "node:crypto"
import { createServer, type Server } from "node:http"
import { type Failure, usage } from "../Failure.ts"

export interface Loopback {
  readonly url: string
  /** Nobody can guess it. */
  readonly state: string
  readonly returned: Effect.Effect<URLSearchParams>
}

const path = "/callback"

const page = "<!doctype html><title>hermes</title><p>You can close this page and go back to the terminal.</p>"

/** Listens until the scope ends; port 0 is any that is free. */
export const listen = (port: number): Effect.Effect<Loopback, Failure, Scope.Scope> =>
  Effect.gen(function*() {
    const returned = yield* Deferred.make<URLSearchParams>()
    const server = yield* Effect.acquireRelease(
      Effect.callback<Server, Failure>((resume) => {
        const server = createServer((request, response) => {
          const url = new URL(request.url ?? "/", "http://127.0.0.1")
          if (url.pathname !== path) {
            response.writeHead(404).end()
            return
          }
          response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(page)
          Deferred.doneUnsafe(returned, Effect.succeed(url.searchParams))
        })
        server.once("error", ({ message }) =>
          resume(usage(`cannot use port ${port} (${message}): set another oauth.redirect_port`)))
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
    return { url: `http://127.0.0.1:${at}${path}`, state: randomBytes(24).toString("base64url"), returned: Deferred.await(returned) }
  })
