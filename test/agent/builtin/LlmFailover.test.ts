import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Cause from "effect/Cause"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as AiError from "effect/ai/AiError"
import * as Agent from "../../../src/agent/Agent.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as LlmFailover from "../../../src/agent/builtin/LlmFailover.ts"
import * as Trigger from "../../../src/agent/builtin/failover/Trigger.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import * as Failover from "../../support/failover.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

const primary: Route = {
  provider: "openrouter",
  model: "vendor/big",
  apiMode: "chat_completions",
  baseUrl: "https://openrouter.ai/api/v1",
  apiKey: Redacted.make("primary-key"),
  headers: { "x-own": "1" },
  extraBody: { provider: { only: ["x"] } }
}

const derived = (config: Record<string, unknown>, from: Route = primary) =>
  Effect.gen(function* () {
    const world = Failover.make(from, ({ route }) =>
      route === undefined ? Failover.fails(Failover.status(500)) : Fake.text("ok")
    )
    yield* world.run([LlmFailover.make({ fallback_providers: [{ llm_config: config }] })])
    return world.asked[1]?.route
  })

const message = (options: unknown): string => {
  const result = LlmFailover.fromUnknown(options)
  return Result.isFailure(result) ? result.failure.message : ""
}

describe("LlmFailover", () => {
  it.live("works in a runtime by itself: another provider finishes the run, and the run says which", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 200, {
          id: "c-1",
          model: "backup-1",
          choices: [{ index: 0, message: { role: "assistant", content: "from the backup" }, finish_reason: "stop" }],
          usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
        })
      )
      const result = yield* Agent.run({ prompt: "hello" }).pipe(
        Effect.provide(
          Runtime.layer({
            provider: Scripted.layer([Scripted.fail(Failover.status(503))]),
            retry: RetryPolicy.none,
            middleware: [
              LlmFailover.make({
                fallbackProviders: [
                  { name: "backup", llmConfig: { model: "backup-1", base_url: `${server.url}/v1`, api_key: "k" } }
                ],
                circuitBreaker: {}
              })
            ]
          })
        )
      )
      assert.deepInclude(result, { exit: "text_response", text: "from the backup", model: "backup-1" })
      assert.strictEqual(server.requests[0]?.headers.authorization, "Bearer k")
    })
  )

  it.effect("a fallback at the primary's host inherits its key, headers and fields", () =>
    Effect.gen(function* () {
      const route = yield* derived({ model: "vendor/small" })
      assert.deepStrictEqual(route, { ...primary, model: "vendor/small" })
    })
  )

  it.effect("nothing of the primary goes to another host, except what names the model", () =>
    Effect.gen(function* () {
      const route = yield* derived({ base_url: "https://other.example/v1?api-version=3" })
      assert.deepStrictEqual(route, {
        provider: "custom",
        model: "vendor/big",
        apiMode: "chat_completions",
        baseUrl: "https://other.example/v1",
        query: { "api-version": "3" }
      })
    })
  )

  it.effect("another port of this machine is another server", () =>
    Effect.gen(function* () {
      const local = { ...primary, baseUrl: "http://127.0.0.1:1/v1" }
      const elsewhere = yield* derived({ base_url: "http://127.0.0.1:2/v1" }, local)
      assert.deepStrictEqual(elsewhere, {
        provider: "custom",
        model: "vendor/big",
        apiMode: "chat_completions",
        baseUrl: "http://127.0.0.1:2/v1"
      })
      const there = yield* derived({ base_url: "http://127.0.0.1:1/v2" }, local)
      assert.deepStrictEqual([there?.apiKey, there?.headers], [local.apiKey, local.headers])
    })
  )

  it.effect("a provider that is named has its own address and protocol", () =>
    Effect.gen(function* () {
      const route = yield* derived({ provider: "anthropic", model: "claude-haiku-4-5", api_key: "k" })
      assert.deepInclude(route, {
        provider: "anthropic",
        apiMode: "anthropic_messages",
        baseUrl: "https://api.anthropic.com"
      })
    })
  )

  it.effect("without fallbacks the primary's failure is the call's", () =>
    Effect.gen(function* () {
      const world = Failover.make(primary, () => Failover.fails(Failover.status(500)))
      const error = yield* Effect.flip(world.run([LlmFailover.make({ fallbackProviders: [] })]))
      assert.include(error.message, "500")
    })
  )

  it.effect("a primary that is skipped without a fallback says so", () =>
    Effect.gen(function* () {
      const world = Failover.make(primary, () => Failover.fails(Failover.status(500)))
      const middleware = LlmFailover.make({ fallbackProviders: [], circuitBreaker: { failureThreshold: 1 } })
      yield* Effect.flip(world.run([middleware]))
      const error = yield* Effect.flip(world.run([middleware]))
      assert.isTrue(AiError.isAiError(error))
      assert.include(error.message, "is skipped after repeated failures, and there is no fallback")
      assert.strictEqual(world.asked.length, 1)
    })
  )

  it.effect("interruption is no failure: nobody else is asked and the breaker stays closed", () =>
    Effect.gen(function* () {
      let hang = true
      const world = Failover.make(primary, () => (hang ? () => Effect.never : Fake.text("ok")))
      const middleware = LlmFailover.make({
        trigger: { exceptionTypes: ["Error"] },
        fallbackProviders: [{ llmConfig: { model: "m" } }],
        circuitBreaker: { failureThreshold: 1 }
      })
      const fiber = yield* Effect.forkChild(world.run([middleware]), { startImmediately: true })
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      assert.strictEqual(world.asked.length, 1)
      hang = false
      yield* world.run([middleware])
      assert.strictEqual(world.asked[1]?.route, undefined)
    })
  )

  it.effect("failures that do not match neither open the breaker nor close it", () =>
    Effect.gen(function* () {
      const world = Failover.make(primary, ({ route }, count) =>
        route !== undefined ? Fake.text("ok") : Failover.fails(Failover.status(count <= 3 ? 400 : 500))
      )
      const middleware = LlmFailover.make({
        fallbackProviders: [{ llmConfig: { model: "m" } }],
        circuitBreaker: { failureThreshold: 1 }
      })
      for (let i = 0; i < 3; i++) yield* Effect.flip(world.run([middleware]))
      yield* world.run([middleware])
      assert.strictEqual(world.asked.filter(({ route }) => route === undefined).length, 4)
    })
  )

  it("reads the documents' YAML, and says in a line what it can not read", () => {
    assert.isTrue(
      Result.isSuccess(
        LlmFailover.fromUnknown({
          trigger: { status_codes: ["500", 502, 529], exception_types: ["RateLimitError", "InternalServerError"] },
          fallback_providers: [
            {
              name: "backup-gateway",
              llm_config: { base_url: "https://backup.example.com/v1", api_key: "sk-backup-xxx" }
            },
            { name: "emergency", llm_config: { model: "gpt-4o", api_type: "openai_chat_completion" } },
            { llm_config: null }
          ],
          circuit_breaker: { failure_threshold: 3, recovery_timeout_seconds: 60 }
        })
      )
    )
    assert.strictEqual(message({}), "fallback_providers: expected a list")
    assert.match(
      message({ fallback_providers: [{ llm_config: { api_type: "smoke" } }] }),
      /api_type: unknown "smoke": use one of/
    )
    assert.match(
      message({ fallback_providers: [{ llm_config: { base_url: "backup" } }] }),
      /base_url: this is not an address/
    )
    assert.match(
      message({ fallback_providers: [], trigger: { status_codes: ["many"] } }),
      /"many" is not an HTTP status/
    )
    assert.match(message({ fallback_providers: [], circuit_breaker: { failure_threshold: 0 } }), /from 1 on/)
  })

  it("knows failures by every name that a user may know them by", () => {
    const names = (...exceptionTypes: ReadonlyArray<string>) => ({
      statusCodes: new Set<number>(),
      exceptionTypes: new Set(exceptionTypes)
    })
    const network = (description: string) =>
      AiError.make({
        module: "m",
        method: "x",
        reason: new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "", description })
      })
    assert.isTrue(Trigger.matches(names("InternalServerError"), Failover.status(503)))
    assert.isTrue(Trigger.matches(names("OverloadedError"), Failover.status(529)))
    assert.isFalse(Trigger.matches(names("InternalServerError"), Failover.status(429)))
    assert.isTrue(Trigger.matches(names("APIConnectionError"), network("refused")))
    assert.isFalse(Trigger.matches(names("APITimeoutError"), network("refused")))
    assert.isTrue(Trigger.matches(names("APITimeoutError"), network("x did not answer within the request timeout")))
    class Special extends Error {}
    assert.isTrue(Trigger.matches(names("Special"), new Error("outer", { cause: new Special() })))
  })

  it("has the status that a failure without one stands for", () => {
    const trigger = { statusCodes: new Set([529]), exceptionTypes: new Set<string>() }
    const overloaded = AiError.make({
      module: "m",
      method: "x",
      reason: new AiError.InternalProviderError({ description: "busy", metadata: { type: "overloaded_error" } })
    })
    assert.isTrue(Trigger.matches(trigger, overloaded))
    const plain = AiError.make({
      module: "m",
      method: "x",
      reason: new AiError.InternalProviderError({ description: "oops" })
    })
    assert.isFalse(Trigger.matches(trigger, plain))
    assert.isTrue(Trigger.matches({ ...trigger, statusCodes: new Set([500]) }, plain))
  })
})
