/**
 * Payloads of delegated work. Each `subagent_start` is closed by exactly one `subagent_stop`.
 *
 * **Details**
 *
 * `subagent_stop` carries the subagent ids and the parent's turn too, which the contract leaves out: with them a consumer
 * joins the two events without a table of its own.
 *
 * Source: the observer document ("Subagent Lifecycle"), `hermes-contract.md` §2.3.
 */
import * as Schema from "effect/Schema"
import { SessionId, ToolCallId, TurnId } from "../domain/Ids.ts"
import { orEmpty, version } from "./PayloadFields.ts"

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
