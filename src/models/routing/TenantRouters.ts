/**
 * Routers of tenants with their own routes and keys. Each has its own key pools, circuits, rate limits, learnt windows
 * and open providers, so that a refusal of one tenant's key has no effect on the calls with another key.
 *
 * **Details**
 *
 * A router exists from the first call of its tenant. Routers of idle tenants are closed: the least recently used one if
 * there are more than `mostRouters`, and each that was not used for an hour when another one is opened. A router in use
 * is closed when its last call ends. A tenant whose routes or keys change gets another router with its next run.
 *
 * A route without a key uses the pool, the limits and the queue of the runtime for that key, with a circuit of the
 * tenant.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { TenantRefused } from "../../base/domain/AgentError.ts"
import type { Route } from "../../base/domain/Route.ts"
import type * as Breakers from "./Breakers.ts"
import type { Service } from "./ModelRouter.ts"
import * as RateGuard from "./RateGuard.ts"
import * as RateLimitGate from "./RateLimitGate.ts"
import { type ManagedRoute, manageRoute, type Shared } from "./RouteCallState.ts"
import type { ChainEntry, OpenProviders } from "./RoutedModelRouter.ts"
import { noKey } from "./RouteKeys.ts"
import * as Routes from "./Routes.ts"
import * as RouterService from "./RouterService.ts"
import { SharedMarks } from "./SharedMarks.ts"
import { makeRouteError, type TenantRoute, type TenantRoutes } from "./TenantRoutes.ts"

/** Maximum number of routers of tenants that are idle. */
const mostRouters = 256

/** Time after which an unused router is closed, in milliseconds. */
const longestIdle = 3_600_000

/** Manages a route with its keys. */
type Manage = (entry: ChainEntry) => Effect.Effect<ManagedRoute, never, Scope.Scope>

/** Parts of the runtime's router on which the routers of tenants are based. */
export interface Base {
  readonly shared: Shared
  readonly routes: ReadonlyArray<ManagedRoute>
  readonly apart: ReadonlyArray<ManagedRoute>
  readonly findRoute: (route: Route) => ManagedRoute
  readonly breaker: Breakers.Policy | undefined
  /** Scope in which routers of tenants are opened. */
  readonly scope: Scope.Scope
  readonly makeManager: (owner: string) => Manage
  /** Manages routes with keys of the runtime. */
  readonly manageShared: Manage
  readonly openProviders: Effect.Effect<OpenProviders, never, Scope.Scope>
}

/** Opens the routers of the tenants of one runtime. */
export interface TenantRouters {
  /** Uses the router of a tenant, which is opened if necessary and not closed before `body` ends. */
  readonly useRouter: <A, E, R>(
    routes: TenantRoutes,
    body: (router: Service) => Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | TenantRefused, R>
}

interface OpenRouter {
  readonly router: Service
  readonly scope: Scope.Closeable
  uses: number
  usedAt: number
  isEvicted: boolean
}

const isSameAddress = (a: Route, b: Route): boolean =>
  a.provider === b.provider && a.baseUrl === b.baseUrl && a.apiMode === b.apiMode && a.region === b.region

const hasNoKey = ({ apiKey }: Route): boolean =>
  apiKey === undefined || Redacted.value(apiKey) === Redacted.value(noKey)

/** Tests whether a request on a route contains no secret and uses no account of the machine. */
const isWithoutSecrets = (route: Route): boolean =>
  hasNoKey(route) && route.headers === undefined && route.query === undefined && route.apiMode !== "bedrock_converse"

const listKeys = ({ credentials = [], route: { apiKey } }: ChainEntry): ReadonlyArray<string> =>
  [...credentials.map(({ key }) => key), ...(apiKey === undefined ? [] : [apiKey])].map((key) => Redacted.value(key))

/**
 * Manages a route that uses a key of the runtime: its own one, or the key of the runtime's first route with the
 * same provider and address.
 */
const manageShared = Effect.fnUntraced(function* (
  { apart, manageShared, routes, shared }: Base,
  tenant: TenantRoutes,
  { entry, key }: TenantRoute
): Effect.fn.Return<ManagedRoute, TenantRefused, Scope.Scope> {
  const { route } = entry
  if (listKeys(entry).length > 0 && !hasNoKey(route)) return { ...(yield* manageShared(entry)), shared }
  const found = tenant.mayShareKeys
    ? [...routes, ...apart].find((one) => isSameAddress(one.route, route) && (key === "shared" || !hasNoKey(one.route)))
    : undefined
  if (found === undefined) {
    // The SDK of Bedrock finds the credentials of the machine.
    if (key === "none" || route.apiMode === "bedrock_converse") return { ...(yield* manageShared(entry)), shared }
    const problem = `the runtime has no key for its route to ${route.provider} (${route.model}): add one to the route`
    return yield* makeRouteError(tenant.tenant, problem)
  }
  if (Routes.isSamePlace(found.route, route)) return { ...found, shared }
  if (found.provider !== undefined)
    return yield* makeRouteError(tenant.tenant, `the provider of the runtime has only the model ${found.route.model}`)
  const { limits, retry } = entry
  const headers = found.route.headers === undefined ? route.headers : { ...found.route.headers, ...route.headers }
  const keyed: Route = {
    ...route,
    ...(found.route.apiKey === undefined ? {} : { apiKey: found.route.apiKey }),
    ...(headers === undefined ? {} : { headers })
  }
  return { ...manageRoute({ route: keyed, pool: found.pool, limits, retry }), shared }
})

/** Finds the routes that a call of a tenant may specify. */
const makeRouteFinder = (
  { findRoute, shared }: Base,
  tenant: TenantRoutes,
  managed: ReadonlyArray<readonly [named: Route, managed: ManagedRoute]>
): RouterService.Parts["findRoute"] => {
  const owner = tenant.tenant
  const keys = new Set(
    [...tenant.chain, ...tenant.tasks.values()].flatMap(({ entry, key }) => (key === "own" ? listKeys(entry) : []))
  )
  const known = new WeakMap<Route, ManagedRoute>()
  /** Tests whether a route differs from a route of the tenant only in its model. */
  const isDerived = (route: Route): boolean =>
    route.apiKey !== undefined &&
    keys.has(Redacted.value(route.apiKey)) &&
    managed.some(([, one]) => one.shared === undefined && isSameAddress(one.route, route))
  return (route) => {
    const named = managed.find(([named, one]) => Routes.isSame(named, route) || Routes.isSame(one.route, route))
    const found = named?.[1] ?? known.get(route)
    if (found !== undefined) return found
    const isOwn = isDerived(route)
    if (!isOwn && !tenant.mayShareKeys && !isWithoutSecrets(route)) {
      const problem =
        `its calls may not use the key of ${route.provider} (${route.model}): ` +
        "add a key to its routes, or set sharedKeys to fallback"
      return makeRouteError(owner, problem)
    }
    const made = isOwn
      ? manageRoute({ route, pool: undefined, limits: undefined, owner })
      : { ...findRoute(route), shared }
    known.set(route, made)
    return made
  }
}

/** Opens the router of a tenant. */
const openRouter = Effect.fnUntraced(function* (base: Base, tenant: TenantRoutes, forTenant: Service["forTenant"]) {
  const manageOwn = base.makeManager(tenant.tenant)
  const manageGiven = (route: TenantRoute) =>
    route.key === "own" ? manageOwn(route.entry) : manageShared(base, tenant, route)
  const given = [...tenant.chain, ...tenant.tasks.values()]
  const all = yield* Effect.forEach(given, manageGiven)
  const chain = all.slice(0, tenant.chain.length)
  const appended = tenant.chain.length === 0 || tenant.appendsShared ? base.routes : []
  const further = appended.filter(({ route }) => !chain.some((one) => Routes.isSame(one.route, route)))
  const [first, ...rest] = [...chain, ...further.map((route) => ({ ...route, shared: base.shared }))]
  if (first === undefined) return yield* makeRouteError(tenant.tenant, "it has no routes for its runs: add routes")
  const routes: RouterService.ManagedChain = [first, ...rest]
  const { catalogue, fallback } = base.shared
  const shared: Shared = {
    ...base.shared,
    catalogue: catalogue.separate?.() ?? catalogue,
    profiles: undefined,
    providers: yield* base.openProviders,
    // Refusals of the tenant's keys are not reported to other processes, which learn them on their own.
    limits: yield* Effect.provideService(RateLimitGate.makeLimits, SharedMarks, undefined),
    guard: base.shared.guard === RateGuard.none ? RateGuard.none : RateGuard.makeInMemory()
  }
  const named = all.map((one, index) => [given[index]?.entry.route ?? one.route, one] as const)
  const findRoute = makeRouteFinder(base, tenant, [...named, ...routes.map((one) => [one.route, one] as const)])
  const failover = yield* RouterService.makeFailover(routes, { fallback, breaker: base.breaker })
  const router: Service = {
    ...RouterService.makeService({ shared, routes, failover, findRoute }),
    mayCall: (route) => !(findRoute(route) instanceof TenantRefused),
    forTenant: (wanted, use) =>
      wanted.identity === tenant.identity ? use(router) : (forTenant?.(wanted, use) ?? Effect.die("no routers"))
  }
  return router
})

/** Creates the routers of the tenants of one runtime. None is open yet. */
export const makeTenantRouters = (base: Base): TenantRouters => {
  const open = new Map<string, OpenRouter>()

  const evictRouter = (identity: string, one: OpenRouter): Effect.Effect<void> => {
    open.delete(identity)
    one.isEvicted = true
    return one.uses === 0 ? Scope.close(one.scope, Exit.void) : Effect.void
  }

  /** Closes idle routers. The map is in the order of their last use. */
  const evictIdle = (now: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      const excess = open.size - mostRouters
      const idle = Array.from(open)
        .filter(([, { uses }]) => uses === 0)
        .filter(([, { usedAt }], index) => index < excess || now - usedAt > longestIdle)
      return Effect.forEach(idle, ([identity, one]) => evictRouter(identity, one), { discard: true })
    })

  const reuseRouter = (identity: string, now: number): OpenRouter | undefined => {
    const found = open.get(identity)
    if (found === undefined) return undefined
    open.delete(identity)
    open.set(identity, found)
    found.uses++
    found.usedAt = now
    return found
  }

  const openNew = Effect.fnUntraced(function* (tenant: TenantRoutes, now: number) {
    const scope = yield* Scope.fork(base.scope)
    const router = yield* Scope.provide(openRouter(base, tenant, useRouter), scope).pipe(
      Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
    )
    const known = reuseRouter(tenant.identity, now)
    if (known !== undefined) return yield* Effect.as(Scope.close(scope, Exit.void), known)
    const made: OpenRouter = { router, scope, uses: 1, usedAt: now, isEvicted: false }
    open.set(tenant.identity, made)
    return yield* Effect.as(evictIdle(now), made)
  })

  const acquireRouter = (tenant: TenantRoutes): Effect.Effect<OpenRouter, TenantRefused> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const found = reuseRouter(tenant.identity, now)
      return found === undefined ? openNew(tenant, now) : Effect.succeed(found)
    })

  const releaseRouter = (one: OpenRouter): Effect.Effect<void> =>
    Effect.suspend(() => {
      one.uses--
      return one.isEvicted && one.uses === 0 ? Scope.close(one.scope, Exit.void) : Effect.void
    })

  const useRouter: TenantRouters["useRouter"] = (tenant, body) =>
    Effect.acquireUseRelease(acquireRouter(tenant), ({ router }) => body(router), releaseRouter)

  return { useRouter }
}
