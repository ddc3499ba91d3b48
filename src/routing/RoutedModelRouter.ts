/**
 * The router over a chain of routes: no turn is lost to a provider as long as one of them can answer.
 *
 * **Details**
 *
 * A call goes to the route that its session is on, by a breaker, with as many attempts as `LaneCall` finds worth making;
 * what a route can not do is left to the next one in the chain. The session stays there for the rest of its turn
 * (`RouteState`). The answer says which route gave it.
 *
 * A route whose breaker is open, or whose keys are all set aside, is passed over while there is another one to ask. When the
 * chain ends without an answer, the routes that were passed over are asked after all.
 *
 * A call that names a route of its own is made on that route alone.
 *
 * **Gotchas**
 *
 * The first route is the primary. Providers are opened when they are first asked, so a chain costs what its first route
 * costs. With one route there is no breaker: a route that is the only one is always asked.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §16 and §17.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import * as Route from "../domain/Route.ts"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import * as Backoff from "./Backoff.ts"
import * as Breakers from "./Breakers.ts"
import * as CredentialPool from "./CredentialPool.ts"
import type { Shared } from "./lane/Here.ts"
import * as Lane from "./lane/Lane.ts"
import * as LaneCall from "./LaneCall.ts"
import { ModelRouter, type Service } from "./ModelRouter.ts"
import * as OpenProviders from "./OpenProviders.ts"
import type { Open } from "./OpenRoute.ts"
import type { PoolStore } from "./pool/PoolStore.ts"
import type { Strategy } from "./pool/Strategy.ts"
import * as RateLimits from "./RateLimits.ts"
import * as RouteState from "./RouteState.ts"
import type * as Timeouts from "./Timeouts.ts"

/** A route of the chain with its keys. */
export interface ChainEntry {
  readonly route: Route.Route
  /** The keys of the pool; without any the route is asked with what is in it. */
  readonly credentials?: ReadonlyArray<CredentialPool.Credential> | undefined
  readonly strategy?: Strategy | undefined
  /** How long the route may be silent, where the user set it. */
  readonly limits?: Timeouts.Limits | undefined
}

/** What a router is made of. */
export interface Options {
  /** The primary, then its fallbacks in order. */
  readonly chain: readonly [ChainEntry, ...ReadonlyArray<ChainEntry>]
  readonly open: Open
  /** Attempts on one route that failures may cost; 3 when absent. */
  readonly maxAttempts?: number | undefined
  readonly backoff?: Backoff.Limits | undefined
  readonly breaker?: Breakers.Policy | undefined
  /** Remembers which keys are spent; nothing outlives the process when absent. */
  readonly store?: PoolStore | undefined
}

/** What may be shown of a route of the chain. */
export interface RouteStatus {
  readonly route: Route.RouteInfo
  readonly keys: ReadonlyArray<CredentialPool.KeyState>
  readonly breaker: "Closed" | "Open" | "HalfOpen"
}

/** The state of a router's chain, for those who look into it. */
export class RouterStatus extends Context.Service<RouterStatus, {
  readonly routes: Effect.Effect<ReadonlyArray<RouteStatus>>
}>()("hermes-effect/routing/RouterStatus") {}

const defaultAttempts = 3

/** Routes of one provider with the same keys share a pool, and with it what is known of the keys. */
const poolNames = ({ credentials = [], route }: ChainEntry): string =>
  [route.provider, ...credentials.map(({ key }) => Redacted.value(key))].join("\n")

const lanesOf = Effect.fnUntraced(function*({ chain, store }: Options) {
  const pools = new Map<string, CredentialPool.CredentialPool>()
  const lanes: Array<Lane.Lane> = []
  for (const entry of chain) {
    const { credentials = [], limits, route, strategy } = entry
    const name = poolNames(entry)
    let pool = pools.get(name)
    if (pool === undefined && credentials.length > 0) {
      pool = yield* CredentialPool.make({ name: route.provider, credentials, strategy, store })
      pools.set(name, pool)
    }
    lanes.push(Lane.make({ route, pool, limits }))
  }
  return lanes
})

const isReady = ({ pool }: Lane.Lane): Effect.Effect<boolean> =>
  pool === undefined || pool.size < 2 ? Effect.succeed(true) : pool.isReady

/** The services of a router; see the module. */
export const make = Effect.fnUntraced(function*(options: Options): Effect.fn.Return<
  { readonly router: Service; readonly status: RouterStatus["Service"] },
  never,
  Scope.Scope
> {
  const lanes = yield* lanesOf(options)
  const breakers = yield* Breakers.make(options.breaker ?? Breakers.defaults)
  const sessions = RouteState.make()
  const own = new WeakMap<Route.Route, Lane.Lane>()
  const shared: Shared = {
    providers: yield* OpenProviders.make(options.open),
    limits: yield* RateLimits.make,
    backoff: options.backoff ?? Backoff.defaults,
    maxAttempts: Math.max(1, options.maxAttempts ?? defaultAttempts)
  }
  const primaryRoute = options.chain[0].route
  const primary = Route.info(primaryRoute)

  const laneOf = (route: Route.Route): Lane.Lane => {
    const known = own.get(route)
    if (known !== undefined) return known
    const lane = Lane.make({ route, pool: undefined, limits: undefined })
    own.set(route, lane)
    return lane
  }

  const result = <E, R>(
    outcome: Effect.Effect<LaneCall.Outcome, E, R>
  ): Effect.Effect<ModelAnswer, AiError.AiError | E, R> =>
    Effect.flatMap(outcome, (outcome) =>
      outcome._tag === "Answered" ? Effect.succeed(outcome.answer) : Effect.fail(outcome.error))

  const alone = <E, R>(lane: Lane.Lane, call: LaneCall.Call<E, R>) =>
    result(LaneCall.run(shared, lane, call, { hasNext: false, isPrimary: true }))

  const throughChain = Effect.fnUntraced(function*<E, R>(
    call: LaneCall.Call<E, R>
  ): Effect.fn.Return<ModelAnswer, AiError.AiError | E, R> {
    const { about } = call
    const { turn } = about
    const from = turn === undefined ? 0 : sessions.position(turn, yield* Clock.currentTimeMillis)
    let current = from
    const passedOver: Array<number> = []
    let failed: Extract<LaneCall.Outcome, { readonly _tag: "Elsewhere" }> | undefined

    /** The session is on this lane now. */
    const settle = Effect.fnUntraced(function*(position: number) {
      if (turn === undefined || position === current) return
      current = position
      sessions.move(turn, position, failed?.decision.reason, yield* Clock.currentTimeMillis)
    })

    const tellOf = (lane: Lane.Lane, why: string, to: Lane.Lane | undefined): Effect.Effect<void> =>
      about.notify === undefined || to === undefined ? Effect.void : about.notify([{
        _tag: "Notice",
        level: "warning",
        message: `${Lane.name(lane)} ${why}: going on with ${Lane.name(to)}`
      }])

    for (let position = from; position < lanes.length; position++) {
      const lane = lanes[position]
      if (lane === undefined) break
      const hasNext = position + 1 < lanes.length || passedOver.length > 0
      const outcome = hasNext && !(yield* isReady(lane))
        ? { _tag: "Rejected" as const }
        : yield* breakers.guard(lane.id, LaneCall.run(shared, lane, call, { hasNext, isPrimary: position === 0 }))
      switch (outcome._tag) {
        case "Answered":
          yield* settle(position)
          return outcome.answer
        case "GivenUp":
          return yield* Effect.fail(outcome.error)
        case "Rejected":
          passedOver.push(position)
          yield* tellOf(lane, "is left alone for now", lanes[position + 1])
          break
        case "Elsewhere":
          failed = outcome
          yield* tellOf(lane, `can not answer (${outcome.decision.reason})`, lanes[position + 1])
          if (position + 1 < lanes.length) yield* settle(position + 1)
          break
      }
    }
    for (const position of passedOver) {
      const lane = lanes[position]
      if (lane === undefined) continue
      const hasNext = position !== passedOver.at(-1)
      const outcome = yield* LaneCall.run(shared, lane, call, { hasNext, isPrimary: position === 0 })
      if (outcome._tag === "Answered") {
        yield* settle(position)
        return outcome.answer
      }
      failed = { ...outcome, _tag: "Elsewhere" }
    }
    return failed === undefined
      ? yield* Effect.die("a chain without routes")
      : yield* Effect.fail(failed.error)
  })

  const call: Service["call"] = (attempt, route, about = {}) =>
    Effect.suspend(() => {
      const call = { attempt, about, count: 0, dirty: false, reconnects: 0 }
      if (route !== undefined && route !== primaryRoute) return alone(laneOf(route), call)
      const [only, second] = lanes
      return only !== undefined && second === undefined ? alone(only, call) : throughChain(call)
    })

  const advance: Service["advance"] = Effect.fnUntraced(function*(turn, why) {
    const now = yield* Clock.currentTimeMillis
    const to = sessions.position(turn, now) + 1
    const lane = lanes[to]
    if (lane === undefined) return undefined
    sessions.move(turn, to, undefined, now)
    yield* Effect.logInfo(`session ${turn.session} goes on with ${Lane.name(lane)}: ${why}`)
    return lane.info
  })

  const routes = Effect.forEach(lanes, (lane) =>
    Effect.all({
      route: Effect.succeed(lane.info),
      keys: lane.pool?.state ?? Effect.succeed([]),
      breaker: breakers.state(lane.id)
    }))

  return {
    router: {
      primary: Effect.succeed(primary),
      primaryRoute: Effect.succeed(primaryRoute),
      call,
      advance
    },
    status: { routes }
  }
})

/** {@link make} as Layer. */
export const layer = (options: Options): Layer.Layer<ModelRouter | RouterStatus> =>
  Layer.effectContext(Effect.map(make(options), ({ router, status }) =>
    Context.make(ModelRouter, router).pipe(Context.add(RouterStatus, status))))
