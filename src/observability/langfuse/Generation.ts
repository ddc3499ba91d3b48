/**
 * The attributes of a model call in Langfuse. Pure.
 *
 * Source: `hermes-contract.md` §5 ("Trace model", "Message source preference", "Usage").
 */
import type * as Schema from "effect/Schema"
import { type Fields, object, text } from "../atof/Facts.ts"
import type { Value } from "../otlp/Span.ts"
import * as Observation from "./Observation.ts"
import * as Values from "./Values.ts"

const parameters = ["temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens", "reasoning_effort", "stream"]

const pick = (from: Readonly<Record<string, Schema.Json>>, names: ReadonlyArray<string>): Record<string, Schema.Json> => {
  const out: Record<string, Schema.Json> = {}
  for (const name of names) {
    const value = from[name]
    if (value !== undefined && value !== null) out[name] = value
  }
  return out
}

/** Number of messages of a request that are shown, the last ones. */
const shown = 12

const sources = ["request_messages", "messages", "conversation_history"] as const

/** Returns the messages of a payload: the first of the fields that has any, else the user's message alone. */
export const messages = (payload: Fields): ReadonlyArray<Schema.Json> => {
  for (const name of sources) {
    const value = payload[name]
    if (Array.isArray(value) && value.length > 0) return value
  }
  const message = payload["user_message"]
  return message === undefined || message === null || message === "" ? [] : [{ role: "user", content: message }]
}

/** Cuts a message to the limits; JSON text of a tool is shown as its value. */
export const serialised = (message: Schema.Json, maxChars: number): Schema.Json => {
  const fields = object({ message }, "message")
  if (fields === undefined) return Values.bounded(message, maxChars)
  const { content } = fields
  return Values.bounded(
    fields["role"] === "tool" && typeof content === "string" ? { ...fields, content: Values.parsed(content) } : fields,
    maxChars
  )
}

/** Returns the last messages of a request, with limits. */
export const input = (payload: Fields, maxChars: number): ReadonlyArray<Schema.Json> =>
  messages(payload).slice(-shown).map((message) => serialised(message, maxChars))

/** Of one that begins. */
export const opening = (payload: Fields, maxChars: number): Record<string, Value> => {
  const body = object(object(payload, "request") ?? {}, "body") ?? {}
  const chosen = pick(body, parameters)
  return {
    "langfuse.observation.model.name": text(payload, "model"),
    "langfuse.observation.input": JSON.stringify(input(payload, maxChars)),
    ...(Object.keys(chosen).length === 0 ? {} : { "langfuse.observation.model.parameters": JSON.stringify(chosen) }),
    ...Observation.metadata({
      provider: payload["provider"],
      api_mode: payload["api_mode"],
      platform: payload["platform"],
      retry_count: payload["retry_count"],
      message_count: payload["message_count"],
      tool_count: payload["tool_count"]
    })
  }
}

/** Counters of Langfuse and those of the runtime; the last ones only where they count something. */
const counters = [
  ["input", "input_tokens", true],
  ["output", "output_tokens", true],
  ["cache_read_input_tokens", "cache_read_tokens", false],
  ["cache_creation_input_tokens", "cache_write_tokens", false],
  ["reasoning_tokens", "reasoning_tokens", false],
  // Without it Langfuse adds up all of them, and reasoning is a part of the output.
  ["total", "total_tokens", true]
] as const

/** What a call used; undefined when its provider did not say. */
export const usage = (payload: Fields): Readonly<Record<string, number>> | undefined => {
  const reported = object(payload, "usage") ?? object(object(payload, "response") ?? {}, "usage")
  if (reported === undefined) return undefined
  const out: Record<string, number> = {}
  for (const [name, from, always] of counters) {
    const count = reported[from]
    if (typeof count === "number" && (always || count !== 0)) out[name] = count
  }
  return out
}

/** What a call cost in dollars, where somebody names a price. */
export const cost = (payload: Fields): number | undefined => {
  const known = payload["estimated_cost_usd"]
  return typeof known === "number" ? known : undefined
}

/** What was answered: text, reasoning, and the tool calls. */
export const answer = (payload: Fields, maxChars: number) => {
  const response = object(payload, "response") ?? {}
  const message = object(response, "assistant_message") ?? {}
  const calls = message["tool_calls"]
  return {
    content: Values.bounded(message["content"] ?? response["preview"] ?? "", maxChars),
    reasoning: message["reasoning_content"] === undefined ? undefined : Values.bounded(message["reasoning_content"], maxChars),
    calls: (Array.isArray(calls) ? calls : []).flatMap((call: Schema.Json) => named(call, maxChars))
  }
}

const named = (given: Schema.Json, maxChars: number): ReadonlyArray<Observation.Call> => {
  const call = object({ given }, "given")
  if (call === undefined) return []
  const inner = object(call, "function") ?? {}
  const args = inner["arguments"]
  const value = typeof args === "string" ? Values.parsed(args) : args ?? {}
  const name = inner["name"] ?? ""
  return [{ id: call["id"] ?? "", type: "function", name, function: { name, arguments: Values.bounded(value, maxChars) } }]
}

const seconds = (value: Schema.Json | undefined): number | undefined =>
  typeof value === "number" ? Math.round(value * 1000) / 1000 : undefined

/** Of one that was answered. */
export const answered = (payload: Fields, { calls, content, reasoning }: ReturnType<typeof answer>): Record<string, Value> => {
  const used = usage(payload)
  const dollars = cost(payload)
  const [started, first] = [payload["started_at"], payload["time_to_first_token"]]
  return {
    "langfuse.observation.model.name": text(payload, "response_model") || text(payload, "model"),
    "langfuse.observation.output": JSON.stringify({
      content,
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls })
    }),
    ...(used === undefined ? {} : { "langfuse.observation.usage_details": JSON.stringify(used) }),
    ...(dollars === undefined ? {} : { "langfuse.observation.cost_details": JSON.stringify({ total: dollars }) }),
    ...(typeof started === "number" && typeof first === "number"
      ? { "langfuse.observation.completion_start_time": new Date((started + first) * 1000).toISOString() }
      : {}),
    ...Observation.metadata({
      tool_call_count: payload["assistant_tool_call_count"],
      api_duration_s: seconds(payload["api_duration"]),
      finish_reason: payload["finish_reason"]
    })
  }
}

/** Of one that failed. */
export const failed = (payload: Fields): Record<string, Value> => ({
  "langfuse.observation.level": "ERROR",
  "langfuse.observation.status_message": text(object(payload, "error") ?? {}, "message") || text(payload, "reason"),
  ...Observation.metadata({
    error_type: object(payload, "error")?.["type"],
    reason: payload["reason"],
    status_code: payload["status_code"],
    retryable: payload["retryable"],
    api_duration_s: seconds(payload["api_duration"])
  })
})
