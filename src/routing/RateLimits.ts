/**
 * What is known of the rates that keys may be used at, shared by everybody who uses them: when one call was refused, those
 * that run beside it wait too, instead of being refused one after the other.
 *
 * **Details**
 *
 * After a refusal nobody uses the key until the provider takes it again; then the limiter learns from the next refusal how
 * many calls fit into how much time, and spreads them. A key that was never refused costs nothing.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as RateLimiter from "effect/persistence/RateLimiter"

/** What to wait before a call, and what to give back if it is refused. */
export interface Slot {
  readonly delay: Duration.Duration
  /** What the delay is: nobody may use the key until then, or this call is one of many that are spread. */
  readonly phase: RateLimiter.AdaptivePhase
  readonly epoch: number
}

/** See the module. */
export interface RateLimits {
  /** A slot for a call with this key. After the delay of a cooldown another one is asked for. */
  readonly slot: (key: string) => Effect.Effect<Slot>
  /** The provider refused the key, for this long. */
  readonly refused: (key: string, slot: Slot, retryAfter: Duration.Duration) => Effect.Effect<void>
}

const free: Slot = { delay: Duration.zero, phase: "inactive", epoch: 0 }

/** The window in which a rate is learned. */
const window = Duration.minutes(1)

/** Keys that were never refused. */
export const make: Effect.Effect<RateLimits> = Effect.gen(function*() {
  const limiter = yield* RateLimiter.make
  const refused = new Set<string>()
  return {
    slot: (key: string) =>
      refused.has(key)
        ? limiter.adaptiveConsume({ key, tokens: 1, fallbackLimit: 1, fallbackWindow: window }).pipe(
          // The memory of the process does not fail.
          Effect.catch(() => Effect.succeed(free))
        )
        : Effect.succeed(free),
    refused: (key: string, { epoch }: Slot, retryAfter: Duration.Duration) =>
      Effect.suspend(() => {
        refused.add(key)
        return limiter.adaptiveFeedback({ key, epoch, tokens: 1, status: 429, retryAfter })
      }).pipe(Effect.catch(() => Effect.void))
  }
}).pipe(Effect.provide(RateLimiter.layerStoreMemory))
