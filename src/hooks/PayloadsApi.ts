/**
 * Payloads of single requests to a provider. Each `pre_api_request` is closed by exactly one `post_api_request` or
 * `api_request_error` with the same `api_request_id`.
 *
 * **Details**
 *
 * `request` and `response` are sanitised: JSON, redacted, bounded in size. They and `error` are what new consumers read;
 * `conversation_history`, `request_messages` and `assistant_message` are there for old ones and are made when first read.
 *
 * Source: the observer document ("Request-Scoped API Hooks"), `hermes-contract.md` §2.3, `ARCHITECTURE.md` §7.
 */
import * as Schema from "effect/Schema"
import * as Cost from "../domain/Cost.ts"
import { attempt, JsonObject, Messages, route, trace, version } from "./PayloadFields.ts"

/** Immediately before a request is sent. */
export const PreApiRequest = Schema.Struct({
  ...version,
  ...attempt,
  ...route,
  user_message: Schema.Json,
  /** Legacy; read lazily. */
  conversation_history: Messages,
  /** Legacy; read lazily. The messages of the provider's own request. */
  request_messages: Messages,
  message_count: Schema.Int,
  tool_count: Schema.Int,
  approx_input_tokens: Schema.Int,
  request_char_count: Schema.Int,
  max_tokens: Schema.NullOr(Schema.Int),
  /** Seconds since the epoch. */
  started_at: Schema.Finite,
  ...trace,
  /** `{ method, body }`, sanitised. */
  request: JsonObject
})
/** See {@link PreApiRequest}. */
export type PreApiRequest = typeof PreApiRequest.Type

/** Token counters under the documents' names; `domain/Usage.toWire` makes them. */
export const UsageCounters = Schema.Struct({
  input_tokens: Schema.Int,
  output_tokens: Schema.Int,
  cache_read_tokens: Schema.Int,
  cache_write_tokens: Schema.Int,
  reasoning_tokens: Schema.Int,
  request_count: Schema.Int,
  prompt_tokens: Schema.Int,
  total_tokens: Schema.Int,
  completion_tokens: Schema.Int,
  cache_creation_tokens: Schema.Int
})
/** See {@link UsageCounters}. */
export type UsageCounters = typeof UsageCounters.Type

const timing = {
  /** Seconds until the first piece of an answer that streamed was there; absent where none did. */
  time_to_first_token: Schema.optionalKey(Schema.Finite),
  /** Seconds that the request took. */
  api_duration: Schema.Finite,
  /** Seconds since the epoch. */
  started_at: Schema.Finite,
  /** `started_at + api_duration`. */
  ended_at: Schema.Finite
}

/** A request was answered. */
export const PostApiRequest = Schema.Struct({
  ...version,
  ...attempt,
  ...route,
  ...timing,
  finish_reason: Schema.NullOr(Schema.String),
  message_count: Schema.Int,
  /** The model that answered, as the API names it. */
  response_model: Schema.NullOr(Schema.String),
  /** The effective request, sanitised. */
  request: JsonObject,
  /** `{ model, finish_reason, assistant_message, usage }`, sanitised. */
  response: JsonObject,
  usage: Schema.NullOr(UsageCounters),
  /** US dollars by the list of prices; null where nobody names a price. */
  estimated_cost_usd: Schema.NullOr(Schema.Finite),
  cost_status: Cost.Status,
  cost_source: Cost.Source,
  /** Legacy; read lazily. */
  assistant_message: Schema.Json,
  assistant_content_chars: Schema.Int,
  assistant_tool_call_count: Schema.Int,
  ...trace
})
/** See {@link PostApiRequest}. */
export type PostApiRequest = typeof PostApiRequest.Type

/** A request failed, was cut by an interrupt, or was answered with something that is no answer. */
export const ApiRequestError = Schema.Struct({
  ...version,
  ...attempt,
  ...route,
  ...timing,
  status_code: Schema.NullOr(Schema.Int),
  max_retries: Schema.Int,
  retryable: Schema.Boolean,
  /** The classifier's word: `rate_limit`, `billing`, …, `invalid_response`, `interrupted`. */
  reason: Schema.String,
  error: Schema.Struct({ type: Schema.String, message: Schema.String }),
  /** The request that failed, sanitised. */
  request: JsonObject,
  ...trace
})
/** See {@link ApiRequestError}. */
export type ApiRequestError = typeof ApiRequestError.Type
