// The messages API of the served agent, asked by the official client of Anthropic, streamed and not.
import Anthropic, { APIError } from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { until, world } from "../../support/servedAgent.ts"

const report = { place: "Rome", celsius: 30 }

const plays = {
  "Say hello": [{ text: ["Hello", " there."] }],
  "does not fit the JSON Schema": [{ text: JSON.stringify(report) }],
  think: [{ thought: "Hm, ", text: ["Well ", "thought."] }],
  "one place": [{ text: "I ask.", calls: [["weather", { place: "Rome" }]] }, { text: "Warm." }],
  report: [{ calls: [["weather", { place: "Rome" }]] }, { text: '{ "place": "Rome" }' }],
  steps: [
    { thought: "First.", text: "I plan.", calls: [["todo", { todos: [{ id: "1", content: "ask" }] }]] },
    { thought: "Then.", text: "Done." }
  ],
  picture: [{ text: "A map." }],
  again: [{ text: "Hello again." }],
  wait: [{ text: "I wait", hangs: true }]
} as const satisfies Parameters<typeof world>[0]

const weather: Anthropic.Tool = {
  name: "weather",
  description: "The weather",
  input_schema: { type: "object", properties: { place: { type: "string" } } }
}

type World = Effect.Success<ReturnType<typeof world>>

const withClient = (use: (client: Anthropic, served: World) => Promise<void>) =>
  Effect.flatMap(world(plays), (served) =>
    Effect.promise(() => use(new Anthropic({ baseURL: served.url, apiKey: served.apiKey, maxRetries: 0 }), served))
  )

const base = { model: "hermes", max_tokens: 1_000 }
const user = (content: Anthropic.MessageParam["content"]): Anthropic.MessageParam => ({ role: "user", content })

const textOf = ({ content }: Anthropic.Message): string =>
  content.map((block) => (block.type === "text" ? block.text : "")).join("")

const refusal = async (answer: Promise<unknown>) => {
  const error: unknown = await answer.then(
    () => undefined,
    (given: unknown) => given
  )
  if (!(error instanceof APIError)) throw new Error("no refusal")
  // The body is any JSON for the client.
  const { error: body } = error.error as { readonly error: { readonly type: string; readonly param: string | null } }
  return { status: error.status, type: body.type, param: body.param, message: error.message }
}

const ways = [
  ["whole", (client: Anthropic, body: Anthropic.MessageCreateParamsNonStreaming) => client.messages.create(body)],
  [
    "streamed",
    (client: Anthropic, body: Anthropic.MessageCreateParamsNonStreaming) => client.messages.stream(body).finalMessage()
  ]
] as const

describe.each(ways)("a %s message of a served agent", (_, ask) => {
  it.live("has the text, the reason of its end and the usage", () =>
    withClient(async (client, { seen }) => {
      const message = await ask(client, { ...base, system: "Be short.", messages: [user("Say hello")] })
      assert.deepInclude(message, { type: "message", role: "assistant", model: "hermes", stop_reason: "end_turn" })
      assert.deepInclude(message.usage, { input_tokens: 100, output_tokens: 10 })
      assert.strictEqual(textOf(message), "Hello there.")
      assert.include(JSON.stringify(seen[0]?.messages[0]), "Be short.")
    })
  )

  it.live("has thinking blocks for a caller that asks for them, in the order of the steps", () =>
    withClient(async (client) => {
      const thinking = { type: "enabled", budget_tokens: 1_024 } as const
      const message = await ask(client, { ...base, thinking, messages: [user("steps")] })
      assert.deepStrictEqual(
        message.content.map((block) =>
          block.type === "thinking" ? [block.type, block.thinking, block.signature] : [block.type]
        ),
        [["thinking", "First.", "hermes"], ["text"], ["thinking", "Then.", "hermes"], ["text"]]
      )
      const hidden = await ask(client, { ...base, messages: [user("think")] })
      assert.deepStrictEqual(
        hidden.content.map(({ type }) => type),
        ["text"]
      )
    })
  )

  it.live("ends with the calls of the caller's tools, and continues with their results", () =>
    withClient(async (client, { seen }) => {
      const messages = [user("one place")]
      const asked = await ask(client, { ...base, tools: [weather], messages })
      assert.strictEqual(asked.stop_reason, "tool_use")
      const call = asked.content.find((block) => block.type === "tool_use")
      assert.deepStrictEqual([textOf(asked), call?.name, call?.input], ["I ask.", "weather", { place: "Rome" }])
      const result: Anthropic.ToolResultBlockParam = {
        type: "tool_result",
        tool_use_id: call?.id ?? "",
        content: [{ type: "text", text: "30 degrees" }]
      }
      messages.push(
        { role: "assistant", content: asked.content },
        user([result, { type: "text", text: "<reminder>Be brief.</reminder>" }])
      )
      const done = await ask(client, { ...base, tools: [weather], messages })
      assert.deepStrictEqual([textOf(done), done.stop_reason], ["Warm.", "end_turn"])
      const told = JSON.stringify(seen.at(-1)?.messages)
      assert.match(told, /30 degrees.*Be brief/u)
      // The whole conversation continues its session.
      messages.push({ role: "assistant", content: done.content }, user("again"))
      assert.strictEqual(textOf(await ask(client, { ...base, messages })), "Hello again.")
      assert.lengthOf(seen.at(-1)?.messages.filter(({ role }) => role === "tool") ?? [], 1)
    })
  )

  it.live("shows the model a picture that a tool of the caller returned", () =>
    withClient(async (client, { seen }) => {
      const messages = [user("one place")]
      const asked = await ask(client, { ...base, tools: [weather], messages })
      const call = asked.content.find((block) => block.type === "tool_use")
      const source = { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } as const
      messages.push(
        { role: "assistant", content: asked.content },
        user([{ type: "tool_result", tool_use_id: call?.id ?? "", content: [{ type: "image", source }] }])
      )
      await ask(client, { ...base, tools: [weather], messages })
      assert.include(JSON.stringify(seen.at(-1)?.messages), "data:image/png;base64,iVBORw0KGgo=")
    })
  )

  it.live("reports a failed tool to the model", () =>
    withClient(async (client, { seen }) => {
      const messages = [user("one place")]
      const asked = await ask(client, { ...base, tools: [weather], messages })
      const call = asked.content.find((block) => block.type === "tool_use")
      messages.push(
        { role: "assistant", content: asked.content },
        user([{ type: "tool_result", tool_use_id: call?.id ?? "", content: "no network", is_error: true }])
      )
      await ask(client, { ...base, tools: [weather], messages })
      assert.match(JSON.stringify(seen.at(-1)?.messages.at(-1)), /no network/u)
    })
  )

  it.live("is JSON of a schema, also after the calls of tools and a correction", () =>
    withClient(async (client) => {
      const schema = {
        type: "object",
        properties: { place: { type: "string" }, celsius: { type: "number" } },
        required: ["place", "celsius"],
        additionalProperties: false
      }
      const output_config = { format: { type: "json_schema" as const, schema } }
      const messages = [user("report")]
      const asked = await ask(client, { ...base, tools: [weather], output_config, messages })
      const call = asked.content.find((block) => block.type === "tool_use")
      messages.push(
        { role: "assistant", content: asked.content },
        user([{ type: "tool_result", tool_use_id: call?.id ?? "", content: "30" }])
      )
      const done = await ask(client, { ...base, tools: [weather], output_config, messages })
      assert.deepStrictEqual(JSON.parse(textOf(done)), report)
    })
  )

  it.live("reads images and documents", () =>
    withClient(async (client, { seen }) => {
      const content: Array<Anthropic.ContentBlockParam> = [
        { type: "text", text: "picture" },
        { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } },
        { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
        { type: "document", title: "notes", source: { type: "text", media_type: "text/plain", data: "The notes." } },
        { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" } }
      ]
      assert.strictEqual(textOf(await ask(client, { ...base, messages: [user(content)] })), "A map.")
      const told = JSON.stringify(seen.at(-1)?.messages.at(-1))
      for (const part of ["iVBORw0KGgo=", "https://example.com/a.png", "The notes.", "JVBERi0="])
        assert.include(told, part)
    })
  )

  it.live("refuses what is not done, with its field", () =>
    withClient(async (client, { seen }) => {
      const messages = [user("Say hello")]
      const bodies: ReadonlyArray<readonly [param: string, more: object]> = [
        ["stop_sequences", { stop_sequences: ["END"] }],
        ["tool_choice.type", { tools: [weather], tool_choice: { type: "any" } }],
        ["tool_choice.disable_parallel_tool_use", { tool_choice: { type: "auto", disable_parallel_tool_use: true } }],
        ["output_config.effort", { output_config: { effort: "high" } }],
        ["output_config.format.schema", { output_config: { format: { type: "json_schema", schema: {} } } }],
        ["container", { container: "c" }],
        ["mcp_servers", { mcp_servers: [{ type: "url", url: "https://example.com" }] }],
        ["thinking.type", { thinking: { type: "between_tools" } }],
        ["invented", { invented: 1 }],
        ["tools[0].type", { tools: [{ type: "bash_20250124", name: "bash" }] }],
        ["tools[0].defer_loading", { tools: [{ ...weather, defer_loading: true }] }],
        ["messages[0].content[0].type", { messages: [user([{ type: "container_upload", file_id: "f" } as never])] }],
        [
          "messages[0].content[0].source.type",
          { messages: [user([{ type: "image", source: { type: "file" } } as never])] }
        ],
        [
          "messages[0].content[0].citations.enabled",
          {
            messages: [
              user([
                {
                  type: "document",
                  source: { type: "text", media_type: "text/plain", data: "x" },
                  citations: { enabled: true }
                }
              ])
            ]
          }
        ]
      ]
      for (const [param, more] of bodies) {
        const error = await refusal(ask(client, { ...base, messages, ...more }))
        assert.deepStrictEqual([error.status, error.type, error.param], [400, "invalid_request_error", param])
        assert.include(error.message, param)
      }
      assert.lengthOf(seen, 0)
    })
  )

  it.live("fails in the form of this API", () =>
    withClient(async (client, { url }) => {
      const messages = [user("Say hello")]
      assert.deepInclude(await refusal(ask(client, { ...base, model: "nobody", messages })), {
        status: 404,
        type: "not_found_error"
      })
      const stranger = new Anthropic({ baseURL: url, apiKey: "wrong", maxRetries: 0 })
      assert.deepInclude(await refusal(ask(stranger, { ...base, messages })), {
        status: 401,
        type: "authentication_error"
      })
    })
  )
})

describe("the messages API", () => {
  it.live("streams the events of the API in their order", () =>
    withClient(async (_, { authorized, url }) => {
      const response = await fetch(`${url}/v1/messages`, {
        method: "POST",
        headers: { ...authorized, "content-type": "application/json", "anthropic-version": "2023-06-01" },
        body: JSON.stringify({ ...base, tools: [weather], messages: [user("one place")], stream: true })
      })
      const events = Array.from((await response.text()).matchAll(/^event: (\S+)\ndata: (.*)$/gmu), ([, name, data]) => {
        // Each event is an object with its type.
        const { delta, type } = JSON.parse(data ?? "") as { type: string; delta?: { type?: string } }
        assert.strictEqual(type, name)
        return delta?.type ?? type
      }).filter((type, index, all) => type !== all[index - 1])
      assert.deepStrictEqual(events, [
        "message_start",
        "ping",
        "content_block_start",
        "text_delta",
        "content_block_stop",
        "content_block_start",
        "input_json_delta",
        "content_block_stop",
        "message_delta",
        "message_stop"
      ])
    })
  )

  it.live("stops the turn of a client that hangs up", () =>
    withClient(async (client, { aborted, seen }) => {
      const stream = client.messages.stream({ ...base, messages: [user("wait")] })
      const ended = stream.done().catch(() => undefined)
      await until(() => seen.length === 1)
      stream.abort()
      await ended
      await until(() => aborted() === 1)
    })
  )

  it.live("counts tokens, lists models, and refuses other versions", () =>
    withClient(async (client, { fetched }) => {
      const messages = [user("Say hello")]
      const { input_tokens } = await client.messages.countTokens({ model: "hermes", messages })
      const more = await client.messages.countTokens({ model: "hermes", messages, tools: [weather] })
      assert.isAbove(input_tokens, 0)
      assert.isAbove(more.input_tokens, input_tokens)
      assert.deepInclude((await client.models.list()).data[0], { id: "hermes", type: "model" })
      assert.deepInclude(await client.models.retrieve("hermes"), { id: "hermes", type: "model" })
      const { body, status } = await fetched("/v1/messages", {
        json: { ...base, messages },
        headers: { "anthropic-version": "2023-01-01" }
      })
      assert.deepStrictEqual([status, body.error.param], [400, "anthropic-version"])
    })
  )

  it.live("keeps the sessions of keys apart, sent as bearer or as x-api-key", () =>
    Effect.gen(function* () {
      const key = (name: string) => ({ name, key: Redacted.make(`${name}-0123456789abcdef`) })
      const { url } = yield* world(plays, { keys: [key("alice"), key("bob")] })
      const alice = new Anthropic({ baseURL: url, apiKey: "alice-0123456789abcdef", maxRetries: 0 })
      const bob = new Anthropic({ baseURL: url, apiKey: null, authToken: "bob-0123456789abcdef", maxRetries: 0 })
      yield* Effect.promise(async () => {
        const { response } = await alice.messages.create({ ...base, messages: [user("Say hello")] }).withResponse()
        const session = response.headers.get("x-hermes-session-id")
        assert.isString(session)
        const headers = { "x-hermes-session-id": session }
        assert.deepInclude(await refusal(bob.messages.create({ ...base, messages: [user("again")] }, { headers })), {
          status: 404
        })
        const own = await alice.messages.create({ ...base, messages: [user("again")] }, { headers })
        assert.strictEqual(textOf(own), "Hello again.")
      })
    })
  )
})
