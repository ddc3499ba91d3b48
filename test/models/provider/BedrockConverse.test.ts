// The provider over real HTTP: aimock speaks the protocol on its own account, small servers what aimock does not.
import { encodeEventStreamFrame, encodeEventStreamMessage } from "@copilotkit/aimock"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/ai/Prompt"
import { TestClock } from "effect/testing"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import { fromResponse } from "../../../src/base/domain/Usage.ts"
import * as BedrockConverse from "../../../src/models/provider/BedrockConverse.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Ask from "./Ask.ts"
import * as HttpServer from "./HttpServer.ts"

const route = (baseUrl: string, more: Partial<Route> = {}): Route => ({
  provider: "bedrock",
  model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
  apiMode: "bedrock_converse",
  baseUrl,
  apiKey: Redacted.make("bedrock-key"),
  ...more
})

const call = (text: string, more: Partial<ModelCall> = {}): ModelCall =>
  Ask.call(text, { tools: [Ask.terminal], stream: true, ...more })

const ask = Effect.fnUntraced(function* (at: Route, question: ModelCall) {
  const provider = yield* BedrockConverse.make(at)
  return { provider, ...(yield* Ask.ask(provider, question)) }
})

const failing = (at: Route, question: ModelCall) => Ask.failing(ask(at, question))

/** The environment of the AWS chain, for one test. */
const environment = (values: Record<string, string>) =>
  Effect.gen(function* () {
    const home = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "hermes-aws-"))),
      (home) => Effect.sync(() => rmSync(home, { recursive: true }))
    )
    const set: Record<string, string | undefined> = {
      AWS_ACCESS_KEY_ID: undefined,
      AWS_SECRET_ACCESS_KEY: undefined,
      AWS_SESSION_TOKEN: undefined,
      AWS_PROFILE: undefined,
      AWS_BEARER_TOKEN_BEDROCK: undefined,
      AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: undefined,
      AWS_CONTAINER_CREDENTIALS_FULL_URI: undefined,
      AWS_WEB_IDENTITY_TOKEN_FILE: undefined,
      AWS_EC2_METADATA_DISABLED: "true",
      AWS_CONFIG_FILE: join(home, "config"),
      AWS_SHARED_CREDENTIALS_FILE: join(home, "credentials"),
      ...values
    }
    const put = (all: Record<string, string | undefined>) =>
      Effect.sync(() => {
        const before = Object.fromEntries(Object.keys(all).map((name) => [name, process.env[name]]))
        for (const [name, value] of Object.entries(all)) {
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
        }
        return before
      })
    yield* Effect.acquireRelease(put(set), put)
  })

describe("against aimock", () => {
  for (const stream of [true, false]) {
    const how = stream ? "streamed" : "in one piece"

    it.effect(`reads text with its thinking, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* Ask.mock
        server.onMessage("hi", {
          content: "Hello, wörld! How are you?",
          reasoning: "They greet me.",
          usage: { input_tokens: 12, output_tokens: 7 }
        })
        const { response } = yield* ask(route(server.url), call("hi", { stream }))
        assert.deepStrictEqual(Ask.plain(response), [
          ["reasoning", "They greet me."],
          ["text", "Hello, wörld! How are you?"]
        ])
        assert.strictEqual(response.finishReason, "stop")
        assert.strictEqual(response.model, "us.anthropic.claude-sonnet-4-5-20250929-v1:0")
        assert.deepInclude(fromResponse(response.usage), { inputTokens: 12, outputTokens: 7 })
      })
    )

    it.effect(`reads parallel calls whose arguments come in pieces, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* Ask.mock
        server.onMessage("run", {
          content: "Two at once.",
          toolCalls: [
            { id: "tooluse_a", name: "terminal", arguments: '{"command":"ls -la /tmp"}' },
            { id: "tooluse_b", name: "terminal", arguments: "{}" }
          ]
        })
        const { response, seen } = yield* ask(route(server.url), call("run", { stream }))
        assert.deepStrictEqual(Ask.plain(response), [
          ["text", "Two at once."],
          ["tool-call", "tooluse_a", "terminal", { command: "ls -la /tmp" }],
          ["tool-call", "tooluse_b", "terminal", {}]
        ])
        assert.strictEqual(response.finishReason, "tool-calls")
        if (stream) {
          const parts = seen
          const pieces = parts.filter((part) => part.type === "tool-params-delta" && part.id === "tooluse_a")
          assert.isAbove(pieces.length, 1)
          assert.strictEqual(parts.at(-1)?.type, "finish")
        }
      })
    )

    it.effect(`sends the history of a tool call back, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* Ask.mock
        server.onToolResult("tooluse_a", { content: "It says x." })
        const messages = [
          Prompt.userMessage({ content: [Prompt.textPart({ text: "go" })] }),
          Prompt.assistantMessage({
            content: [Prompt.toolCallPart({ id: "tooluse_a", name: "terminal", params: {}, providerExecuted: false })]
          }),
          Prompt.toolMessage({
            content: [
              Prompt.toolResultPart({
                id: "tooluse_a",
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

  it.effect("is the run's provider as a layer", () =>
    Effect.gen(function* () {
      const server = yield* Ask.mock
      server.onMessage("hi", { content: "Hello" })
      const response = yield* Provider.use((provider) =>
        Effect.flatMap(provider.prepare(call("hi")), (request) => provider.execute(request))
      ).pipe(
        Effect.provide(
          BedrockConverse.layer({ model: "amazon.nova-pro-v1:0", baseUrl: server.url, apiKey: Redacted.make("k") })
        )
      )
      assert.deepStrictEqual(Ask.plain(response), [["text", "Hello"]])
    })
  )
})

type Event = readonly [type: string, payload: object]

const started: Event = ["messageStart", { role: "assistant" }]
const delta = (text: string): Event => ["contentBlockDelta", { contentBlockIndex: 0, delta: { text } }]
const stopped = (contentBlockIndex: number): Event => ["contentBlockStop", { contentBlockIndex }]
const ended = (stopReason: string): Event => ["messageStop", { stopReason }]
const counted: Event = [
  "metadata",
  {
    usage: {
      inputTokens: 100,
      outputTokens: 20,
      totalTokens: 1_070,
      cacheReadInputTokens: 900,
      cacheWriteInputTokens: 50
    },
    metrics: { latencyMs: 1 }
  }
]
const whole = [started, delta("Hel"), delta("lo"), stopped(0), ended("end_turn"), counted]

const frames = (events: ReadonlyArray<Event>): Buffer =>
  Buffer.concat(events.map(([type, payload]) => encodeEventStreamMessage(type, payload)))

const headers = { "content-type": "application/vnd.amazon.eventstream", "x-amzn-requestid": "req-1" }

/** Answers every request with the same events, and then ends. */
const streams = (...events: ReadonlyArray<Event>) =>
  HttpServer.make((_, response) => {
    response.writeHead(200, headers).end(frames(events))
  })

const fails = (status: number, type: string, message: string) =>
  HttpServer.make((_, response) => HttpServer.json(response, status, { message }, { "x-amzn-errortype": type }))

describe("what is sent", () => {
  it.effect("is the command's input, with extras merged before the signature and a key as a bearer token", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const provider = yield* BedrockConverse.make(
        route(server.url, { headers: { "x-team": "blue" }, query: { v: "7" }, extraBody: { top_k: 5 } })
      )
      const request = yield* provider.prepare(call("hi"))
      yield* provider.execute({
        ...request,
        extra_body: { top_k: 6, inferenceConfig: { maxTokens: 5 } },
        extra_headers: { "X-One": "1", "x-team": null },
        extra_query: { trace: "a b" }
      })
      const [received] = server.requests
      assert(received !== undefined)
      assert.strictEqual(
        received.url,
        "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream?trace=a%20b&v=7"
      )
      const { extra_body: _, modelId: __, stream: ___, ...rest } = request
      assert.deepStrictEqual(JSON.parse(received.body), {
        ...rest,
        inferenceConfig: { maxTokens: 5 },
        additionalModelRequestFields: { top_k: 6 }
      })
      assert.strictEqual(received.headers["authorization"], "Bearer bedrock-key")
      assert.strictEqual(received.headers["x-one"], "1")
      assert.notProperty(received.headers, "x-team")
    })
  )

  it.effect("has pictures in base64", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const picture = Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([65, 66, 67]) })
      yield* ask(route(server.url), call("", { messages: [Prompt.userMessage({ content: [picture] })] }))
      const { messages } = JSON.parse(server.requests[0]?.body ?? "{}")
      assert.deepStrictEqual(messages, [
        { role: "user", content: [{ image: { format: "png", source: { bytes: "QUJD" } } }] }
      ])
    })
  )

  it.effect("is signed by the chain without a key; a token of the environment never leaves for another host", () =>
    Effect.gen(function* () {
      yield* environment({
        AWS_ACCESS_KEY_ID: "AKIAEXAMPLE",
        AWS_SECRET_ACCESS_KEY: "hush",
        AWS_BEARER_TOKEN_BEDROCK: "token-of-the-environment"
      })
      const server = yield* streams(...whole)
      const { apiKey: _, ...keyless } = route(server.url, { region: "eu-west-1", query: { v: "7" } })
      yield* ask(keyless, call("hi"))
      const [received] = server.requests
      assert.match(
        received?.headers["authorization"] ?? "",
        /^AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE\/\d+\/eu-west-1\/bedrock\//
      )
      assert.notInclude(JSON.stringify(received?.headers), "token-of-the-environment")
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

  it.effect("gives what has arrived to onPart in one step, and none without onPart", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const { reads, response, seen } = yield* ask(route(server.url), call("hi"))
      assert.isBelow(reads, whole.length)
      assert.deepStrictEqual(
        seen.map((part) => part.type),
        ["response-metadata", "text-start", "text-delta", "text-delta", "text-end", "finish"]
      )
      const provider = yield* BedrockConverse.make(route(server.url))
      const silent = yield* provider.execute(yield* provider.prepare(call("hi")))
      assert.deepStrictEqual(Ask.plain(silent), Ask.plain(response))
      assert.strictEqual(silent.id, "req-1")
    })
  )

  it.effect("is made of what onPart gives on; its body is what was sent, and reads as the same answer", () =>
    Effect.gen(function* () {
      const block = (contentBlockIndex: number, delta: object): Event => [
        "contentBlockDelta",
        { contentBlockIndex, delta }
      ]
      const server = yield* streams(
        started,
        block(0, { reasoningContent: { text: "hm" } }),
        block(0, { reasoningContent: { signature: "s" } }),
        stopped(0),
        block(1, { reasoningContent: { redactedContent: "QUJD" } }),
        stopped(1),
        block(2, { text: "Hi" }),
        stopped(2),
        ["contentBlockStart", { contentBlockIndex: 3, start: { toolUse: { toolUseId: "t", name: "x" } } }],
        block(3, { toolUse: { input: '{"a":' } }),
        block(3, { toolUse: { input: "1}" } }),
        stopped(3),
        ended("tool_use"),
        counted
      )
      const provider = yield* BedrockConverse.make(route(server.url))
      const request = yield* provider.prepare(call("hi"))
      const response = yield* provider.execute(request, {
        onPart: (parts) => Effect.succeed(parts.filter((part) => part.type !== "text-delta"))
      })
      const all = [
        ["reasoning", "hm", { bedrock_converse: { signature: "s" } }],
        ["reasoning", "", { bedrock_converse: { redacted: "QUJD" } }],
        ["text", "Hi"],
        ["tool-call", "t", "x", { a: 1 }]
      ]
      assert.deepStrictEqual(Ask.plain(response), all.toSpliced(2, 1))
      const again = yield* provider.decode(response.raw)
      assert.deepStrictEqual(Ask.plain(again), all)
      assert.deepStrictEqual([again.usage, again.finishReason, again.id], [response.usage, "tool-calls", "req-1"])
      const overJson = yield* provider.decode({
        output: { message: { content: [{ reasoningContent: { redactedContent: "QUJD" } }] } },
        stopReason: "end_turn"
      })
      assert.deepStrictEqual(Ask.plain(overJson), all.slice(1, 2))
    })
  )

  it.effect("keeps the raw text of arguments that were cut off, and needs no metadata to end", () =>
    Effect.gen(function* () {
      const server = yield* streams(
        started,
        ["contentBlockStart", { contentBlockIndex: 0, start: { toolUse: { toolUseId: "t", name: "x" } } }],
        ["contentBlockDelta", { contentBlockIndex: 0, delta: { toolUse: { input: '{"path": "a' } } }],
        stopped(0),
        ended("max_tokens")
      )
      const { response } = yield* ask(route(server.url), call("hi"))
      assert.deepStrictEqual(Ask.plain(response), [["tool-call", "t", "x", '{"path": "a']])
      assert.strictEqual(response.finishReason, "length")
    })
  )

  it.effect("fails with the exception that came in the middle, after giving out what stood before", () =>
    Effect.gen(function* () {
      const exception = encodeEventStreamFrame(
        { ":message-type": "exception", ":exception-type": "throttlingException", ":content-type": "application/json" },
        Buffer.from(JSON.stringify({ message: "Too many tokens, please wait before trying again." }))
      )
      const server = yield* HttpServer.make((_, response) => {
        response.writeHead(200, headers).end(Buffer.concat([frames([started, delta("Hel")]), exception]))
      })
      const provider = yield* BedrockConverse.make(route(server.url))
      const request = yield* provider.prepare(call("hi"))
      const seen: Array<string> = []
      const exit = yield* Effect.exit(
        provider.execute(request, {
          onPart: (parts) => Effect.sync(() => (seen.push(...parts.map((part) => part.type)), parts))
        })
      )
      assert.deepStrictEqual(seen, ["response-metadata", "text-start", "text-delta"])
      assert.strictEqual(Ask.reasonOf(exit)._tag, "RateLimitError")
    })
  )

  it.effect("fails when it was cut: by an early end, inside a frame, or with its connection", () =>
    Effect.gen(function* () {
      const early = yield* streams(started, delta("Hel"))
      const inside = yield* HttpServer.make((_, response) => {
        const bytes = frames([started, delta("Hel")])
        response.writeHead(200, headers).end(bytes.subarray(0, bytes.length - 5))
      })
      const lost = yield* HttpServer.make((_, response) => {
        response.writeHead(200, headers)
        response.write(frames([started, delta("Hel")]), () => response.destroy())
      })
      for (const server of [early, inside, lost]) {
        const reason = yield* failing(route(server.url), call("hi"))
        assert.strictEqual(reason._tag, "NetworkError")
        assert.isTrue(reason.isRetryable)
      }
    })
  )

  it.effect("uses its connection again", () =>
    Effect.gen(function* () {
      const server = yield* streams(...whole)
      const provider = yield* BedrockConverse.make(route(server.url))
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
          if (begun) response.writeHead(200, headers).write(frames([started, delta("Hel")]))
          else Deferred.doneUnsafe(asked, Effect.void)
        })
        const provider = yield* BedrockConverse.make(route(server.url))
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

  it.effect("as does the request timeout", () =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const closed = yield* Deferred.make<void>()
      const server = yield* HttpServer.make((_, response) => {
        response.on("close", () => Deferred.doneUnsafe(closed, Effect.void))
        Deferred.doneUnsafe(asked, Effect.void)
      })
      const fiber = yield* Effect.forkChild(failing(route(server.url, { requestTimeoutMillis: 5_000 }), call("hi")))
      yield* Deferred.await(asked)
      yield* TestClock.adjust("5 seconds")
      const reason = yield* Fiber.join(fiber)
      assert.strictEqual(reason._tag, "NetworkError")
      assert.include(reason.message, "request_timeout_seconds")
      yield* Deferred.await(closed)
    })
  )
})

describe("failures", () => {
  it.effect("are named by AWS, whole and streamed alike", () =>
    Effect.gen(function* () {
      const cases = [
        [429, "ThrottlingException", "Too many requests", "RateLimitError"],
        [400, "ServiceQuotaExceededException", "Your account quota", "RateLimitError"],
        [429, "ModelNotReadyException", "Model is not ready", "InternalProviderError"],
        [408, "ModelTimeoutException", "Model timed out", "InternalProviderError"],
        [503, "ServiceUnavailableException", "Try later", "InternalProviderError"],
        [500, "InternalServerException", "Oops", "InternalProviderError"],
        [403, "AccessDeniedException", "You don't have access to the model", "AuthenticationError"],
        [403, "ExpiredTokenException", "The security token has expired", "AuthenticationError"],
        [404, "ResourceNotFoundException", "Could not resolve it", "InvalidRequestError"],
        [400, "ValidationException", "The provided model identifier is invalid.", "InvalidRequestError"],
        [400, "ValidationException", "Input is too long for requested model.", "InvalidRequestError"],
        [418, "TeapotException", "short and stout", "InvalidRequestError"]
      ] as const
      for (const [status, type, message, tag] of cases) {
        const server = yield* fails(status, type, message)
        for (const stream of [true, false]) {
          const reason = yield* failing(route(server.url), call("hi", { stream }))
          assert.strictEqual(reason._tag, tag, `${type} ${stream ? "streamed" : "whole"}`)
        }
        assert.strictEqual(server.requests.length, 2, "the SDK retries nothing")
      }
    })
  )

  it.effect("say what they were, and what to do", () =>
    Effect.gen(function* () {
      const tooLong = yield* fails(400, "ValidationException", "The model returned: prompt is too long: 210000 tokens")
      const reason = yield* failing(route(tooLong.url), call("hi"))
      assert(reason._tag === "InvalidRequestError")
      assert.deepInclude(reason.metadata, { status: 400, type: "ValidationException", code: "context_length_exceeded" })
      assert.include(reason.message, "210000 tokens")
      const busy = yield* HttpServer.make((_, response) =>
        HttpServer.json(
          response,
          429,
          { message: "Too many tokens, please wait" },
          { "x-amzn-errortype": "ThrottlingException", "retry-after": "7" }
        )
      )
      const throttled = yield* failing(route(busy.url), call("hi"))
      assert(throttled._tag === "RateLimitError")
      assert.deepStrictEqual(throttled.retryAfter, Duration.seconds(7))
      assert.notProperty(throttled.metadata, "code")
      const denied = yield* fails(403, "AccessDeniedException", "You don't have access to the model")
      const message = (yield* failing(route(denied.url), call("hi"))).message
      assert.include(message, "bedrock:InvokeModel")
      assert.include(message, "us-east-1")
      const unknown = yield* fails(400, "ValidationException", "The provided model identifier is invalid.")
      assert.include((yield* failing(route(unknown.url), call("hi"))).message, "claude-sonnet-4-5")
    })
  )

  for (const stream of [true, false]) {
    it.effect(`of a server say where they happened, whatever it answered, ${stream ? "streamed" : "whole"}`, () =>
      Effect.gen(function* () {
        const cases = [
          ['{"message":"boom inside"}', ": boom inside"],
          ["<html>bad gateway</html>", ": with an answer that is not JSON"],
          ["", " without a message"]
        ] as const
        for (const [body, said] of cases) {
          const server = yield* HttpServer.make((_, response) => {
            response.writeHead(500, { "content-type": "application/json" }).end(body)
          })
          const reason = yield* failing(route(server.url), call("hi", { stream }))
          assert(reason._tag === "InternalProviderError", body)
          assert.include(reason.description, `HTTP 500 from Bedrock in us-east-1 (${route("").model})${said}`)
        }
      })
    )
  }

  it.effect("name the credentials that are missing, and the remedy", () =>
    Effect.gen(function* () {
      yield* environment({})
      const { apiKey: _, ...keyless } = route("http://127.0.0.1:1")
      const reason = yield* failing(keyless, call("hi"))
      assert(reason._tag === "AuthenticationError")
      assert.strictEqual(reason.kind, "MissingKey")
      assert.include(reason.message, "aws configure")
    })
  )

  it.effect("are those of the connection where nobody listens", () =>
    Effect.gen(function* () {
      const server = yield* Effect.scoped(streams())
      const reason = yield* failing(route(server.url), call("hi"))
      assert.strictEqual(reason._tag, "NetworkError")
      assert.include(reason.message, "nothing listens")
    })
  )

  it.effect("are invalid answers where the body is not Converse's", () =>
    Effect.gen(function* () {
      const single = call("hi", { stream: false })
      for (const body of ['{"output":', "<html></html>", "{}", '{"output":{"message":{"content":[]}}}']) {
        const server = yield* HttpServer.make((_, response) => {
          response.writeHead(200, { "content-type": "application/json" }).end(body)
        })
        assert.strictEqual((yield* failing(route(server.url), single))._tag, "InvalidResponseError", body)
      }
    })
  )

  it.effect("are invalid requests where middleware left something that can not be written", () =>
    Effect.gen(function* () {
      const provider = yield* BedrockConverse.make(route("http://127.0.0.1:1"))
      const exit = yield* Effect.exit(provider.execute({ messages: [] }))
      assert.strictEqual(Ask.reasonOf(exit)._tag, "InvalidRequestError")
    })
  )
})
