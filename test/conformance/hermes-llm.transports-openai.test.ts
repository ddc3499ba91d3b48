// Cases of hermes-llm.md that chat completions and the Responses API have to meet.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall, ModelResponse } from "../../src/base/domain/ModelCall.ts"
import type { Route } from "../../src/base/domain/Route.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as ChatCompletions from "../../src/models/provider/ChatCompletions.ts"
import * as CodexResponses from "../../src/models/provider/CodexResponses.ts"

type Mode = "chat_completions" | "codex_responses"

const route = (apiMode: Mode, more: Partial<Route> = {}): Route => ({
  provider: "custom",
  model: "test-model",
  apiMode,
  baseUrl: "http://127.0.0.1:1/v1",
  apiKey: Redacted.make("sk-test"),
  ...more
})

const make = (apiMode: Mode, more: Partial<Route> = {}) =>
  apiMode === "chat_completions"
    ? ChatCompletions.make(route(apiMode, more))
    : CodexResponses.make(route(apiMode, more))

const user = Prompt.userMessage({ content: [Prompt.textPart({ text: "hi" })] })

const prepare = (apiMode: Mode, call: Partial<ModelCall> = {}, more: Partial<Route> = {}) =>
  Effect.flatMap(make(apiMode, more), (provider) =>
    provider.prepare({
      messages: [user],
      tools: [],
      toolChoice: "auto",
      responseFormat: { type: "text" },
      stream: false,
      ...call
    })
  )

const decode = (apiMode: Mode, body: unknown) => Effect.flatMap(make(apiMode), (provider) => provider.decode(body))

const chatAnswer = (message: object, more: object = {}) => ({ choices: [{ message, finish_reason: "stop" }], ...more })

const texts = (response: ModelResponse, type: "text" | "reasoning") =>
  response.parts.flatMap((part) => (part.type === type ? [part.text] : []))

/** The last message of the request that a conversation makes. */
const lastOf = (apiMode: Mode, messages: ReadonlyArray<Prompt.Message>, more: Partial<Route> = {}) =>
  Effect.map(prepare(apiMode, { messages }, more), (request) => {
    const list = request[apiMode === "chat_completions" ? "messages" : "input"]
    assert(Array.isArray(list))
    return Object(list.at(-1))
  })

describe("hermes-llm.md, modes", () => {
  it.effect("T5 a look-alike of OpenAI's host is not asked in OpenAI's words", () =>
    Effect.gen(function* () {
      const request = yield* prepare(
        "chat_completions",
        { maxOutputTokens: 9 },
        { baseUrl: "https://proxy.example/api.openai.com/v1" }
      )
      assert.propertyVal(request, "max_tokens", 9)
      assert.notProperty(request, "max_completion_tokens")
    })
  )

  it.effect("T7 Azure has max_completion_tokens", () =>
    Effect.gen(function* () {
      const request = yield* prepare(
        "chat_completions",
        { maxOutputTokens: 9 },
        { model: "gpt-5.4", baseUrl: "https://mine.openai.azure.com/openai/v1" }
      )
      assert.propertyVal(request, "max_completion_tokens", 9)
      assert.notProperty(request, "max_tokens")
    })
  )
})

describe("hermes-llm.md, transports", () => {
  it.effect("T16 stop reasons of chat completions: length, content_filter, tool_calls, unknown", () =>
    Effect.gen(function* () {
      for (const [word, expected] of [
        ["length", "length"],
        ["content_filter", "content-filter"],
        ["tool_calls", "tool-calls"],
        ["unheard_of", "stop"]
      ] as const) {
        const answer = yield* decode("chat_completions", {
          choices: [{ message: { content: "x" }, finish_reason: word }]
        })
        assert.strictEqual(answer.finishReason, expected)
      }
    })
  )

  it.effect("T22 a failed response is a failure of its own kind, not an answer", () =>
    Effect.gen(function* () {
      const error = { code: "insufficient_quota", message: "You exceeded your current quota" }
      for (const body of [
        { status: "failed", error },
        { status: "failed", error: { message: error.message } }
      ]) {
        const exit = yield* Effect.exit(decode("codex_responses", { id: "resp_1", output: [], ...body }))
        const failure = Exit.findErrorOption(exit)
        assert(failure._tag === "Some" && AiError.isAiError(failure.value))
        assert.strictEqual(failure.value.reason._tag, "QuotaExhaustedError")
        assert.isFalse(failure.value.isRetryable)
      }
    })
  )

  it.effect("T23 strict chat fields: what other protocols left in a history is not sent", () =>
    Effect.gen(function* () {
      const options = {
        codex_responses: { id: "fc_1", encrypted_content: "enc" },
        anthropic_messages: { signature: "sig" },
        chat_completions: { extra_content: { google: { thought_signature: "s" } } }
      }
      const history = [
        user,
        Prompt.assistantMessage({
          content: [
            Prompt.textPart({ text: "Running.", options }),
            Prompt.toolCallPart({ id: "call_1", name: "terminal", params: {}, providerExecuted: false, options })
          ],
          options: { hermes: { _flag: true } }
        })
      ]
      const plainCall = { id: "call_1", type: "function", function: { name: "terminal", arguments: "{}" } }
      assert.deepStrictEqual(yield* lastOf("chat_completions", history), {
        role: "assistant",
        content: "Running.",
        tool_calls: [plainCall]
      })
      const { extra_content } = options.chat_completions
      for (const model of ["google/gemini-3-pro", "gemma-3"]) {
        const { tool_calls } = yield* lastOf("chat_completions", history, { model })
        assert.deepStrictEqual(tool_calls, [{ ...plainCall, extra_content }])
      }
      assert.deepStrictEqual(yield* lastOf("codex_responses", history), {
        type: "function_call",
        id: "fc_1",
        call_id: "call_1",
        name: "terminal",
        arguments: "{}"
      })
    })
  )
})

describe("hermes-llm.md, usage", () => {
  const usageOf = (apiMode: Mode, usage: unknown) =>
    Effect.map(
      decode(
        apiMode,
        apiMode === "chat_completions"
          ? chatAnswer({ content: "x" }, { usage })
          : { output: [{ type: "message", content: [{ type: "output_text", text: "x" }] }], usage }
      ),
      (answer) => Usage.fromResponse(answer.usage)
    )

  it.effect("T79 Anthropic's counters behind an aggregator: prompt 1050, total 1070, hit 86 %", () =>
    Effect.gen(function* () {
      const usage = yield* usageOf("chat_completions", {
        prompt_tokens: 1_050,
        completion_tokens: 20,
        cache_read_input_tokens: 900,
        cache_creation_input_tokens: 50
      })
      assert.deepInclude(usage, { inputTokens: 100, cacheReadTokens: 900, cacheWriteTokens: 50, outputTokens: 20 })
      assert.strictEqual(Usage.countPromptTokens(usage), 1_050)
      assert.strictEqual(Usage.countTotalTokens(usage), 1_070)
      assert.strictEqual(Math.round(Usage.computeCacheHitPercent(usage)), 86)
    })
  )

  it.effect(
    "T80 prompt_tokens 1000 with 600 cached: input 400, read 600, prompt 1000; the same in the Responses API",
    () =>
      Effect.gen(function* () {
        const usages = [
          yield* usageOf("chat_completions", { prompt_tokens: 1_000, prompt_tokens_details: { cached_tokens: 600 } }),
          yield* usageOf("codex_responses", { input_tokens: 1_000, input_tokens_details: { cached_tokens: 600 } })
        ]
        for (const usage of usages) {
          assert.deepInclude(usage, { inputTokens: 400, cacheReadTokens: 600 })
          assert.strictEqual(Usage.countPromptTokens(usage), 1_000)
        }
      })
  )

  it.effect("T82 garbage counters are 0 and never an exception", () =>
    Effect.gen(function* () {
      const garbage = [null, -5, "12", Number.NaN, {}, []]
      for (const bad of garbage) {
        for (const usage of [
          bad,
          { prompt_tokens: bad, completion_tokens: bad, prompt_tokens_details: bad },
          { input_tokens: bad, output_tokens: bad, input_tokens_details: { cached_tokens: bad } }
        ]) {
          for (const mode of ["chat_completions", "codex_responses"] as const) {
            assert.deepStrictEqual(yield* usageOf(mode, usage), { ...Usage.zero, requestCount: 1 })
          }
        }
      }
    })
  )

  it.effect("T82 more cached than there was is never a negative input", () =>
    Effect.gen(function* () {
      const usage = yield* usageOf("chat_completions", {
        prompt_tokens: 10,
        prompt_tokens_details: { cached_tokens: 60 }
      })
      assert.strictEqual(usage.inputTokens, 0)
    })
  )
})

describe("hermes-llm.md, tool calls and reasoning on chat completions", () => {
  const argumentsOf = (value: unknown) =>
    Effect.map(
      decode("chat_completions", chatAnswer({ tool_calls: [{ id: "c", function: { name: "t", arguments: value } }] })),
      (answer) => answer.parts.flatMap((part) => (part.type === "tool-call" ? [part.params] : []))
    )

  it.effect("T91 empty arguments are {}", () =>
    Effect.gen(function* () {
      for (const value of ["", "  \n", null, undefined]) assert.deepStrictEqual(yield* argumentsOf(value), [{}])
    })
  )

  it.effect("T92 arguments delivered as an object are taken", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* argumentsOf({ a: [1] }), [{ a: [1] }])
    })
  )

  it.effect(
    "T110 reasoning, reasoning_content and details are joined without repeats; tags are ignored beside them",
    () =>
      Effect.gen(function* () {
        const answer = yield* decode(
          "chat_completions",
          chatAnswer({
            content: "<think>C</think>hi",
            reasoning: "A",
            reasoning_content: "A",
            reasoning_details: [{ type: "reasoning.summary", summary: "B" }]
          })
        )
        assert.deepStrictEqual(texts(answer, "reasoning"), ["A\n\nB"])
        assert.deepStrictEqual(texts(answer, "text"), ["hi"])
      })
  )

  it.effect("T112 an unterminated tag hides the rest; prose that mentions one stays", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        texts(yield* decode("chat_completions", chatAnswer({ content: "<think>abc" })), "text"),
        []
      )
      const prose = "Use <think> in prose mid-line text"
      assert.deepStrictEqual(texts(yield* decode("chat_completions", chatAnswer({ content: prose })), "text"), [prose])
    })
  )

  it.effect(
    "T115 DeepSeek: another's reasoning before a call is a space, its own goes back verbatim, empty is a space",
    () =>
      Effect.gen(function* () {
        const deepseek = { provider: "deepseek", model: "deepseek-chat", baseUrl: "https://api.deepseek.com/v1" }
        const sent = (text: string, options: Prompt.ReasoningPartOptions) =>
          Effect.map(
            lastOf(
              "chat_completions",
              [
                user,
                Prompt.assistantMessage({
                  content: [
                    Prompt.reasoningPart({ text, options }),
                    Prompt.toolCallPart({ id: "c", name: "t", params: {}, providerExecuted: false })
                  ]
                })
              ],
              deepseek
            ),
            (message) => message.reasoning_content
          )
        assert.strictEqual(yield* sent("other's", { anthropic_messages: { signature: "s" } }), " ")
        assert.strictEqual(yield* sent("own", { chat_completions: { reasoning_content: true } }), "own")
        assert.strictEqual(yield* sent("", { chat_completions: { reasoning_content: "" } }), " ")
      })
  )
})
