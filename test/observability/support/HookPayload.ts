/**
 * Metadata that an event has of a hook payload: the correlation envelope under its contract names.
 *
 * Source: `hermes-contract.md` §4.5 ("Metadata keys").
 */
import type * as Schema from "effect/Schema"
import type { Facts } from "./HookSession.ts"

const keys = [
  "telemetry_schema_version", "session_id", "platform", "task_id", "turn_id", "api_request_id", "tool_call_id",
  "parent_session_id", "parent_turn_id", "parent_subagent_id", "child_session_id", "child_subagent_id", "child_role",
  "child_status", "provider", "model", "api_mode", "status", "reason", "api_call_count", "retry_count", "duration_ms",
  "error_type", "error_message"
] as const

/** A payload as a recorder reads it: any of the hooks'. */
export interface Fields {
  readonly [key: string]: Schema.Json | undefined
}

const isSaid = (value: Schema.Json | undefined): value is Schema.Json => value !== undefined && value !== null && value !== ""

/** These fields of a payload, where they say something. */
export const pick = (payload: Fields, names: ReadonlyArray<string>): Facts => {
  const facts: Record<string, Schema.Json> = {}
  for (const name of names) {
    const value = payload[name]
    if (isSaid(value)) facts[name] = value
  }
  return facts
}

const derived = [
  ["trajectory_id", "session_id"],
  ["parent_trajectory_id", "parent_session_id"],
  ["child_trajectory_id", "child_session_id"]
] as const

/** The metadata of a payload. */
export const metadata = (payload: Fields): Facts => {
  const facts: Record<string, Schema.Json> = { ...pick(payload, keys) }
  for (const [name, from] of derived) {
    const value = facts[from]
    if (value !== undefined) facts[name] = value
  }
  return facts
}

/** A field that is text, or nothing. */
export const text = (payload: Fields, name: string): string => {
  const value = payload[name]
  return typeof value === "string" ? value : ""
}

/** A field that is an object, or none. */
export const object = (payload: Fields, name: string): Facts | undefined => {
  const value = payload[name]
  // A JSON object is a record of JSON values.
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Facts : undefined
}
