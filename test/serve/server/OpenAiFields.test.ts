// Fields of OpenAI's APIs that the server does not do are refused with their name; their defaults are accepted.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as ApiError from "../../../src/serve/server/ApiError.ts"
import * as OpenAiFields from "../../../src/serve/server/agent/OpenAiFields.ts"
import type * as Json from "../../../src/base/domain/Json.ts"

const paramOf = (body: Json.Fields, fields: ReadonlyArray<OpenAiFields.Field>) =>
  OpenAiFields.admitFields(body, fields).pipe(
    Effect.as(undefined),
    Effect.catch((error) => {
      assert.strictEqual(error.status, 400)
      assert.include(error.message, ApiError.toBody(error).error.param ?? "no field")
      return Effect.succeed(ApiError.toBody(error).error.param)
    })
  )

const named = { type: "function", function: { name: "weather" } }

const refused = {
  chat: [
    ["response_format", { response_format: { type: "grammar", grammar: "x" } }],
    ["tool_choice", { tool_choice: "required" }],
    ["tool_choice", { tool_choice: named }],
    ["reasoning_effort", { reasoning_effort: "high" }],
    ["logprobs", { logprobs: true }],
    ["top_logprobs", { top_logprobs: 3 }],
    ["background", { background: true }],
    ["modalities", { modalities: ["text", "audio"] }],
    ["audio", { audio: { voice: "alloy" } }],
    ["n", { n: 2 }],
    ["stop", { stop: "END" }],
    ["parallel_tool_calls", { parallel_tool_calls: false }],
    ["functions", { functions: [{ name: "f" }] }],
    ["function_call", { function_call: { name: "f" } }],
    ["logit_bias", { logit_bias: { 50256: -100 } }],
    ["web_search_options", { web_search_options: {} }]
  ],
  responses: [
    ["text.format", { text: { format: { type: "grammar" } } }],
    ["tool_choice", { tool_choice: "required" }],
    ["reasoning.effort", { reasoning: { effort: "low" } }],
    ["background", { background: true }],
    ["include", { include: ["message.output_text.logprobs"] }],
    ["previous_response_id", { conversation: "conv_1", previous_response_id: "resp_1" }],
    ["prompt", { prompt: { id: "pmpt_1" } }],
    ["max_tool_calls", { max_tool_calls: 1 }]
  ]
} satisfies Record<string, ReadonlyArray<readonly [string, Json.Fields]>>

const defaults: Json.Fields = {
  response_format: { type: "text" },
  text: { format: { type: "text" }, verbosity: "medium" },
  tool_choice: "auto",
  parallel_tool_calls: true,
  modalities: ["text"],
  background: false,
  n: 1,
  logprobs: false,
  top_logprobs: 0,
  logit_bias: {},
  stop: null,
  audio: null,
  reasoning: {},
  reasoning_effort: null,
  include: ["reasoning.encrypted_content"],
  temperature: 0,
  max_tokens: 100,
  seed: 1,
  store: true,
  user: "somebody"
}

describe("fields of OpenAI's APIs", () => {
  it.effect("that ask for something that is not done are refused with their name", () =>
    Effect.gen(function* () {
      for (const [name, body] of refused.chat) assert.strictEqual(yield* paramOf(body, OpenAiFields.chatFields), name)
      for (const [name, body] of refused.responses) {
        assert.strictEqual(yield* paramOf(body, OpenAiFields.responseFields), name)
      }
    })
  )

  it.effect("are accepted with their defaults, as hints, and absent", () =>
    Effect.gen(function* () {
      for (const fields of [OpenAiFields.chatFields, OpenAiFields.responseFields]) {
        for (const body of [defaults, {}]) assert.isUndefined(yield* paramOf(body, fields))
      }
    })
  )
})
