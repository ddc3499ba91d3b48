// Structured answers beside tools of the caller, in both APIs of the official client, streamed and not.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { APIError, type OpenAI } from "openai"
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod"
import * as z from "zod"
import { user, weather, world } from "../../support/servedAgent.ts"

const Report = z.object({ place: z.string(), celsius: z.number() })
const report = { place: "Rome", celsius: 30 }

const plays = {
  "does not fit the JSON Schema": [{ text: JSON.stringify(report) }],
  "one place": [{ text: "I ask.", calls: [["weather", { place: "Rome" }]] }, { text: JSON.stringify(report) }],
  "second time": [{ calls: [["weather", { place: "Rome" }]] }, { text: '{ "place": "Rome" }' }],
  "own tool": [
    { calls: [["todo", { todos: [{ id: "1", content: "ask" }] }]] },
    { calls: [["weather", { place: "Rome" }]] },
    { text: JSON.stringify(report) }
  ]
} as const

const prompts = ["one place", "second time", "own tool"] as const

const response_format = zodResponseFormat(Report, "report")
const tool = { type: "function" as const, name: "weather", strict: false, parameters: weather.function.parameters }

describe("structured answers of a served agent to a caller with tools", () => {
  it.live.each(prompts)("follow the calls of chat completions (%s)", (prompt) =>
    Effect.gen(function* () {
      const { client, seen } = yield* world(plays)
      yield* Effect.promise(async () => {
        const messages: Array<OpenAI.ChatCompletionMessageParam> = [user(prompt)]
        const base = { model: "hermes", tools: [weather], response_format }
        const first = await client.chat.completions.create({ ...base, messages })
        const [asked] = first.choices
        assert.strictEqual(asked?.finish_reason, "tool_calls")
        const [call] = asked?.message.tool_calls ?? []
        messages.push(...(asked === undefined ? [] : [asked.message]), {
          role: "tool",
          tool_call_id: call?.id ?? "",
          content: "30"
        })
        const second = await client.chat.completions.create({ ...base, messages })
        assert.deepStrictEqual(JSON.parse(second.choices[0]?.message.content ?? ""), report)
        assert.isTrue(seen.every((request) => request.response_format?.type === "json_schema"))
      })
    })
  )

  it.live.each(prompts)("follow the calls of streamed chat completions (%s)", (prompt) =>
    Effect.gen(function* () {
      const { client } = yield* world(plays)
      yield* Effect.promise(async () => {
        const runner = client.chat.completions.stream({
          model: "hermes",
          tools: [weather],
          response_format,
          messages: [user(prompt)]
        })
        const asked = await runner.finalMessage()
        assert.strictEqual(asked.content ?? "", "")
        const done = client.chat.completions.stream({
          model: "hermes",
          tools: [weather],
          response_format,
          messages: [
            user(prompt),
            asked,
            { role: "tool", tool_call_id: asked.tool_calls?.[0]?.id ?? "", content: "30" }
          ]
        })
        assert.deepStrictEqual((await done.finalChatCompletion()).choices[0]?.message.parsed, report)
      })
    })
  )

  it.live.each(prompts)("have the form of the turn, although the request with the results names none (%s)", (prompt) =>
    Effect.gen(function* () {
      const { client } = yield* world(plays)
      yield* Effect.promise(async () => {
        const first = await client.chat.completions.create({
          model: "hermes",
          tools: [weather],
          response_format,
          messages: [user(prompt)]
        })
        const asked = first.choices[0]?.message
        const stream = await client.chat.completions.create({
          model: "hermes",
          tools: [weather],
          messages: [
            user(prompt),
            ...(asked === undefined ? [] : [asked]),
            { role: "tool", tool_call_id: asked?.tool_calls?.[0]?.id ?? "", content: "30" }
          ],
          stream: true
        })
        let text = ""
        for await (const { choices } of stream) text += choices[0]?.delta.content ?? ""
        assert.deepStrictEqual(JSON.parse(text), report)
      })
    })
  )

  it.live.each(prompts)("follow the calls of responses (%s)", (prompt) =>
    Effect.gen(function* () {
      const { client } = yield* world(plays)
      yield* Effect.promise(async () => {
        const base = { model: "hermes", tools: [tool], text: { format: zodTextFormat(Report, "report") } }
        const first = await client.responses.parse({ ...base, input: prompt })
        const call = first.output.find(({ type }) => type === "function_call")
        assert.isNull(first.output_parsed)
        const results = [
          {
            type: "function_call_output" as const,
            call_id: call !== undefined && "call_id" in call ? String(call.call_id) : "",
            output: "30"
          }
        ]
        const second = await client.responses.parse({ ...base, input: results, previous_response_id: first.id })
        assert.deepStrictEqual(second.output_parsed, report)
      })
    })
  )

  it.live("cannot be changed while the turn waits for results", () =>
    Effect.gen(function* () {
      const { client } = yield* world(plays)
      yield* Effect.promise(async () => {
        const first = await client.responses.create({ model: "hermes", tools: [tool], input: "one place" })
        const call = first.output.find(({ type }) => type === "function_call")
        const call_id = call !== undefined && "call_id" in call ? String(call.call_id) : ""
        const error: unknown = await client.responses
          .create({
            model: "hermes",
            input: [{ type: "function_call_output", call_id, output: "30" }],
            text: { format: zodTextFormat(Report, "report") }
          })
          .catch((given: unknown) => given)
        assert.instanceOf(error, APIError)
        assert.deepInclude(error, { status: 400, param: "text.format" })
      })
    })
  )
})

describe("results of a caller's tools", () => {
  it.live("may have words of the user behind them, which the model reads after the results", () =>
    Effect.gen(function* () {
      const { client, seen } = yield* world(plays)
      yield* Effect.promise(async () => {
        const messages: Array<OpenAI.ChatCompletionMessageParam> = [user("own tool")]
        const first = await client.chat.completions.create({ model: "hermes", tools: [weather], messages })
        const [asked] = first.choices
        messages.push(
          ...(asked === undefined ? [] : [asked.message]),
          { role: "tool", tool_call_id: asked?.message.tool_calls?.[0]?.id ?? "", content: "30 degrees" },
          user("Be brief.")
        )
        const second = await client.chat.completions.create({ model: "hermes", tools: [weather], messages })
        assert.deepStrictEqual(JSON.parse(second.choices[0]?.message.content ?? ""), report)
        const told = JSON.stringify(seen.at(-1)?.messages.slice(-2))
        assert.match(told, /30 degrees.*Be brief\./u)
      })
    })
  )

  it.live("may have pictures, in responses", () =>
    Effect.gen(function* () {
      const { client, seen } = yield* world(plays)
      yield* Effect.promise(async () => {
        const first = await client.responses.create({ model: "hermes", tools: [tool], input: "one place" })
        const call = first.output.find(({ type }) => type === "function_call")
        const call_id = call !== undefined && "call_id" in call ? String(call.call_id) : ""
        await client.responses.create({
          model: "hermes",
          input: [
            {
              type: "function_call_output",
              call_id,
              output: [
                { type: "input_text", text: "a map" },
                { type: "input_image", image_url: "data:image/png;base64,iVBORw0KGgo=", detail: "auto" }
              ]
            }
          ]
        })
        const told = JSON.stringify(seen.at(-1)?.messages)
        assert.include(told, "a map")
        assert.include(told, "data:image/png;base64,iVBORw0KGgo=")
      })
    })
  )

  it.live("end a later turn, behind which the conversation continues", () =>
    Effect.gen(function* () {
      const { client, seen } = yield* world({ ...plays, hello: [{ text: "Hello." }], bye: [{ text: "Bye." }] })
      yield* Effect.promise(async () => {
        const base = { model: "hermes", tools: [tool] }
        const first = await client.responses.create({ ...base, input: "hello" })
        const second = await client.responses.create({ ...base, input: "one place", previous_response_id: first.id })
        const call = second.output.find(({ type }) => type === "function_call")
        const call_id = call !== undefined && "call_id" in call ? String(call.call_id) : ""
        const third = await client.responses.create({
          ...base,
          input: [{ type: "function_call_output", call_id, output: "30" }],
          previous_response_id: second.id
        })
        await client.responses.create({ ...base, input: "bye", previous_response_id: third.id })
        assert.deepStrictEqual(
          seen.at(-1)?.messages.map(({ role }) => role),
          ["system", "user", "assistant", "user", "assistant", "tool", "assistant", "user"]
        )
      })
    })
  )
})
