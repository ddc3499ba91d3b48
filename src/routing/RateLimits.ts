/**
 * What is known of the rates that keys may be used at, shared by everybody who uses them: when one call was refused, those
 * that run beside it wait too, instead of being refused one after the other.
 *
 * **Details**
 *
 * A provider that says in its answers what is left of its limits is taken at its word (`rate/Pace`). After a refusal nobody
 * uses the key until the provider takes it again; then the limiter learns from the next refusal how many calls fit into how
 * much time, and spreads them. A key that was never refused, of a provider that says nothing, costs nothing.
 *
 * Source: `hermes-llm.md` §17.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as RateLimiter from "effect/persistence/RateLimiter"
import * as Buckets from "./rate/Buckets.ts"
import * as Pace from "./rate/Pace.ts"

/** What to wait before a call, and what to give back if it is refused. */
export interface Slot {
  readonly delay: Duration.Duration
  /** What the delay is: nobody may use the key until then, or this call is one of many that are spread. */
  readonly phase: RateLimiter.AdaptivePhase
  readonly epoch: number
}

/** See the module. */
export interface RateLimits {
  /**
   * A slot for a call with this key, of so many tokens. After the delay of a cooldown another one is asked for; any other
   * delay is followed by the call.
   */
  readonly slot: (key: string, tokens: () => number) => Effect.Effect<Slot>
  /** The provider refused the key, for this long. */
  readonly refused: (key: string, slot: Slot, retryAfter: Duration.Duration) => Effect.Effect<void>
  /** An answer for this key came with these headers. */
  readonly told: (key: string, get: Buckets.GetHeader) => Effect.Effect<void>
  /** What is left of the key's limits, as far as the provider said. */
  readonly left: (key: string) => Effect.Effect<ReadonlyArray<Buckets.Bucket>>
}

const free: Slot = { delay: Duration.zero, phase: "inactive", epoch: 0 }

/** The window in which a rate is learned. */
const window = Duration.minutes(1)

/** Keys that were never refused. */
export const make: Effect.Effect<RateLimits> = Effect.gen(function*(): Effect.fn.Return<RateLimits, never, RateLimiter.RateLimiterStore> {
  const limiter = yield* RateLimiter.make
  const refused = new Set<string>()
  const paces = new Map<string, Pace.Pace>()

  const learned = (key: string): Effect.Effect<Slot> =>
    refused.has(key)
      ? limiter.adaptiveConsume({ key, tokens: 1, fallbackLimit: 1, fallbackWindow: window }).pipe(
        // A limiter over the memory of the process has nothing to fail with; if it did, the provider would be the judge.
        Effect.catch(() => Effect.succeed(free))
      )
      : Effect.succeed(free)

  return {
    slot: (key, tokens) =>
      Effect.flatMap(learned(key), (slot) => {
        const pace = paces.get(key)
        if (pace === undefined || slot.phase === "cooldown" && !Duration.isZero(slot.delay)) return Effect.succeed(slot)
        return Effect.map(Clock.currentTimeMillis, (now): Slot =>
          ({ ...slot, phase: "learned", delay: Duration.max(slot.delay, Duration.millis(pace.take(tokens, now))) }))
      }),
    refused: (key, { epoch }, retryAfter) =>
      Effect.suspend(() => {
        refused.add(key)
        return limiter.adaptiveFeedback({ key, epoch, tokens: 1, status: 429, retryAfter })
        // As above: what was not learned now is learned from the next refusal.
      }).pipe(Effect.catch(() => Effect.void)),
    told: (key, get) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const buckets = Buckets.read(get, now)
        if (buckets.length === 0) return
        const pace = paces.get(key) ?? Pace.make()
        paces.set(key, pace)
        pace.told(buckets, now)
      }),
    left: (key) => Effect.map(Clock.currentTimeMillis, (now) => paces.get(key)?.left(now) ?? [])
  }
}).pipe(Effect.provide(RateLimiter.layerStoreMemory))
