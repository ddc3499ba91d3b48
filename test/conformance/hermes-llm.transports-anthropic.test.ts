// Cases of hermes-llm.md that the Messages protocol has to meet.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/ai/Prompt"
import * as History from "../../src/base/domain/History.ts"
import type { ModelCall } from "../../src/base/domain/ModelCall.ts"
import { abilities, type Route } from "../../src/base/domain/Route.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as ModelAbilities from "../../src/models/provider/ModelAbilities.ts"
import * as AnthropicMessages from "../../src/models/provider/AnthropicMessages.ts"

const route = (more: Partial<Route> = {}): Route => ({
  provider: "anthropic",
  model: "claude-opus-4-6",
  apiMode: "anthropic_messages",
  apiKey: Redacted.make("sk-ant-api03-x"),
  ...more
})

const terminal = { name: "terminal", description: "", parameters: { type: "object", properties: {} } }
const user = Prompt.userMessage({ content: [Prompt.textPart({ text: "hi" })] })

const prepare = (call: Partial<ModelCall>, more: Partial<Route> = {}) =>
  Effect.flatMap(AnthropicMessages.make(route(more)), (provider) =>
    provider.prepare({
      messages: [user],
      tools: [terminal],
      toolChoice: "auto",
      responseFormat: { type: "text" },
      stream: false,
      ...call
    })
  )

const decode = (body: object, more: Partial<Route> = {}) =>
  Effect.flatMap(AnthropicMessages.make(route(more)), (provider) => provider.decode(body))

describe("hermes-llm.md, the Messages protocol", () => {
  it.effect("T13 without max_tokens a request has the model's own limit", () =>
    Effect.gen(function* () {
      const limit = (model: string) => Effect.map(prepare({}, { model }), (request) => request["max_tokens"])
      assert.strictEqual(yield* limit("anthropic/claude-opus-4.6"), 128_000)
      assert.strictEqual(yield* limit("claude-3-5-sonnet-20241022"), 8_192)
      assert.strictEqual(yield* limit("unheard-of"), 128_000)
    })
  )

  it.effect("T14 a limit above the window becomes one token less than the window", () =>
    Effect.gen(function* () {
      assert.strictEqual(ModelAbilities.findOutputLimit("claude-sonnet-4-5"), 64_000)
      const request = yield* prepare({ contextWindow: 8_192 }, { model: "claude-sonnet-4-5" })
      assert.strictEqual(request["max_tokens"], 8_191)
    })
  )

  it.effect("T16 stop reasons: max_tokens, refusal, tool_use, unknown", () =>
    Effect.gen(function* () {
      const reason = (stop_reason: string) =>
        Effect.map(decode({ content: [{ type: "text", text: "x" }], stop_reason }), (answer) => answer.finishReason)
      for (const [name, expected] of [
        ["max_tokens", "length"],
        ["model_context_window_exceeded", "length"],
        ["refusal", "content-filter"],
        ["tool_use", "tool-calls"],
        ["end_turn", "stop"],
        ["stop_sequence", "stop"],
        ["unheard_of", "stop"],
        ["constructor", "stop"]
      ] as const)
        assert.strictEqual(yield* reason(name), expected, name)
    })
  )

  it.effect(
    "T17 (the issue decides: by the model, not the host) signed thinking is replayed in the last assistant turn, of Claude only; unsigned becomes text",
    () =>
      Effect.gen(function* () {
        const turn = (text: string, ...more: Array<Prompt.ReasoningPart>) =>
          Prompt.assistantMessage({
            content: [
              Prompt.reasoningPart({ text: `thought ${text}`, options: { anthropic_messages: { signature: text } } }),
              ...more,
              Prompt.textPart({ text })
            ]
          })
        const unsigned = Prompt.reasoningPart({ text: "unsigned" })
        const messages = [user, turn("one"), user, turn("two"), user, turn("three", unsigned)]
        const signed = (text: string) => ({ type: "thinking", thinking: `thought ${text}`, signature: text })
        const text = (text: string) => ({ type: "text", text })
        const contents = (more: Partial<Route>) =>
          Effect.map(
            prepare({ messages: History.toSendableMessages(messages, abilities(route(more))) }, more),
            (request) =>
              // The request's messages are those that this provider wrote.
              (request["messages"] as ReadonlyArray<{ role: string; content: unknown }>)
                .filter((message) => message.role === "assistant")
                .map((message) => message.content)
          )
        const older = { model: "claude-sonnet-4-5" }
        assert.deepStrictEqual(yield* contents(older), [
          [text("one")],
          [text("two")],
          [signed("three"), text("unsigned"), text("three")]
        ])
        const proxy = { provider: "custom", baseUrl: "https://proxy.example/anthropic" }
        assert.deepStrictEqual(yield* contents({ ...proxy, ...older }), yield* contents(older))
        // Models that keep the thinking of earlier turns get all of it, so that the prefix stays the same.
        assert.deepStrictEqual((yield* contents({ ...proxy, model: "claude-opus-4-6" }))[0], [
          signed("one"),
          text("one")
        ])
        assert.deepStrictEqual(yield* contents({ ...proxy, model: "glm-4.7" }), [
          [text("one")],
          [text("two")],
          [text("three")]
        ])
      })
  )

  it.effect("T19 a subscription token prefixes tools on the wire and nowhere else; a key does not", () =>
    Effect.gen(function* () {
      const subscribed = { apiKey: Redacted.make("sk-ant-oat01-x") }
      const names = (more: Partial<Route>) =>
        // The request's tools are those that this provider wrote.
        Effect.map(prepare({}, more), (request) =>
          (request["tools"] as ReadonlyArray<{ name: string }>).map((tool) => tool.name)
        )
      const calls = (more: Partial<Route>, name: string) =>
        Effect.map(
          decode({ content: [{ type: "tool_use", id: "t", name, input: {} }], stop_reason: "tool_use" }, more),
          (answer) => answer.parts.flatMap((part) => (part.type === "tool-call" ? [part.name] : []))
        )
      assert.deepStrictEqual(yield* names(subscribed), ["mcp_terminal"])
      assert.deepStrictEqual(yield* calls(subscribed, "mcp_terminal"), ["terminal"])
      assert.deepStrictEqual(yield* calls(subscribed, "mcp_mcp_github_search"), ["mcp_github_search"])
      assert.deepStrictEqual(yield* names({}), ["terminal"])
      assert.deepStrictEqual(yield* calls({}, "mcp_github_search"), ["mcp_github_search"])
    })
  )

  it.effect("T20 tool choice none leaves the tools out", () =>
    Effect.gen(function* () {
      const request = yield* prepare({ toolChoice: "none" })
      assert.notProperty(request, "tools")
      assert.notProperty(request, "tool_choice")
    })
  )

  it.effect("T79 usage: 100 fresh, 900 read, 50 written, 20 out make 1050, 1070 and 86 percent", () =>
    Effect.gen(function* () {
      const answer = yield* decode({
        content: [{ type: "text", text: "x" }],
        stop_reason: "end_turn",
        usage: { input_tokens: 100, cache_read_input_tokens: 900, cache_creation_input_tokens: 50, output_tokens: 20 }
      })
      const usage = Usage.fromResponse(answer.usage)
      assert.strictEqual(Usage.countPromptTokens(usage), 1_050)
      assert.strictEqual(Usage.countTotalTokens(usage), 1_070)
      assert.strictEqual(Math.round(Usage.computeCacheHitPercent(usage)), 86)
    })
  )

  it.effect("T82 garbage counters count nothing and never throw", () =>
    Effect.gen(function* () {
      for (const usage of [
        null,
        "many",
        [],
        { input_tokens: null, output_tokens: -3, cache_read_input_tokens: "900" }
      ]) {
        const answer = yield* decode({ content: [{ type: "text", text: "x" }], stop_reason: "end_turn", usage })
        assert.deepStrictEqual(Usage.fromResponse(answer.usage), { ...Usage.zero, requestCount: 1 })
      }
    })
  )
})
