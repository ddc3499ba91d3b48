// Programs of applications that the rows bundle and run.

/** Prints the answer of the offline model of the runtime without Effect. */
export const offline = `import { createHermes } from "hermes-effect/promise"
export const answer = async () => {
  const hermes = createHermes({ model: "offline" })
  const { text } = await hermes.run("Reply exactly: promised")
  await hermes.dispose()
  return text
}
`

const sse = `const sse = (events) => new Response(events.map(([event, data]) =>
  (event === "" ? "" : "event: " + event + "\\n") + "data: " + (typeof data === "string" ? data : JSON.stringify(data)) + "\\n\\n").join(""),
  { headers: { "content-type": "text/event-stream" } })
`

/** A `fetch` that answers the requests of the three protocols, whole and streamed. */
export const models = `${sse}
const usage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 }
const output = [{ type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "responses" }] }]
const call = { index: 0, id: "c", type: "function", function: { name: "add", arguments: '{"a":1,"b":2}' } }
const chat = (body) => {
  const isAsked = body.tools?.length > 0 && body.messages.at(-1).role === "user"
  const text = body.messages.at(-1).role === "tool" ? "chat " + body.messages.at(-1).content : "chat"
  const message = isAsked ? { tool_calls: [call] } : { content: text }
  const finish_reason = isAsked ? "tool_calls" : "stop"
  return body.stream === true
    ? sse([["", { choices: [{ index: 0, delta: message, finish_reason }] }], ["", "[DONE]"]])
    : Response.json({ choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }] })
}
export const fetch = async (input, init) => {
  const url = String(input)
  const body = JSON.parse(init.body)
  if (url.endsWith("/chat/completions")) return chat(body)
  if (url.endsWith("/responses")) {
    const response = { id: "r", status: "completed", output, usage }
    return body.stream === true
      ? sse([
          ["response.output_text.delta", { type: "response.output_text.delta", item_id: "m", output_index: 0, content_index: 0, delta: "responses" }],
          ["response.output_item.done", { type: "response.output_item.done", output_index: 0, item: output[0] }],
          ["response.completed", { type: "response.completed", response }]
        ])
      : Response.json(response)
  }
  if (!url.endsWith("/messages")) return new Response("{}", { status: 404 })
  return body.stream === true
    ? sse([
        ["message_start", { type: "message_start", message: { id: "m", role: "assistant", model: "m", content: [], usage } }],
        ["content_block_start", { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }],
        ["content_block_delta", { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "messages" } }],
        ["content_block_stop", { type: "content_block_stop", index: 0 }],
        ["message_delta", { type: "message_delta", delta: { stop_reason: "end_turn" }, usage }],
        ["message_stop", { type: "message_stop" }]
      ])
    : Response.json({ id: "m", type: "message", role: "assistant", model: "m", content: [{ type: "text", text: "messages" }], stop_reason: "end_turn", usage })
}
`

/** Asks models of a protocol over the `fetch` of `models.js`, whole and streamed. */
export const protocols = `import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Agent, Runtime } from "hermes-effect"
import { AnthropicMessages } from "hermes-effect/providers/anthropic"
import { ChatCompletions, CodexResponses } from "hermes-effect/providers/openai"
import { fetch } from "./models.js"
const options = { model: "m", baseUrl: "http://models.test/v1", apiKey: Redacted.make("k-0123456789"), fetch }
const providers = {
  chat: () => ChatCompletions.layer(options),
  responses: () => CodexResponses.layer(options),
  messages: () => AnthropicMessages.layer({ ...options, baseUrl: "http://models.test" })
}
for (const name of process.argv.slice(2))
  for (const streaming of [false, true])
    console.log(await Effect.runPromise(Agent.run({ prompt: "Hello?", streaming }).pipe(
      Effect.provide(Runtime.layer({ provider: providers[name]() })),
      Effect.match({ onFailure: ({ message }) => message, onSuccess: ({ text }) => text })
    )))
`

/** The loop with our own OpenAI provider and a tool, over the `fetch` of `models.js`. */
export const loop = `import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Agent, ModelRouter, SessionStore, ToolRegistry } from "hermes-effect/agent"
import { createHermes, tool } from "hermes-effect/promise"
import { ChatCompletions } from "hermes-effect/providers/openai"
import { answer as askOffline } from "./offline.js"
import { fetch } from "./models.js"
const model = { model: "m", baseUrl: "http://models.test/v1", allowBrowser: true }
const provider = ChatCompletions.layer({ ...model, apiKey: Redacted.make("k-0123456789"), fetch })
const router = ModelRouter.layer.pipe(Layer.provide(provider))
const parts = Layer.mergeAll(router, SessionStore.layerMemory, ToolRegistry.layer([]))
const agent = Agent.layer({}).pipe(Layer.provideMerge(parts))
const ask = async (streaming) =>
  (await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Hello?", streaming }), agent))).text
const askWithTool = async () => {
  const parameters = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] }
  const input = { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }) } }
  const add = tool({ name: "add", description: "Adds", input, parameters, readonly: true, execute: ({ a, b }) => "sum " + (a + b) })
  const hermes = createHermes({ model: { ...model, apiKey: "k-0123456789" }, fetch, tools: [add] })
  const { text } = await hermes.run({ prompt: "Add", streaming: true })
  await hermes.dispose()
  return text
}
export const answer = async () =>
  JSON.stringify([await askOffline(), await ask(false), await ask(true), await askWithTool()])
`

/** What `loop` answers. */
export const loopAnswer = JSON.stringify(["promised", "chat", "chat", "chat sum 3"])
