// Bad input on the protocols over HTTP: each has the protocol's own error, and the session stays usable after each.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { connect } from "node:net"
import { until, user, world } from "../../support/servedAgent.ts"

const key = "a-long-random-key-of-this-test"
const plays = { hello: [{ text: "Hello." }], wait: [{ text: "I wait ", hangs: true }] }

const served = Effect.fnUntraced(function* () {
  let running = 0
  const made = yield* world(plays, {
    key: Redacted.make(key),
    maxBody: 10_000,
    maxBodies: 15_000,
    mcpTools: [
      {
        name: "echo",
        description: "Echo",
        parameters: { properties: { text: { type: "string" } } },
        readOnly: true,
        run: ({ text }) => Effect.succeed(`echo ${String(text)}`)
      },
      {
        name: "hang",
        description: "Hang",
        parameters: {},
        readOnly: true,
        run: () =>
          Effect.ensuring(
            Effect.andThen(
              Effect.sync(() => running++),
              Effect.never
            ),
            Effect.sync(() => running--)
          )
      }
    ]
  })
  const headers = { authorization: `Bearer ${key}` }
  const {
    body: { id }
  } = yield* Effect.promise(() => made.fetched("/v1/sessions", { json: {}, headers }))
  return { ...made, headers, id: String(id), running: () => running }
})

type World = Effect.Success<ReturnType<typeof served>>
type Outcome = readonly [status: number, code: unknown]

const send = async (
  { fetched, headers }: World,
  path: string,
  json: unknown,
  more: Record<string, string> = {}
): Promise<Outcome> => {
  const { body, status } = await fetched(path, { json, headers: { ...headers, ...more } })
  return [status, body.error?.code]
}

const text = async (
  { fetched, headers }: World,
  path: string,
  body: string,
  more: Record<string, string> = {}
): Promise<Outcome> => {
  const { body: said, status } = await fetched(path, {
    method: "POST",
    body,
    headers: { ...headers, "content-type": "application/json", ...more }
  })
  return [status, said.error?.code]
}

const places = {
  "chat completions": ["/v1/chat/completions", (prompt: string): unknown => ({ messages: [user(prompt)] })],
  responses: ["/v1/responses", (prompt: string): unknown => ({ input: prompt })],
  sessions: ["/v1/sessions/ID/messages", (prompt: string): unknown => ({ prompt })]
} as const

const table = (
  path: string,
  body: (prompt: string) => unknown
): Readonly<Record<string, readonly [Outcome, (world: World) => Promise<Outcome>]>> => ({
  "no JSON": [[400, "invalid_json"], (world) => text(world, path.replace("ID", world.id), "{ this is no JSON")],
  "JSON that is no object": [[400, "invalid_json"], (world) => text(world, path.replace("ID", world.id), "[1]")],
  "another content type": [
    [415, "unsupported_media_type"],
    (world) => text(world, path.replace("ID", world.id), "{}", { "content-type": "text/plain" })
  ],
  "a body that is too large": [
    [413, "body_too_large"],
    (world) => send(world, path.replace("ID", world.id), body("x".repeat(20_000)))
  ],
  "no message": [[400, "invalid_request"], (world) => send(world, path.replace("ID", world.id), {})],
  "no key": [
    [401, "invalid_api_key"],
    (world) => send(world, path.replace("ID", world.id), body("hello"), { authorization: "" })
  ],
  "a wrong key": [
    [401, "invalid_api_key"],
    (world) => send(world, path.replace("ID", world.id), body("hello"), { authorization: `Bearer ${key}x` })
  ],
  "a version from the future": [
    [404, "not_found"],
    (world) => send(world, path.replace("ID", world.id).replace("/v1/", "/v99/"), body("hello"))
  ]
})

const more: Readonly<Record<string, readonly [Outcome, (world: World) => Promise<Outcome>]>> = {
  "chat: an unknown session": [
    [404, "session_not_found"],
    (world) => send(world, "/v1/chat/completions", { messages: [user("hello")] }, { "x-hermes-session-id": "nobody" })
  ],
  "responses: an unknown response": [
    [404, "session_not_found"],
    (world) => send(world, "/v1/responses", { input: "hello", previous_response_id: "resp_nobody.0" })
  ],
  "responses: no id of a response": [
    [404, "response_not_found"],
    (world) => send(world, "/v1/responses", { input: "hello", previous_response_id: "nobody" })
  ],
  "sessions: an unknown session": [
    [404, "session_not_found"],
    (world) => send(world, "/v1/sessions/nobody/messages", { prompt: "hello" })
  ],
  "sessions: an unknown question": [
    [404, "question_not_open"],
    (world) => send(world, `/v1/sessions/${world.id}/questions/nobody`, { choice: "once" })
  ],
  "chat: a result of a call that does not exist": [
    [400, "unknown_tool_call"],
    (world) =>
      send(world, "/v1/chat/completions", { messages: [{ role: "tool", tool_call_id: "nobody", content: "x" }] })
  ],
  "responses: a result of a call that does not exist": [
    [400, "unknown_tool_call"],
    (world) =>
      send(world, "/v1/responses", { input: [{ type: "function_call_output", call_id: "nobody", output: "x" }] })
  ],
  "chat: an unknown model": [
    [404, "model_not_found"],
    (world) => send(world, "/v1/chat/completions", { model: "gpt-none", messages: [user("hello")] })
  ],
  "chat: a role that does not exist": [
    [400, "invalid_request"],
    (world) => send(world, "/v1/chat/completions", { messages: [{ role: "king", content: "hello" }] })
  ]
}

/** Asks once more: the session is usable. */
const usable = async (world: World, name: string): Promise<void> => {
  const { body, status } = await world.fetched("/v1/chat/completions", {
    json: { messages: [user("hello")] },
    headers: { ...world.headers, "x-hermes-session-id": world.id }
  })
  assert.deepStrictEqual([status, body.choices?.[0].message.content], [200, "Hello."], name)
}

const isFree = async ({ fetched, headers, id }: World): Promise<boolean> =>
  (await fetched(`/v1/sessions/${id}`, { headers })).body.turn === null

describe("bad input over HTTP", () => {
  it.live("has an error of its own in each API, and the session stays usable after each", () =>
    Effect.gen(function* () {
      const world = yield* served()
      yield* Effect.promise(async () => {
        for (const [api, [path, body]] of Object.entries(places)) {
          for (const [name, [expected, act]] of Object.entries(table(path, body))) {
            assert.deepStrictEqual(await act(world), expected, `${api}: ${name}`)
          }
          await usable(world, api)
        }
        for (const [name, [expected, act]] of Object.entries(more))
          assert.deepStrictEqual(await act(world), expected, name)
        await usable(world, "all")
      })
    })
  )

  it.live(
    "two prompts at once on one session: one is refused, or waits its turn; and a client that hangs up takes nothing with it",
    () =>
      Effect.gen(function* () {
        const world = yield* served()
        const { aborted, fetched, headers, id, url } = world
        const named = { ...headers, "x-hermes-session-id": id }
        yield* Effect.promise(async () => {
          for (const stream of [true, false]) {
            const before = aborted()
            const ending = new AbortController()
            const first = fetch(`${url}/v1/chat/completions`, {
              method: "POST",
              headers: { ...named, "content-type": "application/json" },
              body: JSON.stringify({ stream, messages: [user("wait")] }),
              signal: ending.signal
            })
              .then((response) => response.text())
              .catch(() => "left")
            while (await isFree(world));
            assert.deepStrictEqual(
              await send(world, "/v1/chat/completions", { messages: [user("hello")] }, { "x-hermes-session-id": id }),
              [409, "session_busy"]
            )
            // The API of sessions has a queue.
            const queued = await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "hello" }, headers })
            assert.strictEqual(queued.body.status, "queued")
            ending.abort()
            assert.strictEqual(await first, "left")
            await until(() => aborted() === before + 1)
            while (!(await isFree(world)));
            await usable(world, `stream: ${stream}`)
          }
          // In the middle of its own request.
          const { hostname, port } = new URL(url)
          await new Promise<void>((resolve) => {
            const socket = connect(Number(port), hostname, () => {
              socket.write(
                `POST /v1/chat/completions HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"messages":`
              )
              setTimeout(() => socket.destroy(), 50)
            })
            socket.once("close", () => resolve())
          })
          // No line of HTTP at all, and a version of it from the future.
          for (const line of ["hello\r\n\r\n", `GET /health HTTP/9.9\r\nHost: ${hostname}\r\n\r\n`]) {
            const said = await new Promise<string>((resolve) => {
              let all = ""
              const socket = connect(Number(port), hostname, () => socket.write(line))
              socket.on("data", (bytes) => (all += bytes.toString("utf8"))).once("close", () => resolve(all))
            })
            assert.match(said, /^HTTP\/1\.1 400 Bad Request\r\n/u)
          }
          await usable(world, "broken requests")
        })
      })
  )
})

describe("bodies over HTTP", () => {
  it.live("are bounded in all: what is too much is refused, until what was on its way has ended", () =>
    Effect.gen(function* () {
      const world = yield* served()
      const { hostname, port } = new URL(world.url)
      yield* Effect.promise(async () => {
        for (const framing of ["Content-Length: 9000", "Transfer-Encoding: chunked"]) {
          const socket = connect(Number(port), hostname)
          socket.write(
            `POST /v1/chat/completions HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${key}\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`
          )
          // The server has its head, and waits for the body.
          assert.strictEqual(
            await new Promise((resolve) => socket.once("data", (bytes) => resolve(bytes.toString("utf8")))),
            "HTTP/1.1 100 Continue\r\n\r\n"
          )
          const large = { messages: [user(`hello ${"x".repeat(8_000)}`)] }
          let outcome = await send(world, "/v1/chat/completions", large)
          assert.deepStrictEqual(outcome, [503, "overloaded"], framing)
          await usable(world, framing)
          socket.destroy()
          while (outcome[0] !== 200) outcome = await send(world, "/v1/chat/completions", large)
          await usable(world, framing)
        }
      })
    })
  )
})

describe("bad input over MCP", () => {
  const rpc = (method: string, params: unknown, id: unknown = 1): unknown => ({ jsonrpc: "2.0", id, method, params })
  const accept = { accept: "application/json, text/event-stream" }
  const version = { "mcp-protocol-version": "2025-11-25" }
  const initialize = (protocolVersion: string): unknown =>
    rpc("initialize", { protocolVersion, capabilities: {}, clientInfo: { name: "t", version: "1" } })
  const post = async (
    { fetched, headers }: World,
    json: unknown,
    own: Record<string, string> = {}
  ): Promise<readonly [number, unknown]> => {
    const { body, status } = await fetched("/mcp", {
      method: "POST",
      body: typeof json === "string" ? json : JSON.stringify(json),
      headers: { ...headers, ...accept, "content-type": "application/json", ...own }
    })
    const answer = typeof body === "string" ? JSON.parse(/^data: (.+)$/mu.exec(body)?.[1] ?? "null") : body
    return [status, answer?.error?.code ?? answer?.result]
  }
  const echo = (world: World) => post(world, rpc("tools/call", { name: "echo", arguments: { text: "hi" } }), version)

  it.live("has the protocol's own error, and the server stays usable after each", () =>
    Effect.gen(function* () {
      const world = yield* served()
      const table: Readonly<
        Record<string, readonly [readonly [number, unknown], () => Promise<readonly [number, unknown]>]>
      > = {
        "no JSON": [[400, -32_700], () => post(world, "{ this is no JSON", version)],
        "no request": [[400, -32_600], () => post(world, { hello: 1 }, version)],
        "a wrong key": [
          [401, "invalid_api_key"],
          () => post(world, rpc("tools/list", {}), { authorization: "Bearer wrong" })
        ],
        "an unknown method": [[200, -32_601], () => post(world, rpc("tools/dance", {}), version)],
        "arguments of another type": [[200, -32_602], () => post(world, rpc("tools/call", { name: 7 }), version)],
        "an unknown tool": [
          [200, -32_602],
          () => post(world, rpc("tools/call", { name: "nobody", arguments: {} }), version)
        ],
        "an answer to a request that was never made": [
          [202, undefined],
          () => post(world, { jsonrpc: "2.0", id: "nobody", result: {} }, version)
        ],
        "a header of a version from the future": [
          [400, -32_602],
          () => post(world, rpc("tools/list", {}), { "mcp-protocol-version": "2099-01-01" })
        ]
      }
      yield* Effect.promise(async () => {
        const hi: readonly [number, unknown] = [200, { content: [{ type: "text", text: "echo hi" }], isError: false }]
        for (const [name, [expected, act]] of Object.entries(table)) {
          assert.deepStrictEqual(await act(), expected, name)
          assert.deepStrictEqual(await echo(world), hi, name)
        }
        const [status, offered] = await post(world, initialize("2099-01-01"))
        assert.strictEqual(status, 200)
        assert.deepInclude(offered, { protocolVersion: "2025-11-25" })
        // A session that the server does not know: it keeps none.
        assert.deepStrictEqual(
          await post(world, rpc("tools/list", {}, 2), { ...version, "mcp-session-id": "nobody" }).then(
            ([code]) => code
          ),
          200
        )

        // Two calls at once, of which one is hung up on.
        const ending = new AbortController()
        const hanging = fetch(`${world.url}/mcp`, {
          method: "POST",
          headers: { ...world.headers, ...accept, ...version, "content-type": "application/json" },
          body: JSON.stringify(rpc("tools/call", { name: "hang", arguments: {} }, 7)),
          signal: ending.signal
        })
          .then((response) => response.text())
          .catch(() => "left")
        await until(() => world.running() === 1)
        assert.deepStrictEqual(await echo(world), hi)
        ending.abort()
        assert.strictEqual(await hanging, "left")
        await until(() => world.running() === 0)
        assert.deepStrictEqual(await echo(world), hi)
      })
    })
  )

  it.live("quotes little of a request in its errors", () =>
    Effect.flatMap(served(), ({ fetched, headers }) =>
      Effect.promise(async () => {
        const long = "x".repeat(9_000)
        const requests: ReadonlyArray<readonly [string, unknown]> = [
          ["/v1/chat/completions", { messages: [{ role: long, content: "a" }] }],
          ["/v1/chat/completions", { messages: [user("hello")], model: long }],
          ["/v1/responses", { input: "hello", previous_response_id: long }],
          ["/v1/responses", { input: [{ type: "item_reference", id: long }] }],
          ["/v1/messages", { messages: [user("hello")], max_tokens: 5, [long]: 1 }],
          ["/v1/sessions", { [long]: 1 }]
        ]
        for (const [path, json] of requests) {
          const { body, status } = await fetched(path, { json, headers })
          assert.include([400, 404], status)
          assert.isBelow(JSON.stringify(body).length, 2_600, path)
        }
      })
    )
  )
})
