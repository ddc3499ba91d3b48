// Runs an effect while the test's clock moves on, also where it does real work between its waits (imports, files,
// sockets).
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"

const pause = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Runs to the end of the effect. The clock moves by seconds, as long as the effect is not done. */
export const running = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    while (fiber.pollUnsafe() === undefined) {
      yield* pause
      yield* TestClock.adjust("1 second")
    }
    return yield* Fiber.join(fiber)
  })
