/**
 * The events of active runs that continue without a reader, so that a reader that returns to this process receives
 * them as they happen.
 *
 * **Details**
 *
 * A finished step holds its texts as one event each, and no events that describe only a moment: the log of a run is
 * about as large as its conversation. It is removed at the end of the run, whose events are then in the run record.
 */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as RunCursor from "../../store/RunCursor.ts"

/** Log of one run. */
export interface RunLog {
  /** Tenant of the run. */
  readonly tenant: string | undefined
  /** Id of the run; `undefined` before its first event. */
  readonly turnId: () => string | undefined
  readonly add: (events: ReadonlyArray<RunEvent>) => void
  readonly end: (exit: Exit.Exit<unknown, unknown>) => void
  /** Returns the events that a reader has not seen, and fails as the run does. Any number of readers may read. */
  readonly read: (after: RunCursor.RunPosition | undefined) => Stream.Stream<RunEvent, unknown>
}

/** Logs of the active runs of a runtime, by session. */
export type RunLogs = Map<string, RunLog>

/** Joins the texts of a finished step, and leaves out what describes only a moment. */
const compactStep = (events: ReadonlyArray<RunEvent>): ReadonlyArray<RunEvent> => {
  const compact: Array<RunEvent> = []
  for (const event of events) {
    const last = compact.at(-1)
    if (RunCursor.isMomentary(event)) continue
    if (event._tag === "TextDelta" && last?._tag === "TextDelta")
      compact[compact.length - 1] = { ...last, text: last.text + event.text }
    else if (event._tag === "ReasoningDelta" && last?._tag === "ReasoningDelta")
      compact[compact.length - 1] = { ...last, text: last.text + event.text }
    else compact.push(event)
  }
  return compact
}

/** Makes the log of a run, which is in `logs` from its first event to its end. */
export const makeLog = (logs: RunLogs, tenant: string | undefined): RunLog => {
  /** Events of each step. The newest list grows. */
  const steps: Array<ReadonlyArray<RunEvent>> = []
  let newest: Array<RunEvent> = []
  let turnId: string | undefined
  let sessionId: string | undefined
  let ended: Exit.Exit<unknown, unknown> | undefined
  let waiting = Promise.withResolvers<void>()
  steps.push(newest)

  const wakeReaders = (): void => {
    const { resolve } = waiting
    waiting = Promise.withResolvers()
    resolve()
  }

  const addEvent = (event: RunEvent): void => {
    if (event._tag === "RunStarted") {
      ;({ sessionId, turnId } = event)
      logs.set(event.sessionId, log)
    }
    if (event._tag === "StepStarted") {
      steps[steps.length - 1] = compactStep(newest)
      newest = []
      steps.push(newest)
    }
    newest.push(event)
  }

  /** Waits until there are more events than a reader has read. */
  const awaitMore = (step: number, events: ReadonlyArray<RunEvent>, index: number): Effect.Effect<void> =>
    Effect.suspend(() =>
      ended !== undefined || index < events.length || step < steps.length - 1
        ? Effect.void
        : Effect.promise(() => waiting.promise)
    )

  const log: RunLog = {
    tenant,
    turnId: () => turnId,
    add: (events) => {
      events.forEach(addEvent)
      wakeReaders()
    },
    end: (exit) => {
      ended = exit
      if (sessionId !== undefined && logs.get(sessionId) === log) logs.delete(sessionId)
      wakeReaders()
    },
    read: (after) =>
      Stream.suspend(() => {
        const rest = after === undefined ? undefined : RunCursor.makeRest(after)
        let step = 0
        let index = 0
        // A reader inside of a step reads its list to the end, also if the step has been compacted since.
        let events = steps[0] ?? []
        const next = Effect.gen(function* () {
          yield* awaitMore(step, events, index)
          const found = events.slice(index)
          index = events.length
          if (found.length === 0 && step < steps.length - 1) {
            events = steps[++step] ?? []
            index = 0
          } else if (found.length === 0 && ended !== undefined) return undefined
          return [rest === undefined ? found : found.flatMap(rest.take), undefined] as const
        })
        return Stream.concat(
          Stream.flattenIterable(Stream.unfold(undefined, () => next)),
          Stream.suspend(() => (ended?._tag === "Failure" ? Stream.failCause(ended.cause) : Stream.empty))
        )
      })
  }
  return log
}
