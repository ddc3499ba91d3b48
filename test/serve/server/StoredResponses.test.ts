// Responses and conversations of the served agent that are read, continued and removed by the official client.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import OpenAI, { APIError } from "openai"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { weather, world } from "../../support/servedAgent.ts"

const plays = {
  "Say hello": [{ text: "Hello." }],
  "one place": [{ text: "I ask.", calls: [["weather", { place: "Rome" }]] }, { text: "Warm." }],
  again: [{ text: "Hello again." }],
  bye: [{ text: "Bye." }]
} as const satisfies Parameters<typeof world>[0]

type World = Effect.Success<ReturnType<typeof world>>

const withClient = (use: (client: OpenAI, served: World) => Promise<void>) =>
  Effect.flatMap(world(plays), (served) => Effect.promise(() => use(served.client, served)))

const tool = { type: "function" as const, name: "weather", strict: false, parameters: weather.function.parameters }

const refusal = async (answer: PromiseLike<unknown>) => {
  const error: unknown = await answer.then(
    () => undefined,
    (given: unknown) => given
  )
  if (!(error instanceof APIError)) throw new Error("no refusal")
  return [error.status, error.param ?? error.code]
}

const ask = (client: OpenAI, input: OpenAI.Responses.ResponseInput | string, more: object = {}) =>
  client.responses.create({ model: "hermes", input, ...more, stream: false })

const rolesOf = ({ seen }: World) => seen.at(-1)?.messages.map(({ role }) => role)

const callOf = ({ output }: OpenAI.Responses.Response) => {
  const call = output.find((item) => item.type === "function_call")
  if (call?.type !== "function_call") throw new Error("no call")
  return call
}

const textsOf = (items: ReadonlyArray<unknown>) =>
  items.map((item) => /"text":"([^"]*)"/u.exec(JSON.stringify(item))?.[1])

describe("a stored response", () => {
  it.live("is the response that was given, whole or streamed, with its input", () =>
    withClient(async (client) => {
      const first = await ask(client, "Say hello", { metadata: { a: "b" }, instructions: "Be short." })
      assert.deepStrictEqual(await client.responses.retrieve(first.id), first)
      const stream = client.responses.stream({ model: "hermes", input: "again", previous_response_id: first.id })
      const second = await stream.finalResponse()
      assert.strictEqual((await client.responses.retrieve(second.id)).output_text, "Hello again.")
      const input = await client.responses.inputItems.list(second.id, { order: "asc" })
      assert.deepStrictEqual(textsOf(input.data), ["Say hello", "Hello.", "again"])
      const page = await client.responses.inputItems.list(second.id, { limit: 1 })
      assert.deepStrictEqual([textsOf(page.data), page.has_more], [["again"], true])
    })
  )

  it.live("has the calls of the caller's tools, and is another one after their results", () =>
    withClient(async (client) => {
      const asked = await ask(client, "one place", { tools: [tool] })
      const done = await ask(client, [{ type: "function_call_output", call_id: callOf(asked).call_id, output: "30" }], {
        previous_response_id: asked.id
      })
      assert.notStrictEqual(asked.id, done.id)
      assert.deepStrictEqual(await client.responses.retrieve(asked.id), asked)
      assert.deepStrictEqual(await client.responses.retrieve(done.id), done)
      assert.deepStrictEqual([asked.output_text, done.output_text], ["I ask.", "Warm."])
    })
  )

  it.live("is removed with its conversation, unless that has other responses", () =>
    withClient(async (client) => {
      const first = await ask(client, "Say hello")
      const second = await ask(client, "again", { previous_response_id: first.id })
      assert.deepStrictEqual(await refusal(client.responses.delete(first.id)), [400, "response_id"])
      assert.strictEqual((await client.responses.retrieve(second.id)).output_text, "Hello again.")
      const alone = await ask(client, "bye")
      await client.responses.delete(alone.id)
      assert.deepStrictEqual(await refusal(client.responses.retrieve(alone.id)), [404, "response_not_found"])
      assert.deepStrictEqual(await refusal(ask(client, "again", { previous_response_id: alone.id })), [
        404,
        "session_not_found"
      ])
    })
  )

  it.live("is not kept if the request says so", () =>
    withClient(async (client, served) => {
      const listed = async () => (await served.fetched("/v1/sessions")).body.data.length
      const first = await ask(client, "Say hello", { store: false })
      assert.isFalse("store" in first && first.store)
      assert.deepStrictEqual(await refusal(client.responses.retrieve(first.id)), [404, "response_not_found"])
      const kept = await ask(client, "again")
      const beside = await ask(client, "bye", { previous_response_id: kept.id, store: false })
      assert.deepStrictEqual(rolesOf(served), ["system", "user", "assistant", "user"])
      assert.deepStrictEqual(await refusal(client.responses.retrieve(beside.id)), [404, "response_not_found"])
      const asked = await ask(client, "one place", { tools: [tool], store: false })
      const { arguments: args, call_id, name } = callOf(asked)
      const done = await ask(
        client,
        [
          { role: "user", content: "one place" },
          { type: "function_call", call_id, name, arguments: args },
          { type: "function_call_output", call_id, output: "30" }
        ],
        { store: false }
      )
      assert.strictEqual(done.output_text, "Warm.")
      for (let left = await listed(); left !== 1; left = await listed())
        await new Promise((resolve) => setTimeout(resolve, 10))
      assert.strictEqual((await client.responses.retrieve(kept.id)).output_text, "Hello again.")
    })
  )

  it.live("is found by another process, without its usage", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const first = yield* Effect.scoped(
        Effect.flatMap(
          world(plays, {}, (runtime) => runtime, directory),
          ({ client }) => Effect.promise(() => ask(client, "Say hello"))
        )
      )
      const { client } = yield* world(plays, {}, (runtime) => runtime, directory)
      yield* Effect.promise(async () => {
        const found = await client.responses.retrieve(first.id)
        assert.deepInclude(found, { id: first.id, status: "completed", output_text: "Hello." })
        assert.isNull(found.usage)
        await client.responses.delete(first.id)
        assert.deepStrictEqual(await refusal(client.responses.retrieve(first.id)), [404, "response_not_found"])
      })
    })
  )

  it.live("stands for its items in later requests", () =>
    withClient(async (client, served) => {
      const user = (content: string) => ({ role: "user" as const, content })
      const asked = await ask(client, [user("one place")], { tools: [tool] })
      const refer = (response: OpenAI.Responses.Response) =>
        response.output.map(({ id }) => ({ type: "item_reference" as const, id: id ?? "" }))
      const result = { type: "function_call_output" as const, call_id: callOf(asked).call_id, output: "30" }
      const input = [user("one place"), ...refer(asked), result]
      const done = await ask(client, input, { tools: [tool] })
      assert.strictEqual(done.output_text, "Warm.")
      const last = await ask(client, [...input, ...refer(done), user("again")], { tools: [tool] })
      assert.strictEqual(last.output_text, "Hello again.")
      assert.deepStrictEqual(rolesOf(served), ["system", "user", "assistant", "tool", "assistant", "user"])
      assert.deepStrictEqual(await refusal(ask(client, [{ type: "item_reference", id: "msg_1" }, user("x")])), [
        404,
        "item_not_found"
      ])
    })
  )

  it.live("is refused what cannot be done, with its field", () =>
    withClient(async (client) => {
      const first = await ask(client, "Say hello")
      for (const [field, more] of [
        ["background", { background: true }],
        ["store", { store: "no" }],
        ["store", { store: false, conversation: (await client.conversations.create()).id }],
        ["previous_response_id", { previous_response_id: first.id, conversation: "conv_x" }]
      ] as const) {
        assert.deepStrictEqual(await refusal(ask(client, "again", more)), [400, field])
      }
    })
  )
})

describe("a conversation", () => {
  it.live("is created, continued, listed and removed", () =>
    withClient(async (client, served) => {
      const { id } = await client.conversations.create({
        items: [
          { type: "message", role: "user", content: "My name is Ada." },
          { type: "message", role: "assistant", content: "Welcome." } as never
        ]
      })
      const first = await ask(client, "Say hello", { conversation: id })
      assert.deepStrictEqual([first.conversation, rolesOf(served)], [{ id }, ["system", "user", "assistant", "user"]])
      const added = await client.conversations.items.create(id, {
        items: [{ type: "message", role: "user", content: "I was in Rome." }]
      })
      assert.deepStrictEqual(textsOf(added.data), ["I was in Rome."])
      await ask(client, "again", { conversation: { id } })
      assert.include(JSON.stringify(served.seen.at(-1)?.messages), "I was in Rome.")
      const items = await client.conversations.items.list(id, { order: "asc" })
      assert.deepStrictEqual(textsOf(items.data).slice(0, 5), [
        "My name is Ada.",
        "Welcome.",
        "Say hello",
        "Hello.",
        "I was in Rome."
      ])
      const item = added.data[0]?.id ?? ""
      assert.deepInclude(await client.conversations.items.retrieve(item, { conversation_id: id }), { id: item })
      assert.deepInclude(await client.conversations.retrieve(id), { id, object: "conversation" })
      assert.deepInclude(await client.conversations.update(id, { metadata: {} }), { id })
      assert.deepStrictEqual(await refusal(client.conversations.items.delete(item, { conversation_id: id })), [
        400,
        "item_id"
      ])
      assert.deepStrictEqual(await refusal(client.conversations.update(id, { metadata: { a: "b" } })), [
        400,
        "metadata"
      ])
      assert.deepInclude(await client.conversations.delete(id), { id, deleted: true })
      assert.deepStrictEqual(await refusal(client.conversations.retrieve(id)), [404, "conversation_not_found"])
      assert.deepStrictEqual(await refusal(ask(client, "again", { conversation: id })), [404, "session_not_found"])
    })
  )

  it.live("and a response belong to the key that began them", () =>
    Effect.gen(function* () {
      const key = (name: string) => ({ name, key: Redacted.make(`${name}-0123456789abcdef`) })
      const { url } = yield* world(plays, { keys: [key("alice"), key("bob")] })
      const [alice, bob] = ["alice", "bob"].map(
        (name) => new OpenAI({ baseURL: `${url}/v1`, apiKey: `${name}-0123456789abcdef`, maxRetries: 0 })
      ) as [OpenAI, OpenAI]
      yield* Effect.promise(async () => {
        const { id } = await alice.conversations.create()
        const response = await ask(alice, "Say hello", { conversation: id })
        const message = response.output[0]?.id ?? ""
        for (const attempt of [
          bob.responses.retrieve(response.id),
          bob.responses.delete(response.id),
          bob.responses.inputItems.list(response.id),
          bob.conversations.retrieve(id),
          bob.conversations.delete(id),
          bob.conversations.items.list(id),
          bob.conversations.items.create(id, { items: [{ type: "message", role: "user", content: "x" }] }),
          ask(bob, "again", { conversation: id }),
          ask(bob, "again", { previous_response_id: response.id }),
          ask(bob, [
            { type: "item_reference", id: message },
            { role: "user", content: "again" }
          ])
        ]) {
          assert.strictEqual((await refusal(attempt))[0], 404)
        }
        assert.strictEqual((await alice.responses.retrieve(response.id)).output_text, "Hello.")
      })
    })
  )
})
