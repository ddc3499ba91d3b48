// Structured answers of the served agent, asked for by the official client in both APIs, streamed and not.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import OpenAI, { APIError } from "openai"
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod"
import * as z from "zod"
import { until, user, world } from "../../support/servedAgent.ts"

const Color = z.object({ color: z.enum(["red", "blue"]) })

const plays = {
  "does not fit the JSON Schema": [{ text: '{ "color": "blue" }' }],
  "at once": [{ text: '```json\n{ "color": "red" }\n```' }],
  "second time": [{ text: '{ "color": "green" }' }],
  list: [{ text: "[1, 2]" }],
  pattern: [{ text: `{ "color": "${"a".repeat(40)}!" }` }],
  object: [{ text: '{ "free": [1, 2] }' }],
  words: [{ text: "I would say red." }]
}

const withClient = (use: (client: OpenAI) => Promise<void>) =>
  Effect.flatMap(world(plays), ({ client }) => Effect.promise(() => use(client)))

const statusOf = async (answer: Promise<unknown>) => {
  const error: unknown = await answer.then(
    () => undefined,
    (given: unknown) => given
  )
  return error instanceof APIError ? [error.status, error.param] : undefined
}

describe("structured answers of a served agent", () => {
  it.live("are parsed from chat completions, also after a correction", () =>
    withClient(async (client) => {
      for (const [prompt, color] of [
        ["at once", "red"],
        ["second time", "blue"]
      ] as const) {
        const completion = await client.chat.completions.parse({
          model: "hermes",
          messages: [user(prompt)],
          response_format: zodResponseFormat(Color, "color")
        })
        assert.deepStrictEqual(completion.choices[0]?.message.parsed, { color })
      }
    })
  )

  it.live("are parsed from responses", () =>
    withClient(async (client) => {
      const response = await client.responses.parse({
        model: "hermes",
        input: "second time",
        text: { format: zodTextFormat(Color, "color") }
      })
      assert.deepStrictEqual(response.output_parsed, { color: "blue" })
    })
  )

  it.live("stream the accepted answer alone", () =>
    withClient(async (client) => {
      const stream = await client.chat.completions.create({
        model: "hermes",
        messages: [user("second time")],
        response_format: zodResponseFormat(Color, "color"),
        stream: true
      })
      let text = ""
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? ""
      assert.strictEqual(text, '{ "color": "blue" }')
      let said = ""
      for await (const event of await client.responses.create({
        model: "hermes",
        input: "at once",
        text: { format: zodTextFormat(Color, "color") },
        stream: true
      }))
        if (event.type === "response.output_text.delta") said += event.delta
      assert.strictEqual(said, '{ "color": "red" }')
    })
  )

  it.live("are any object for json_object, and text again in the next turn", () =>
    withClient(async (client) => {
      const first = await client.chat.completions.create({
        model: "hermes",
        messages: [user("object")],
        response_format: { type: "json_object" }
      })
      const content = first.choices[0]?.message.content ?? ""
      assert.deepStrictEqual(JSON.parse(content), { free: [1, 2] })
      const second = await client.chat.completions.create({
        model: "hermes",
        messages: [user("object"), { role: "assistant", content }, user("words")]
      })
      assert.strictEqual(second.choices[0]?.message.content, "I would say red.")
    })
  )

  it.live("are no list for json_object", () =>
    withClient(async (client) => {
      const { choices } = await client.chat.completions.create({
        model: "hermes",
        messages: [user("list")],
        response_format: { type: "json_object" }
      })
      // The list was sent back for correction.
      assert.deepStrictEqual(JSON.parse(choices[0]?.message.content ?? ""), { color: "blue" })
    })
  )

  it.live("are not held up by a pattern of the client", () =>
    withClient(async (client) => {
      const schema = { type: "object", properties: { color: { type: "string", pattern: "^(a+)+$" } } }
      const { choices } = await client.chat.completions.create({
        model: "hermes",
        messages: [user("pattern")],
        response_format: { type: "json_schema", json_schema: { name: "x", schema } }
      })
      assert.include(choices[0]?.message.content, "aaaa")
    })
  )

  it.live("name a model that can be looked up by its id", () =>
    withClient(async (client) => {
      assert.deepInclude(await client.models.retrieve("hermes"), { id: "hermes", object: "model" })
      assert.deepStrictEqual((await statusOf(client.models.retrieve("a/b")))?.[0], 404)
    })
  )

  it.live("that never fit are 422, and a schema that cannot be used is 400 with its field", () =>
    withClient(async (client) => {
      const ask = (prompt: string, schema: Record<string, unknown>) =>
        client.chat.completions.create({
          model: "hermes",
          messages: [user(prompt)],
          response_format: { type: "json_schema", json_schema: { name: "x", schema } }
        })
      const never = { type: "object", properties: { color: { const: "black" } }, required: ["color"] }
      assert.deepStrictEqual((await statusOf(ask("second time", never)))?.[0], 422)
      const field = "response_format.json_schema.schema"
      assert.deepStrictEqual(await statusOf(ask("at once", {})), [400, field])
      assert.deepStrictEqual(await statusOf(ask("at once", { type: "array", items: {} })), [400, field])
      assert.deepStrictEqual(await statusOf(ask("at once", { if: {}, then: {} })), [400, field])
    })
  )

  it.live("do not bind messages that reach the session through the API of sessions", () =>
    Effect.gen(function* () {
      const { client, fetched, seen } = yield* world(plays)
      yield* Effect.promise(async () => {
        const { response } = await client.chat.completions
          .create({ model: "hermes", messages: [user("object")], response_format: { type: "json_object" } })
          .withResponse()
        const id = response.headers.get("x-hermes-session-id") ?? ""
        const sent = await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "words" } })
        assert.strictEqual(sent.status, 202)
        await until(() => seen.length >= 2)
        assert.deepStrictEqual(
          seen.map(({ response_format }) => response_format?.type),
          ["json_schema", undefined]
        )
      })
    })
  )
})
