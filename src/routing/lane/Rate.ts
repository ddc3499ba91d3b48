/**
 * Keeps a call from being refused for a rate that others have already been refused for, or that the provider has said.
 *
 * Source: `hermes-llm.md` §17.2, §17.5.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import * as Backoff from "../Backoff.ts"
import * as CallSize from "../CallSize.ts"
import * as Buckets from "../rate/Buckets.ts"
import { type Here, takeNext, wait } from "./Here.ts"

/** A wait that is over sooner is waited for, even where there is another lane. */
const shortWait = Duration.seconds(2)

const notYet = (delay: Duration.Duration, body: string): AiError.AiError =>
  AiError.make({
    module: "ModelRouter",
    method: "call",
    reason: new AiError.RateLimitError({ retryAfter: delay, http: { body } })
  })

/** A failure if the account has used up its limit; the next key of the pool is taken first. */
const guarded: (here: Here) => Effect.Effect<AiError.AiError | undefined> = Effect.fnUntraced(function*(here) {
  const { lane, shared, state } = here
  for (;;) {
    const key = lane.guardKey(state.lease)
    const millis = key === undefined ? undefined : yield* shared.guard.closedFor(key)
    if (millis === undefined) return undefined
    const delay = Duration.millis(millis)
    if ((yield* takeNext(here, { reason: "rate_limit", resetAfter: delay })) !== undefined) continue
    return notYet(delay, `the account at ${lane.info.provider} has used up its limit`)
  }
})

const paced = (here: Here): Effect.Effect<AiError.AiError | undefined> => {
  const { about, lane, manner, shared, state } = here
  const tokens = (): number => about.call === undefined ? 0 : CallSize.tokens(about.call)
  return Effect.flatMap(shared.limits.slot(lane.limitKey(state.lease), tokens), (slot) => {
    state.slot = slot
    const delay = Duration.min(slot.delay, Backoff.longestRetryAfter)
    if (Duration.isZero(delay)) return Effect.succeed(undefined)
    if (manner.hasNext && Duration.isGreaterThan(delay, shortWait)) {
      return Effect.succeed(notYet(delay, `${lane.info.provider} asked others to wait, and they still do`))
    }
    const reason = `the rate limit of ${lane.info.provider}`
    const waited = wait(here, { reason, duration: delay, attempt: state.failures + 1 })
    return slot.phase === "cooldown" ? Effect.andThen(waited, Effect.suspend(() => paced(here))) : Effect.as(waited, undefined)
  })
}

/**
 * Waits until the key may be used; gives a failure instead when that would take too long and there is another lane, or when
 * the account has used up its limit.
 */
export const pass = (here: Here): Effect.Effect<AiError.AiError | undefined> =>
  here.lane.guardKey(here.state.lease) === undefined
    ? paced(here)
    : Effect.flatMap(guarded(here), (failure) => failure === undefined ? paced(here) : Effect.succeed(failure))

/** The key was refused for this long. */
export const refused = ({ lane, shared, state }: Here, duration: Duration.Input): Effect.Effect<void> =>
  state.slot === undefined ? Effect.void : shared.limits.refused(
    lane.limitKey(state.lease),
    state.slot,
    Duration.min(Duration.fromInputUnsafe(duration), Backoff.longestRetryAfter)
  )

/** The key was answered with these headers. */
export const told = ({ lane, shared, state }: Here, get: Buckets.GetHeader): Effect.Effect<void> =>
  shared.limits.told(lane.limitKey(state.lease), get)

/** Learns from a refusal for the rate, and closes the account to everybody if it has used up its limit. */
export const judge = Effect.fnUntraced(function*(here: Here, { reason }: AiError.AiError) {
  const { lane, shared, state } = here
  const headers = "http" in reason ? reason.http?.response?.headers : undefined
  if (headers !== undefined) yield* told(here, (name) => Object.hasOwn(headers, name) ? String(headers[name]) : undefined)
  const key = lane.guardKey(state.lease)
  if (key === undefined) return
  const millis = Buckets.exhaustion(yield* shared.limits.left(lane.limitKey(state.lease)))
  state.spent = millis !== undefined
  if (millis !== undefined) yield* shared.guard.close(key, millis)
})

/** The key was answered: its account is open. */
export const answered = ({ lane, shared, state }: Here): Effect.Effect<void> => {
  const key = lane.guardKey(state.lease)
  return key === undefined ? Effect.void : shared.guard.open(key)
}
