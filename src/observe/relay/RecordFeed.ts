/**
 * Plays events of the run record to the library (reports each by a call of the library) while the record is written. A
 * separate fiber plays one event after another, so that no event is played while components are being turned on or off.
 *
 * **Details**
 *
 * Entries are passed on to other listeners only after their events were played, because the files that the components
 * of a session write are not known earlier. Entries arrive once per step. A caller that needs the agent of a run
 * immediately can flush the pending entries of the run and wait until they are played ({@link Feed.catchUp}).
 *
 * At the end of the scope, pending events are played, and everything open is ended.
 *
 * Source: `ARCHITECTURE.md` §4 (run record), `hermes-contract.md` §4.5 to §4.7.
 */
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import type { Entry } from "../../base/domain/RecordEvent.ts"
import { RunRecorder } from "../../base/domain/RunRecorder.ts"
import * as StoredMask from "../../store/StoredMask.ts"
import { type Listener, RunRecord } from "../../store/RunRecord.ts"
import type { Event } from "../Atof.ts"
import type { Agent } from "../atof/AgentScopes.ts"
import * as TracePlugin from "../TracePlugin.ts"
import * as Activation from "./Activation.ts"

/**
 * Maximum time that the program waits before it exits. It is this long because components may have to be turned on and
 * off.
 */
const flushDeadline = Duration.sum(Duration.times(Activation.deadline, 2), Duration.seconds(1))

/** A running feed. */
interface Feed {
  /** Waits until all existing entries of a run are played. Must be called in the fiber of the run. */
  readonly catchUp: Effect.Effect<void>
}

/** Options of a feed. */
interface Options {
  readonly agent: Agent
  readonly play: (event: Event) => Effect.Effect<void>
  /** Listener that receives unchanged entries after their events were played. */
  readonly passOn: Listener
  readonly tell: (message: string) => Effect.Effect<void>
}

/** Plays the events of the record until the scope closes. */
export const open = Effect.fnUntraced(function* ({
  agent,
  passOn,
  play,
  tell
}: Options): Effect.fn.Return<Feed, never, RunRecord | Scope.Scope> {
  const record = yield* RunRecord
  const safe = yield* StoredMask.forExport
  const FromRuns = yield* Effect.promise(() => import("../atof/FromRuns.ts"))
  const stream = FromRuns.make(agent)
  const events = TracePlugin.makeEventConverter(stream, yield* TracePlugin.earlierRuns)
  const queue = yield* Queue.unbounded<Effect.Effect<void>, Cause.Done>()

  const playAll = (all: ReadonlyArray<Event>) => Effect.forEach(all, play, { discard: true })
  const playEntry = (entry: Entry): Effect.Effect<void> =>
    Effect.flatMap(events(safe([entry])), playAll).pipe(Effect.andThen(Effect.sync(() => passOn([entry]))))
  const work = Effect.forever(Effect.flatten(Queue.take(queue))).pipe(
    // Ending the queue stops the fiber.
    Effect.catchTag("Done", () => Effect.suspend(() => playAll(stream.close())))
  )
  const worker = yield* Effect.forkScoped(work)
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => Queue.endUnsafe(queue)).pipe(
      Effect.andThen(Effect.timeoutOption(Fiber.await(worker), flushDeadline)),
      Effect.flatMap((done) =>
        Option.isSome(done) ? Effect.void : tell("NeMo Relay was not told everything: it took too long")
      )
    )
  )
  yield* record.listen(
    (entries) => void Queue.offerUnsafe(queue, Effect.forEach(entries, playEntry, { discard: true }))
  )

  return {
    catchUp: Effect.gen(function* () {
      const recorder = yield* RunRecorder
      if (recorder !== undefined) yield* recorder.flush
      const played = yield* Deferred.make<void>()
      if (Queue.offerUnsafe(queue, Effect.asVoid(Deferred.succeed(played, undefined)))) yield* Deferred.await(played)
    })
  }
})
