// Several keys of one server: whoever shows one has sessions, bounds and numbers of its own, and no way to those of
// another.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as PermissionMode from "../../../src/base/config/PermissionMode.ts"
import type { Options } from "../../../src/serve/server/agent/AgentServer.ts"
import * as ServerKeys from "../../../src/serve/server/ServerKeys.ts"
import * as SessionAudience from "../../../src/store/SessionAudience.ts"
import { readEvents, until, user, weather, world } from "../../support/servedAgent.ts"

const keyOf = {
  owner: "0wner-key-of-this-test",
  alice: "al1ce-key-of-this-test",
  bob: "b0bby-key-of-this-test"
} as const
type Name = keyof typeof keyOf

const plays = {
  "Say hello": [{ text: "Hello." }],
  weather: [{ calls: [["weather", { place: "Rome" }]] }, { text: "Warm." }],
  "remove it": [{ calls: [["terminal", { command: "rm -rf ../elsewhere" }]] }, { text: "Removed." }],
  "say the key": [{ text: `The key is ${keyOf.bob}.` }],
  wait: [{ text: "I wait ", hangs: true }]
} satisfies Parameters<typeof world>[0]

const served = Effect.fnUntraced(function* (options: Partial<Options> = {}, bounds: Partial<ServerKeys.NamedKey> = {}) {
  const made = yield* world(plays, {
    key: Redacted.make(keyOf.owner),
    keys: [
      { name: "alice", key: Redacted.make(keyOf.alice), ...bounds },
      { name: "bob", key: Redacted.make(keyOf.bob) }
    ],
    mcpTools: (client) => [
      {
        name: "who",
        description: "Who",
        parameters: { properties: {} },
        readOnly: true,
        run: () => Effect.succeed(`${client}`)
      }
    ],
    ...options
  })
  const by = (name: Name) => ({ authorization: `Bearer ${keyOf[name]}` })
  const ask = (name: Name, path: string, init: Parameters<typeof made.fetched>[1] = {}) =>
    made.fetched(path, { ...init, headers: { ...by(name), ...init.headers } })
  const outcome = async (...given: Parameters<typeof ask>): Promise<readonly [number, unknown]> => {
    const { body, status } = await ask(...given)
    return [status, body.error?.code]
  }
  return { ...made, by, ask, outcome }
})

const chat = (content: string, more: Record<string, unknown> = {}) => ({ json: { messages: [user(content)], ...more } })

describe("keys of a server", () => {
  it.live("a session of one key is there for no other, by any road", () =>
    Effect.gen(function* () {
      const { ask, by, outcome, url } = yield* served()
      yield* Effect.promise(async () => {
        const hello = await ask("alice", "/v1/chat/completions", chat("Say hello"))
        const id = hello.headers.get("x-hermes-session-id") ?? ""
        const named = { "x-hermes-session-id": id }
        const waiting = await ask("alice", "/v1/chat/completions", chat("weather", { tools: [weather] }))
        const call = waiting.body.choices[0].message.tool_calls[0].id
        const response = await ask("alice", "/v1/responses", { json: { input: "Say hello" } })
        const asking = (await ask("alice", "/v1/sessions", { json: { mode: "ask" } })).body.id
        const reader = readEvents(`${url}/v1/sessions/${asking}/events`, by("alice"))
        while (!/hermes_event_readers 1/u.test((await ask("alice", "/metrics")).body));
        await ask("alice", `/v1/sessions/${asking}/messages`, { json: { prompt: "remove it" } })
        await until(() => reader.types().includes("approval_asked"))
        const question = reader.events.find(({ data }) => data["type"] === "approval_asked")?.data["question_id"]

        for (const other of ["bob", "owner"] as const) {
          const roads: Readonly<
            Record<string, readonly [readonly [number, unknown], () => Promise<readonly [number, unknown]>]>
          > = {
            "by its header": [
              [404, "session_not_found"],
              () => outcome(other, "/v1/chat/completions", { ...chat("Say hello"), headers: named })
            ],
            "by its response": [
              [404, "session_not_found"],
              () =>
                outcome(other, "/v1/responses", {
                  json: { input: "Say hello", previous_response_id: response.body.id }
                })
            ],
            "by a result of a call": [
              [400, "unknown_tool_call"],
              () =>
                outcome(other, "/v1/chat/completions", {
                  json: { messages: [{ role: "tool", tool_call_id: call, content: "30" }] }
                })
            ],
            "its state": [[404, "session_not_found"], () => outcome(other, `/v1/sessions/${id}`)],
            "its settings": [
              [404, "session_not_found"],
              () => outcome(other, `/v1/sessions/${id}`, { method: "PATCH", json: { mode: "yolo" } })
            ],
            "its messages": [[404, "session_not_found"], () => outcome(other, `/v1/sessions/${id}/messages`)],
            "a message": [
              [404, "session_not_found"],
              () => outcome(other, `/v1/sessions/${id}/messages`, { json: { prompt: "Say hello" } })
            ],
            "its events": [[404, "session_not_found"], () => outcome(other, `/v1/sessions/${id}/events`)],
            "its question": [
              [404, "session_not_found"],
              () => outcome(other, `/v1/sessions/${asking}/questions/${String(question)}`, { json: { choice: "once" } })
            ],
            "its end": [[404, "session_not_found"], () => outcome(other, `/v1/sessions/${asking}/stop`, { json: {} })],
            "its closing": [[404, "session_not_open"], () => outcome(other, `/v1/sessions/${id}`, { method: "DELETE" })]
          }
          for (const [name, [expected, act]] of Object.entries(roads))
            assert.deepStrictEqual(await act(), expected, `${other}: ${name}`)
          assert.deepStrictEqual((await ask(other, "/v1/sessions")).body, { data: [] }, other)
          // The same words of another are another conversation.
          const same = await ask(other, "/v1/chat/completions", {
            json: { messages: [user("Say hello"), { role: "assistant", content: "Hello." }, user("Say hello")] }
          })
          assert.notStrictEqual(same.headers.get("x-hermes-session-id"), id)
        }

        // All of it is still alice's.
        assert.deepStrictEqual(
          await outcome("alice", `/v1/sessions/${asking}/questions/${String(question)}`, {
            json: { choice: "always" }
          }),
          [403, "choice_unavailable"]
        )
        assert.strictEqual(
          (await ask("alice", `/v1/sessions/${asking}/questions/${String(question)}`, { json: { choice: "deny" } }))
            .status,
          204
        )
        await until(() => reader.types().includes("turn_ended"))
        await reader.stop()
        const warm = await ask("alice", "/v1/chat/completions", {
          json: { messages: [{ role: "tool", tool_call_id: call, content: "30" }], tools: [weather] }
        })
        assert.strictEqual(warm.body.choices[0].message.content, "Warm.")
        assert.strictEqual(
          (await ask("alice", "/v1/chat/completions", { ...chat("Say hello"), headers: named })).body.choices[0].message
            .content,
          "Hello."
        )
        const sources = (await ask("alice", "/v1/sessions")).body.data.map(
          ({ source }: { readonly source: string }) => source
        )
        assert.deepStrictEqual(sources, [
          "api-server:alice",
          "api-server:alice",
          "api-server:alice",
          "api-server:alice"
        ])
      })
    })
  )

  it.live("a key has bounds and numbers of its own, and fills no other's", () =>
    Effect.gen(function* () {
      const { ask, by, outcome, url } = yield* served({}, { maxSessions: 1, maxConnections: 2 })
      yield* Effect.promise(async () => {
        const {
          body: { id }
        } = await ask("alice", "/v1/sessions", { json: {} })
        await ask("alice", `/v1/sessions/${id}/messages`, { json: { prompt: "wait" } })
        assert.deepStrictEqual(await outcome("alice", "/v1/sessions", { json: {} }), [503, "too_many_sessions"])
        assert.deepStrictEqual(await outcome("bob", "/v1/sessions", { json: {} }), [201, undefined])

        // Streams count as long as they are open.
        const readers = [1, 2].map(() => readEvents(`${url}/v1/sessions/${id}/events`, by("alice")))
        await until(() => readers.every(({ events }) => events.length > 0))
        assert.deepStrictEqual(await outcome("alice", "/v1/models"), [503, "overloaded"])
        assert.deepStrictEqual(await outcome("bob", "/v1/models"), [200, undefined])
        await readers[0]?.stop()
        let status = 503
        while (status === 503) [status] = await outcome("alice", "/v1/models")
        assert.strictEqual(status, 200)

        const numbers = async (name: Name) =>
          Object.fromEntries(
            Array.from((await ask(name, "/metrics")).body.matchAll(/^(hermes_\S+) (\d+)$/gmu), (found) =>
              (found as ReadonlyArray<string>).slice(1, 3)
            )
          )
        assert.deepInclude(await numbers("alice"), {
          hermes_sessions_open: "1",
          hermes_event_readers: "1",
          hermes_turns_total: "1"
        })
        assert.deepInclude(await numbers("bob"), {
          hermes_sessions_open: "1",
          hermes_event_readers: "0",
          hermes_turns_total: "0",
          'hermes_requests_total{status="201"}': "1"
        })
        await readers[1]?.stop()
      })
    })
  )

  it.live("a key opens nothing else than what is its own: tools over MCP, the text of a key", () =>
    Effect.gen(function* () {
      const { ask, outcome } = yield* served()
      yield* Effect.promise(async () => {
        const who = async (name: Name) => {
          const { body } = await ask(name, "/mcp", {
            json: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "who", arguments: {} } },
            headers: { accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25" }
          })
          return (typeof body === "string" ? JSON.parse(/^data: (.+)$/mu.exec(body)?.[1] ?? "null") : body).result
            .content[0].text
        }
        assert.deepStrictEqual(
          [await who("alice"), await who("bob"), await who("owner")],
          ["alice", "bob", "undefined"]
        )
        const said = await ask("alice", "/v1/chat/completions", chat("say the key"))
        assert.notInclude(JSON.stringify(said.body), keyOf.bob)
        const wrong: ReadonlyArray<string> = [
          "",
          `Bearer ${keyOf.alice}x`,
          `Bearer ${keyOf.alice.slice(0, -1)}`,
          `Bearer ${keyOf.alice},${keyOf.bob}`,
          keyOf.alice,
          `Basic ${keyOf.alice}`,
          "Bearer alice"
        ]
        for (const authorization of wrong)
          assert.deepStrictEqual(
            await outcome("alice", "/v1/sessions", { headers: { authorization } }),
            [401, "invalid_api_key"],
            authorization
          )
      })
    })
  )

  it.live("a key chooses no looser mode than the server has, or than its own setting says", () =>
    Effect.gen(function* () {
      const begun = Effect.fnUntraced(function* (
        mode: PermissionMode.PermissionMode,
        maxMode?: ServerKeys.NamedKey["maxMode"]
      ) {
        const { ask } = yield* served({ mode }, { maxMode })
        const modes = async (name: Name) => {
          const {
            body: { id, mode }
          } = await ask(name, "/v1/sessions", { json: {} })
          const tried: Array<string> = []
          for (const one of PermissionMode.all) {
            const changed = await ask(name, `/v1/sessions/${id}`, { method: "PATCH", json: { mode: one } })
            const opened = await ask(name, "/v1/sessions", { json: { mode: one } })
            assert.deepStrictEqual(opened.status, changed.status === 200 ? 201 : 403)
            if (changed.status === 200) tried.push(one)
            else assert.deepStrictEqual([changed.status, changed.body.error.code], [403, "mode_unavailable"])
          }
          // What was refused changed nothing.
          assert.strictEqual((await ask(name, `/v1/sessions/${id}`)).body.mode, tried.at(-1))
          return [mode, tried.at(-1)]
        }
        return yield* Effect.promise(async () => [await modes("alice"), await modes("owner")])
      }, Effect.scoped)
      assert.deepStrictEqual(yield* begun("ask"), [
        ["ask", "ask"],
        ["ask", "yolo"]
      ])
      assert.deepStrictEqual(yield* begun("yolo"), [
        ["yolo", "yolo"],
        ["yolo", "yolo"]
      ])
      assert.deepStrictEqual(yield* begun("auto", "plan"), [
        ["plan", "plan"],
        ["auto", "yolo"]
      ])
      assert.deepStrictEqual(yield* begun("ask", "edits"), [
        ["ask", "edits"],
        ["ask", "yolo"]
      ])
    })
  )

  it.live("settings that cannot all be changed change nothing, and open no session", () =>
    Effect.gen(function* () {
      const { ask, outcome } = yield* served()
      yield* Effect.promise(async () => {
        const open = async () => /hermes_sessions_open (\d+)/u.exec((await ask("alice", "/metrics")).body)?.[1]
        assert.deepStrictEqual(await outcome("alice", "/v1/sessions", { json: { mode: "yolo" } }), [
          403,
          "mode_unavailable"
        ])
        assert.deepStrictEqual(await outcome("alice", "/v1/sessions", { json: { model: "nobody" } }), [
          404,
          "model_not_found"
        ])
        assert.strictEqual(await open(), "0")
        const {
          body: { id }
        } = await ask("alice", "/v1/sessions", { json: {} })
        assert.deepStrictEqual(
          await outcome("alice", `/v1/sessions/${id}`, { method: "PATCH", json: { mode: "plan", model: "nobody" } }),
          [404, "model_not_found"]
        )
        assert.strictEqual((await ask("alice", `/v1/sessions/${id}`)).body.mode, "ask")
      })
    })
  )

  it.live("a tool over MCP runs in no looser mode than that of the key", () =>
    Effect.gen(function* () {
      const { ask } = yield* served(
        {
          mode: "auto",
          mcpTools: () => [
            {
              name: "mode",
              description: "Mode",
              parameters: { properties: {} },
              readOnly: true,
              run: () => Effect.map(PermissionMode.current, String)
            }
          ]
        },
        { maxMode: "plan" }
      )
      const modeOf = async (name: Name) => {
        const { body } = await ask(name, "/mcp", {
          json: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "mode", arguments: {} } },
          headers: { accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25" }
        })
        return (typeof body === "string" ? JSON.parse(/^data: (.+)$/mu.exec(body)?.[1] ?? "null") : body).result
          .content[0].text
      }
      assert.deepStrictEqual(yield* Effect.promise(async () => [await modeOf("alice"), await modeOf("owner")]), [
        "plan",
        "undefined"
      ])
    })
  )

  it.live("a server with named keys alone answers nobody without one, on the loopback too", () =>
    Effect.gen(function* () {
      const { fetched, outcome } = yield* served({ key: undefined })
      yield* Effect.promise(async () => {
        assert.strictEqual((await fetched("/v1/models")).status, 401)
        assert.deepStrictEqual(await outcome("owner", "/v1/models"), [401, "invalid_api_key"])
        assert.deepStrictEqual(await outcome("bob", "/v1/models"), [200, undefined])
        assert.strictEqual((await fetched("/health")).status, 200)
      })
    })
  )

  it.effect("refuses keys that do not tell one client from another, and names no key but by its name", () =>
    Effect.gen(function* () {
      const one = (name: string, key: string) => ({ name, key: Redacted.make(key) })
      const of = (keys: ReadonlyArray<ServerKeys.NamedKey>) =>
        Effect.flip(world(plays, { key: Redacted.make(keyOf.owner), keys }))
      assert.strictEqual(
        yield* of([one("a b", keyOf.alice)]),
        `the name "a b" of a server key is invalid: use letters, digits, ".", "_" and "-", 64 at most`
      )
      assert.strictEqual(
        yield* of([one("a", keyOf.alice), one("a", keyOf.bob)]),
        `two server keys have the name "a": give each its own`
      )
      assert.strictEqual(
        yield* of([one("a", keyOf.alice), one("b", keyOf.alice)]),
        `the server key "b" is the same as the server key "a": give each client its own`
      )
      assert.strictEqual(
        yield* of([one("a", keyOf.owner)]),
        `the server key "a" is the same as the key of the server: give each client its own`
      )
      assert.strictEqual(
        yield* of([one("a", "short")]),
        `the server key "a" has fewer than 16 characters: use a long random text`
      )
    })
  )

  it("a stored session is seen by the key that it was begun with, and by no name that looks alike", () => {
    const sources = [
      "api-server",
      "mcp",
      "cli",
      "cron",
      "api-server:alice",
      "mcp:alice",
      "api-server:alice.b",
      "cli:alice"
    ]
    const seenBy = (client: string | undefined) => sources.filter((source) => SessionAudience.isSeenBy(client, source))
    assert.deepStrictEqual(seenBy(undefined), ["api-server", "mcp", "cli", "cron", "cli:alice"])
    assert.deepStrictEqual(seenBy("alice"), ["api-server:alice", "mcp:alice"])
    assert.deepStrictEqual(seenBy("alice.b"), ["api-server:alice.b"])
    assert.deepStrictEqual(seenBy("bob"), [])
    const { tool } = ServerKeys.limitTools({ tool: (name) => name !== "terminal" })
    assert.deepStrictEqual(
      ["read_file", "terminal", "session_search", "cronjob"].filter((name) => tool?.(name)),
      ["read_file"]
    )
  })
})
