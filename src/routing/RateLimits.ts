/**
 * Admits calls to keys at the rates that their providers take: a queue for each key and route, shared by everybody who
 * uses it.
 *
 * **Details**
 *
 * A provider that says in its answers what is left of its limits is taken at its word (`rate/Pace`). Otherwise the rate is
 * learnt from refusals and answers (`rate/LearntRate`). Calls wait in the order in which they came; one that was refused
 * comes back to its old place. A key that nobody waits for costs a call nothing.
 *
 * Source: `hermes-llm.md` §17, `ARCHITECTURE.md` §7 (rate limits under parallel load).
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Buckets from "./rate/Buckets.ts"
import * as LearntRate from "./rate/LearntRate.ts"
import * as RequestPacing from "./rate/RequestPacing.ts"

/** An admitted call. */
export interface Slot {
  readonly key: string
  readonly begun: LearntRate.Begun
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
  readonly accepted: (slot: Slot, get?: Buckets.GetHeader) => Effect.Effect<void>
  /** Gives back the slot of a call that ended without a word about the rate. */
  readonly release: (slot: Slot) => void
  /** Reads what the headers of an answer or refusal say is left. */
  readonly told: (key: string, get: Buckets.GetHeader) => Effect.Effect<void>
  /** Returns what is left of the key's limits, as far as the provider said. */
  readonly left: (key: string) => Effect.Effect<ReadonlyArray<Buckets.Bucket>>
  /** Returns when the key was last answered, in milliseconds since 1970. */
  readonly answeredAt: (key: string) => number | undefined
}

interface Waiter {
  readonly place: number
  signal: Deferred.Deferred<void>
}

/** The queue of a key: by place, the first one is next. */
interface Queue {
  readonly rate: LearntRate.LearntRate
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
    const queue: Queue = { rate: LearntRate.make(), waiting: [] }
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
      const buckets = Buckets.read(get, now)
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
