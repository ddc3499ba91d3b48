/**
 * Construction of a router for a chain of routes, and the set of open providers that it uses. `RoutedModelRouter` loads
 * this module with the first router.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { memoize } from "effect/Function"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as AiError from "effect/ai/AiError"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Route from "../../base/domain/Route.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as Catalogue from "./Catalogue.ts"
import * as CredentialPool from "./CredentialPool.ts"
import { type ManagedRoute, manageRoute, type Shared } from "./RouteCallState.ts"
import * as FallbackPolicy from "./FallbackPolicy.ts"
import * as RetryPolicy from "./RetryPolicy.ts"
import * as RouterService from "./RouterService.ts"
import type { RouterStatus, Service } from "./ModelRouter.ts"
import type { Open } from "./OpenRoute.ts"
import type { PoolStore } from "./PoolStore.ts"
import * as PartialAnswer from "./PartialAnswer.ts"
import * as RateGuard from "./RateGuard.ts"
import * as RateLimitGate from "./RateLimitGate.ts"
import * as Routes from "./Routes.ts"
import type { TenantRouters } from "./TenantRouters.ts"

import type { ChainEntry, OpenProviders, Options } from "./RoutedModelRouter.ts"

interface OpenProvider {
  readonly provider: Provider
  readonly scope: Scope.Closeable
  uses: number
  evicted: boolean
}

/**
 * Returns a string that identifies a route by all of its fields. It contains the API key, so it is only stored in
 * memory and never shown.
 */
const identity = memoize(({ apiKey, ...rest }: Route.Route): string =>
  JSON.stringify([
    Object.entries(rest).toSorted(([a], [b]) => (a < b ? -1 : 1)),
    apiKey === undefined ? null : Redacted.value(apiKey)
  ])
)

const toOpeningError =
  (route: Route.Route) =>
  (error: AiError.AiError | ConfigError): AiError.AiError =>
    AiError.isAiError(error)
      ? error
      : AiError.make({
          module: "OpenProviders",
          method: "open",
          reason: error.path.endsWith("KEY")
            ? new AiError.AuthenticationError({ kind: "MissingKey", description: error.message })
            : new AiError.InvalidRequestError({ description: `${route.provider} (${route.model}): ${error.message}` })
        })

/** Creates an empty set of open providers. All of them are closed when the scope closes. */
export const makeOpenProviders = (open: Open, capacity = 64): Effect.Effect<OpenProviders, never, Scope.Scope> =>
  Effect.gen(function* () {
    const kept = new Map<string, OpenProvider>()
    const owner = yield* Effect.scope
    const opening = yield* Semaphore.make(1)

    const closeProvider = ({ scope }: OpenProvider): Effect.Effect<void> => Scope.close(scope, Exit.void)

    const evictProvider = (key: string, entry: OpenProvider): Effect.Effect<void> => {
      kept.delete(key)
      entry.evicted = true
      return entry.uses === 0 ? closeProvider(entry) : Effect.void
    }

    const evict = Effect.suspend(() => {
      const [oldest] = kept
      return oldest === undefined || kept.size <= capacity ? Effect.void : evictProvider(...oldest)
    })

    /** Acquires an open provider and marks it as the most recently used. */
    const reuseProvider = (key: string): OpenProvider | undefined => {
      const entry = kept.get(key)
      if (entry === undefined) return undefined
      kept.delete(key)
      kept.set(key, entry)
      entry.uses++
      return entry
    }

    const openAndKeep = (key: string, route: Route.Route): Effect.Effect<OpenProvider, AiError.AiError> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const found = reuseProvider(key)
          if (found !== undefined) return found
          const scope = yield* Scope.fork(owner)
          const provider = yield* restore(Scope.provide(open(route), scope)).pipe(
            Effect.mapError(toOpeningError(route)),
            Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
          )
          const entry: OpenProvider = { provider, scope, uses: 1, evicted: false }
          kept.set(key, entry)
          yield* evict
          return entry
        })
      )

    const acquireProvider = (route: Route.Route): Effect.Effect<OpenProvider, AiError.AiError> =>
      Effect.suspend(() => {
        const key = identity(route)
        const found = reuseProvider(key)
        return found === undefined ? opening.withPermit(openAndKeep(key, route)) : Effect.succeed(found)
      })

    const releaseUse = (entry: OpenProvider): Effect.Effect<void> =>
      Effect.suspend(() => {
        entry.uses--
        return entry.evicted && entry.uses === 0 ? closeProvider(entry) : Effect.void
      })

    return {
      use: (route, body) =>
        Effect.acquireUseRelease(acquireProvider(route), ({ provider }) => body(provider), releaseUse),
      retire: (route) =>
        Effect.suspend(() => {
          const key = identity(route)
          const entry = kept.get(key)
          return entry === undefined ? Effect.void : evictProvider(key, entry)
        }),
      size: () => kept.size
    }
  })

/** Maximum number of providers that are open for one tenant with its own routes. */
const providersOfTenant = 8

/** Returns the identity of a pool. Routes of one provider with the same keys share a pool and its state. */
const formatPoolIdentity = ({ credentials = [], route }: ChainEntry): string =>
  [route.provider, ...credentials.map(({ key }) => Redacted.value(key))].join("\n")

/**
 * Returns the name of a new pool. The first pool of a provider has the provider's name; a pool with other keys gets
 * another name.
 */
const choosePoolName = (provider: string, pools: ReadonlyMap<string, unknown>): string => {
  const others = [...pools.keys()].filter((keys) => keys.startsWith(`${provider}\n`)).length
  return others === 0 ? provider : `${provider}#${others + 1}`
}

/** Creates the function that manages the routes of one owner, whose routes with the same keys share a pool. */
const makeRouteManager = (store: PoolStore | undefined, owner?: string) => {
  const pools = new Map<string, CredentialPool.CredentialPool>()
  return Effect.fnUntraced(function* (entry: ChainEntry) {
    const { credentials = [], limits, provider, retry, route, strategy } = entry
    const keys = formatPoolIdentity(entry)
    let pool = pools.get(keys)
    if (pool === undefined && credentials.length > 0) {
      pool = yield* CredentialPool.make({ name: choosePoolName(route.provider, pools), credentials, strategy, store })
      pools.set(keys, pool)
    }
    return manageRoute({ route, pool, limits, provider, retry, owner })
  })
}

const makeManagedRoutes = Effect.fnUntraced(function* (
  { apart = [], chain }: Pick<Options, "apart" | "chain">,
  manage: ReturnType<typeof makeRouteManager>
) {
  const first = yield* manage(chain[0])
  const routes: RouterService.ManagedChain = [first, ...(yield* Effect.forEach(chain.slice(1), manage))]
  return { routes, apart: yield* Effect.forEach(apart, manage) }
})

/** Creates a router and the service that returns its state. */
export const makeRouter = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<{ readonly router: Service; readonly status: RouterStatus["Service"] }, never, Scope.Scope> {
  const { breaker, fallback = FallbackPolicy.default, retry = RetryPolicy.default } = options
  // Callers in JavaScript may pass the parameters of a policy instead of a policy.
  if (!Schedule.isSchedule(retry))
    return yield* Effect.die(new TypeError("retry is not a Schedule. Use RetryPolicy.make({ attempts: 3 })"))
  const manage = makeRouteManager(options.store)
  const { apart, routes } = yield* makeManagedRoutes(options, manage)
  const catalogue = options.catalogue ?? Catalogue.makeBundled()
  const shared: Shared = {
    catalogue,
    profiles: options.profiles,
    providers: yield* makeOpenProviders(options.open),
    limits: yield* RateLimitGate.makeLimits,
    guard: options.guard ?? RateGuard.none,
    retry,
    fallback,
    streamRetries: options.streamRetries ?? PartialAnswer.mostContinuations
  }
  const scope = yield* Effect.scope
  const own = new WeakMap<Route.Route, ManagedRoute>()
  const findRoute = (route: Route.Route): ManagedRoute => {
    const known = own.get(route)
    if (known !== undefined) return known
    const made =
      apart.find((one) => Routes.isSame(one.route, route)) ?? manageRoute({ route, pool: undefined, limits: undefined })
    own.set(route, made)
    return made
  }
  // The only route is always tried, so it needs no circuit breaker.
  const failover = yield* RouterService.makeFailover(routes, { fallback, breaker })
  const router = RouterService.makeService({ shared, routes, failover, findRoute })
  let tenants: TenantRouters | undefined
  const openTenants = Effect.map(
    Effect.promise(() => import("./TenantRouters.ts")),
    ({ makeTenantRouters }) =>
      (tenants ??= makeTenantRouters({
        shared,
        routes,
        apart,
        findRoute,
        breaker,
        scope,
        makeManager: (owner) => makeRouteManager(undefined, owner),
        manageShared: manage,
        openProviders: makeOpenProviders(options.open, providersOfTenant)
      }))
  )

  const status = Effect.forEach(routes, (route) =>
    Effect.all({
      route: Effect.succeed(route.info),
      keys: route.pool?.state ?? Effect.succeed([]),
      breaker: failover?.breaker(route) ?? Effect.succeed("Closed" as const)
    })
  )

  return {
    router: {
      ...router,
      forTenant: (wanted, use) =>
        Effect.flatMap(tenants === undefined ? openTenants : Effect.succeed(tenants), (opened) =>
          opened.useRouter(wanted, use)
        )
    },
    status: { routes: status }
  }
})
