// Another fiber beside an effect, which runs whenever the effect lets it.
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"

/** Runs an effect that waits for nothing, and counts how often it lets another fiber run. */
export const countTurns = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<readonly [value: A, turns: number], E, R> =>
  Effect.gen(function* () {
    let turns = 0
    // `forever` yields after each time.
    const takeTurn = Effect.sync(() => void turns++)
    const other = yield* Effect.forkChild(Effect.forever(takeTurn))
    yield* Effect.yieldNow
    turns = 0
    const value = yield* effect
    const counted = turns
    yield* Fiber.interrupt(other)
    return [value, counted] as const
  })
