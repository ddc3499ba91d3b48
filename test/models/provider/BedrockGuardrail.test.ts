// A guardrail of Bedrock over real HTTP: what is sent with each call, and what becomes of its interventions.
import { encodeEventStreamMessage } from "@copilotkit/aimock"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Guardrail, Route } from "../../../src/base/domain/Route.ts"
import * as BedrockConverse from "../../../src/models/provider/BedrockConverse.ts"
import * as Ask from "./Ask.ts"
import * as HttpServer from "./HttpServer.ts"

const route = (baseUrl: string, guardrail?: Guardrail): Route => ({
  provider: "bedrock",
  model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
  apiMode: "bedrock_converse",
  baseUrl,
  apiKey: Redacted.make("bedrock-key"),
  guardrail
})

const blocked = "Sorry, the model cannot answer this question."
const usage = { inputTokens: 5, outputTokens: 0, totalTokens: 5 }

/** Answers as the service does where a guardrail intervened; `content` is what it says instead, in pieces. */
const intervening = (...content: ReadonlyArray<string>) =>
  HttpServer.make(({ url }, response) => {
    if (url.endsWith("/converse")) {
      const blocks = content.length === 0 ? [] : [{ text: content.join("") }]
      return HttpServer.json(response, 200, {
        output: { message: { role: "assistant", content: blocks } },
        stopReason: "guardrail_intervened",
        usage,
        trace: { guardrail: { actionReason: "Guardrail blocked." } }
      })
    }
    response
      .writeHead(200, { "content-type": "application/vnd.amazon.eventstream" })
      .end(
        Buffer.concat([
          encodeEventStreamMessage("messageStart", { role: "assistant" }),
          ...content.map((text) =>
            encodeEventStreamMessage("contentBlockDelta", { contentBlockIndex: 0, delta: { text } })
          ),
          ...(content.length === 0 ? [] : [encodeEventStreamMessage("contentBlockStop", { contentBlockIndex: 0 })]),
          encodeEventStreamMessage("messageStop", { stopReason: "guardrail_intervened" }),
          encodeEventStreamMessage("metadata", {
            usage,
            metrics: { latencyMs: 1 },
            trace: { guardrail: { actionReason: "Guardrail blocked." } }
          })
        ])
      )
  })

const configOf = ({ body }: HttpServer.Received): unknown => JSON.parse(body).guardrailConfig

describe("a guardrail", () => {
  const own: Guardrail = {
    guardrailIdentifier: "gr-1",
    guardrailVersion: "3",
    streamProcessingMode: "async",
    trace: "enabled_full"
  }

  it.effect("goes with every call, its stream mode with streamed ones only", () =>
    Effect.gen(function* () {
      const server = yield* intervening(blocked)
      const provider = yield* BedrockConverse.make(route(server.url, own))
      yield* Ask.ask(provider, Ask.call("hi", { stream: false }))
      yield* Ask.ask(provider, Ask.call("hi", { stream: true, tools: [Ask.terminal] }))
      const whole = { guardrailIdentifier: "gr-1", guardrailVersion: "3", trace: "enabled_full" }
      assert.deepStrictEqual(
        server.requests.map(({ url }) => url.replace(/^.*\//, "")),
        ["converse", "converse-stream"]
      )
      assert.deepStrictEqual(server.requests.map(configOf), [whole, { ...whole, streamProcessingMode: "async" }])
    })
  )

  it.effect("is sent without what nobody asked for, and not at all where there is none", () =>
    Effect.gen(function* () {
      const server = yield* intervening(blocked)
      const least = { guardrailIdentifier: "gr-1", guardrailVersion: "DRAFT" }
      for (const guardrail of [least, undefined]) {
        for (const stream of [true, false]) {
          yield* Ask.ask(yield* BedrockConverse.make(route(server.url, guardrail)), Ask.call("hi", { stream }))
        }
      }
      assert.deepStrictEqual(server.requests.map(configOf), [least, least, undefined, undefined])
    })
  )

  for (const stream of [true, false]) {
    const how = stream ? "streamed" : "in one piece"

    it.effect(`that intervenes ends the answer as filtered, with the text in its place, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* intervening("Sorry, the model ", "cannot answer this question.")
        const { response } = yield* Ask.ask(
          yield* BedrockConverse.make(route(server.url, own)),
          Ask.call("hi", { stream })
        )
        assert.deepStrictEqual(Ask.plain(response), [["text", blocked]])
        assert.strictEqual(response.finishReason, "content-filter")
      })
    )

    it.effect(`that intervenes without a word ends the answer as filtered too, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* intervening()
        const { response } = yield* Ask.ask(
          yield* BedrockConverse.make(route(server.url, own)),
          Ask.call("hi", { stream })
        )
        assert.deepStrictEqual([Ask.plain(response), response.finishReason], [[], "content-filter"])
      })
    )
  }
})
