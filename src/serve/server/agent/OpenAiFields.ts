/**
 * Request fields of OpenAI's APIs that the server does not support. A request with such a field is refused with an
 * error that names the field, so that the client does not misinterpret an answer.
 *
 * **Details**
 *
 * A field is accepted if it is absent, `null` or has its default value. Hints are accepted with any value and have no
 * effect: sampling (`temperature`, `top_p`, `seed`, penalties), token limits, `user`, `metadata`,
 * `service_tier`, `truncation`, `prediction`, cache keys, and fields that these APIs do not define.
 *
 * Source: OpenAI API reference, chat completions and responses.
 */
import * as Effect from "effect/Effect"
import * as Json from "../../../base/domain/Json.ts"
import * as ApiError from "../ApiError.ts"

/** A request field with unsupported values. */
export interface Field {
  /** Path of the field in the request, with dots between its names. */
  readonly name: string
  /** Returns true if a value is supported in a request. Not called for `null` or an absent field. */
  readonly isServed: (value: unknown, body: Json.Fields) => boolean
  /** Advice to the client about an alternative. */
  readonly advice: string
}

const isAmong =
  (...values: ReadonlyArray<unknown>) =>
  (value: unknown): boolean =>
    values.includes(value)

const isNever = (): boolean => false

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0

/** Tests for a format of answers, which `OpenAiMessages` reads. */
const isFormat = (value: unknown): boolean =>
  isAmong("text", "json_object", "json_schema")(Json.readFields(value)["type"])

const isFlag = (value: unknown): boolean => typeof value === "boolean"

const leaveOut = "Leave it out."

const structured = 'Use the type "text", "json_object" or "json_schema".'

const ownEffort = "The agent has its own reasoning effort, which the owner of the server sets. Leave it out."

/** Fields that both APIs define. */
const shared: ReadonlyArray<Field> = [
  {
    name: "tool_choice",
    isServed: isAmong("auto", "none"),
    advice: 'The agent chooses its tools: use "auto", or "none" for no tools of yours.'
  },
  {
    name: "parallel_tool_calls",
    isServed: isAmong(true),
    advice: "The agent may call several tools at once. Leave it out."
  },
  { name: "store", isServed: isFlag, advice: "Use true or false." },
  { name: "top_logprobs", isServed: isAmong(0), advice: "There are no log probabilities. Leave it out." },
  {
    name: "background",
    isServed: isAmong(false),
    advice: "Answers are given while the client waits: use POST /v1/sessions for work behind it."
  },
  {
    name: "modalities",
    isServed: (value) => Array.isArray(value) && value.every((one) => one === "text"),
    advice: "Answers are text. Leave it out."
  }
]

/** Fields of chat completion requests. */
export const chatFields: ReadonlyArray<Field> = [
  ...shared,
  { name: "n", isServed: isAmong(1), advice: "An agent gives one answer: use 1." },
  { name: "response_format", isServed: isFormat, advice: structured },
  { name: "reasoning_effort", isServed: isNever, advice: ownEffort },
  { name: "verbosity", isServed: isAmong("medium"), advice: leaveOut },
  { name: "logprobs", isServed: isAmong(false), advice: "There are no log probabilities. Leave it out." },
  {
    name: "logit_bias",
    isServed: (value) => Json.isFields(value) && Object.keys(value).length === 0,
    advice: leaveOut
  },
  { name: "stop", isServed: isEmptyList, advice: "An agent ends by itself. Leave it out." },
  { name: "audio", isServed: isNever, advice: "Answers are text. Leave it out." },
  { name: "web_search_options", isServed: isNever, advice: "The agent has its own tools. Leave it out." },
  { name: "functions", isServed: isEmptyList, advice: "Use tools." },
  { name: "function_call", isServed: isAmong("auto", "none"), advice: 'Use tools, and tool_choice "auto".' }
]

/** Fields of response requests. */
export const responseFields: ReadonlyArray<Field> = [
  ...shared,
  { name: "text.format", isServed: isFormat, advice: structured },
  { name: "text.verbosity", isServed: isAmong("medium"), advice: leaveOut },
  { name: "reasoning.effort", isServed: isNever, advice: ownEffort },
  {
    name: "include",
    isServed: (value) => Array.isArray(value) && !value.includes("message.output_text.logprobs"),
    advice: 'There are no log probabilities. Leave "message.output_text.logprobs" out.'
  },
  {
    name: "previous_response_id",
    isServed: (_, { conversation }) => conversation === undefined || conversation === null,
    advice: "Use it or conversation, not both."
  },
  { name: "context_management", isServed: isEmptyList, advice: "The agent bounds its context itself. Leave it out." },
  { name: "prompt", isServed: isNever, advice: "There are no stored prompts: use instructions and input." },
  {
    name: "max_tool_calls",
    isServed: isNever,
    advice: "The owner of the server bounds the work of the agent. Leave it out."
  }
]

const readField = (body: Json.Fields, name: string): unknown =>
  name.split(".").reduce<unknown>((value, key) => Json.readFields(value)[key], body)

/** Fails with the first field that asks for an unsupported feature. */
export const admitFields = (
  body: Json.Fields,
  fields: ReadonlyArray<Field>
): Effect.Effect<void, ApiError.ApiError> => {
  const refused = fields.find(({ isServed, name }) => {
    const value = readField(body, name)
    return value !== undefined && value !== null && !isServed(value, body)
  })
  if (refused === undefined) return Effect.void
  const { advice, name } = refused
  return Effect.fail(ApiError.refuseField(name, `${name} is not supported with this value. ${advice}`))
}
