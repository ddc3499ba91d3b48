// The agent over HTTP, driven by the official client of OpenAI, the official client of MCP, and by clients that keep to
// nothing.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import type OpenAI from "openai"
import { readEvents, until, user, weather, world } from "../../support/servedAgent.ts"

describe("chat completions of an agent", () => {
  it.live("work with the official client: whole, streamed, continued, with the caller's tools beside its own", () =>
    Effect.gen(function* () {
      const { client, fetched, seen, url } = yield* world({
        "Say hello": [{ text: "Hello there." }],
        "And again": [{ text: "Hello again." }],
        weather: [
          { calls: [["todo", { todos: [{ id: "1", content: "ask" }] }]] },
          {
            text: "I ask.",
            calls: [
              ["weather", { place: "Rome" }],
              ["weather", { place: "Oslo" }]
            ]
          },
          { text: "Rome is warm, Oslo is cold." }
        ]
      })
      yield* Effect.promise(async () => {
        const { data, response } = await client.chat.completions
          .create({ model: "hermes", messages: [{ role: "system", content: "Be short." }, user("Say hello")] })
          .withResponse()
        assert.deepStrictEqual(
          [
            data.choices[0]?.message.content,
            data.choices[0]?.finish_reason,
            data.usage?.prompt_tokens,
            data.usage?.completion_tokens
          ],
          ["Hello there.", "stop", 100, 10]
        )
        const session = response.headers.get("x-hermes-session-id")
        assert.match(session ?? "", /^\d{8}_/)
        assert.include(JSON.stringify(seen.at(-1)?.messages[0]), "Be short.")

        // A client that keeps the messages goes on in the same session.
        const again = await client.chat.completions
          .create({
            model: "hermes",
            stream: true,
            stream_options: { include_usage: true },
            messages: [
              { role: "system", content: "Be short." },
              user("Say hello"),
              { role: "assistant", content: "Hello there." },
              user("And again")
            ]
          })
          .withResponse()
        let text = ""
        let total = 0
        for await (const chunk of again.data) {
          text += chunk.choices[0]?.delta.content ?? ""
          total = chunk.usage?.total_tokens ?? total
        }
        assert.deepStrictEqual(
          [text, total, again.response.headers.get("x-hermes-session-id")],
          ["Hello again.", 110, session]
        )
        assert.deepStrictEqual(
          seen
            .at(-1)
            ?.messages.slice(1)
            .map(({ role }) => role),
          ["user", "assistant", "user"]
        )

        // Messages that nobody knows begin a session with them.
        const other = await client.chat.completions
          .create({
            model: "hermes",
            messages: [user("Say hello"), { role: "assistant", content: "Something else." }, user("And again")]
          })
          .withResponse()
        assert.notStrictEqual(other.response.headers.get("x-hermes-session-id"), session)
        assert.include(JSON.stringify(seen.at(-1)?.messages), "Something else.")

        // The caller's tools, two at once, beside one of the agent.
        const messages: Array<OpenAI.ChatCompletionMessageParam> = [user("What is the weather?")]
        const first = await client.chat.completions.create({ model: "hermes", messages, tools: [weather] })
        const asked = first.choices[0]?.message
        assert.deepStrictEqual([first.choices[0]?.finish_reason, asked?.content], ["tool_calls", "I ask."])
        assert.deepStrictEqual(
          asked?.tool_calls?.map((call) =>
            call.type === "function" ? [call.function.name, JSON.parse(call.function.arguments)] : []
          ),
          [
            ["weather", { place: "Rome" }],
            ["weather", { place: "Oslo" }]
          ]
        )
        assert.includeMembers(seen.at(-1)?.tools?.map((tool) => tool.function.name) ?? [], [
          "weather",
          "todo",
          "read_file"
        ])
        const results = (asked?.tool_calls ?? []).map((call, index) => ({
          role: "tool" as const,
          tool_call_id: call.id,
          content: index === 0 ? "30 degrees" : "-10 degrees"
        }))
        const second = await client.chat.completions.create({
          model: "hermes",
          tools: [weather],
          messages: [
            ...messages,
            { role: "assistant", content: "I ask.", tool_calls: asked?.tool_calls ?? [] },
            ...results
          ]
        })
        assert.strictEqual(second.choices[0]?.message.content, "Rome is warm, Oslo is cold.")
        assert.deepStrictEqual(
          seen
            .at(-1)
            ?.messages.filter(({ role }) => role === "tool")
            .map(({ content }) => content)
            .slice(1),
          ["30 degrees", "-10 degrees"]
        )

        // Other callers do not get that tool.
        await client.chat.completions.create({ model: "hermes", messages: [user("Say hello")] })
        assert.notInclude(seen.at(-1)?.tools?.map((tool) => tool.function.name) ?? [], "weather")

        // What is refused, and that the session is usable after it.
        const bad = async (json: unknown, headers = {}) => {
          const { body, status } = await fetched("/v1/chat/completions", { json, headers })
          return [status, body.error.code]
        }
        assert.deepStrictEqual(await bad({ model: "hermes", messages: [] }), [400, "invalid_request"])
        assert.deepStrictEqual(await bad({ model: "gpt-none", messages: [user("x")] }), [404, "model_not_found"])
        assert.deepStrictEqual(await bad({ messages: [{ role: "tool", tool_call_id: "nobody", content: "x" }] }), [
          400,
          "unknown_tool_call"
        ])
        assert.deepStrictEqual(await bad({ messages: [user("x")] }, { "x-hermes-session-id": "nobody" }), [
          404,
          "session_not_found"
        ])
        assert.deepStrictEqual(
          (
            await fetched("/v1/chat/completions", {
              method: "POST",
              body: "{",
              headers: { "content-type": "application/json" }
            })
          ).body.error.code,
          "invalid_json"
        )
        assert.strictEqual((await fetched("/v1/nothing")).status, 404)
        const byHeader = await client.chat.completions.create(
          { model: "hermes", messages: [user("And again")] },
          { headers: { "x-hermes-session-id": session ?? "" } }
        )
        assert.strictEqual(byHeader.choices[0]?.message.content, "Hello again.")

        assert.deepStrictEqual((await fetched("/health")).body, { status: "ok" })
        assert.include((await fetched("/metrics")).body, "hermes_turns_total 6")
        assert.includeMembers(Object.keys((await fetched("/openapi.json")).body.paths), [
          "/v1/chat/completions",
          "/v1/responses",
          "/v1/sessions/{id}/events"
        ])
        assert.deepStrictEqual(
          (await client.models.list()).data.map(({ id }) => id),
          ["hermes"]
        )
        assert.include(url, "127.0.0.1")
      })
    })
  )
})

describe("responses of an agent", () => {
  it.live("work with the official client: continued, branched, streamed, with calls", () =>
    Effect.gen(function* () {
      const { client, seen } = yield* world({
        one: [{ text: "First." }],
        two: [{ text: "Second." }],
        three: [{ text: "Third." }],
        weather: [{ calls: [["weather", { place: "Rome" }]] }, { text: "Warm." }]
      })
      yield* Effect.promise(async () => {
        const one = await client.responses.create({ model: "hermes", input: "one", instructions: "Be short." })
        assert.deepStrictEqual([one.output_text, one.status, one.usage?.input_tokens], ["First.", "completed", 100])
        const two = await client.responses.create({
          model: "hermes",
          input: [{ role: "user", content: "two" }],
          previous_response_id: one.id
        })
        assert.strictEqual(two.output_text, "Second.")
        assert.deepStrictEqual(
          seen
            .at(-1)
            ?.messages.filter(({ role }) => role === "user")
            .map(({ content }) => content),
          ["one", "two"]
        )
        const branch = await client.responses.create({ model: "hermes", input: "three", previous_response_id: one.id })
        assert.strictEqual(branch.output_text, "Third.")
        assert.deepStrictEqual(
          seen
            .at(-1)
            ?.messages.filter(({ role }) => role === "user")
            .map(({ content }) => content),
          ["one", "three"]
        )

        const stream = await client.responses.create({ model: "hermes", input: "one", stream: true })
        const types: Array<string> = []
        let text = ""
        for await (const event of stream) {
          types.push(event.type)
          if (event.type === "response.output_text.delta") text += event.delta
          if (event.type === "response.completed") assert.strictEqual(event.response.output_text ?? "First.", "First.")
        }
        assert.strictEqual(text, "First.")
        assert.deepStrictEqual(
          [types.slice(0, 4), types.slice(-4)],
          [
            ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"],
            [
              "response.output_text.done",
              "response.content_part.done",
              "response.output_item.done",
              "response.completed"
            ]
          ]
        )

        const tool = {
          type: "function" as const,
          name: "weather",
          strict: false,
          parameters: weather.function.parameters
        }
        const asked = await client.responses.create({ model: "hermes", input: "the weather", tools: [tool] })
        const [call] = asked.output
        if (call?.type !== "function_call") throw new Error(JSON.stringify(asked.output))
        assert.deepStrictEqual([call.name, call.arguments], ["weather", `{"place":"Rome"}`])
        const done = await client.responses.create({
          model: "hermes",
          previous_response_id: asked.id,
          tools: [tool],
          input: [{ type: "function_call_output", call_id: call.call_id, output: "30" }]
        })
        assert.strictEqual(done.output_text, "Warm.")
      })
    })
  )
})

describe("sessions of an agent", () => {
  it.live("tell events, take approvals and steering, and go on behind a connection that broke", () =>
    Effect.gen(function* () {
      const { aborted, authorized, cwd, fetched, seen, url } = yield* world({
        "remove it": [{ calls: [["terminal", { command: "rm -rf ../elsewhere" }]] }, { text: "Removed." }],
        wait: [{ text: "I wait for", hangs: true }],
        "plan this": [{ text: "First a, then b." }],
        long: [{ text: "x".repeat(100_000) }]
      })
      mkdirSync(join(cwd, "elsewhere"))
      yield* Effect.promise(async () => {
        const {
          body: { id },
          status
        } = await fetched("/v1/sessions", { json: { mode: "ask" } })
        assert.strictEqual(status, 201)
        const reader = readEvents(`${url}/v1/sessions/${id}/events`, authorized)
        await until(() => seen.length === 0)
        await new Promise((resolve) => setTimeout(resolve, 100))
        const sent = await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "remove it" } })
        assert.deepStrictEqual([sent.status, sent.body.status], [202, "started"])
        await until(() => reader.types().includes("approval_asked"))
        const asked = reader.events.find(({ data }) => data["type"] === "approval_asked")?.data ?? {}
        assert.deepInclude(asked, { tool: "terminal", command: "rm -rf ../elsewhere" })
        assert.strictEqual(
          (await fetched(`/v1/sessions/${id}/questions/nobody`, { json: { choice: "once" } })).status,
          404
        )
        assert.strictEqual(
          (
            await fetched(`/v1/sessions/${id}/questions/${asked["question_id"]}`, {
              json: { choice: "deny", reason: "not now" }
            })
          ).status,
          204
        )
        await until(() => reader.types().includes("turn_ended"))
        assert.include(JSON.stringify(seen.at(-1)?.messages), "not now")
        const all = reader.events.map((event) => event.id)
        assert.deepStrictEqual(
          all,
          all.map((_, index) => (all[0] ?? 0) + index)
        )
        await reader.stop()

        // Behind a broken connection: from the last event on, once each.
        const last = reader.events.at(-3)?.id ?? 0
        const again = readEvents(`${url}/v1/sessions/${id}/events`, { ...authorized, "last-event-id": `${last}` })
        await until(() => again.events.length >= 2)
        assert.deepStrictEqual(
          again.events.map((event) => event.id),
          [last + 1, last + 2]
        )

        await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "long" } })
        await until(() => again.types().filter((type) => type === "turn_ended").length === 2)
        assert.strictEqual(
          again.events.findLast(({ data }) => data["type"] === "turn_ended")?.data["text"],
          "x".repeat(100_000)
        )

        // A plan is approved with the mode to go on in.
        await fetched(`/v1/sessions/${id}`, { method: "PATCH", json: { mode: "plan" } })
        await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "plan this" } })
        await until(() => again.types().includes("plan_presented"))
        const plan = again.events.find(({ data }) => data["type"] === "plan_presented")?.data ?? {}
        assert.deepInclude(plan, { turn: 3, plan: "First a, then b.", modes: ["ask", "edits", "auto"] })
        assert.strictEqual(
          (await fetched(`/v1/sessions/${id}/questions/${plan["question_id"]}`, { json: { answers: ["yes"] } })).status,
          400
        )
        assert.strictEqual(
          (
            await fetched(`/v1/sessions/${id}/questions/${plan["question_id"]}`, {
              json: { mode: "ask", words: "Begin with b." }
            })
          ).status,
          204
        )
        await until(() => again.types().filter((type) => type === "turn_ended").length === 4)
        assert.include(
          JSON.stringify(seen.at(-1)?.messages),
          "The plan is approved. Carry it out now.\\n\\nBegin with b."
        )
        assert.strictEqual((await fetched(`/v1/sessions/${id}`)).body.mode, "ask")

        // Steering and stopping.
        await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "wait" } })
        await until(() => again.types().includes("TextDelta"))
        const queued = await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "later", busy: "queue" } })
        assert.strictEqual(queued.body.status, "queued")
        assert.lengthOf((await fetched(`/v1/sessions/${id}`)).body.queue, 1)
        const begun = again.types().filter((type) => type === "turn_started").length
        // What was queued is returned, and does not begin behind the stopped turn.
        assert.deepStrictEqual((await fetched(`/v1/sessions/${id}/stop`, { json: {} })).body, {
          stopped: true,
          returned: [{ message_id: queued.body.message_id, prompt: "later" }]
        })
        await until(() => aborted() === 1)
        await until(() => again.events.at(-1)?.data["type"] === "turn_ended")
        assert.lengthOf((await fetched(`/v1/sessions/${id}`)).body.queue, 0)
        assert.deepStrictEqual(
          again.events.find(({ data }) => data["type"] === "messages_returned")?.data["messages"],
          [{ message_id: queued.body.message_id, prompt: "later" }]
        )
        assert.isNull((await fetched(`/v1/sessions/${id}`)).body.turn)
        assert.strictEqual(again.types().filter((type) => type === "turn_started").length, begun)
        await again.stop()

        assert.include(
          (await fetched(`/v1/sessions/${id}/messages`)).body.data.map(
            ({ content }: { readonly content: string }) => content
          ),
          "remove it"
        )
        assert.include(
          (await fetched("/v1/sessions")).body.data.map((one: { readonly id: string }) => one.id),
          id
        )
        assert.strictEqual((await fetched(`/v1/sessions/${id}`, { method: "DELETE" })).status, 204)
        assert.strictEqual((await fetched(`/v1/sessions/${id}`, { method: "DELETE" })).status, 404)

        // Without a reader nobody can be asked, and no request hangs.
        const denied = await fetched("/v1/chat/completions", { json: { messages: [user("remove it")] } })
        assert.strictEqual(denied.body.choices[0].message.content, "Removed.")
        assert.include(JSON.stringify(seen.at(-1)?.messages), "Approvals are not available over this connection.")

        // A client that hangs up in the middle stops the turn; the session answers afterwards.
        const ending = new AbortController()
        const response = await fetch(`${url}/v1/chat/completions`, {
          method: "POST",
          headers: { ...authorized, "content-type": "application/json" },
          body: JSON.stringify({ stream: true, messages: [user("wait")] }),
          signal: ending.signal
        })
        const session = response.headers.get("x-hermes-session-id") ?? ""
        ending.abort()
        await until(() => aborted() === 2)
        await until(() => seen.length > 0)
        let busy = 409
        for (; busy === 409; await new Promise((resolve) => setTimeout(resolve, 20)))
          busy = (
            await fetched("/v1/chat/completions", {
              json: { messages: [user("long")] },
              headers: { "x-hermes-session-id": session }
            })
          ).status
        assert.strictEqual(busy, 200)
      })
    })
  )

  it.live("are bounded, guarded by a key, and reached over MCP", () =>
    Effect.gen(function* () {
      const key = "a-long-random-key-of-this-test"
      const { fetched, url } = yield* world(
        { wait: [{ text: "x", hangs: true }] },
        {
          key: Redacted.make(key),
          maxSessions: 2,
          mcpTools: [
            {
              name: "echo",
              description: "Echo",
              parameters: { properties: { text: { type: "string" } } },
              readOnly: true,
              run: ({ text }) => Effect.succeed(`echo ${String(text)}`)
            }
          ]
        }
      )
      const headers = { authorization: `Bearer ${key}` }
      yield* Effect.promise(async () => {
        assert.strictEqual((await fetched("/v1/sessions")).status, 401)
        assert.strictEqual((await fetched("/metrics")).status, 401)
        assert.strictEqual((await fetched("/mcp", { json: {} })).status, 401)
        assert.strictEqual((await fetched("/health")).status, 200)
        assert.strictEqual(
          (await fetched("/v1/sessions", { headers: { ...headers, origin: "https://elsewhere.example" } })).status,
          403
        )
        for (const _ of [1, 2]) {
          const { body } = await fetched("/v1/sessions", { json: {}, headers })
          await fetched(`/v1/sessions/${body.id}/messages`, { json: { prompt: "wait" }, headers })
        }
        assert.deepStrictEqual(
          (await fetched("/v1/sessions", { json: {}, headers })).body.error.code,
          "too_many_sessions"
        )

        const client = new Client({ name: "test", version: "1" })
        await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }))
        assert.deepStrictEqual(
          (await client.listTools()).tools.map(({ name }) => name),
          ["echo"]
        )
        assert.deepStrictEqual((await client.callTool({ name: "echo", arguments: { text: "hi" } })).content, [
          { type: "text", text: "echo hi" }
        ])
        await client.close()
      })
    })
  )
})

describe("clients of an agent that keep to nothing", () => {
  it.live("get the conversation that is theirs, their own calls, and stop no other's turn", () =>
    Effect.gen(function* () {
      const { aborted, authorized, client, fetched, seen, url } = yield* world({
        "Say hello": [{ text: "Hello." }],
        "And again": [{ text: "Again." }],
        "note it": [
          { text: "I note it.", calls: [["todo", { todos: [{ id: "1", content: "secret of this one" }] }]] },
          { text: "Noted." }
        ],
        "weather of Rome": [{ calls: [["weather", { place: "Rome" }, "functions.weather:0"]] }, { text: "Rome." }],
        "weather of Oslo": [{ calls: [["weather", { place: "Oslo" }, "functions.weather:0"]] }, { text: "Oslo." }],
        "my todo": [{ calls: [["todo", { mine: true }]] }, { text: "Yours." }],
        delegate: [{ calls: [["delegate_task", { tasks: [{ goal: "child goal" }] }]] }, { text: "Delegated." }],
        "child goal": [{ text: "The child is done." }],
        wait: [{ text: "I wait for", hangs: true }]
      })
      const chat = (
        messages: ReadonlyArray<unknown>,
        more: Record<string, unknown> = {},
        headers: Record<string, string> = {}
      ) => fetched("/v1/chat/completions", { json: { messages, ...more }, headers })
      const sessionOf = ({ headers }: { readonly headers: Headers }) => headers.get("x-hermes-session-id") ?? ""
      const said = () =>
        seen.at(-1)?.messages.flatMap(({ content, role }) => (role === "user" || role === "assistant" ? [content] : []))
      const answer = (content: string) => ({ role: "assistant", content })
      yield* Effect.promise(async () => {
        // The answer is asked for once more: the second does not see the first.
        const first = await chat([user("Say hello")])
        const history = [user("Say hello"), answer("Hello."), user("And again")]
        const again = await chat(history)
        assert.strictEqual(sessionOf(again), sessionOf(first))
        const regenerated = await chat(history)
        assert.notStrictEqual(sessionOf(regenerated), sessionOf(first))
        assert.deepStrictEqual(said(), ["Say hello", "Hello.", "And again"])

        // Text before a call of the agent's own is one answer for the client, and its conversation goes on with what
        // the tools returned.
        const noted = await chat([user("note it")])
        const { content } = noted.body.choices[0].message
        assert.strictEqual(content, "I note it.\n\nNoted.")
        const followed = await chat([user("note it"), answer(content), user("And again")])
        assert.strictEqual(sessionOf(followed), sessionOf(noted))
        assert.include(JSON.stringify(seen.at(-1)?.messages), "secret of this one")

        // Two conversations of the same words: neither gets what only the other knows.
        const twins = [await chat([user("note it")]), await chat([user("note it")])]
        const third = await chat([user("note it"), answer(content), user("And again")])
        assert.notInclude(twins.map(sessionOf), sessionOf(third))
        assert.notInclude(JSON.stringify(seen.at(-1)?.messages), "secret of this one")

        // Models count their calls anew in each conversation.
        const tools = [weather]
        const rome = await chat([user("weather of Rome")], { tools })
        const oslo = await chat([user("weather of Oslo")], { tools })
        const idOf = ({ body }: typeof rome): string => body.choices[0].message.tool_calls[0].id
        assert.notStrictEqual(idOf(rome), idOf(oslo))
        const result = (id: string, content: string) => ({ role: "tool", tool_call_id: id, content })
        const warm = await chat(
          [
            user("weather of Rome"),
            { role: "assistant", content: null, tool_calls: rome.body.choices[0].message.tool_calls },
            result(idOf(rome), "warm")
          ],
          { tools }
        )
        assert.strictEqual(warm.body.choices[0].message.content, "Rome.")
        assert.include(JSON.stringify(seen.at(-1)?.messages), "warm")
        assert.strictEqual((await chat([result(idOf(rome), "late")], { tools })).body.error.code, "unknown_tool_call")
        // The caller goes on without a result: the call fails, and the new message has an answer of its own.
        const went = await chat([user("Say hello")], { tools }, { "x-hermes-session-id": sessionOf(oslo) })
        assert.strictEqual(went.body.choices[0].message.content, "Hello.")
        assert.strictEqual((await chat([result(idOf(oslo), "late")], { tools })).body.error.code, "unknown_tool_call")

        // A tool by the name of one of the agent's is this session's; others, and children, have the agent's.
        const mine = {
          type: "function" as const,
          function: {
            name: "todo",
            description: "Mine",
            parameters: { type: "object", properties: { mine: { type: "boolean" } } }
          }
        }
        const shadow = await client.chat.completions.create({
          model: "hermes",
          messages: [user("my todo")],
          tools: [mine]
        })
        assert.strictEqual(shadow.choices[0]?.finish_reason, "tool_calls")
        const own = await chat([user("note it")])
        assert.strictEqual(own.body.choices[0].finish_reason, "stop")
        const delegated = await chat([user("delegate")], { tools: [weather, mine] })
        assert.strictEqual(delegated.body.choices[0].message.content, "Delegated.")
        const child = seen.find(({ messages }) =>
          JSON.stringify(messages.findLast(({ role }) => role === "user")).includes("child goal")
        )
        assert.notInclude(child?.tools?.map((tool) => tool.function.name) ?? ["weather"], "weather")
        assert.strictEqual(
          (await chat([user("Say hello")], { tools: [weather, weather] })).body.error.message,
          `tools has "weather" twice. Give each a name of its own.`
        )

        // Names of sessions that are none.
        for (const id of ["../../etc/passwd", "..%2f..", "%00", "x".repeat(10_000), "*", "' or 1=1 --"]) {
          assert.strictEqual(
            (await chat([user("Say hello")], {}, { "x-hermes-session-id": id })).status,
            404,
            id.slice(0, 20)
          )
        }

        // A client goes away while another's turn is before its own: that turn goes on.
        const {
          body: { id }
        } = await fetched("/v1/sessions", { json: {} })
        const header = { ...authorized, "x-hermes-session-id": id, "content-type": "application/json" }
        await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "wait" } })
        const view = async () => (await fetched(`/v1/sessions/${id}`)).body
        for (const stream of [true, false]) {
          const ending = new AbortController()
          const left = fetch(`${url}/v1/chat/completions`, {
            method: "POST",
            headers: header,
            body: JSON.stringify({ stream, messages: [user("Say hello")] }),
            signal: ending.signal
          })
            .then((response) => response.text())
            .catch(() => "left")
          while ((await view()).queue.length === 0);
          ending.abort()
          while ((await view()).queue.length > 0);
          assert.strictEqual(await left, "left")
          assert.deepInclude(await view(), { queue: [] })
          assert.isNotNull((await view()).turn)
        }
        // One that stays is told when the session is stopped before its turn, and does not begin.
        const waiting = chat([user("Say hello")], {}, header)
        while ((await view()).queue.length === 0);
        await fetched(`/v1/sessions/${id}/stop`, { json: {} })
        assert.deepInclude((await waiting).body.error, {
          code: "interrupted",
          message: "The session was stopped before this message was sent. Send it again."
        })
        while ((await view()).turn !== null);
        // One behind a turn that ends gets its own answer, without the text of that turn.
        await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "long" } })
        assert.strictEqual((await chat([user("Say hello")], {}, header)).body.choices[0].message.content, "Hello.")

        // A client that does not stream goes away: its turn is stopped, and the session answers afterwards.
        const before = aborted()
        const ending = new AbortController()
        const unread = fetch(`${url}/v1/chat/completions`, {
          method: "POST",
          headers: header,
          body: JSON.stringify({ messages: [user("wait")] }),
          signal: ending.signal
        }).catch(() => "left")
        while ((await view()).turn === null);
        ending.abort()
        await unread
        await until(() => aborted() > before)
        while ((await view()).turn !== null);
        assert.strictEqual((await chat([user("Say hello")], {}, header)).body.choices[0].message.content, "Hello.")

        // The session is closed below an answer; then it is opened again by several at once, and is one session.
        const closed = chat([user("wait")], {}, header)
        while ((await view()).turn === null);
        const reader = readEvents(`${url}/v1/sessions/${id}/events`, authorized)
        await until(() => reader.events.length > 0)
        assert.strictEqual((await fetched(`/v1/sessions/${id}`, { method: "DELETE" })).status, 204)
        assert.strictEqual((await closed).status, 503)
        const opened = Number(/hermes_sessions_open (\d+)/u.exec((await fetched("/metrics")).body)?.[1])
        const both = await Promise.all([
          chat([user("Say hello")], {}, header),
          chat([user("And again")], {}, header),
          view(),
          view()
        ])
        assert.sameMembers(
          [200, 409],
          both.slice(0, 2).map((one) => (one as { readonly status: number }).status)
        )
        assert.include((await fetched("/metrics")).body, `hermes_sessions_open ${opened + 1}`)
        // Numbers of the opening before are known to be of the past.
        await reader.stop()
        const later = readEvents(`${url}/v1/sessions/${id}/events`, {
          ...authorized,
          "last-event-id": `${reader.events.at(-1)?.id}`
        })
        await until(() => later.events.length > 0)
        assert.strictEqual(later.events[0]?.data["type"], "gap")
        await later.stop()
      })
    })
  )
})
