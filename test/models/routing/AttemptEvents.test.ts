// What listeners are told of attempts that fail, and of the one that is answered in the end.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../../src/agent/Agent.ts"
import { SessionId, TaskId, TurnId } from "../../../src/base/domain/Ids.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Stack from "../../../src/middleware/Stack.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import { callModel, makeLog } from "../../../src/models/routing/ModelRouter.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as S from "./support.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

type Payload = Readonly<Record<string, unknown>>

describe("api_request_error", () => {
  it.effect("carries what the failure was taken for, for every attempt of a call over keys and routes", () =>
    Effect.gen(function* () {
      const { open } = S.world({
        a: [S.fails(S.http(429, "slow")), S.fails(S.http(401, "no")), Fake.text("unused")],
        b: [S.fails(S.malformed), Fake.text("hello")]
      })
      const router = yield* S.router({
        chain: [{ route: S.route("a"), credentials: [S.key("k1"), S.key("k2")] }, { route: S.route("b") }],
        open,
        retry: RetryPolicy.make({ base: 0, cap: 0 })
      })
      const seen: Array<readonly [string, Payload]> = []
      const keep = (name: string) => (payload: object) => Effect.sync(() => void seen.push([name, payload as Payload]))
      const hooks = yield* Hooks.make()
      yield* hooks.register(Hooks.on("api_request_error", keep("error")))
      yield* hooks.register(Hooks.on("post_api_request", keep("post")))
      const session = SessionId.make("s")
      const { attempt, route } = yield* callModel(
        router,
        { hooks, stack: Stack.make([]) },
        {
          call: S.question,
          context: {
            sessionId: session,
            taskId: TaskId.make("s"),
            turnId: TurnId.make("t"),
            platform: "test",
            apiCallCount: 1
          },
          userMessage: "hi",
          options: undefined
        }
      )
      assert.deepStrictEqual([route.provider, attempt], ["b", 3])
      const told = seen.map(([name, payload]) => [
        name,
        payload["reason"],
        payload["retryable"],
        payload["status_code"],
        payload["retry_count"],
        payload["provider"]
      ])
      assert.deepStrictEqual(told, [
        ["error", "rate_limit", true, 429, 0, "a"],
        ["error", "auth", false, 401, 1, "a"],
        ["error", "invalid_response", true, null, 2, "b"],
        ["post", undefined, undefined, undefined, 3, "b"]
      ])
      assert.strictEqual(seen[0]?.[1]["max_retries"], 3)
    })
  )
})

describe("the decision on a failure", () => {
  it.effect("is made once, and goes up with the failure", () =>
    Effect.gen(function* () {
      const { open } = S.world({ a: [S.fails(S.http(503, "down")), S.fails(S.http(413, "too large"))] })
      const router = yield* S.router({
        chain: [{ route: S.route("a") }],
        open,
        retry: RetryPolicy.make({ base: 0, cap: 0 })
      })
      const log = makeLog()
      const error = yield* Effect.flip(
        callModel(router, S.bare, { call: S.question, context: S.context, userMessage: "hi", options: undefined, log })
      )
      assert.strictEqual(log.failure?.error, error)
      assert.deepInclude(log.failure?.decision, { reason: "payload_too_large", recoveries: [{ _tag: "Compact" }] })
      assert.strictEqual(log.count, 2)
    })
  )
})

describe("post_api_request", () => {
  const answered = (streaming: boolean) =>
    Effect.gen(function* () {
      const seen: Array<Payload> = []
      const hooks = [Hooks.on("post_api_request", (event) => Effect.sync(() => void seen.push({ ...event })))]
      const said = {
        pieces: [
          { text: "one ", delay: "2 seconds" as const },
          { text: "two", delay: "3 seconds" as const }
        ]
      }
      const layer = Runtime.layer({ provider: Scripted.layer([Scripted.complete(said)]), hooks })
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(Agent.run({ prompt: "hi", streaming }))
        while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
        yield* Fiber.join(fiber)
      }).pipe(Effect.provide(layer))
      return seen[0] ?? {}
    })

  it.effect("says when the first piece of an answer that streamed was there", () =>
    Effect.gen(function* () {
      const streamed = yield* answered(true)
      assert.deepStrictEqual([streamed["time_to_first_token"], streamed["api_duration"]], [2, 5])
      assert.notProperty(yield* answered(false), "time_to_first_token")
    })
  )
})
