// What a session paid again is shown with its reason and its price, by the prices of the route.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { sessionIdOf } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"

/** A model whose third answer of a session is not read from the cache. */
const makeServer = () => {
  const answers = [0, 20_000, 0, 20_000]
  return HttpServer.make(({ url }, response) => {
    if (!url.endsWith("/chat/completions"))
      return void HttpServer.json(response, 404, { error: { message: "not here" } })
    const cached = answers.shift() ?? 0
    const usage = { prompt_tokens: 20_000, completion_tokens: 5, prompt_tokens_details: { cached_tokens: cached } }
    const choice = { index: 0, delta: { role: "assistant", content: "done" }, finish_reason: "stop" }
    response
      .writeHead(200, { "content-type": "text/event-stream" })
      .end(
        HttpServer.sse(
          { id: "x", model: "m", choices: [choice] },
          { id: "x", model: "m", choices: [], usage },
          "[DONE]"
        )
      )
  })
}

const play = Effect.fnUntraced(function* (provider: string, model: string) {
  const { hermes, keep } = yield* machine
  const { url } = yield* makeServer()
  keep(
    "config.yaml",
    `model:\n  provider: ${provider}\n  default: ${model}\n  base_url: ${url}/v1\n  api_key: key-of-this-test-only\n` +
      "  api_mode: chat_completions\n  context_length: 128000\nauxiliary:\n  title_generation:\n    enabled: false\n"
  )
  const { code, stderr } = yield* hermes(["-Q", "-q", "one", "-t", "file"])
  assert.strictEqual(code, 0, stderr)
  for (const prompt of ["two", "three", "four"])
    yield* hermes(["-Q", "-q", prompt, "-t", "file", "--resume", sessionIdOf(stderr)])
  const { stdout: json } = yield* hermes(["insights", "--json"])
  const { stdout: text } = yield* hermes(["insights"])
  const { misses }: { readonly misses: unknown } = JSON.parse(json)
  return { misses, text }
})

describe("hermes insights", () => {
  it.live("shows a miss with its reason, its tokens and what they cost more than cached ones", () =>
    Effect.gen(function* () {
      const { misses, text } = yield* play("openai", "gpt-4.1")
      assert.deepStrictEqual(misses, [
        { reason: "a changed prefix", calls: 1, tokens: 20_000, price: 0.03, unpriced: 0 }
      ])
      assert.include(text, "a changed prefix  1 call, 20.0k tokens again, $0.03 more")
    })
  )

  it.live("says that the price of a miss is unknown where the route has no prices", () =>
    Effect.gen(function* () {
      const { misses, text } = yield* play("custom", "some-model")
      assert.deepStrictEqual(misses, [{ reason: "a changed prefix", calls: 1, tokens: 20_000, unpriced: 1 }])
      assert.include(text, "20.0k tokens again, price unknown")
    })
  )
})
