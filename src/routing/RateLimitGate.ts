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
import * as Backoff from "./Backoff.ts"
import * as CallSize from "./CallSize.ts"
import * as Buckets from "./rate/Buckets.ts"
import { type RouteCallState, takeNext, wait, waiting } from "./RouteCallState.ts"

/** A wait that is over sooner is waited for, even where there is another lane. */
const shortWait = Duration.seconds(2)

/** A key that answers nobody for this long is taken to be at the end of its quota: from then on its refusals cost attempts. */
const longestSilence = Duration.minutes(5)

const notYet = (delay: Duration.Duration, body: string): AiError.AiError =>
  AiError.make({
    module: "ModelRouter",
    method: "call",
    reason: new AiError.RateLimitError({ retryAfter: delay, http: { body } })
  })

/** A failure if the account has used up its limit; the next key of the pool is taken first. */
const guarded: (here: RouteCallState) => Effect.Effect<AiError.AiError | undefined> = Effect.fnUntraced(function*(here) {
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

const tooLong = ({ manner }: RouteCallState, delay: Duration.Duration): boolean =>
  manner.hasNext && Duration.isGreaterThan(delay, shortWait)

const elsewhere = ({ lane }: RouteCallState, delay: Duration.Duration): AiError.AiError =>
  notYet(delay, `${lane.info.provider} asked others to wait, and they still do`)

const why = ({ lane: { info }, state }: RouteCallState): string =>
  state.refused ? `${info.provider}: rate_limit` : `the rate limit of ${info.provider}`

const paced: (here: RouteCallState) => Effect.Effect<AiError.AiError | undefined> = Effect.fnUntraced(function*(here) {
  const { about, lane, shared: { limits }, state } = here
  const key = lane.limitKey(state.lease)
  const expected = yield* limits.expected(key)
  if (tooLong(here, expected)) return elsewhere(here, expected)
  const attempt = state.failures + 1
  if (!Duration.isZero(expected)) yield* waiting(here, { reason: why(here), duration: expected, attempt })
  state.refused = false
  state.place ??= limits.place()
  yield* limits.enter(key, state.place, (slot) => {
    state.slot = slot
  })
  const tokens = (): number => about.call === undefined ? 0 : CallSize.tokens(about.call)
  const delay = Duration.min(yield* limits.pace(key, tokens), Backoff.longestRetryAfter)
  if (Duration.isZero(delay)) return undefined
  if (tooLong(here, delay)) {
    release(here)
    return elsewhere(here, delay)
  }
  yield* wait(here, { reason: why(here), duration: delay, attempt })
  return undefined
})

/**
 * Waits until the key may be used; gives a failure instead when that would take too long and there is another lane, or when
 * the account has used up its limit.
 */
export const pass = (here: RouteCallState): Effect.Effect<AiError.AiError | undefined> =>
  here.lane.guardKey(here.state.lease) === undefined
    ? paced(here)
    : Effect.flatMap(guarded(here), (failure) => failure === undefined ? paced(here) : Effect.succeed(failure))

/** The call was refused, and its key with it for this long. */
export const refused = ({ shared, state }: RouteCallState, duration: Duration.Duration): Effect.Effect<void> => {
  state.refused = true
  return state.slot === undefined
    ? Effect.void
    : shared.limits.refused(state.slot, Duration.min(duration, Backoff.longestRetryAfter))
}

/** Gives back the slot of an attempt that ended without a word about the rate. */
export const release = ({ shared, state }: RouteCallState): void => {
  if (state.slot !== undefined) shared.limits.release(state.slot)
  state.slot = undefined
}

/** The call is being answered with these headers. */
export const told = ({ shared, state }: RouteCallState, get: Buckets.GetHeader): Effect.Effect<void> =>
  state.slot === undefined ? Effect.void : shared.limits.accepted(state.slot, get)

/** Returns whether a refusal for the rate costs no attempt: the run still has time, or the key is known to be answered. */
export const isFree = ({ about, lane, shared, state }: RouteCallState, retryAfter: Duration.Duration | undefined, now: number): boolean => {
  if (retryAfter !== undefined && Duration.isGreaterThan(retryAfter, Backoff.longestRetryAfter)) return false
  if (about.deadline !== undefined) return now < about.deadline
  const answered = shared.limits.answeredAt(lane.limitKey(state.lease)) ?? 0
  return now < Math.max(state.startedAt, answered) + Duration.toMillis(longestSilence)
}

/** Learns from a refusal for the rate, and closes the account to everybody if it has used up its limit. */
export const judge = Effect.fnUntraced(function*(here: RouteCallState, { reason }: AiError.AiError) {
  const { lane, shared, state } = here
  const headers = "http" in reason ? reason.http?.response?.headers : undefined
  if (headers !== undefined) {
    yield* shared.limits.told(lane.limitKey(state.lease), (name) => Object.hasOwn(headers, name) ? String(headers[name]) : undefined)
  }
  const key = lane.guardKey(state.lease)
  if (key === undefined) return
  const millis = Buckets.exhaustion(yield* shared.limits.left(lane.limitKey(state.lease)))
  state.spent = millis !== undefined
  if (millis !== undefined) yield* shared.guard.close(key, millis)
})

/** The call was answered: its key takes calls at this rate, and its account is open. */
export const answered = ({ lane, shared, state }: RouteCallState): Effect.Effect<void> => {
  const key = lane.guardKey(state.lease)
  const accepted = state.slot === undefined || state.slot.decided ? Effect.void : shared.limits.accepted(state.slot)
  return key === undefined ? accepted : Effect.andThen(accepted, shared.guard.open(key))
}
