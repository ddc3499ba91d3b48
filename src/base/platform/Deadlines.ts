/** Time limits for requests. */
import * as Predicate from "effect/Predicate"

/** A request that is notified when its time limit expires. */
export interface ExpiringItem {
  readonly expire: () => void
}

/** Lets the process end although a timer is active. Timers of browsers and Workers keep no process alive. */
export const releaseTimer = (timer: unknown): void => {
  if (Predicate.hasProperty(timer, "unref") && typeof timer.unref === "function") timer.unref()
}

/** Number of checks during a time limit. A limit expires at most two check intervals late. */
const parts = 64

/**
 * Time limits of many requests that share one timer, so that a request that ends in time need not start or stop a
 * timer.
 *
 * **Gotchas**
 *
 * The timer does not keep the process alive. The sockets of waiting requests keep it alive.
 */
export class Deadlines {
  readonly #ends = new Map<ExpiringItem, number>()
  #timer: NodeJS.Timeout | undefined
  #step = Infinity

  /** Starts a time limit, in milliseconds. */
  start(one: ExpiringItem, millis: number): void {
    this.#ends.set(one, performance.now() + millis)
    const step = Math.max(1, millis / parts)
    if (step * 2 < this.#step) this.#lookEach(step)
  }

  /** Stops the time limit of a request. Has no effect if the limit has expired or was never started. */
  stop(one: ExpiringItem): void {
    this.#ends.delete(one)
  }

  #lookEach(step: number): void {
    clearInterval(this.#timer)
    this.#step = step
    this.#timer = setInterval(() => this.#look(), step)
    releaseTimer(this.#timer)
  }

  #look(): void {
    if (this.#ends.size === 0) {
      clearInterval(this.#timer)
      this.#step = Infinity
    }
    const now = performance.now()
    for (const [one, end] of this.#ends) {
      if (now < end) continue
      this.#ends.delete(one)
      one.expire()
    }
  }
}
