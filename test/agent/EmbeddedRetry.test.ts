// A runtime over a provider of the application asks again as the program does: by the same lanes, with the same waits.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { ServerResponse } from "node:http"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as ChatCompletions from "../../src/models/provider/ChatCompletions.ts"
import * as ModelRouter from "../../src/models/routing/ModelRouter.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import * as S from "../models/routing/support.ts"
import * as Fake from "../support/fakeModel.ts"
import { running } from "../support/movingClock.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const answer = { choices: [{ index: 0, message: { role: "assistant", content: "done" }, finish_reason: "stop" }] }

/** Ways to fail, each of which passes. */
const troubles: Readonly<Record<string, (response: ServerResponse) => void>> = {
  "503": (response) => HttpServer.json(response, 503, { error: { message: "down" } }),
  "500 with a page": (response) => void response.writeHead(500, { "content-type": "text/plain" }).end("boom"),
  "429": (response) => HttpServer.json(response, 429, { error: { message: "slow" } }, { "retry-after-ms": "5" }),
  "a reset connection": (response) => void response.socket?.resetAndDestroy(),
  "an answer cut in its headers": (response) => void response.socket?.end("HTTP/1.1 200 OK\r\ncontent-")
}

describe("an embedded runtime", () => {
  for (const [name, trouble] of Object.entries(troubles)) {
    for (const streaming of [true, false]) {
      it.live(`asks again after ${name}, ${streaming ? "streaming" : "whole"}`, () =>
        Effect.gen(function* () {
          const server = yield* HttpServer.make((_, response) =>
            server.requests.length < 3 ? trouble(response) : HttpServer.json(response, 200, answer)
          )
          const provider = ChatCompletions.layer({
            model: "m",
            baseUrl: `${server.url}/v1`,
            apiKey: Redacted.make("k")
          })
          const events: Array<RunEvent> = []
          const result = yield* Agent.run({
            prompt: "go",
            streaming,
            onEvent: (told) => Effect.sync(() => void events.push(...told))
          }).pipe(
            Effect.provide(Runtime.layer({ provider, retry: RetryPolicy.make({ base: "5 millis", cap: "10 millis" }) }))
          )
          assert.deepInclude(result, { exit: "text_response", text: "done" })
          assert.strictEqual(server.requests.length, 3)
          // The few milliseconds of a limit may have passed by the time that the call would wait for them.
          if (name !== "429") assert.strictEqual(events.filter(({ _tag }) => _tag === "Waiting").length, 2)
        })
      )
    }
  }

  it.effect("waits as long as the program by default, and gives up after as many attempts", () =>
    Effect.gen(function* () {
      const events: Array<RunEvent> = []
      const down = Scripted.fail(S.http(503, "down").reason)
      const run = Agent.run({ prompt: "go", onEvent: (told) => Effect.sync(() => void events.push(...told)) })
      const script = Scripted.layer([down, down, down, Scripted.complete("too late")])
      const exit = yield* running(Effect.exit(Effect.provide(run, Runtime.layer({ provider: script }))))
      assert.isTrue(Exit.isFailure(exit))
      const [first = 0, second = 0, ...more] = S.waits(events)
      assert.isTrue(first >= 5_000 && first <= 7_500 && second >= 10_000 && second <= 15_000, `${first}, ${second}`)
      assert.deepStrictEqual(more, [])
    })
  )

  it.effect("does what a routed one does, failure by failure", () =>
    Effect.gen(function* () {
      const failures = [503, 500, 529, 429, 408, 401, 402, 403, 404, 413, 422]
      const play = Effect.fnUntraced(function* (router: ModelRouter.ModelRouter["Service"]) {
        const { answer, events } = S.asking(router)
        return [(yield* running(Effect.exit(answer)))._tag, events.map(({ _tag }) => _tag)] as const
      })
      for (const status of failures) {
        const turns = [S.fails(S.http(status, "no")), S.fails(S.http(status, "no")), Fake.text("hello")]
        const fake = Fake.make(...turns)
        const embedded = yield* ModelRouter.ModelRouter.pipe(
          Effect.provide(ModelRouter.layer.pipe(Layer.provide(Layer.succeed(Provider, fake.provider))))
        )
        const routed = yield* S.router({ chain: [{ route: S.route("a") }], open: S.world({ a: turns }).open })
        assert.deepStrictEqual(yield* play(embedded), yield* play(routed), String(status))
      }
    })
  )
})
