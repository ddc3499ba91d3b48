/**
 * The `data` of a model call's end: text and calls at the top, as conversion tools read them, and the same as an
 * `assistant_message`, as the Relay document prints them.
 *
 * Source: the NeMo Relay document ("Parallel Tool Calls"), `relay-atof-atif.md` §1.7 rule 6.
 */
import type * as Schema from "effect/Schema"
import { type Fields, object, pick } from "./HookPayload.ts"
import type { Facts } from "./HookSession.ts"

const call = (value: Schema.Json): Facts | undefined => {
  const fields = object({ value }, "value")
  if (fields === undefined) return undefined
  const { arguments: args, name } = { ...fields, ...object(fields, "function") }
  return { id: fields["id"] ?? null, name: name ?? "", arguments: args ?? "{}" }
}

/** Usage of a call in tokens and, where a price is known, in dollars. */
const usage = (payload: Fields): Facts | null => {
  const counted = object(payload, "usage")
  const cost = payload["estimated_cost_usd"]
  return counted === undefined ? null : typeof cost === "number" ? { ...counted, cost_usd: cost } : counted
}

/** Of a `post_api_request`. */
export const answer = (payload: Fields): Facts => {
  const response = object(payload, "response") ?? {}
  const message = object(response, "assistant_message") ?? {}
  const listed = message["tool_calls"]
  const calls = Array.isArray(listed) ? listed.flatMap((one: Schema.Json) => call(one) ?? []) : []
  const said = {
    content: message["content"] ?? "",
    ...pick(message, ["reasoning_content"]),
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
  return {
    ...said,
    assistant_message: { role: "assistant", ...said },
    finish_reason: payload["finish_reason"] ?? null,
    model: payload["response_model"] ?? payload["model"] ?? null,
    usage: usage(payload),
    // A response that was too large for its event says so itself.
    ...(response["_truncated"] === true ? { _truncated: true, preview: response["preview"] ?? "" } : {})
  }
}

/** Of an `api_request_error`. */
export const failure = (payload: Fields): Facts => ({
  error: payload["error"] ?? null,
  ...pick(payload, ["reason", "status_code", "retryable", "max_retries"])
})
