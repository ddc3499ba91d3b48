/** Reads the model calls of sessions from the run record, in the form in which cache misses are judged. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as CacheMisses from "../../base/domain/CacheMisses.ts"
import { type Filter, RunRecord } from "../../store/RunRecord.ts"

/** Reads the model calls of a session, or of one of its turns, oldest first. */
export const read = (
  filter: Pick<Filter, "sessionId" | "turnId">
): Effect.Effect<ReadonlyArray<CacheMisses.PromptCall>, SessionStoreError, RunRecord> =>
  RunRecord.use((record) =>
    record.read({ ...filter, kinds: ["AttemptStarted", "AttemptEnded"] }).pipe(
      Stream.runFold(
        () => new Map<string, CacheMisses.PromptCall>(),
        (calls, { at, event }) => {
          if (event._tag === "AttemptStarted") calls.set(event.apiRequestId, CacheMisses.beginCall(at, event))
          const known = event._tag === "AttemptEnded" ? calls.get(event.apiRequestId) : undefined
          if (known !== undefined && event._tag === "AttemptEnded")
            calls.set(event.apiRequestId, CacheMisses.endCall(known, at, event))
          return calls
        }
      ),
      Effect.map((calls) => Array.from(calls.values()))
    )
  )
