/** Queues for observers that the run does not wait for. A separate fiber handles the events one after another. */
import type * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"

/** The sending end of a queue. */
export interface Sender<in E> {
  /**
   * Adds an event. If the queue is full, the oldest event is dropped. Returns the total number of dropped events, or 0
   * if no event was dropped now.
   */
  readonly offer: (event: E) => number
  /** Returns the number of events dropped so far. */
  readonly dropped: () => number
  /** Returns true if all events were handled or dropped. */
  readonly isIdle: () => boolean
  /** Succeeds as soon as the queue is idle. */
  readonly idle: Effect.Effect<void>
}

/**
 * Creates a queue with one fiber that handles events in order until the scope closes, so that the emitter never waits.
 * On close, waiting events are handled for at most `flush`. `onLost` receives the number of the remaining events.
 */
export const make = <E>(options: {
  readonly capacity: number
  readonly flush: () => Duration.Duration
  readonly handle: (event: E) => Effect.Effect<void>
  readonly onLost: (count: number) => Effect.Effect<void>
  /** Handling of an event that has already started. */
  readonly first?: Effect.Effect<void> | undefined
}): Effect.Effect<Sender<E>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const queue = yield* Queue.make<E, Cause.Done>({ capacity: options.capacity, strategy: "sliding" })
    let dropped = 0
    let pending = options.first === undefined ? 0 : 1
    let emptied: Deferred.Deferred<void> | undefined

    const noteHandled = (): void => {
      if (--pending > 0 || emptied === undefined) return
      Deferred.doneUnsafe(emptied, Effect.void)
      emptied = undefined
    }
    const handle = (event: E): Effect.Effect<void> => Effect.ensuring(options.handle(event), Effect.sync(noteHandled))
    const rest = Effect.forever(Effect.flatMap(Queue.take(queue), handle), { disableYield: true })
    const worker = yield* Effect.forkScoped(
      options.first === undefined
        ? rest
        : Effect.andThen(Effect.ensuring(options.first, Effect.sync(noteHandled)), rest)
    )
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        Queue.endUnsafe(queue)
        return Effect.timeoutOption(Fiber.await(worker), options.flush())
      }).pipe(Effect.flatMap((done) => (Option.isSome(done) ? Effect.void : options.onLost(pending))))
    )

    return {
      offer: (event) => {
        const full = Queue.isFullUnsafe(queue)
        if (full) dropped++
        else pending++
        Queue.offerUnsafe(queue, event)
        return full ? dropped : 0
      },
      dropped: () => dropped,
      isIdle: () => pending === 0,
      idle: Effect.suspend(() =>
        pending === 0 ? Effect.void : Deferred.await((emptied ??= Deferred.makeUnsafe<void>()))
      )
    }
  })
