// The provider over real HTTP: aimock speaks the protocol on its own account, small servers what aimock does not.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/ai/Prompt"
import * as TestClock from "effect/testing/TestClock"
import type { Route } from "../../../src/base/domain/Route.ts"
import { fromResponse } from "../../../src/base/domain/Usage.ts"
import * as ChatCompletions from "../../../src/models/provider/ChatCompletions.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import { ask, call, failing, mock, plain, terminal } from "./Ask.ts"
import * as HttpServer from "./HttpServer.ts"

const route = (baseUrl: string, more: Partial<Route> = {}): Route => ({
  provider: "custom",
  model: "test-model",
  apiMode: "chat_completions",
  baseUrl: `${baseUrl}/v1`,
  apiKey: Redacted.make("sk-test"),
  ...more
})

/** Sets variables for the rest of a test. */
const environment = (variables: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = Object.keys(variables).map((name) => [name, process.env[name]] as const)
      Object.assign(process.env, variables)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        for (const [name, value] of before) {
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
        }
      })
  )

const chunk = (delta: unknown, finish: string | null = null) => ({
  id: "c1",
  model: "m1",
  choices: [{ index: 0, delta, finish_reason: finish }]
})

const streaming = (...chunks: ReadonlyArray<unknown>) =>
  HttpServer.make((_, response) =>
    response.writeHead(200, { "content-type": "text/event-stream" }).end(HttpServer.sse(...chunks, "[DONE]"))
  )

const streamOf = Effect.fnUntraced(function* (...chunks: ReadonlyArray<unknown>) {
  const server = yield* streaming(...chunks)
  const provider = yield* ChatCompletions.make(route(server.url))
  return yield* ask(provider, call("hi", { stream: true }))
})

const answering = Effect.fnUntraced(function* (status: number, body: unknown, headers: Record<string, string> = {}) {
  const server = yield* HttpServer.make((_, response) =>
    typeof body === "string"
      ? response.writeHead(status, { "content-type": "text/html", ...headers }).end(body)
      : HttpServer.json(response, status, body, headers)
  )
  return { server, provider: yield* ChatCompletions.make(route(server.url)) }
})

describe("against aimock", () => {
  for (const stream of [true, false]) {
    const how = stream ? "streamed" : "in one piece"

    it.effect(`reads text, reasoning and usage, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* mock
        server.onMessage("hi", {
          content: "Hello, wörld! How are you?",
          reasoning: "They greet me.",
          id: "chatcmpl-1",
          usage: {
            prompt_tokens: 1000,
            completion_tokens: 7,
            prompt_tokens_details: { cached_tokens: 600 },
            completion_tokens_details: { reasoning_tokens: 3 }
          }
        })
        // Its OpenRouter face is the one that reports cache reads.
        const provider = yield* ChatCompletions.make(route(server.url, { baseUrl: `${server.url}/api/v1` }))
        const { response } = yield* ask(provider, call("hi", { stream }))
        assert.deepStrictEqual(plain(response), [
          ["reasoning", "They greet me.", { chat_completions: { reasoning_content: true } }],
          ["text", "Hello, wörld! How are you?"]
        ])
        assert.strictEqual(response.finishReason, "stop")
        assert.strictEqual(response.id, "chatcmpl-1")
        assert.strictEqual(response.model, "test-model")
        assert.deepInclude(fromResponse(response.usage), {
          inputTokens: 400,
          cacheReadTokens: 600,
          outputTokens: 7,
          reasoningTokens: 3
        })
      })
    )

    it.effect(`reads parallel calls whose arguments come in pieces, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* mock
        server.onMessage("run", {
          content: "Two at once.",
          toolCalls: [
            { id: "call_a", name: "terminal", arguments: '{"command":"ls -la /tmp"}' },
            { id: "call_b", name: "terminal", arguments: "{}" }
          ]
        })
        const provider = yield* ChatCompletions.make(route(server.url))
        const { response, seen } = yield* ask(provider, call("run", { stream, tools: [terminal] }))
        assert.deepStrictEqual(plain(response), [
          ["text", "Two at once."],
          ["tool-call", "call_a", "terminal", { command: "ls -la /tmp" }],
          ["tool-call", "call_b", "terminal", {}]
        ])
        assert.strictEqual(response.finishReason, "tool-calls")
        if (!stream) return
        assert.isAbove(seen.filter((part) => part.type === "tool-params-delta" && part.id === "call_a").length, 1)
        assert.strictEqual(seen.at(-1)?.type, "finish")
        assert.strictEqual(seen.filter((part) => part.type === "finish").length, 1)
      })
    )

    it.effect(`sends the history of a tool call back, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* mock
        server.on({ toolCallId: "call_a" }, { content: "Done." })
        const provider = yield* ChatCompletions.make(route(server.url))
        const { response } = yield* ask(
          provider,
          call("run", {
            stream,
            tools: [terminal],
            messages: [
              ...call("run").messages,
              Prompt.assistantMessage({
                content: [
                  Prompt.toolCallPart({
                    id: "call_a",
                    name: "terminal",
                    params: { command: "ls" },
                    providerExecuted: false
                  })
                ]
              }),
              Prompt.toolMessage({
                content: [
                  Prompt.toolResultPart({
                    id: "call_a",
                    name: "terminal",
                    isFailure: false,
                    result: { files: ["a"] },
                    providerExecuted: false
                  })
                ]
              })
            ]
          })
        )
        assert.deepStrictEqual(plain(response), [["text", "Done."]])
        assert.deepNestedInclude(server.getLastRequest()?.body, {
          messages: [
            { role: "user", content: "run" },
            {
              role: "assistant",
              content: null,
              tool_calls: [
                { id: "call_a", type: "function", function: { name: "terminal", arguments: '{"command":"ls"}' } }
              ]
            },
            { role: "tool", tool_call_id: "call_a", content: '{"files":["a"]}' }
          ]
        })
      })
    )
  }

  it.effect("a provider layer is the run's Provider", () =>
    Effect.gen(function* () {
      const server = yield* mock
      server.onMessage("hi", { content: "Hello" })
      const provider = yield* Effect.provide(
        Effect.map(Provider, (provider) => provider),
        ChatCompletions.layer({ baseUrl: `${server.url}/v1`, model: "m" })
      )
      assert.deepStrictEqual(provider.info, {
        provider: "custom",
        model: "m",
        apiMode: "chat_completions",
        baseUrl: `${server.url}/v1`
      })
    })
  )
})

describe("on the wire", () => {
  it.effect("headers, query, extras and key are the route's and the request's, and nothing is the environment's", () =>
    Effect.gen(function* () {
      const { server } = yield* answering(200, { choices: [{ message: { content: "ok" } }] })
      yield* environment({
        OPENAI_API_KEY: "sk-environment",
        OPENAI_ORG_ID: "org-environment",
        OPENAI_PROJECT_ID: "project-environment",
        OPENAI_BASE_URL: "http://127.0.0.1:9/never",
        OPENAI_CUSTOM_HEADERS: "x-leak: environment"
      })
      const provider = yield* ChatCompletions.make(
        route(server.url, {
          apiKey: undefined,
          query: { "api-version": "2024-10-21" },
          headers: { "X-Title": "hermes" },
          extraBody: { provider: { only: ["a"] } }
        })
      )
      yield* ask(provider, call("hi"), { extra_headers: { "x-one": "1" }, extra_query: { q: "2" } })
      const [request] = server.requests
      assert(request !== undefined)
      assert.strictEqual(request.url, "/v1/chat/completions?api-version=2024-10-21&q=2")
      assert.strictEqual(request.headers["x-title"], "hermes")
      assert.strictEqual(request.headers["x-one"], "1")
      assert.strictEqual(request.headers["authorization"], "Bearer no-key-required")
      assert.notInclude(JSON.stringify(request.headers), "environment")
      assert.deepStrictEqual(JSON.parse(request.body), {
        model: "test-model",
        messages: [{ role: "user", content: "hi" }],
        provider: { only: ["a"] }
      })
    })
  )

  it.effect("every request has the headers of the first, and what one asks for more is not in the next", () =>
    Effect.gen(function* () {
      const { server } = yield* answering(200, { choices: [{ message: { content: "ok" } }] })
      const provider = yield* ChatCompletions.make(
        route(server.url, { query: { version: "1" }, headers: { "X-Title": "hermes" } })
      )
      const extras = [{}, { extra_headers: { "x-one": "1", "x-title": null } }, { extra_query: { q: "2" } }, {}]
      for (const [index, extra] of extras.entries()) yield* ask(provider, call(`hi ${index}`), extra)
      const [first, ...more] = server.requests.map(({ body, headers: { "content-length": _, ...headers }, url }) => ({
        url,
        headers,
        text: JSON.parse(body).messages[0].content
      }))
      assert(first !== undefined)
      assert.deepStrictEqual(
        [first.url, first.text, first.headers["authorization"], first.headers["x-title"]],
        ["/v1/chat/completions?version=1", "hi 0", "Bearer sk-test", "hermes"]
      )
      const { "x-title": _, ...untitled } = first.headers
      assert.deepStrictEqual(more, [
        { ...first, text: "hi 1", headers: { ...untitled, "x-one": "1" } },
        { ...first, text: "hi 2", url: "/v1/chat/completions?version=1&q=2" },
        { ...first, text: "hi 3" }
      ])
    })
  )

  it.effect("a variable with a header that HTTP does not allow changes nothing", () =>
    Effect.gen(function* () {
      const { server } = yield* answering(200, { choices: [{ message: { content: "ok" } }] })
      const OPENAI_CUSTOM_HEADERS = "not a name: environment\nuser-agent: environment"
      yield* environment({ OPENAI_CUSTOM_HEADERS })
      yield* ask(yield* ChatCompletions.make(route(server.url)), call("hi"))
      const [request] = server.requests
      assert.match(String(request?.headers["user-agent"]), /^OpenAI\/JS /)
      assert.notInclude(JSON.stringify(request?.headers), "environment")
      assert.strictEqual(process.env["OPENAI_CUSTOM_HEADERS"], OPENAI_CUSTOM_HEADERS)
    })
  )

  it.effect("OpenAI itself is not asked without a key", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(
        ChatCompletions.make({ provider: "openai", model: "gpt-4o", apiMode: "chat_completions" })
      )
      assert(Exit.isFailure(exit))
      assert.include(String(exit.cause), "OPENAI_API_KEY")
    })
  )

  it.effect("interruption closes the connection, before the answer and in the middle of a stream", () =>
    Effect.gen(function* () {
      for (const started of [false, true]) {
        const arrived = yield* Deferred.make<void>()
        const closed = yield* Deferred.make<void>()
        const server = yield* HttpServer.make((_, response) => {
          response.once("close", () => Deferred.doneUnsafe(closed, Exit.void))
          if (started) {
            response.writeHead(200, { "content-type": "text/event-stream" })
            response.write(HttpServer.sse(chunk({ content: "a" })))
          } else Deferred.doneUnsafe(arrived, Exit.void)
        })
        const provider = yield* ChatCompletions.make(route(server.url))
        const request = yield* provider.prepare(call("hi", { stream: true }))
        const fiber = yield* Effect.forkChild(
          provider.execute(request, { onPart: (parts) => Effect.as(Deferred.succeed(arrived, undefined), parts) })
        )
        yield* Deferred.await(arrived)
        yield* Fiber.interrupt(fiber)
        yield* Deferred.await(closed)
      }
    })
  )

  it.effect("a failing observer closes the connection", () =>
    Effect.gen(function* () {
      const closed = yield* Deferred.make<void>()
      const server = yield* HttpServer.make((_, response) => {
        response.once("close", () => Deferred.doneUnsafe(closed, Exit.void))
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(HttpServer.sse(chunk({ content: "a" })))
      })
      const provider = yield* ChatCompletions.make(route(server.url))
      const request = yield* provider.prepare(call("hi", { stream: true }))
      const exit = yield* Effect.exit(provider.execute(request, { onPart: () => Effect.die("broken") }))
      assert.isTrue(Exit.isFailure(exit))
      yield* Deferred.await(closed)
    })
  )

  it.effect("an answer that does not begin within the request timeout is a network error that says so", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make(() => {})
      const provider = yield* ChatCompletions.make(route(server.url, { requestTimeoutMillis: 20 }))
      const reason = yield* failing(ask(provider, call("hi")))
      assert(reason._tag === "NetworkError")
      assert.match(reason.description ?? "", /127\.0\.0\.1:\d+ did not answer within the request timeout/)
      assert.isTrue(reason.isRetryable)
    })
  )

  it.effect("so is an answer in one piece that begins and does not end", () =>
    Effect.gen(function* () {
      const closed = yield* Deferred.make<void>()
      const server = yield* HttpServer.make((_, response) => {
        response.once("close", () => Deferred.doneUnsafe(closed, Exit.void))
        response.writeHead(200, { "content-type": "application/json" })
        response.write(`{"id":`)
      })
      const provider = yield* ChatCompletions.make(route(server.url, { requestTimeoutMillis: 100 }))
      const reason = yield* failing(ask(provider, call("hi")))
      assert(reason._tag === "NetworkError")
      assert.match(reason.description ?? "", /127\.0\.0\.1:\d+ did not answer within the request timeout/)
      yield* Deferred.await(closed)
    })
  )

  it.effect("a refused connection names the address and the remedy", () =>
    Effect.gen(function* () {
      const { url } = yield* Effect.scoped(HttpServer.make(() => {}))
      const provider = yield* ChatCompletions.make(route(url))
      const reason = yield* failing(ask(provider, call("hi")))
      assert(reason._tag === "NetworkError")
      assert.match(
        reason.description ?? "",
        /nothing listens at 127\.0\.0\.1:\d+: start the server or correct the base URL/
      )
    })
  )

  it.effect("what onPart gives back is what the response is made of, raw is what was sent", () =>
    Effect.gen(function* () {
      const server = yield* streaming(chunk({ content: "secret" }), chunk({}, "stop"))
      const provider = yield* ChatCompletions.make(route(server.url))
      const request = yield* provider.prepare(call("hi", { stream: true }))
      const response = yield* provider.execute(request, {
        onPart: (parts) =>
          Effect.succeed(parts.map((part) => (part.type === "text-delta" ? { ...part, delta: "***" } : part)))
      })
      assert.deepStrictEqual(plain(response), [["text", "***"]])
      const decoded = yield* provider.decode(response.raw)
      assert.deepStrictEqual(plain(decoded), [["text", "secret"]])
    })
  )
})

describe("streams", () => {
  it.effect("all events of one read make one call of onPart", () =>
    Effect.gen(function* () {
      const { reads, response } = yield* streamOf(
        ...Array.from({ length: 50 }, (_, i) => chunk({ content: `${i} ` })),
        chunk({}, "stop")
      )
      assert.isBelow(reads, 10)
      assert.strictEqual(plain(response).length, 1)
    })
  )

  it.effect("nobody watching, the answer is the same", () =>
    Effect.gen(function* () {
      const server = yield* streaming(chunk({ content: "a" }), chunk({ content: "b" }, "stop"))
      const provider = yield* ChatCompletions.make(route(server.url))
      const request = yield* provider.prepare(call("hi", { stream: true }))
      const response = yield* provider.execute(request)
      assert.deepStrictEqual(plain(response), [["text", "ab"]])
      assert.strictEqual(response.raw, response.raw)
    })
  )

  it.effect("an endpoint that answers in one piece is taken as it is", () =>
    Effect.gen(function* () {
      const { provider } = yield* answering(200, {
        id: "c1",
        choices: [{ message: { content: "hello", reasoning: "hm" }, finish_reason: "stop" }]
      })
      const { response, seen } = yield* ask(provider, call("hi", { stream: true }))
      assert.deepStrictEqual(plain(response), [
        ["reasoning", "hm"],
        ["text", "hello"]
      ])
      assert.strictEqual(seen.at(-1)?.type, "finish")
    })
  )

  const cases: ReadonlyArray<readonly [string, ReadonlyArray<unknown>, string, RegExp]> = [
    [
      "an error event",
      [chunk({ content: "a" }), { error: { message: "Overloaded", code: 529 } }],
      "InternalProviderError",
      /Overloaded/
    ],
    [
      "an error in a choice",
      [{ choices: [{ error: { message: "rate limit", code: 429 }, finish_reason: "error" }] }],
      "RateLimitError",
      /Rate limit/
    ],
    [
      "an event that is not JSON",
      [chunk({ content: "a" }), '{"choices":['],
      "InvalidResponseError",
      /not a JSON object/
    ],
    ["an event that is no object", ["[1]"], "InvalidResponseError", /not a JSON object/],
    ["nothing at all", [], "InvalidResponseError", /without an answer/]
  ]
  for (const [name, chunks, tag, message] of cases) {
    it.effect(`${name} is a typed failure, watched or not`, () =>
      Effect.gen(function* () {
        const server = yield* streaming(...chunks)
        const provider = yield* ChatCompletions.make(route(server.url))
        const request = yield* provider.prepare(call("hi", { stream: true }))
        for (const options of [undefined, { onPart: Effect.succeed }]) {
          const reason = yield* failing(provider.execute(request, options))
          assert.strictEqual(reason._tag, tag)
          assert.match(reason.message, message)
        }
      })
    )
  }

  it.effect("a stream that is cut is a network error, however it is cut", () =>
    Effect.gen(function* () {
      for (const abrupt of [true, false]) {
        const server = yield* HttpServer.make((request, response) => {
          response.writeHead(200, { "content-type": "text/event-stream" })
          response.write(HttpServer.sse(chunk({ content: "half" })), () => {
            if (abrupt) request.socket.destroy()
            else response.end()
          })
        })
        const provider = yield* ChatCompletions.make(route(server.url))
        const reason = yield* failing(ask(provider, call("hi", { stream: true })))
        assert(reason._tag === "NetworkError", reason._tag)
        assert.include(reason.description ?? "", "closed the connection before its answer was complete")
      }
    })
  )
})

describe("answers that the protocol does not allow", () => {
  const bodies: ReadonlyArray<readonly [string, unknown, string, RegExp]> = [
    ["no choices", { id: "x", choices: [] }, "InvalidResponseError", /no choices/],
    ["choices of a wrong type", { choices: "none" }, "InvalidResponseError", /no choices/],
    ["a choice without a message", { choices: [{}] }, "InvalidResponseError", /no message/],
    [
      "content of a wrong type",
      { choices: [{ message: { content: 7 } }] },
      "InvalidResponseError",
      /neither text nor parts/
    ],
    ["tool calls of a wrong type", { choices: [{ message: { tool_calls: "x" } }] }, "InvalidResponseError", /no list/],
    ["an error object", { error: { message: "no credits", code: 402 } }, "QuotaExhaustedError", /Quota/],
    ["a list", [1], "InvalidResponseError", /no JSON object/],
    ["null", null, "InvalidResponseError", /empty/]
  ]
  for (const [name, body, tag, message] of bodies) {
    it.effect(`${name} with status 200 is a typed failure`, () =>
      Effect.gen(function* () {
        const { provider } = yield* answering(200, body)
        for (const stream of [true, false]) {
          const reason = yield* failing(ask(provider, call("hi", { stream })))
          assert.strictEqual(reason._tag, tag)
          assert.match(reason.message, message)
        }
      })
    )
  }

  it.effect("an HTML page and an empty body are typed failures", () =>
    Effect.gen(function* () {
      for (const stream of [true, false]) {
        const html = yield* answering(200, "<!doctype html><title>Login</title>")
        const page = yield* failing(ask(html.provider, call("hi", { stream })))
        assert.strictEqual(page._tag, "InvalidResponseError")
        assert.match(page.message, /HTML page and not JSON: correct the base URL/)
        const nothing = yield* answering(200, "")
        assert.strictEqual((yield* failing(ask(nothing.provider, call("hi", { stream }))))._tag, "InvalidResponseError")
      }
    })
  )

  it.effect("a body that is no JSON though it says so is a typed failure", () =>
    Effect.gen(function* () {
      const { provider } = yield* answering(200, '{"choices":[', { "content-type": "application/json" })
      for (const stream of [true, false]) {
        assert.strictEqual((yield* failing(ask(provider, call("hi", { stream }))))._tag, "InvalidResponseError")
      }
    })
  )
})

describe("error answers", () => {
  it.effect("a rate limit keeps what the server says about it, and no secrets", () =>
    Effect.gen(function* () {
      const { provider } = yield* answering(
        429,
        { error: { message: "Slow down", type: "requests", code: "rate_limit_exceeded" } },
        { "retry-after": "7", "x-request-id": "req_1", "set-cookie": "session=1", "x-ratelimit-remaining-tokens": "0" }
      )
      const reason = yield* failing(ask(provider, call("hi", { stream: true })))
      assert(reason._tag === "RateLimitError")
      assert.deepStrictEqual(reason.metadata, {
        status: 429,
        requestId: "req_1",
        code: "rate_limit_exceeded",
        type: "requests",
        retryAfterMillis: 7000
      })
      assert.strictEqual(reason.http?.response?.status, 429)
      assert.strictEqual(reason.http?.response?.headers["x-ratelimit-remaining-tokens"], "0")
      assert.notProperty(reason.http?.response?.headers, "set-cookie")
      assert.include(reason.http?.body ?? "", "Slow down")
    })
  )

  it.effect("a date to come back is measured by the run's clock where the answer has no date", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.parse("Wed, 21 Oct 2015 07:28:00 GMT"))
      const { provider } = yield* answering(
        429,
        { error: { message: "Slow down" } },
        { "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", date: "unknown" }
      )
      const reason = yield* failing(ask(provider, call("hi")))
      assert(reason._tag === "RateLimitError")
      assert.deepInclude(reason.metadata, { retryAfterMillis: 30_000 })
    })
  )

  it.effect("nothing is retried", () =>
    Effect.gen(function* () {
      const { provider, server } = yield* answering(500, { error: { message: "boom" } })
      const reason = yield* failing(ask(provider, call("hi")))
      assert.strictEqual(reason._tag, "InternalProviderError")
      assert.strictEqual(server.requests.length, 1)
    })
  )
})
