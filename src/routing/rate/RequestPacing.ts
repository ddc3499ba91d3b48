/**
 * Delays calls by what is left of a key's limits: calls are spread instead of being refused.
 *
 * **Details**
 *
 * Each call takes its share of what was left when the provider last said so; when a limit has nothing left for it, the call
 * waits for as much of it as it needs to fill up. Several calls at once wait one behind the other. Answers correct the
 * account.
 */
import type { Bucket } from "./Buckets.ts"

/** Pace of one key. Times are in milliseconds. */
export interface Pace {
  /** Takes what a provider said at `now`. */
  readonly told: (buckets: ReadonlyArray<Bucket>, now: number) => void
  /** Takes a call out of what is left; how long it has to wait. `tokens` is asked only where they are limited. */
  readonly take: (tokens: () => number, now: number) => number
  /** Returns what the provider last said, as far as it still holds; calls since then are not taken off. */
  readonly left: (now: number) => ReadonlyArray<Bucket>
}

interface Level {
  readonly said: Bucket
  /** By how much it fills up in a millisecond; 0 where it does so all at once. */
  readonly rate: number
  readonly wholeAt: number
  remaining: number
  at: number
}

const levelOf = (said: Bucket, now: number): Level => {
  const { limit, refills, remaining, resetMillis } = said
  return {
    said,
    rate: refills && limit !== undefined ? (limit - remaining) / resetMillis : 0,
    wholeAt: now + resetMillis,
    remaining,
    at: now
  }
}

/** Fills it up to `now`. */
const fill = (level: Level, now: number): void => {
  level.remaining = Math.min(level.said.limit ?? Infinity, level.remaining + level.rate * Math.max(0, now - level.at))
  level.at = now
}

const takeFrom = (level: Level, need: number, now: number): number => {
  fill(level, now)
  // A request larger than the whole limit waits for the whole of it.
  level.remaining -= Math.min(need, level.said.limit ?? need)
  if (level.remaining >= 0) return 0
  return level.rate > 0 ? -level.remaining / level.rate : level.wholeAt - now
}

/** Nothing is known yet. */
export const make = (): Pace => {
  let levels: Array<Level> = []

  /** Returns the levels that are not whole again. */
  const known = (now: number): Array<Level> => {
    levels = levels.filter(({ wholeAt }) => wholeAt > now)
    return levels
  }

  return {
    told: (buckets, now) => {
      if (buckets.length > 0) levels = buckets.map((bucket) => levelOf(bucket, now))
    },
    take: (tokens, now) => {
      let wait = 0
      for (const level of known(now)) wait = Math.max(wait, takeFrom(level, level.said.kind === "requests" ? 1 : tokens(), now))
      return wait
    },
    left: (now) => known(now).map(({ said, wholeAt }) => ({ ...said, resetMillis: wholeAt - now }))
  }
}
