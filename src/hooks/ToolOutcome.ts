/**
 * Outcome of a tool call, in the terms of `post_tool_call`.
 *
 * Source: `hermes-contract.md` §2.9, `ARCHITECTURE.md` §7 (`post_tool_call` `blocked`).
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Json from "../base/domain/Json.ts"
import type { ToolStatus } from "../base/domain/RunEvent.ts"

/** Fields of `post_tool_call` that describe how the call ended. */
export interface ToolOutcome {
  readonly status: ToolStatus
  readonly error_type: string | null
  readonly error_message: string | null
}

/** Reason why a call never ran. */
export type BlockReason =
  | "plugin_block"
  | "guardrail_block"
  | "tool_scope_block"
  | "approval_denied"
  | "approval_timeout"
  | "hardline"
  | "fence"

/** Error message of a cancelled call. */
const cancelMessage = "Tool execution cancelled by user interrupt"

const ok: ToolOutcome = { status: "ok", error_type: null, error_message: null }

const parseResult = (result: unknown): unknown =>
  // Only an object can contain `error`, so any other text is not parsed.
  typeof result === "string" && result.trimStart().startsWith("{") ? Option.getOrUndefined(Json.parse(result)) : result

/**
 * Derives the outcome from the result of a call that ran. An `error` in an object, or in a JSON text of an object, is a
 * failure.
 */
export const fromResult = (result: unknown): ToolOutcome => {
  const value = parseResult(result)
  const error = Predicate.isObject(value) ? value["error"] : undefined
  return error ? { status: "error", error_type: "tool_error", error_message: Json.toText(error) } : ok
}

/** Creates the outcome of a call that was blocked before it ran, with the result for the model. */
export const toBlockedOutcome = (reason: BlockReason, message: string): ToolOutcome & { readonly result: string } => ({
  status: "blocked",
  error_type: reason,
  error_message: message,
  result: JSON.stringify({ error: message })
})

/** Outcome of a call that was interrupted, with the result for the model. */
export const cancelled: ToolOutcome & { readonly result: string } = {
  status: "cancelled",
  error_type: "keyboard_interrupt",
  error_message: cancelMessage,
  result: JSON.stringify({ error: cancelMessage, status: "cancelled" })
}
