// The provider over real HTTP: aimock speaks the protocol on its own account, small servers what aimock does not.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import { makeTextDelta, type ModelCall } from "../../../src/base/domain/ModelCall.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import { fromResponse } from "../../../src/base/domain/Usage.ts"
import * as AnthropicMessages from "../../../src/models/provider/AnthropicMessages.ts"
import * as Exchange from "../../../src/models/provider/Exchange.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Ask from "./Ask.ts"
import * as HttpServer from "./HttpServer.ts"

const route = (baseUrl: string, more: Partial<Route> = {}): Route => ({
  provider: "custom",
  model: "claude-opus-4-6",
  apiMode: "anthropic_messages",
  baseUrl,
  apiKey: Redacted.make("sk-ant-api03-test"),
  ...more
})

const call = (text: string, more: Partial<ModelCall> = {}): ModelCall =>
  Ask.call(text, { tools: [Ask.terminal], stream: true, ...more })

const ask = Effect.fnUntraced(function* (at: Route, question: ModelCall) {
  const provider = yield* AnthropicMessages.make(at)
  return { provider, ...(yield* Ask.ask(provider, question)) }
})

const failing = (at: Route, question: ModelCall) => Ask.failing(ask(at, question))

describe("against aimock", () => {
  for (const stream of [true, false]) {
    const how = stream ? "streamed" : "in one piece"

    it.effect(`reads text with its thinking, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* Ask.mock
        server.onMessage("hi", {
          content: "Hello, wörld! How are you?",
          reasoning: "They greet me.",
          reasoningSignature: "sig-1",
          redactedThinking: ["opaque"],
          id: "msg_1",
          usage: { input_tokens: 12, output_tokens: 7 }
        })
        const { response } = yield* ask(route(server.url), call("hi", { stream }))
        assert.deepStrictEqual(Ask.plain(response), [
          ["reasoning", "", { anthropic_messages: { redacted: "opaque" } }],
          ["reasoning", "They greet me.", { anthropic_messages: { signature: "sig-1" } }],
          ["text", "Hello, wörld! How are you?"]
        ])
        assert.strictEqual(response.finishReason, "stop")
        assert.strictEqual(response.id, "msg_1")
        assert.strictEqual(response.model, "claude-opus-4-6")
        assert.deepInclude(fromResponse(response.usage), { inputTokens: 12, outputTokens: 7 })
      })
    )

    it.effect(`reads parallel calls whose arguments come in pieces, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* Ask.mock
        server.onMessage("run", {
          content: "Two at once.",
          toolCalls: [
            { id: "toolu_a", name: "terminal", arguments: '{"command":"ls -la /tmp"}' },
            { id: "toolu_b", name: "terminal", arguments: "{}" }
          ]
        })
        const { response, seen } = yield* ask(route(server.url), call("run", { stream }))
        assert.deepStrictEqual(Ask.plain(response), [
          ["text", "Two at once."],
          ["tool-call", "toolu_a", "terminal", { command: "ls -la /tmp" }],
          ["tool-call", "toolu_b", "terminal", {}]
        ])
        assert.strictEqual(response.finishReason, "tool-calls")
        if (stream) {
          const parts = seen
          const pieces = parts.filter((part) => part.type === "tool-params-delta" && part.id === "toolu_a")
          assert.isAbove(pieces.length, 1)
          assert.strictEqual(parts.at(-1)?.type, "finish")
        }
      })
    )

    it.effect(`sends the history of a tool call back, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* Ask.mock
        server.onToolResult("toolu_a", { content: "It says x." })
        const messages = [
          Prompt.userMessage({ content: [Prompt.textPart({ text: "go" })] }),
          Prompt.assistantMessage({
            content: [Prompt.toolCallPart({ id: "toolu_a", name: "terminal", params: {}, providerExecuted: false })]
          }),
          Prompt.toolMessage({
            content: [
              Prompt.toolResultPart({
                id: "toolu_a",
                name: "terminal",
                isFailure: false,
                result: "x",
                providerExecuted: false
              })
            ]
          })
        ]
        const { response } = yield* ask(route(server.url), call("", { messages, stream }))
        assert.deepStrictEqual(Ask.plain(response), [["text", "It says x."]])
      })
    )
  }

  it.effect("maps the errors that the API answers with", () =>
    Effect.gen(function* () {
      const server = yield* Ask.mock
      const fails = (status: number, type: string, message: string) => {
        server.nextRequestError(status, { type, message })
        return failing(route(server.url), call("hi"))
      }
      assert.strictEqual((yield* fails(429, "rate_limit_error", "slow down"))._tag, "RateLimitError")
      assert.strictEqual((yield* fails(529, "overloaded_error", "Overloaded"))._tag, "InternalProviderError")
      assert.strictEqual((yield* fails(401, "authentication_error", "invalid x-api-key"))._tag, "AuthenticationError")
      assert.strictEqual((yield* fails(400, "invalid_request_error", "prompt is too long"))._tag, "InvalidRequestError")
      assert.strictEqual(server.getRequests().length, 4, "the SDK retries nothing")
    })
  )

  it.effect("is the run's provider as a layer", () =>
    Effect.gen(function* () {
      const server = yield* Ask.mock
      server.onMessage("hi", { content: "Hello" })
      const response = yield* Provider.use((provider) =>
        Effect.flatMap(provider.prepare(call("hi")), (request) => provider.execute(request))
      ).pipe(Effect.provide(AnthropicMessages.layer({ model: "claude-opus-4-6", baseUrl: server.url })))
      assert.deepStrictEqual(Ask.plain(response), [["text", "Hello"]])
    })
  )
})

const start = {
  type: "message_start",
  message: {
    id: "msg_1",
    model: "claude-x",
    usage: { input_tokens: 100, cache_read_input_tokens: 900, cache_creation_input_tokens: 50, output_tokens: 1 }
  }
}
const textStart = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }
const textDelta = (text: string) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })
const textStop = { type: "content_block_stop", index: 0 }
const messageDelta = (stop_reason: string, usage: object = { output_tokens: 20 }) => ({
  type: "message_delta",
  delta: { stop_reason, stop_sequence: null },
  usage
})
const messageStop = { type: "message_stop" }
const whole = [start, textStart, textDelta("Hel"), textDelta("lo"), textStop, messageDelta("end_turn"), messageStop]

/** Answers every request with the same events, and then ends. */
const streams = (...events: ReadonlyArray<unknown>) =>
  HttpServer.make((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).end(HttpServer.sse({ type: "ping" }, ...events))
  })

const answers = (status: number, body: string, headers: Record<string, string> = {}) =>
  HttpServer.make((_, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(body)
  })

describe("what is sent", () => {
  it.effect("is the request with its extras merged, under the route's headers, query and address", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const provider = yield* AnthropicMessages.make(
        route(`${server.url}/anthropic`, {
          headers: { "x-team": "blue" },
          query: { "api-version": "7" },
          extraBody: { metadata: { user_id: "u" } }
        })
      )
      const request = yield* provider.prepare(call("hi", { maxOutputTokens: 9 }))
      yield* provider.execute({
        ...request,
        extra_body: { ...(request["extra_body"] as object), max_tokens: 5 },
        extra_headers: { "x-one": "1", "x-team": null },
        extra_query: { trace: "yes" }
      })
      const [received] = server.requests
      assert(received !== undefined)
      assert.strictEqual(received.url, "/anthropic/v1/messages?api-version=7&trace=yes")
      const { extra_body: _, ...rest } = request
      assert.deepStrictEqual(JSON.parse(received.body), { ...rest, max_tokens: 5, metadata: { user_id: "u" } })
      assert.strictEqual(received.headers["x-api-key"], "sk-ant-api03-test")
      assert.strictEqual(received.headers["anthropic-version"], "2023-06-01")
      assert.strictEqual(received.headers["x-one"], "1")
      assert.notProperty(received.headers, "x-team")
      assert.notProperty(received.headers, "authorization")
    })
  )

  it.effect("holds nothing of the environment: no key, no address, no header, no log", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const secret = "sk-ant-api03-of-the-environment"
      const names = {
        ANTHROPIC_API_KEY: secret,
        ANTHROPIC_AUTH_TOKEN: secret,
        ANTHROPIC_BASE_URL: "http://127.0.0.1:1",
        ANTHROPIC_CUSTOM_HEADERS: `x-corp: ${secret}\nnot a name: ${secret}`,
        ANTHROPIC_PROFILE: "none-such",
        ANTHROPIC_LOG: "debug"
      }
      yield* Effect.acquireRelease(
        Effect.sync(() => Object.assign(process.env, names)),
        () => Effect.sync(() => Object.keys(names).forEach((name) => delete process.env[name]))
      )
      const { apiKey: _, ...keyless } = route(server.url)
      yield* ask(keyless, call("hi"))
      const [received] = server.requests
      assert(received !== undefined)
      assert.notInclude(JSON.stringify(received.headers), secret)
      assert.notProperty(received.headers, "x-api-key")
      assert.notProperty(received.headers, "authorization")
    })
  )
})

describe("a streamed answer", () => {
  it.effect("counts what the cache held", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const { response } = yield* ask(route(server.url), call("hi"))
      assert.deepInclude(fromResponse(response.usage), {
        inputTokens: 100,
        cacheReadTokens: 900,
        cacheWriteTokens: 50,
        outputTokens: 20
      })
    })
  )

  it.effect("gives the parts of one network read to onPart in one step, and none without onPart", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const { reads, response, seen } = yield* ask(route(server.url), call("hi"))
      assert.isBelow(reads, whole.length)
      assert.deepStrictEqual(
        seen.map((part) => part.type),
        ["response-metadata", "text-start", "text-delta", "text-delta", "text-end", "finish"]
      )
      const provider = yield* AnthropicMessages.make(route(server.url))
      const silent = yield* provider.execute(yield* provider.prepare(call("hi")))
      assert.deepStrictEqual(Ask.plain(silent), Ask.plain(response))
    })
  )

  it.effect("is made of what onPart gives on; its body is what was sent", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const provider = yield* AnthropicMessages.make(route(server.url))
      const request = yield* provider.prepare(call("hi"))
      const response = yield* provider.execute(request, {
        onPart: (parts) => Effect.succeed(parts.filter((part) => part.type !== "text-delta" || part.delta !== "lo"))
      })
      assert.deepStrictEqual(Ask.plain(response), [["text", "Hel"]])
      assert.deepInclude(response.raw, { content: [{ type: "text", text: "Hello" }] })
    })
  )

  it.effect("is made of what onPart gives on, from the part on where it begins to change something", () =>
    Effect.gen(function* () {
      const heard = Exchange.collectParts((parts) =>
        Effect.succeed(
          parts.some((part) => part.type === "text-end") ? parts.filter(({ type }) => type !== "text-delta") : parts
        )
      )
      const delta = (text: string) => makeTextDelta("t", text)
      yield* heard.add([Response.makePart("text-start", { id: "t" }), delta("a")])
      yield* heard.add([delta("b")])
      assert.strictEqual(heard.seen(), heard.sent)
      yield* heard.add([delta("c"), Response.makePart("text-end", { id: "t" })])
      assert.deepStrictEqual(
        heard
          .seen()
          .result()
          .parts.map((part) => (part.type === "text" ? part.text : "")),
        ["ab"]
      )
      assert.deepStrictEqual(
        heard.sent.result().parts.map((part) => (part.type === "text" ? part.text : "")),
        ["abc"]
      )
    })
  )

  it.effect("has a body that reads as the same answer", () =>
    Effect.gen(function* () {
      const server = yield* streams(
        start,
        { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "hm" } },
        { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "s" } },
        { type: "content_block_stop", index: 0 },
        { type: "content_block_start", index: 1, content_block: { type: "redacted_thinking", data: "opaque" } },
        { type: "content_block_stop", index: 1 },
        { type: "content_block_start", index: 2, content_block: { type: "server_tool_use", name: "web_search" } },
        { type: "content_block_stop", index: 2 },
        { type: "content_block_start", index: 3, content_block: { type: "tool_use", id: "t", name: "x", input: {} } },
        { type: "content_block_delta", index: 3, delta: { type: "input_json_delta", partial_json: '{"a":' } },
        { type: "content_block_delta", index: 3, delta: { type: "input_json_delta", partial_json: "1}" } },
        { type: "content_block_stop", index: 3 },
        messageDelta("tool_use"),
        messageStop
      )
      const { provider, response } = yield* ask(route(server.url), call("hi"))
      assert.deepStrictEqual(response.raw, {
        id: "msg_1",
        type: "message",
        role: "assistant",
        model: "claude-x",
        content: [
          { type: "thinking", thinking: "hm", signature: "s" },
          { type: "redacted_thinking", data: "opaque" },
          { type: "tool_use", id: "t", name: "x", input: { a: 1 } }
        ],
        stop_reason: "tool_use",
        stop_sequence: null,
        usage: { ...start.message.usage, output_tokens: 20 }
      })
      assert.strictEqual(response.raw, response.raw)
      const again = yield* provider.decode(response.raw)
      assert.deepStrictEqual(Ask.plain(again), Ask.plain(response))
      assert.deepStrictEqual(again.usage, response.usage)
      assert.strictEqual(again.finishReason, response.finishReason)
    })
  )

  it.effect("keeps the raw text of arguments that were cut off", () =>
    Effect.gen(function* () {
      const server = yield* streams(
        start,
        { type: "content_block_start", index: 0, content_block: { type: "tool_use", id: "t", name: "x", input: {} } },
        { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: '{"path": "a' } },
        { type: "content_block_stop", index: 0 },
        messageDelta("max_tokens"),
        messageStop
      )
      const { response } = yield* ask(route(server.url), call("hi"))
      assert.deepStrictEqual(Ask.plain(response), [["tool-call", "t", "x", '{"path": "a']])
      assert.strictEqual(response.finishReason, "length")
    })
  )

  it.effect("takes arguments that came whole, and a stream without its last event", () =>
    Effect.gen(function* () {
      const server = yield* streams(
        start,
        {
          type: "content_block_start",
          index: 0,
          content_block: { type: "tool_use", id: "t", name: "x", input: { a: 1 } }
        },
        { type: "content_block_stop", index: 0 },
        messageDelta("tool_use", { output_tokens: 0, input_tokens: 0 })
      )
      const { response } = yield* ask(route(server.url), call("hi"))
      assert.deepStrictEqual(Ask.plain(response), [["tool-call", "t", "x", { a: 1 }]])
      assert.deepInclude(fromResponse(response.usage), { inputTokens: 100, outputTokens: 1 })
    })
  )

  it.effect("fails with the error that came in the middle, after giving out what stood before", () =>
    Effect.gen(function* () {
      const server = yield* streams(start, textStart, textDelta("Hel"), {
        type: "error",
        error: { type: "overloaded_error", message: "Overloaded" }
      })
      const provider = yield* AnthropicMessages.make(route(server.url))
      const request = yield* provider.prepare(call("hi"))
      const seen: Array<string> = []
      const exit = yield* Effect.exit(
        provider.execute(request, {
          onPart: (parts) => Effect.sync(() => (seen.push(...parts.map((part) => part.type)), parts))
        })
      )
      assert.deepStrictEqual(seen, ["response-metadata", "text-start", "text-delta"])
      const reason = Ask.reasonOf(exit)
      assert.strictEqual(reason._tag, "InternalProviderError")
      assert.include(reason.message, "Overloaded")
    })
  )

  it.effect("fails when it was cut, by an early end or a lost connection", () =>
    Effect.gen(function* () {
      const ended = yield* streams(start, textStart, textDelta("Hel"))
      const first = yield* failing(route(ended.url), call("hi"))
      assert.strictEqual(first._tag, "NetworkError")
      assert.isTrue(first.isRetryable)
      const lost = yield* HttpServer.make((_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(HttpServer.sse(start, textStart), () => response.destroy())
      })
      assert.strictEqual((yield* failing(route(lost.url), call("hi")))._tag, "NetworkError")
    })
  )

  it.effect("fails when an event is not JSON", () =>
    Effect.gen(function* () {
      const garbled = yield* streams(start, "{nope")
      assert.strictEqual((yield* failing(route(garbled.url), call("hi")))._tag, "InvalidResponseError")
    })
  )

  it.effect("is taken as it is when it comes in one piece", () =>
    Effect.gen(function* () {
      const body = JSON.stringify({ content: [{ type: "text", text: "hi" }], stop_reason: "end_turn" })
      const server = yield* answers(200, body)
      const { response, seen } = yield* ask(route(server.url), call("hi"))
      assert.deepStrictEqual(Ask.plain(response), [["text", "hi"]])
      assert.strictEqual(seen.at(-1)?.type, "finish")
    })
  )

  it.effect("uses its connection again", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const provider = yield* AnthropicMessages.make(route(server.url))
      const request = yield* provider.prepare(call("hi"))
      yield* provider.execute(request)
      // The pool hears of a free connection one turn of the event loop after the end of its answer.
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      yield* provider.execute(request)
      assert.strictEqual(new Set(server.requests.map((received) => received.socket)).size, 1)
    })
  )
})

describe("interruption closes the connection", () => {
  for (const begun of [false, true]) {
    it.effect(begun ? "in the middle of a stream" : "while waiting for the answer", () =>
      Effect.gen(function* () {
        const asked = yield* Deferred.make<void>()
        const closed = yield* Deferred.make<void>()
        const server = yield* HttpServer.make((_, response) => {
          response.on("close", () => Deferred.doneUnsafe(closed, Effect.void))
          if (begun) {
            response.writeHead(200, { "content-type": "text/event-stream" })
            response.write(HttpServer.sse(start, textStart, textDelta("Hel")))
          } else Deferred.doneUnsafe(asked, Effect.void)
        })
        const provider = yield* AnthropicMessages.make(route(server.url))
        const request = yield* provider.prepare(call("hi"))
        const fiber = yield* Effect.forkChild(
          provider.execute(request, { onPart: (parts) => Effect.as(Deferred.succeed(asked, undefined), parts) })
        )
        yield* Deferred.await(asked)
        yield* Fiber.interrupt(fiber)
        yield* Deferred.await(closed)
        assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      })
    )
  }
})

describe("an answer that is none", () => {
  const none = (body: unknown) =>
    Effect.gen(function* () {
      const provider = yield* AnthropicMessages.make(route("http://127.0.0.1:1"))
      return Ask.reasonOf(yield* Effect.exit(provider.decode(body)))
    })

  it.effect("is no Messages body, has no content, or is an error in disguise", () =>
    Effect.gen(function* () {
      for (const body of [
        null,
        "x",
        [],
        {},
        { content: "hi" },
        { content: [] },
        { content: [], stop_reason: "tool_use" }
      ]) {
        assert.strictEqual((yield* none(body))._tag, "InvalidResponseError", JSON.stringify(body))
      }
      const disguised = { type: "error", error: { type: "rate_limit_error", message: "slow" } }
      assert.strictEqual((yield* none(disguised))._tag, "RateLimitError")
    })
  )

  it.effect("is no JSON, or not what the address is for", () =>
    Effect.gen(function* () {
      const single = call("hi", { stream: false })
      const garbled = yield* answers(200, '{"content": [')
      assert.strictEqual((yield* failing(route(garbled.url), single))._tag, "InvalidResponseError")
      const page = yield* answers(200, "<html></html>", { "content-type": "text/html" })
      assert.strictEqual((yield* failing(route(page.url), single))._tag, "InvalidResponseError")
    })
  )

  it.effect("is empty but whole when it says why it stopped", () =>
    Effect.gen(function* () {
      const provider = yield* AnthropicMessages.make(route("http://127.0.0.1:1"))
      const empty = yield* provider.decode({ content: [], stop_reason: "end_turn" })
      assert.deepStrictEqual([empty.parts, empty.finishReason], [[], "stop"])
      const refused = yield* provider.decode({ content: [], stop_reason: "refusal" })
      assert.strictEqual(refused.finishReason, "content-filter")
    })
  )
})

it.effect("refuses Anthropic without a key, and provider bedrock in this mode, with the remedy", () =>
  Effect.gen(function* () {
    const { apiKey: _, baseUrl: __, ...keyless } = route("")
    const noKey = yield* Effect.flip(AnthropicMessages.make(keyless))
    assert.strictEqual(noKey._tag, "ConfigError")
    assert.include(noKey.message, "ANTHROPIC_API_KEY")
    const error = yield* Effect.flip(AnthropicMessages.make(route("http://127.0.0.1:1", { provider: "bedrock" })))
    assert.strictEqual(error._tag, "ConfigError")
    assert.include(error.message, "bedrock_converse")
  })
)
