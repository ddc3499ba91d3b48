import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Response from "effect/ai/Response"
import * as TestClock from "effect/testing/TestClock"
import { TranslatedFailure } from "../../src/base/domain/AgentError.ts"
import type { Route } from "../../src/base/domain/Route.ts"
import * as LlmFailover from "../../src/agent/builtin/LlmFailover.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import { callModel, ModelRouter } from "../../src/models/routing/ModelRouter.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import * as Fake from "../support/fakeModel.ts"
import * as Failover from "../support/failover.ts"
import { ids } from "../support/middlewareContexts.ts"

const primary: Route = {
  provider: "custom",
  model: "big",
  apiMode: "chat_completions",
  baseUrl: "https://primary.example/v1",
  apiKey: Redacted.make("primary-key")
}

const backup = { name: "backup", llm_config: { base_url: "https://backup.example/v1", api_key: "backup-key" } }
const ok = Fake.text("fine")
const { fails, status, textOf } = Failover

/** The primary plays these turns, every fallback answers with its model's name or plays its own. */
const scene = (
  turns: ReadonlyArray<Fake.Turn>,
  fallback: (route: Route) => Fake.Turn = (route) => Fake.text(route.model)
) => {
  let played = 0
  return Failover.make(primary, ({ route }) =>
    route === undefined ? (turns[Math.min(played++, turns.length - 1)] ?? ok) : fallback(route)
  )
}

const routes = ({ asked }: ReturnType<typeof scene>): ReadonlyArray<string> =>
  asked.map(({ route }) => (route === undefined ? "primary" : (route.baseUrl ?? "?")))

describe("nexau failover", () => {
  it.effect("T55 a primary that succeeds is one call", () =>
    Effect.gen(function* () {
      const world = scene([ok])
      const answer = yield* world.run([LlmFailover.make({ fallback_providers: [backup] })])
      assert.strictEqual(textOf(answer), "fine")
      assert.deepStrictEqual(routes(world), ["primary"])
      assert.deepStrictEqual(world.notices, [])
    })
  )

  it.effect("T56 after a 503 the fallback's reply is returned, in two calls", () =>
    Effect.gen(function* () {
      const world = scene([fails(status(503))])
      const answer = yield* world.run([LlmFailover.make({ fallback_providers: [backup] })])
      assert.strictEqual(textOf(answer), "big")
      assert.deepStrictEqual(routes(world), ["primary", "https://backup.example/v1"])
      assert.strictEqual(answer.route.baseUrl, "https://backup.example/v1")
      assert.strictEqual(answer.attempt, 1)
    })
  )

  it.effect("T58 the name of the error is enough, under each of its names", () =>
    Effect.gen(function* () {
      for (const name of ["RateLimitError", "APIStatusError", "throttled"]) {
        const error = status(429)
        const world = scene([fails(name === "throttled" ? status(503, "throttled") : error)])
        const middleware = LlmFailover.make({
          trigger: { status_codes: [418], exception_types: [name] },
          fallback_providers: [backup]
        })
        assert.strictEqual(textOf(yield* world.run([middleware])), "big", name)
      }
    })
  )

  it.effect("T59 whatever the first fallback fails with, the second is tried, and the last failure is thrown", () =>
    Effect.gen(function* () {
      const second = { name: "second", llm_config: { base_url: "https://second.example/v1", api_key: "k" } }
      const middleware = LlmFailover.make({ fallback_providers: [backup, second] })
      const world = scene([fails(status(500))], ({ baseUrl }) =>
        baseUrl?.includes("backup") === true ? fails(status(400)) : ok
      )
      assert.strictEqual(textOf(yield* world.run([middleware])), "fine")
      assert.strictEqual(world.asked.length, 3)
      const lost = scene([fails(status(500))], ({ baseUrl }) =>
        fails(status(baseUrl?.includes("backup") === true ? 400 : 401))
      )
      const error = yield* Effect.flip(lost.run([middleware]))
      assert.include(error.message, "401")
    })
  )

  it.effect("T61 what a fallback does not say is inherited", () =>
    Effect.gen(function* () {
      const world = scene([fails(status(500))])
      yield* world.run([LlmFailover.make({ fallback_providers: [backup] })])
      const asked = world.asked[1]
      assert.deepInclude(asked?.route, { model: "big", apiMode: "chat_completions" })
      assert.strictEqual(Redacted.value(asked?.route?.apiKey ?? Redacted.make("")), "backup-key")
      assert.deepInclude(asked?.call, { temperature: 0.3, stream: false })
    })
  )

  it.effect("T62 the call and the configuration stay as they were", () =>
    Effect.gen(function* () {
      const options = {
        trigger: { status_codes: [500] },
        fallback_providers: [{ llm_config: { model: "other", temperature: 1, top_p: 0.2, max_tokens: 7 } }]
      }
      const before = structuredClone(options)
      const call = { ...Failover.modelCall }
      const world = scene([fails(status(500))])
      yield* world.run([LlmFailover.make(options)], call)
      assert.deepStrictEqual(options, before)
      assert.deepStrictEqual(call, Failover.modelCall)
      assert.deepInclude(world.asked[1]?.call, { temperature: 1, maxOutputTokens: 7 })
      assert.deepStrictEqual(world.asked[1]?.route?.extraBody, { top_p: 0.2 })
      assert.deepStrictEqual(primary.extraBody, undefined)
    })
  )

  it.effect("T64 threshold 1: within the recovery time the primary is not called a second time", () =>
    Effect.gen(function* () {
      const world = scene([fails(status(503))])
      const middleware = LlmFailover.make({
        fallback_providers: [backup],
        circuit_breaker: { failure_threshold: 1, recovery_timeout_seconds: 60 }
      })
      yield* world.run([middleware])
      yield* TestClock.adjust("59 seconds")
      yield* world.run([middleware])
      assert.deepStrictEqual(routes(world), ["primary", "https://backup.example/v1", "https://backup.example/v1"])
      yield* TestClock.adjust("1 seconds")
      yield* world.run([middleware])
      assert.strictEqual(routes(world)[3], "primary")
    })
  )

  it.effect("T65 failures count in a row only", () =>
    Effect.gen(function* () {
      const bad = fails(status(503))
      const world = scene([bad, bad, ok, bad, bad, ok])
      const middleware = LlmFailover.make({ fallbackProviders: [backup], circuitBreaker: {} })
      for (let i = 0; i < 6; i++) yield* world.run([middleware])
      assert.strictEqual(routes(world).filter((route) => route === "primary").length, 6)
    })
  )

  it.effect("T67 a failed probe opens the circuit for a full time again", () =>
    Effect.gen(function* () {
      const world = scene([fails(status(503))])
      const middleware = LlmFailover.make({
        fallback_providers: [backup],
        circuit_breaker: { failure_threshold: 1, recovery_timeout_seconds: 60 }
      })
      const primaries = () => routes(world).filter((route) => route === "primary").length
      yield* world.run([middleware])
      yield* TestClock.adjust("60 seconds")
      yield* world.run([middleware])
      assert.strictEqual(primaries(), 2)
      yield* TestClock.adjust("59 seconds")
      yield* world.run([middleware])
      assert.strictEqual(primaries(), 2)
      yield* TestClock.adjust("1 seconds")
      yield* world.run([middleware])
      assert.strictEqual(primaries(), 3)
    })
  )

  it.effect("T68 after a probe that succeeds one failure does not open it at threshold 3", () =>
    Effect.gen(function* () {
      const bad = fails(status(503))
      const world = scene([bad, bad, bad, ok, bad, ok])
      const middleware = LlmFailover.make({ fallback_providers: [backup], circuit_breaker: {} })
      for (let i = 0; i < 3; i++) yield* world.run([middleware])
      yield* TestClock.adjust("60 seconds")
      for (let i = 0; i < 3; i++) yield* world.run([middleware])
      assert.strictEqual(routes(world).filter((route) => route === "primary").length, 6)
    })
  )

  it.effect("T70 without a trigger a 429 is not failed over, a 500 is", () =>
    Effect.gen(function* () {
      const limited = status(429)
      const world = scene([fails(limited), fails(status(500))])
      const middleware = LlmFailover.make({ fallback_providers: [backup] })
      assert.strictEqual(yield* Effect.flip(world.run([middleware])), limited)
      assert.strictEqual(textOf(yield* world.run([middleware])), "big")
    })
  )

  it.effect("T71 a 500 that another error wraps fails over", () =>
    Effect.gen(function* () {
      const world = scene([fails(status(500))])
      const wrapping = Middleware.wrapModelCall<never, TranslatedFailure>({
        name: "translating",
        wrap: (next) => (params) =>
          params.route === undefined
            ? Effect.catchCause(next(params), (cause) =>
                Effect.fail(
                  new TranslatedFailure({
                    kind: "wrap_model_call",
                    middleware: "x",
                    thrown: new Error("oops"),
                    downstream: cause.reasons[0]
                  })
                )
              )
            : next(params)
      })
      const middleware = LlmFailover.make({ fallback_providers: [backup] })
      const answer = yield* world.run([middleware, wrapping])
      assert.strictEqual(textOf(answer), "big")
    })
  )

  it.live("T73 a fallback with another protocol gets tools and messages in its own form, and its reply parses", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 200, {
          id: "msg_1",
          type: "message",
          role: "assistant",
          model: "claude-haiku-4-5",
          content: [{ type: "tool_use", id: "toolu_1", name: "look", input: { at: "it" } }],
          stop_reason: "tool_use",
          stop_sequence: null,
          usage: { input_tokens: 5, output_tokens: 3 }
        })
      )
      const middleware = LlmFailover.make({
        fallback_providers: [
          {
            name: "claude",
            llm_config: {
              model: "claude-haiku-4-5",
              base_url: server.url,
              api_key: "k",
              api_type: "anthropic_chat_completion"
            }
          }
        ]
      })
      const fake = Fake.make(fails(status(503)))
      const world = scene([])
      const answer = yield* Effect.gen(function* () {
        return yield* callModel(yield* ModelRouter, world.interceptors([middleware]), {
          call: Failover.modelCall,
          context: { ...ids, platform: "cli", apiCallCount: 1 },
          userMessage: "hello",
          options: undefined
        })
      }).pipe(Effect.provide(fake.router))
      const [request] = server.requests
      assert.isTrue(request?.url.startsWith("/v1/messages"))
      const body = JSON.parse(request?.body ?? "{}")
      assert.deepInclude(body.tools[0], { name: "look" })
      assert.isDefined(body.tools[0].input_schema)
      assert.deepInclude(body.messages[0], { role: "user" })
      assert.deepInclude(answer.response.parts[0], { type: "tool-call", name: "look", params: { at: "it" } })
      assert.deepInclude(answer.route, { apiMode: "anthropic_messages", model: "claude-haiku-4-5" })
    })
  )

  it.effect("T74 after a stream that died the text is the fallback's alone, and a notice names both providers", () =>
    Effect.gen(function* () {
      const dying: Fake.Turn = (request, options) =>
        Effect.andThen(
          options?.onPart?.([Response.makePart("text-delta", { id: "1", delta: "half" })]) ?? Effect.void,
          fails(status(502))(request, options)
        )
      const world = scene([dying])
      const answer = yield* world.run([LlmFailover.make({ fallback_providers: [backup] })])
      assert.strictEqual(textOf(answer), "big")
      assert.strictEqual(world.notices.length, 1)
      assert.include(world.notices[0], "custom (big)")
      assert.include(world.notices[0], "backup")
    })
  )

  it.effect("T76 many concurrent failures lose no count, and one call alone probes", () =>
    Effect.gen(function* () {
      const slow: Fake.Turn = (request, options) =>
        Effect.andThen(Effect.sleep("1 seconds"), fails(status(503))(request, options))
      const world = scene([slow])
      const middleware = LlmFailover.make({
        fallback_providers: [backup],
        circuit_breaker: { failure_threshold: 50, recovery_timeout_seconds: 60 }
      })
      const all = (count: number) =>
        Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(
            Effect.all(
              Array.from({ length: count }, () => world.run([middleware])),
              { concurrency: "unbounded" }
            )
          )
          yield* TestClock.adjust("1 seconds")
          return yield* Fiber.join(fiber)
        })
      const primaries = () => routes(world).filter((route) => route === "primary").length
      yield* all(49)
      yield* all(1)
      assert.strictEqual(primaries(), 50)
      yield* all(10)
      assert.strictEqual(primaries(), 50)
      yield* TestClock.adjust("60 seconds")
      yield* all(10)
      assert.strictEqual(primaries(), 51)
    })
  )
})
