/**
 * The table of all hooks: payload, answers, closing events. Types, Schemas, validation, the list of names, shell hooks
 * and the pairing of events are derived from it.
 *
 * **Details**
 *
 * A row with `answer` asks: its listeners may change the run, and have 30 seconds unless a setting says otherwise. A
 * row without one only notifies: its listeners have 5 seconds. `closedBy` lists the events of which exactly one follows
 * the opening event, on every path. Rows are in the order in which a session meets them.
 *
 * `request` and `response` are sanitised: JSON, redacted, bounded in size. They and `error` are what new consumers
 * read; `conversation_history`, `request_messages` and `assistant_message` are there for old ones and are made when
 * first read.
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
 * Treatment of the fields whose values an emitter hands in as they are: `copy` at once, `bound` in size and `late` when
 * first read, `made` then by the function that is handed in. Instead of a value that is made late an emitter may hand
 * in a function that returns it. Values of all other fields have their payload's type already.
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
  /** The Schema of the payload that listeners get. */
  readonly payload: Schema.Constraint
  /** Reads and merges answers; absent when listeners only observe. */
  readonly answer?: Answers.Rule<never, string> | Answers.Rule<never, Answers.Block | Answers.Approve>
  /** Events that may close this one. */
  readonly closedBy?: ReadonlyArray<string>
  /** True when a shell hook may name the tools that it is run for. */
  readonly matchesTools?: true
  /** Fields of a sample event in addition to the ids, for trying out shell hooks. */
  readonly sample?: Readonly<Record<string, unknown>>
}

/** A payload with its version, which the hooks service puts there. */
const makePayloadSchema = <const Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.Struct({ telemetry_schema_version: Schema.Literal(observerVersion), ...fields })

/** An id, or the empty string if absent: consumers of the contract expect the field to be a string always. */
const allowEmpty = <S extends Schema.Constraint>(id: S): Schema.Union<readonly [S, Schema.Literal<"">]> =>
  Schema.Union([id, Schema.Literal("")])

/** A JSON object whose shape is defined elsewhere: a provider's request, a tool's arguments. */
const JsonObject = Schema.Record(Schema.String, Schema.Json)

/** A list of messages in the form of their source. */
const Messages = Schema.Array(Schema.Json)

/** Ids of the conversation, task and run. */
const run = {
  /** Session of the run. */ session_id: SessionId,
  /** Task of the run: its session, or the child that it is. */ task_id: TaskId,
  /** The run itself. */ turn_id: TurnId
}

/** Ids of an attempt to call a provider: one id per attempt, one count per step. */
const attempt = {
  ...run,
  /** The attempt. */ api_request_id: ApiRequestId,
  /** Steps of the run so far, from 1. */
  api_call_count: Schema.Int,
  /** Attempts of this step before this one, from 0. */
  retry_count: Schema.Int
}

/** Ids of a tool call and of the attempt that asked for it; empty strings where a call has no such origin. */
const call = {
  /** Name of the tool. */ tool_name: Schema.String,
  /** Task of the run. */ task_id: allowEmpty(TaskId),
  /** Session of the run. */ session_id: allowEmpty(SessionId),
  /** The call, as the model named it. */ tool_call_id: allowEmpty(ToolCallId),
  /** Run of the call. */ turn_id: allowEmpty(TurnId),
  /** Attempt whose answer has the call. */ api_request_id: allowEmpty(ApiRequestId)
}

/** The program's surface and the model that it uses. */
const model = {
  /** Name of the model, as its provider knows it. */ model: Schema.String,
  /** `cli`, `oneshot`, `batch`, `library`, … */
  platform: Schema.String
}

/** Route of the request. */
const route = {
  ...model,
  /** Name of the provider. */ provider: Schema.String,
  /** Address of the API; empty when the SDK's own is used. */ base_url: Schema.String,
  /** Protocol of the request. */ api_mode: ApiMode
}

/** Request middleware that rewrote the request, in order. */
const trace = {
  /** Request middleware that rewrote it, in order, with its reasons. */ middleware_trace: Schema.Array(
    Schema.Struct({
      source: Schema.optionalKey(Schema.String),
      reason: Schema.optionalKey(Schema.String),
      name: Schema.optionalKey(Schema.String)
    })
  )
}

const timing = {
  /** Seconds until the first part of a streamed answer arrived; absent for an answer that was not streamed. */
  time_to_first_token: Schema.optionalKey(Schema.Finite),
  /** Seconds that the request took. */
  api_duration: Schema.Finite,
  /** Seconds since the epoch. */
  started_at: Schema.Finite,
  /** `started_at + api_duration`. */
  ended_at: Schema.Finite
}

/** Change of a session's identity. */
const identity = {
  /** `cli`, `oneshot`, `batch`, `library`, … */
  platform: Schema.String,
  /** `shutdown`, `session_boundary`, `new_session`, `session_expired`, `subagent_end`, `compression`. */
  reason: Schema.optionalKey(Schema.String),
  /** The session that is given up. */ old_session_id: Schema.optionalKey(SessionId),
  /** The session in its place. */ new_session_id: Schema.optionalKey(SessionId)
}

const outcome = {
  ...call,
  /** Arguments that reached the tool. */
  args: JsonObject,
  /** Result of the tool, before `transform_tool_result`. */
  result: Schema.Json,
  /** 0 for a call that never ran. */
  duration_ms: Schema.Int,
  /** Outcome of the call. */ status: ToolStatus,
  /** Null when `status` is `ok`. Of a blocked call: a `ToolOutcome.BlockReason`. */
  error_type: Schema.NullOr(Schema.String),
  /** Text of the error; null when `status` is `ok`. */ error_message: Schema.NullOr(Schema.String)
}

const question = {
  /** Session of the call. */ session_id: allowEmpty(SessionId),
  /** Run of the call. */ turn_id: allowEmpty(TurnId),
  /** The call that is asked about. */ tool_call_id: allowEmpty(ToolCallId),
  /** The command, or the call in words. */ command: Schema.String,
  /** The question in words. */ description: Schema.String,
  /** First of the reasons to ask. */ pattern_key: Schema.String,
  /** All reasons to ask. */ pattern_keys: Schema.Array(Schema.String),
  /** Meaning of "for this session" where the question is asked. */
  session_key: Schema.String,
  /** `cli`, `smart`, or where else the question is shown. */
  surface: Schema.String
}

/**
 * Ids of a parent and its child; the closing event has them too, so that a consumer joins the two without a table of
 * its own.
 */
const link = {
  /** Session of the parent. */ parent_session_id: SessionId,
  /** Run of the parent. */ parent_turn_id: allowEmpty(TurnId),
  /** The call that delegates, if known: with it a consumer need not guess which of several calls started a child. */
  parent_tool_call_id: Schema.optionalKey(allowEmpty(ToolCallId)),
  /** Empty when the parent is not a subagent itself. */
  parent_subagent_id: Schema.String,
  /** Session of the child. */ child_session_id: SessionId,
  /** The child. */ child_subagent_id: Schema.String,
  /** Null if no role was given. */
  child_role: Schema.NullOr(Schema.String)
}

/** Token counters under the documents' names; `domain/Usage.toWire` makes them. */
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
/** See {@link UsageCounters}. */
export type UsageCounters = typeof UsageCounters.Type

/** Answer to an approval request. No answer, and an answer that says nothing, are `timeout`. */
const ApprovalChoice = Schema.Literals(["once", "session", "always", "deny", "timeout", "smart_approve", "smart_deny"])
/** See {@link ApprovalChoice}. */
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

/** All hooks by name. */
export const table = {
  /** A system prompt was built from scratch: the session is new, or its stored prompt was missing. */
  on_session_start: { payload: makePayloadSchema({ /** The session. */ session_id: SessionId, ...model }) },
  /** A run ended, however it ended; closes one run on every path. */
  on_session_end: {
    payload: makePayloadSchema({
      /** Session of the run. */ session_id: SessionId,
      /** Absent when the program stops while no run can be named. */
      task_id: Schema.optionalKey(TaskId),
      /** The run. */ turn_id: Schema.optionalKey(TurnId),
      /** Its last attempt. */ api_request_id: Schema.optionalKey(ApiRequestId),
      /** True when the run has a final answer. */ completed: Schema.Boolean,
      /** True when it was stopped. */ interrupted: Schema.Boolean,
      /** `keyboard_interrupt`, `shutdown`, or the run's exit. */
      reason: Schema.optionalKey(Schema.String),
      ...model
    })
  },
  /** A session identity is torn down. */
  on_session_finalize: {
    payload: makePayloadSchema({
      /** The session that is torn down. */ session_id: Schema.NullOr(SessionId),
      ...identity
    })
  },
  /**
   * A new identity, whose id `session_id` is, took the place of an old one; comes after the old one's
   * `on_session_finalize`.
   */
  on_session_reset: { payload: makePayloadSchema({ /** The new session. */ session_id: SessionId, ...identity }) },
  /** Before the first step of a run. A listener may answer with context for this user message. */
  pre_llm_call: {
    payload: makePayloadSchema({
      ...run,
      /** The message as the user gave it: text, or a list of parts. */
      user_message: Schema.Json,
      /** Holds the new user message already. */
      conversation_history: Messages,
      /** True when the session has no earlier messages. */ is_first_turn: Schema.Boolean,
      ...model,
      /** Empty if the sender is unknown. */
      sender_id: Schema.String
    }),
    answer: Answers.contexts,
    sample: { user_message: "Hello", conversation_history: [], is_first_turn: true }
  },
  /** After the last step of a run that has a final answer and was not interrupted. */
  post_llm_call: {
    payload: makePayloadSchema({
      ...run,
      /** The message as the user gave it. */ user_message: Schema.Json,
      /** The final text, after `transform_llm_output`. */
      assistant_response: Schema.String,
      /** The conversation with the answer. */ conversation_history: Messages,
      ...model
    })
  },
  /** The final text of a run, before anybody sees it. A listener may answer with another text. */
  transform_llm_output: {
    payload: makePayloadSchema({
      /** The final text. */ response_text: Schema.String,
      /** Session of the run. */ session_id: SessionId,
      ...model
    }),
    answer: Answers.firstText
  },
  /** Immediately before a request is sent. */
  pre_api_request: {
    payload: makePayloadSchema({
      ...attempt,
      ...route,
      /** The message as the user gave it. */ user_message: Schema.Json,
      /** The conversation of the run so far. */ conversation_history: Messages,
      /** The messages of the provider's own request. */
      request_messages: Messages,
      /** Messages of the conversation. */ message_count: Schema.Int,
      /** Tools that the model is offered. */ tool_count: Schema.Int,
      /** Estimated tokens of the request. */ approx_input_tokens: Schema.Int,
      /** Characters of the request. */ request_char_count: Schema.Int,
      /** Output limit that the request asks for; null if it asks for no limit. */ max_tokens: Schema.NullOr(
        Schema.Int
      ),
      /** Seconds since the epoch. */
      started_at: Schema.Finite,
      ...trace,
      /** `{ method, body }`. */
      request: JsonObject
    }),
    closedBy: ["post_api_request", "api_request_error"]
  },
  /** A request was answered. */
  post_api_request: {
    payload: makePayloadSchema({
      ...attempt,
      ...route,
      ...timing,
      /** Reason for which the model stopped. */ finish_reason: Schema.NullOr(Schema.String),
      /** Messages of the conversation. */ message_count: Schema.Int,
      /** The model that answered, as the API names it. */
      response_model: Schema.NullOr(Schema.String),
      /** The effective request. */
      request: JsonObject,
      /** `{ model, finish_reason, assistant_message, usage }`. */
      response: JsonObject,
      /** Tokens of the request; null where the provider did not say. */ usage: Schema.NullOr(UsageCounters),
      /** US dollars by the price list; null if the price is unknown. */
      estimated_cost_usd: Schema.NullOr(Schema.Finite),
      /** Certainty of the cost. */ cost_status: Cost.Status,
      /** Origin of the price. */ cost_source: Cost.Source,
      /** The answer as a message. */ assistant_message: Schema.Json,
      /** Characters of its text. */ assistant_content_chars: Schema.Int,
      /** Tool calls that it has. */ assistant_tool_call_count: Schema.Int,
      ...trace
    })
  },
  /** A request failed, was cut by an interrupt, or was answered with something that is not an answer. */
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
  /** Before a tool runs. A listener may answer with a directive that blocks it. */
  pre_tool_call: {
    payload: makePayloadSchema({
      ...call,
      /** After request middleware; empty when the model sent no object. */
      args: JsonObject,
      ...trace
    }),
    answer: Answers.firstDirective,
    closedBy: ["post_tool_call"],
    matchesTools: true,
    sample: sampleCall
  },
  /** A tool call is over, also one that was blocked or cancelled before the tool ran. */
  post_tool_call: { payload: makePayloadSchema({ ...outcome, ...trace }), matchesTools: true, sample: sampleOutcome },
  /** After `post_tool_call` of a call that ran. A listener may answer with another result text. */
  transform_tool_result: { payload: makePayloadSchema(outcome), answer: Answers.firstString, sample: sampleOutcome },
  /** Output of a foreground terminal command, whole. A listener may answer with another text. */
  transform_terminal_output: {
    payload: makePayloadSchema({
      /** The command line. */ command: Schema.String,
      /** Its whole output. */ output: Schema.String,
      /** Its exit code. */ returncode: Schema.Int,
      /** Task of the run. */ task_id: TaskId,
      /** `local`, `docker`, … */
      env_type: Schema.String
    }),
    answer: Answers.firstString
  },
  /** Before the question is shown whether something dangerous may run. */
  pre_approval_request: { payload: makePayloadSchema(question), closedBy: ["post_approval_response"] },
  /** The user answered, or did not in time. */
  post_approval_response: {
    payload: makePayloadSchema({
      ...question,
      /** The answer. */ choice: ApprovalChoice,
      /** `aux_llm` when a model judged. */
      decided_by: Schema.optionalKey(Schema.String)
    })
  },
  /** A child agent was made and has not run yet. */
  subagent_start: {
    payload: makePayloadSchema({ ...link, /** Task of the child. */ child_goal: Schema.String }),
    closedBy: ["subagent_stop"]
  },
  /** A child agent returned, failed or was cut. */
  subagent_stop: {
    payload: makePayloadSchema({
      ...link,
      /** Report of the child; null without a report. */ child_summary: Schema.NullOr(Schema.String),
      /** `completed`, `failed`, `interrupted`, … */
      child_status: Schema.String,
      /** Time from its start to its end. */ duration_ms: Schema.Int
    })
  }
} as const satisfies Readonly<Record<string, Row>>
