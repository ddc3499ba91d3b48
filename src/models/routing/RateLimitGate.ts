/**
 * Admits calls at the rate that the provider of each key accepts, as reported by the provider or learned from earlier
 * refusals. Each combination of key and route has one queue, shared by all callers.
 *
 * **Details**
 *
 * If a provider's answers report the remaining limits, these are used; otherwise the rate is learned from refusals and
 * answers (`RequestPacing`). Calls wait in order of arrival; a refused call returns to its previous position. Calls of
 * several tenants take turns, so that many calls of one do not delay a few calls of another. Only the next call of the
 * queue waits for the limits, and it is deducted from them as it begins. If no calls are waiting for a key, the queue
 * adds no delay.
 *
 * Source: `hermes-llm.md` §17 (17.2 and 17.5), `ARCHITECTURE.md` §7 (rate limits under parallel load).
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import * as AiError from "effect/ai/AiError"
import * as CallTokens from "./CallTokens.ts"
import * as RequestPacing from "./RequestPacing.ts"
import { SharedMarks } from "./SharedMarks.ts"
import { longestRetryAfter } from "./RetryPolicy.ts"
import { readClock, reportWait, type RouteCallState, takeNextLease } from "./RouteCallState.ts"

/** An admitted call. */
export interface Slot {
  readonly key: string
  readonly begun: RequestPacing.BegunCall
  /** True if the provider has accepted or refused the call. */
  decided: boolean
}

/** State of a call's admission in the queues. */
export interface Admission {
  /** Slot of the current attempt; `undefined` if it has not been admitted. */
  slot: Slot | undefined
  /** Position in the queues, assigned with the first attempt. */
  place: number | undefined
  /** True if the previous attempt was refused because of a rate limit. */
  refused: boolean
  /** True if the key's account is known to have exhausted its limit, so that waiting is useless. */
  spent: boolean
}

/** Queues of all keys. Times are in milliseconds since 1970. */
export interface RateLimits {
  /**
   * Returns a position in the queues; lower positions are admitted first. A call uses its position until it is
   * answered.
   */
  readonly place: () => number
  /** Returns the expected wait, in milliseconds, of a call that arrives now; 0 if unknown. */
  readonly expected: (key: string, call: QueuedCall, now: number) => number
  /** Takes a slot if no other call has precedence and the key has room for the call, otherwise returns `undefined`. */
  readonly take: (key: string, call: QueuedCall, now: number) => Slot | undefined
  /** Waits until the key may be used. `taken` is called with the slot at the moment it is taken. */
  readonly enter: (key: string, position: QueuePosition, taken: (slot: Slot) => void) => Effect.Effect<void>
  /** Records that the provider refused the call. No call is admitted to the key for the duration `closedFor`. */
  readonly refused: (slot: Slot, closedFor: Duration.Duration, now: number) => void
  /** Records that the provider accepted the call; `get` reads the headers of its answer. */
  readonly accepted: (slot: Slot, now: number, get?: RequestPacing.GetHeader) => void
  /** Releases the slot of a call that ended without information about the rate. */
  readonly release: (slot: Slot) => void
  /** Records the remaining limits from the headers of an answer or refusal. */
  readonly told: (key: string, get: RequestPacing.GetHeader, now: number) => void
  /** Returns the remaining limits of the key, as far as the provider reported them. */
  readonly left: (key: string, now: number) => ReadonlyArray<RequestPacing.Bucket>
  /** Returns the time at which a call with the key was last answered, in milliseconds since 1970, or `undefined`. */
  readonly answeredAt: (key: string) => number | undefined
}

/** A call that is to be admitted. */
export interface QueuedCall {
  /** Tenant of the call; calls without a tenant share one line. */
  readonly tenant: string | undefined
  /** Returns the estimated number of its tokens. It is called only if the provider limits tokens. */
  readonly tokens: () => number
}

/** A call with its position in a queue. */
export interface QueuePosition extends QueuedCall {
  readonly place: number
}

interface Waiter extends QueuePosition {
  signal: Deferred.Deferred<void>
  readonly joinedAt: number
}

/** Queue of a key, with one line for each tenant. Calls are sorted by position. */
interface Queue {
  readonly rate: RequestPacing.LearntRate
  readonly pace: RequestPacing.Pace
  readonly waiting: Array<Waiter>
  /** Number of the last admission of each tenant, while calls are waiting. */
  readonly admitted: Map<string | undefined, number>
  admissions: number
}

/** Finds the call that is admitted next: the first call of the tenant whose last admission is the oldest. */
const findNext = ({ admitted, waiting }: Queue): Waiter | undefined => {
  let next: Waiter | undefined
  let oldest = Number.POSITIVE_INFINITY
  for (const waiter of waiting) {
    const last = admitted.get(waiter.tenant) ?? 0
    if (last < oldest) {
      next = waiter
      oldest = last
    }
    if (oldest === 0) break
  }
  return next
}

/** Counts the calls that are admitted before a new call of a tenant. */
const countAhead = ({ waiting }: Queue, tenant: string | undefined): number => {
  const counts = new Map<string | undefined, number>()
  for (const waiter of waiting) counts.set(waiter.tenant, (counts.get(waiter.tenant) ?? 0) + 1)
  const own = counts.get(tenant) ?? 0
  let ahead = own
  for (const [other, count] of counts) if (other !== tenant) ahead += Math.min(count, own + 1)
  return ahead
}

const wakeNext = (queue: Queue): void => {
  const next = findNext(queue)
  if (next !== undefined) Deferred.doneUnsafe(next.signal, Exit.void)
}

const joinQueue = ({ waiting }: Queue, position: QueuePosition, joinedAt: number): Waiter => {
  const waiter: Waiter = { ...position, signal: Deferred.makeUnsafe(), joinedAt }
  const behind = waiting.findIndex((other) => other.place > position.place)
  waiting.splice(behind === -1 ? waiting.length : behind, 0, waiter)
  return waiter
}

const leaveQueue = (queue: Queue, waiter: Waiter): void => {
  const { admitted, waiting } = queue
  const index = waiting.indexOf(waiter)
  if (index !== -1) waiting.splice(index, 1)
  if (waiting.length === 0) admitted.clear()
  else wakeNext(queue)
}

/** The keys that were used, with their queues. */
interface LimitState {
  readonly queues: Map<string, Queue>
}

const findOrMakeQueue = ({ queues }: LimitState, key: string): Queue => {
  const found = queues.get(key)
  if (found !== undefined) return found
  const rate = RequestPacing.makeLearntRate()
  const queue: Queue = { rate, pace: RequestPacing.makePace(), waiting: [], admitted: new Map(), admissions: 0 }
  queues.set(key, queue)
  return queue
}

/** Maximum milliseconds that a call waits because of the limits that a provider reported. */
const longestPacing = Duration.toMillis(longestRetryAfter)

/** Returns the milliseconds until the first call of a queue may begin. */
const computeDelay = ({ pace, rate }: Queue, { joinedAt, tokens }: Waiter, now: number): number =>
  Math.max(rate.delay(now), Math.min(pace.expected(0, tokens, now), joinedAt + longestPacing - now))

const waitInLine = Effect.fnUntraced(function* (queue: Queue, waiter: Waiter, take: (now: number) => void) {
  for (;;) {
    waiter.signal = Deferred.makeUnsafe()
    if (findNext(queue) !== waiter) {
      yield* Deferred.await(waiter.signal)
      continue
    }
    const now = yield* Clock.currentTimeMillis
    const delay = computeDelay(queue, waiter, now)
    if (delay <= 0) {
      queue.admitted.set(waiter.tenant, ++queue.admissions)
      return take(now)
    }
    yield* Effect.raceFirst(Effect.sleep(delay), Deferred.await(waiter.signal))
  }
})

const releaseSlot = (keys: LimitState, slot: Slot): void => {
  if (slot.decided) return
  slot.decided = true
  const queue = findOrMakeQueue(keys, slot.key)
  queue.rate.decided()
  wakeNext(queue)
}

/** Records the limits that the headers of an answer state. */
const readLimitHeaders = (keys: LimitState, key: string, get: Parameters<RateLimits["told"]>[1], now: number): void => {
  const buckets = RequestPacing.readBuckets(get, now)
  if (buckets.length === 0) return
  const queue = findOrMakeQueue(keys, key)
  queue.pace.told(buckets, now)
  wakeNext(queue)
}

/** Begins a call, and deducts it from the limits that the provider reported. */
const makeSlot = (key: string, { pace, rate }: Queue, { tokens }: QueuedCall, now: number): Slot => {
  pace.take(tokens, now)
  return { key, begun: rate.begin(now), decided: false }
}

/**
 * Creates queues of keys that have not been used. A refusal reported by another process through a service in the
 * context counts like a refusal in this process.
 */
export const makeLimits: Effect.Effect<RateLimits, never, Scope.Scope> = Effect.gen(function* () {
  const marks = yield* SharedMarks
  const clock = yield* Clock.Clock
  const keys: LimitState = { queues: new Map() }
  const { queues } = keys
  let places = 0
  const tell = yield* (
    marks?.refusals.join((key, closedFor) => {
      const queue = findOrMakeQueue(keys, key)
      const now = clock.currentTimeMillisUnsafe()
      queue.rate.refused(queue.rate.begin(now), closedFor, now)
      queue.rate.decided()
      wakeNext(queue)
    }) ?? Effect.undefined
  )

  const limits: RateLimits = {
    place: () => ++places,
    expected: (key, { tenant, tokens }, now) => {
      const queue = findOrMakeQueue(keys, key)
      const ahead = countAhead(queue, tenant)
      return Math.max(queue.rate.expected(ahead, now), Math.min(queue.pace.expected(ahead, tokens, now), longestPacing))
    },
    take: (key, call, now) => {
      const queue = findOrMakeQueue(keys, key)
      const { pace, rate, waiting } = queue
      const isFree = waiting.length === 0 && rate.delay(now) <= 0 && pace.expected(0, call.tokens, now) <= 0
      return isFree ? makeSlot(key, queue, call, now) : undefined
    },
    enter: (key, position, taken) =>
      Effect.suspend(() => {
        const queue = findOrMakeQueue(keys, key)
        const waiter = joinQueue(queue, position, clock.currentTimeMillisUnsafe())
        return Effect.ensuring(
          waitInLine(queue, waiter, (now) => taken(makeSlot(key, queue, waiter, now))),
          Effect.sync(() => leaveQueue(queue, waiter))
        )
      }),
    refused: (slot, closedFor, now) => {
      // The refusal is recorded even if the headers had indicated acceptance, because a stream may report a refusal
      // later.
      findOrMakeQueue(keys, slot.key).rate.refused(slot.begun, Duration.toMillis(closedFor), now)
      tell?.(slot.key, Duration.toMillis(closedFor))
      releaseSlot(keys, slot)
    },
    accepted: (slot, now, get) => {
      findOrMakeQueue(keys, slot.key).rate.accepted(slot.begun, now)
      releaseSlot(keys, slot)
      if (get !== undefined) readLimitHeaders(keys, slot.key, get, now)
    },
    release: (slot) => releaseSlot(keys, slot),
    told: (key, get, now) => readLimitHeaders(keys, key, get, now),
    left: (key, now) => queues.get(key)?.pace.left(now) ?? [],
    answeredAt: (key) => queues.get(key)?.rate.acceptedAt()
  }
  return limits
})

/** Maximum wait that is accepted even if another route is available. */
const shortWait = Duration.seconds(2)

/**
 * Time without a successful answer after which a key is assumed to have exhausted its quota. From then on its refusals
 * count as attempts.
 */
const longestSilence = Duration.minutes(5)

const makeRateLimitError = (delay: Duration.Duration, body: string): AiError.AiError =>
  AiError.make({
    module: "ModelRouter",
    method: "call",
    reason: new AiError.RateLimitError({ retryAfter: delay, http: { body } })
  })

/**
 * Tries the other keys of the pool if the account has exhausted its limit. Returns a failure if none of them can be
 * used.
 */
const checkAccountLimit: (state: RouteCallState) => Effect.Effect<AiError.AiError | undefined> = Effect.fnUntraced(
  function* (state) {
    const { route, shared } = state
    for (;;) {
      const key = route.guardKey(state.key.lease)
      const millis = key === undefined ? undefined : yield* shared.guard.closedFor(key)
      if (millis === undefined) return undefined
      const delay = Duration.millis(millis)
      if ((yield* takeNextLease(state, { reason: "rate_limit", resetAfter: delay })) !== undefined) continue
      return makeRateLimitError(delay, `the account at ${route.info.provider} has used up its limit`)
    }
  }
)

const isTooLong = ({ hasNext }: RouteCallState, delay: Duration.Duration): boolean =>
  hasNext && Duration.isGreaterThan(delay, shortWait)

const makeQueueError = ({ route }: RouteCallState, delay: Duration.Duration): AiError.AiError =>
  makeRateLimitError(delay, `${route.info.provider} asked other requests to wait, and they are still waiting`)

const describeLimit = ({ admission: { refused }, route: { info } }: RouteCallState): string =>
  refused ? `${info.provider}: rate_limit` : `the rate limit of ${info.provider}`

/** Waits in the queue of the key, unless the expected wait is too long. */
const waitInQueue = Effect.fnUntraced(function* (
  state: RouteCallState,
  key: string,
  call: QueuedCall
): Effect.fn.Return<AiError.AiError | undefined> {
  const { limits } = state.shared
  const expected = Duration.millis(limits.expected(key, call, readClock(state)))
  if (isTooLong(state, expected)) return makeQueueError(state, expected)
  if (!Duration.isZero(expected))
    yield* reportWait(state, { reason: describeLimit(state), duration: expected, attempt: state.retries.failures + 1 })
  state.admission.refused = false
  state.admission.place ??= limits.place()
  yield* limits.enter(key, { ...call, place: state.admission.place }, (slot) => {
    state.admission.slot = slot
  })
  return undefined
})

const open = Effect.succeed(undefined)

/** Describes the call of a route for its queue. Its tokens are estimated once. */
const describeCall = ({ question: { call, spending } }: RouteCallState): QueuedCall => {
  let estimated: number | undefined
  return { tenant: spending?.tenant, tokens: () => (estimated ??= CallTokens.estimateTokens(call)) }
}

const admitAtPace = (state: RouteCallState): Effect.Effect<AiError.AiError | undefined> => {
  const {
    route,
    shared: { limits }
  } = state
  const key = route.limitKey(state.key.lease)
  const call = describeCall(state)
  const slot = limits.take(key, call, readClock(state))
  if (slot === undefined) return waitInQueue(state, key, call)
  state.admission.refused = false
  state.admission.place ??= limits.place()
  state.admission.slot = slot
  return open
}

/**
 * Waits until the key may be used. Returns a failure if the wait would be too long and there is another route, or if
 * the account has exhausted its limit.
 */
export const waitForAdmission = (state: RouteCallState): Effect.Effect<AiError.AiError | undefined> =>
  state.route.guardKey(state.key.lease) === undefined
    ? admitAtPace(state)
    : Effect.flatMap(checkAccountLimit(state), (failure) =>
        failure === undefined ? admitAtPace(state) : Effect.succeed(failure)
      )

/** Records that the call was refused, and that its key must not be used for `duration`. */
export const recordRefusal = (state: RouteCallState, duration: Duration.Duration): void => {
  state.admission.refused = true
  if (state.admission.slot !== undefined)
    state.shared.limits.refused(state.admission.slot, Duration.min(duration, longestRetryAfter), readClock(state))
}

/** Releases the slot of an attempt that ended without information about the rate. */
export const releaseAdmission = (state: RouteCallState): void => {
  if (state.admission.slot !== undefined) state.shared.limits.release(state.admission.slot)
  state.admission.slot = undefined
}

/** Records the limits from the headers of an answer that has begun. */
export const readHeaders = (state: RouteCallState, get: RequestPacing.GetHeader): void => {
  if (state.admission.slot !== undefined) state.shared.limits.accepted(state.admission.slot, readClock(state), get)
}

/**
 * Tests whether a refusal because of a rate limit does not count as an attempt: the run still has time, or a call with
 * the key was answered recently.
 */
export const isFreeRefusal = (
  { key: { lease }, question: { deadline }, route, shared, startedAt }: RouteCallState,
  retryAfter: Duration.Duration | undefined,
  now: number
): boolean => {
  if (retryAfter !== undefined && Duration.isGreaterThan(retryAfter, longestRetryAfter)) return false
  if (deadline !== undefined) return now < deadline
  const answered = shared.limits.answeredAt(route.limitKey(lease)) ?? 0
  return now < Math.max(startedAt, answered) + Duration.toMillis(longestSilence)
}

/** Records a refusal because of a rate limit, and blocks the account for all callers if it has exhausted its limit. */
export const learnFromRefusal = Effect.fnUntraced(function* (state: RouteCallState, { reason }: AiError.AiError) {
  const { route, shared } = state
  const { lease } = state.key
  const headers = "http" in reason ? reason.http?.response?.headers : undefined
  if (headers !== undefined) {
    shared.limits.told(
      route.limitKey(lease),
      (name) => (Object.hasOwn(headers, name) ? String(headers[name]) : undefined),
      readClock(state)
    )
  }
  const key = route.guardKey(lease)
  if (key === undefined) return
  const millis = RequestPacing.findExhaustion(shared.limits.left(route.limitKey(lease), readClock(state)))
  state.admission.spent = millis !== undefined
  if (millis !== undefined) yield* shared.guard.close(key, millis)
})

/** Records that the call was answered: its key accepts calls at this rate, and its account is no longer blocked. */
export const recordSuccess = (state: RouteCallState): Effect.Effect<void> => {
  const {
    admission: { slot },
    key: { lease },
    route,
    shared
  } = state
  if (slot !== undefined && !slot.decided) shared.limits.accepted(slot, readClock(state))
  const key = route.guardKey(lease)
  return key === undefined ? Effect.void : shared.guard.open(key)
}
