import * as Anthropic from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import * as TestClock from "effect/testing/TestClock"
import * as OpenAi from "openai"
import * as SdkError from "../../../src/models/provider/SdkError.ts"

const context = {
  module: "Test",
  method: "execute",
  url: "https://api.example.com/v1?key=secret",
  model: "some/model",
  clock: Effect.runSync(Clock.clockWith(Effect.succeed))
}

const reasonOf = (error: unknown): AiError.AiErrorReason => SdkError.fromSdk({ ...context, error }).reason

/** An error as the client of the SDK makes it. */
const makeApiError = (status: number, body: unknown, headers: Record<string, string> = {}) => {
  const table = new Headers(headers)
  return typeof body === "string"
    ? OpenAi.APIError.generate(status, undefined, body, table)
    : OpenAi.APIError.generate(status, Object(body), undefined, table)
}

const openAi = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  reasonOf(makeApiError(status, body, headers))

const anthropic = (status: number, type: string, message: string, headers: Record<string, string> = {}) =>
  reasonOf(
    Anthropic.APIError.generate(
      status,
      { type: "error", error: { type, message }, request_id: "req_a" },
      undefined,
      new Headers(headers)
    )
  )

const error = (message: string, more: Record<string, unknown> = {}) => ({ error: { message, ...more } })

describe("by status", () => {
  const cases: ReadonlyArray<readonly [string, number, unknown, AiError.AiErrorReason["_tag"], boolean]> = [
    ["bad request", 400, error("bad field", { param: "tools", code: "invalid" }), "InvalidRequestError", false],
    ["wrong key", 401, error("Incorrect API key"), "AuthenticationError", false],
    ["payment", 402, error("no money"), "QuotaExhaustedError", false],
    ["payment that will pass", 402, error("Usage limit reached, try again in 5 minutes"), "RateLimitError", true],
    ["forbidden", 403, error("not allowed"), "AuthenticationError", false],
    ["forbidden by a spent key", 403, error("Key limit exceeded"), "QuotaExhaustedError", false],
    [
      "not found",
      404,
      error("The model `x` does not exist", { code: "model_not_found" }),
      "InvalidRequestError",
      false
    ],
    ["timeout at the server", 408, error("timeout"), "InternalProviderError", true],
    ["too large", 413, error("too large"), "InvalidRequestError", false],
    ["unprocessable", 422, { detail: "field required" }, "InvalidRequestError", false],
    ["rate limit", 429, error("slow down"), "RateLimitError", true],
    [
      "spent quota under a rate limit's status",
      429,
      error("You exceeded your current quota", { code: "insufficient_quota" }),
      "QuotaExhaustedError",
      false
    ],
    [
      "no credits under a rate limit's status",
      429,
      error("you can only afford 10 tokens"),
      "QuotaExhaustedError",
      false
    ],
    ["content filter", 400, error("blocked", { code: "content_filter" }), "ContentPolicyError", false],
    ["content policy in words", 400, error("violates our content policy"), "ContentPolicyError", false],
    ["server error", 500, error("boom"), "InternalProviderError", true],
    ["unavailable", 503, "<html><head><title>503 Busy</title></head></html>", "InternalProviderError", true],
    ["overloaded", 529, error("Overloaded"), "InternalProviderError", true],
    ["a redirect to elsewhere", 307, "", "InvalidRequestError", false]
  ]
  for (const [name, status, body, tag, retryable] of cases) {
    it(`${name}`, () => {
      const reason = openAi(status, body)
      assert.strictEqual(reason._tag, tag)
      assert.strictEqual(reason.isRetryable, retryable)
      assert("http" in reason && reason.http !== undefined)
      assert.strictEqual(reason.http.response?.status, status)
      assert.propertyVal("metadata" in reason ? reason.metadata : {}, "status", status)
    })
  }

  it("a model that is missing is named, an address that is missing too", () => {
    const model = openAi(404, error("The model does not exist", { code: "model_not_found" }))
    assert(model._tag === "InvalidRequestError")
    assert.strictEqual(model.parameter, "model")
    assert.match(model.description ?? "", /api\.example\.com has no model "some\/model"/)
    const address = openAi(404, "<html><title>Not Found</title></html>")
    assert(address._tag === "InvalidRequestError")
    assert.match(address.description ?? "", /nothing at this address.*check the base URL/)
  })

  it("kinds of keys that are not accepted", () => {
    const kind = (message: string) => {
      const reason = openAi(401, error(message))
      return reason._tag === "AuthenticationError" ? reason.kind : reason._tag
    }
    assert.deepStrictEqual(
      ["Incorrect API key provided", "token expired", "You didn't provide an API key", "No auth credentials found"].map(
        kind
      ),
      ["InvalidKey", "ExpiredKey", "MissingKey", "MissingKey"]
    )
  })

  it("the text of a provider behind OpenRouter is shown", () => {
    const reason = openAi(
      400,
      error("Provider returned error", { code: 400, metadata: { raw: "context length exceeded" } })
    )
    assert.include(reason.message, "Provider returned error: context length exceeded")
  })

  it("HTML is one line", () => {
    assert.include(openAi(503, "<html>\n<head><title>503 Busy</title></head></html>").message, 'HTML page "503 Busy"')
  })
})

describe("what is kept", () => {
  it("request id, code and type of both SDKs", () => {
    assert.deepInclude(
      openAiMetadata(openAi(400, error("x", { code: "c", type: "t", param: "p" }), { "x-request-id": "r" })),
      { status: 400, requestId: "r", code: "c", type: "t", param: "p" }
    )
    assert.deepInclude(openAiMetadata(anthropic(529, "overloaded_error", "Overloaded")), {
      status: 529,
      requestId: "req_a",
      type: "overloaded_error"
    })
    assert.deepInclude(openAiMetadata(anthropic(400, "invalid_request_error", "x", { "request-id": "req_h" })), {
      requestId: "req_h"
    })
  })

  it("no credentials", () => {
    const reason = openAi(500, error("x"), {
      authorization: "Bearer s3cret",
      "set-cookie": "s3cret",
      "x-api-key": "s3cret",
      "x-auth-token": "s3cret",
      "x-ratelimit-limit-tokens": "9"
    })
    assert.notInclude(JSON.stringify(reason), "s3cret")
    assert.include(JSON.stringify(reason), "x-ratelimit-limit-tokens")
  })

  it("a key with a line break in it is not repeated", () => {
    const reason = reasonOf(new TypeError('Headers.append: "Bearer sk-s3cret\n" is an invalid header value.'))
    assert.strictEqual(reason._tag, "InvalidRequestError")
    assert.notInclude(JSON.stringify(reason), "s3cret")
  })

  it("a key that is not ASCII is an invalid request, not a network error", () => {
    let thrown: unknown
    try {
      new Headers().append("authorization", "Bearer sk-…")
    } catch (error) {
      thrown = error
    }
    assert.strictEqual(reasonOf(thrown)._tag, "InvalidRequestError")
  })

  it("bodies are bounded", () => {
    const reason = openAi(500, "x".repeat(100_000))
    assert("http" in reason)
    assert.isAtMost(reason.http?.body?.length ?? 0, 4_000)
    assert.isBelow(reason.message.length, 1_000)
  })
})

const openAiMetadata = (reason: AiError.AiErrorReason) => ("metadata" in reason ? reason.metadata : {})

describe("when to come back", () => {
  const wait = (headers: Record<string, string>) => {
    const reason = openAi(429, error("slow"), headers)
    return reason._tag === "RateLimitError" && reason.retryAfter !== undefined
      ? Duration.toMillis(reason.retryAfter)
      : undefined
  }

  it("in milliseconds, seconds, or by a date of the server's clock", () => {
    assert.strictEqual(wait({ "retry-after-ms": "1500", "retry-after": "9" }), 1_500)
    assert.strictEqual(wait({ "retry-after": "2.5" }), 2_500)
    assert.strictEqual(
      wait({ date: "Wed, 21 Oct 2015 07:28:00 GMT", "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT" }),
      30_000
    )
  })

  it.effect("from the present time of the run's clock where the answer has no date", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.parse("Wed, 21 Oct 2015 07:28:00 GMT"))
      const clock = yield* Clock.Clock
      const error = makeApiError(429, { error: {} }, { "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT" })
      const { reason } = SdkError.fromSdk({ ...context, clock, error })
      assert(reason._tag === "RateLimitError")
      assert.deepStrictEqual(reason.retryAfter, Duration.seconds(30))
    })
  )

  it("what is past or no time is none", () => {
    assert.isUndefined(wait({ "retry-after": "soon" }))
    assert.isUndefined(wait({ "retry-after": "-1" }))
    assert.isUndefined(wait({ "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT" }))
    assert.isUndefined(wait({}))
  })
})

describe("connections", () => {
  const connection = (code: string, message = code) =>
    reasonOf(new OpenAi.APIConnectionError({ cause: Object.assign(new Error(message), { code }) }))

  const cases: ReadonlyArray<readonly [string, RegExp]> = [
    ["ECONNREFUSED", /nothing listens at api\.example\.com/],
    ["ENOTFOUND", /the name of api\.example\.com cannot be resolved/],
    ["EAI_AGAIN", /cannot be resolved/],
    ["ECONNRESET", /closed the connection before its answer was complete/],
    ["ETIMEDOUT", /cannot be reached in time/],
    ["EHOSTUNREACH", /there is no way to api\.example\.com/],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", /certificate of api\.example\.com is not accepted/],
    ["EPROTO", /does not speak TLS/],
    ["HPE_INVALID_CONSTANT", /does not answer in HTTP/]
  ]
  for (const [code, message] of cases) {
    it(`${code} names the host and what to do`, () => {
      const reason = connection(code)
      assert(reason._tag === "NetworkError")
      assert.match(reason.description ?? "", message)
      assert.isTrue(reason.isRetryable)
      assert.notInclude(reason.message, "secret")
    })
  }

  it("timeouts of both SDKs, wrong addresses, missing keys, wrong JSON, anything else", () => {
    for (const timeout of [new OpenAi.APIConnectionTimeoutError(), new Anthropic.APIConnectionTimeoutError()]) {
      assert.match(reasonOf(timeout).message, /did not answer within the request timeout/)
    }
    const invalid = reasonOf(Object.assign(new TypeError("Invalid URL"), { code: "ERR_INVALID_URL" }))
    assert(invalid._tag === "NetworkError")
    assert.strictEqual(invalid.reason, "InvalidUrlError")
    assert.isFalse(invalid.isRetryable)
    assert.strictEqual(reasonOf(new Error("Could not resolve authentication method."))._tag, "AuthenticationError")
    assert.strictEqual(reasonOf(new SyntaxError("Unexpected end of JSON input"))._tag, "InvalidResponseError")
    assert.strictEqual(reasonOf("just a string")._tag, "NetworkError")
  })

  it("an AiError passes as it is", () => {
    const known = SdkError.makeCutStreamError(context)
    assert.strictEqual(SdkError.fromSdk({ ...context, error: known }), known)
  })
})

describe("error objects inside an answer", () => {
  const tags = (...bodies: ReadonlyArray<unknown>) =>
    bodies.map((body) => SdkError.fromBody({ ...context, body }).reason._tag)

  it("are told apart by a status for a code, else by code, type and words", () => {
    assert.deepStrictEqual(
      tags(
        { error: { code: 429, message: "x" } },
        { error: { code: 502, message: "x" } },
        { error: { type: "overloaded_error", message: "x" } },
        { error: { code: "rate_limit_exceeded", message: "x" } },
        { error: { code: "insufficient_quota", message: "x" } },
        { error: { type: "authentication_error", message: "x" } },
        { error: { code: "context_length_exceeded", message: "x" } },
        { error: { type: "invalid_request_error", message: "x" } },
        { error: { code: "content_filter", message: "x" } },
        { error: "just text" },
        "not even an object"
      ),
      [
        "RateLimitError",
        "InternalProviderError",
        "InternalProviderError",
        "RateLimitError",
        "QuotaExhaustedError",
        "AuthenticationError",
        "InvalidRequestError",
        "InvalidRequestError",
        "ContentPolicyError",
        "InternalProviderError",
        "InternalProviderError"
      ]
    )
  })
})
