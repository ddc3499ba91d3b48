/**
 * Carries out a decision: the first of its recoveries that is possible.
 *
 * Source: `hermes-llm.md` §16.5, §17.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Change } from "./Adaptation.ts"
import * as Backoff from "./Backoff.ts"
import * as Parameters from "./classification/Parameters.ts"
import type { Failure } from "./Classification.ts"
import * as CredentialPool from "./CredentialPool.ts"
import * as Recovery from "./Recovery.ts"
import { giveBack, type RouteCallState, notice, takeLease, takeNext, wait } from "./RouteCallState.ts"
import * as ManagedRoute from "./ManagedRoute.ts"
import * as RateLimitGate from "./RateLimitGate.ts"

/** Continuation of a call after a failure: another attempt on this route, the next route, or none. */
export type Onward = "again" | "next route" | "give up"

type Attempted = Effect.Effect<Onward | undefined>

const again = Effect.succeed("again" as const)
const impossible = Effect.succeed(undefined)

const renewKey = (state: RouteCallState): Attempted => {
  const { lease, renewed, route: { pool } } = state
  if (pool === undefined || lease === undefined || renewed.has(lease.number)) return impossible
  renewed.add(lease.number)
  return Effect.map(pool.refresh(lease), (fresh) => {
    if (fresh === undefined) return undefined
    state.lease = fresh
    return "again"
  })
}

const nextKey = Effect.fnUntraced(function*(state: RouteCallState, { decision: { reason }, error }: Failure) {
  const { lease, route: { info, pool }, shared } = state
  if (pool === undefined || lease === undefined) return undefined
  const resetAfter = CredentialPool.resetAfter(error, yield* Clock.currentTimeMillis)
  if (reason === "rate_limit") yield* RateLimitGate.refused(state, resetAfter ?? Duration.fromInputUnsafe(shared.backoff.base))
  const next = yield* takeNext(state, { reason, resetAfter })
  if (next === undefined) return undefined
  yield* notice(
    state,
    `${info.provider}: key ${lease.number} of ${pool.size} was refused (${reason}), going on with key ${next.number}`
  )
  return "again" as const
})

/** Changes the form of the call. What an endpoint cannot take stays so; reasoning belongs to one conversation alone. */
const adapt = (state: RouteCallState, change: Change): Attempted => {
  const { route } = state
  const known = change === "without_reasoning" ? state.changes : route.changes
  if (known.has(change)) return impossible
  known.add(change)
  const what = Recovery.describe({ _tag: "Adapt", change })
  return Effect.andThen(notice(state, `${ManagedRoute.name(route)} cannot take the request as it is: ${what}`), again)
}

const adaptParameters = (state: RouteCallState, names: ReadonlyArray<string>): Attempted => {
  const { request, route, shared } = state
  if (request === undefined) return impossible
  const { info: { apiMode }, parameters: changes } = route
  for (const name of names) {
    const to = Parameters.remedy(name, { apiMode, changes, request })
    if (to === null) continue
    changes.set(name, to)
    const what = to === undefined ? `it is sent without it` : `${to} is sent instead`
    return notice(state, `${ManagedRoute.name(route)} does not take ${name}: ${what}`).pipe(
      Effect.andThen(shared.endpoints?.setParameters(route.id, changes) ?? Effect.void),
      Effect.andThen(again)
    )
  }
  return impossible
}

const lowerOutputCap = (state: RouteCallState, to: number): Attempted => {
  const { route } = state
  if (state.outputCap !== undefined && state.outputCap <= to) return impossible
  state.outputCap = to
  return Effect.andThen(notice(state, `${ManagedRoute.name(route)} allows an answer of ${to} tokens`), again)
}

/** Names the reason of a wait: the words for a connection are ours and say what to do; those of a provider are for the end. */
const whyOf = ({ decision: { message, reason }, error }: Failure): string =>
  error.reason._tag === "NetworkError" && message !== "" ? message : reason

/** Another key may be ready by now. */
const changeKey = (state: RouteCallState): Effect.Effect<void> => {
  const { pool } = state.route
  if (pool === undefined || pool.size < 2) return Effect.void
  giveBack(state)
  return takeLease(state)
}

/** Goes back to the queue of the key. */
const requeue = Effect.fnUntraced(function*(state: RouteCallState, { error }: Failure, asked: Duration.Duration | undefined) {
  const { shared } = state
  const now = yield* Clock.currentTimeMillis
  const after = asked ?? CredentialPool.resetAfter(error, now)
  const free = RateLimitGate.isFree(state, after, now)
  if (!free) state.failures++
  if (state.failures >= shared.maxAttempts) return undefined
  if (after === undefined) state.refusals++
  yield* RateLimitGate.refused(state, yield* Backoff.wait(shared.backoff, state.refusals, after))
  yield* changeKey(state)
  return "again" as const
})

type Retry = Extract<Recovery.Recovery, { readonly _tag: "RetryAfter" }>

const retry = Effect.fnUntraced(function*(state: RouteCallState, failed: Failure, { after, exact }: Retry) {
  const { route: { info }, shared } = state
  if (state.spent) return undefined
  if (failed.decision.reason === "rate_limit") return yield* requeue(state, failed, after)
  state.failures++
  if (state.failures >= shared.maxAttempts) return undefined
  const duration = exact === true && after !== undefined ? after : yield* Backoff.wait(shared.backoff, state.failures, after)
  yield* wait(state, { reason: `${info.provider}: ${whyOf(failed)}`, duration, attempt: state.failures + 1 })
  yield* changeKey(state)
  return "again" as const
})

const rebuild = Effect.fnUntraced(function*(state: RouteCallState, { error }: Failure) {
  const { isPrimary, route, shared } = state
  if (state.rebuilt || !isPrimary || !route.isDirect || error.reason._tag !== "NetworkError") return undefined
  state.rebuilt = true
  yield* shared.providers.retire(route.routeWith(state.lease))
  const duration = Backoff.beforeRebuilt(state.failures)
  yield* wait(state, { reason: `${route.info.provider}: a new connection`, duration, attempt: 1 })
  state.failures = 0
  return "again" as const
})

const nextRoute = Effect.fnUntraced(function*(state: RouteCallState, { decision: { reason }, error }: Failure) {
  if (!state.hasNext) return undefined
  if (reason === "rate_limit") {
    const resetAfter = CredentialPool.resetAfter(error, yield* Clock.currentTimeMillis)
    yield* RateLimitGate.refused(state, resetAfter ?? Duration.fromInputUnsafe(state.shared.backoff.base))
  }
  return "next route" as const
})

const attempt = (state: RouteCallState, recovery: Recovery.Recovery, failed: Failure): Attempted => {
  switch (recovery._tag) {
    case "RenewKey":
      return renewKey(state)
    case "NextKey":
      return nextKey(state, failed)
    case "Adapt":
      return adapt(state, recovery.change)
    case "AdaptParameters":
      return adaptParameters(state, recovery.names)
    case "LowerOutputCap":
      return lowerOutputCap(state, recovery.to)
    case "Compact":
      return Effect.succeed("give up")
    case "RetryAfter":
      return retry(state, failed, recovery)
    case "Rebuild":
      return rebuild(state, failed)
    case "NextRoute":
      return nextRoute(state, failed)
  }
}

/** Recovers from a failure as its decision says. */
export const recover = Effect.fnUntraced(function*(state: RouteCallState, failed: Failure): Effect.fn.Return<Onward> {
  if (failed.decision.reason === "rate_limit") yield* RateLimitGate.judge(state, failed.error)
  for (const recovery of failed.decision.recoveries) {
    const onward = yield* attempt(state, recovery, failed)
    if (onward !== undefined) return onward
  }
  return "give up"
})
