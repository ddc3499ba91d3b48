// A clock that runs faster than the one of the machine, for tests that wait for the product's own backoff over real
// sockets.
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

/** Longer waits are deadlines. They would be over before a busy machine has answered. */
const longestPauseMillis = 60_000

/** Runs `speed` times faster, except for deadlines. */
export const make = (speed: number): Effect.Effect<Clock.Clock> =>
  Effect.clockWith((clock) => {
    const started = clock.currentTimeMillisUnsafe()
    const millis = () => Math.round(started + (clock.currentTimeMillisUnsafe() - started) * speed)
    const nanos = () => BigInt(millis()) * 1_000_000n
    return Effect.succeed<Clock.Clock>({
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: nanos,
      monotonicTimeNanos: Effect.sync(nanos),
      sleep: (duration) => {
        const asked = Duration.toMillis(duration)
        return clock.sleep(Duration.millis(asked > longestPauseMillis ? asked : asked / speed))
      }
    })
  })
