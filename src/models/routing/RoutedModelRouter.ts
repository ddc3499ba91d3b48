/**
 * Router for a chain of routes. A turn succeeds as long as one of the providers can answer.
 *
 * **Details**
 *
 * A call is sent through a circuit breaker to its session's current route, with as many attempts as `RouteRetry`
 * allows. If the route fails, the call moves to the next one in the chain. The session stays there for the rest of its
 * turn (`Failover`). The answer contains the route that produced it.
 *
 * A route whose circuit is open, or whose keys are all disabled, is skipped as long as there is another route. If the
 * chain ends without an answer, the skipped routes are tried as well.
 *
 * A call that specifies its own route uses only that route.
 *
 * Opening a provider loads an SDK and creates connections, so providers stay open between calls, one for each distinct
 * route (address, model, key, headers and all other fields), up to a capacity ({@link makeOpenProviders}). Beyond the
 * capacity, the least recently used provider is closed. A provider that a call still uses is closed when that call
 * ends.
 *
 * **Gotchas**
 *
 * The first route is the primary. Providers are opened on first use, so unused fallbacks cost nothing. With a single
 * route there is no circuit breaker: the only route is always tried.
 *
 * **Example** (Reading the reason why a call failed)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, RoutedModelRouter } from "hermes-effect"
 *
 * const program = Agent.run({ prompt: "Hello" }).pipe(
 *   Effect.tapErrorTag("AiError", (error) => Effect.logError(RoutedModelRouter.explainDecision(error)))
 * )
 * ```
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §5.4 (64 clients), §16 and §17.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import type * as Route from "../../base/domain/Route.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import type * as Breakers from "./Breakers.ts"
import type * as Catalogue from "./Catalogue.ts"
import type { ProfileStore } from "./profile/ProfileStore.ts"
import type * as CredentialPool from "./CredentialPool.ts"
import type * as FallbackPolicy from "./FallbackPolicy.ts"
import type * as RetryPolicy from "./RetryPolicy.ts"
import { ModelRouter, RouterStatus, type Service } from "./ModelRouter.ts"
import type { Open } from "./OpenRoute.ts"
import type { PoolStore } from "./PoolStore.ts"
import type * as RateGuard from "./RateGuard.ts"
import type * as StreamTimeout from "./StreamTimeout.ts"

/** Manages open providers by route. */
export interface OpenProviders {
  /** Runs `body` with the provider of a route. If the provider cannot be opened, fails with an `AiError`. */
  readonly use: <A, E, R>(
    route: Route.Route,
    body: (provider: Provider) => Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | AiError.AiError, R>
  /**
   * Retires the open provider of a route. The next call opens a new one; calls that use the old provider finish with
   * it.
   */
  readonly retire: (route: Route.Route) => Effect.Effect<void>
  /** Number of open providers. */
  readonly size: () => number
}

export { type CallSituation, classify, type Decision, explainDecision, Reason } from "./Classification.ts"
export type { Recovery } from "./Recovery.ts"
export { RouterStatus, type RouteStatus } from "./ModelRouter.ts"

/** A route in the chain, with its keys. */
export interface ChainEntry {
  readonly route: Route.Route
  /** Keys of the pool. If the array is empty, the route's own key is used. */
  readonly credentials?: ReadonlyArray<CredentialPool.Credential> | undefined
  readonly strategy?: CredentialPool.Strategy | undefined
  /** Maximum silence of the route, if configured by the user. */
  readonly limits?: StreamTimeout.Limits | undefined
  /** Names of the sources of the address and key, for display. */
  readonly source?: { readonly address: string; readonly key: string } | undefined
  /** Provider that the application has already opened for the route. */
  readonly provider?: Provider | undefined
  /** Policy for retries on this route. Defaults to the router's policy. */
  readonly retry?: RetryPolicy.RetryPolicy | undefined
}

/** Options of a router. */
export interface Options {
  /** The primary route, followed by its fallbacks in order. */
  readonly chain: readonly [ChainEntry, ...ReadonlyArray<ChainEntry>]
  /** Routes outside of the chain that calls may specify, with their keys. Child agents use them. */
  readonly apart?: ReadonlyArray<ChainEntry> | undefined
  readonly open: Open
  /** Policy for retries on one route. Defaults to `RetryPolicy.default`. */
  readonly retry?: RetryPolicy.RetryPolicy | undefined
  /** Policy for changes between routes. Defaults to `FallbackPolicy.default`. */
  readonly fallback?: FallbackPolicy.FallbackPolicy | undefined
  /**
   * Maximum number of requests on one route for the rest of an answer that was cut off after a part of it was read.
   * Defaults to 2.
   */
  readonly streamRetries?: number | undefined
  readonly breaker?: Breakers.Policy | undefined
  /** Stores which keys are disabled. Without this option the state is lost when the process ends. */
  readonly store?: PoolStore | undefined
  /** Catalogue of facts about models. Defaults to the bundled tables. */
  readonly catalogue?: Catalogue.Service | undefined
  /** Stores what was learnt about routes. Without this option it is lost when the process ends. */
  readonly profiles?: Pick<ProfileStore, "add" | "get"> | undefined
  /**
   * Records, across all processes, which accounts have exhausted their limits. Without this option nothing is recorded.
   */
  readonly guard?: RateGuard.RateGuard | undefined
}

/** The construction of routers, which is loaded for the first one. */
const loadAssembly = Effect.promise(() => import("./RouterAssembly.ts"))

/** Creates an empty set of open providers. All of them are closed when the scope closes. */
export const makeOpenProviders = (open: Open, capacity?: number): Effect.Effect<OpenProviders, never, Scope.Scope> =>
  Effect.flatMap(loadAssembly, (assembly) => assembly.makeOpenProviders(open, capacity))

/** Creates a router and the service that returns its state. */
export const makeRouter = (
  options: Options
): Effect.Effect<{ readonly router: Service; readonly status: RouterStatus["Service"] }, never, Scope.Scope> =>
  Effect.flatMap(loadAssembly, (assembly) => assembly.makeRouter(options))

/** Provides the result of {@link makeRouter}. */
export const layer = (options: Options): Layer.Layer<ModelRouter | RouterStatus> =>
  Layer.effectContext(
    Effect.map(makeRouter(options), ({ router, status }) =>
      Context.make(ModelRouter, router).pipe(Context.add(RouterStatus, status))
    )
  )
