/** Stores items until their session takes them, oldest first: reports of background children, events of processes. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { SessionId } from "./Ids.ts"

/** Queued items, each for one session. */
interface SessionQueue<A> {
  readonly offer: (item: A) => Effect.Effect<void>
  /** Takes all items of a session, without waiting. */
  readonly drain: (sessionId: SessionId) => Effect.Effect<ReadonlyArray<A>>
  /** Takes the oldest item of a session, or waits for one if the queue is empty. */
  readonly take: (sessionId: SessionId) => Effect.Effect<A>
  /** Completes as soon as a session has an item. The item remains in the queue. */
  readonly arrived: (sessionId: SessionId) => Effect.Effect<void>
}

/** Creates an empty queue. If all sessions together have more than `capacity` items, the oldest are dropped. */
export const make = <A extends { readonly sessionId: SessionId }>(
  capacity = Number.POSITIVE_INFINITY
): SessionQueue<A> => {
  let waiting: ReadonlyArray<A> = []
  let changed = Deferred.makeUnsafe<void>()

  const awaitFirst = (sessionId: SessionId, isTaken: boolean): Effect.Effect<A> =>
    Effect.suspend(() => {
      const item = waiting.find((item) => item.sessionId === sessionId)
      if (item === undefined) return Effect.flatMap(Deferred.await(changed), () => awaitFirst(sessionId, isTaken))
      if (isTaken) waiting = waiting.filter((other) => other !== item)
      return Effect.succeed(item)
    })

  return {
    offer: (item) =>
      Effect.suspend(() => {
        waiting = [...waiting, item].slice(-capacity)
        const before = changed
        changed = Deferred.makeUnsafe()
        return Effect.asVoid(Deferred.succeed(before, undefined))
      }),
    drain: (sessionId) =>
      Effect.sync(() => {
        const items = waiting.filter((item) => item.sessionId === sessionId)
        if (items.length > 0) waiting = waiting.filter((item) => item.sessionId !== sessionId)
        return items
      }),
    take: (sessionId) => awaitFirst(sessionId, true),
    arrived: (sessionId) => Effect.asVoid(awaitFirst(sessionId, false))
  }
}
