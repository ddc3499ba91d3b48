/**
 * Input and output of a shell hook: one JSON object on its standard input, and at most one on its standard output.
 *
 * **Details**
 *
 * Input: `hook_event_name`, `tool_name`, `tool_input`, `session_id`, `cwd`, and every other field of the event in `extra`.
 * Output of `pre_tool_call`: `{ "action": "block", "message": … }` or `{ "decision": "block", "reason": … }`; of any other
 * event: `{ "context": … }`. Everything else says nothing.
 *
 * Source: `hermes-contract.md` §3.7.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Json from "../domain/Json.ts"
import type { Block, HookName } from "./Payloads.ts"

/** Reason of a block that names none. */
export const defaultMessage = "Blocked by shell hook."

const textOr = <A>(value: unknown, other: A): string | A =>
  typeof value === "string" && value.trim() !== "" ? value : other

/** The text for the standard input. */
export const input = (event: HookName, payload: object, cwd: string): string => {
  const { args, session_id, tool_name, ...extra }: Record<string, unknown> = { ...payload }
  return JSON.stringify({
    hook_event_name: event,
    tool_name: tool_name ?? null,
    tool_input: Predicate.isObject(args) ? args : null,
    session_id: textOr(session_id, textOr(extra["parent_session_id"], "")),
    cwd,
    extra
  })
}

/** Output of a hook: a directive, a context, or nothing. */
export type Directive = Block | { readonly context: string } | undefined

/** Reads the standard output. */
export const output = (event: HookName, text: string): Directive => {
  const said = Option.getOrUndefined(Json.parse(text))
  if (!Predicate.isObject(said)) return undefined
  if (event !== "pre_tool_call") {
    const context = textOr(said["context"], undefined)
    return context === undefined ? undefined : { context }
  }
  if (said["action"] === "block") return { action: "block", message: textOr(said["message"], defaultMessage) }
  if (said["decision"] === "block") return { action: "block", message: textOr(said["reason"], defaultMessage) }
  return undefined
}

/** An event as a hook may meet it, for trying one out. `overrides` win. */
export const sample = (
  event: HookName,
  toolName: string,
  overrides: Readonly<Record<string, unknown>>
): Readonly<Record<string, unknown>> => {
  const isTool = event === "pre_tool_call" || event === "post_tool_call" || event === "transform_tool_result"
  return {
    telemetry_schema_version: "hermes.observer.v1",
    session_id: "test-session",
    task_id: "test-task",
    turn_id: "test-turn",
    ...(isTool ? { tool_name: toolName, tool_call_id: "test-call", args: { command: "echo hello" } } : {}),
    ...(isTool && event !== "pre_tool_call"
      ? { result: "hello", status: "ok", error_type: null, error_message: null, duration_ms: 12 }
      : {}),
    ...(event === "pre_llm_call" ? { user_message: "Hello", conversation_history: [], is_first_turn: true } : {}),
    ...overrides
  }
}
