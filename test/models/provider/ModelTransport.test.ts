// The transport of a provider is a function or a client of the application: all requests reach it, also for the lists
// of models that a router reads.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Agent from "../../../src/agent/Agent.ts"
import { type Fetch, layerFetch, layerHttpClient } from "../../../src/base/platform/ModelTransport.ts"
import { createHermes } from "../../../src/kit/promise/CreateHermes.ts"
import * as AnthropicMessages from "../../../src/models/provider/AnthropicMessages.ts"
import * as BedrockConverse from "../../../src/models/provider/BedrockConverse.ts"
import * as ChatCompletions from "../../../src/models/provider/ChatCompletions.ts"
import * as CodexResponses from "../../../src/models/provider/CodexResponses.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Ask from "./Ask.ts"

const baseUrl = "http://models.test/v1"
const apiKey = Redacted.make("k-0123456789")

const chatChunk = (delta: object, finish_reason: string | null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`

/** Answers of each protocol, whole and streamed, by the end of the address. */
const answers: ReadonlyArray<readonly [end: RegExp, whole: object]> = [
  [/chat\/completions$/, { choices: [{ index: 0, message: { content: "canned" }, finish_reason: "stop" }] }],
  [
    /responses$/,
    {
      id: "r",
      status: "completed",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "canned" }] }]
    }
  ],
  [/messages$/, { id: "m", content: [{ type: "text", text: "canned" }], stop_reason: "end_turn", usage: {} }],
  [/converse$/, { output: { message: { role: "assistant", content: [{ text: "canned" }] } }, stopReason: "end_turn" }]
]

/** A `fetch` that answers itself, and what it was asked. */
const makeFetch = () => {
  const asked: Array<{ readonly url: string; readonly headers: Headers; readonly body: string }> = []
  const fetch: Fetch = async (input, init = {}) => {
    const body = typeof init.body === "string" ? init.body : new TextDecoder().decode(init.body as Uint8Array)
    const url = String(input)
    asked.push({ url, headers: new Headers(init.headers), body })
    if (body.includes('"stream":true'))
      return new Response(chatChunk({ content: "streamed" }, null) + chatChunk({}, "stop") + "data: [DONE]\n\n", {
        headers: { "content-type": "text/event-stream" }
      })
    const [, whole] = answers.find(([end]) => end.test(url)) ?? []
    return Response.json(whole ?? {}, { status: whole === undefined ? 404 : 200 })
  }
  return { asked, fetch }
}

const ask = Effect.gen(function* () {
  const provider = yield* Provider
  const request = yield* provider.prepare(Ask.call("Hello?"))
  const { parts } = yield* provider.execute(request)
  return parts.map((part) => (part.type === "text" ? part.text : part.type)).join("")
})

const layers = {
  chat: (fetch: Fetch | undefined) => ChatCompletions.layer({ model: "m", baseUrl, apiKey, fetch }),
  responses: (fetch: Fetch | undefined) => CodexResponses.layer({ model: "m", baseUrl, apiKey, fetch }),
  anthropic: (fetch: Fetch | undefined) =>
    AnthropicMessages.layer({ model: "claude-sonnet-4-6", baseUrl: "http://models.test", apiKey, fetch }),
  bedrock: (fetch: Fetch | undefined) =>
    BedrockConverse.layer({ model: "m", baseUrl: "http://models.test", apiKey, fetch })
}

describe("ModelTransport", () => {
  it.effect.each(Object.entries(layers))("%s sends with the function of its options, or of the context", ([, layer]) =>
    Effect.gen(function* () {
      const own = makeFetch()
      const shared = makeFetch()
      assert.strictEqual(
        yield* Effect.provide(ask, layer(own.fetch).pipe(Layer.provide(layerFetch(shared.fetch)))),
        "canned"
      )
      assert.deepStrictEqual([own.asked.length, shared.asked.length], [1, 0])
      assert.strictEqual(
        yield* Effect.provide(ask, layer(undefined).pipe(Layer.provide(layerFetch(shared.fetch)))),
        "canned"
      )
      assert.strictEqual(shared.asked.length, 1)
      assert.include(shared.asked[0]?.body, "Hello?")
    })
  )

  it.effect("a runtime sends with the function of its context, in a session that is resumed too", () =>
    Effect.gen(function* () {
      const { asked, fetch } = makeFetch()
      const runtime = Runtime.layer({ provider: ChatCompletions.layer({ model: "m", baseUrl, apiKey }) }).pipe(
        Layer.provide(layerFetch(fetch))
      )
      const texts = yield* Effect.provide(
        Effect.gen(function* () {
          const first = yield* Agent.run({ prompt: "Hello?" })
          const second = yield* Agent.run({ prompt: "Again?", sessionId: first.sessionId, streaming: true })
          return [first.text, second.text]
        }),
        runtime
      )
      assert.deepStrictEqual(texts, ["canned", "streamed"])
      assert.strictEqual(asked.length, 2)
      assert.strictEqual(asked[0]?.headers.get("authorization"), "Bearer k-0123456789")
    })
  )

  it("a runtime without Effect sends with its function", async () => {
    const { asked, fetch } = makeFetch()
    const hermes = createHermes({ model: { model: "m", baseUrl, apiKey: "k-0123456789" }, fetch })
    assert.strictEqual((await hermes.run("Hello?")).text, "canned")
    assert.strictEqual((await hermes.run({ prompt: "Hello?", streaming: true })).text, "streamed")
    await hermes.dispose()
    assert.deepStrictEqual(asked.map(({ url }) => url.slice(baseUrl.length)).toSorted(), [
      "/chat/completions",
      "/chat/completions",
      "/models"
    ])
  })

  it.effect("in a web page, the key of a provider is used only with the consent of the application", () =>
    Effect.gen(function* () {
      for (const name of ["window", "document"]) {
        Reflect.set(globalThis, name, { document: {} })
        yield* Effect.addFinalizer(() => Effect.sync(() => Reflect.deleteProperty(globalThis, name)))
      }
      const { asked, fetch } = makeFetch()
      const options = { model: "claude-sonnet-4-6", baseUrl, apiKey, fetch }
      const providers = [ChatCompletions.layer, CodexResponses.layer, AnthropicMessages.layer, BedrockConverse.layer]
      for (const layer of providers) {
        const error = yield* Effect.flip(Effect.provide(ask, layer(options)))
        assert.include(error.message, "set allowBrowser: true")
        assert.strictEqual(yield* Effect.provide(ask, layer({ ...options, allowBrowser: true })), "canned")
      }
      assert.strictEqual(asked.length, providers.length)

      const model = { model: "m", baseUrl, apiKey: "k-0123456789" }
      const refused = createHermes({ model, fetch })
      const message = yield* Effect.promise(() => refused.run("Hello?").then(() => "answered", String))
      assert.include(message, "set allowBrowser: true")
      const permitted = createHermes({ model: { ...model, allowBrowser: true }, fetch })
      assert.strictEqual((yield* Effect.promise(() => permitted.run("Hello?"))).text, "canned")
      yield* Effect.promise(() => Promise.all([refused.dispose(), permitted.dispose()]))
    })
  )

  it.effect("Effect's HttpClient sends, with its transformations", () =>
    Effect.gen(function* () {
      const { asked, fetch } = makeFetch()
      const client = HttpClient.make((request, url) =>
        Effect.promise(async () => {
          const body = request.body._tag === "Uint8Array" ? request.body.body : undefined
          const init = { method: request.method, headers: request.headers, body: body as Uint8Array<ArrayBuffer> }
          return HttpClientResponse.fromWeb(request, await fetch(url, init))
        })
      ).pipe(
        HttpClient.mapRequest((request) => ({ ...request, headers: { ...request.headers, signed: "yes" } }) as never)
      )
      const transport = layerHttpClient.pipe(Layer.provide(Layer.succeed(HttpClient.HttpClient, client)))
      const provided = layers.chat(undefined).pipe(Layer.provide(transport))
      assert.strictEqual(yield* Effect.provide(ask, provided), "canned")
      assert.strictEqual(asked[0]?.headers.get("signed"), "yes")
      assert.include(asked[0]?.body, "Hello?")
    })
  )
})
