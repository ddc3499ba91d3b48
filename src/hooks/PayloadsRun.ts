/**
 * Payloads of the events that frame a session, a run (a user turn) and delegated work.
 *
 * **Details**
 *
 * `on_session_end` closes one run, on every path (`ARCHITECTURE.md` §7); `on_session_finalize` and `on_session_reset`
 * come once per session identity. Each `subagent_start` is closed by exactly one `subagent_stop`, which carries the subagent ids
 * and the parent's turn too, which the contract leaves out: with them a consumer joins the two events without a table of its
 * own.
 *
 * Source: the observer document ("Session Lifecycle", "Turn-Scoped LLM Hooks", "Subagent Lifecycle"), `hermes-contract.md` §2.3.
 */
import * as Schema from "effect/Schema"
import { ApiRequestId, SessionId, TaskId, ToolCallId, TurnId } from "../domain/Ids.ts"
import { Messages, model, orEmpty, run, version } from "./PayloadFields.ts"

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

/** Before the first step of a run. A listener may answer with context for this user message. */
export const PreLlmCall = Schema.Struct({
  ...version,
  ...run,
  /** The message as the user gave it: text, or a list of parts. */
  user_message: Schema.Json,
  /** Legacy; read lazily. Holds the new user message already. */
  conversation_history: Messages,
  is_first_turn: Schema.Boolean,
  ...model,
  /** Empty when nobody in particular speaks. */
  sender_id: Schema.String
})
/** See {@link PreLlmCall}. */
export type PreLlmCall = typeof PreLlmCall.Type

/** After the last step of a run that has a final answer and was not interrupted. */
export const PostLlmCall = Schema.Struct({
  ...version,
  ...run,
  user_message: Schema.Json,
  /** The final text, after `transform_llm_output`. */
  assistant_response: Schema.String,
  /** Legacy; read lazily. */
  conversation_history: Messages,
  ...model
})
/** See {@link PostLlmCall}. */
export type PostLlmCall = typeof PostLlmCall.Type

/** The final text of a run, before anybody sees it. A listener may answer with another text. */
export const TransformLlmOutput = Schema.Struct({
  ...version,
  response_text: Schema.String,
  session_id: SessionId,
  ...model
})
/** See {@link TransformLlmOutput}. */
export type TransformLlmOutput = typeof TransformLlmOutput.Type

const link = {
  parent_session_id: SessionId,
  parent_turn_id: orEmpty(TurnId),
  /** The call that delegates, where it is known: with it a consumer needs no guess which of several calls a child is of. */
  parent_tool_call_id: Schema.optionalKey(orEmpty(ToolCallId)),
  /** Empty when the parent is no subagent itself. */
  parent_subagent_id: Schema.String,
  child_session_id: SessionId,
  child_subagent_id: Schema.String,
  /** Null when nobody gave it a role. */
  child_role: Schema.NullOr(Schema.String)
}

/** A child agent was made and has not run yet. */
export const SubagentStart = Schema.Struct({ ...version, ...link, child_goal: Schema.String })
/** See {@link SubagentStart}. */
export type SubagentStart = typeof SubagentStart.Type

/** A child agent returned, failed or was cut. */
export const SubagentStop = Schema.Struct({
  ...version,
  ...link,
  child_summary: Schema.NullOr(Schema.String),
  /** `completed`, `failed`, `interrupted`, … */
  child_status: Schema.String,
  duration_ms: Schema.Int
})
/** See {@link SubagentStop}. */
export type SubagentStop = typeof SubagentStop.Type
