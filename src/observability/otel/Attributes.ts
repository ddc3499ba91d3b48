/**
 * The attributes of spans under the names of the GenAI semantic conventions; those that the conventions do not know are under
 * `hermes.`. Pure.
 *
 * **Details**
 *
 * What was said (prompts, answers, arguments, results) is among them only where the application or the user asks for it.
 * It comes from payloads, which are redacted and bounded.
 *
 * Source: OpenTelemetry, "Semantic Conventions for GenAI agent and framework spans".
 */
import type * as Schema from "effect/Schema"
import { type Fields, object, text } from "../atof/Facts.ts"
import type { Kind } from "../span/Tracker.ts"
import * as Content from "./Content.ts"

/** A value of an attribute. */
export type Value = string | number | boolean | ReadonlyArray<string>

/** Attributes by name. */
export type Attributes = Readonly<Record<string, Value>>

/** What all spans say of the agent, and whether they say what was said. */
export interface Options {
  readonly agentName: string
  readonly captureContent: boolean
}

/** Names of the conventions for providers that they know. */
const providers: Readonly<Record<string, string>> = {
  "openai-codex": "openai",
  bedrock: "aws.bedrock",
  azure: "azure.ai.openai",
  google: "gcp.gemini",
  gemini: "gcp.gemini",
  vertex: "gcp.vertex_ai",
  xai: "x_ai",
  mistral: "mistral_ai",
  moonshot: "moonshot_ai",
  kimi: "moonshot_ai"
}

/** The name of a provider as the conventions know it. */
export const providerOf = (payload: Fields): string => {
  const name = text(payload, "provider")
  return Object.hasOwn(providers, name) ? providers[name] ?? name : name
}

/** Without those that say nothing. */
const said = (facts: Readonly<Record<string, Schema.Json | undefined>>): Attributes => {
  const out: Record<string, Value> = {}
  for (const [name, value] of Object.entries(facts)) {
    if (typeof value === "number" || typeof value === "boolean" || (typeof value === "string" && value !== "")) out[name] = value
    else if (Array.isArray(value) && value.length > 0) out[name] = value.map(String)
  }
  return out
}

const server = (payload: Fields): Attributes => {
  const url = URL.parse(text(payload, "base_url"))
  if (url === null) return {}
  const standard = url.protocol === "https:" ? 443 : 80
  return { "server.address": url.hostname, "server.port": url.port === "" ? standard : Number(url.port) }
}

const model = (payload: Fields, { captureContent }: Options): Attributes => {
  const body = object(object(payload, "request") ?? {}, "body") ?? {}
  const content = captureContent ? Content.asked(payload) : undefined
  return {
    ...said({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": providerOf(payload),
      "gen_ai.request.model": payload["model"],
      "gen_ai.conversation.id": payload["session_id"],
      "gen_ai.request.max_tokens": payload["max_tokens"],
      "gen_ai.request.temperature": body["temperature"],
      "gen_ai.request.top_p": body["top_p"],
      "gen_ai.request.stream": body["stream"],
      "hermes.api_mode": payload["api_mode"],
      "hermes.platform": payload["platform"],
      "hermes.api_request_id": payload["api_request_id"],
      "hermes.step": payload["api_call_count"],
      "hermes.retry_count": payload["retry_count"]
    }),
    ...server(payload),
    ...(content === undefined ? {} : { "gen_ai.input.messages": JSON.stringify(content.messages) }),
    ...(content === undefined || content.system.length === 0 ? {} : { "gen_ai.system_instructions": JSON.stringify(content.system) })
  }
}

/** Of a span that begins. */
export const opening = (kind: Kind, payload: Fields, options: Options): Attributes => {
  const { agentName, captureContent } = options
  switch (kind) {
    case "model":
      return model(payload, options)
    case "tool":
      return said({
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": payload["tool_name"],
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": payload["tool_call_id"],
        "gen_ai.conversation.id": payload["session_id"],
        "gen_ai.tool.call.arguments": captureContent ? JSON.stringify(payload["args"] ?? {}) : undefined
      })
    case "approval":
      return said({
        "gen_ai.tool.call.id": payload["tool_call_id"],
        "hermes.approval.pattern": payload["pattern_key"],
        "hermes.approval.surface": payload["surface"],
        "hermes.approval.command": captureContent ? payload["command"] : undefined
      })
    case "step":
      return said({ "hermes.step": payload["api_call_count"], "gen_ai.conversation.id": payload["session_id"] })
    case "child":
      return said({
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agentName,
        "gen_ai.agent.id": payload["child_subagent_id"],
        "gen_ai.conversation.id": payload["child_session_id"],
        "hermes.child.role": payload["child_role"],
        "hermes.parent.conversation.id": payload["parent_session_id"],
        "gen_ai.input.messages": captureContent ? JSON.stringify([Content.plain("user", payload["child_goal"] ?? "")]) : undefined
      })
    case "run":
      return said({
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agentName,
        "gen_ai.conversation.id": payload["session_id"],
        "gen_ai.provider.name": providerOf(payload),
        "gen_ai.input.messages": captureContent ? JSON.stringify([Content.plain("user", payload["user_message"] ?? "")]) : undefined,
        ...known(payload)
      })
  }
}

/** What is known of a run besides. */
export const known = (payload: Fields): Readonly<Record<string, Schema.Json | undefined>> => ({
  "gen_ai.request.model": payload["model"],
  "hermes.turn_id": payload["turn_id"],
  "hermes.task_id": payload["task_id"],
  "hermes.platform": payload["platform"],
  "user.id": payload["sender_id"]
})

/** Of a run, when its final text is there. */
export const final = (payload: Fields, { captureContent }: Options): Attributes =>
  captureContent
    ? { "gen_ai.output.messages": JSON.stringify([{ ...Content.plain("assistant", payload["assistant_response"] ?? ""), finish_reason: "stop" }]) }
    : {}

/** The counters of an answer. */
export const usage = (payload: Fields): Readonly<Record<string, Schema.Json>> => object(payload, "usage") ?? {}

/** Of a span that ends, by the event that ends it. */
export const closing = (ending: string, payload: Fields, { captureContent }: Options): Attributes => {
  switch (ending) {
    case "post_api_request": {
      const counters = usage(payload)
      return said({
        "gen_ai.response.model": payload["response_model"],
        "gen_ai.response.finish_reasons": payload["finish_reason"] === null ? undefined : [payload["finish_reason"] ?? ""],
        "gen_ai.response.time_to_first_chunk": payload["time_to_first_token"],
        "gen_ai.usage.input_tokens": counters["prompt_tokens"],
        "gen_ai.usage.output_tokens": counters["output_tokens"],
        "gen_ai.usage.cache_read.input_tokens": counters["cache_read_tokens"],
        "gen_ai.usage.cache_creation.input_tokens": counters["cache_write_tokens"],
        "gen_ai.usage.reasoning.output_tokens": counters["reasoning_tokens"],
        "hermes.cost_usd": payload["estimated_cost_usd"],
        "gen_ai.output.messages": captureContent ? JSON.stringify([Content.answer(payload)]) : undefined
      })
    }
    case "api_request_error":
      return said({
        "http.response.status_code": payload["status_code"],
        "hermes.error.reason": payload["reason"],
        "hermes.error.retryable": payload["retryable"]
      })
    case "post_tool_call":
      return said({
        "hermes.tool.status": payload["status"],
        "gen_ai.tool.call.result": captureContent ? resultOf(payload["result"]) : undefined
      })
    case "post_approval_response":
      return said({ "hermes.approval.choice": payload["choice"], "hermes.approval.decided_by": payload["decided_by"] })
    case "subagent_stop":
      return said({
        "hermes.child.status": payload["child_status"],
        "gen_ai.output.messages": captureContent ? JSON.stringify([Content.plain("assistant", payload["child_summary"] ?? "")]) : undefined
      })
    default:
      return said({ "hermes.exit": payload["reason"], "hermes.completed": payload["completed"], "hermes.interrupted": payload["interrupted"] })
  }
}

const resultOf = (result: Schema.Json | undefined): string => typeof result === "string" ? result : JSON.stringify(result ?? null)
