/**
 * Admits calls to keys at the rates that their providers take: a queue for each key and route, shared by everybody who
 * uses it.
 *
 * **Details**
 *
 * A provider that says in its answers what is left of its limits is taken at its word (`RequestPacing`). Otherwise the rate is
 * learnt from refusals and answers. Calls wait in the order in which they came; one that was refused
 * comes back to its old place. A key that nobody waits for costs a call nothing.
 *
 * Before the first refusal no rate is known. Then at most `firstWindow` calls wait for a first sign of their answer at once;
 * the window doubles whenever as many calls as it holds were accepted. Calls that find it full begin all the same, one
 * `fullWindowDelay` after the other and sooner and sooner: however many there are, all of them have begun after two seconds. A
 * few calls side by side never notice it; a crowd learns from a few refusals instead of one for each.
 *
 * The first refusal closes the key for as long as the provider says and sets the rate: as many calls in that time as were
 * accepted in it, less a margin. Calls then begin evenly spread. Every accepted call raises the rate a little, every
 * refusal lowers it by a fifth; refusals of calls that began before the rate was last lowered say nothing new. After a
 * while without refusals the rate is forgotten.
 *
 * Source: `hermes-llm.md` §17, `ARCHITECTURE.md` §7 (rate limits under parallel load).
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as RequestPacing from "./RequestPacing.ts"

/** A call that began, until its provider has decided about it. */
interface Begun {
  readonly at: number
}

/** The rate of one key. */
interface LearntRate {
  /** Returns whole milliseconds until the next call may begin; 0 when it may now. */
  readonly delay: (now: number) => number
  /** Milliseconds that a call with `ahead` others before it will probably wait. */
  readonly expected: (ahead: number, now: number) => number
  /** Counts a call that begins now. */
  readonly begin: (now: number) => Begun
  /** The provider took the call. */
  readonly accepted: (call: Begun, now: number) => void
  /** The provider refused the call and the key with it, for so many milliseconds. */
  readonly refused: (call: Begun, closedFor: number, now: number) => void
  /** A call that began waits for its provider no longer, whatever became of it. */
  readonly decided: () => void
  /** Returns the time of the last accepted call; undefined when there was none. */
  readonly acceptedAt: () => number | undefined
}

/** Calls that wait for a first sign at once, before anything is known. */
const firstWindow = 8
const largestWindow = 1_024
/** Milliseconds between calls that begin although the window is full, and by how much less each next one waits. */
const fullWindowDelay = 100
const impatience = 0.95
/** Milliseconds that are not worth a wait. */
const leastDelay = 5
/** Milliseconds without a refusal after which a rate is forgotten. */
const rateMemory = 120_000
/** Accepted calls whose beginnings are kept to learn a rate from. */
const mostBeginnings = 1_024
/** Kept below what was seen to be accepted. */
const margin = 0.9
const decrease = 0.8
/** Growth with each accepted call: before a learnt rate was refused, and after. */
const searching = 0.05
const careful = 0.01
/** Milliseconds: a provider that closes a key for less is measured over this time. */
const leastSpan = 1_000

interface Rate {
  /** Calls in a millisecond. */
  perMilli: number
  /** Increment for an accepted call; undefined while it grows by a share of itself. */
  step: number | undefined
}

/** A key of which nothing is known. */
const makeLearntRate = (): LearntRate => {
  let rate: Rate | undefined
  let window = firstWindow
  let acceptedInWindow = 0
  let undecided = 0
  let lastBegin = Number.NEGATIVE_INFINITY
  let opensAt = Number.NEGATIVE_INFINITY
  let nextAt = Number.NEGATIVE_INFINITY
  let loweredAt = Number.NEGATIVE_INFINITY
  let refusedAt = Number.NEGATIVE_INFINITY
  let acceptedAt: number | undefined
  let beginnings: Array<number> = []

  const crowdDelay = (now: number): number => {
    const delay = fullWindowDelay * impatience ** (undecided - window)
    return delay < leastDelay ? 0 : Math.ceil(Math.max(0, lastBegin + delay - now))
  }

  const forget = (now: number): void => {
    if (rate === undefined || now - refusedAt < rateMemory) return
    rate = undefined
    window = firstWindow
    acceptedInWindow = 0
  }

  const firstRate = (span: number, now: number): Rate => {
    const accepted = beginnings.filter((at) => at > now - span).length
    return { perMilli: margin * Math.max(1, accepted) / span, step: undefined }
  }

  const lowered = ({ perMilli }: Rate): Rate => ({ perMilli: perMilli * decrease, step: perMilli * decrease * careful })

  return {
    delay: (now) => {
      forget(now)
      if (opensAt > now) return opensAt - now
      if (rate !== undefined) return Math.ceil(Math.max(0, nextAt - now))
      return undecided < window ? 0 : crowdDelay(now)
    },
    expected: (ahead, now) => {
      forget(now)
      const closed = Math.max(0, opensAt - now)
      return rate === undefined ? closed : Math.ceil(Math.max(closed, nextAt - now) + ahead / rate.perMilli)
    },
    begin: (now) => {
      undecided++
      lastBegin = now
      if (rate !== undefined) nextAt = Math.max(now, nextAt) + 1 / rate.perMilli
      return { at: now }
    },
    accepted: ({ at }, now) => {
      acceptedAt = now
      beginnings.push(at)
      if (beginnings.length > mostBeginnings) beginnings = beginnings.slice(-mostBeginnings / 2)
      if (rate !== undefined) {
        if (at > loweredAt) rate.perMilli += rate.step ?? rate.perMilli * searching
        return
      }
      acceptedInWindow++
      if (acceptedInWindow < window) return
      acceptedInWindow = 0
      window = Math.min(largestWindow, window * 2)
    },
    refused: ({ at }, closedFor, now) => {
      refusedAt = now
      opensAt = Math.max(opensAt, now + closedFor)
      nextAt = Math.max(nextAt, opensAt)
      if (at <= loweredAt) return
      loweredAt = now
      rate = rate === undefined ? firstRate(Math.max(leastSpan, closedFor), now) : lowered(rate)
      nextAt = opensAt
    },
    decided: () => void undecided--,
    acceptedAt: () => acceptedAt
  }
}

/** An admitted call. */
export interface Slot {
  readonly key: string
  readonly begun: Begun
  /** The provider has decided about the call. */
  decided: boolean
}

/** The queues of all keys; see the module. */
export interface RateLimits {
  /** A place in the queues: the lower one is admitted first. A call keeps it until it is answered. */
  readonly place: () => number
  /** Returns how long a call that comes now will probably wait; zero where nothing is known. */
  readonly expected: (key: string) => Effect.Effect<Duration.Duration>
  /** Waits until the key may be used. `taken` gets the slot in the moment in which it is taken. */
  readonly enter: (key: string, place: number, taken: (slot: Slot) => void) => Effect.Effect<void>
  /** Takes a call of so many tokens out of what the provider said is left; returns how long it has to wait for it. */
  readonly pace: (key: string, tokens: () => number) => Effect.Effect<Duration.Duration>
  /** The provider refused the call: nobody is admitted to the key for this long. */
  readonly refused: (slot: Slot, closedFor: Duration.Duration) => Effect.Effect<void>
  /** The provider took the call, and answers with these headers. */
  readonly accepted: (slot: Slot, get?: RequestPacing.GetHeader) => Effect.Effect<void>
  /** Gives back the slot of a call that ended without a word about the rate. */
  readonly release: (slot: Slot) => void
  /** Reads what the headers of an answer or refusal say is left. */
  readonly told: (key: string, get: RequestPacing.GetHeader) => Effect.Effect<void>
  /** Returns what is left of the key's limits, as far as the provider said. */
  readonly left: (key: string) => Effect.Effect<ReadonlyArray<RequestPacing.Bucket>>
  /** Returns when the key was last answered, in milliseconds since 1970. */
  readonly answeredAt: (key: string) => number | undefined
}

interface Waiter {
  readonly place: number
  signal: Deferred.Deferred<void>
}

/** The queue of a key: by place, the first one is next. */
interface Queue {
  readonly rate: LearntRate
  readonly waiting: Array<Waiter>
}

const wake = (waiter: Waiter | undefined): void => {
  if (waiter !== undefined) Deferred.doneUnsafe(waiter.signal, Exit.void)
}

const join = ({ waiting }: Queue, place: number): Waiter => {
  const waiter: Waiter = { place, signal: Deferred.makeUnsafe() }
  const behind = waiting.findIndex((other) => other.place > place)
  waiting.splice(behind === -1 ? waiting.length : behind, 0, waiter)
  return waiter
}

const leave = ({ waiting }: Queue, waiter: Waiter): void => {
  const index = waiting.indexOf(waiter)
  if (index !== -1) waiting.splice(index, 1)
  if (index === 0) wake(waiting[0])
}

/** Queues of keys that were never used. */
export const make: Effect.Effect<RateLimits> = Effect.sync(() => {
  const queues = new Map<string, Queue>()
  const paces = new Map<string, RequestPacing.Pace>()
  let places = 0

  const queueOf = (key: string): Queue => {
    const found = queues.get(key)
    if (found !== undefined) return found
    const queue: Queue = { rate: makeLearntRate(), waiting: [] }
    queues.set(key, queue)
    return queue
  }

  const waitInLine = Effect.fnUntraced(function*(queue: Queue, waiter: Waiter, take: (now: number) => void) {
    for (;;) {
      waiter.signal = Deferred.makeUnsafe()
      if (queue.waiting[0] !== waiter) {
        yield* Deferred.await(waiter.signal)
        continue
      }
      const now = yield* Clock.currentTimeMillis
      const delay = queue.rate.delay(now)
      if (delay <= 0) return take(now)
      yield* Effect.raceFirst(Effect.sleep(delay), Deferred.await(waiter.signal))
    }
  })

  const release: RateLimits["release"] = (slot) => {
    if (slot.decided) return
    slot.decided = true
    const { rate, waiting } = queueOf(slot.key)
    rate.decided()
    wake(waiting[0])
  }

  const told: RateLimits["told"] = (key, get) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      const buckets = RequestPacing.readBuckets(get, now)
      if (buckets.length === 0) return
      const pace = paces.get(key) ?? RequestPacing.make()
      paces.set(key, pace)
      pace.told(buckets, now)
    })

  return {
    place: () => ++places,
    expected: (key) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const { rate, waiting } = queueOf(key)
        return Duration.millis(rate.expected(waiting.length, now))
      }),
    enter: (key, place, taken) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const queue = queueOf(key)
        const take = (at: number): void => taken({ key, begun: queue.rate.begin(at), decided: false })
        if (queue.waiting.length === 0 && queue.rate.delay(now) <= 0) return Effect.sync(() => take(now))
        const waiter = join(queue, place)
        return Effect.ensuring(waitInLine(queue, waiter, take), Effect.sync(() => leave(queue, waiter)))
      }),
    pace: (key, tokens) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const pace = paces.get(key)
        return pace === undefined ? Duration.zero : Duration.millis(pace.take(tokens, now))
      }),
    refused: (slot, closedFor) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        // Also after headers had said that it was accepted: a stream may bring the refusal.
        queueOf(slot.key).rate.refused(slot.begun, Duration.toMillis(closedFor), now)
        release(slot)
      }),
    accepted: (slot, get) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        queueOf(slot.key).rate.accepted(slot.begun, now)
        release(slot)
        return get === undefined ? Effect.void : told(slot.key, get)
      }),
    release,
    told,
    left: (key) => Effect.map(Clock.currentTimeMillis, (now) => paces.get(key)?.left(now) ?? []),
    answeredAt: (key) => queues.get(key)?.rate.acceptedAt()
  }
})
