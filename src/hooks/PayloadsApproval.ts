/**
 * Payloads of questions to the user whether something dangerous may run. Observers only: they can not answer.
 *
 * Source: the observer document ("Approval Lifecycle"), `hermes-contract.md` §2.3, `ARCHITECTURE.md` §7 (`session_id`).
 */
import * as Schema from "effect/Schema"
import { SessionId, ToolCallId, TurnId } from "../domain/Ids.ts"
import { orEmpty, version } from "./PayloadFields.ts"

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
