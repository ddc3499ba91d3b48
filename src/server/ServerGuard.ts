/**
 * Admits requests to a server: its name, its key, and bounds on how much it does at once.
 *
 * **Details**
 *
 * On the loopback every client of this machine is admitted that means this server: `Host` is a loopback name, and `Origin`, which browsers
 * send, is absent or the same. A page of another site can neither reach it by a name that it points here nor read what it answers.
 * On any other address a key is needed (`Authorization: Bearer …`), and `Host` is an address or one of the names that were allowed.
 *
 * Source: `ARCHITECTURE.md` §3, `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type { HttpServerResponse } from "effect/http/HttpServerResponse"
import * as HttpListener from "../platform/HttpListener.ts"
import { isSecret } from "../platform/LoopbackServer.ts"
import * as ApiError from "./ApiError.ts"

/** Admission to a server. */
export interface Options {
  /** Address that it listens on. */
  readonly host: string
  /** Key that clients show; needed where the address is not on the loopback. */
  readonly key: Redacted.Redacted<string> | undefined
  /** Names by which clients may call it besides its own. */
  readonly allowedHosts: ReadonlyArray<string>
  /** Origins of pages that may call it. */
  readonly allowedOrigins: ReadonlyArray<string>
  /** Requests that are answered at once. */
  readonly maxRequests: number
}

/** Reason why a server must not be started so; undefined where it may. */
export const refusal = ({ host, key }: Pick<Options, "host" | "key">): string | undefined =>
  key !== undefined || HttpListener.isLoopback(host)
    ? undefined
    : `listening on ${host} needs a key: set HERMES_SERVER_KEY to a long random text, or leave out --host`

/** The name in a `Host` header, without its port. */
const nameOf = (host: string): string => host.replace(/:\d+$/u, "").toLowerCase()

const isMeant = ({ allowedHosts, host: bound }: Options, host: string | undefined): boolean => {
  if (host === undefined) return false
  const name = nameOf(host)
  if (allowedHosts.some((allowed) => allowed.toLowerCase() === name) || HttpListener.isLoopback(name)) return true
  return !HttpListener.isLoopback(bound) && (HttpListener.isAddress(name) || name === bound.toLowerCase())
}

const isOwnPage = ({ allowedOrigins }: Options, { host, origin }: HttpServerRequest["headers"]): boolean =>
  origin === undefined || origin === `http://${host}` || origin === `https://${host}` || allowedOrigins.includes(origin)

const bearer = (headers: HttpServerRequest["headers"]): string => /^Bearer\s+(.+)$/iu.exec(headers["authorization"] ?? "")?.[1] ?? ""

/** Problem of a request that is not admitted; undefined for one that is. */
export const problem = (options: Options, request: Pick<HttpServerRequest, "headers" | "url">): ApiError.ApiError | undefined => {
  const { headers } = request
  if (!isMeant(options, headers["host"])) {
    return ApiError.make(403, "forbidden_host", "This server does not answer to that name. Use its address, or start it with --allow-host NAME.")
  }
  if (!isOwnPage(options, headers)) {
    return ApiError.make(403, "forbidden_origin", "Pages of other sites may not call this server. Start it with --allow-origin ORIGIN to allow one.")
  }
  // A check of life says nothing of anybody.
  if (options.key === undefined || request.url === "/health") return undefined
  return isSecret(bearer(headers), Redacted.value(options.key))
    ? undefined
    : ApiError.make(401, "invalid_api_key", "The API key is missing or wrong: send the value of HERMES_SERVER_KEY as Authorization: Bearer.")
}

/** Bounds on the work of a server, which has one key at most: they are those of the key. */
export interface Bounds {
  /** Requests that are answered at once. */
  readonly maxRequests: number
  /** Longest body in bytes. */
  readonly maxBody: number
  /** Bytes of the bodies of all requests under way. */
  readonly maxBodies: number
}

/** Bytes that the body of a request may come to: what it declares, within the longest one. */
const declared = ({ headers }: Pick<HttpServerRequest, "headers">, maxBody: number): number => {
  if (headers["transfer-encoding"] !== undefined) return maxBody
  const length = Number(headers["content-length"] ?? 0)
  return Number.isFinite(length) ? Math.min(length, maxBody) : maxBody
}

/** Counts requests under way with their bodies, and refuses what is too much. */
export const bounded = ({ maxBodies, maxBody, maxRequests }: Bounds) => {
  let active = 0
  let bodies = 0
  const refused = (reason: string) => Effect.succeed(ApiError.respond(ApiError.make(503, "overloaded", `${reason} Try again in a moment.`)))
  return <E, R>(request: Pick<HttpServerRequest, "headers">, answer: Effect.Effect<HttpServerResponse, E, R>): Effect.Effect<HttpServerResponse, E, R> =>
    Effect.suspend(() => {
      if (active >= maxRequests) return refused(`This server answers ${maxRequests} requests at once.`)
      const bytes = declared(request, maxBody)
      if (bodies + bytes > maxBodies) return refused(`The bodies of requests under way may have ${maxBodies} bytes in all.`)
      active++
      bodies += bytes
      return Effect.ensuring(answer, Effect.sync(() => {
        active--
        bodies -= bytes
      }))
    })
}
