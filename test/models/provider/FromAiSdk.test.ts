// Models of the AI SDK as providers: requests, answers, failures, interruption, and an agent over one.
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage
} from "@ai-sdk/provider"
import { APICallError, LoadAPIKeyError, NoSuchModelError } from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { simulateReadableStream } from "ai"
import { MockLanguageModelV4 } from "ai/test"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../../src/agent/Agent.ts"
import type { ModelCall, StreamPart } from "../../../src/base/domain/ModelCall.ts"
import * as FromAiSdk from "../../../src/models/provider/FromAiSdk.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"

const usage: LanguageModelV4Usage = {
  inputTokens: { total: 12, noCache: 7, cacheRead: 4, cacheWrite: 1 },
  outputTokens: { total: 5, text: 3, reasoning: 2 }
}
const stop = { unified: "stop", raw: "stop" } as const

const said = (
  content: LanguageModelV4GenerateResult["content"],
  more: Partial<LanguageModelV4GenerateResult> = {}
): LanguageModelV4GenerateResult => ({ content, finishReason: stop, usage, warnings: [], ...more })

const streamed = (chunks: ReadonlyArray<LanguageModelV4StreamPart>) => ({
  stream: simulateReadableStream({ chunks: [...chunks], initialDelayInMs: null, chunkDelayInMs: null })
})

const call = (messages: ReadonlyArray<Prompt.Message>, more: Partial<ModelCall> = {}): ModelCall => ({
  messages,
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false,
  ...more
})

const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

/** The options that a call makes. */
const optionsOf = Effect.fnUntraced(function* (asked: ModelCall) {
  const model = new MockLanguageModelV4({ doGenerate: said([{ type: "text", text: "ok" }]) })
  const provider = FromAiSdk.make(model)
  yield* provider.execute(yield* provider.prepare(asked))
  const { abortSignal: _, ...options } = model.doGenerateCalls[0] ?? {}
  return options
})

const rejecting = (error: unknown) => async (): Promise<never> => {
  throw error
}

const failureOf = (error: unknown) =>
  Effect.gen(function* () {
    const provider = FromAiSdk.make(new MockLanguageModelV4({ doGenerate: rejecting(error) }))
    return yield* Effect.flip(
      Effect.flatMap(provider.prepare(call([user("?")])), (request) => provider.execute(request))
    )
  })

const apiError = (
  statusCode: number | undefined,
  body: unknown,
  more: { readonly headers?: Record<string, string>; readonly isRetryable?: boolean; readonly cause?: unknown } = {}
) =>
  new APICallError({
    message: "the call failed",
    url: "https://api.example.com/v1/responses",
    requestBodyValues: {},
    ...(statusCode === undefined ? {} : { statusCode }),
    ...(more.headers === undefined ? {} : { responseHeaders: more.headers }),
    responseBody: JSON.stringify(body),
    ...(more.isRetryable === undefined ? {} : { isRetryable: more.isRetryable }),
    cause: more.cause
  })

describe("FromAiSdk", () => {
  it.effect("asks with messages, files, calls, results, tools and settings", () =>
    Effect.gen(function* () {
      const bytes = new Uint8Array([1, 2, 3])
      const options = yield* optionsOf(
        call(
          [
            Prompt.systemMessage({ content: "You are terse." }),
            Prompt.userMessage({
              content: [
                Prompt.textPart({ text: "Look." }),
                Prompt.filePart({ mediaType: "image/png", data: bytes }),
                Prompt.filePart({ mediaType: "image/*", data: new URL("https://example.com/a.png") }),
                Prompt.filePart({
                  mediaType: "application/pdf",
                  data: "data:application/pdf;base64,AQID",
                  fileName: "a.pdf"
                })
              ]
            }),
            Prompt.assistantMessage({
              content: [
                Prompt.reasoningPart({ text: "hm", options: { anthropic: { signature: "s" } } }),
                Prompt.textPart({ text: "I look." }),
                Prompt.toolCallPart({
                  id: "c1",
                  name: "look",
                  params: { at: "a" },
                  providerExecuted: false,
                  options: { google: { thoughtSignature: "t" } }
                }),
                Prompt.toolCallPart({ id: "c2", name: "look", params: '{"at":', providerExecuted: false })
              ]
            }),
            Prompt.toolMessage({
              content: [
                Prompt.toolResultPart({
                  id: "c1",
                  name: "look",
                  isFailure: false,
                  result: { seen: [1] },
                  providerExecuted: false
                })
              ]
            }),
            Prompt.toolMessage({
              content: [
                Prompt.toolResultPart({
                  id: "c2",
                  name: "look",
                  isFailure: true,
                  result: "no JSON",
                  providerExecuted: false
                })
              ]
            }),
            user("Go on.")
          ],
          {
            tools: [
              {
                name: "look",
                description: "Looks",
                parameters: { type: "object", properties: { at: { type: "string" } } }
              }
            ],
            toolChoice: { tool: "look" },
            maxOutputTokens: 100,
            temperature: 0.5,
            seed: 7,
            reasoningEffort: "low"
          }
        )
      )
      assert.deepStrictEqual(options, {
        prompt: [
          { role: "system", content: "You are terse." },
          {
            role: "user",
            content: [
              { type: "text", text: "Look." },
              { type: "file", mediaType: "image/png", data: { type: "data", data: bytes } },
              { type: "file", mediaType: "image/*", data: { type: "url", url: new URL("https://example.com/a.png") } },
              { type: "file", mediaType: "application/pdf", data: { type: "data", data: "AQID" }, filename: "a.pdf" }
            ]
          },
          {
            role: "assistant",
            content: [
              { type: "reasoning", text: "hm", providerOptions: { anthropic: { signature: "s" } } },
              { type: "text", text: "I look." },
              {
                type: "tool-call",
                toolCallId: "c1",
                toolName: "look",
                input: { at: "a" },
                providerOptions: { google: { thoughtSignature: "t" } }
              },
              { type: "tool-call", toolCallId: "c2", toolName: "look", input: {} }
            ]
          },
          {
            role: "tool",
            content: [
              {
                type: "tool-result",
                toolCallId: "c1",
                toolName: "look",
                output: { type: "json", value: { seen: [1] } }
              }
            ]
          },
          {
            role: "tool",
            content: [
              {
                type: "tool-result",
                toolCallId: "c2",
                toolName: "look",
                output: { type: "error-text", value: "no JSON" }
              }
            ]
          },
          { role: "user", content: [{ type: "text", text: "Go on." }] }
        ],
        tools: [
          {
            type: "function",
            name: "look",
            description: "Looks",
            inputSchema: { type: "object", properties: { at: { type: "string" } } }
          }
        ],
        toolChoice: { type: "tool", toolName: "look" },
        maxOutputTokens: 100,
        temperature: 0.5,
        seed: 7,
        reasoning: "low"
      })
    })
  )

  it.effect("asks for the form of an answer, and for nothing that the question leaves out", () =>
    Effect.gen(function* () {
      const schema = { type: "object" as const, properties: { n: { type: "number" as const } } }
      assert.deepStrictEqual(
        yield* optionsOf(call([user("?")], { responseFormat: { type: "json", name: "answer", schema } })),
        {
          prompt: [{ role: "user", content: [{ type: "text", text: "?" }] }],
          responseFormat: { type: "json", name: "answer", schema }
        }
      )
    })
  )

  it.effect(
    "reads an answer in one piece, with what has to go back to its provider, and decodes its raw form to the same",
    () =>
      Effect.gen(function* () {
        const provider = FromAiSdk.make(
          new MockLanguageModelV4({
            doGenerate: said(
              [
                { type: "reasoning", text: "hm", providerMetadata: { anthropic: { signature: "s" } } },
                { type: "text", text: "I look." },
                { type: "source", sourceType: "url", id: "1", url: "https://example.com" },
                { type: "tool-call", toolCallId: "c0", toolName: "web_search", input: "{}", providerExecuted: true },
                { type: "tool-call", toolCallId: "c1", toolName: "look", input: '{"at":"a"}' },
                { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } }
              ],
              { finishReason: { unified: "tool-calls", raw: "tool_use" }, response: { id: "r1", modelId: "m-1" } }
            )
          })
        )
        const response = yield* provider.execute(yield* provider.prepare(call([user("?")])))
        assert.deepStrictEqual(
          response.parts.map((part) => {
            switch (part.type) {
              case "tool-call":
                return ["tool-call", part.id, part.name, part.params]
              case "file":
                return ["file", part.mediaType, [...part.data]]
              default:
                return [part.type, part.text, part.metadata]
            }
          }),
          [
            ["reasoning", "hm", { anthropic: { signature: "s" } }],
            ["text", "I look.", {}],
            ["tool-call", "c1", "look", { at: "a" }],
            ["file", "image/png", [1, 2, 3]]
          ]
        )
        assert.deepStrictEqual([response.finishReason, response.model, response.id], ["tool-calls", "m-1", "r1"])
        assert.deepStrictEqual(
          { ...response.usage.inputTokens },
          { uncached: 7, total: 12, cacheRead: 4, cacheWrite: 1 }
        )
        assert.deepStrictEqual({ ...response.usage.outputTokens }, { total: 5, text: 3, reasoning: 2 })
        const decoded = yield* provider.decode(response.raw)
        assert.deepStrictEqual(decoded.parts, response.parts)
      })
  )

  it.effect("streams, and a listener's parts are the answer", () =>
    Effect.gen(function* () {
      const provider = FromAiSdk.make(
        new MockLanguageModelV4({
          doStream: streamed([
            { type: "stream-start", warnings: [] },
            { type: "response-metadata", id: "r1", modelId: "m-1" },
            { type: "reasoning-start", id: "0" },
            { type: "reasoning-delta", id: "0", delta: "hm" },
            { type: "reasoning-end", id: "0", providerMetadata: { anthropic: { signature: "s" } } },
            { type: "text-start", id: "1" },
            { type: "text-delta", id: "1", delta: "I " },
            { type: "ping" },
            { type: "text-delta", id: "1", delta: "look." },
            { type: "text-end", id: "1" },
            { type: "tool-input-start", id: "c0", toolName: "web_search", providerExecuted: true },
            { type: "tool-input-delta", id: "c0", delta: "{}" },
            { type: "tool-input-end", id: "c0" },
            { type: "tool-call", toolCallId: "c0", toolName: "web_search", input: "{}", providerExecuted: true },
            { type: "tool-input-start", id: "c1", toolName: "look" },
            { type: "tool-input-delta", id: "c1", delta: '{"at":' },
            { type: "tool-input-delta", id: "c1", delta: '"a"}' },
            { type: "tool-input-end", id: "c1" },
            { type: "tool-call", toolCallId: "c1", toolName: "look", input: '{"at":"a"}' },
            { type: "finish", finishReason: { unified: "tool-calls", raw: undefined }, usage }
          ])
        })
      )
      const seen: Array<StreamPart> = []
      const response = yield* provider.execute(yield* provider.prepare(call([user("?")], { stream: true })), {
        onPart: (parts) =>
          Effect.sync(() => {
            seen.push(...parts)
            return parts.filter(({ type }) => !type.startsWith("reasoning"))
          })
      })
      assert.deepStrictEqual(
        seen.map(({ type }) => type),
        [
          "response-metadata",
          "reasoning-start",
          "reasoning-delta",
          "reasoning-end",
          "text-start",
          "text-delta",
          "text-delta",
          "text-end",
          "tool-params-start",
          "tool-params-delta",
          "tool-params-delta",
          "tool-params-end",
          "tool-call",
          "finish"
        ]
      )
      assert.deepStrictEqual(
        response.parts.map((part) =>
          part.type === "text" ? part.text : part.type === "tool-call" ? part.params : part.type
        ),
        ["I look.", { at: "a" }]
      )
      assert.deepStrictEqual(
        [response.finishReason, response.model, response.usage.outputTokens.total],
        ["tool-calls", "m-1", 5]
      )
    })
  )

  it.effect("fails with the reason that HTTP gives, and says when to ask again", () =>
    Effect.gen(function* () {
      const limited = yield* failureOf(
        apiError(429, { error: { message: "slow down" } }, { headers: { "Retry-After": "7" } })
      )
      assert.deepInclude(limited.reason, { _tag: "RateLimitError" })
      assert.strictEqual(
        limited.reason._tag === "RateLimitError" ? String(limited.reason.retryAfter) : "",
        "7000 millis"
      )
      const table: ReadonlyArray<readonly [unknown, AiError.AiErrorReason["_tag"], boolean]> = [
        [apiError(401, { error: { message: "Incorrect API key provided" } }), "AuthenticationError", false],
        [apiError(400, { error: { message: "bad", param: "x" } }), "InvalidRequestError", false],
        [apiError(402, { error: { message: "Insufficient credits" } }), "QuotaExhaustedError", false],
        [apiError(503, { error: { message: "overloaded" } }), "InternalProviderError", true],
        [
          apiError(undefined, undefined, {
            isRetryable: true,
            cause: Object.assign(new Error("connect"), { code: "ECONNREFUSED" })
          }),
          "NetworkError",
          true
        ],
        [apiError(undefined, undefined, { isRetryable: true }), "NetworkError", true],
        [new LoadAPIKeyError({ message: "OpenAI API key is missing" }), "AuthenticationError", false],
        [new NoSuchModelError({ modelId: "m", modelType: "languageModel" }), "InvalidRequestError", false],
        [new TypeError("fetch failed"), "NetworkError", true]
      ]
      const found = yield* Effect.forEach(table, ([error]) =>
        Effect.map(failureOf(error), ({ isRetryable, reason: { _tag } }) => [_tag, isRetryable])
      )
      assert.deepStrictEqual(
        found,
        table.map(([, tag, isRetryable]) => [tag, isRetryable])
      )
    })
  )

  it.effect("fails where a stream reports an error, breaks off, or says that it was interrupted", () =>
    Effect.gen(function* () {
      const failed = (chunks: ReadonlyArray<LanguageModelV4StreamPart>) => {
        const provider = FromAiSdk.make(new MockLanguageModelV4({ doStream: streamed(chunks) }))
        return Effect.map(
          Effect.flip(
            Effect.flatMap(provider.prepare(call([user("?")], { stream: true })), (request) =>
              provider.execute(request)
            )
          ),
          ({ isRetryable, reason: { _tag } }) => [_tag, isRetryable]
        )
      }
      const begun: ReadonlyArray<LanguageModelV4StreamPart> = [
        { type: "text-start", id: "1" },
        { type: "text-delta", id: "1", delta: "I " }
      ]
      assert.deepStrictEqual(
        yield* failed([
          ...begun,
          { type: "error", error: apiError(529, { error: { type: "overloaded_error", message: "Overloaded" } }) }
        ]),
        ["InternalProviderError", true]
      )
      assert.deepStrictEqual(
        yield* failed([{ type: "error", error: { type: "rate_limit_error", message: "later" } }]),
        ["RateLimitError", true]
      )
      assert.deepStrictEqual(yield* failed(begun), ["NetworkError", true])
      assert.deepStrictEqual(
        yield* failed([...begun, { type: "finish", finishReason: { unified: "interrupted", raw: undefined }, usage }]),
        ["NetworkError", true]
      )
    })
  )

  it.effect("aborts the call when it is interrupted", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<LanguageModelV4CallOptions>()
      const model = new MockLanguageModelV4({
        doStream: async (options) => {
          Effect.runSync(Deferred.succeed(begun, options))
          return { stream: new ReadableStream({ start: () => {} }) }
        }
      })
      const provider = FromAiSdk.make(model)
      const fiber = yield* Effect.forkChild(
        Effect.flatMap(provider.prepare(call([user("?")], { stream: true })), (request) => provider.execute(request))
      )
      const { abortSignal } = yield* Deferred.await(begun)
      assert.isFalse(abortSignal?.aborted)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(abortSignal?.aborted)
    })
  )

  it.live("an agent runs its tools over it", () =>
    Effect.gen(function* () {
      const double = Tool.make("double", {
        description: "Doubles",
        parameters: Schema.Struct({ n: Schema.Int }),
        success: Schema.Int
      })
      const tools = Toolset.make(
        "numbers",
        Toolkit.make(double),
        Toolkit.make(double).toLayer({ double: ({ n }) => Effect.succeed(n * 2) })
      )
      const model = new MockLanguageModelV4({
        doGenerate: [
          said([{ type: "tool-call", toolCallId: "c1", toolName: "double", input: '{"n":21}' }], {
            finishReason: { unified: "tool-calls", raw: undefined }
          }),
          said([{ type: "text", text: "42" }])
        ]
      })
      const {
        steps,
        text,
        usage: used
      } = yield* Effect.provide(
        Agent.run({ prompt: "Double 21." }),
        Runtime.layer({ provider: FromAiSdk.layer(model), tools: [tools] })
      )
      assert.deepStrictEqual(
        [text, steps, used.inputTokens, used.outputTokens, used.cacheReadTokens],
        ["42", 2, 14, 10, 8]
      )
      assert.deepStrictEqual(model.doGenerateCalls[1]?.prompt.slice(2), [
        { role: "assistant", content: [{ type: "tool-call", toolCallId: "c1", toolName: "double", input: { n: 21 } }] },
        {
          role: "tool",
          content: [
            { type: "tool-result", toolCallId: "c1", toolName: "double", output: { type: "text", value: "42" } }
          ]
        }
      ])
    })
  )
})
