// Waits in real time for what other fibers or processes bring about.
import * as Effect from "effect/Effect"

/** Longer than anything takes on a busy machine, and shorter than the limit of a test. */
export const longestWaitMillis = 240_000

/** Lets real time pass, whatever clock the test has. */
export const realPause = (millis: number): Effect.Effect<void> =>
  Effect.promise(
    () =>
      new Promise((resolve) => {
        setTimeout(resolve, millis)
      })
  )

/** Reads a value again until it fits, and returns it. Fails with the value that was read last. */
export const readUntil = Effect.fnUntraced(function* <A, E, R>(
  what: string,
  read: Effect.Effect<A, E, R>,
  fits: (value: A) => boolean
) {
  const deadline = performance.now() + longestWaitMillis
  while (true) {
    const value = yield* read
    if (fits(value)) return value
    if (performance.now() > deadline) return yield* Effect.die(`never happened: ${what}; read last: ${String(value)}`)
    yield* realPause(20)
  }
})

/** Waits until something holds. */
export const eventually = <E, R>(what: string, check: Effect.Effect<boolean, E, R>): Effect.Effect<void, E, R> =>
  Effect.asVoid(readUntil(what, check, (holds) => holds))
