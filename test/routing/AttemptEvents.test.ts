// What listeners are told of attempts that fail, and of the one that is answered in the end.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { SessionId, TaskId, TurnId } from "../../src/domain/Ids.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import * as ModelCalls from "../../src/routing/ModelCalls.ts"
import * as Fake from "../support/fakeModel.ts"
import * as S from "./support.ts"

type Payload = Readonly<Record<string, unknown>>

describe("api_request_error", () => {
  it.effect("carries what the failure was taken for, for every attempt of a call over keys and routes", () =>
    Effect.gen(function*() {
      const { open } = S.world({
        a: [S.fails(S.http(429, "slow")), S.fails(S.http(401, "no")), Fake.text("unused")],
        b: [S.fails(S.malformed), Fake.text("hello")]
      })
      const router = yield* S.router({
        chain: [{ route: S.route("a"), credentials: [S.key("k1"), S.key("k2")] }, { route: S.route("b") }],
        open,
        backoff: { base: 0, cap: 0 }
      })
      const seen: Array<readonly [string, Payload]> = []
      const keep = (name: string) => (payload: object) => Effect.sync(() => void seen.push([name, payload as Payload]))
      const hooks = yield* Hooks.make()
      yield* hooks.register(Hooks.on("api_request_error", keep("error")))
      yield* hooks.register(Hooks.on("post_api_request", keep("post")))
      const session = SessionId.make("s")
      const { attempt, route } = yield* ModelCalls.run(router, { hooks, stack: Stack.empty }, {
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
      })
      assert.deepStrictEqual([route.provider, attempt], ["b", 3])
      const told = seen.map(([name, payload]) => [name, payload["reason"], payload["retryable"], payload["status_code"], payload["retry_count"], payload["provider"]])
      assert.deepStrictEqual(told, [
        ["error", "rate_limit", true, 429, 0, "a"],
        ["error", "auth", false, 401, 1, "a"],
        ["error", "invalid_response", true, null, 2, "b"],
        ["post", undefined, undefined, undefined, 3, "b"]
      ])
      assert.strictEqual(seen[0]?.[1]["max_retries"], 3)
    }))
})
