/**
 * A route as the router uses it: with its keys, what was learnt about its endpoint, and how long it is waited for. All
 * sessions share it.
 */
import * as Redacted from "effect/Redacted"
import * as Route from "../domain/Route.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import type { Change } from "./Adaptation.ts"
import type { CredentialPool, Lease } from "./CredentialPool.ts"
import * as Fingerprint from "./internal/Fingerprint.ts"
import * as RateGuard from "./RateGuard.ts"
import * as StreamTimeout from "./StreamTimeout.ts"

/** A route, its keys, and what was learnt of it. */
export interface ManagedRoute {
  /** Names the route to breakers and limits. */
  readonly id: string
  readonly info: Route.RouteInfo
  /** The route with its own key, whatever the pool has. */
  readonly route: Route.Route
  readonly pool: CredentialPool | undefined
  /** Answers in place of one that is opened by the route: the application has opened it. */
  readonly provider: Provider | undefined
  readonly patience: StreamTimeout.Patiences
  /**
   * A broken connection is worth a new client: aggregators are behind balancers of their own, and what the application opened
   * cannot be opened again.
   */
  readonly isDirect: boolean
  /** Forms of a call that the endpoint turned out not to take. */
  readonly changes: Set<Change>
  /** Parameters that the endpoint turned out not to take, and their other names. */
  readonly parameters: Map<string, string | undefined>
  /** Set once `parameters` has what earlier runs learnt. */
  recalled: boolean
  /** The route with the key of a lease; the same object for the same key. */
  readonly routeWith: (lease: Lease | undefined) => Route.Route
  /** Names a key on this route to the limits. */
  readonly limitKey: (lease: Lease | undefined) => string
  /** Names the key's account to the guard; undefined where limits are no account's. */
  readonly guardKey: (lease: Lease | undefined) => string | undefined
}

/** Parts of a managed route. */
export interface Options {
  readonly route: Route.Route
  readonly pool: CredentialPool | undefined
  readonly limits: StreamTimeout.Limits | undefined
  readonly provider?: Provider | undefined
}

const aggregators = new Set(["openrouter", "nous"])

/** Makes the managed route; it has learnt nothing yet. */
export const make = ({ limits, pool, provider, route }: Options): ManagedRoute => {
  const routes = new Map<string, Route.Route>()
  const info = Route.info(route)
  const id = `${route.provider}|${route.model}|${route.apiMode}|${route.baseUrl ?? route.region ?? ""}`
  const own = route.apiKey === undefined ? "" : Fingerprint.of(Redacted.value(route.apiKey))
  return {
    id,
    info,
    route,
    pool,
    provider,
    patience: StreamTimeout.patienceOf(info, limits),
    isDirect: provider === undefined && !aggregators.has(route.provider),
    changes: new Set(),
    parameters: new Map(),
    recalled: false,
    routeWith: (lease) => {
      if (lease === undefined) return route
      const known = routes.get(lease.id)
      if (known !== undefined) return known
      const keyed: Route.Route = { ...route, apiKey: lease.key }
      routes.set(lease.id, keyed)
      return keyed
    },
    limitKey: (lease) => `${id}|${lease?.id ?? own}`,
    guardKey: (lease) => {
      if (!RateGuard.guarded.has(route.provider)) return undefined
      return `${route.provider}|${lease?.id ?? own}`
    }
  }
}

/** Names a route in messages. */
export const name = ({ info }: Pick<ManagedRoute, "info">): string => `${info.provider} (${info.model})`
