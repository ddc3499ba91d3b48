/**
 * Payloads of single tool calls, and of the questions to the user whether something dangerous may run.
 *
 * **Details**
 *
 * Each `pre_tool_call` is closed by exactly one `post_tool_call`, also when the call was blocked or cancelled. Listeners of
 * approvals are observers only: they cannot answer.
 *
 * Source: the observer document ("Tool Lifecycle", "Approval Lifecycle"), `hermes-contract.md` §2.3 and §2.9, `ARCHITECTURE.md`
 * §7 (`session_id`).
 */
import * as Schema from "effect/Schema"
import { SessionId, TaskId, ToolCallId, TurnId } from "../domain/Ids.ts"
import { ToolStatus } from "../domain/RunEvent.ts"
import { call, JsonObject, orEmpty, trace, version } from "./PayloadFields.ts"

/** Before a tool runs. A listener may answer with a directive that blocks it. */
export const PreToolCall = Schema.Struct({
  ...version,
  ...call,
  /** After request middleware; empty when the model sent no object. */
  args: JsonObject,
  ...trace
})
/** See {@link PreToolCall}. */
export type PreToolCall = typeof PreToolCall.Type

const outcome = {
  ...call,
  /** Arguments that reached the tool. */
  args: JsonObject,
  /** Result of the tool, before `transform_tool_result`. */
  result: Schema.Json,
  /** 0 for a call that never ran. */
  duration_ms: Schema.Int,
  status: ToolStatus,
  /**
   * Null when `status` is `ok`. Of a blocked call: `plugin_block`, `guardrail_block`, `tool_scope_block`,
   * `approval_denied`, `approval_timeout`, `hardline`, `fence`.
   */
  error_type: Schema.NullOr(Schema.String),
  error_message: Schema.NullOr(Schema.String)
}

/** A tool call is over, whether or not the tool ever ran. */
export const PostToolCall = Schema.Struct({ ...version, ...outcome, ...trace })
/** See {@link PostToolCall}. */
export type PostToolCall = typeof PostToolCall.Type

/** After `post_tool_call` of a call that ran. A listener may answer with another result text. */
export const TransformToolResult = Schema.Struct({ ...version, ...outcome })
/** See {@link TransformToolResult}. */
export type TransformToolResult = typeof TransformToolResult.Type

/** Output of a foreground terminal command, whole. A listener may answer with another text. */
export const TransformTerminalOutput = Schema.Struct({
  ...version,
  command: Schema.String,
  output: Schema.String,
  returncode: Schema.Int,
  task_id: TaskId,
  /** `local`, `docker`, … */
  env_type: Schema.String
})
/** See {@link TransformTerminalOutput}. */
export type TransformTerminalOutput = typeof TransformTerminalOutput.Type

const question = {
  session_id: orEmpty(SessionId),
  turn_id: orEmpty(TurnId),
  tool_call_id: orEmpty(ToolCallId),
  command: Schema.String,
  description: Schema.String,
  pattern_key: Schema.String,
  pattern_keys: Schema.Array(Schema.String),
  /** Meaning of "for this session" where the question is asked. */
  session_key: Schema.String,
  /** `cli`, `smart`, or where else the question is shown. */
  surface: Schema.String
}

/** Before the question is shown. */
export const PreApprovalRequest = Schema.Struct({ ...version, ...question })
/** See {@link PreApprovalRequest}. */
export type PreApprovalRequest = typeof PreApprovalRequest.Type

/** The answer. No answer, and an answer that says nothing, are `timeout`. */
export const ApprovalChoice = Schema.Literals([
  "once",
  "session",
  "always",
  "deny",
  "timeout",
  "smart_approve",
  "smart_deny"
])
/** See {@link ApprovalChoice}. */
export type ApprovalChoice = typeof ApprovalChoice.Type

/** The user answered, or did not in time. */
export const PostApprovalResponse = Schema.Struct({
  ...version,
  ...question,
  choice: ApprovalChoice,
  /** `aux_llm` when a model judged. */
  decided_by: Schema.optionalKey(Schema.String)
})
/** See {@link PostApprovalResponse}. */
export type PostApprovalResponse = typeof PostApprovalResponse.Type
