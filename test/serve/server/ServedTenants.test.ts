// Tenants of a server's keys: their limits refuse requests in the form of each API, and say when to ask again.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Tenants from "../../../src/agent/Tenants.ts"
import type { Tenant } from "../../../src/base/domain/Tenant.ts"
import type { Options } from "../../../src/serve/server/agent/AgentServer.ts"
import * as TenantLedger from "../../../src/store/tenants/TenantLedger.ts"
import { user, world } from "../../support/servedAgent.ts"

const keyOf = { acme: "acme-key-of-this-test", zeta: "zeta-key-of-this-test", free: "free-key-of-this-test" } as const
type Name = keyof typeof keyOf

const plays = { "Say hello": [{ text: "Hello." }], wait: [{ text: "I wait ", hangs: true }] } satisfies Parameters<
  typeof world
>[0]

const served = Effect.fnUntraced(function* (tenants: ReadonlyArray<Tenant>, options: Partial<Options> = {}) {
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
    (runtime) => Layer.provideMerge(runtime, Tenants.layerFrom(tenants, own))
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
