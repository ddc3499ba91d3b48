/**
 * Emits the events of a run for a user interface: `RUN_STARTED`, `USAGE_UPDATE`, `TOOL_CALL_RESULT`, then
 * `RUN_FINISHED` or `RUN_ERROR`.
 *
 * **Details**
 *
 * If this middleware is first in the list, it is notified last, so that events contain the results of the other
 * middleware. Contents are redacted. A tool result that is not JSON emits no event. A run that failed, or whose
 * conversation does not fit, ends in `RUN_ERROR`.
 *
 * **Example** (Writing events to the log)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { AgentEvents } from "hermes-effect/middleware"
 *
 * export const events = AgentEvents.make({ emit: (event) => Effect.logInfo(event.type) })
 * ```
 *
 * Source: `nexau.md` §5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as Middleware from "../../middleware/Middleware.ts"

interface RunEventFields {
  /** Time of the event, in milliseconds since 1970. */
  readonly timestamp: number
  /** Id of the session. */
  readonly thread_id: string
  readonly run_id: string
}

/** An event, with the field names of the wire format. */
export type Event =
  | (RunEventFields & { readonly type: "RUN_STARTED"; readonly root_run_id: string; readonly agent: string })
  | (RunEventFields & { readonly type: "RUN_FINISHED"; readonly result: string })
  | (RunEventFields & { readonly type: "RUN_ERROR"; readonly message: string; readonly code: string })
  | (RunEventFields & { readonly type: "USAGE_UPDATE"; readonly usage: Readonly<Record<string, number>> })
  | (RunEventFields & { readonly type: "TOOL_CALL_RESULT"; readonly tool_call_id: string; readonly content: string })

/** Options of {@link make}. */
export interface Options<R> {
  /** Function that receives an event. The run waits for it. */
  readonly emit: (event: Event) => Effect.Effect<void, unknown, R>
}

const isError = (stopReason: string): boolean => stopReason === "ERROR_OCCURRED" || stopReason === "CONTEXT_TOKEN_LIMIT"

/** Returns a value as JSON text, or `undefined` if JSON cannot represent it. */
const toJsonText = (value: unknown): string | undefined => {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

/** Creates the middleware that emits the events. */
export const make = <R = never>({ emit }: Options<R>): Middleware.LifecycleMiddleware<never, never, R> => {
  const describeRun = ({ sessionId, turnId }: Middleware.RunFacts): Effect.Effect<RunEventFields> =>
    Effect.map(Clock.currentTimeMillis, (timestamp) => ({ timestamp, thread_id: sessionId, run_id: turnId }))
  return Middleware.lifecycle<never, never, R>({
    name: "Events",
    beforeAgent: ({ run }) =>
      Effect.flatMap(describeRun(run), (common) =>
        emit({
          type: "RUN_STARTED",
          ...common,
          root_run_id: run.isChild ? run.taskId : run.turnId,
          agent: run.platform
        })
      ),
    afterAgent: ({ agentResponse, run, stopReason }) =>
      Effect.flatMap(describeRun(run), (common) => {
        const text = Redaction.redactText(agentResponse)
        return emit(
          isError(stopReason)
            ? { type: "RUN_ERROR", ...common, message: text, code: stopReason }
            : { type: "RUN_FINISHED", ...common, result: text }
        )
      }),
    afterModel: ({ modelResponse, run }) =>
      Effect.flatMap(describeRun(run), (common) =>
        emit({ type: "USAGE_UPDATE", ...common, usage: Usage.toWire(Usage.fromResponse(modelResponse.usage)) })
      ),
    afterTool: ({ run, toolCallId, toolOutput }) =>
      Effect.flatMap(describeRun(run), (common) => {
        const content = toJsonText(Redaction.redactValue(toolOutput))
        return content === undefined
          ? Effect.void
          : emit({ type: "TOOL_CALL_RESULT", ...common, tool_call_id: toolCallId, content })
      })
  })
}
