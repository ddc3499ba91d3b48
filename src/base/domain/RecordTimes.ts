/** Times of the entries of the run record, which put the entries of all runs of a clock in order. */
import type * as Clock from "effect/Clock"

/** Start time of the newest run, by clock. */
const lastStarts = new WeakMap<Clock.Clock, number>()

/**
 * Starts the clock of a run and returns a function that returns the current time for its entries, in epoch
 * milliseconds. The start times of runs that start in the same millisecond differ by one microsecond, so that a trace
 * collector can order their spans by time. An entry in that millisecond is not earlier than the newest run, so that
 * entries of concurrent runs, such as a run and its children, are in the order of their times.
 */
export const makeStartTimes = (clock: Clock.Clock): (() => number) => {
  const millis = clock.currentTimeMillisUnsafe()
  const last = lastStarts.get(clock)
  const start = last !== undefined && Math.floor(last) === millis ? last + 0.001 : millis
  lastStarts.set(clock, start)
  let isStarted = false
  return () => {
    const now = clock.currentTimeMillisUnsafe()
    if (!isStarted && now === millis) {
      isStarted = true
      return start
    }
    const newest = lastStarts.get(clock)
    return newest !== undefined && Math.floor(newest) === now ? newest : now
  }
}
