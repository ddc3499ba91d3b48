/**
 * Ends the record of an interrupted run in time. Resources of a run may take seconds to release: a command that ignores
 * signals, a server that does not close, code of a tool that cannot be interrupted. The record, and every view of it,
 * ends without them.
 *
 * **Details**
 *
 * An interrupted run has {@link patience} to close its calls with their partial results and to end its record. After that
 * the record is cut: open attempts, calls and children end as interrupted, and the run does. Messages that
 * the run stores later are still recorded.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Cost from "../base/domain/Cost.ts"
import type { RecordEvent } from "../base/domain/RecordEvent.ts"
import * as RunRecorder from "../base/domain/RunRecorder.ts"
import { noteCut, type RunState } from "./RunState.ts"
import { Services } from "./Services.ts"

/** Time after its interruption in which a run may end its record by itself. */
const patience = Duration.millis(250)

/** Returns the sums of a run for the end of its record. */
export const summarizeRun = (run: RunState): Effect.Effect<Omit<RunSums, "_tag" | "exit">, never, Services> =>
  Services.useSync(({ interceptors: { stack } }) => {
    const health = stack.faults.takeHealth(run.turnId)
    return {
      steps: run.steps.count,
      usage: run.budget.usage,
      cost: Cost.toSpent(run.budget.cost),
      ...(health.length === 0 ? {} : { middleware: health })
    }
  })

type RunSums = Extract<RecordEvent, { readonly _tag: "RunEnded" }>

/** Ends the calls of the newest answer that have no result. */
const endPendingCalls = ({ conversation: { batch } }: RunState): ReadonlyArray<RecordEvent> =>
  batch.calls
    .filter(({ id }) => !batch.results.has(id))
    .map(({ id, name }) => ({
      _tag: "CallEnded",
      callId: id,
      name,
      status: "cancelled",
      ran: batch.begun.has(id),
      durationMillis: 0
    }))

/** Ends the record of a run as interrupted, unless it has ended. */
const cutRecord = (run: RunState): Effect.Effect<void, never, Services> =>
  Effect.flatMap(summarizeRun(run), (sums) =>
    run.recorder === undefined
      ? Effect.void
      : run.recorder.cut(() => [...endPendingCalls(run), { _tag: "RunEnded", exit: "interrupted", ...sums }])
  )

/** Cuts the record of a child before the record of the run that waits for it. */
export const cutWithParent = (run: RunState): Effect.Effect<void, never, Services> =>
  Effect.flatMap(Services, (services) =>
    RunRecorder.record((parent) =>
      parent.cutBefore(run.sessionId, Effect.provideService(cutRecord(run), Services, services))
    )
  )

/** Runs the waiting part of a run. If it is interrupted and `isSettled` returns false, the record ends in time. */
export const watchInterruption = <A, E, R>(
  run: RunState,
  waiting: Effect.Effect<A, E, R>,
  isSettled: () => boolean
): Effect.Effect<A, E, R | Services> =>
  run.recorder === undefined
    ? waiting
    : Effect.onInterrupt(waiting, () =>
        isSettled()
          ? Effect.void
          : // Detached, because the fibers of the run wait for the resources.
            Effect.map(Effect.forkDetach(Effect.delay(cutRecord(run), patience)), (fiber) => noteCut(run, fiber))
      )

/** Returns the current time as a function, for events that are created later. */
export const currentTime: Effect.Effect<() => number> = Effect.map(
  Clock.Clock,
  (clock) => () => clock.currentTimeMillisUnsafe()
)
