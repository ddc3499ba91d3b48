/**
 * A queue of events with one fiber that handles them in order, so that whoever sends one never waits.
 */
import type * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"

/** The sending end. */
export interface HookQueue<in A> {
  /** Takes an event in; the oldest one goes when there is no room. Returns how many went so far, or 0 if none did now. */
  readonly offer: (event: A) => number
  /** Events that were dropped so far. */
  readonly dropped: () => number
}

/**
 * A queue for as long as the scope lives. On close, what waits is handled first, for no longer than `flush`; `onLost` hears
 * how many events were not.
 */
export const make = <A>(options: {
  readonly capacity: number
  readonly flush: Duration.Duration
  readonly handle: (event: A) => Effect.Effect<void>
  readonly onLost: (count: number) => Effect.Effect<void>
}): Effect.Effect<HookQueue<A>, never, Scope.Scope> =>
  Effect.gen(function*() {
    const queue = yield* Queue.make<A, Cause.Done>({ capacity: options.capacity, strategy: "sliding" })
    let dropped = 0
    let handling = 0

    const next = Effect.suspend(() => {
      handling = 0
      return Queue.take(queue)
    })
    const worker = yield* Effect.forkScoped(
      Effect.forever(Effect.flatMap(next, (event) => {
        handling = 1
        return options.handle(event)
      }), { disableYield: true })
    )
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        Queue.endUnsafe(queue)
        return Effect.timeoutOption(Fiber.await(worker), options.flush)
      }).pipe(Effect.flatMap((done) =>
        Option.isSome(done) ? Effect.void : options.onLost(Queue.sizeUnsafe(queue) + handling)
      ))
    )

    return {
      offer: (event) => {
        const full = Queue.isFullUnsafe(queue)
        if (full) dropped++
        Queue.offerUnsafe(queue, event)
        return full ? dropped : 0
      },
      dropped: () => dropped
    }
  })
