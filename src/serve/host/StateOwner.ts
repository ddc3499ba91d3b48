/**
 * Owns the state of a live session. Only one fiber changes the state. Changes are queued as work for this fiber, so
 * that they never overlap and every client sees the same events in the same order.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as EventReaders from "./EventReaders.ts"
import type { HostEvent, State } from "./HostEvent.ts"

/** The fiber that alone changes the state of a live session, and the readers of its events. */
export interface StateOwner {
  readonly state: () => State
  readonly readers: EventReaders.EventReaders
  /**
   * Runs work on the owner's fiber and waits for it. The wait is interrupted when the owner is closed. Must not be
   * called on the owner's fiber.
   */
  readonly run: <A, E>(work: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** Adds work to the queue. Returns false if the owner is closed. */
  readonly post: (work: Effect.Effect<void>) => boolean
  /** Changes the state and notifies the readers. Must be called on the owner's fiber. */
  readonly change: (changes: Partial<State>, ...events: ReadonlyArray<HostEvent>) => void
  /** Ends the stream of events. No more work runs after that. */
  readonly close: Effect.Effect<void>
}

/** Starts the fiber that owns a state, for the lifetime of the scope. */
export const make = Effect.fnUntraced(function* (initial: State): Effect.fn.Return<StateOwner, never, Scope.Scope> {
  const work = yield* Queue.unbounded<Effect.Effect<void>>()
  const closed = yield* Deferred.make<never>()
  const readers = EventReaders.make()
  let state = initial

  const close = Effect.suspend(() => {
    Queue.shutdownUnsafe(work)
    readers.end()
    return Effect.asVoid(Deferred.interrupt(closed))
  })

  const logFailure = (one: Effect.Effect<void>): Effect.Effect<void> =>
    Effect.catchCause(one, (cause) => Effect.logError("a change of the live session failed", cause))

  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(Queue.take(work), logFailure)))
  yield* Effect.addFinalizer(() => close)

  return {
    state: () => state,
    readers,
    run: (one) =>
      Effect.flatMap(Deferred.make<Effect.Success<typeof one>, Effect.Error<typeof one>>(), (reply) => {
        const answered = Effect.flatMap(Effect.exit(one), (exit) => Effect.asVoid(Deferred.done(reply, exit)))
        return Queue.offerUnsafe(work, answered)
          ? Effect.raceFirst(Deferred.await(reply), Deferred.await(closed))
          : Effect.interrupt
      }),
    post: (one) => Queue.offerUnsafe(work, one),
    change: (changes, ...events) => {
      state = { ...state, ...changes }
      for (const event of events) readers.publish(event)
    },
    close
  }
})
