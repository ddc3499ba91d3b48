// Answers that the output limit cut, over HTTP in each protocol: the next request never asks for less room than the one
// before.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Agent from "../../src/agent/Agent.ts"
import * as AnthropicMessages from "../../src/models/provider/AnthropicMessages.ts"
import * as ChatCompletions from "../../src/models/provider/ChatCompletions.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { protocols, serve, type Protocol } from "../support/wireModel.ts"

const apiKey = Redacted.make("k")

const limitOf = (body: string): unknown => {
  const { inferenceConfig, max_completion_tokens, max_output_tokens, max_tokens } = JSON.parse(body)
  return max_tokens ?? max_completion_tokens ?? max_output_tokens ?? inferenceConfig?.maxTokens
}

/** The output limits of three requests, of which the first two are cut. */
const limits = Effect.fnUntraced(function* (protocol: Protocol, streaming: boolean, maxOutputTokens?: number) {
  const { provider, server } = yield* serve(protocol, streaming, [
    { text: "one ", cut: true },
    { text: "two ", cut: true },
    { text: "three" }
  ])
  const result = yield* Agent.run({ prompt: "go", streaming }).pipe(
    Effect.provide(Runtime.layer({ provider, ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }) }))
  )
  assert.deepInclude(result, { exit: "text_response", text: "one two three" })
  return server.requests.map(({ body }) => limitOf(body))
})

const opus = protocols.anthropic_messages
const old: Protocol = {
  ...opus,
  layer: (url) => AnthropicMessages.layer({ baseUrl: url, model: "claude-3-5-haiku-latest", apiKey })
}
const openRouter: Protocol = {
  ...protocols.chat_completions,
  layer: (url) =>
    ChatCompletions.layer({
      provider: "openrouter",
      baseUrl: `${url}/v1`,
      model: "anthropic/claude-sonnet-4.5",
      apiKey
    })
}

describe("asked again with a larger output budget", () => {
  it.live("an endpoint that was asked for no limit is asked for more than it gave", () =>
    Effect.gen(function* () {
      const generous: Protocol = {
        ...protocols.chat_completions,
        whole: (turn) =>
          Object.assign({}, protocols.chat_completions.whole(turn), {
            usage: { prompt_tokens: 1, completion_tokens: 10_000 }
          })
      }
      assert.deepStrictEqual(yield* limits(generous, false), [undefined, 20_000, 30_000])
    })
  )

  for (const streaming of [true, false]) {
    const how = streaming ? "streamed" : "in one piece"
    it.live(`no protocol asks for less than before, ${how}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* limits(opus, streaming), [128_000, 128_000, 128_000])
        assert.deepStrictEqual(yield* limits(old, streaming), [8_192, 16_384, 24_576])
        assert.deepStrictEqual(yield* limits(openRouter, streaming), [64_000, 64_000, 64_000])
        assert.deepStrictEqual(yield* limits(protocols.bedrock_converse, streaming), [4_096, 8_192, 12_288])
        assert.deepStrictEqual(yield* limits(protocols.chat_completions, streaming), [undefined, 8_192, 12_288])
        assert.deepStrictEqual(yield* limits(protocols.codex_responses, streaming), [undefined, 8_192, 12_288])
      })
    )

    it.live(`a limit of the settings is the base in every protocol, ${how}`, () =>
      Effect.gen(function* () {
        for (const protocol of Object.values(protocols)) {
          assert.deepStrictEqual(yield* limits(protocol, streaming, 6_000), [6_000, 12_000, 18_000])
        }
      })
    )
  }
})
