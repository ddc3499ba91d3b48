/**
 * Table of all hooks with their payloads, answers and closing events. Types, Schemas, validation, the list of names,
 * shell hooks and the pairing of events are derived from it.
 *
 * **Details**
 *
 * Listeners of a row with `answer` may change the run, and have 30 seconds unless a setting changes the deadline.
 * Listeners of a row without `answer` are only notified, and have 5 seconds. `closedBy` lists the events of which
 * exactly one follows the opening event, on every path. Rows are in the order in which the events occur in a session.
 *
 * `request` and `response` are sanitised: redacted JSON of limited size. New consumers should read these fields and
 * `error`. `conversation_history`, `request_messages` and `assistant_message` exist for old consumers and are computed
 * when first read.
 *
 * Source: the observer document, `hermes-contract.md` §1.6, §2.2, §2.3, §2.6, §2.7, §2.9 and §3.7, `ARCHITECTURE.md`
 * §7.
 */
import * as Schema from "effect/Schema"
import { observerVersion } from "../base/domain/Version.ts"
import { ApiMode } from "../base/domain/ApiMode.ts"
import * as Cost from "../base/domain/Cost.ts"
import { ApiRequestId, SessionId, TaskId, ToolCallId, TurnId } from "../base/domain/Ids.ts"
import { ToolStatus } from "../base/domain/RunEvent.ts"
import * as Answers from "./Answers.ts"

/**
 * Treatment of the fields whose values an emitter passes unchanged. `copy` copies the value immediately. When the field
 * is first read, `bound` copies the value with a size limit, `late` copies it, and `made` calls the passed function.
 * For a lazy field an emitter may pass a function that returns the value. Values of all other fields already have the
 * type of the payload.
 */
export const liveFields = {
  user_message: "copy",
  args: "copy",
  result: "copy",
  request: "bound",
  response: "bound",
  conversation_history: "late",
  request_messages: "late",
  assistant_message: "late",
  usage: "made",
  approx_input_tokens: "made",
  request_char_count: "made"
} as const

/** One row of the table. */
export interface Row {
  /** Schema of the payload that listeners receive. */
  readonly payload: Schema.Constraint
  /** Rule that validates and merges answers. Absent if listeners only observe. */
  readonly answer?: Answers.Rule<never, string> | Answers.Rule<never, Answers.Block | Answers.Approve>
  /** Names of the events that may close this event. */
  readonly closedBy?: ReadonlyArray<string>
  /** True if a shell hook may name the tools for which it runs. */
  readonly matchesTools?: true
  /** Fields of a sample event in addition to the ids, for trying out shell hooks. */
  readonly sample?: Readonly<Record<string, unknown>>
}

/** Creates the Schema of a payload with a version, which the hooks service sets. */
const makePayloadSchema = <const Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.Struct({ telemetry_schema_version: Schema.Literal(observerVersion), ...fields })

/**
 * Returns the Schema of an id, or of an empty string if it is absent: consumers of the contract always expect a string.
 */
const allowEmpty = <S extends Schema.Constraint>(id: S): Schema.Union<readonly [S, Schema.Literal<"">]> =>
  Schema.Union([id, Schema.Literal("")])

/** A JSON object whose shape is defined elsewhere, such as a provider's request or a tool's arguments. */
const JsonObject = Schema.Record(Schema.String, Schema.Json)

/** A list of messages in the format of their source. */
const Messages = Schema.Array(Schema.Json)

/** Ids of the conversation, task and run. */
const run = {
  /** Session of the run. */ session_id: SessionId,
  /** Task of the run: its session id, or the id of the child. */ task_id: TaskId,
  /** Id of the run. */ turn_id: TurnId
}

/** Ids of an attempt to call a provider: one id per attempt, one count per step. */
const attempt = {
  ...run,
  /** Id of the attempt. */ api_request_id: ApiRequestId,
  /** Number of steps of the run so far, starting with 1. */
  api_call_count: Schema.Int,
  /** Number of earlier attempts of this step. */
  retry_count: Schema.Int
}

/** Ids of a tool call and of the attempt that requested it. They are empty strings for a call without this origin. */
const call = {
  /** Name of the tool. */ tool_name: Schema.String,
  /** Task of the run. */ task_id: allowEmpty(TaskId),
  /** Session of the run. */ session_id: allowEmpty(SessionId),
  /** Id that the model gave the call. */ tool_call_id: allowEmpty(ToolCallId),
  /** Run to which the call belongs. */ turn_id: allowEmpty(TurnId),
  /** Attempt whose answer contains the call. */ api_request_id: allowEmpty(ApiRequestId)
}

/** Surface of the program and the model in use. */
const model = {
  /** Name of the model at its provider. */ model: Schema.String,
  /** Surface, such as `cli`, `oneshot`, `batch` or `library`. */
  platform: Schema.String
}

/** Route of the request. */
const route = {
  ...model,
  /** Name of the provider. */ provider: Schema.String,
  /** Address of the API, empty if the SDK's default is used. */ base_url: Schema.String,
  /** Protocol of the request. */ api_mode: ApiMode
}

/** Request middleware that rewrote the request, in order. */
const trace = {
  /** Request middleware that rewrote the request, in order, with its reasons. */ middleware_trace: Schema.Array(
    Schema.Struct({
      source: Schema.optionalKey(Schema.String),
      reason: Schema.optionalKey(Schema.String),
      name: Schema.optionalKey(Schema.String)
    })
  )
}

const timing = {
  /** Seconds until the first part of a streamed answer arrived. Absent for an answer that was not streamed. */
  time_to_first_token: Schema.optionalKey(Schema.Finite),
  /** Duration of the request, in seconds. */
  api_duration: Schema.Finite,
  /** Start of the request, in seconds since the epoch. */
  started_at: Schema.Finite,
  /** End of the request: `started_at + api_duration`. */
  ended_at: Schema.Finite
}

/** Change of a session's identity. */
const identity = {
  /** Surface, such as `cli`, `oneshot`, `batch` or `library`. */
  platform: Schema.String,
  /**
   * Reason for the change: `shutdown`, `session_boundary`, `new_session`, `session_expired`, `subagent_end` or
   * `compression`.
   */
  reason: Schema.optionalKey(Schema.String),
  /** Session that ended. */ old_session_id: Schema.optionalKey(SessionId),
  /** Session that replaces the old one. */ new_session_id: Schema.optionalKey(SessionId)
}

const outcome = {
  ...call,
  /** Arguments that reached the tool. */
  args: JsonObject,
  /** Result of the tool, before `transform_tool_result`. */
  result: Schema.Json,
  /** Duration of the call in milliseconds, 0 for a call that never ran. */
  duration_ms: Schema.Int,
  /** Outcome of the call. */ status: ToolStatus,
  /** Kind of the error, null if `status` is `ok`. A `ToolOutcome.BlockReason` for a blocked call. */
  error_type: Schema.NullOr(Schema.String),
  /** Text of the error, null if `status` is `ok`. */ error_message: Schema.NullOr(Schema.String)
}

const question = {
  /** Session to which the call belongs. */ session_id: allowEmpty(SessionId),
  /** Run to which the call belongs. */ turn_id: allowEmpty(TurnId),
  /** Id of the tool call that needs approval. */ tool_call_id: allowEmpty(ToolCallId),
  /** Command, or a description of the call. */ command: Schema.String,
  /** Text of the question. */ description: Schema.String,
  /** Key of the first reason to ask for approval. */ pattern_key: Schema.String,
  /** Keys of all reasons to ask for approval. */ pattern_keys: Schema.Array(Schema.String),
  /** Key of the session to which the answer "for this session" applies. */
  session_key: Schema.String,
  /** Surface on which the question is shown, such as `cli` or `smart`. */
  surface: Schema.String
}

/**
 * Ids of a parent and its child. The closing event contains them too, so that a consumer can match the two events
 * without storing ids.
 */
const link = {
  /** Session of the parent. */ parent_session_id: SessionId,
  /** Run of the parent. */ parent_turn_id: allowEmpty(TurnId),
  /** The delegating tool call, if known. It tells a consumer which of several calls started the child. */
  parent_tool_call_id: Schema.optionalKey(allowEmpty(ToolCallId)),
  /** Id of the parent as a subagent, empty if the parent is not a subagent itself. */
  parent_subagent_id: Schema.String,
  /** Session of the child. */ child_session_id: SessionId,
  /** Id of the child. */ child_subagent_id: Schema.String,
  /** Role of the child, null if no role was given. */
  child_role: Schema.NullOr(Schema.String)
}

/** Token counters under the names that the hook specification defines. Created by `domain/Usage.toWire`. */
const UsageCounters = Schema.Struct({
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
/** Token counters; see {@link UsageCounters}. */
export type UsageCounters = typeof UsageCounters.Type

/** Answer to an approval request. A missing or invalid answer is `timeout`. */
const ApprovalChoice = Schema.Literals([
  "once",
  "session",
  "always",
  "deny",
  "timeout",
  "suspended",
  "smart_approve",
  "smart_deny"
])
/** Answer to an approval request; see {@link ApprovalChoice}. */
export type ApprovalChoice = typeof ApprovalChoice.Type

const sampleCall = { tool_call_id: "test-call", args: { command: "echo hello" } }
const sampleOutcome = {
  ...sampleCall,
  result: "hello",
  status: "ok",
  error_type: null,
  error_message: null,
  duration_ms: 12
}

/** All hooks, by name. */
export const table = {
  /** A system prompt was built from scratch: the session is new, or its stored prompt was missing. */
  on_session_start: { payload: makePayloadSchema({ /** Id of the session. */ session_id: SessionId, ...model }) },
  /** A run ended. Emitted once for each run, on every path. */
  on_session_end: {
    payload: makePayloadSchema({
      /** Session of the run. */ session_id: SessionId,
      /** Task of the run, absent if the program stops and no run can be named. */
      task_id: Schema.optionalKey(TaskId),
      /** Id of the run. */ turn_id: Schema.optionalKey(TurnId),
      /** Id of the run's last attempt. */ api_request_id: Schema.optionalKey(ApiRequestId),
      /** True if the run has a final answer. */ completed: Schema.Boolean,
      /** True if the run was stopped. */ interrupted: Schema.Boolean,
      /** Reason for the end: `keyboard_interrupt`, `shutdown`, or the run's exit. */
      reason: Schema.optionalKey(Schema.String),
      ...model
    })
  },
  /** A session ended and will not be continued. */
  on_session_finalize: {
    payload: makePayloadSchema({ /** Id of the ended session. */ session_id: Schema.NullOr(SessionId), ...identity })
  },
  /** A new session, `session_id`, replaced an old one. Emitted after the old session's `on_session_finalize`. */
  on_session_reset: {
    payload: makePayloadSchema({ /** Id of the new session. */ session_id: SessionId, ...identity })
  },
  /** Emitted before the first step of a run. A listener may answer with context for this user message. */
  pre_llm_call: {
    payload: makePayloadSchema({
      ...run,
      /** The user's message, unchanged: text, or a list of parts. */
      user_message: Schema.Json,
      /** Conversation, including the new user message. */
      conversation_history: Messages,
      /** True if the session has no earlier messages. */ is_first_turn: Schema.Boolean,
      ...model,
      /** Id of the sender, empty if unknown. */
      sender_id: Schema.String
    }),
    answer: Answers.contexts,
    sample: { user_message: "Hello", conversation_history: [], is_first_turn: true }
  },
  /** Emitted after the last step of a run that has a final answer and was not interrupted. */
  post_llm_call: {
    payload: makePayloadSchema({
      ...run,
      /** The user's message, unchanged. */ user_message: Schema.Json,
      /** The final text, after `transform_llm_output`. */
      assistant_response: Schema.String,
      /** True if `transform_llm_output` changed the text. Absent otherwise. */
      response_transformed: Schema.optionalKey(Schema.Boolean),
      /** Conversation, including the answer. */ conversation_history: Messages,
      ...model
    })
  },
  /** The final text of a run, before it is shown. A listener may answer with a replacement text. */
  transform_llm_output: {
    payload: makePayloadSchema({
      /** The final text. */ response_text: Schema.String,
      /** Session of the run. */ session_id: SessionId,
      ...model
    }),
    answer: Answers.firstText
  },
  /** Emitted immediately before a request is sent. */
  pre_api_request: {
    payload: makePayloadSchema({
      ...attempt,
      ...route,
      /** The user's message, unchanged. */ user_message: Schema.Json,
      /** The conversation of the run so far. */ conversation_history: Messages,
      /** Messages of the provider-specific request. */
      request_messages: Messages,
      /** Number of messages in the conversation. */ message_count: Schema.Int,
      /** Number of tools offered to the model. */ tool_count: Schema.Int,
      /** Estimated number of tokens in the request. */ approx_input_tokens: Schema.Int,
      /** Number of characters in the request. */ request_char_count: Schema.Int,
      /** Output limit in the request, null without a limit. */ max_tokens: Schema.NullOr(Schema.Int),
      /** Time in seconds since the epoch. */
      started_at: Schema.Finite,
      ...trace,
      /** Request as `{ method, body }`. */
      request: JsonObject
    }),
    closedBy: ["post_api_request", "api_request_error"]
  },
  /** Emitted after a request was answered. */
  post_api_request: {
    payload: makePayloadSchema({
      ...attempt,
      ...route,
      ...timing,
      /** Reason why the model stopped. */ finish_reason: Schema.NullOr(Schema.String),
      /** Number of messages in the conversation. */ message_count: Schema.Int,
      /** Name of the model that answered, as returned by the API. */
      response_model: Schema.NullOr(Schema.String),
      /** Request that was actually sent. */
      request: JsonObject,
      /** Answer as `{ model, finish_reason, assistant_message, usage }`. */
      response: JsonObject,
      /** Token counts of the request, or null if the provider did not report any. */ usage:
        Schema.NullOr(UsageCounters),
      /** Cost in US dollars by the price list, null if the price is unknown. */
      estimated_cost_usd: Schema.NullOr(Schema.Finite),
      /** Reliability of the cost. */ cost_status: Cost.Status,
      /** Origin of the price. */ cost_source: Cost.Source,
      /** The answer as a message. */ assistant_message: Schema.Json,
      /** Number of characters in its text. */ assistant_content_chars: Schema.Int,
      /** Number of tool calls in the answer. */ assistant_tool_call_count: Schema.Int,
      ...trace
    })
  },
  /** A request failed, was interrupted, or received an invalid answer. */
  api_request_error: {
    payload: makePayloadSchema({
      ...attempt,
      ...route,
      ...timing,
      /** HTTP status; null without an answer. */ status_code: Schema.NullOr(Schema.Int),
      /** Attempts on one route at most; `null` if the retry policy names no number. */ max_retries: Schema.NullOr(
        Schema.Int
      ),
      /** True when another attempt may help. */ retryable: Schema.Boolean,
      /** The classifier's word: `rate_limit`, `billing`, …, `invalid_response`, `interrupted`. */
      reason: Schema.String,
      /** Kind and text of the error. */ error: Schema.Struct({ type: Schema.String, message: Schema.String }),
      /** The request that failed. */
      request: JsonObject,
      ...trace
    })
  },
  /** Emitted before a tool runs. A listener may answer with a directive that blocks the call. */
  pre_tool_call: {
    payload: makePayloadSchema({
      ...call,
      /** Arguments after request middleware, empty if the model did not send an object. */
      args: JsonObject,
      ...trace
    }),
    answer: Answers.firstDirective,
    closedBy: ["post_tool_call"],
    matchesTools: true,
    sample: sampleCall
  },
  /** A tool call ended. Also emitted for a call that was blocked or cancelled before the tool ran. */
  post_tool_call: { payload: makePayloadSchema({ ...outcome, ...trace }), matchesTools: true, sample: sampleOutcome },
  /** Emitted after `post_tool_call` of a call that ran. A listener may answer with a replacement result. */
  transform_tool_result: { payload: makePayloadSchema(outcome), answer: Answers.firstString, sample: sampleOutcome },
  /** The complete output of a foreground terminal command. A listener may answer with a replacement text. */
  transform_terminal_output: {
    payload: makePayloadSchema({
      /** The command line. */ command: Schema.String,
      /** Complete output of the command. */ output: Schema.String,
      /** Exit code of the command. */ returncode: Schema.Int,
      /** Task of the run. */ task_id: TaskId,
      /** Type of environment, such as `local` or `docker`. */
      env_type: Schema.String
    }),
    answer: Answers.firstString
  },
  /** Emitted before the user or a judging model is asked to approve a dangerous action. */
  pre_approval_request: { payload: makePayloadSchema(question), closedBy: ["post_approval_response"] },
  /** The approval request was answered or timed out. */
  post_approval_response: {
    payload: makePayloadSchema({
      ...question,
      /** Answer to the request. */ choice: ApprovalChoice,
      /** Name of the decider: `aux_llm` if a model decided. */
      decided_by: Schema.optionalKey(Schema.String)
    })
  },
  /** A child agent was created and has not run yet. */
  subagent_start: {
    payload: makePayloadSchema({ ...link, /** Task of the child. */ child_goal: Schema.String }),
    closedBy: ["subagent_stop"]
  },
  /** A child agent returned, failed or was interrupted. */
  subagent_stop: {
    payload: makePayloadSchema({
      ...link,
      /** Report of the child, null if there is no report. */ child_summary: Schema.NullOr(Schema.String),
      /** Status of the child, such as `completed`, `failed` or `interrupted`. */
      child_status: Schema.String,
      /** Duration of the child, in milliseconds. */ duration_ms: Schema.Int
    })
  }
} as const satisfies Readonly<Record<string, Row>>
