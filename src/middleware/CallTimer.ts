/** Measures the own time of one call of middleware in milliseconds, without the time of the calls that it makes. */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** A timer that counts nothing before {@link CallTimer.start}, so that code that is never run reads no clock. */
export class CallTimer {
  #clock: Clock.Clock | undefined
  #since = 0
  #spent = 0
  #isPaused = false

  #read(): number {
    return this.#clock?.currentTimeMillisUnsafe() ?? 0
  }

  /** Starts to count. */
  start(clock: Clock.Clock): void {
    this.#clock = clock
    this.#since = this.#read()
  }

  /** Stops to count while an inner call runs. */
  pause(): void {
    this.#spent += this.#read() - this.#since
    this.#isPaused = true
  }

  /** Counts again after an inner call. */
  resume(): void {
    this.#since = this.#read()
    this.#isPaused = false
  }

  /** Returns the own time so far. */
  getSpentMillis(): number {
    return this.#isPaused ? this.#spent : this.#spent + this.#read() - this.#since
  }
}

/** Passes the time of an effect in milliseconds to `note` when the effect ends. */
export const timeEffect = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  note: (millis: number) => void
): Effect.Effect<A, E, R> =>
  Effect.clockWith((clock) => {
    const timer = new CallTimer()
    timer.start(clock)
    return Effect.ensuring(
      effect,
      Effect.sync(() => note(timer.getSpentMillis()))
    )
  })
