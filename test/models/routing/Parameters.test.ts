import { assert, describe, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as Adaptation from "../../../src/models/routing/Adaptation.ts"
import * as Evidence from "../../../src/models/routing/classification/Evidence.ts"
import * as Classification from "../../../src/models/routing/Classification.ts"
import * as NetworkFailure from "../../../src/models/provider/NetworkFailure.ts"
import * as S from "./support.ts"

describe("refused parameters", () => {
  const cases: ReadonlyArray<readonly [message: string, names: ReadonlyArray<string>, param?: string]> = [
    [
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      ["max_tokens", "max_completion_tokens"],
      "max_tokens"
    ],
    [
      "Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.",
      ["temperature"],
      "temperature"
    ],
    [
      "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
      ["temperature", "top_p"]
    ],
    ["Unknown parameter: 'parallel_tool_calls'.", ["parallel_tool_calls"]],
    [
      "litellm.UnsupportedParamsError: openai does not support parameters: ['parallel_tool_calls', 'reasoning_effort']",
      ["parallel_tool_calls", "reasoning_effort"]
    ],
    ["Argument not supported on this model: reasoning_effort", ["reasoning_effort"]],
    ["property 'stream_options' is unsupported", ["stream_options"]],
    ['Invalid JSON payload received. Unknown name "tool_choice": Cannot find field.', ["tool_choice"]],
    ['json: unknown field "prompt_cache_key"', ["prompt_cache_key"]],
    ["top_p is not supported with this model", ["top_p"]],
    ["body.stream_options: Extra inputs are not permitted", ["stream_options"]]
  ]
  for (const [message, names, param] of cases) {
    it(`are read from: ${message}`, () => {
      assert.deepStrictEqual(Adaptation.findNamedParameters(message, param), names)
      const decision = Classification.classify(S.http(400, message, param === undefined ? {} : { param }))
      assert.deepInclude(decision, { reason: "unsupported_parameter", retryable: true })
      assert.deepStrictEqual(decision.recoveries[0], { _tag: "AdaptParameters", names })
    })
  }

  const others: ReadonlyArray<readonly [message: string, reason: Classification.Reason]> = [
    ["Unsupported value: 'messages[0].role' does not support 'system' with this model.", "format_error"],
    ["Unknown parameter: 'messages[3].name'.", "format_error"],
    ["max_tokens is too large: 100000. This model supports at most 16384 completion tokens", "output_cap"],
    [
      "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion). Please reduce max_tokens",
      "context_overflow"
    ],
    ["temperature must be between 0 and 2", "format_error"],
    ["The user asked for too much reasoning in the options of a store", "format_error"]
  ]
  for (const [message, reason] of others) {
    it(`is something else: ${message}`, () =>
      assert.strictEqual(Classification.classify(S.http(400, message)).reason, reason))
  }

  it("leaves a request without them, or renames the limit, wherever they stand", () => {
    const request = {
      model: "m",
      max_tokens: 5,
      temperature: 1,
      extra_body: { reasoning: {}, a: 1 },
      inferenceConfig: { temperature: 1, maxTokens: 5 }
    }
    const changes = new Map([
      ["max_tokens", "max_completion_tokens"],
      ["temperature", undefined],
      ["reasoning", undefined]
    ])
    assert.deepStrictEqual(Adaptation.changeParameters(request, changes), {
      model: "m",
      max_completion_tokens: 5,
      extra_body: { a: 1 },
      inferenceConfig: { maxTokens: 5 }
    })
    assert.strictEqual(Adaptation.changeParameters(request, new Map()), request)
    assert.notProperty(
      Adaptation.changeParameters(
        request,
        new Map([
          ["max_tokens", "max_completion_tokens"],
          ["max_completion_tokens", undefined]
        ])
      ),
      "max_completion_tokens"
    )
  })

  it("never takes what a protocol needs, or what was not sent", () => {
    const at = (apiMode: "anthropic_messages" | "chat_completions", name: string) =>
      Adaptation.findParameterRemedy(name, { apiMode, changes: new Map(), request: { max_tokens: 5, temperature: 1 } })
    assert.isNull(at("anthropic_messages", "max_tokens"))
    assert.isUndefined(at("anthropic_messages", "temperature"))
    assert.strictEqual(at("chat_completions", "max_tokens"), "max_completion_tokens")
    assert.isNull(at("chat_completions", "top_p"))
  })
})

describe("wrong addresses", () => {
  const failing = (code: string, message = code) =>
    AiError.make({
      module: "Test",
      method: "execute",
      reason: NetworkFailure.makeNetworkReason(Object.assign(new Error(message), { code }), "https://a.example/v1")
    })
  const wrong = [
    "ENOTFOUND",
    "CERT_HAS_EXPIRED",
    "DEPTH_ZERO_SELF_SIGNED_CERT",
    "SELF_SIGNED_CERT_IN_CHAIN",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    "ERR_TLS_CERT_ALTNAME_INVALID",
    "HPE_INVALID_CONSTANT",
    "ERR_SSL_WRONG_VERSION_NUMBER"
  ]
  for (const code of wrong) {
    it(`${code} is not asked again`, () =>
      assert.deepStrictEqual(Classification.classify(failing(code)).recoveries, [{ _tag: "NextRoute" }]))
  }
  for (const code of ["ECONNREFUSED", "ECONNRESET", "EAI_AGAIN", "ETIMEDOUT"]) {
    it(`${code} may pass`, () =>
      assert.strictEqual(Classification.classify(failing(code)).recoveries[0]?._tag, "RetryAfter"))
  }
  it("an alert in a TLS connection may pass, another protocol does not", () => {
    assert.isTrue(
      Classification.classify(failing("EPROTO", "SSL routines:ssl3_read_bytes:ssl alert bad record mac")).retryable
    )
    assert.isFalse(
      Classification.classify(failing("EPROTO", "SSL routines:tls_validate_record_header:wrong version number"))
        .retryable
    )
  })
  it("a page of a gateway in trouble may pass, and a refused key is about the key", () => {
    const page = "<html><title>Bad Gateway</title></html>"
    for (const status of [500, 502, 503, 504])
      assert.isTrue(Classification.classify(S.http(status, page)).retryable, String(status))
    assert.strictEqual(Classification.classify(S.http(401, page)).reason, "auth")
    assert.isUndefined(Evidence.findWrongAddress(S.http(403, page).reason, 403))
  })
  it("a model that is not there is the model's matter", () =>
    assert.isUndefined(Classification.classify(S.http(404, "The model `x` does not exist")).wrongAddress))
})
