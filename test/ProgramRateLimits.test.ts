// Runs side by side on one key, over the loopback, through the runtime of the program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../src/agent/Agent.ts"
import * as HttpServer from "./models/provider/HttpServer.ts"
import * as Program from "./support/configuredProgram.ts"

describe("rate limits of a provider", () => {
  it.live("fifty runs at five requests a second are all answered, with twenty refusals at most", () =>
    Effect.gen(function* () {
      let tokens = 5
      let at = Date.now()
      let refused = 0
      let answered = 0
      const server = yield* HttpServer.make(({ url }, response) => {
        if (!url.endsWith("/chat/completions")) {
          HttpServer.json(response, 404, { error: { message: "not here" } })
          return
        }
        const now = Date.now()
        tokens = Math.min(5, tokens + (now - at) / 200)
        at = now
        if (tokens < 1) {
          refused++
          HttpServer.json(response, 429, { error: { message: "slow down" } }, { "retry-after": "1" })
          return
        }
        tokens--
        answered++
        const choice = { index: 0, message: { role: "assistant", content: "done" }, finish_reason: "stop" }
        HttpServer.json(response, 200, {
          id: "x",
          model: "m",
          choices: [choice],
          usage: { prompt_tokens: 1, completion_tokens: 1 }
        })
      })
      const layer = Program.layer({
        config: `model:\n  provider: custom\n  default: m\n  base_url: ${server.url}/v1\n  api_key: k\n  context_length: 100000\n`
      })
      const results = yield* Effect.forEach(
        Array.from({ length: 50 }, (_, index) => index),
        (index) => Effect.exit(Agent.run({ prompt: `say done ${index}`, streaming: false })),
        { concurrency: "unbounded" }
      ).pipe(Effect.provide(layer))
      assert.deepStrictEqual(
        results.map((exit) => (exit._tag === "Success" ? exit.value.text : "failed")),
        results.map(() => "done")
      )
      assert.strictEqual(answered, 50)
      assert.isAtMost(refused, 20)
    })
  )
})
