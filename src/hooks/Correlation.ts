/**
 * The ids that join the events of a run, and how those that only events know are made. What happens inside a tool call
 * (an approval, a nested request) finds them in the fiber, so that calls that run side by side never mix theirs.
 *
 * Source: the observer document ("Correlation IDs"), `hermes-contract.md` §2.7, `ARCHITECTURE.md` §7.
 */
import * as Context from "effect/Context"
import { ApiRequestId, type SessionId, type TaskId, type ToolCallId, type TurnId } from "../domain/Ids.ts"

/** Ids under their wire names; empty where there is none. */
export interface Ids {
  readonly session_id: SessionId | ""
  readonly task_id: TaskId | ""
  readonly turn_id: TurnId | ""
  /** Of the attempt whose answer asked for the tool call. */
  readonly api_request_id: ApiRequestId | ""
  readonly tool_call_id: ToolCallId | ""
}

/** Outside of any run. */
export const none: Ids = { session_id: "", task_id: "", turn_id: "", api_request_id: "", tool_call_id: "" }

/** The ids of what the fiber is doing. */
export const Correlation = Context.Reference<Ids>("hermes-effect/hooks/Correlation", { defaultValue: () => none })

/**
 * The id of one attempt to call a provider: `apiCallCount` is the step from 1, `attempt` counts every attempt of that
 * step from 0, over retries and fallbacks. Consumers must not read it.
 */
export const makeApiRequestId = (turnId: TurnId, apiCallCount: number, attempt: number): ApiRequestId =>
  ApiRequestId.make(`${turnId}:api:${apiCallCount}${attempt === 0 ? "" : `:${attempt}`}`)
