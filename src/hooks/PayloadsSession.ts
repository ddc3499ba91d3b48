/**
 * Payloads of the session lifecycle: where a conversation begins, where a run ends, and where an identity is given up.
 *
 * **Details**
 *
 * `on_session_end` closes one run, on every path (`ARCHITECTURE.md` §7); `on_session_finalize` and `on_session_reset`
 * come once per session identity.
 *
 * Source: the observer document ("Session Lifecycle"), `hermes-contract.md` §2.3.
 */
import * as Schema from "effect/Schema"
import { ApiRequestId, SessionId, TaskId, TurnId } from "../domain/Ids.ts"
import { model, version } from "./PayloadFields.ts"

/** A system prompt was built from scratch: the session is new, or its stored prompt was missing. */
export const OnSessionStart = Schema.Struct({
  ...version,
  session_id: SessionId,
  ...model
})
/** See {@link OnSessionStart}. */
export type OnSessionStart = typeof OnSessionStart.Type

/** A run ended, however it ended. */
export const OnSessionEnd = Schema.Struct({
  ...version,
  session_id: SessionId,
  /** Absent when the program stops while no run can be named. */
  task_id: Schema.optionalKey(TaskId),
  turn_id: Schema.optionalKey(TurnId),
  api_request_id: Schema.optionalKey(ApiRequestId),
  completed: Schema.Boolean,
  interrupted: Schema.Boolean,
  /** `keyboard_interrupt`, `shutdown`, or the run's exit. */
  reason: Schema.optionalKey(Schema.String),
  ...model
})
/** See {@link OnSessionEnd}. */
export type OnSessionEnd = typeof OnSessionEnd.Type

/** A session identity is torn down. */
export const OnSessionFinalize = Schema.Struct({
  ...version,
  session_id: Schema.NullOr(SessionId),
  platform: Schema.String,
  /** `shutdown`, `session_boundary`, `new_session`, `session_expired`, `subagent_end`. */
  reason: Schema.optionalKey(Schema.String),
  old_session_id: Schema.optionalKey(SessionId),
  new_session_id: Schema.optionalKey(SessionId)
})
/** See {@link OnSessionFinalize}. */
export type OnSessionFinalize = typeof OnSessionFinalize.Type

/** A new identity took the place of an old one; comes after the old one's `on_session_finalize`. */
export const OnSessionReset = Schema.Struct({
  ...version,
  /** The new id. */
  session_id: SessionId,
  platform: Schema.String,
  reason: Schema.optionalKey(Schema.String),
  old_session_id: Schema.optionalKey(SessionId),
  new_session_id: Schema.optionalKey(SessionId)
})
/** See {@link OnSessionReset}. */
export type OnSessionReset = typeof OnSessionReset.Type
