/**
 * Does what a decision proposes: the first recovery that is possible.
 *
 * Source: `hermes-llm.md` §16.5, §17.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Schedule from "effect/Schedule"
import type * as AiError from "effect/ai/AiError"
import type { Change } from "../Adaptation.ts"
import * as Backoff from "../Backoff.ts"
import type { Decision } from "../Classification.ts"
import * as ResetTime from "../pool/ResetTime.ts"
import * as Recovery from "../Recovery.ts"
import { giveBack, type Here, notice, type Shared, takeLease, takeNext, wait, type Waits } from "./Here.ts"
import * as Lane from "./Lane.ts"
import * as Rate from "./Rate.ts"

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

const refresh = ({ lane: { pool }, state }: Here): Attempted => {
  const { lease, renewed } = state
  if (pool === undefined || lease === undefined || renewed.has(lease.number)) return impossible
  renewed.add(lease.number)
  return Effect.map(pool.refresh(lease), (fresh) => {
    if (fresh === undefined) return undefined
    state.lease = fresh
    return "again"
  })
}

const rotate = Effect.fnUntraced(function*(here: Here, { decision: { reason }, error }: Failed) {
  const { lane: { info, pool }, shared, state } = here
  const { lease } = state
  if (pool === undefined || lease === undefined) return undefined
  const resetAfter = ResetTime.read(error, yield* Clock.currentTimeMillis)
  if (reason === "rate_limit") yield* Rate.refused(here, resetAfter ?? shared.backoff.base)
  const next = yield* takeNext(here, { reason, resetAfter })
  if (next === undefined) return undefined
  yield* notice(
    here,
    `${info.provider}: key ${lease.number} of ${pool.size} was refused (${reason}), going on with key ${next.number}`
  )
  return "again" as const
})

/** What an endpoint can not take stays so; the reasoning that one conversation carries says nothing about the endpoint. */
const adapt = (here: Here, change: Change): Attempted => {
  const { lane, state } = here
  const known = change === "without_reasoning" ? state.changes : lane.changes
  if (known.has(change)) return impossible
  known.add(change)
  const what = Recovery.describe({ _tag: "Adapt", change })
  return Effect.andThen(notice(here, `${Lane.name(lane)} can not take the request as it is: ${what}`), again)
}

const lowerOutputCap = (here: Here, to: number): Attempted => {
  const { lane, state } = here
  if (state.outputCap !== undefined && state.outputCap <= to) return impossible
  state.outputCap = to
  return Effect.andThen(notice(here, `${Lane.name(lane)} allows an answer of ${to} tokens`), again)
}

const waitsOf = ({ backoff, maxAttempts }: Shared): Effect.Effect<Waits> =>
  Effect.map(Schedule.toStep(Backoff.schedule(backoff, maxAttempts)), (step): Waits => (input) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Pull.catchDone(
        Effect.map(step(now, input), ([, wait]): Duration.Duration | undefined => wait),
        () => Effect.succeed(undefined)
      )))

/** Why it waits: the words for a connection are ours and say what to do; those of a provider are for the end. */
const whyOf = ({ decision: { message, reason }, error }: Failed): string =>
  error.reason._tag === "NetworkError" && message !== "" ? message : reason

const retry = Effect.fnUntraced(function*(
  here: Here,
  failed: Failed,
  asked: Duration.Duration | undefined
) {
  const { decision: { reason }, error } = failed
  const { lane: { info, pool }, shared, state } = here
  if (state.spent) return undefined
  state.failures++
  state.waits ??= yield* waitsOf(shared)
  const limited = reason === "rate_limit"
  const after = asked ?? (limited ? ResetTime.read(error, yield* Clock.currentTimeMillis) : undefined)
  const duration = yield* state.waits(after)
  if (duration === undefined) return undefined
  if (limited) yield* Rate.refused(here, duration)
  yield* wait(here, { reason: `${info.provider}: ${whyOf(failed)}`, duration, attempt: state.failures + 1 })
  // Another key may be ready by now.
  if (pool !== undefined && pool.size > 1) {
    giveBack(here)
    yield* takeLease(here)
  }
  return "again" as const
})

const rebuild = Effect.fnUntraced(function*(here: Here, { error }: Failed) {
  const { lane, manner, shared, state } = here
  if (state.rebuilt || !manner.isPrimary || !lane.isDirect || error.reason._tag !== "NetworkError") return undefined
  state.rebuilt = true
  yield* shared.providers.retire(lane.routeWith(state.lease))
  const duration = Backoff.beforeRebuilt(state.failures)
  yield* wait(here, { reason: `${lane.info.provider}: a new connection`, duration, attempt: 1 })
  state.failures = 0
  state.waits = undefined
  return "again" as const
})

const fallBack = Effect.fnUntraced(function*(here: Here, { decision: { reason }, error }: Failed) {
  if (!here.manner.hasNext) return undefined
  if (reason === "rate_limit") {
    yield* Rate.refused(here, ResetTime.read(error, yield* Clock.currentTimeMillis) ?? here.shared.backoff.base)
  }
  return "elsewhere" as const
})

const attempt = (here: Here, recovery: Recovery.Recovery, failed: Failed): Attempted => {
  switch (recovery._tag) {
    case "Refresh":
      return refresh(here)
    case "Rotate":
      return rotate(here, failed)
    case "Adapt":
      return adapt(here, recovery.change)
    case "LowerOutputCap":
      return lowerOutputCap(here, recovery.to)
    case "Compress":
      return Effect.succeed("given-up")
    case "Retry":
      return retry(here, failed, recovery.after)
    case "Rebuild":
      return rebuild(here, failed)
    case "Fallback":
      return fallBack(here, failed)
  }
}

/** See the module. */
export const recover = Effect.fnUntraced(function*(here: Here, failed: Failed): Effect.fn.Return<Onward> {
  if (failed.decision.reason === "rate_limit") yield* Rate.judge(here, failed.error)
  for (const recovery of failed.decision.recoveries) {
    const onward = yield* attempt(here, recovery, failed)
    if (onward !== undefined) return onward
  }
  return "given-up"
})
