import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as AiError from "effect/ai/AiError"
import * as ErrorLine from "../../../src/program/cli/ErrorLine.ts"
import { makeUsageFailure } from "../../../src/program/cli/Failure.ts"
import { ConfigError, InvalidInput, SessionNotFound, SessionStoreError } from "../../../src/base/domain/AgentError.ts"

const provider = (reason: AiError.AiErrorReason) =>
  AiError.make({ module: "ChatCompletions", method: "execute", reason })

describe("ErrorLine", () => {
  it("a command line or a configuration that can not be used is code 2", () => {
    assert.deepStrictEqual(ErrorLine.fromError(makeUsageFailure("--x is missing")), { code: 2, line: "--x is missing" })
    assert.strictEqual(ErrorLine.fromError(new ConfigError({ path: "model.base_url", message: "m" })).code, 2)
    assert.strictEqual(ErrorLine.fromError(new InvalidInput({ message: "m" })).code, 2)
    assert.strictEqual(
      ErrorLine.fromError(new SessionNotFound({ sessionId: "2026", candidates: ["20261", "20262"] })).code,
      2
    )
  })

  it("work that failed is code 1, and so is a key that is missing", () => {
    assert.strictEqual(ErrorLine.fromError(new ConfigError({ path: "OPENROUTER_API_KEY", message: "m" })).code, 1)
    assert.strictEqual(ErrorLine.fromError(new ConfigError({ path: "model.api_key", message: "m" })).code, 1)
    assert.strictEqual(ErrorLine.fromError(new SessionStoreError({ operation: "append", message: "m" })).code, 1)
    assert.strictEqual(ErrorLine.fromError(new Error("boom")).code, 1)
  })

  it("is one line, whatever the message is", () => {
    assert.strictEqual(ErrorLine.fromError(new Error("a\n  b\tc")).line, "a b c")
    assert.strictEqual(
      ErrorLine.fromError(new ConfigError({ path: "a", message: "first\nsecond\nthird" })).line,
      "first (and 2 more: run `hermes config check`)"
    )
  })

  it("shows no secret", () => {
    const { line } = ErrorLine.fromError(
      new Error("Incorrect API key provided: sk-proj-abcdefghijklmnopqrstuvwx0123456789")
    )
    assert.notInclude(line, "abcdefghijklmnop")
  })

  it("a provider's failure says what to do", () => {
    const network = new AiError.NetworkError({
      reason: "TransportError",
      method: "POST",
      url: "http://127.0.0.1:1/v1",
      description: "nothing listens at 127.0.0.1:1: start the server or correct the base URL"
    })
    assert.strictEqual(
      ErrorLine.fromError(provider(network)).line,
      "nothing listens at 127.0.0.1:1: start the server or correct the base URL"
    )
    assert.strictEqual(
      ErrorLine.fromError(provider(new AiError.RateLimitError({ retryAfter: Duration.seconds(20) }))).line,
      "the provider's rate limit is reached: try again in 20s"
    )
    const unknown = new AiError.InvalidRequestError({ parameter: "model", description: `host has no model "x"` })
    assert.strictEqual(
      ErrorLine.fromError(provider(unknown)).line,
      `host has no model "x": choose another with --model`
    )
    const key = new AiError.AuthenticationError({ kind: "InvalidKey", description: "bad key" })
    assert.strictEqual(ErrorLine.fromError(provider(key)).code, 1)
    assert.include(ErrorLine.fromError(provider(key)).line, "the provider does not accept the API key (bad key)")
  })
})
