/**
 * State of one call on one route, and the operations that recoveries consist of: notices, waits and key changes. A
 * managed route is a route with its keys and the facts learned about its endpoint; all sessions share it.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as AiError from "effect/ai/AiError"
import * as Route from "../../base/domain/Route.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as WrapperFailures from "../../middleware/WrapperFailures.ts"
import type { Interceptors } from "./Interceptors.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import type { SentState } from "./Attempt.ts"
import * as CallTokens from "./CallTokens.ts"
import type { CallFacts, Service as Catalogue } from "./CataloguePort.ts"
import * as Classification from "./Classification.ts"
import type { CredentialPool, Lease } from "./CredentialPool.ts"
import { fingerprint } from "../../base/platform/Digest.ts"
import type { AttemptLog, Question } from "./ModelRouter.ts"
import { guarded, type RateGuard } from "./RateGuard.ts"
import type * as RateLimitGate from "./RateLimitGate.ts"
import type { OpenProviders } from "./RoutedModelRouter.ts"
import type { FallbackPolicy } from "./FallbackPolicy.ts"
import * as RetryPolicy from "./RetryPolicy.ts"
import * as ProfileStore from "./profile/ProfileStore.ts"
import * as RouteProfile from "./RouteProfile.ts"
import type { CallForm, Retries } from "./RouteRetry.ts"
import * as StreamTimeout from "./StreamTimeout.ts"

/** A route, its keys, and the facts learned about it. */
export interface ManagedRoute {
  /** Identifies the route for circuit breakers and rate limits. */
  readonly id: string
  readonly info: Route.RouteInfo
  /** The route with its configured key, regardless of the pool. */
  readonly route: Route.Route
  readonly pool: CredentialPool | undefined
  /** Provider that the application has already opened; `undefined` if the provider is opened from the route. */
  readonly provider: Provider | undefined
  readonly patience: StreamTimeout.RoutePatience
  /** Retry policy for the route's calls; `undefined` for the router's policy. */
  readonly retry: RetryPolicy.RetryPolicy | undefined
  /**
   * True if a new client may help after a broken connection. Aggregators use load balancers, and a provider opened by
   * the application cannot be reopened.
   */
  readonly isDirect: boolean
  /** Facts learned about the requests of the route. Changed by `RouteProfile` only. */
  readonly profile: RouteProfile.RouteProfile
  /** Returns the route with the key of a lease; the same key always returns the same object. */
  readonly routeWith: (lease: Lease | undefined) => Route.Route
  /** Returns the name of a key on this route for rate limits. */
  readonly limitKey: (lease: Lease | undefined) => string
  /** Returns the name of the key's account for the rate guard, or `undefined` if limits do not apply to the account. */
  readonly guardKey: (lease: Lease | undefined) => string | undefined
  /**
   * State of the router to which the route's key belongs, if another router calls it: a tenant's router may call shared
   * routes.
   */
  readonly shared?: Shared | undefined
}

/** Options of a managed route. */
interface ManagedRouteOptions {
  readonly route: Route.Route
  readonly pool: CredentialPool | undefined
  readonly limits: StreamTimeout.Limits | undefined
  readonly provider?: Provider | undefined
  readonly retry?: RetryPolicy.RetryPolicy | undefined
  /** Tenant to which the route's key belongs; `undefined` for shared keys. */
  readonly owner?: string | undefined
}

const aggregators = new Set(["openrouter", "nous"])

/** Creates a managed route about which nothing is known yet. */
export const manageRoute = ({ limits, owner, pool, provider, retry, route }: ManagedRouteOptions): ManagedRoute => {
  const routes = new Map<string, Route.Route>()
  const info = Route.toInfo(route)
  const id = `${owner === undefined ? "" : `${owner}\n`}${ProfileStore.formatRouteId(route)}`
  const own = route.apiKey === undefined ? "" : fingerprint(Redacted.value(route.apiKey))
  const ownKey = `${id}|${own}`
  return {
    id,
    info,
    route,
    pool,
    provider,
    patience: StreamTimeout.findPatiences(info, limits),
    retry,
    isDirect: provider === undefined && !aggregators.has(route.provider),
    profile: RouteProfile.makeProfile(route),
    routeWith: (lease) => {
      if (lease === undefined) return route
      const known = routes.get(lease.id)
      if (known !== undefined) return known
      const keyed: Route.Route = { ...route, apiKey: lease.key }
      routes.set(lease.id, keyed)
      return keyed
    },
    limitKey: (lease) => (lease === undefined ? ownKey : `${id}|${lease.id}`),
    guardKey: (lease) => {
      if (!guarded.has(route.provider)) return undefined
      return `${route.provider}|${lease?.id ?? own}`
    }
  }
}

/** Formats the name of a route for messages. */
export const formatRouteName = ({ info }: Pick<ManagedRoute, "info">): string => `${info.provider} (${info.model})`

/** State and settings shared by all calls of a router. */
export interface Shared {
  readonly catalogue: Catalogue
  readonly providers: OpenProviders
  readonly profiles: Pick<ProfileStore.ProfileStore, "add" | "get"> | undefined
  readonly limits: RateLimitGate.RateLimits
  readonly guard: RateGuard
  /** Retry policy for routes and calls that do not have their own policy. */
  readonly retry: RetryPolicy.RetryPolicy
  readonly fallback: FallbackPolicy
  /** Maximum number of requests for the rest of an incomplete answer on one route. */
  readonly streamRetries: number
}

/** A call for which no route has been chosen yet. */
export interface Call {
  readonly shared: Shared
  readonly interceptors: Interceptors
  readonly question: Question
  readonly log: AttemptLog
}

/** Position of a route in its chain. */
export interface Position {
  /** True if the chain has another route. */
  readonly hasNext: boolean
  /** True for the route that the user chose. Only the connection of this route is rebuilt. */
  readonly isPrimary: boolean
}

/**
 * State of one call on one route: the question, the state shared by all calls, and the state that changes between
 * attempts.
 */
export interface RouteCallState extends Call, Position {
  readonly route: ManagedRoute
  /** Window and prices of the route's model. */
  readonly known: CallFacts
  readonly clock: Clock.Clock
  readonly policy: RetryPolicy.RetryPolicy
  /** In milliseconds since 1970. */
  readonly startedAt: number
  /** Key of the call. Changed by this module only. */
  readonly key: KeyOfCall
  /** Admission of the call. Changed by `RateLimitGate` only. */
  readonly admission: RateLimitGate.Admission
  /** Retry counts of the call. Changed by `RouteRetry` only. */
  readonly retries: Retries
  /** Form in which the call is sent. Changed by `RouteRetry` only. */
  readonly form: CallForm
  /** Latest attempt of the call. Changed by `Attempt` only. */
  readonly sent: SentState
}

/** State of the key that a call uses. */
interface KeyOfCall {
  lease: Lease | undefined
  /** Numbers of the keys whose renewal was tried. */
  readonly renewed: Set<number>
}

/** Returns the current time in milliseconds since 1970. */
export const readClock = ({ clock }: Pick<RouteCallState, "clock">): number => clock.currentTimeMillisUnsafe()

/** Creates the state of a call on a route before its first attempt. */
export const makeCallState = (
  { interceptors, log, question, shared }: Call,
  { hasNext, isPrimary }: Position,
  { clock, known, policy, route, startedAt }: Pick<RouteCallState, "clock" | "known" | "policy" | "route" | "startedAt">
): RouteCallState => ({
  shared,
  interceptors,
  question,
  log,
  hasNext,
  isPrimary,
  route,
  known,
  clock,
  policy,
  startedAt,
  key: { lease: undefined, renewed: new Set() },
  admission: { slot: undefined, place: undefined, refused: false, spent: false },
  retries: { failures: 0, isRebuilt: false, continuations: 0, repeats: 0 },
  form: { outputCap: undefined, changes: new Set() },
  sent: { request: undefined, progress: undefined, isExecuted: false }
})

/** Describes the size of the call for the classification of its failure. */
const describeCall = ({ known, log, question }: RouteCallState): Classification.CallSituation =>
  CallTokens.describeSituation(question.call, known.window.tokens, log.outputTokens)

/**
 * Returns the decision on a failure of this call. The decision is made once, and recorded in the log for the callers.
 */
export const decideOnFailure = (state: RouteCallState, error: AiError.AiError): Classification.Decision => {
  const { log } = state
  if (log.failure?.error === error) return log.failure.decision
  const decision = Classification.classify(error, describeCall(state))
  log.failure = { error, decision }
  return decision
}

/** Finds the provider failure that a cause contains, or that middleware translated to the cause. */
export const findProviderFailure = (cause: Cause.Cause<unknown>): AiError.AiError | undefined => {
  const error = Cause.squash(WrapperFailures.findDownstreamFailure(cause) ?? cause)
  return AiError.isAiError(error) ? error : undefined
}

/** Emits an event if there is a listener. */
export const emitEvent = ({ question: { notify } }: RouteCallState, event: RunEvent): Effect.Effect<void> =>
  notify === undefined ? Effect.void : notify([event])

/** Emits a notice about an event that does not affect the user. */
export const emitNotice = (state: RouteCallState, message: string): Effect.Effect<void> =>
  emitEvent(state, { _tag: "Notice", level: "info", message })

/** A wait, and the attempt that follows it. */
interface Wait {
  readonly reason: string
  readonly duration: Duration.Duration
  readonly attempt: number
}

/** Reports that the call waits. */
export const reportWait = (state: RouteCallState, { attempt, duration, reason }: Wait): Effect.Effect<void> => {
  const maxAttempts = RetryPolicy.findAttemptLimit(state.policy)
  return emitEvent(state, {
    _tag: "Waiting",
    reason,
    millis: Duration.toMillis(duration),
    attempt,
    ...(maxAttempts === undefined ? {} : { maxAttempts })
  })
}

/** Reports that the call waits, then waits. */
export const waitAndNotify = (state: RouteCallState, options: Wait): Effect.Effect<void> =>
  Effect.andThen(reportWait(state, options), Effect.sleep(options.duration))

/** Leases a key from the route's pool, if the route has a pool. */
export const takeLease = (state: RouteCallState): Effect.Effect<void> => {
  const { pool } = state.route
  return pool === undefined
    ? Effect.void
    : Effect.uninterruptible(
        Effect.map(pool.lease, (lease) => {
          state.key.lease = lease
        })
      )
}

/** Disables the key and leases the next one of the pool. Returns `undefined` if no other key is available. */
export const takeNextLease = (
  state: RouteCallState,
  why: Parameters<CredentialPool["rotate"]>[1]
): Effect.Effect<Lease | undefined> => {
  const {
    key: { lease },
    route: { pool }
  } = state
  return pool === undefined || lease === undefined
    ? Effect.succeed(undefined)
    : Effect.uninterruptible(
        Effect.map(pool.rotate(lease, why), (next) => {
          if (next !== undefined) state.key.lease = next
          return next
        })
      )
}

/** Renews the key once. Returns `undefined` if the key cannot be renewed, or if its renewal was already tried. */
export const renewLease = ({ key, route: { pool } }: RouteCallState): Effect.Effect<Lease | undefined> => {
  const { lease, renewed } = key
  if (pool === undefined || lease === undefined || renewed.has(lease.number)) return Effect.undefined
  renewed.add(lease.number)
  return Effect.map(pool.refresh(lease), (fresh) => {
    if (fresh !== undefined) key.lease = fresh
    return fresh
  })
}

/** Releases the leased key. */
export const returnLease = (state: RouteCallState): void => {
  const { key, route } = state
  if (key.lease !== undefined) route.pool?.release(key.lease)
  key.lease = undefined
}
