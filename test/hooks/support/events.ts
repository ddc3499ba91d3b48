// Fields of events, and a logger that remembers, for the tests of hooks.
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import type { Fields } from "../../../src/hooks/Payloads.ts"
import { ApiRequestId, SessionId, TaskId, ToolCallId, TurnId } from "../../../src/base/domain/Ids.ts"

const ids = {
  session_id: SessionId.make("20260101_120000_abcdef"),
  task_id: TaskId.make("task-1"),
  turn_id: TurnId.make("20260101_120000_abcdef:00000001")
}

export const toolCall: Fields<"pre_tool_call"> = {
  ...ids,
  tool_name: "terminal",
  tool_call_id: ToolCallId.make("call_1"),
  api_request_id: ApiRequestId.make("20260101_120000_abcdef:00000001:api:1"),
  args: { command: "ls" },
  middleware_trace: []
}

export const toolDone: Fields<"post_tool_call"> = {
  ...toolCall,
  result: "README.md",
  duration_ms: 3,
  status: "ok",
  error_type: null,
  error_message: null
}

const { middleware_trace: _, ...untraced } = toolDone
export const toolResult: Fields<"transform_tool_result"> = untraced

export const turn: Fields<"pre_llm_call"> = {
  ...ids,
  user_message: "hello",
  conversation_history: [{ role: "user", content: "hello" }],
  is_first_turn: true,
  model: "gpt-test",
  platform: "cli",
  sender_id: ""
}

export const output: Fields<"transform_llm_output"> = {
  session_id: ids.session_id,
  response_text: "hello",
  model: "gpt-test",
  platform: "cli"
}

export const terminal: Fields<"transform_terminal_output"> = {
  command: "ls",
  output: "README.md",
  returncode: 0,
  task_id: ids.task_id,
  env_type: "local"
}

export const sessionEnd: Fields<"on_session_end"> = {
  ...ids,
  completed: true,
  interrupted: false,
  model: "gpt-test",
  platform: "cli"
}

const attempt = {
  ...ids,
  api_request_id: ApiRequestId.make("20260101_120000_abcdef:00000001:api:1"),
  api_call_count: 1,
  retry_count: 0,
  model: "gpt-test",
  platform: "cli",
  provider: "custom",
  base_url: "http://127.0.0.1:1",
  api_mode: "chat_completions" as const
}

export const apiRequest: Fields<"pre_api_request"> = {
  ...attempt,
  user_message: "hello",
  conversation_history: [{ role: "user", content: "hello" }],
  request_messages: [{ role: "user", content: "hello" }],
  message_count: 1,
  tool_count: 0,
  approx_input_tokens: 2,
  request_char_count: 40,
  max_tokens: null,
  started_at: 1_700_000_000.5,
  middleware_trace: [{ source: "plugin", reason: "shorter" }],
  request: { method: "POST", body: { model: "gpt-test", messages: [{ role: "user", content: "hello" }] } }
}

export const apiAnswer: Fields<"post_api_request"> = {
  ...attempt,
  api_duration: 0.25,
  started_at: 1_700_000_000.5,
  ended_at: 1_700_000_000.75,
  finish_reason: "stop",
  message_count: 1,
  response_model: "gpt-test-1",
  request: apiRequest.request,
  response: { model: "gpt-test-1", finish_reason: "stop", assistant_message: { role: "assistant", content: "hi" } },
  usage: {
    input_tokens: 1,
    output_tokens: 1,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    request_count: 1,
    prompt_tokens: 1,
    total_tokens: 2,
    completion_tokens: 1,
    cache_creation_tokens: 0
  },
  estimated_cost_usd: 0.0046,
  cost_status: "estimated",
  cost_source: "official_docs_snapshot",
  assistant_message: { role: "assistant", content: "hi" },
  assistant_content_chars: 2,
  assistant_tool_call_count: 0,
  middleware_trace: []
}

export const apiError: Fields<"api_request_error"> = {
  ...attempt,
  api_duration: 0.25,
  started_at: 1_700_000_000.5,
  ended_at: 1_700_000_000.75,
  status_code: 429,
  max_retries: 3,
  retryable: true,
  reason: "rate_limit",
  error: { type: "RateLimitError", message: "slow down" },
  request: apiRequest.request,
  middleware_trace: []
}

const question = {
  session_id: ids.session_id,
  turn_id: ids.turn_id,
  tool_call_id: ToolCallId.make("call_1"),
  command: "rm -rf build",
  description: "recursive delete",
  pattern_key: "recursive delete",
  pattern_keys: ["recursive delete"],
  session_key: "cli:1",
  surface: "cli"
}

export const approvalAsked: Fields<"pre_approval_request"> = question
export const approvalGiven: Fields<"post_approval_response"> = { ...question, choice: "once" }

const link = {
  parent_session_id: ids.session_id,
  parent_turn_id: ids.turn_id,
  parent_subagent_id: "",
  child_session_id: SessionId.make("20260101_120001_bcdefa"),
  child_subagent_id: "sa-0",
  child_role: "leaf"
}

export const childStarted: Fields<"subagent_start"> = { ...link, child_goal: "count" }
export const childStopped: Fields<"subagent_stop"> = {
  ...link,
  child_summary: "42",
  child_status: "completed",
  duration_ms: 12
}

/** One event of every hook. */
export const every = {
  on_session_start: { session_id: ids.session_id, model: "gpt-test", platform: "cli" },
  on_session_end: sessionEnd,
  on_session_finalize: { session_id: ids.session_id, platform: "cli", reason: "session_boundary" },
  on_session_reset: { session_id: link.child_session_id, platform: "cli", reason: "new_session" },
  pre_llm_call: turn,
  post_llm_call: {
    ...ids,
    user_message: "hello",
    assistant_response: "hi",
    conversation_history: [],
    model: "gpt-test",
    platform: "cli"
  },
  transform_llm_output: output,
  pre_api_request: apiRequest,
  post_api_request: apiAnswer,
  api_request_error: apiError,
  pre_tool_call: toolCall,
  post_tool_call: toolDone,
  transform_tool_result: toolResult,
  transform_terminal_output: terminal,
  pre_approval_request: approvalAsked,
  post_approval_response: approvalGiven,
  subagent_start: childStarted,
  subagent_stop: childStopped
}

/** Runs with a logger that keeps what is warned about. */
export const withWarnings = <A, E, R>(
  use: (warnings: ReadonlyArray<string>) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  const warnings: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => {
    if (logLevel === "Warn") warnings.push(String(Array.isArray(message) ? message.join(" ") : message))
  })
  return use(warnings).pipe(
    Effect.provide(Logger.layer([logger])),
    Effect.provideService(References.MinimumLogLevel, "Debug")
  )
}
