// A server that was given no key: it makes one for its life, and admits nothing without it unless it is told to be
// open.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { hello, world } from "../../support/servedAgent.ts"

const statusOf = async (url: string, key?: string): Promise<number> =>
  (await fetch(`${url}/v1/models`, { headers: key === undefined ? {} : { authorization: `Bearer ${key}` } })).status

describe("a server without a given key", () => {
  it.live("makes one, which its caller gets and no client can do without", () =>
    Effect.gen(function* () {
      const one = yield* world(hello)
      const other = yield* world(hello)
      const key = Redacted.value(one.key ?? Redacted.make(""))
      assert.isAtLeast(key.length, 40)
      const statuses = yield* Effect.promise(() =>
        Promise.all([
          statusOf(one.url),
          statusOf(one.url, ""),
          statusOf(one.url, key.slice(1)),
          statusOf(other.url, key),
          statusOf(one.url, key)
        ])
      )
      assert.deepStrictEqual(statuses, [401, 401, 401, 401, 200])
      assert.include(yield* Effect.promise(async () => JSON.stringify((await one.fetched("/health")).body)), "ok")
    })
  )

  it.live("returns the key that it was given, and none where each client has its own", () =>
    Effect.gen(function* () {
      const given = Redacted.make("0wner-key-of-this-test")
      assert.strictEqual((yield* world(hello, { key: given })).key, given)
      const named = yield* world(hello, { keys: [{ name: "alice", key: Redacted.make("al1ce-key-of-this-test") }] })
      assert.isUndefined(named.key)
      assert.strictEqual(yield* Effect.promise(() => statusOf(named.url)), 401)
    })
  )

  it.live("admits every local client where the application says that it is open, and only there", () =>
    Effect.gen(function* () {
      const { key, url } = yield* world(hello, { open: true })
      assert.isUndefined(key)
      assert.strictEqual(yield* Effect.promise(() => statusOf(url)), 200)
      const keyed = { open: true, key: Redacted.make("0wner-key-of-this-test") }
      assert.include(yield* Effect.flip(world(hello, keyed)), "open")
      assert.include(yield* Effect.flip(world(hello, { open: true, host: "0.0.0.0" })), "needs a key")
      assert.include(yield* Effect.flip(world(hello, { host: "0.0.0.0" })), "needs a key")
    })
  )
})
