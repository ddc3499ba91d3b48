// The provider over real HTTP: aimock speaks the protocol on its own account, small servers what aimock does not.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/ai/Prompt"
import type { Route } from "../../../src/base/domain/Route.ts"
import { fromResponse } from "../../../src/base/domain/Usage.ts"
import * as CodexResponses from "../../../src/models/provider/CodexResponses.ts"
import { ask, call, failing, mock, plain, terminal } from "./Ask.ts"
import * as HttpServer from "./HttpServer.ts"

const route = (baseUrl: string, more: Partial<Route> = {}): Route => ({
  provider: "custom",
  model: "gpt-5.1",
  apiMode: "codex_responses",
  baseUrl: `${baseUrl}/v1`,
  apiKey: Redacted.make("sk-test"),
  ...more
})

const answer = {
  id: "resp_1",
  status: "completed",
  output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "ok" }] }]
}

const streaming = (...events: ReadonlyArray<unknown>) =>
  HttpServer.make((_, response) =>
    response.writeHead(200, { "content-type": "text/event-stream" }).end(HttpServer.sse(...events))
  )

describe("against aimock", () => {
  for (const stream of [true, false]) {
    const how = stream ? "streamed" : "in one piece"

    it.effect(`reads text, reasoning and usage, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* mock
        server.onMessage("hi", {
          content: "Hello, wörld! How are you?",
          reasoning: "They greet me.",
          id: "resp_1",
          usage: { input_tokens: 12, output_tokens: 7 }
        })
        const provider = yield* CodexResponses.make(route(server.url))
        const { response, seen } = yield* ask(provider, call("hi", { stream }))
        assert.deepStrictEqual(
          response.parts.map((part) => ("text" in part ? [part.type, part.text] : [part.type])),
          [
            ["reasoning", "They greet me."],
            ["text", "Hello, wörld! How are you?"]
          ]
        )
        assert.strictEqual(response.finishReason, "stop")
        assert.strictEqual(response.id, "resp_1")
        assert.deepInclude(fromResponse(response.usage), { inputTokens: 12, outputTokens: 7 })
        if (!stream) return
        assert.isAbove(seen.filter((part) => part.type === "text-delta").length, 1)
        assert.deepStrictEqual(plain(yield* provider.decode(response.raw)), plain(response))
      })
    )

    it.effect(`reads parallel calls, and sends results and encrypted reasoning back, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* mock
        server.on({ toolCallId: "call_b" }, { content: "Done." })
        server.onMessage("run", {
          toolCalls: [
            { id: "call_a", name: "terminal", arguments: '{"command":"ls -la /tmp"}' },
            { id: "call_b", name: "terminal", arguments: "{}" }
          ]
        })
        const provider = yield* CodexResponses.make(route(server.url))
        const first = yield* ask(provider, call("run", { stream, tools: [terminal] }))
        const [thought, ...calls] = first.response.parts
        assert.deepStrictEqual(plain({ ...first.response, parts: calls }), [
          ["tool-call", "call_a", "terminal", { command: "ls -la /tmp" }],
          ["tool-call", "call_b", "terminal", {}]
        ])
        assert.strictEqual(first.response.finishReason, "tool-calls")
        const history = Prompt.fromResponseParts(first.response.parts).content
        const results = ["call_a", "call_b"].map((id) =>
          Prompt.toolMessage({
            content: [
              Prompt.toolResultPart({ id, name: "terminal", isFailure: false, result: "x", providerExecuted: false })
            ]
          })
        )
        const second = yield* ask(
          provider,
          call("run", { stream, tools: [terminal], messages: [...call("run").messages, ...history, ...results] })
        )
        assert.strictEqual(second.response.parts.map((part) => ("text" in part ? part.text : "")).join(""), "Done.")
        const own = thought?.metadata["codex_responses"]
        assert(own !== null && own !== undefined)
        const sent = (second.request["input"] as ReadonlyArray<unknown>)[1]
        assert.deepStrictEqual(sent, {
          type: "reasoning",
          summary: [],
          encrypted_content: Object(own)["encrypted_content"]
        })
      })
    )
  }
})

describe("on the wire", () => {
  it.effect("ChatGPT's backend is told which account and which client", () =>
    Effect.gen(function* () {
      const server = yield* streaming({ type: "response.completed", response: answer })
      const claims = { "https://api.openai.com/auth": { chatgpt_account_id: "acc_1" } }
      const token = `h.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.s`
      const provider = yield* CodexResponses.make(
        // A host of nobody's, so that the name says who it is.
        route(server.url, { provider: "openai-codex", apiKey: Redacted.make(token), headers: { originator: "mine" } })
      )
      const { response } = yield* ask(provider, call("hi"))
      assert.deepStrictEqual(plain(response), [["text", "ok"]])
      const [request] = server.requests
      assert.deepInclude(request?.headers, {
        "chatgpt-account-id": "acc_1",
        originator: "mine",
        authorization: `Bearer ${token}`
      })
      assert.strictEqual(request?.url, "/v1/responses")
      assert.propertyVal(JSON.parse(request?.body ?? ""), "stream", true)
    })
  )

  it.effect("a stream is over with its last event, whatever the server does after it", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(HttpServer.sse({ type: "response.completed", response: answer }))
      })
      const provider = yield* CodexResponses.make(route(server.url))
      for (const options of [undefined, { onPart: Effect.succeed }]) {
        const request = yield* provider.prepare(call("hi", { stream: true }))
        assert.deepStrictEqual(plain(yield* provider.execute(request, options)), [["text", "ok"]])
      }
    })
  )

  it.effect("a field that the API does not have is refused before anything is sent, extra_body is not", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => HttpServer.json(response, 200, answer))
      const provider = yield* CodexResponses.make(route(server.url))
      const reason = yield* failing(ask(provider, call("hi"), { top_k: 1 }))
      assert(reason._tag === "InvalidRequestError")
      assert.strictEqual(reason.parameter, "top_k")
      assert.strictEqual(server.requests.length, 0)
      yield* ask(provider, call("hi"), { extra_body: { top_k: 1 } })
      assert.propertyVal(JSON.parse(server.requests[0]?.body ?? ""), "top_k", 1)
    })
  )

  it.effect("interruption closes the connection", () =>
    Effect.gen(function* () {
      const arrived = yield* Deferred.make<void>()
      const closed = yield* Deferred.make<void>()
      const server = yield* HttpServer.make((_, response) => {
        response.once("close", () => Deferred.doneUnsafe(closed, Exit.void))
        Deferred.doneUnsafe(arrived, Exit.void)
      })
      const provider = yield* CodexResponses.make(route(server.url))
      const request = yield* provider.prepare(call("hi", { stream: true }))
      const fiber = yield* Effect.forkChild(provider.execute(request))
      yield* Deferred.await(arrived)
      yield* Fiber.interrupt(fiber)
      yield* Deferred.await(closed)
    })
  )

  it.effect("error answers are typed", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 400, {
          error: { message: "bad", code: "invalid_encrypted_content", type: "invalid_request_error" }
        })
      )
      const provider = yield* CodexResponses.make(route(server.url))
      const reason = yield* failing(ask(provider, call("hi", { stream: true })))
      assert(reason._tag === "InvalidRequestError")
      assert.propertyVal(reason.metadata, "code", "invalid_encrypted_content")
    })
  )

  it.effect("a provider without an address is not asked at OpenAI's", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(
        CodexResponses.make({
          provider: "xai",
          model: "grok-4",
          apiMode: "codex_responses",
          apiKey: Redacted.make("xai-key")
        })
      )
      assert.include(String(exit), "model.base_url")
    })
  )
})
