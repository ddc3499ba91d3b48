/**
 * Entries of the run record in batches, without secrets. All exporters of a record receive the same batches, at most
 * one per {@link pause}. Writing to the record never waits, and exporters are woken at most ten times per second, even
 * by a fast run.
 *
 * **Details**
 *
 * Entries are in the order of time (`EntryOrder`). While several runs are active, they wait for entries of the other
 * runs. Otherwise an entry that arrives after a pause is passed on at once. Entries that arrive during a pause form the
 * next batch. A listener that ends first receives the entries that have arrived so far.
 *
 * Source: `ARCHITECTURE.md` §4 (run record) and §7 (exporters).
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as RcRef from "effect/RcRef"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import type { Entry } from "../base/domain/RecordEvent.ts"
import { type Listener, RunRecord, type Service } from "../store/RunRecord.ts"
import * as StoredMask from "../store/StoredMask.ts"
import * as EntryOrder from "./EntryOrder.ts"

/** Time between two batches. */
const pause = Duration.millis(100)

/** Batches of entries for several listeners. */
interface Batches {
  /** Passes batches to a listener until the scope closes. */
  readonly listen: Service["listen"]
  /** Passes on all entries that have arrived so far. */
  readonly flush: Effect.Effect<void>
}

/** Batches the entries of `source` until the scope closes. */
export const make = Effect.fnUntraced(function* (
  source: Service["listen"]
): Effect.fn.Return<Batches, never, Scope.Scope> {
  const safe = yield* StoredMask.forExport
  const listeners = new Set<Listener>()
  const pending = EntryOrder.makeOrder()
  const clock = yield* Clock.Clock
  let came = Deferred.makeUnsafe<void>()
  const passEntries = (entries: ReadonlyArray<Entry>): void => {
    if (pending.isEmpty() && Deferred.isDoneUnsafe(came)) came = Deferred.makeUnsafe<void>()
    if (entries.length === 0) return
    const group = safe(entries)
    for (const listener of listeners) listener(group)
  }
  const passOn = (work: () => void) =>
    Effect.catchDefect(Effect.sync(work), (defect) =>
      Effect.logWarning(
        "Entries of the run record cannot be exported; what exporters make of these is missing.",
        defect
      )
    )
  const flush = passOn(() => passEntries(pending.takeEntries()))
  const work = Effect.andThen(
    Effect.suspend(() => Deferred.await(came)),
    passOn(() => passEntries(pending.takeEntries(clock.currentTimeMillisUnsafe())))
  )
  yield* Effect.forkScoped(Effect.repeat(work, Schedule.spaced(pause)))
  yield* source((entries) => {
    pending.addEntries(entries)
    Deferred.doneUnsafe(came, Exit.void)
  })
  return {
    flush,
    listen: (listener) =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => void listeners.add(listener)),
          () =>
            Effect.andThen(
              flush,
              Effect.sync(() => listeners.delete(listener))
            )
        )
      )
  }
})

/** Shared batches by record. They end with the last exporter that listens. */
const shared = new WeakMap<Service, RcRef.RcRef<Batches>>()

/** Batches of the entries of the runtime's record. */
export const ofRecord: Effect.Effect<Batches, never, RunRecord | Scope.Scope> = Effect.gen(function* () {
  const record = yield* RunRecord
  // The reference releases its content itself and is garbage-collected together with the record.
  const made = yield* Effect.provideService(
    RcRef.make({ acquire: make(record.listen) }),
    Scope.Scope,
    Scope.makeUnsafe()
  )
  const ref = shared.get(record) ?? made
  shared.set(record, ref)
  return yield* RcRef.get(ref)
})
