/**
 * Computes the wait before a retry.
 *
 * **Details**
 *
 * The n-th wait is `min(base * 2^(n-1), cap)` plus a random share of up to half of it, so that callers which failed
 * together do not retry together. A wait requested by the provider is honored up to `longestRetryAfter`, plus a random
 * share of up to a quarter of it, at most five seconds, for the same reason. Random numbers come from the fiber's
 * `Random`.
 *
 * By default, `base` is 5 s and `cap` 120 s in all cases, as in the seed (`ARCHITECTURE.md` §7, D4).
 *
 * Source: `hermes-llm.md` §17.1.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

/** The minimum wait, and the maximum before the random share is added. */
export interface Limits {
  readonly base: Duration.Input
  readonly cap: Duration.Input
}

/** Default limits: five seconds to two minutes. */
export const defaults: Limits = { base: "5 seconds", cap: "2 minutes" }

/**
 * Maximum wait requested by a provider that is honored. If the provider requests more, the retry is made after this
 * time.
 */
export const longestRetryAfter = Duration.minutes(2)

const jitterShare = 0.25
const mostJitterMillis = 5_000

const addJitter = (asked: Duration.Duration): Effect.Effect<Duration.Duration> =>
  Effect.map(Random.next, (chance) => {
    const millis = Duration.toMillis(Duration.min(asked, longestRetryAfter))
    return Duration.millis(Math.round(millis + chance * Math.min(millis * jitterShare, mostJitterMillis)))
  })

/** Computes the wait after failure number `failed` (from 1). `asked` is the wait requested by the provider, if any. */
export const computeWait = (
  limits: Limits,
  failed: number,
  asked: Duration.Duration | undefined
): Effect.Effect<Duration.Duration> => {
  if (asked !== undefined) return addJitter(asked)
  const grown = Duration.times(Duration.fromInputUnsafe(limits.base), 2 ** Math.min(failed - 1, 30))
  const least = Duration.min(grown, Duration.fromInputUnsafe(limits.cap))
  return Effect.map(Random.next, (chance) => Duration.times(least, 1 + chance / 2))
}

/**
 * Computes the wait before a rebuilt connection is used, from the number of failed attempts (`hermes-llm.md` §17.4).
 */
export const computeRebuildDelay = (attempts: number): Duration.Duration => Duration.seconds(Math.min(3 + attempts, 8))
