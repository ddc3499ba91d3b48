/** Time limits of requests. */

/** A request that is notified when its time is over. */
export interface ExpiringItem {
  readonly expire: () => void
}

/** A time limit is late by two of these parts of its length at most. */
const parts = 64

/**
 * Time limits on one timer: a request that ends in time neither arms nor disarms a timer.
 *
 * **Gotchas**
 *
 * The timer does not keep the process alive: the sockets of waiting requests do.
 */
export class Deadlines {
  readonly #ends = new Map<ExpiringItem, number>()
  #timer: NodeJS.Timeout | undefined
  #step = Infinity

  /** Begins a time of so many milliseconds. */
  start(one: ExpiringItem, millis: number): void {
    this.#ends.set(one, performance.now() + millis)
    const step = Math.max(1, millis / parts)
    if (step * 2 < this.#step) this.#lookEach(step)
  }

  /** Ends a time; one that is over, or never began, too. */
  stop(one: ExpiringItem): void {
    this.#ends.delete(one)
  }

  #lookEach(step: number): void {
    clearInterval(this.#timer)
    this.#step = step
    this.#timer = setInterval(() => this.#look(), step).unref()
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
