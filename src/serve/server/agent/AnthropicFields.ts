/**
 * Fields of Anthropic's messages API, and the values that the server supports. A request with another field or value is
 * refused with the name of the field.
 *
 * **Details**
 *
 * Hints are accepted with any value and have no effect: sampling, limits of tokens, `metadata`, `service_tier`,
 * `inference_geo` and marks for caches.
 *
 * Source: Anthropic API reference, messages.
 */
import * as Effect from "effect/Effect"
import * as Json from "../../../base/domain/Json.ts"
import * as ApiError from "../ApiError.ts"

/** Returns advice for an unsupported value, or `undefined` for a supported one. Not called for `null`. */
type Check = (value: unknown) => string | undefined

/** Supported fields by their name. A name with a dot is a field of an object; other fields of it are refused. */
type Fields = Readonly<Record<string, Check>>

const isAny: Check = () => undefined

const leaveOut = "Leave it out."

const refuseAll =
  (advice: string): Check =>
  () =>
    advice

const allowValues =
  (advice: string, ...values: ReadonlyArray<unknown>): Check =>
  (value) =>
    values.includes(value) ? undefined : advice

const checkText: Check = (value) => (typeof value === "string" ? undefined : "Expected a text.")

const checkList: Check = (value) => (Array.isArray(value) ? undefined : "Expected a list.")

/** Fields of a request. */
export const requestFields: Fields = {
  model: checkText,
  messages: checkList,
  system: isAny,
  stream: allowValues("Expected true or false.", true, false),
  tools: checkList,
  "tool_choice.type": allowValues(
    'The agent chooses its tools: use "auto", or "none" for no tools of yours.',
    "auto",
    "none"
  ),
  "tool_choice.disable_parallel_tool_use": allowValues(
    "The agent may call several tools at once. Leave it out.",
    false
  ),
  "thinking.type": allowValues('Use "enabled", "adaptive" or "disabled".', "enabled", "adaptive", "disabled"),
  "thinking.budget_tokens": isAny,
  "thinking.display": allowValues('Use "summarized" or "omitted".', "summarized", "omitted"),
  "output_config.format": (value) =>
    Json.readFields(value)["type"] === "json_schema" ? undefined : 'Use the type "json_schema".',
  "output_config.effort": refuseAll(
    "The agent has its own reasoning effort, which the owner of the server sets. Leave it out."
  ),
  output_format: (value) =>
    Json.readFields(value)["type"] === "json_schema" ? undefined : 'Use the type "json_schema".',
  stop_sequences: (value) =>
    Array.isArray(value) && value.length === 0 ? undefined : "An agent ends by itself. Leave it out.",
  container: refuseAll("The agent has its own tools. Leave it out."),
  mcp_servers: (value) =>
    Array.isArray(value) && value.length === 0
      ? undefined
      : "The owner of the server connects MCP servers. Leave it out.",
  context_management: refuseAll("The agent bounds its context itself. Leave it out."),
  "thread.type": allowValues('Use "create" or "continue".', "create", "continue"),
  "thread.previous_message_id": checkText,
  speed: allowValues(leaveOut, "standard"),
  max_tokens: isAny,
  temperature: isAny,
  top_p: isAny,
  top_k: isAny,
  metadata: isAny,
  service_tier: isAny,
  inference_geo: isAny,
  cache_control: isAny
}

/** Fields of a tool. */
export const toolFields: Fields = {
  type: allowValues('Only tools of the type "custom" can be brought; the agent has its own tools.', "custom"),
  name: isAny,
  description: checkText,
  input_schema: (value) => (Json.isFields(value) ? undefined : "Expected a JSON Schema."),
  strict: isAny,
  input_examples: isAny,
  eager_input_streaming: isAny,
  cache_control: isAny,
  defer_loading: allowValues("Every tool is offered at once. Leave it out.", false),
  allowed_callers: (value) =>
    Array.isArray(value) && value.every((one) => one === "direct")
      ? undefined
      : "Scripts cannot call tools of the caller. Leave it out."
}

/** Fields of a document. */
export const documentFields: Fields = {
  type: isAny,
  source: isAny,
  title: checkText,
  context: refuseAll("Send it as a text."),
  cache_control: isAny,
  "citations.enabled": allowValues("There are no citations. Leave it out.", false)
}

/** Lists the fields of a body that are present, with fields of checked objects under their whole name. */
const listFields = (body: Json.Fields, fields: Fields): ReadonlyArray<readonly [name: string, value: unknown]> =>
  Object.entries(body).flatMap(([name, value]): ReadonlyArray<readonly [string, unknown]> => {
    const isNested = Object.keys(fields).some((key) => key.startsWith(`${name}.`)) && Json.isFields(value)
    return isNested ? Object.entries(value).map(([key, inner]) => [`${name}.${key}`, inner] as const) : [[name, value]]
  })

/** Fails with the first field that asks for an unsupported feature. `place` is added before its name. */
export const admitFields = (body: Json.Fields, fields: Fields, place = ""): Effect.Effect<void, ApiError.ApiError> => {
  for (const [name, value] of listFields(body, fields)) {
    if (value === undefined || value === null) continue
    const check = Object.hasOwn(fields, name) ? fields[name] : refuseAll("There is no such field here. Leave it out.")
    const advice = check?.(value)
    if (advice === undefined) continue
    return Effect.fail(
      ApiError.refuseField(`${place}${name}`, `${place}${name} is not supported with this value. ${advice}`)
    )
  }
  return Effect.void
}
