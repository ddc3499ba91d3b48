/**
 * The ids that correlate the events of a run, and functions that create the ids that exist only in events. Work inside
 * a tool call (an approval, a nested request) reads them from the fiber, so that concurrent calls never mix their ids.
 *
 * Source: the observer document ("Correlation IDs"), `hermes-contract.md` §2.7, `ARCHITECTURE.md` §7.
 */
import * as Context from "effect/Context"
import { ApiRequestId, type SessionId, type TaskId, type ToolCallId, type TurnId } from "../base/domain/Ids.ts"

/** Ids under their wire names. An absent id is an empty string. */
export interface Ids {
  readonly session_id: SessionId | ""
  readonly task_id: TaskId | ""
  readonly turn_id: TurnId | ""
  /** Id of the attempt whose answer contains the tool call. */
  readonly api_request_id: ApiRequestId | ""
  readonly tool_call_id: ToolCallId | ""
}

/** Empty ids, used outside of any run. */
export const none: Ids = { session_id: "", task_id: "", turn_id: "", api_request_id: "", tool_call_id: "" }

/** Ids of the work that the fiber currently does. */
export const Correlation = Context.Reference<Ids>("hermes-effect/hooks/Correlation", { defaultValue: () => none })

/** The newest id of a turn. The records, messages and calls of an attempt share it. */
interface NewestId {
  readonly apiCallCount: number
  readonly attempt: number
  readonly id: ApiRequestId
}

const maxTurns = 512
const newestIds = new Map<TurnId, NewestId>()

const noteNewestId = (turnId: TurnId, newest: NewestId): ApiRequestId => {
  if (newestIds.size >= maxTurns && !newestIds.has(turnId)) {
    for (const oldest of newestIds.keys()) {
      newestIds.delete(oldest)
      break
    }
  }
  newestIds.set(turnId, newest)
  return newest.id
}

/**
 * Creates the id of one attempt to call a provider. `apiCallCount` is the step, from 1, and `attempt` is the index of
 * the attempt in that step, from 0, across retries and fallbacks. Consumers must treat the id as opaque.
 */
export const makeApiRequestId = (turnId: TurnId, apiCallCount: number, attempt: number): ApiRequestId => {
  const newest = newestIds.get(turnId)
  if (newest?.apiCallCount === apiCallCount && newest.attempt === attempt) return newest.id
  const id = ApiRequestId.make(`${turnId}:api:${apiCallCount}${attempt === 0 ? "" : `:${attempt}`}`)
  return noteNewestId(turnId, { apiCallCount, attempt, id })
}
