// The request that a call becomes, without any network.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Redacted from "effect/Redacted"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import * as History from "../../../src/base/domain/History.ts"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import { abilities, type Route } from "../../../src/base/domain/Route.ts"
import * as Request from "../../../src/models/provider/anthropic/Request.ts"

const native: Route = { provider: "anthropic", model: "claude-opus-4-6", apiMode: "anthropic_messages" }
const gateway: Route = { ...native, provider: "custom", baseUrl: "https://proxy.example/anthropic" }
const subscribed: Route = { ...native, apiKey: Redacted.make("sk-ant-oat01-x") }

const call = (messages: ReadonlyArray<Prompt.Message>, more: Partial<ModelCall> = {}): ModelCall => ({
  messages,
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false,
  ...more
})

const system = (content: string, options: Prompt.ProviderOptions = {}) => Prompt.systemMessage({ content, options })
const user = (text: string, options: Prompt.ProviderOptions = {}) =>
  Prompt.userMessage({ content: [Prompt.textPart({ text })], options })
const assistant = (...content: Array<Prompt.AssistantMessagePart>) => Prompt.assistantMessage({ content })
const text = (text: string) => Prompt.textPart({ text })
const thought = (text: string, data: Record<string, string> = {}) =>
  Prompt.reasoningPart({ text, options: { anthropic_messages: data } })
const toolCall = (id: string, params: unknown = {}, name = "terminal") =>
  Prompt.toolCallPart({ id, name, params, providerExecuted: false })
const result = (id: string, output: unknown, isFailure = false, options: Prompt.ProviderOptions = {}) =>
  Prompt.toolMessage({
    content: [Prompt.toolResultPart({ id, name: "terminal", isFailure, result: output, providerExecuted: false })],
    options
  })

const marker = { anthropic_messages: { cache_control: { type: "ephemeral" } } }
const cached = { cache_control: { type: "ephemeral" } }

const terminal = {
  name: "terminal",
  description: "Runs a command.",
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] }
}

describe("the whole request", () => {
  it("has the model's own limit, the system text, the messages and the tools", () => {
    assert.deepStrictEqual(
      Request.prepare(call([system("Be brief."), user("hi")], { tools: [terminal], temperature: 0.2, stream: true }), {
        ...native,
        model: "anthropic/claude-opus-4.6",
        extraBody: { service_tier: "auto" }
      }),
      {
        model: "claude-opus-4-6",
        max_tokens: 128_000,
        system: "Be brief.",
        messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }],
        tools: [{ name: "terminal", description: "Runs a command.", input_schema: terminal.parameters }],
        tool_choice: { type: "auto" },
        temperature: 0.2,
        stream: true,
        extra_body: { service_tier: "auto" }
      }
    )
  })

  it("joins system messages, and keeps them apart before a cache breakpoint", () => {
    const joined = Request.prepare(call([system("one"), system(" "), system("two"), user("hi")]), native)
    assert.strictEqual(joined["system"], "one\n\ntwo")
    const apart = Request.prepare(call([system("one", marker), system("two"), user("hi")]), native)
    assert.deepStrictEqual(apart["system"], [
      { type: "text", text: "one", ...cached },
      { type: "text", text: "two" }
    ])
  })

  it("asks for what the call allows, and less than the window", () => {
    const of = (more: Partial<ModelCall>) => Request.prepare(call([user("hi")], more), native)["max_tokens"]
    assert.strictEqual(of({ maxOutputTokens: 500 }), 500)
    assert.strictEqual(of({ contextWindow: 8_192 }), 8_191)
    assert.strictEqual(of({ contextWindow: 200_000 }), 128_000)
  })

  it("brings the beta of fast mode along, at Anthropic only", () => {
    const extraBody = { speed: "fast" }
    const fast = Request.prepare(call([user("hi")]), { ...native, extraBody })
    assert.deepStrictEqual(fast["extra_body"], { speed: "fast" })
    assert.deepStrictEqual(fast["extra_headers"], {
      "anthropic-beta": "interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14,fast-mode-2026-02-01"
    })
    const slow = Request.prepare(call([user("hi")]), { ...gateway, extraBody })
    assert.isFalse("extra_body" in slow || "extra_headers" in slow)
  })
})

describe("messages", () => {
  const messages = (prompt: ReadonlyArray<Prompt.Message>, route: Route = native) =>
    Request.prepare(call(History.toSendableMessages(prompt, abilities(route))), route)["messages"]
  const opening = { role: "user", content: [{ type: "text", text: "(the beginning of the conversation is left out)" }] }
  const cancelled = (tool_use_id: string) => ({
    type: "tool_result",
    tool_use_id,
    content: Conversation.cancelledResult,
    is_error: true
  })

  it("answers calls in one user message, results first, neighbours merged", () => {
    assert.deepStrictEqual(
      messages([
        user("list"),
        assistant(text("Looking."), toolCall("a", { command: "ls" }), toolCall("b", '{"command":"pwd"}')),
        result("a", "x.ts"),
        result("b", { error: "no" }, true),
        user("quick!"),
        assistant(text("done"))
      ]),
      [
        { role: "user", content: [{ type: "text", text: "list" }] },
        {
          role: "assistant",
          content: [
            { type: "text", text: "Looking." },
            { type: "tool_use", id: "a", name: "terminal", input: { command: "ls" } },
            { type: "tool_use", id: "b", name: "terminal", input: { command: "pwd" } }
          ]
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "a", content: "x.ts" },
            { type: "tool_result", tool_use_id: "b", content: '{"error":"no"}', is_error: true },
            { type: "text", text: "quick!" }
          ]
        },
        { role: "assistant", content: [{ type: "text", text: "done" }] }
      ]
    )
  })

  it("closes calls without a result, and leaves out results without a call and second results", () => {
    assert.deepStrictEqual(
      messages([
        user("go"),
        result("gone", "late"),
        assistant(toolCall("a"), toolCall("open")),
        result("a", "1"),
        result("a", "2"),
        assistant(toolCall("last"))
      ]),
      [
        { role: "user", content: [{ type: "text", text: "go" }] },
        {
          role: "assistant",
          content: ["a", "open"].map((id) => ({ type: "tool_use", id, name: "terminal", input: {} }))
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "1" }, cancelled("open")] },
        { role: "assistant", content: [{ type: "tool_use", id: "last", name: "terminal", input: {} }] },
        { role: "user", content: [cancelled("last")] }
      ]
    )
  })

  it("writes ids in the letters that the API takes, on both sides", () => {
    assert.deepStrictEqual(messages([assistant(toolCall("fc:1/ü")), result("fc:1/ü", "")]), [
      opening,
      { role: "assistant", content: [{ type: "tool_use", id: "fc_1__", name: "terminal", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "fc_1__", content: "(no output)" }] }
    ])
  })

  it("never sends an empty message or a blank text", () => {
    assert.deepStrictEqual(messages([user(" "), assistant(text("")), Prompt.userMessage({ content: [] })]), [
      { role: "user", content: [{ type: "text", text: "(empty message)" }] }
    ])
  })

  it("sends arguments that are no object as an empty one", () => {
    const content = assistant(toolCall("a", '{"command": "l'), toolCall("b", [1]), toolCall("c", null))
    const [, sent] = messages([user("go"), content, result("a", 1), result("b", 2), result("c", 3)]) as Array<{
      content: Array<{ input: unknown }>
    }>
    assert.deepStrictEqual(
      sent?.content.map((block) => block.input),
      [{}, {}, {}]
    )
  })

  it("sends pictures and documents by address or in place, and names other files", () => {
    const file = (mediaType: string, data: string | Uint8Array | URL, fileName?: string) =>
      Prompt.filePart({ mediaType, data, ...(fileName === undefined ? {} : { fileName }) })
    const content = [
      file("image/png", new Uint8Array([1, 2, 3])),
      file("image/*", new URL("https://x.example/a.jpg")),
      file("image/png", "data:image/png;base64,QUJD"),
      file("application/pdf", "QUJD", "a.pdf"),
      file("text/plain", new TextEncoder().encode("héllo")),
      file("application/zip", "QUJD", "a.zip")
    ]
    assert.deepStrictEqual(messages([Prompt.userMessage({ content })]), [
      {
        role: "user",
        content: [
          { type: "image", source: { type: "base64", media_type: "image/png", data: "AQID" } },
          { type: "image", source: { type: "url", url: "https://x.example/a.jpg" } },
          { type: "image", source: { type: "base64", media_type: "image/png", data: "QUJD" } },
          { type: "document", source: { type: "base64", media_type: "application/pdf", data: "QUJD" }, title: "a.pdf" },
          { type: "document", source: { type: "text", media_type: "text/plain", data: "héllo" } },
          { type: "text", text: "[application/zip a.zip omitted]" }
        ]
      }
    ])
  })

  it("gives a tool result in the tool's own form for models", () => {
    const part = Prompt.toolResultPart({
      id: "a",
      name: "shot",
      isFailure: false,
      result: { path: "/tmp/a.png" },
      modelOutput: [text("the screen"), Prompt.filePart({ mediaType: "image/png", data: "QUJD" })],
      providerExecuted: false
    })
    assert.deepStrictEqual(messages([assistant(toolCall("a", {}, "shot")), Prompt.toolMessage({ content: [part] })]), [
      opening,
      { role: "assistant", content: [{ type: "tool_use", id: "a", name: "shot", input: {} }] },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "a",
            content: [
              { type: "text", text: "the screen" },
              { type: "image", source: { type: "base64", media_type: "image/png", data: "QUJD" } }
            ]
          }
        ]
      }
    ])
  })

  it("puts a cache breakpoint on the last block that can carry it, inside a tool result too", () => {
    const prompt = [
      user("go", marker),
      Prompt.assistantMessage({ content: [text("so"), thought("hm", { signature: "s" })], options: marker }),
      user("more"),
      assistant(toolCall("a")),
      result("a", "ok", false, marker),
      user("then")
    ]
    const older = abilities({ ...native, model: "claude-sonnet-4-5" })
    assert.deepStrictEqual(messages(History.toSendableMessages(prompt, older)), [
      { role: "user", content: [{ type: "text", text: "go", ...cached }] },
      { role: "assistant", content: [{ type: "text", text: "so", ...cached }] },
      { role: "user", content: [{ type: "text", text: "more" }] },
      { role: "assistant", content: [{ type: "tool_use", id: "a", name: "terminal", input: {} }] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "a", content: "ok", ...cached },
          { type: "text", text: "then" }
        ]
      }
    ])
    assert.deepStrictEqual(messages(prompt.slice(0, 2)), [
      { role: "user", content: [{ type: "text", text: "go", ...cached }] },
      {
        role: "assistant",
        content: [
          { type: "text", text: "so", ...cached },
          { type: "thinking", thinking: "hm", signature: "s" }
        ]
      }
    ])
  })

  it("converts a message once, and a marked copy of it never changes what was converted", () => {
    const prepare = Request.make(native)
    const first = user("go")
    const copy = Prompt.userMessage({ content: first.content, options: marker })
    const of = (message: Prompt.Message) =>
      (prepare(call([message]))["messages"] as Array<{ content: Array<unknown> }>)[0]?.content[0]
    const block = of(first)
    assert.deepStrictEqual(of(copy), { type: "text", text: "go", ...cached })
    assert.strictEqual(of(first), block)
    assert.deepStrictEqual(block, { type: "text", text: "go" })
  })
})

describe("thinking in the history", () => {
  const turns = [
    user("1"),
    assistant(thought("t1", { signature: "s1" }), text("a1")),
    user("2"),
    assistant(thought("only", { signature: "s2" })),
    user("3"),
    assistant(
      thought("t3", { signature: "s3" }),
      thought("", { redacted: "opaque" }),
      thought("loose"),
      thought("", { signature: "" }),
      text("a3")
    )
  ]

  const sentTo = (route: Route) =>
    (
      Request.prepare(call(History.toSendableMessages(turns, abilities(route))), route)["messages"] as Array<{
        role: string
        content: unknown
      }>
    )
      .filter((message) => message.role === "assistant")
      .map((message) => message.content)

  it("stays in every message of models that keep it: Opus from 4.5, Sonnet from 4.6", () => {
    for (const model of [
      "claude-opus-4-5",
      "anthropic/claude-opus-4.6",
      "claude-sonnet-4-6",
      "claude-mythos-preview"
    ]) {
      assert.deepStrictEqual(
        sentTo({ ...gateway, model })[0],
        [
          { type: "thinking", thinking: "t1", signature: "s1" },
          { type: "text", text: "a1" }
        ],
        model
      )
    }
  })

  it("without a signature is left out for models that get all of it: it may be of another model", () => {
    assert.deepStrictEqual(sentTo(native).at(-1), [
      { type: "thinking", thinking: "t3", signature: "s3" },
      { type: "redacted_thinking", data: "opaque" },
      { type: "text", text: "a3" }
    ])
  })

  it("stays in the newest assistant message of older models, whoever serves it; reasoning alone is no message", () => {
    for (const route of [native, gateway].map((route) => ({ ...route, model: "claude-sonnet-4-5" }))) {
      assert.deepStrictEqual(sentTo(route), [
        [{ type: "text", text: "a1" }],
        [
          { type: "thinking", thinking: "t3", signature: "s3" },
          { type: "redacted_thinking", data: "opaque" },
          { type: "text", text: "loose" },
          { type: "text", text: "a3" }
        ]
      ])
    }
  })

  it("is left out for everybody else", () => {
    assert.deepStrictEqual(sentTo({ ...gateway, model: "glm-4.7" }), [
      [{ type: "text", text: "a1" }],
      [{ type: "text", text: "a3" }]
    ])
  })
})

describe("asking for thought", () => {
  const ask = (model: string, more: Partial<ModelCall>, route: Route = native) => {
    const request = Request.prepare(call([user("hi")], more), { ...route, model })
    return {
      thinking: request["thinking"],
      output_config: request["output_config"],
      temperature: request["temperature"],
      max_tokens: request["max_tokens"]
    }
  }
  const silent = { thinking: undefined, output_config: undefined }
  const adaptive = { type: "adaptive", display: "summarized" }

  it("goes by effort from 4.6 on, xhigh as max where there is no xhigh", () => {
    assert.deepInclude(ask("claude-opus-4.6", { reasoningEffort: "xhigh" }), {
      thinking: adaptive,
      output_config: { effort: "max" }
    })
    assert.deepInclude(ask("claude-opus-4-7", { reasoningEffort: "xhigh" }), { output_config: { effort: "xhigh" } })
    assert.deepInclude(ask("claude-sonnet-5-5", { reasoningEffort: "low" }), {
      thinking: adaptive,
      output_config: { effort: "low" }
    })
  })

  it("goes by budget before, with temperature 1 and room for the answer", () => {
    assert.deepInclude(ask("claude-sonnet-4-5-20250929", { reasoningEffort: "high", temperature: 0.3 }), {
      thinking: { type: "enabled", budget_tokens: 16_000 },
      temperature: 1,
      max_tokens: 64_000
    })
    assert.deepInclude(ask("claude-sonnet-4-20250514", { reasoningEffort: "xhigh", maxOutputTokens: 1_000 }), {
      thinking: { type: "enabled", budget_tokens: 32_000 },
      max_tokens: 36_096
    })
  })

  it("is left out where budget and answer do not fit into the window", () => {
    const small = { reasoningEffort: "high", contextWindow: 8_192, temperature: 0.3 } as const
    assert.deepInclude(ask("claude-sonnet-4-5", small), { ...silent, temperature: 0.3, max_tokens: 8_191 })
  })

  it("treats minimal as none (ARCHITECTURE §7, D5), and Haiku never thinks", () => {
    assert.deepInclude(ask("claude-opus-4-6", { reasoningEffort: "minimal" }), silent)
    assert.deepInclude(ask("claude-opus-4-6", { reasoningEffort: "none" }), silent)
    assert.deepInclude(ask("claude-opus-4-6", {}), silent)
    assert.deepInclude(ask("claude-haiku-4-5", { reasoningEffort: "high" }), silent)
    assert.deepInclude(ask("claude-3-5-sonnet-20241022", { reasoningEffort: "high" }), silent)
  })

  it("asks other vendors' models by budget, whatever number they carry", () => {
    const minimax: Route = { ...gateway, provider: "minimax", baseUrl: "https://api.minimax.io/anthropic" }
    assert.deepInclude(ask("MiniMax-M2.1", { reasoningEffort: "medium" }, minimax), {
      thinking: { type: "enabled", budget_tokens: 8_000 },
      max_tokens: 131_072
    })
    assert.deepInclude(ask("glm-4.7", { reasoningEffort: "low" }, gateway), {
      thinking: { type: "enabled", budget_tokens: 4_000 }
    })
  })

  it("drops temperature from 4.7 on, and beside thinking by effort", () => {
    assert.isUndefined(ask("claude-opus-4-7", { temperature: 0.3 }).temperature)
    assert.isUndefined(ask("claude-opus-4-6", { temperature: 0.3, reasoningEffort: "low" }).temperature)
    assert.strictEqual(ask("claude-opus-4-6", { temperature: 0.3 }).temperature, 0.3)
  })

  it("is left out of a request that forces a call, and after calls that another provider made", () => {
    const forced = { reasoningEffort: "high", tools: [terminal], toolChoice: "required" } as const
    assert.deepInclude(ask("claude-opus-4-6", forced), silent)
    const foreign = [user("go"), assistant(toolCall("a")), result("a", "ok")]
    const request = (model: string) =>
      Request.prepare(call(foreign, { reasoningEffort: "high" }), { ...native, model })["thinking"]
    assert.isUndefined(request("claude-sonnet-4-5"))
    assert.deepStrictEqual(request("claude-sonnet-4-6"), adaptive)
  })
})

describe("tools and the form of the answer", () => {
  const fields = (more: Partial<ModelCall>, route: Route = native) =>
    Request.prepare(call([user("hi")], { tools: [terminal], ...more }), route)

  it("knows every tool choice", () => {
    assert.deepStrictEqual(fields({ toolChoice: "auto" })["tool_choice"], { type: "auto" })
    assert.deepStrictEqual(fields({ toolChoice: "required" })["tool_choice"], { type: "any" })
    const named = fields({ toolChoice: { tool: "terminal" } })["tool_choice"]
    assert.deepStrictEqual(named, { type: "tool", name: "terminal" })
    const none = fields({ toolChoice: "none" })
    assert.isFalse("tools" in none || "tool_choice" in none)
    assert.isFalse("tool_choice" in fields({ tools: [] }))
  })

  it("converts one array of tools once", () => {
    const prepare = Request.make(native)
    const tools = [terminal]
    const of = () => prepare(call([user("hi")], { tools }))["tools"]
    assert.strictEqual(of(), of())
  })

  const schema = {
    type: "object",
    properties: {
      name: { type: "string", minLength: 2, format: "email" },
      tags: { type: "array", items: { oneOf: [{ type: "string" }, { type: "object", properties: {} }] } }
    },
    required: ["name"]
  }
  const responseFormat = { type: "json", name: "person", schema } as const

  it("binds the answer to a schema, closed and without what the API refuses", () => {
    assert.deepStrictEqual(fields({ responseFormat })["output_config"], {
      format: {
        type: "json_schema",
        schema: {
          type: "object",
          properties: {
            name: { type: "string", format: "email", description: '{"minLength":2}' },
            tags: {
              type: "array",
              items: { anyOf: [{ type: "string" }, { type: "object", properties: {}, additionalProperties: false }] }
            }
          },
          required: ["name"],
          additionalProperties: false
        }
      }
    })
  })

  it("asks for it in words where a closed schema would lose names, or refers to itself", () => {
    const open = { type: "object", additionalProperties: { type: "integer" } }
    const nested = { type: "object", properties: { all: open } }
    const $defs = {
      tree: { type: "object", properties: { below: { type: "array", items: { $ref: "#/$defs/tree" } } } }
    }
    const recursive = { type: "object", properties: { root: { $ref: "#/$defs/tree" } }, $defs }
    for (const schema of [open, nested, recursive]) {
      const request = fields({ responseFormat: { type: "json", name: "answer", schema } })
      assert.isFalse("output_config" in request)
      assert.include(String(request["system"]), JSON.stringify(schema))
    }
    const twice = { type: "object", properties: { a: { $ref: "#/$defs/leaf" }, b: { $ref: "#/$defs/leaf" } } }
    const leaf = { leaf: { type: "object", properties: { n: { type: "integer" } } } }
    assert.isTrue(
      "output_config" in fields({ responseFormat: { type: "json", name: "answer", schema: { ...twice, $defs: leaf } } })
    )
  })

  it("asks for it in words where there is no such field", () => {
    for (const route of [gateway, { ...native, model: "claude-3-7-sonnet" }]) {
      const request = fields({ responseFormat }, route)
      assert.isFalse("output_config" in request)
      assert.include(String(request["system"]), JSON.stringify(schema))
    }
  })
})

describe("a subscription token", () => {
  it("puts the identity first, replaces product names and prefixes tools", () => {
    const request = Request.prepare(
      call(
        [
          system("You are Hermes Agent by Nous Research.", marker),
          user("hi"),
          assistant(toolCall("a")),
          result("a", 1)
        ],
        { tools: [terminal, { ...terminal, name: "mcp_x" }], toolChoice: { tool: "terminal" } }
      ),
      subscribed
    )
    assert.deepStrictEqual(request["system"], [
      { type: "text", text: "You are Claude Code, Anthropic's official CLI for Claude." },
      { type: "text", text: "You are Claude Code by Anthropic.", ...cached }
    ])
    assert.deepStrictEqual(
      (request["tools"] as Array<{ name: string }>).map((tool) => tool.name),
      ["mcp_terminal", "mcp_mcp_x"]
    )
    assert.deepStrictEqual(request["tool_choice"], { type: "tool", name: "mcp_terminal" })
    assert.include(JSON.stringify(request["messages"]), '"name":"mcp_terminal"')
  })
})
