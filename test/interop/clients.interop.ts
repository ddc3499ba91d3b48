// Clients of others against `hermes serve`: the SDKs of OpenAI and Anthropic, LangChain, OpenAI's agents, the AI SDK 5,
// 6 and 7 with their providers, and the requests of Open WebUI.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { apiKey, serve } from "./served.ts"

// The packages are installed for this folder alone, so that their types are not known to the checks of the project.
// oxlint-disable-next-line typescript/no-explicit-any
type Package = any

const load = (name: string): Promise<Package> => import(name)

const report = { place: "Rome", celsius: 30 }

const plays = {
  "Say hello": [{ text: ["Hello", " there."] }],
  "does not fit the JSON Schema": [{ text: JSON.stringify(report) }],
  think: [{ thought: "Hm, ", text: ["Well ", "thought."] }],
  "one place": [{ text: "I ask.", calls: [["weather", { place: "Rome" }]] }, { text: "Warm." }],
  report: [{ calls: [["weather", { place: "Rome" }]] }, { text: '{ "place": "Rome" }' }],
  plain: [{ text: JSON.stringify(report) }],
  picture: [{ text: "A map." }],
  again: [{ text: "Hello again." }]
} as const satisfies Parameters<typeof serve>[0]

type Served = Effect.Success<ReturnType<typeof serve>>

/** The server, which all clients share. */
class Server extends Context.Service<Server, Served>()("test/Server") {}

const runtime = ManagedRuntime.make(Layer.effect(Server, serve(plays)))
beforeAll(() => runtime.runPromise(Effect.asVoid(Server)))
afterAll(() => runtime.dispose())

const served = (name: string, use: (served: Served) => Promise<void>) =>
  it.live(name, () => Effect.promise(async () => use(await runtime.runPromise(Server))))

const png = "iVBORw0KGgo="
const image = `data:image/png;base64,${png}`
const parameters = { type: "object", properties: { place: { type: "string" } }, required: ["place"] }
const schema = {
  type: "object",
  properties: { place: { type: "string" }, celsius: { type: "number" } },
  required: ["place", "celsius"],
  additionalProperties: false
}

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

describe("the SDK of OpenAI", () => {
  const open = async (url: string) => {
    const { default: OpenAI } = await load("openai")
    return new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })
  }
  const messages = [{ role: "user", content: "Say hello" }]

  served("answers chat completions whole and streamed, and lists models", async ({ url }) => {
    const client = await open(url)
    const whole = await client.chat.completions.create({ model: "hermes", messages })
    assert.strictEqual(whole.choices[0].message.content, "Hello there.")
    const streamed = await client.chat.completions
      .stream({ model: "hermes", messages, stream_options: { include_usage: true } })
      .finalChatCompletion()
    assert.deepStrictEqual([streamed.choices[0].message.content, streamed.usage.prompt_tokens], ["Hello there.", 100])
    const models: Array<string> = []
    for await (const { id } of client.models.list()) models.push(id)
    assert.include(models, "hermes")
  })

  served("runs tools with runTools, and parses values after them", async ({ url }) => {
    const client = await open(url)
    const weather = {
      type: "function",
      function: { name: "weather", parameters, parse: JSON.parse, function: () => "30", description: "The weather" }
    }
    const run = client.chat.completions.runTools({
      model: "hermes",
      messages: [{ role: "user", content: "one place" }],
      tools: [weather]
    })
    assert.strictEqual(await run.finalContent(), "Warm.")
    const value = client.chat.completions.runTools({
      model: "hermes",
      messages: [{ role: "user", content: "report" }],
      tools: [weather],
      response_format: { type: "json_schema", json_schema: { name: "report", schema } }
    })
    assert.deepStrictEqual(JSON.parse(await value.finalContent()), report)
  })

  served("answers responses, reads them again, and continues conversations", async ({ url }) => {
    const client = await open(url)
    const first = await client.responses.create({ model: "hermes", input: "Say hello" })
    assert.strictEqual(first.output_text, "Hello there.")
    const second = await client.responses
      .stream({ model: "hermes", input: "again", previous_response_id: first.id })
      .finalResponse()
    assert.strictEqual((await client.responses.retrieve(second.id)).output_text, "Hello again.")
    const { id } = await client.conversations.create({})
    const third = await client.responses.create({ model: "hermes", input: "Say hello", conversation: id })
    assert.strictEqual(third.conversation.id, id)
    assert.lengthOf((await client.conversations.items.list(id)).data, 2)
    assert.isTrue((await client.conversations.delete(id)).deleted)
  })
})

describe("the SDK of Anthropic", () => {
  served("answers messages whole and streamed, with tools that it runs", async ({ url }) => {
    const { default: Anthropic } = await load("@anthropic-ai/sdk")
    const client = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 })
    const base = { model: "hermes", max_tokens: 100 }
    const whole = await client.messages.create({ ...base, messages: [{ role: "user", content: "Say hello" }] })
    assert.strictEqual(whole.content[0].text, "Hello there.")
    const streamed = client.messages.stream({ ...base, messages: [{ role: "user", content: "again" }] })
    assert.strictEqual(await streamed.finalText(), "Hello again.")
    const runner = client.beta.messages.toolRunner({
      ...base,
      messages: [{ role: "user", content: "one place" }],
      tools: [
        { name: "weather", description: "x", input_schema: parameters, run: () => "30", parse: (x: unknown) => x }
      ]
    })
    assert.strictEqual((await runner).content.at(-1).text, "Warm.")
  })
})

describe.each([
  ["chat completions", false],
  ["responses", true]
])("LangChain over %s", (_, useResponsesApi) => {
  const open = async (url: string) => {
    const { ChatOpenAI } = await load("@langchain/openai")
    return new ChatOpenAI({
      model: "hermes",
      apiKey,
      maxRetries: 0,
      useResponsesApi,
      configuration: { baseURL: `${url}/v1` }
    })
  }

  served("invokes, streams and reads images", async ({ seen, url }) => {
    const model = await open(url)
    assert.strictEqual((await model.invoke("Say hello")).text, "Hello there.")
    let said = ""
    for await (const chunk of await model.stream("again")) said += chunk.text
    assert.strictEqual(said, "Hello again.")
    const { HumanMessage } = await load("@langchain/core/messages")
    const content = [
      { type: "text", text: "picture" },
      { type: "image_url", image_url: { url: image } }
    ]
    assert.strictEqual((await model.invoke([new HumanMessage({ content })])).text, "A map.")
    assert.include(JSON.stringify(seen.at(-1)?.messages), png)
  })

  served("binds tools, and continues with their results", async ({ url }) => {
    const { HumanMessage, ToolMessage } = await load("@langchain/core/messages")
    const model = (await open(url)).bindTools([{ type: "function", function: { name: "weather", parameters } }])
    const messages = [new HumanMessage("one place")]
    const asked = await model.invoke(messages)
    assert.deepStrictEqual(asked.tool_calls[0].args, { place: "Rome" })
    messages.push(asked, new ToolMessage({ content: "30", tool_call_id: asked.tool_calls[0].id }))
    assert.strictEqual((await model.invoke(messages)).text, "Warm.")
  })

  served("has structured output", async ({ url }) => {
    const model = (await open(url)).withStructuredOutput(schema, { name: "report", method: "jsonSchema" })
    assert.deepStrictEqual(await model.invoke("plain"), report)
  })
})

describe.each([
  ["chat completions", "OpenAIChatCompletionsModel"],
  ["responses", "OpenAIResponsesModel"]
] as const)("agents of OpenAI over %s", (_, name) => {
  served("run with tools, streams, a form of the answer and several turns", async ({ url }) => {
    const { default: OpenAI } = await load("openai")
    const sdk = await load("@openai/agents")
    sdk.setTracingDisabled(true)
    const model = new sdk[name](new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 }), "hermes")
    const weather = sdk.tool({
      name: "weather",
      description: "The weather",
      strict: false,
      parameters: { ...parameters, additionalProperties: true },
      execute: () => "30"
    })
    const agent = new sdk.Agent({ name: "Assistant", instructions: "Be short.", model, tools: [weather] })
    const first = await sdk.run(agent, "one place")
    assert.strictEqual(first.finalOutput, "Warm.")
    const second = await sdk.run(agent, [...first.history, { role: "user", content: "again" }])
    assert.strictEqual(second.finalOutput, "Hello again.")
    const stream = await sdk.run(agent, "Say hello", { stream: true })
    let said = ""
    for await (const text of stream.toTextStream()) said += text
    await stream.completed
    assert.strictEqual(said, "Hello there.")
    const outputType = { type: "json_schema", name: "report", strict: true, schema }
    const typed = new sdk.Agent({ name: "Reporter", model, outputType, tools: [weather] })
    assert.deepStrictEqual((await sdk.run(typed, "report")).finalOutput, report)
  })
})

describe("agents of OpenAI over a stored conversation", () => {
  served("send new items alone", async ({ seen, url }) => {
    const { default: OpenAI } = await load("openai")
    const sdk = await load("@openai/agents")
    sdk.setTracingDisabled(true)
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })
    const agent = new sdk.Agent({ name: "Assistant", model: new sdk.OpenAIResponsesModel(client, "hermes") })
    const { id: conversationId } = await client.conversations.create({})
    await sdk.run(agent, "Say hello", { conversationId })
    assert.strictEqual((await sdk.run(agent, "again", { conversationId })).finalOutput, "Hello again.")
    assert.deepStrictEqual(
      seen.at(-1)?.messages.map(({ role }) => role),
      ["system", "user", "assistant", "user"]
    )
    const session = new sdk.OpenAIConversationsSession({ client })
    await sdk.run(agent, "Say hello", { session })
    assert.strictEqual((await sdk.run(agent, "again", { session })).finalOutput, "Hello again.")
    assert.lengthOf(await session.getItems(), 4)
  })
})

/** Versions of the AI SDK, each with the providers that are made for it. */
const versions = [
  { sdk: "ai-5", suffix: "-5", compatible: "@ai-sdk/openai-compatible-1" },
  { sdk: "ai-6", suffix: "-6", compatible: "@ai-sdk/openai-compatible-2" },
  { sdk: "ai", suffix: "", compatible: "@ai-sdk/openai-compatible" }
] as const

const providers = ["openai.responses", "openai.chat", "compatible", "anthropic"] as const

const openModel = async (
  url: string,
  { compatible, suffix }: (typeof versions)[number],
  provider: (typeof providers)[number]
): Promise<Package> => {
  const baseURL = `${url}/v1`
  if (provider === "anthropic")
    return (await load(`@ai-sdk/anthropic${suffix}`)).createAnthropic({ baseURL, apiKey })("hermes")
  if (provider === "compatible") {
    const options = { name: "hermes", baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true }
    return (await load(compatible)).createOpenAICompatible(options)("hermes")
  }
  const openai = (await load(`@ai-sdk/openai${suffix}`)).createOpenAI({ baseURL, apiKey })
  return provider === "openai.chat" ? openai.chat("hermes") : openai.responses("hermes")
}

describe.each(versions.flatMap((version) => providers.map((provider) => ({ ...version, provider }))))(
  "$sdk with $provider",
  ({ provider, ...version }) => {
    const { sdk } = version

    served("generates, streams, and continues with its own messages", async ({ seen, url }) => {
      const { generateText, streamText } = await load(sdk)
      const model = await openModel(url, version, provider)
      const messages: Array<unknown> = [{ role: "user", content: "Say hello" }]
      const first = await generateText({ model, system: "Be short.", messages })
      assert.deepStrictEqual([first.text, first.finishReason, first.usage.inputTokens], ["Hello there.", "stop", 100])
      messages.push(...first.response.messages, { role: "user", content: "again" })
      const streamed = streamText({ model, system: "Be short.", messages })
      assert.strictEqual(await streamed.text, "Hello again.")
      assert.deepStrictEqual(
        seen.at(-1)?.messages.map(({ role }) => role),
        ["system", "user", "assistant", "user"]
      )
    })

    served("runs its tools, and reads images", async ({ seen, url }) => {
      const { generateText, isStepCount, jsonSchema, stepCountIs, streamText, tool } = await load(sdk)
      const model = await openModel(url, version, provider)
      const places: Array<string> = []
      const weather = tool({
        description: "The weather",
        inputSchema: jsonSchema(parameters),
        execute: ({ place }: { readonly place: string }) => Promise.resolve(`${places.push(place)} degree`)
      })
      const options = { model, tools: { weather }, stopWhen: (isStepCount ?? stepCountIs)(5) }
      const messages: Array<unknown> = [{ role: "user", content: "one place" }]
      const whole = await generateText({ ...options, messages })
      assert.deepStrictEqual([whole.text, whole.steps.length], ["Warm.", 2])
      messages.push(...whole.response.messages, { role: "user", content: "again" })
      assert.strictEqual((await generateText({ ...options, messages })).text, "Hello again.")
      const streamed = streamText({ ...options, prompt: "one place" })
      assert.strictEqual(await streamed.text, "Warm.")
      assert.deepStrictEqual(places, ["Rome", "Rome"])
      const content = [
        { type: "text", text: "picture" },
        { type: "image", image }
      ]
      assert.strictEqual((await generateText({ model, messages: [{ role: "user", content }] })).text, "A map.")
      assert.include(JSON.stringify(seen.at(-1)?.messages), png)
    })

    served("has structured output, also after its tools", async ({ url }) => {
      const { generateText, isStepCount, jsonSchema, Output, stepCountIs, tool } = await load(sdk)
      const model = await openModel(url, version, provider)
      const weather = tool({
        description: "The weather",
        inputSchema: jsonSchema(parameters),
        execute: () => Promise.resolve("30")
      })
      const output = Output.object({ schema: jsonSchema(schema) })
      // Without it, the provider of Anthropic forces a tool of its own for models that it does not know.
      const providerOptions = { anthropic: { structuredOutputMode: "outputFormat" } }
      const base = { model, providerOptions, stopWhen: (isStepCount ?? stepCountIs)(5) }
      const given = sdk === "ai-5" ? { experimental_output: output } : { output }
      const plain = await generateText({ ...base, ...given, prompt: "plain" })
      assert.deepStrictEqual(plain.output ?? plain.experimental_output, report)
      const after = await generateText({ ...base, ...given, tools: { weather }, prompt: "report" })
      assert.deepStrictEqual(after.output ?? after.experimental_output, report)
    })
  }
)

describe("Open WebUI", () => {
  const ask = (url: string, body: object) =>
    fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "hermes", ...body })
    })

  served("lists models, chats in a stream with usage, and asks for titles and tags beside it", async ({ url }) => {
    const models = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${apiKey}` } })
    assert.include(await models.text(), '"id":"hermes"')
    const messages = [
      { role: "system", content: "Be short." },
      { role: "user", content: "Say hello" }
    ]
    const stream = await ask(url, { messages, stream: true, stream_options: { include_usage: true } })
    const text = await stream.text()
    assert.match(text, /"content":"Hello/u)
    assert.match(text, /"usage":\{"prompt_tokens":100/u)
    assert.match(text, /data: \[DONE\]\n\n$/u)
    // Titles, tags and follow-ups are single requests with a limit of tokens, in both spellings.
    for (const limit of [{ max_tokens: 1_000 }, { max_completion_tokens: 1_000 }]) {
      const title = await ask(url, { messages: [{ role: "user", content: "Say hello" }], stream: false, ...limit })
      assert.strictEqual(title.status, 200)
    }
  })

  served("regenerates an answer, edits a message, and sends images and parameters", async ({ seen, url }) => {
    const say = async (content: unknown, before: ReadonlyArray<object> = []) => {
      const messages = [...before, { role: "user", content }]
      const response = await ask(url, { messages, temperature: 0.7, top_p: 0.9, seed: 1, user: "ada", stream: false })
      return [response.status, JSON.parse(await response.text()).choices?.[0]?.message.content] as const
    }
    assert.deepStrictEqual(await say("Say hello"), [200, "Hello there."])
    assert.deepStrictEqual(await say("Say hello"), [200, "Hello there."])
    const turn = [
      { role: "user", content: "Say hello" },
      { role: "assistant", content: "Hello there." }
    ]
    assert.deepStrictEqual(await say("again", turn), [200, "Hello again."])
    assert.deepStrictEqual(await say("think", turn), [200, "Well thought."])
    assert.lengthOf(seen.at(-1)?.messages ?? [], 4)
    const content = [
      { type: "text", text: "picture" },
      { type: "image_url", image_url: { url: image } }
    ]
    assert.deepStrictEqual(await say(content), [200, "A map."])
  })
})
