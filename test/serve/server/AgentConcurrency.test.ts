// Several requests at once behind one answer, and sessions that come and go.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { until, user, weather, world } from "../../support/servedAgent.ts"

describe("requests at once", () => {
  it.live("that go on behind the same response are all answered, none with what another brought", () =>
    Effect.gen(function* () {
      const { client, fetched, seen } = yield* world({
        one: [{ text: "First." }],
        wait: [{ text: "I wait for", hangs: true }],
        red: [{ text: "Red." }],
        blue: [{ text: "Blue." }],
        green: [{ text: "Green." }]
      })
      yield* Effect.promise(async () => {
        const one = await client.responses.create({ model: "hermes", input: "one" })
        const answers = await Promise.all(
          ["red", "blue", "green"].map((input) =>
            client.responses.create({ model: "hermes", input, previous_response_id: one.id })
          )
        )
        assert.deepStrictEqual(
          answers.map(({ output_text }) => output_text),
          ["Red.", "Blue.", "Green."]
        )
        const said = seen
          .slice(1)
          .map(({ messages }) => messages.flatMap(({ content, role }) => (role === "user" ? [content] : [])))
        assert.sameDeepMembers(said, [
          ["one", "red"],
          ["one", "blue"],
          ["one", "green"]
        ])
        assert.strictEqual(new Set(answers.map(({ id }) => id)).size, 3)

        // Also while the turn behind it hangs; the fork has nothing of that turn.
        const two = await client.responses.create({ model: "hermes", input: "one" })
        const ending = new AbortController()
        const hanging = client.responses
          .create({ model: "hermes", input: "wait", previous_response_id: two.id }, { signal: ending.signal })
          .catch(() => "left")
        await until(() => JSON.stringify(seen.at(-1)?.messages).includes("wait"))
        const fork = await client.responses.create({ model: "hermes", input: "blue", previous_response_id: two.id })
        assert.strictEqual(fork.output_text, "Blue.")
        assert.deepStrictEqual(
          seen
            .at(-1)
            ?.messages.flatMap(({ content, role }) => (role === "user" || role === "assistant" ? [content] : [])),
          ["one", "First.", "blue"]
        )
        ending.abort()
        assert.strictEqual(await hanging, "left")

        // Of two that name one session, one is refused: they would be one conversation.
        const {
          body: { id }
        } = await fetched("/v1/sessions", { json: {} })
        const named = ["red", "blue"].map((content) =>
          fetched("/v1/chat/completions", {
            json: { messages: [user(content)] },
            headers: { "x-hermes-session-id": id }
          })
        )
        assert.sameMembers(
          (await Promise.all(named)).map(({ status }) => status),
          [200, 409]
        )
      })
    })
  )

  it.live("a script cannot call a tool of the client by the name of one of the agent's, and stalls nothing", () =>
    Effect.gen(function* () {
      const { fetched, seen } = yield* world(
        {
          script: [
            {
              calls: [
                [
                  "execute_code",
                  {
                    language: "javascript",
                    code: 'try { console.log(read_file({ path: "a" })) } catch (error) { console.log(error.message) }'
                  }
                ]
              ]
            },
            { text: "It cannot." }
          ],
          directly: [{ calls: [["read_file", { path: "a" }]] }, { text: "Read." }]
        },
        { mode: "yolo" }
      )
      const mine = {
        type: "function" as const,
        function: {
          name: "read_file",
          description: "Mine",
          parameters: { type: "object", properties: { path: { type: "string" } } }
        }
      }
      yield* Effect.promise(async () => {
        const { body } = await fetched("/v1/chat/completions", { json: { messages: [user("script")], tools: [mine] } })
        assert.strictEqual(body.choices[0].message.content, "It cannot.")
        assert.include(
          JSON.stringify(seen.at(-1)?.messages),
          "A script cannot call read_file: it is a tool of the client. Call it directly."
        )
        const direct = await fetched("/v1/chat/completions", { json: { messages: [user("directly")], tools: [mine] } })
        assert.strictEqual(direct.body.choices[0].finish_reason, "tool_calls")
      })
    })
  )
})

describe("sessions that nobody uses", () => {
  it.live("are released, the oldest first, and come back as they were", () =>
    Effect.gen(function* () {
      const { fetched, seen } = yield* world(
        {
          "Say hello": [{ text: "Hello." }],
          weather: [{ calls: [["weather", { place: "Rome" }]] }, { text: "Warm." }]
        },
        { maxUnused: 2 }
      )
      const open = async () => Number(/hermes_sessions_open (\d+)/u.exec((await fetched("/metrics")).body)?.[1])
      yield* Effect.promise(async () => {
        const {
          body: { id }
        } = await fetched("/v1/sessions", { json: { mode: "plan" } })
        await fetched("/v1/chat/completions", {
          json: { messages: [user("Say hello")] },
          headers: { "x-hermes-session-id": id }
        })
        // A call that its client is to answer keeps its session.
        const waiting = await fetched("/v1/chat/completions", {
          json: { messages: [user("weather")], tools: [weather] }
        })
        for (let count = 0; count < 5; count++)
          await fetched("/v1/chat/completions", { json: { messages: [user("Say hello")] } })
        while ((await open()) > 3) await new Promise((resolve) => setTimeout(resolve, 10))
        assert.strictEqual(await open(), 3)
        const call = waiting.body.choices[0].message.tool_calls[0].id
        const answered = await fetched("/v1/chat/completions", {
          json: { messages: [{ role: "tool", tool_call_id: call, content: "30" }], tools: [weather] }
        })
        assert.strictEqual(answered.body.choices[0].message.content, "Warm.")

        const again = await fetched(`/v1/sessions/${id}`)
        assert.deepStrictEqual([again.status, again.body.mode], [200, "plan"])
        await fetched("/v1/chat/completions", {
          json: { messages: [user("Say hello")] },
          headers: { "x-hermes-session-id": id }
        })
        assert.deepStrictEqual(
          seen.at(-1)?.messages.flatMap(({ content, role }) => (role === "assistant" ? [content] : [])),
          ["Hello."]
        )
      })
    })
  )
})
