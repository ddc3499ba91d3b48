/**
 * Keeps a call from being refused for a rate that others have already been refused for, or that the provider has said.
 *
 * Source: `hermes-llm.md` §17.2, §17.5.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import * as Backoff from "./Backoff.ts"
import * as CallSize from "./CallSize.ts"
import * as RequestPacing from "./RequestPacing.ts"
import { type RouteCallState, takeNext, wait, waiting } from "./RouteCallState.ts"

/** A wait that is over sooner is waited for, even where there is another route. */
const shortWait = Duration.seconds(2)

/** A key that answers nobody for this long is taken to be at the end of its quota: from then on its refusals cost attempts. */
const longestSilence = Duration.minutes(5)

const notYet = (delay: Duration.Duration, body: string): AiError.AiError =>
  AiError.make({
    module: "ModelRouter",
    method: "call",
    reason: new AiError.RateLimitError({ retryAfter: delay, http: { body } })
  })

/** Fails if the account has used up its limit; the next key of the pool is taken first. */
const guarded: (state: RouteCallState) => Effect.Effect<AiError.AiError | undefined> = Effect.fnUntraced(function*(state) {
  const { route, shared } = state
  for (;;) {
    const key = route.guardKey(state.lease)
    const millis = key === undefined ? undefined : yield* shared.guard.closedFor(key)
    if (millis === undefined) return undefined
    const delay = Duration.millis(millis)
    if ((yield* takeNext(state, { reason: "rate_limit", resetAfter: delay })) !== undefined) continue
    return notYet(delay, `the account at ${route.info.provider} has used up its limit`)
  }
})

const isTooLong = ({ hasNext }: RouteCallState, delay: Duration.Duration): boolean =>
  hasNext && Duration.isGreaterThan(delay, shortWait)

const others = ({ route }: RouteCallState, delay: Duration.Duration): AiError.AiError =>
  notYet(delay, `${route.info.provider} asked others to wait, and they still do`)

const why = ({ refused, route: { info } }: RouteCallState): string =>
  refused ? `${info.provider}: rate_limit` : `the rate limit of ${info.provider}`

const paced: (state: RouteCallState) => Effect.Effect<AiError.AiError | undefined> = Effect.fnUntraced(function*(state) {
  const { question, route, shared: { limits } } = state
  const key = route.limitKey(state.lease)
  const expected = yield* limits.expected(key)
  if (isTooLong(state, expected)) return others(state, expected)
  const attempt = state.failures + 1
  if (!Duration.isZero(expected)) yield* waiting(state, { reason: why(state), duration: expected, attempt })
  state.refused = false
  state.place ??= limits.place()
  yield* limits.enter(key, state.place, (slot) => {
    state.slot = slot
  })
  const tokens = (): number => CallSize.tokens(question.call)
  const delay = Duration.min(yield* limits.pace(key, tokens), Backoff.longestRetryAfter)
  if (Duration.isZero(delay)) return undefined
  if (isTooLong(state, delay)) {
    release(state)
    return others(state, delay)
  }
  yield* wait(state, { reason: why(state), duration: delay, attempt })
  return undefined
})

/**
 * Waits until the key may be used; gives a failure instead when that would take too long and there is another route, or when
 * the account has used up its limit.
 */
export const pass = (state: RouteCallState): Effect.Effect<AiError.AiError | undefined> =>
  state.route.guardKey(state.lease) === undefined
    ? paced(state)
    : Effect.flatMap(guarded(state), (failure) => failure === undefined ? paced(state) : Effect.succeed(failure))

/** Notes that the call was refused, and its key with it for this long. */
export const refused = (state: RouteCallState, duration: Duration.Duration): Effect.Effect<void> => {
  state.refused = true
  return state.slot === undefined
    ? Effect.void
    : state.shared.limits.refused(state.slot, Duration.min(duration, Backoff.longestRetryAfter))
}

/** Gives back the slot of an attempt that ended without a word about the rate. */
export const release = (state: RouteCallState): void => {
  if (state.slot !== undefined) state.shared.limits.release(state.slot)
  state.slot = undefined
}

/** Learns from the headers of the answer that begins. */
export const readHeaders = ({ shared, slot }: RouteCallState, get: RequestPacing.GetHeader): Effect.Effect<void> =>
  slot === undefined ? Effect.void : shared.limits.accepted(slot, get)

/** Returns whether a refusal for the rate costs no attempt: the run still has time, or the key is known to be answered. */
export const isFree = (
  { lease, question: { deadline }, route, shared, startedAt }: RouteCallState,
  retryAfter: Duration.Duration | undefined,
  now: number
): boolean => {
  if (retryAfter !== undefined && Duration.isGreaterThan(retryAfter, Backoff.longestRetryAfter)) return false
  if (deadline !== undefined) return now < deadline
  const answered = shared.limits.answeredAt(route.limitKey(lease)) ?? 0
  return now < Math.max(startedAt, answered) + Duration.toMillis(longestSilence)
}

/** Learns from a refusal for the rate, and closes the account to everybody if it has used up its limit. */
export const judge = Effect.fnUntraced(function*(state: RouteCallState, { reason }: AiError.AiError) {
  const { lease, route, shared } = state
  const headers = "http" in reason ? reason.http?.response?.headers : undefined
  if (headers !== undefined) {
    yield* shared.limits.told(route.limitKey(lease), (name) => Object.hasOwn(headers, name) ? String(headers[name]) : undefined)
  }
  const key = route.guardKey(lease)
  if (key === undefined) return
  const millis = RequestPacing.exhaustion(yield* shared.limits.left(route.limitKey(lease)))
  state.spent = millis !== undefined
  if (millis !== undefined) yield* shared.guard.close(key, millis)
})

/** Notes that the call was answered: its key takes calls at this rate, and its account is open. */
export const answered = ({ lease, route, shared, slot }: RouteCallState): Effect.Effect<void> => {
  const key = route.guardKey(lease)
  const accepted = slot === undefined || slot.decided ? Effect.void : shared.limits.accepted(slot)
  return key === undefined ? accepted : Effect.andThen(accepted, shared.guard.open(key))
}
