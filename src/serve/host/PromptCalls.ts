/** Reads the model calls of sessions from the run record, in the form in which cache misses are judged. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as CacheMisses from "../../base/domain/CacheMisses.ts"
import type { Entry } from "../../base/domain/RecordEvent.ts"
import type { RouteInfo } from "../../base/domain/Route.ts"
import { type Filter, RunRecord } from "../../store/RunRecord.ts"

/** Model calls of a session or a turn. */
export interface PromptCalls {
  /** The calls, oldest first. */
  readonly calls: ReadonlyArray<CacheMisses.PromptCall>
  /** The route that was chosen for the last run; `undefined` if the record contains no run. */
  readonly chosen: Pick<RouteInfo, "provider" | "model"> | undefined
}

/** Calls by the ids of their requests, while the record is read. */
interface OpenCalls {
  readonly calls: Map<string, CacheMisses.PromptCall>
  readonly chosen: PromptCalls["chosen"]
}

const addEntry = (found: OpenCalls, { at, event }: Entry): OpenCalls => {
  switch (event._tag) {
    case "RunStarted":
      return { ...found, chosen: { provider: event.provider, model: event.model } }
    case "AttemptStarted":
      found.calls.set(event.apiRequestId, CacheMisses.beginCall(at, event))
      return found
    case "AttemptEnded": {
      const call = found.calls.get(event.apiRequestId)
      if (call !== undefined) found.calls.set(event.apiRequestId, CacheMisses.endCall(call, at, event))
      return found
    }
    default:
      return found
  }
}

/** Reads the model calls of a session, or of one of its turns. */
export const readPromptCalls = (
  filter: Pick<Filter, "sessionId" | "turnId">
): Effect.Effect<PromptCalls, SessionStoreError, RunRecord> =>
  RunRecord.use((record) =>
    record.read({ ...filter, kinds: ["RunStarted", "AttemptStarted", "AttemptEnded"] }).pipe(
      Stream.runFold((): OpenCalls => ({ calls: new Map(), chosen: undefined }), addEntry),
      Effect.map(({ calls, chosen }) => ({ calls: Array.from(calls.values()), chosen }))
    )
  )
