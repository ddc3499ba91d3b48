// What requests of the Responses API look like before anything is sent.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall, ReasoningEffort } from "../../../src/base/domain/ModelCall.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as Request from "../../../src/models/provider/responses/Request.ts"
import { call, terminal, user } from "./Ask.ts"

const route = (more: Partial<Route> = {}): Route => ({
  provider: "openai",
  model: "gpt-5.1",
  apiMode: "codex_responses",
  baseUrl: "https://api.openai.com/v1",
  ...more
})

const at = {
  chatgpt: { provider: "openai-codex", baseUrl: "https://chatgpt.com/backend-api/codex" },
  xai: { provider: "xai", baseUrl: "https://api.x.ai/v1", model: "grok-4.3" },
  github: { provider: "copilot", baseUrl: "https://api.githubcopilot.com" },
  custom: { provider: "custom", baseUrl: "http://127.0.0.1:1/v1", model: "local" }
}

const prepare = (more: Partial<ModelCall> = {}, on: Partial<Route> = {}) => Request.prepare(call("hi", more), route(on))

const inputOf = (messages: ReadonlyArray<Prompt.Message>) =>
  // `input` of a request is a list of objects.
  prepare({ messages })["input"] as ReadonlyArray<Record<string, unknown>>

const own = (codex_responses: Record<string, string | ReadonlyArray<string>>) => ({ codex_responses })

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
  it("everything that can be asked for", () => {
    const schema = { type: "object", properties: {}, additionalProperties: false }
    assert.deepStrictEqual(
      prepare(
        {
          messages: [
            Prompt.systemMessage({ content: "Be brief." }),
            Prompt.systemMessage({ content: "Be kind." }),
            user("hi")
          ],
          tools: [terminal],
          responseFormat: { type: "json", name: "answer", schema },
          stream: true,
          maxOutputTokens: 100,
          temperature: 0.5,
          conversationId: "s1"
        },
        { extraBody: { a: 1 } }
      ),
      {
        model: "gpt-5.1",
        instructions: "Be brief.\n\nBe kind.",
        input: [{ role: "user", content: "hi" }],
        tools: [
          {
            type: "function",
            name: "terminal",
            description: "Runs a command",
            strict: false,
            parameters: terminal.parameters
          }
        ],
        tool_choice: "auto",
        parallel_tool_calls: true,
        store: false,
        reasoning: { effort: "medium", summary: "auto" },
        include: ["reasoning.encrypted_content"],
        prompt_cache_key: "s1",
        text: { format: { type: "json_schema", name: "answer", schema, strict: true } },
        max_output_tokens: 100,
        stream: true,
        extra_body: { a: 1 }
      }
    )
  })

  it("tool choice in all its forms", () => {
    const choice = (toolChoice: ModelCall["toolChoice"]) => prepare({ tools: [terminal], toolChoice })["tool_choice"]
    assert.deepStrictEqual(
      [choice("none"), choice("required"), choice({ tool: "terminal" })],
      ["none", "required", { type: "function", name: "terminal" }]
    )
    assert.notProperty(prepare(), "tool_choice")
  })

  it("ChatGPT's backend streams, has instructions, and no limits", () => {
    const request = prepare({ maxOutputTokens: 9, temperature: 1 }, at.chatgpt)
    assert.propertyVal(request, "stream", true)
    assert.isString(request["instructions"])
    assert.notProperty(request, "max_output_tokens")
    assert.notProperty(request, "temperature")
  })

  it("a session id that is too long for a cache key is hashed, and GitHub gets none", () => {
    const conversationId = "s".repeat(65)
    const key = prepare({ conversationId })["prompt_cache_key"]
    assert.match(String(key), /^[0-9a-f]{64}$/)
    assert.strictEqual(prepare({ conversationId })["prompt_cache_key"], key)
    assert.strictEqual(prepare({ conversationId: "s".repeat(64) })["prompt_cache_key"], "s".repeat(64))
    assert.notProperty(prepare({ conversationId }, at.github), "prompt_cache_key")
    assert.deepStrictEqual(prepare({ conversationId: "s1" }, at.xai)["extra_headers"], { "x-grok-conv-id": "s1" })
  })
})

describe("reasoning", () => {
  const asked = (effort: ReasoningEffort | undefined, on: Partial<Route> = {}) => {
    const { include, reasoning } = prepare({ reasoningEffort: effort }, on)
    return [reasoning, Array.isArray(include) && include.length > 0]
  }
  const auto = (effort: string) => ({ effort, summary: "auto" })

  const cases: ReadonlyArray<readonly [name: string, ReasoningEffort | undefined, Partial<Route>, unknown, boolean]> = [
    ["default", undefined, {}, auto("medium"), true],
    ["none", "none", {}, undefined, false],
    ["minimal", "minimal", { model: "gpt-5" }, auto("low"), true],
    ["xhigh where there is none", "xhigh", {}, auto("high"), true],
    ["xhigh where there is", "xhigh", { model: "gpt-5.1-codex-max" }, auto("xhigh"), true],
    ["a model that does not reason", undefined, { model: "gpt-4o" }, undefined, false],
    ["ChatGPT", "high", at.chatgpt, auto("high"), true],
    ["xAI", "xhigh", at.xai, auto("high"), true],
    ["xAI, a model that refuses efforts", "high", { ...at.xai, model: "grok-4" }, undefined, true],
    ["GitHub", "xhigh", at.github, { effort: "high" }, false],
    ["a custom endpoint that nobody asked to reason", undefined, at.custom, undefined, false],
    ["a custom endpoint that was asked to", "low", at.custom, auto("low"), true]
  ]
  for (const [name, effort, on, reasoning, encrypted] of cases) {
    it(`${name}`, () => assert.deepStrictEqual(asked(effort, on), [reasoning, encrypted]))
  }
})

describe("input", () => {
  it("texts, calls and results", () => {
    assert.deepStrictEqual(
      inputOf([
        user("run"),
        Prompt.assistantMessage({
          content: [
            Prompt.textPart({ text: "Running." }),
            toolCall("call_1", { b: 1, a: 2 }, own({ id: "fc_1" })),
            toolCall("call_2|fc_2", "{oops")
          ]
        }),
        toolResult("call_1", { ok: true }),
        toolResult("call_2|fc_2", "no"),
        Prompt.systemMessage({ content: "later" })
      ]),
      [
        { role: "user", content: "run" },
        { role: "assistant", content: "Running." },
        { type: "function_call", id: "fc_1", call_id: "call_1", name: "terminal", arguments: '{"a":2,"b":1}' },
        { type: "function_call", id: "fc_2", call_id: "call_2", name: "terminal", arguments: "{}" },
        { type: "function_call_output", call_id: "call_1", output: '{"ok":true}' },
        { type: "function_call_output", call_id: "call_2", output: "no" },
        { role: "developer", content: "later" }
      ]
    )
  })

  it("a call of another protocol gets an item id, the same each time", () => {
    const ids = () =>
      inputOf([Prompt.assistantMessage({ content: [toolCall("toolu_1", {})] })]).map((item) => item["id"])
    assert.match(String(ids()[0]), /^fc_[0-9a-f]{32}$/)
    assert.deepStrictEqual(ids(), ids())
  })

  it("encrypted reasoning goes back once and without its id, message items exactly", () => {
    const thought = Prompt.reasoningPart({
      text: "a\n\nb",
      options: own({ id: "rs_1", encrypted_content: "e1", summary: ["a", "b"] })
    })
    const spoken = Prompt.textPart({
      text: "Hi",
      options: own({ id: "msg_1", phase: "final_answer", status: "completed" })
    })
    const reasoning = {
      type: "reasoning",
      summary: [
        { type: "summary_text", text: "a" },
        { type: "summary_text", text: "b" }
      ],
      encrypted_content: "e1"
    }
    const message = {
      type: "message",
      role: "assistant",
      id: "msg_1",
      status: "completed",
      phase: "final_answer",
      content: [{ type: "output_text", text: "Hi", annotations: [] }]
    }
    assert.deepStrictEqual(
      inputOf([
        Prompt.assistantMessage({ content: [thought, spoken] }),
        Prompt.assistantMessage({ content: [thought, spoken] })
      ]),
      [reasoning, message, message]
    )
  })

  it("reasoning of another protocol stays here; reasoning alone is followed by an item", () => {
    const foreign = Prompt.reasoningPart({ text: "hm", options: { anthropic_messages: { signature: "s" } } })
    assert.deepStrictEqual(inputOf([Prompt.assistantMessage({ content: [foreign, Prompt.textPart({ text: "a" })] })]), [
      { role: "assistant", content: "a" }
    ])
    const alone = Prompt.reasoningPart({ text: "", options: own({ encrypted_content: "e" }) })
    assert.deepStrictEqual(inputOf([Prompt.assistantMessage({ content: [alone] })]), [
      { type: "reasoning", summary: [], encrypted_content: "e" },
      { role: "assistant", content: "" }
    ])
  })

  it("images in, by users and by tools", () => {
    const image = Prompt.filePart({ mediaType: "image/png", data: "AQID" })
    const part = { type: "input_image", detail: "auto", image_url: "data:image/png;base64,AQID" }
    assert.deepStrictEqual(
      inputOf([
        Prompt.userMessage({ content: [Prompt.textPart({ text: "look" }), image] }),
        toolResult("call_1", {}, [Prompt.textPart({ text: "shot" }), image])
      ]),
      [
        { role: "user", content: [{ type: "input_text", text: "look" }, part] },
        { type: "function_call_output", call_id: "call_1", output: [{ type: "input_text", text: "shot" }, part] }
      ]
    )
  })
})
