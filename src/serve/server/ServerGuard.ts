/**
 * Admits requests to a server by host name and key, and limits the concurrent work.
 *
 * **Details**
 *
 * A server requires one of its keys (`Authorization: Bearer …` or `x-api-key`), even on a loopback address, because
 * other users and programs on the machine can reach that address. Only an open server has no key. An application may
 * choose this on a loopback address. `Host` must be a loopback name or one of the allowed names. If the server does not
 * listen on a loopback address, `Host` may also be an IP address. `Origin`, which browsers send, must be absent or
 * allowed in the same way. A page from another site can therefore neither read responses nor reach the server through a
 * domain name that resolves to its address.
 *
 * Source: `ARCHITECTURE.md` §3, `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type { HttpServerResponse } from "effect/http/HttpServerResponse"
import * as HttpListener from "../../base/platform/HttpListener.ts"
import { isSecret, makeSecret } from "../../base/platform/SharedSecret.ts"
import * as AnthropicError from "./AnthropicError.ts"
import * as ApiError from "./ApiError.ts"
import * as ServerKeys from "./ServerKeys.ts"

/** Options for admission to a server. */
export interface Options {
  /** Address that the server listens on. */
  readonly host: string
  /** Key that clients send. Without any key, every client is admitted. */
  readonly key: Redacted.Redacted<string> | undefined
  /** Additional host names under which clients may reach the server. */
  readonly allowedHosts: ReadonlyArray<string>
  /** Origins of web pages that may call the server. */
  readonly allowedOrigins: ReadonlyArray<string>
}

/** Returns the reason why a server must not be started with these options, or `undefined` if it may. */
export const explainRefusal = (
  { host, key, open = false }: Pick<Options, "host" | "key"> & { readonly open?: boolean | undefined },
  keys: ReadonlyArray<ServerKeys.NamedKey>
): string | undefined => {
  const hasKey = key !== undefined || keys.length > 0
  if (!hasKey && !HttpListener.isLoopback(host)) {
    return `listening on ${host} needs a key: set HERMES_SERVER_KEY to a long random text, or leave out --host`
  }
  if (hasKey && open) return "an open server has no keys: leave out the option open, or the keys"
  return ServerKeys.explainRefusal(key, keys)
}

/**
 * Returns the key in the options. If the options contain no key at all and the server is not open, generates a random
 * key.
 */
export const provideKey = (
  { key, open = false }: { readonly key?: Redacted.Redacted<string> | undefined; readonly open?: boolean | undefined },
  keys: ReadonlyArray<ServerKeys.NamedKey>
): Effect.Effect<Redacted.Redacted<string> | undefined> =>
  key !== undefined || open || keys.length > 0
    ? Effect.succeed(key)
    : Effect.map(makeSecret, (text) => Redacted.make(text))

/** Returns the name in a `Host` header, without its port. */
const parseHostName = (host: string): string => host.replace(/:\d+$/u, "").toLowerCase()

const isMeant = ({ allowedHosts, host: bound }: Options, host: string | undefined): boolean => {
  if (host === undefined) return false
  const name = parseHostName(host)
  if (allowedHosts.some((allowed) => allowed.toLowerCase() === name) || HttpListener.isLoopback(name)) return true
  return !HttpListener.isLoopback(bound) && (HttpListener.isAddress(name) || name === bound.toLowerCase())
}

const isOwnPage = ({ allowedOrigins }: Options, { host, origin }: HttpServerRequest["headers"]): boolean =>
  origin === undefined || origin === `http://${host}` || origin === `https://${host}` || allowedOrigins.includes(origin)

const readKey = (headers: HttpServerRequest["headers"]): string =>
  /^Bearer\s+(.+)$/iu.exec(headers["authorization"] ?? "")?.[1] ?? headers["x-api-key"] ?? ""

const notMeant = ApiError.make(
  403,
  "forbidden_host",
  "This server does not answer to that host name. Use its address, or start it with --allow-host NAME."
)
const otherPage = ApiError.make(
  403,
  "forbidden_origin",
  "Pages of other sites may not call this server. Start it with --allow-origin ORIGIN to allow one."
)
const wrongKey = ApiError.make(
  401,
  "invalid_api_key",
  "The API key is missing or wrong: send the key that `hermes serve` named at its start (server.key of its home " +
    "directory, or HERMES_SERVER_KEY), or the key of your name in server.keys, as Authorization: Bearer or x-api-key."
)

/**
 * Admits a request. Returns the named key of the client, or `undefined` if the client used the server's own key or
 * needs no key.
 */
export const admit = <A extends ServerKeys.NamedKey>(
  options: Options,
  keys: ReadonlyArray<A>,
  { headers, url }: Pick<HttpServerRequest, "headers" | "url">
): Result.Result<A | undefined, ApiError.ApiError> => {
  if (!isMeant(options, headers["host"])) return Result.fail(notMeant)
  if (!isOwnPage(options, headers)) return Result.fail(otherPage)
  // A health check reveals no client data and needs no key.
  if ((options.key === undefined && keys.length === 0) || url === "/health") return Result.succeed(undefined)
  const given = readKey(headers)
  const named = ServerKeys.find(given, keys)
  const isOwner = options.key !== undefined && isSecret(given, Redacted.value(options.key))
  return named !== undefined || isOwner ? Result.succeed(named) : Result.fail(wrongKey)
}

/** Limits for the work of a server, or of one of its keys. */
export interface Bounds {
  /** Maximum number of concurrent requests. */
  readonly maxRequests: number
  /** Maximum number of open responses, including streams. */
  readonly maxConnections: number
  /** Maximum size of a body in bytes. */
  readonly maxBody: number
  /** Maximum total size of the bodies of all active requests, in bytes. */
  readonly maxBodies: number
}

/**
 * Estimates the maximum size of a request's body in bytes: its declared length, or `maxBody` if the length is unknown
 * or larger.
 */
const estimateBodyBytes = ({ headers }: Pick<HttpServerRequest, "headers">, maxBody: number): number => {
  if (headers["transfer-encoding"] !== undefined) return maxBody
  const length = Number(headers["content-length"] ?? 0)
  return Number.isFinite(length) ? Math.min(length, maxBody) : maxBody
}

/**
 * Makes a limiter. It counts active requests, the size of their bodies, and responses until their last byte is sent. It
 * refuses requests that exceed a limit.
 */
export const makeLimiter = ({ maxBodies, maxBody, maxConnections, maxRequests }: Bounds) => {
  let active = 0
  let open = 0
  let bodies = 0
  return <E, R>(
    request: Pick<HttpServerRequest, "headers" | "url">,
    answer: Effect.Effect<HttpServerResponse, E, R>
  ): Effect.Effect<HttpServerResponse, E, R | Scope.Scope> =>
    Effect.suspend(() => {
      const respondOverloaded = (reason: string) => {
        const error = ApiError.make(503, "overloaded", `${reason} Try again in a moment.`)
        return Effect.succeed(AnthropicError.respondTo(request.url, error))
      }
      if (active >= maxRequests) return respondOverloaded(`This server answers ${maxRequests} requests at once.`)
      if (open >= maxConnections)
        return respondOverloaded(`${maxConnections} answers of this server are open, streams of events among them.`)
      const bytes = estimateBodyBytes(request, maxBody)
      if (bodies + bytes > maxBodies)
        return respondOverloaded(`The bodies of requests under way may have ${maxBodies} bytes in all.`)
      active++
      open++
      bodies += bytes
      const closed = Effect.addFinalizer(() => Effect.sync(() => open--))
      return Effect.andThen(
        closed,
        Effect.ensuring(
          answer,
          Effect.sync(() => {
            active--
            bodies -= bytes
          })
        )
      )
    })
}
