/**
 * Does what a decision proposes: the first recovery that is possible.
 *
 * Source: `hermes-llm.md` §16.5, §17.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { Change } from "./Adaptation.ts"
import * as Backoff from "./Backoff.ts"
import * as Parameters from "./classification/Parameters.ts"
import type { Decision } from "./Classification.ts"
import * as ResetTime from "./pool/ResetTime.ts"
import * as Recovery from "./Recovery.ts"
import { giveBack, type RouteCallState, notice, takeLease, takeNext, wait } from "./RouteCallState.ts"
import * as ManagedRoute from "./ManagedRoute.ts"
import * as RateLimitGate from "./RateLimitGate.ts"

/** How a call goes on: with another attempt here, on another lane, or not. */
export type Onward = "again" | "elsewhere" | "given-up"

/** What there is to recover from. */
export interface Failed {
  readonly error: AiError.AiError
  readonly decision: Decision
}

type Attempted = Effect.Effect<Onward | undefined>

const again = Effect.succeed("again" as const)
const impossible = Effect.succeed(undefined)

const refresh = ({ lane: { pool }, state }: RouteCallState): Attempted => {
  const { lease, renewed } = state
  if (pool === undefined || lease === undefined || renewed.has(lease.number)) return impossible
  renewed.add(lease.number)
  return Effect.map(pool.refresh(lease), (fresh) => {
    if (fresh === undefined) return undefined
    state.lease = fresh
    return "again"
  })
}

const rotate = Effect.fnUntraced(function*(here: RouteCallState, { decision: { reason }, error }: Failed) {
  const { lane: { info, pool }, shared, state } = here
  const { lease } = state
  if (pool === undefined || lease === undefined) return undefined
  const resetAfter = ResetTime.read(error, yield* Clock.currentTimeMillis)
  if (reason === "rate_limit") yield* RateLimitGate.refused(here, resetAfter ?? Duration.fromInputUnsafe(shared.backoff.base))
  const next = yield* takeNext(here, { reason, resetAfter })
  if (next === undefined) return undefined
  yield* notice(
    here,
    `${info.provider}: key ${lease.number} of ${pool.size} was refused (${reason}), going on with key ${next.number}`
  )
  return "again" as const
})

/** What an endpoint can not take stays so; the reasoning that one conversation carries says nothing about the endpoint. */
const adapt = (here: RouteCallState, change: Change): Attempted => {
  const { lane, state } = here
  const known = change === "without_reasoning" ? state.changes : lane.changes
  if (known.has(change)) return impossible
  known.add(change)
  const what = Recovery.describe({ _tag: "Adapt", change })
  return Effect.andThen(notice(here, `${ManagedRoute.name(lane)} can not take the request as it is: ${what}`), again)
}

const adaptParameters = (here: RouteCallState, names: ReadonlyArray<string>): Attempted => {
  const { lane, state: { request } } = here
  if (request === undefined) return impossible
  const { info: { apiMode }, parameters: changes } = lane
  for (const name of names) {
    const to = Parameters.remedy(name, { apiMode, changes, request })
    if (to === null) continue
    changes.set(name, to)
    const what = to === undefined ? `it is sent without it` : `${to} is sent instead`
    return notice(here, `${ManagedRoute.name(lane)} does not take ${name}: ${what}`).pipe(
      Effect.andThen(here.shared.endpoints?.setParameters(lane.id, changes) ?? Effect.void),
      Effect.andThen(again)
    )
  }
  return impossible
}

const lowerOutputCap = (here: RouteCallState, to: number): Attempted => {
  const { lane, state } = here
  if (state.outputCap !== undefined && state.outputCap <= to) return impossible
  state.outputCap = to
  return Effect.andThen(notice(here, `${ManagedRoute.name(lane)} allows an answer of ${to} tokens`), again)
}

/** Why it waits: the words for a connection are ours and say what to do; those of a provider are for the end. */
const whyOf = ({ decision: { message, reason }, error }: Failed): string =>
  error.reason._tag === "NetworkError" && message !== "" ? message : reason

/** Another key may be ready by now. */
const changeKey = (here: RouteCallState): Effect.Effect<void> => {
  const { pool } = here.lane
  if (pool === undefined || pool.size < 2) return Effect.void
  giveBack(here)
  return takeLease(here)
}

/** Goes back to the queue of the key. */
const requeue = Effect.fnUntraced(function*(here: RouteCallState, { error }: Failed, asked: Duration.Duration | undefined) {
  const { shared, state } = here
  const now = yield* Clock.currentTimeMillis
  const after = asked ?? ResetTime.read(error, now)
  const free = RateLimitGate.isFree(here, after, now)
  if (!free) state.failures++
  if (state.failures >= shared.maxAttempts) return undefined
  if (after === undefined) state.refusals++
  yield* RateLimitGate.refused(here, yield* Backoff.wait(shared.backoff, state.refusals, after))
  yield* changeKey(here)
  return "again" as const
})

type Retry = Extract<Recovery.Recovery, { readonly _tag: "Retry" }>

const retry = Effect.fnUntraced(function*(here: RouteCallState, failed: Failed, { after, exact }: Retry) {
  const { lane: { info }, shared, state } = here
  if (state.spent) return undefined
  if (failed.decision.reason === "rate_limit") return yield* requeue(here, failed, after)
  state.failures++
  if (state.failures >= shared.maxAttempts) return undefined
  const duration = exact === true && after !== undefined ? after : yield* Backoff.wait(shared.backoff, state.failures, after)
  yield* wait(here, { reason: `${info.provider}: ${whyOf(failed)}`, duration, attempt: state.failures + 1 })
  yield* changeKey(here)
  return "again" as const
})

const rebuild = Effect.fnUntraced(function*(here: RouteCallState, { error }: Failed) {
  const { lane, manner, shared, state } = here
  if (state.rebuilt || !manner.isPrimary || !lane.isDirect || error.reason._tag !== "NetworkError") return undefined
  state.rebuilt = true
  yield* shared.providers.retire(lane.routeWith(state.lease))
  const duration = Backoff.beforeRebuilt(state.failures)
  yield* wait(here, { reason: `${lane.info.provider}: a new connection`, duration, attempt: 1 })
  state.failures = 0
  return "again" as const
})

const fallBack = Effect.fnUntraced(function*(here: RouteCallState, { decision: { reason }, error }: Failed) {
  if (!here.manner.hasNext) return undefined
  if (reason === "rate_limit") {
    const resetAfter = ResetTime.read(error, yield* Clock.currentTimeMillis)
    yield* RateLimitGate.refused(here, resetAfter ?? Duration.fromInputUnsafe(here.shared.backoff.base))
  }
  return "elsewhere" as const
})

const attempt = (here: RouteCallState, recovery: Recovery.Recovery, failed: Failed): Attempted => {
  switch (recovery._tag) {
    case "Refresh":
      return refresh(here)
    case "Rotate":
      return rotate(here, failed)
    case "Adapt":
      return adapt(here, recovery.change)
    case "AdaptParameters":
      return adaptParameters(here, recovery.names)
    case "LowerOutputCap":
      return lowerOutputCap(here, recovery.to)
    case "Compress":
      return Effect.succeed("given-up")
    case "Retry":
      return retry(here, failed, recovery)
    case "Rebuild":
      return rebuild(here, failed)
    case "Fallback":
      return fallBack(here, failed)
  }
}

/** See the module. */
export const recover = Effect.fnUntraced(function*(here: RouteCallState, failed: Failed): Effect.fn.Return<Onward> {
  if (failed.decision.reason === "rate_limit") yield* RateLimitGate.judge(here, failed.error)
  for (const recovery of failed.decision.recoveries) {
    const onward = yield* attempt(here, recovery, failed)
    if (onward !== undefined) return onward
  }
  return "given-up"
})
