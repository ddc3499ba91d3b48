/** Records the start and the end of each call of a batch in the run record. */
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import { type Recorder, RunRecorder } from "../base/domain/RunRecorder.ts"
import { Correlation } from "../hooks/Correlation.ts"
import type * as Prepare from "./Prepare.ts"
import type * as ToolExecution from "./ToolExecution.ts"

/** End of a call, as recorded. */
interface EndedCall extends Pick<ToolExecution.Settlement, "blockedBy" | "status"> {
  readonly call: Prompt.ToolCallPart
  readonly durationMillis: number
  readonly ran: boolean
  readonly reason?: string | undefined
}

/**
 * Run record to which a batch's calls are written. `parentCallId` is the call of the tool that made these calls, if a
 * tool made them.
 */
export interface Recording {
  readonly recorder: Recorder
  readonly parallel: boolean
  readonly parentCallId: string | undefined
}

/** Records that a call started. */
export const recordStart = (
  { parallel, parentCallId, recorder }: Recording,
  { args, call: { id, name }, context: { apiRequestId } }: Prepare.ReadyCall
): void => {
  const within = parentCallId === undefined ? {} : { parentCallId }
  recorder.write({ _tag: "CallStarted", callId: id, name, args, apiRequestId, parallel, ...within }, () => ({
    _tag: "CallEnded",
    callId: id,
    name,
    status: "cancelled",
    ran: true,
    durationMillis: 0,
    ...within
  }))
}

/** Records that a call ended. */
export const recordEnd = (
  { parentCallId, recorder }: Recording,
  { blockedBy, call: { id, name }, durationMillis, ran, reason = blockedBy, status }: EndedCall,
  output: string
): void =>
  recorder.write({
    _tag: "CallEnded",
    callId: id,
    name,
    status,
    ran,
    ...(reason === undefined ? {} : { reason }),
    durationMillis,
    ...(parentCallId === undefined ? {} : { parentCallId, output })
  })

/** Records that a call that had started waits for an answer. It runs again later. */
export const recordSuspension = ({ parentCallId, recorder }: Recording, { id, name }: Prompt.ToolCallPart): void =>
  recorder.write({
    _tag: "CallEnded",
    callId: id,
    name,
    status: "cancelled",
    ran: true,
    reason: "suspended",
    durationMillis: 0,
    ...(parentCallId === undefined ? {} : { parentCallId })
  })

/** Returns the record of the run that a batch belongs to; `undefined` if the run is not recorded. */
export const findRecording = (
  { ids }: Pick<Prepare.CallEnvironment, "ids">,
  parallel: boolean
): Effect.Effect<Recording | undefined> =>
  Effect.withFiberSucceed((fiber) => {
    const recorder = fiber.getRef(RunRecorder)
    if (recorder === undefined) return undefined
    const { session_id, tool_call_id } = fiber.getRef(Correlation)
    // A child's run shares the fiber of its parent's call but has a different session.
    return {
      recorder,
      parallel,
      parentCallId: tool_call_id === "" || session_id !== ids.sessionId ? undefined : tool_call_id
    }
  })

/**
 * Records the end of an interrupted call that no tool result from the model's turn closes. `isClosing` returns true if
 * the call has ended, so that its end is recorded otherwise.
 */
export const recordNestedInterrupt =
  (recording: Recording | undefined, { call: { id, name } }: Prepare.ReadyCall, isClosing: () => boolean) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    if (recording?.parentCallId === undefined) return work
    const { parentCallId, recorder } = recording
    return Effect.onInterrupt(work, () =>
      Effect.sync(() => {
        if (isClosing()) return
        recorder.write({
          _tag: "CallEnded",
          callId: id,
          name,
          status: "cancelled",
          ran: true,
          durationMillis: 0,
          parentCallId
        })
      })
    )
  }
