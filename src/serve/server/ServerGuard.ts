/**
 * Admits requests to a server: its name, its key, and bounds on how much it does at once.
 *
 * **Details**
 *
 * A server requires one of its keys (`Authorization: Bearer …`), on the loopback too: other users and programs of the
 * machine reach that address. Only an open server, which an application may choose on the loopback, has no key.
 * `Host` is a loopback name, or elsewhere an address or one of the names that were allowed, and `Origin`, which
 * browsers send, is absent or the same: a page of another site can neither reach the server by a name that it points
 * here nor read its answers.
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
import * as ApiError from "./ApiError.ts"
import * as ServerKeys from "./ServerKeys.ts"

/** Admission to a server. */
export interface Options {
  /** Address that it listens on. */
  readonly host: string
  /** Key that clients show; without any key every client is admitted. */
  readonly key: Redacted.Redacted<string> | undefined
  /** Names by which clients may call it besides its own. */
  readonly allowedHosts: ReadonlyArray<string>
  /** Origins of pages that may call it. */
  readonly allowedOrigins: ReadonlyArray<string>
}

/** Returns why a server must not be started with these options, or undefined if it may. */
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

/** Provides the key of the owner: the one that was given, else a random one where clients would need none. */
export const provideKey = (
  { key, open = false }: { readonly key?: Redacted.Redacted<string> | undefined; readonly open?: boolean | undefined },
  keys: ReadonlyArray<ServerKeys.NamedKey>
): Effect.Effect<Redacted.Redacted<string> | undefined> =>
  key !== undefined || open || keys.length > 0
    ? Effect.succeed(key)
    : Effect.map(makeSecret, (text) => Redacted.make(text))

/** The name in a `Host` header, without its port. */
const parseHostName = (host: string): string => host.replace(/:\d+$/u, "").toLowerCase()

const isMeant = ({ allowedHosts, host: bound }: Options, host: string | undefined): boolean => {
  if (host === undefined) return false
  const name = parseHostName(host)
  if (allowedHosts.some((allowed) => allowed.toLowerCase() === name) || HttpListener.isLoopback(name)) return true
  return !HttpListener.isLoopback(bound) && (HttpListener.isAddress(name) || name === bound.toLowerCase())
}

const isOwnPage = ({ allowedOrigins }: Options, { host, origin }: HttpServerRequest["headers"]): boolean =>
  origin === undefined || origin === `http://${host}` || origin === `https://${host}` || allowedOrigins.includes(origin)

const readBearerToken = (headers: HttpServerRequest["headers"]): string =>
  /^Bearer\s+(.+)$/iu.exec(headers["authorization"] ?? "")?.[1] ?? ""

const notMeant = ApiError.make(
  403,
  "forbidden_host",
  "This server does not answer to that name. Use its address, or start it with --allow-host NAME."
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
    "directory, or HERMES_SERVER_KEY), or the key of your name in server.keys, as Authorization: Bearer."
)

/** Admits a request. Returns its named key, or undefined for the server's key or if no key is required. */
export const admit = <A extends ServerKeys.NamedKey>(
  options: Options,
  keys: ReadonlyArray<A>,
  { headers, url }: Pick<HttpServerRequest, "headers" | "url">
): Result.Result<A | undefined, ApiError.ApiError> => {
  if (!isMeant(options, headers["host"])) return Result.fail(notMeant)
  if (!isOwnPage(options, headers)) return Result.fail(otherPage)
  // A check of life says nothing of anybody.
  if ((options.key === undefined && keys.length === 0) || url === "/health") return Result.succeed(undefined)
  const given = readBearerToken(headers)
  const named = ServerKeys.find(given, keys)
  const isOwner = options.key !== undefined && isSecret(given, Redacted.value(options.key))
  return named !== undefined || isOwner ? Result.succeed(named) : Result.fail(wrongKey)
}

/** Bounds on the work of a server, or of a key of it. */
export interface Bounds {
  /** Requests that are answered at once. */
  readonly maxRequests: number
  /** Answers that are open at once, those among them that are streamed. */
  readonly maxConnections: number
  /** Longest body in bytes. */
  readonly maxBody: number
  /** Bytes of the bodies of all requests under way. */
  readonly maxBodies: number
}

/** Maximum size of a request's body in bytes: its declared length, at most `maxBody`. */
const estimateBodyBytes = ({ headers }: Pick<HttpServerRequest, "headers">, maxBody: number): number => {
  if (headers["transfer-encoding"] !== undefined) return maxBody
  const length = Number(headers["content-length"] ?? 0)
  return Number.isFinite(length) ? Math.min(length, maxBody) : maxBody
}

/** Counts requests under way with their bodies, and answers up to their last byte; refuses what is too much. */
export const makeLimiter = ({ maxBodies, maxBody, maxConnections, maxRequests }: Bounds) => {
  let active = 0
  let open = 0
  let bodies = 0
  const respondOverloaded = (reason: string) =>
    Effect.succeed(ApiError.toResponse(ApiError.make(503, "overloaded", `${reason} Try again in a moment.`)))
  return <E, R>(
    request: Pick<HttpServerRequest, "headers">,
    answer: Effect.Effect<HttpServerResponse, E, R>
  ): Effect.Effect<HttpServerResponse, E, R | Scope.Scope> =>
    Effect.suspend(() => {
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
