// Tenants of a server's keys: their limits refuse requests in the form of each API, and say when to ask again.
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/ai/Prompt"
import * as Tenants from "../../../src/agent/Tenants.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import type { Tenant } from "../../../src/base/domain/Tenant.ts"
import type { Options } from "../../../src/serve/server/agent/AgentServer.ts"
import { join } from "node:path"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as TenantLedger from "../../../src/store/tenants/TenantLedger.ts"
import { readEvents, until, user, world } from "../../support/servedAgent.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const keyOf = { acme: "acme-key-of-this-test", zeta: "zeta-key-of-this-test", free: "free-key-of-this-test" } as const
type Name = keyof typeof keyOf

const plays = { "Say hello": [{ text: "Hello." }], wait: [{ text: "I wait ", hangs: true }] } satisfies Parameters<
  typeof world
>[0]

const served = Effect.fnUntraced(function* (
  tenants: ReadonlyArray<Tenant>,
  options: Partial<Options> = {},
  stored: boolean | string = false
) {
  const ledger = yield* Layer.build(TenantLedger.layerMemory)
  const own = Layer.succeedContext(ledger)
  const made = yield* world(
    plays,
    {
      keys: (["acme", "zeta", "free"] as const).map((name) => ({
        name,
        key: Redacted.make(keyOf[name]),
        tenant: name === "free" ? undefined : name
      })),
      ...options
    },
    (runtime) => Layer.provideMerge(runtime, Tenants.layerFrom(tenants, own)),
    stored
  )
  const ask = (name: Name, path: string, json: unknown) =>
    made.fetched(path, { json, headers: { authorization: `Bearer ${keyOf[name]}` } })
  const balance = (tenant: string) =>
    Effect.provide(
      TenantLedger.TenantLedger.use((one) => one.balance(tenant)),
      ledger
    )
  return { ...made, ask, balance }
})

const messages = [user("Say hello")]

/** A request of each API that answers in its response. */
const requests: Readonly<Record<string, readonly [path: string, body: Record<string, unknown>]>> = {
  "chat completions": ["/v1/chat/completions", { messages }],
  "streamed chat completions": ["/v1/chat/completions", { messages, stream: true }],
  responses: ["/v1/responses", { input: "Say hello" }],
  "streamed responses": ["/v1/responses", { input: "Say hello", stream: true }],
  messages: ["/v1/messages", { model: "hermes", max_tokens: 100, messages }],
  "streamed messages": ["/v1/messages", { model: "hermes", max_tokens: 100, messages, stream: true }]
}

describe("a tenant of a server's key", () => {
  it.live("whose allowance is used up gets 429, the end of the period and its name in every API", () =>
    Effect.gen(function* () {
      const { ask } = yield* served([
        { id: "acme", perDay: { tokens: 50 } },
        { id: "zeta", perMonth: { tokens: 1_000_000 } }
      ])
      yield* Effect.promise(async () => {
        for (const [name, [path, body]] of Object.entries(requests)) {
          const refused = await ask("acme", path, body)
          assert.strictEqual(refused.status, 429, name)
          const wait = Number(refused.headers.get("retry-after"))
          assert.isTrue(wait > 0 && wait <= 86_400, name)
          assert.strictEqual(refused.headers.get("x-should-retry"), "false", name)
          assert.strictEqual(refused.body.error.code, "allowance_exhausted", name)
          assert.include(refused.body.error.message, "allowance of tenant acme for the day", name)
          assert.strictEqual(
            refused.body.error.type,
            path === "/v1/messages" ? "rate_limit_error" : "invalid_request_error"
          )
          // Other tenants, and keys without a tenant, are answered.
          for (const other of ["zeta", "free"] as const)
            assert.strictEqual((await ask(other, path, body)).status, 200, `${name} of ${other}`)
        }
      })
    })
  )

  it.live("whose settings are not valid gets 403, and only the server's log names them", () => {
    const logged: Array<string> = []
    const logger = Logger.make(({ message }) => void logged.push(String(message)))
    return Effect.gen(function* () {
      const { ask } = yield* served([{ id: "acme", callsPerMinute: -1 }])
      yield* Effect.promise(async () => {
        for (const [name, [path, body]] of Object.entries(requests)) {
          const refused = await ask("acme", path, body)
          assert.strictEqual(refused.status, 403, name)
          assert.strictEqual(refused.body.error.code, "tenant_refused", name)
          assert.notInclude(JSON.stringify(refused.body), "callsPerMinute", name)
        }
      })
      assert.include(logged.join("\n"), "callsPerMinute")
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.live("whose settings are not valid learns nothing about them from the events of a session", () => {
    const logged: Array<string> = []
    const logger = Logger.make(({ message }) => void logged.push(String(message)))
    return Effect.gen(function* () {
      const { ask, url } = yield* served([{ id: "acme", callsPerMinute: -1 }, { id: "zeta" }])
      yield* Effect.promise(async () => {
        const { body } = await ask("acme", "/v1/sessions", {})
        const headers = { authorization: `Bearer ${keyOf.acme}` }
        const events = readEvents(`${url}/v1/sessions/${body.id}/events`, headers)
        assert.strictEqual((await ask("acme", `/v1/sessions/${body.id}/messages`, { prompt: "Say hello" })).status, 202)
        const isEnd = ({ data }: (typeof events.events)[number]) => data["type"] === "turn_ended"
        await until(() => events.events.some(isEnd))
        const ended = events.events.find(isEnd)?.data
        assert.strictEqual(ended?.["exit"], "failed")
        assert.include(String(ended?.["error"]), "The server's log says why")
        assert.notInclude(JSON.stringify(events.events), "callsPerMinute")
        await events.stop()
        await until(() => logged.some((line) => line.includes("callsPerMinute")))
      })
      assert.strictEqual(logged.filter((line) => line.includes("callsPerMinute")).length, 1)
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.live("whose turn was refused learns nothing about its settings from the record of the turn", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const tenants: ReadonlyArray<Tenant> = [{ id: "acme", perDay: { dollars: 1 } }]
      const headers = { authorization: `Bearer ${keyOf.acme}` }
      const isEnd = ({ data }: ReturnType<typeof readEvents>["events"][number]) => data["type"] === "turn_ended"
      const readFrom = async (url: string, at: string | undefined) => {
        const reader = readEvents(url, { ...headers, ...(at === undefined ? {} : { "last-event-id": at }) })
        await until(() => reader.events.some(isEnd))
        await reader.stop()
        assert.notInclude(JSON.stringify(reader.events), "dollars")
        assert.include(JSON.stringify(reader.events.find(isEnd)), "The server's log says why")
        return reader.events
      }
      const [path, begin] = yield* Effect.scoped(
        Effect.gen(function* () {
          const { ask, url } = yield* served(tenants, {}, directory)
          return yield* Effect.promise(async () => {
            const { id } = (await ask("acme", "/v1/sessions", {})).body
            const path = `/v1/sessions/${id}/events`
            await ask("acme", `/v1/sessions/${id}/messages`, { prompt: "Say hello" })
            const events = await readFrom(`${url}${path}`, undefined)
            return [path, events[events.findIndex(isEnd) - 1]?.at] as const
          })
        })
      )
      const { url } = yield* served(tenants, {}, directory)
      yield* Effect.promise(() => readFrom(`${url}${path}`, begin))
    })
  )

  it.live("counts its usage, and a key without a tenant counts nothing", () =>
    Effect.gen(function* () {
      const { ask, balance } = yield* served([{ id: "acme", perDay: { tokens: 1_000_000 } }, { id: "zeta" }])
      yield* Effect.promise(async () => {
        await ask("acme", "/v1/chat/completions", { messages })
        await ask("free", "/v1/chat/completions", { messages })
      })
      let acme = yield* balance("acme")
      // The end of the title's call is written when the title is stored.
      while (acme.reserved.tokens > 0) acme = yield* balance("acme")
      assert.isAbove(acme.spentToday.tokens, 0)
      assert.deepStrictEqual((yield* balance("zeta")).spentToday, { tokens: 0, nanos: 0 })
    })
  )

  it.live("with as many runs as it may have gets 429, and should try again", () =>
    Effect.gen(function* () {
      const { ask, fetched } = yield* served([{ id: "acme", concurrentRuns: 1 }])
      yield* Effect.promise(async () => {
        const ending = new AbortController()
        const headers = { authorization: `Bearer ${keyOf.acme}`, "content-type": "application/json" }
        const first = fetched("/v1/chat/completions", {
          method: "POST",
          body: JSON.stringify({ messages: [user("wait")], stream: true }),
          headers,
          signal: ending.signal
        }).catch(() => undefined)
        let busy = await ask("acme", "/v1/chat/completions", { messages })
        while (busy.status === 200) busy = await ask("acme", "/v1/chat/completions", { messages })
        assert.deepStrictEqual(
          [busy.status, busy.headers.get("retry-after"), busy.body.error.code],
          [429, "1", "tenant_busy"]
        )
        ending.abort()
        await first
      })
    })
  )
})

/** Requests about the data of one session, response or conversation. */
const surfaces: ReadonlyArray<readonly [method: string, path: string, body?: unknown]> = [
  ["GET", "/v1/sessions/ID"],
  ["PATCH", "/v1/sessions/ID", { title: "Mine" }],
  ["GET", "/v1/sessions/ID/messages"],
  ["POST", "/v1/sessions/ID/messages", { content: "Say hello" }],
  ["GET", "/v1/sessions/ID/events"],
  ["GET", "/v1/sessions/ID/questions"],
  ["POST", "/v1/sessions/ID/questions/q1", { answer: "yes" }],
  ["POST", "/v1/sessions/ID/answers", { answers: [] }],
  ["POST", "/v1/sessions/ID/stop"],
  ["DELETE", "/v1/sessions/ID"],
  ["GET", "/v1/responses/ID"],
  ["GET", "/v1/responses/ID/input_items"],
  ["POST", "/v1/responses", { input: "Say hello", previous_response_id: "ID" }],
  ["DELETE", "/v1/responses/ID"],
  ["GET", "/v1/conversations/ID"],
  ["POST", "/v1/conversations/ID", { metadata: {} }],
  ["GET", "/v1/conversations/ID/items"],
  ["POST", "/v1/conversations/ID/items", { items: [] }],
  ["POST", "/v1/responses", { input: "Say hello", conversation: "ID" }],
  ["DELETE", "/v1/conversations/ID"]
]

describe("the data of a tenant on a server", () => {
  it.live("is for the key of another tenant, and for a key without one, like data that does not exist", () =>
    Effect.gen(function* () {
      const { ask, fetched } = yield* served([{ id: "acme" }, { id: "zeta" }], {}, true)
      yield* Effect.promise(async () => {
        const session = await ask("acme", "/v1/sessions", {})
        const sessionId = String(session.body.session?.id ?? session.body.id)
        await ask("acme", `/v1/sessions/${sessionId}/messages`, { content: "Say hello" })
        const response = await ask("acme", "/v1/responses", { input: "Say hello" })
        const conversation = await ask("acme", "/v1/conversations", {})
        const request = async (name: Name, [method, path, body]: (typeof surfaces)[number], id: string) => {
          const ending = AbortSignal.timeout(5_000)
          const answer = await fetched(path.replace("ID", id), {
            method,
            signal: ending,
            headers: { authorization: `Bearer ${keyOf[name]}` },
            ...(body === undefined ? {} : { json: JSON.parse(JSON.stringify(body).replace("ID", id)) })
          })
          // An error may name the session of a response.
          const text = JSON.stringify(answer.body ?? null)
            .replaceAll(id, "ID")
            .replace(/\d{8}_\d{6}_[\da-f]{6}/gu, "ID")
          return { status: answer.status, body: text }
        }
        for (const surface of surfaces) {
          const [method, path, body] = surface
          const isAbout = (kind: string) => path.includes(kind) || JSON.stringify(body ?? "").includes(kind)
          const id = path.includes("/sessions/")
            ? sessionId
            : isAbout("conversation")
              ? String(conversation.body.id)
              : String(response.body.id)
          const absent = id.replace(/[0-9a-f](?=[0-9a-f]*$)/u, (digit) => (digit === "0" ? "1" : "0"))
          assert.notStrictEqual(absent, id)
          for (const name of ["zeta", "free"] as const) {
            const foreign = await request(name, surface, id)
            assert.deepStrictEqual(foreign, await request(name, surface, absent), `${method} ${path} of ${name}`)
            assert.isAtLeast(foreign.status, 400, `${method} ${path} of ${name}`)
          }
        }
        // Everything is still there for its tenant.
        for (const [path, id] of [
          ["/v1/sessions/ID/messages", sessionId],
          ["/v1/responses/ID", String(response.body.id)],
          ["/v1/conversations/ID", String(conversation.body.id)]
        ] as const)
          assert.strictEqual((await request("acme", ["GET", path], id)).status, 200, path)
        const list = await fetched("/v1/sessions", { headers: { authorization: `Bearer ${keyOf.zeta}` } })
        assert.notInclude(JSON.stringify(list.body), sessionId)
      })
    })
  )

  it.live(
    "belongs to the tenant of its key, also without a run, and stays with the tenant if the key gets another",
    () =>
      Effect.gen(function* () {
        const { ask, cwd, fetched } = yield* served([{ id: "acme" }, { id: "zeta" }], {}, true)
        const stored = yield* Layer.build(SessionStore.layerSqlite({ path: join(cwd, "state.db") }))
        const store = Context.get(stored, SessionStore.SessionStore)
        const conversation = yield* Effect.promise(() =>
          ask("acme", "/v1/conversations", { items: [user("Say hello")] })
        )
        const id = String(conversation.body.id)
        const [made] = yield* store.list()
        assert.deepInclude(made, { id: SessionId.make(id.replace("conv_", "")), tenant: "acme" })
        const answered = yield* Effect.promise(() =>
          ask("acme", "/v1/responses", { input: "Say hello", conversation: id })
        )
        assert.strictEqual(answered.status, 200)
        // A session of the same key from the time in which it had another tenant.
        const source = made?.source ?? ""
        const earlier = {
          source,
          provider: "p",
          model: "m",
          systemPrompt: "",
          id: SessionId.make("earlier"),
          tenant: "zeta"
        }
        yield* store.create(earlier)
        yield* store.append(earlier.id, [Prompt.userMessage({ content: [Prompt.textPart({ text: "secret" })] })])
        for (const path of [
          "/v1/conversations/conv_earlier",
          "/v1/conversations/conv_earlier/items",
          "/v1/sessions/earlier"
        ]) {
          const { body, status } = yield* Effect.promise(() =>
            fetched(path, { headers: { authorization: `Bearer ${keyOf.acme}` } })
          )
          assert.strictEqual(status, 404, path)
          assert.notInclude(JSON.stringify(body), "secret")
        }
        const list = yield* Effect.promise(() =>
          fetched("/v1/sessions", { headers: { authorization: `Bearer ${keyOf.acme}` } })
        )
        assert.notInclude(JSON.stringify(list.body), "earlier")
      })
  )
})
