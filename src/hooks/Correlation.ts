/**
 * The ids that join the events of a run, and how ids that exist only in events are made. Work inside a tool call (an
 * approval, a nested request) reads them from the fiber, so that concurrent calls never mix their ids.
 *
 * Source: the observer document ("Correlation IDs"), `hermes-contract.md` §2.7, `ARCHITECTURE.md` §7.
 */
import * as Context from "effect/Context"
import { ApiRequestId, type SessionId, type TaskId, type ToolCallId, type TurnId } from "../base/domain/Ids.ts"

/** Ids under their wire names; an absent id is empty. */
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

/** The ids of the fiber's current work. */
export const Correlation = Context.Reference<Ids>("hermes-effect/hooks/Correlation", { defaultValue: () => none })

/**
 * The id of one attempt to call a provider: `apiCallCount` is the step from 1, `attempt` counts every attempt of that
 * step from 0, over retries and fallbacks. Consumers must not read it.
 */
export const makeApiRequestId = (turnId: TurnId, apiCallCount: number, attempt: number): ApiRequestId =>
  ApiRequestId.make(`${turnId}:api:${apiCallCount}${attempt === 0 ? "" : `:${attempt}`}`)
