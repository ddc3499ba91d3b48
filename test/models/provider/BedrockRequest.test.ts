// The Converse request that a call becomes, without any network.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Redacted from "effect/Redacted"
import * as History from "../../../src/base/domain/History.ts"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import { abilities, type Route } from "../../../src/base/domain/Route.ts"
import * as Endpoint from "../../../src/models/provider/bedrock/Endpoint.ts"
import * as Request from "../../../src/models/provider/bedrock/Request.ts"

const route: Route = {
  provider: "bedrock",
  model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
  apiMode: "bedrock_converse"
}
const nova: Route = { ...route, model: "amazon.nova-pro-v1:0" }

const terminal = {
  name: "terminal",
  description: "Runs a command.",
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] }
}

const call = (messages: ReadonlyArray<Prompt.Message>, more: Partial<ModelCall> = {}): ModelCall => ({
  messages,
  tools: [terminal],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false,
  ...more
})

const system = (content: string) => Prompt.systemMessage({ content })
const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
const assistant = (...content: Array<Prompt.AssistantMessagePart>) => Prompt.assistantMessage({ content })
const text = (text: string) => Prompt.textPart({ text })
const thought = (text: string, data: Record<string, string> = {}) =>
  Prompt.reasoningPart({ text, options: { bedrock_converse: data } })
const toolCall = (id: string, params: unknown = {}) =>
  Prompt.toolCallPart({ id, name: "terminal", params, providerExecuted: false })
const result = (id: string, output: unknown, isFailure = false) =>
  Prompt.toolMessage({
    content: [Prompt.toolResultPart({ id, name: "terminal", isFailure, result: output, providerExecuted: false })]
  })

it("a whole request is the input of the SDK's command, and whether to stream", () => {
  assert.deepStrictEqual(
    Request.prepare(call([system("Be brief."), user("hi")], { temperature: 0.2, stream: true }), {
      ...nova,
      extraBody: { guardrailConfig: { guardrailIdentifier: "g", guardrailVersion: "1" } }
    }),
    {
      modelId: "amazon.nova-pro-v1:0",
      messages: [{ role: "user", content: [{ text: "hi" }] }],
      system: [{ text: "Be brief." }],
      inferenceConfig: { maxTokens: 4_096, temperature: 0.2 },
      toolConfig: {
        tools: [
          { toolSpec: { name: "terminal", description: "Runs a command.", inputSchema: { json: terminal.parameters } } }
        ],
        toolChoice: { auto: {} }
      },
      stream: true,
      extra_body: { guardrailConfig: { guardrailIdentifier: "g", guardrailVersion: "1" } }
    }
  )
})

describe("messages", () => {
  const messages = (prompt: ReadonlyArray<Prompt.Message>, more: Partial<ModelCall> = {}) =>
    Request.prepare(call(History.toSendableMessages(prompt, abilities(route)), more), route)["messages"]

  it("answers calls in one user message, results first", () => {
    assert.deepStrictEqual(
      messages([
        user("list"),
        assistant(text("Looking."), toolCall("a", { command: "ls" }), toolCall("fc|b/1", '{"command":"pwd"}')),
        result("a", "x.ts"),
        result("fc|b/1", { error: "no" }, true),
        user("quick!")
      ]),
      [
        { role: "user", content: [{ text: "list" }] },
        {
          role: "assistant",
          content: [
            { text: "Looking." },
            { toolUse: { toolUseId: "a", name: "terminal", input: { command: "ls" } } },
            { toolUse: { toolUseId: "fc_b_1", name: "terminal", input: { command: "pwd" } } }
          ]
        },
        {
          role: "user",
          content: [
            { toolResult: { toolUseId: "a", content: [{ text: "x.ts" }] } },
            { toolResult: { toolUseId: "fc_b_1", content: [{ text: '{"error":"no"}' }], status: "error" } },
            { text: "quick!" }
          ]
        }
      ]
    )
  })

  it("begins and ends with the user, and says a space where there is nothing to say", () => {
    assert.deepStrictEqual(messages([assistant(text("a")), user(""), assistant(text(" "))]), [
      { role: "user", content: [{ text: "(the beginning of the conversation is left out)" }] },
      { role: "assistant", content: [{ text: "a" }] },
      { role: "user", content: [{ text: " " }] }
    ])
    assert.deepStrictEqual(messages([user(" ")]), [{ role: "user", content: [{ text: " " }] }])
    assert.deepStrictEqual(messages([]), [{ role: "user", content: [{ text: " " }] }])
  })

  it("tells calls and results in words where the request names no tools", () => {
    const prompt = [
      user("go"),
      assistant(toolCall("a", { x: 1 })),
      result("a", "ok"),
      assistant(text("done")),
      user("?")
    ]
    const inWords = [
      { role: "user", content: [{ text: "go" }] },
      { role: "assistant", content: [{ text: '[called terminal with {"x":1}]' }] },
      { role: "user", content: [{ text: "[result of terminal:]" }, { text: "ok" }] },
      { role: "assistant", content: [{ text: "done" }] },
      { role: "user", content: [{ text: "?" }] }
    ]
    assert.deepStrictEqual(messages(prompt, { tools: [] }), inWords)
    assert.deepStrictEqual(messages(prompt, { toolChoice: "none" }), inWords)
  })

  it("sends pictures and documents in place, and names what it can not send", () => {
    const file = (mediaType: string, data: string | Uint8Array | URL, fileName?: string) =>
      Prompt.filePart({ mediaType, data, ...(fileName === undefined ? {} : { fileName }) })
    const bytes = new Uint8Array([65, 66, 67])
    const content = [
      file("image/png", bytes),
      file("image/jpeg", "data:image/jpeg;base64,QUJD"),
      file("image/webp", new URL("https://x.example/a.webp")),
      file("application/pdf", "QUJD", "my_report: v2.pdf"),
      file("application/zip", "QUJD", "a.zip")
    ]
    assert.deepStrictEqual(messages([Prompt.userMessage({ content })]), [
      {
        role: "user",
        content: [
          { image: { format: "png", source: { bytes } } },
          { image: { format: "jpeg", source: { bytes } } },
          { text: "[image/webp omitted]" },
          { document: { format: "pdf", name: "my-report v2", source: { bytes } } },
          { text: "[application/zip a.zip omitted]" }
        ]
      }
    ])
  })

  it("gives back signed and redacted thinking of the newest assistant message only", () => {
    const prompt = [
      user("1"),
      assistant(thought("t1", { signature: "s1" }), text("a1")),
      user("2"),
      assistant(thought("t2", { signature: "s2" }), thought("", { redacted: "QUJD" }), thought("loose"), toolCall("a")),
      result("a", "ok")
    ]
    assert.deepStrictEqual(messages(History.toSendableMessages(prompt, abilities(route))), [
      { role: "user", content: [{ text: "1" }] },
      { role: "assistant", content: [{ text: "a1" }] },
      { role: "user", content: [{ text: "2" }] },
      {
        role: "assistant",
        content: [
          { reasoningContent: { reasoningText: { text: "t2", signature: "s2" } } },
          { reasoningContent: { redactedContent: new Uint8Array([65, 66, 67]) } },
          { toolUse: { toolUseId: "a", name: "terminal", input: {} } }
        ]
      },
      { role: "user", content: [{ toolResult: { toolUseId: "a", content: [{ text: "ok" }] } }] }
    ])
  })

  it("cuts ids that are too long on both sides alike", () => {
    const long = `call_${"x".repeat(80)}|fc_${"y".repeat(20)}`
    const sent = JSON.stringify(messages([assistant(toolCall(long)), result(long, "ok")]))
    const ids = [...sent.matchAll(/"toolUseId":"([^"]*)"/g)].map((match) => match[1])
    assert.strictEqual(ids.length, 2)
    assert.strictEqual(ids[0], ids[1])
    assert.strictEqual(ids[0]?.length, 64)
  })
})

describe("tools, thinking and the form of the answer", () => {
  const fields = (more: Partial<ModelCall>, at: Route = route) => Request.prepare(call([user("hi")], more), at)

  it("knows every tool choice; none, no tools and models without tools send none", () => {
    const choice = (more: Partial<ModelCall>) => fields(more)["toolConfig"]
    assert.deepInclude(choice({ toolChoice: "required" }), { toolChoice: { any: {} } })
    assert.deepInclude(choice({ toolChoice: { tool: "terminal" } }), { toolChoice: { tool: { name: "terminal" } } })
    assert.isUndefined(choice({ toolChoice: "none" }))
    assert.isUndefined(choice({ tools: [] }))
    assert.isUndefined(fields({}, { ...route, model: "us.deepseek.r1-v1:0" })["toolConfig"])
  })

  it("asks Claude to think in Claude's words, and nobody else", () => {
    const thinking = (model: string, more: Partial<ModelCall> = {}) => {
      const request = fields({ reasoningEffort: "high", temperature: 0.3, ...more }, { ...route, model })
      return [request["additionalModelRequestFields"], request["inferenceConfig"]]
    }
    assert.deepStrictEqual(thinking(route.model), [
      { thinking: { type: "enabled", budget_tokens: 16_000 } },
      { maxTokens: 20_096, temperature: 1 }
    ])
    assert.deepStrictEqual(thinking("us.anthropic.claude-opus-4-6-v1"), [
      { thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "high" } },
      { maxTokens: 4_096 }
    ])
    assert.deepStrictEqual(thinking(nova.model), [undefined, { maxTokens: 4_096, temperature: 0.3 }])
    assert.deepStrictEqual(thinking(route.model, { toolChoice: "required" }), [
      undefined,
      { maxTokens: 4_096, temperature: 0.3 }
    ])
  })

  it("asks for what the call allows, and less than the window", () => {
    assert.deepStrictEqual(fields({ maxOutputTokens: 9_000 })["inferenceConfig"], { maxTokens: 9_000 })
    assert.deepStrictEqual(fields({ contextWindow: 2_000 })["inferenceConfig"], { maxTokens: 1_999 })
  })

  const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] }
  const responseFormat = { type: "json", name: "person", schema } as const

  it("binds Claude's answer to a schema, and asks everybody else in words", () => {
    assert.deepStrictEqual(fields({ responseFormat })["outputConfig"], {
      textFormat: {
        type: "json_schema",
        structure: {
          jsonSchema: { name: "person", schema: JSON.stringify({ ...schema, additionalProperties: false }) }
        }
      }
    })
    const request = fields({ responseFormat }, nova)
    assert.notProperty(request, "outputConfig")
    assert.include(JSON.stringify(request["system"]), "JSON Schema")
  })

  it("converts one array of tools and one message once", () => {
    const prepare = Request.make(route)
    const message = user("hi")
    const tools = [terminal]
    const one = prepare(call([message], { tools }))
    const two = prepare(call([message], { tools }))
    // The request is the one that this provider wrote.
    const parts = (request: typeof one) => [
      (request["toolConfig"] as { tools: unknown }).tools,
      (request["messages"] as ReadonlyArray<{ content: ReadonlyArray<unknown> }>)[0]?.content[0]
    ]
    assert.strictEqual(parts(one)[0], parts(two)[0])
    assert.strictEqual(parts(one)[1], parts(two)[1])
  })
})

it("fields that Converse does not know are the model's, where they win; stream is nobody's", () => {
  assert.deepStrictEqual(
    Request.toCommandInput({
      modelId: "m",
      stream: true,
      top_k: 5,
      thinking: { type: "disabled" },
      additionalModelRequestFields: { thinking: { type: "adaptive" }, beta: 1 }
    }),
    { modelId: "m", additionalModelRequestFields: { top_k: 5, thinking: { type: "disabled" }, beta: 1 } }
  )
  assert.deepStrictEqual(Request.toCommandInput({ modelId: "m", stream: false }), { modelId: "m" })
})

describe("endpoints", () => {
  const at = (more: Partial<Route>) => Endpoint.fromRoute({ ...route, ...more })

  it("take the region from the route, the address or us-east-1", () => {
    assert.strictEqual(at({}).region, "us-east-1")
    assert.strictEqual(at({ baseUrl: "https://bedrock-runtime.eu-west-1.amazonaws.com" }).region, "eu-west-1")
    assert.strictEqual(at({ baseUrl: "https://bedrock-runtime.evil.example" }).region, "us-east-1")
    assert.strictEqual(
      at({ region: "ap-south-1", baseUrl: "https://bedrock-runtime.eu-west-1.amazonaws.com" }).region,
      "ap-south-1"
    )
  })

  it("send a key as a bearer token; without one only AWS gets a token of the environment", () => {
    assert.deepInclude(at({ apiKey: Redacted.make("abc") }), { token: "abc", scheme: "httpBearerAuth" })
    assert.deepInclude(at({ apiKey: Redacted.make("aws-sdk") }), { token: undefined, scheme: undefined })
    assert.deepInclude(at({ baseUrl: "https://bedrock-runtime.eu-west-1.amazonaws.com" }), { scheme: undefined })
    assert.deepInclude(at({ baseUrl: "http://127.0.0.1:1" }), { token: undefined, scheme: "sigv4" })
  })

  it("send a bearer token of the environment to AWS, and to nobody else", () => {
    const variables = { AWS_BEARER_TOKEN_BEDROCK: "bearer" }
    assert.deepInclude(Endpoint.fromRoute(route, variables), { token: "bearer", scheme: "httpBearerAuth" })
    assert.deepInclude(Endpoint.fromRoute({ ...route, apiKey: Redacted.make("abc") }, variables), { token: "abc" })
    assert.deepInclude(Endpoint.fromRoute({ ...route, baseUrl: "http://127.0.0.1:1" }, variables), {
      token: undefined,
      scheme: "sigv4"
    })
  })

  it("sign with the credentials of the environment, unless it names a profile", () => {
    const variables = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "key" }
    assert.deepStrictEqual(Endpoint.readCredentials(variables), { accessKeyId: "id", secretAccessKey: "key" })
    assert.deepStrictEqual(
      Endpoint.readCredentials({
        ...variables,
        AWS_SESSION_TOKEN: "token",
        AWS_CREDENTIAL_EXPIRATION: "2030-01-01T00:00:00Z",
        AWS_ACCOUNT_ID: "1"
      }),
      {
        accessKeyId: "id",
        secretAccessKey: "key",
        sessionToken: "token",
        expiration: new Date("2030-01-01T00:00:00Z"),
        accountId: "1"
      }
    )
    assert.isUndefined(Endpoint.readCredentials({ ...variables, AWS_PROFILE: "work" }))
    assert.isUndefined(Endpoint.readCredentials({ AWS_ACCESS_KEY_ID: "id" }))
  })
})
