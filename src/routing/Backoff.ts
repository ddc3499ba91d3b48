/**
 * How long to wait before asking again, as schedules.
 *
 * **Details**
 *
 * The n-th wait is `min(base * 2^(n-1), cap)` plus up to half of that by chance, so that many who failed together do not
 * come back together. A time that the provider asks for is taken as it is, up to `longestRetryAfter`. The chance is that of
 * the fiber's `Random`.
 *
 * The seed has one pair for everything, 5 s and 120 s, and it is the default (`ARCHITECTURE.md` §7, D4).
 *
 * Source: `hermes-llm.md` §17.1.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"

/** The least wait, and the most before chance is added. */
export interface Limits {
  readonly base: Duration.Input
  readonly cap: Duration.Input
}

/** See the module. */
export const defaults: Limits = { base: "5 seconds", cap: "2 minutes" }

/** A provider that wants to be left alone for longer is asked again after this all the same. */
export const longestRetryAfter = Duration.minutes(2)

/** What a wait may depend on: the time that the provider asked for. */
export type Input = Duration.Duration | undefined

/** Waits as described in the module, `attempts - 1` of them. */
export const schedule = (limits: Limits, attempts: number): Schedule.Schedule<number, Input> => {
  const base = Duration.fromInputUnsafe(limits.base)
  const cap = Duration.fromInputUnsafe(limits.cap)
  return Schedule.recurs(Math.max(0, attempts - 1)).pipe(
    Schedule.modifyDelay(({ attempt, input }: Schedule.Metadata<number, Input>) => {
      if (input !== undefined) return Effect.succeed(Duration.min(input, longestRetryAfter))
      const grown = Duration.times(base, 2 ** Math.min(attempt - 1, 30))
      const wait = Duration.min(grown, cap)
      return Effect.map(Random.next, (chance) => Duration.times(wait, 1 + chance / 2))
    })
  )
}

/** The wait before a rebuilt connection is used, after this many failed attempts (`hermes-llm.md` §17.4). */
export const beforeRebuilt = (attempts: number): Duration.Duration => Duration.seconds(Math.min(3 + attempts, 8))
