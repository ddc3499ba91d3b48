// What requests look like before anything is sent.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall, ReasoningEffort } from "../../../src/base/domain/ModelCall.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as Request from "../../../src/models/provider/chat/Request.ts"
import { call, terminal, user } from "./Ask.ts"

const route = (more: Partial<Route> = {}): Route => ({
  provider: "custom",
  model: "test-model",
  apiMode: "chat_completions",
  baseUrl: "http://127.0.0.1:1/v1",
  ...more
})

const at = {
  openai: { provider: "openai", baseUrl: "https://api.openai.com/v1" },
  azure: { provider: "custom", baseUrl: "https://mine.openai.azure.com/openai/v1" },
  openrouter: { provider: "openrouter", baseUrl: "https://openrouter.ai/api/v1" },
  nous: { provider: "nous", baseUrl: "https://inference-api.nousresearch.com/v1" },
  deepseek: { provider: "deepseek", baseUrl: "https://api.deepseek.com/v1" },
  gemini: { provider: "gemini", baseUrl: "https://generativelanguage.googleapis.com/v1beta/openai" },
  copilot: { provider: "copilot", baseUrl: "https://api.githubcopilot.com" },
  mistral: { provider: "mistral", baseUrl: "https://api.mistral.ai/v1" }
}

const prepare = (more: Partial<ModelCall> = {}, on: Partial<Route> = {}) => Request.prepare(call("hi", more), route(on))

const messagesOf = (messages: ReadonlyArray<Prompt.Message>, on: Partial<Route> = {}) =>
  // `messages` of a request is a list of objects.
  prepare({ messages }, on)["messages"] as ReadonlyArray<Record<string, unknown>>

const toolCall = (id: string, params: unknown, options: Prompt.ToolCallPartOptions = {}) =>
  Prompt.toolCallPart({ id, name: "terminal", params, providerExecuted: false, options })

const toolResult = (id: string, result: unknown, modelOutput?: ReadonlyArray<Prompt.ToolModelOutputPart>) =>
  Prompt.toolMessage({
    content: [
      Prompt.toolResultPart({
        id,
        name: "terminal",
        isFailure: false,
        result,
        providerExecuted: false,
        ...(modelOutput === undefined ? {} : { modelOutput })
      })
    ]
  })

describe("the request", () => {
  it("a plain question has a model and messages, and nothing that nobody asked for", () => {
    assert.deepStrictEqual(prepare(), { model: "test-model", messages: [{ role: "user", content: "hi" }] })
  })

  it("everything that can be asked for", () => {
    const schema = {
      type: "object",
      properties: { a: { type: "string" } },
      required: ["a"],
      additionalProperties: false
    }
    assert.deepStrictEqual(
      prepare(
        {
          messages: [Prompt.systemMessage({ content: "Be brief." }), user("hi")],
          tools: [terminal],
          toolChoice: { tool: "terminal" },
          responseFormat: { type: "json", name: "answer", schema },
          stream: true,
          maxOutputTokens: 100,
          temperature: 0.5
        },
        { extraBody: { top_k: 1 } }
      ),
      {
        model: "test-model",
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "hi" }
        ],
        tools: [{ type: "function", function: terminal }],
        tool_choice: { type: "function", function: { name: "terminal" } },
        response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
        max_tokens: 100,
        temperature: 0.5,
        stream: true,
        stream_options: { include_usage: true },
        extra_body: { top_k: 1 }
      }
    )
  })

  it("tool choice: auto is what an API does anyway; without tools there is nothing to choose", () => {
    const choice = (toolChoice: ModelCall["toolChoice"]) => prepare({ tools: [terminal], toolChoice })["tool_choice"]
    assert.deepStrictEqual([choice("auto"), choice("none"), choice("required")], [undefined, "none", "required"])
    assert.notProperty(prepare({ toolChoice: "required" }), "tool_choice")
  })

  it("the wire form of the same tools is the same object", () => {
    const tools = [terminal]
    assert.strictEqual(prepare({ tools })["tools"], prepare({ tools })["tools"])
  })

  it("a schema that leaves properties optional is not strict, and DeepSeek gets it in words", () => {
    const schema = { type: "object", properties: { a: { type: "string" } } }
    const responseFormat = { type: "json", name: "answer", schema } as const
    assert.deepNestedInclude(prepare({ responseFormat }), { "response_format.json_schema.strict": false })
    const deepseek = prepare({ responseFormat }, at.deepseek)
    assert.deepStrictEqual(deepseek["response_format"], { type: "json_object" })
    assert.include(JSON.stringify(deepseek["messages"]), "fits this JSON Schema")
  })

  it("the output limit has the name that the endpoint knows", () => {
    const names = (on: Partial<Route>) =>
      Object.keys(prepare({ maxOutputTokens: 9 }, on)).filter((key) => key.startsWith("max"))
    assert.deepStrictEqual(names({ baseUrl: undefined, provider: "openai" }), ["max_completion_tokens"])
    for (const on of [at.openai, at.azure, at.copilot]) assert.deepStrictEqual(names(on), ["max_completion_tokens"])
    for (const on of [at.openrouter, at.deepseek, {}]) assert.deepStrictEqual(names(on), ["max_tokens"])
  })

  it("Claude at an aggregator gets its own output limit, elsewhere none", () => {
    assert.propertyVal(prepare({}, { ...at.openrouter, model: "anthropic/claude-opus-4.5" }), "max_tokens", 64_000)
    assert.notProperty(prepare({}, { model: "claude-opus-4.5" }), "max_tokens")
    assert.notProperty(prepare({}, { ...at.openrouter, model: "openai/gpt-4o" }), "max_tokens")
  })

  it("models with one temperature get none, and GPT-5 is told by its developer", () => {
    const messages = [Prompt.systemMessage({ content: "s" })]
    const gpt5 = prepare({ messages, temperature: 0.1 }, { ...at.openai, model: "gpt-5.1" })
    assert.notProperty(gpt5, "temperature")
    assert.deepStrictEqual(gpt5["messages"], [{ role: "developer", content: "s" }])
    assert.propertyVal(prepare({ temperature: 0.1 }, { ...at.openai, model: "gpt-4o" }), "temperature", 0.1)
  })

  it("the prompt cache of OpenAI is keyed by the session, Mistral is asked for no usage", () => {
    assert.propertyVal(prepare({ conversationId: "s1" }, at.openai), "prompt_cache_key", "s1")
    assert.notProperty(prepare({ conversationId: "s1" }, at.openrouter), "prompt_cache_key")
    assert.propertyVal(prepare({ conversationId: "s".repeat(64) }, at.openai), "prompt_cache_key", "s".repeat(64))
    assert.match(String(prepare({ conversationId: "s".repeat(65) }, at.openai)["prompt_cache_key"]), /^.{64}$/u)
    assert.notProperty(prepare({ stream: true }, at.mistral), "stream_options")
  })
})

describe("reasoning is asked for in the endpoint's words", () => {
  const asked = (effort: ReasoningEffort | undefined, on: Partial<Route>) => {
    const { model: _, messages: __, ...rest } = prepare({ reasoningEffort: effort }, on)
    return rest
  }

  const cases: ReadonlyArray<readonly [string, ReasoningEffort | undefined, Partial<Route>, unknown]> = [
    [
      "OpenRouter, default",
      undefined,
      { ...at.openrouter, model: "openai/gpt-4.1" },
      { extra_body: { reasoning: { enabled: true, effort: "medium" } } }
    ],
    [
      "OpenRouter, high",
      "high",
      { ...at.openrouter, model: "deepseek/deepseek-r1" },
      { extra_body: { reasoning: { enabled: true, effort: "high" } } }
    ],
    [
      "OpenRouter, none",
      "none",
      { ...at.openrouter, model: "x-ai/grok-4" },
      { extra_body: { reasoning: { enabled: false } } }
    ],
    ["OpenRouter, unknown family", "high", { ...at.openrouter, model: "mistralai/mistral-large" }, {}],
    [
      "Nous, any model",
      undefined,
      { ...at.nous, model: "Hermes-4" },
      { extra_body: { reasoning: { enabled: true, effort: "medium" } } }
    ],
    ["Nous, none", "none", { ...at.nous, model: "Hermes-4" }, {}],
    [
      "Copilot, xhigh",
      "xhigh",
      { ...at.copilot, model: "gpt-5-mini" },
      { extra_body: { reasoning: { effort: "high" } } }
    ],
    [
      "Copilot, minimal",
      "minimal",
      { ...at.copilot, model: "gpt-5-mini" },
      { extra_body: { reasoning: { effort: "low" } } }
    ],
    ["OpenAI, default", undefined, { ...at.openai, model: "gpt-5" }, {}],
    ["OpenAI, minimal", "minimal", { ...at.openai, model: "gpt-5" }, { reasoning_effort: "minimal" }],
    ["OpenAI, xhigh on an older model", "xhigh", { ...at.openai, model: "gpt-5.1" }, { reasoning_effort: "high" }],
    ["OpenAI, a model that does not reason", "high", { ...at.openai, model: "gpt-4o" }, {}],
    ["Azure, o3", "high", { ...at.azure, model: "o3" }, { reasoning_effort: "high" }],
    ["Ollama, none", "none", { provider: "ollama" }, { extra_body: { think: false } }],
    ["custom, none", "none", {}, { extra_body: { think: false } }],
    ["custom, high", "high", {}, {}],
    ["DeepSeek, none", "none", at.deepseek, { extra_body: { thinking: { type: "disabled" } } }]
  ]
  for (const [name, effort, on, expected] of cases) {
    it(`${name}`, () => assert.deepStrictEqual(asked(effort, on), expected))
  }

  it("Gemini shows its thoughts and has levels of its own", () => {
    const config = (effort: ReasoningEffort | undefined, model: string) => {
      const extra = JSON.stringify(asked(effort, { ...at.gemini, model }))
      const found = /"thinking_config":(\{[^}]*\})/.exec(extra)?.[1]
      return found === undefined ? undefined : JSON.parse(found)
    }
    assert.deepStrictEqual(config(undefined, "gemini-2.5-pro"), { include_thoughts: true })
    assert.deepStrictEqual(config("none", "gemini-3-pro"), { include_thoughts: false })
    assert.deepStrictEqual(config("medium", "gemini-3-pro"), { include_thoughts: true, thinking_level: "high" })
    assert.deepStrictEqual(config("medium", "gemini-3-flash"), { include_thoughts: true, thinking_level: "medium" })
    assert.deepStrictEqual(config("minimal", "gemini-3-pro"), { include_thoughts: true, thinking_level: "low" })
    assert.isUndefined(config("high", "gemma-3"))
  })

  it("fields of the route win over ours", () => {
    const on = { ...at.openrouter, model: "openai/gpt-4.1", extraBody: { reasoning: { max_tokens: 9 }, a: 1 } }
    assert.deepStrictEqual(asked("high", on), { extra_body: { reasoning: { max_tokens: 9 }, a: 1 } })
  })
})

describe("messages", () => {
  it("are converted once", () => {
    const on = route()
    const question = call("hi", { messages: [user("a"), toolResult("x", "y")] })
    const first = Request.prepare(question, on)["messages"] as ReadonlyArray<unknown>
    const second = Request.prepare(question, on)["messages"] as ReadonlyArray<unknown>
    assert.strictEqual(first[0], second[0])
    assert.strictEqual(first[1], second[1])
  })

  it("the caller's array may grow afterwards", () => {
    const messages = [user("a")]
    const request = prepare({ messages })
    messages.push(user("b"))
    assert.deepStrictEqual(request["messages"], [{ role: "user", content: "a" }])
  })

  it("images of every form become addresses, other files what fits", () => {
    const file = (mediaType: string, data: Prompt.FilePart["data"], fileName?: string) =>
      Prompt.filePart({ mediaType, data, ...(fileName === undefined ? {} : { fileName }) })
    assert.deepStrictEqual(
      messagesOf([
        Prompt.userMessage({
          content: [
            Prompt.textPart({ text: "look" }),
            file("image/png", new Uint8Array([1, 2, 3])),
            file("image/png", "AQID"),
            file("image/*", "data:image/webp;base64,AQID"),
            file("image/jpeg", new URL("https://x.example/a.jpg")),
            file("audio/wav", "AQID"),
            file("text/plain", "aMOp"),
            file("application/pdf", "AQID", "a.pdf")
          ]
        })
      ]),
      [
        {
          role: "user",
          content: [
            { type: "text", text: "look" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
            { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
            { type: "image_url", image_url: { url: "data:image/webp;base64,AQID" } },
            { type: "image_url", image_url: { url: "https://x.example/a.jpg" } },
            { type: "input_audio", input_audio: { data: "AQID", format: "wav" } },
            { type: "text", text: "hé" },
            { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AQID" } }
          ]
        }
      ]
    )
  })

  it("several texts are one, lone surrogates are replaced, an empty user message is none", () => {
    assert.deepStrictEqual(
      messagesOf([
        Prompt.userMessage({ content: [Prompt.textPart({ text: "a\ud83d" }), Prompt.textPart({ text: "😀" })] }),
        Prompt.userMessage({ content: [] })
      ]),
      [{ role: "user", content: "a\ufffd\n\n😀" }]
    )
  })

  it("a mark for the prompt cache stands on the last part", () => {
    const options = { chat_completions: { cache_control: { type: "ephemeral" } } }
    assert.deepStrictEqual(messagesOf([Prompt.systemMessage({ content: "s", options })]), [
      { role: "system", content: [{ type: "text", text: "s", cache_control: { type: "ephemeral" } }] }
    ])
  })

  it("arguments are canonical text; what was no JSON goes back empty", () => {
    assert.deepStrictEqual(
      messagesOf([
        Prompt.assistantMessage({
          content: [toolCall("a", { z: 1, b: { y: [1, { d: 1, c: 2 }] } }), toolCall("b", '{"cut'), toolCall("c", {})]
        })
      ]),
      [
        {
          role: "assistant",
          content: null,
          tool_calls: [
            {
              id: "a",
              type: "function",
              function: { name: "terminal", arguments: '{"b":{"y":[1,{"c":2,"d":1}]},"z":1}' }
            },
            { id: "b", type: "function", function: { name: "terminal", arguments: "{}" } },
            { id: "c", type: "function", function: { name: "terminal", arguments: "{}" } }
          ]
        }
      ]
    )
  })

  it("images among tool results follow the last result of the batch", () => {
    const image = Prompt.filePart({ mediaType: "image/png", data: "AQID" })
    assert.deepStrictEqual(
      messagesOf([
        Prompt.assistantMessage({ content: [toolCall("a", {}), toolCall("b", {})] }),
        toolResult("a", {}, [Prompt.textPart({ text: "a picture" }), image]),
        toolResult("b", { ok: true }),
        user("next")
      ]).slice(1),
      [
        { role: "tool", tool_call_id: "a", content: "a picture" },
        { role: "tool", tool_call_id: "b", content: '{"ok":true}' },
        {
          role: "user",
          content: [
            { type: "text", text: "Files from the result of terminal:" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } }
          ]
        },
        { role: "user", content: "next" }
      ]
    )
    assert.deepStrictEqual(messagesOf([toolResult("a", {}, [image])]).length, 2)
  })

  it("an assistant message of reasoning alone is left out", () => {
    assert.deepStrictEqual(
      messagesOf([Prompt.assistantMessage({ content: [Prompt.reasoningPart({ text: "hm" })] })]),
      []
    )
  })
})

describe("reasoning goes back", () => {
  const details = [{ type: "reasoning.encrypted", data: "x" }]
  const thought = (text: string, own?: Record<string, Prompt.ProviderOptions[string]>) =>
    Prompt.reasoningPart({ text, ...(own === undefined ? {} : { options: { chat_completions: own } }) })
  const sent = (parts: ReadonlyArray<Prompt.AssistantMessagePart>, on: Partial<Route> = {}) => {
    const [message] = messagesOf([Prompt.assistantMessage({ content: parts })], on)
    const { role: _, content: __, tool_calls: ___, ...rest } = message ?? {}
    return rest
  }
  const answer = Prompt.textPart({ text: "answer" })

  it("as it came, to endpoints that name it so", () => {
    assert.deepStrictEqual(sent([thought("hm", { reasoning_content: true }), answer]), { reasoning_content: "hm" })
    assert.deepStrictEqual(sent([thought("shown", { reasoning_content: "own" }), answer]), { reasoning_content: "own" })
  })

  it("details unchanged to OpenRouter, in place of the text", () => {
    const parts = [thought("hm", { reasoning_content: true, reasoning_details: details }), answer]
    assert.deepStrictEqual(sent(parts, at.openrouter), { reasoning_details: details })
    assert.deepStrictEqual(sent([thought("hm"), answer], at.openrouter), { reasoning_content: "hm" })
  })

  it("never to endpoints that refuse fields which they do not know", () => {
    const parts = [thought("hm", { reasoning_content: true, reasoning_details: details }), answer]
    for (const on of [at.openai, at.azure, at.mistral, at.gemini, at.copilot])
      assert.deepStrictEqual(sent(parts, on), {})
  })

  it("DeepSeek requires it on every assistant message", () => {
    assert.deepStrictEqual(sent([answer], at.deepseek), { reasoning_content: " " })
    assert.deepStrictEqual(sent([thought("other's"), answer], at.deepseek), { reasoning_content: "other's" })
    assert.deepStrictEqual(sent([answer], { ...at.openrouter, model: "deepseek/deepseek-v3.2" }), {
      reasoning_content: " "
    })
  })
})
