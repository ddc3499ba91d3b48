/**
 * Outcome of a tool call, in the words of `post_tool_call`.
 *
 * Source: `hermes-contract.md` §2.9, `ARCHITECTURE.md` §7 (`post_tool_call` `blocked`).
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Json from "../base/domain/Json.ts"
import type { ToolStatus } from "../base/domain/RunEvent.ts"

/** The part of `post_tool_call` that says how the call ended. */
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
  // Only an object can say `error`: anything else need not be parsed.
  typeof result === "string" && result.trimStart().startsWith("{") ? Option.getOrUndefined(Json.parse(result)) : result

/**
 * Read from the result of a call that ran: one that is, or is the JSON of, an object with an `error` says something.
 */
export const fromResult = (result: unknown): ToolOutcome => {
  const value = parseResult(result)
  const error = Predicate.isObject(value) ? value["error"] : undefined
  return error ? { status: "error", error_type: "tool_error", error_message: Json.toText(error) } : ok
}

/** Of a call that was stopped before it ran, with the result that the model gets. */
export const toBlockedOutcome = (reason: BlockReason, message: string): ToolOutcome & { readonly result: string } => ({
  status: "blocked",
  error_type: reason,
  error_message: message,
  result: JSON.stringify({ error: message })
})

/** Of a call that an interrupt cut, with the result that the model gets. */
export const cancelled: ToolOutcome & { readonly result: string } = {
  status: "cancelled",
  error_type: "keyboard_interrupt",
  error_message: cancelMessage,
  result: JSON.stringify({ error: cancelMessage, status: "cancelled" })
}
