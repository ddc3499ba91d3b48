/**
 * Fields that payloads of several families share: the schema version, the correlation ids, the route and the middleware trace.
 *
 * Source: the observer document ("Correlation IDs"), `hermes-contract.md` §2.3 and §2.7.
 */
import * as Schema from "effect/Schema"
import { ApiMode } from "../domain/ApiMode.ts"
import { ApiRequestId, SessionId, TaskId, ToolCallId, TurnId } from "../domain/Ids.ts"

/** The value of `telemetry_schema_version`. */
export const observerVersion = "hermes.observer.v1"

/** In every payload; {@link Hooks} puts it there. */
export const version = {
  telemetry_schema_version: Schema.Literal(observerVersion)
}

/** An id, or the empty string where there is none: consumers of the contract expect the field to be a string always. */
export const orEmpty = <S extends Schema.Constraint>(id: S): Schema.Union<readonly [S, Schema.Literal<"">]> =>
  Schema.Union([id, Schema.Literal("")])

/** Ids of the conversation, task and run. */
export const run = {
  session_id: SessionId,
  task_id: TaskId,
  turn_id: TurnId
}

/** Ids of an attempt to call a provider (`ARCHITECTURE.md` §7: one id per attempt, one count per step). */
export const attempt = {
  ...run,
  api_request_id: ApiRequestId,
  /** Steps of the run so far, from 1. */
  api_call_count: Schema.Int,
  /** Attempts of this step before this one, from 0. */
  retry_count: Schema.Int
}

/** Ids of a tool call and of the attempt that asked for it; empty strings where a call has no such origin. */
export const call = {
  tool_name: Schema.String,
  task_id: orEmpty(TaskId),
  session_id: orEmpty(SessionId),
  tool_call_id: orEmpty(ToolCallId),
  turn_id: orEmpty(TurnId),
  api_request_id: orEmpty(ApiRequestId)
}

/** The program's surface and the model behind it. */
export const model = {
  model: Schema.String,
  /** `cli`, `oneshot`, `batch`, `library`, … */
  platform: Schema.String
}

/** Route of the request. `base_url` is empty when the SDK's own address is used. */
export const route = {
  ...model,
  provider: Schema.String,
  base_url: Schema.String,
  api_mode: ApiMode
}

/** Request middleware that rewrote the payload, in order (`hermes-contract.md` §1.6). */
export const trace = {
  middleware_trace: Schema.Array(Schema.Struct({
    source: Schema.optionalKey(Schema.String),
    reason: Schema.optionalKey(Schema.String),
    name: Schema.optionalKey(Schema.String)
  }))
}

/** A JSON object whose shape somebody else owns: a provider's request, a tool's arguments. */
export const JsonObject = Schema.Record(Schema.String, Schema.Json)

/** A list of messages in the form of whoever made them. */
export const Messages = Schema.Array(Schema.Json)
