/**
 * How long a silent model is waited for.
 *
 * **Details**
 *
 * A stream is stale when no piece came for a while, an answer in one piece when it took too long; both limits grow with the
 * request. An endpoint on this machine or in the private network is waited for without limit, since it may have to load a
 * model first. What the user sets holds everywhere.
 *
 * The request timeout, which ends everything, is the provider's own (`Route.requestTimeoutMillis`), and so is the wait
 * between the bytes of a stream, which {@link withReadTimeout} settles.
 *
 * Source: `hermes-llm.md` §2.5.
 *
 * @since 0.1.0
 */
import type { Route, RouteInfo } from "../domain/Route.ts"
import * as Detection from "./Detection.ts"

/** Milliseconds that the user set; what is absent follows the tables. */
export interface Limits {
  readonly stream?: number | undefined
  readonly call?: number | undefined
}

/** A step of a table: from this many tokens on, this many milliseconds. */
type Table = ReadonlyArray<readonly [above: number, millis: number]>

const streamTable: Table = [[100_000, 300_000], [50_000, 240_000], [0, 180_000]]
const callTable: Table = [[100_000, 600_000], [50_000, 450_000], [0, 300_000]]

/** While a model is silent, this often somebody is told that it is still waited for. */
export const heartbeatMillis = 30_000

const isLocal = ({ baseUrl }: { readonly baseUrl?: string | undefined }): boolean =>
  Detection.isLocal(Detection.address(baseUrl).host)

const readMillis = 120_000
const requestMillis = 1_800_000

/** The route with the wait between bytes that holds where the user set none. */
export const withReadTimeout = (route: Route): Route =>
  route.readTimeoutMillis === undefined
    ? { ...route, readTimeoutMillis: isLocal(route) ? route.requestTimeoutMillis ?? requestMillis : readMillis }
    : route

/** How long a route may be silent, in milliseconds, given the tokens of the request; `Infinity` is for ever. */
export type Patience = (tokens: () => number) => number

const fromTable = (table: Table): Patience => (tokens) => {
  const count = tokens()
  return table.find(([above]) => count > above)?.[1] ?? table.at(-1)?.[1] ?? Infinity
}

const forEver: Patience = () => Infinity

const patience = (own: number | undefined, route: Pick<RouteInfo, "baseUrl">, table: Table): Patience => {
  if (own !== undefined) return () => own
  return isLocal(route) ? forEver : fromTable(table)
}

/** The patience with a route, for streams and for answers in one piece. */
export interface Patiences {
  readonly stream: Patience
  readonly call: Patience
  /** The shortest wait that can come of them, so that nobody has to count tokens before it is over. */
  readonly least: number
}

/** See {@link Patiences}. */
export const of = (route: Pick<RouteInfo, "baseUrl">, limits: Limits = {}): Patiences => {
  const none = () => 0
  const stream = patience(limits.stream, route, streamTable)
  const call = patience(limits.call, route, callTable)
  return { stream, call, least: Math.min(stream(none), call(none)) }
}
