import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Inspectable from "effect/Inspectable"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import * as CredentialPool from "../../../src/models/routing/CredentialPool.ts"
import * as PoolStore from "../../../src/models/routing/PoolStore.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as S from "./support.ts"

const keys = (...names: ReadonlyArray<string>) => names.map(S.key)
const text = ({ key }: CredentialPool.Lease): string => Redacted.value(key)

/** Takes a key and gives it back. */
const used = (pool: CredentialPool.CredentialPool) =>
  Effect.map(pool.lease, (lease) => {
    pool.release(lease)
    return text(lease)
  })

const refused = { reason: "rate_limit", resetAfter: undefined } as const

describe("CredentialPool", () => {
  it.effect("keeps to the first key, and spreads those that are used at the same time", () =>
    Effect.gen(function* () {
      const pool = yield* CredentialPool.make({ name: "p", credentials: keys("a", "b", "c") })
      assert.deepStrictEqual([yield* used(pool), yield* used(pool)], ["a", "a"])
      const held = [yield* pool.lease, yield* pool.lease, yield* pool.lease, yield* pool.lease]
      assert.deepStrictEqual(held.map(text), ["a", "b", "c", "a"])
      held.forEach(pool.release)
      assert.deepStrictEqual(
        (yield* pool.state).map(({ leases, used }) => [leases, used]),
        [
          [0, 4],
          [0, 1],
          [0, 1]
        ]
      )
    })
  )

  it.effect("sets a refused key aside for as long as the provider says, else for a while", () =>
    Effect.gen(function* () {
      const pool = yield* CredentialPool.make({ name: "p", credentials: keys("a", "b") })
      const first = yield* pool.lease
      const second = yield* pool.rotate(first, { ...refused, resetAfter: Duration.seconds(5) })
      assert.strictEqual(second && text(second), "b")
      assert.isUndefined(
        second && (yield* pool.rotate(second, { reason: "billing", resetAfter: undefined })),
        "none is left"
      )
      assert.isFalse(yield* pool.isReady)
      assert.strictEqual(yield* used(pool), "a", "the one that comes back first")
      yield* TestClock.adjust("5 seconds")
      assert.isTrue(yield* pool.isReady)
      const state = yield* pool.state
      assert.isUndefined(state[0]?.resting)
      assert.deepStrictEqual(state[1]?.resting, { millis: 3_595_000, reason: "billing" })
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(
        (yield* pool.state).map(({ resting }) => resting),
        [undefined, undefined]
      )
    })
  )

  it.effect("two who hold one key and are refused both go on with another", () =>
    Effect.gen(function* () {
      const pool = yield* CredentialPool.make({ name: "p", credentials: keys("a", "b", "c") })
      const one = yield* pool.lease
      pool.release(one)
      const other = yield* pool.lease
      assert.deepStrictEqual([text(one), text(other)], ["a", "a"])
      const next = [yield* pool.rotate(one, refused), yield* pool.rotate(other, refused)]
      assert.deepStrictEqual(
        next.map((lease) => lease && text(lease)),
        ["b", "c"]
      )
    })
  )

  it.effect("refusals of concurrent calls disable a key for as long as one does", () =>
    Effect.gen(function* () {
      const pool = yield* CredentialPool.make({ name: "p", credentials: keys("a", "b") })
      const held = yield* Effect.replicateEffect(pool.lease, 9)
      for (const lease of held) if (text(lease) === "a") yield* pool.rotate(lease, refused)
      yield* TestClock.adjust("1 minute")
      const again = yield* pool.lease
      assert.strictEqual(text(again), "a")
      yield* pool.rotate(again, refused)
      yield* TestClock.adjust("1 minute")
      const [{ resting } = {}] = yield* pool.state
      assert.deepStrictEqual(resting, { millis: 60_000, reason: "rate_limit" }, "a key that is refused again")
    })
  )

  it.effect("a pool of one sets nothing aside", () =>
    Effect.gen(function* () {
      const pool = yield* CredentialPool.make({ name: "p", credentials: keys("a", "a") })
      assert.strictEqual(pool.size, 1)
      const lease = yield* pool.lease
      assert.isUndefined(yield* pool.rotate(lease, refused))
      assert.isTrue(yield* pool.isReady)
      pool.release(lease)
      assert.strictEqual((yield* pool.state)[0]?.leases, 0)
    })
  )

  it.effect("renews a key once for all who hold it", () =>
    Effect.gen(function* () {
      let renewals = 0
      const gate = yield* Deferred.make<void>()
      const refresh = Effect.andThen(
        Deferred.await(gate),
        Effect.sync(() => Redacted.make(`a${++renewals}`))
      )
      const pool = yield* CredentialPool.make({ name: "p", credentials: [{ ...S.key("a0"), refresh }] })
      const one = yield* pool.lease
      const two = yield* pool.lease
      const fibers = yield* Effect.forEach([one, two], (lease) =>
        Effect.forkChild(pool.refresh(lease), { startImmediately: true })
      )
      yield* Deferred.succeed(gate, undefined)
      const renewed = yield* Effect.forEach(fibers, Fiber.join)
      assert.deepStrictEqual(
        renewed.map((lease) => lease && text(lease)),
        ["a1", "a1"]
      )
      assert.strictEqual(yield* used(pool), "a1")
      assert.strictEqual(renewals, 1)
    })
  )

  it.effect("a renewal that fails leaves the key as it is", () =>
    Effect.gen(function* () {
      const pool = yield* CredentialPool.make({
        name: "p",
        credentials: [{ ...S.key("a"), refresh: Effect.fail(Fake.failure(S.http(401, "no").reason)) }]
      })
      assert.isUndefined(yield* pool.refresh(yield* pool.lease))
    })
  )

  it.effect("shows no key", () =>
    Effect.gen(function* () {
      const pool = yield* CredentialPool.make({ name: "p", credentials: keys("sk-secret-1", "sk-secret-2") })
      const shown = Inspectable.toStringUnknown([yield* pool.lease, yield* pool.state])
      assert.notInclude(shown, "sk-secret")
    })
  )
})

const stored = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const home = yield* fs.makeTempDirectoryScoped()
  return {
    fs,
    home: (yield* Path.Path).join(home, "home"),
    file: (yield* Path.Path).join(home, "home", PoolStore.fileName)
  }
})

describe("what a pool remembers", () => {
  it.effect("keys that were set aside, by fingerprints, over a restart", () =>
    Effect.gen(function* () {
      const { file, fs, home } = yield* stored
      const start = Effect.map(PoolStore.openFile(home), (store) =>
        CredentialPool.make({ name: "openrouter", credentials: keys("sk-or-one", "sk-or-two"), store })
      )
      yield* Effect.scoped(
        Effect.gen(function* () {
          const pool = yield* yield* start
          yield* pool.rotate(yield* pool.lease, { reason: "billing", resetAfter: undefined })
        })
      )
      const saved = yield* fs.readFileString(file)
      assert.notInclude(saved, "sk-or")
      assert.include(saved, '"billing"')
      assert.strictEqual(Number((yield* fs.stat(file)).mode) & 0o777, 0o600)
      const pool = yield* yield* start
      assert.strictEqual(yield* used(pool), "sk-or-two")
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* used(pool), "sk-or-one")
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("T136 round robin goes on where it was after a restart", () =>
    Effect.gen(function* () {
      const { home } = yield* stored
      const store = yield* PoolStore.openFile(home)
      const start = CredentialPool.make({ name: "p", credentials: keys("a", "b", "c"), strategy: "round_robin", store })
      const first = yield* Effect.scoped(Effect.flatMap(start, (pool) => Effect.all([used(pool), used(pool)])))
      const second = yield* Effect.scoped(Effect.flatMap(start, (pool) => Effect.all([used(pool), used(pool)])))
      assert.deepStrictEqual([...first, ...second], ["a", "b", "c", "a"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a file that can not be read counts as empty, and other pools stay in it", () =>
    Effect.gen(function* () {
      const { file, fs, home } = yield* stored
      yield* fs.makeDirectory(home)
      yield* fs.writeFileString(file, "{ not json")
      const store = yield* PoolStore.openFile(home)
      assert.deepStrictEqual(yield* store.load("a"), { keys: {} })
      yield* store.save("a", { keys: { x: { until: 5, reason: "auth", used: 1 } } })
      yield* store.save("b", { keys: {} })
      assert.deepStrictEqual((yield* store.load("a")).keys["x"]?.until, 5)
      assert.deepStrictEqual(yield* store.load("__proto__"), { keys: {} })
    }).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("when a key may be used again", () => {
  const now = Date.UTC(2026, 0, 1)
  const cases: ReadonlyArray<readonly [string, string, number | undefined]> = [
    ["seconds", "Rate limit reached. Please try again in 6.5s.", 6.5],
    ["minutes and seconds", "Please try again in 7m12s.", 432],
    ["milliseconds", "Please try again in 500ms.", 0.5],
    ["words", "usage limit reached, try again in 5 minutes", 300],
    ["hours and minutes", "limit resets in 2hr 30min", 9_000],
    ["a field", '{"error":{"details":[{"retryDelay":"34s"}]}}', 34],
    ["a quota's field", "quotaResetDelay: 1h2m", 3_720],
    ["a moment in seconds", `{"resets_at": ${now / 1_000 + 90}}`, 90],
    ["a moment in milliseconds", `{"reset_at": ${now + 90_000}}`, 90],
    ["a date", "limit resets at 2026-01-01T00:10:00Z", 600],
    ["the past", `{"resets_at": ${now / 1_000 - 90}}`, undefined],
    ["nothing", "slow down", undefined]
  ]
  for (const [what, message, expected] of cases) {
    it(`${what}`, () => {
      const found = CredentialPool.readResetAfter(S.http(429, message), now)
      assert.strictEqual(found && Duration.toSeconds(found), expected)
    })
  }
  it("a header wins", () => {
    const found = CredentialPool.readResetAfter(S.http(429, "try again in 5 minutes", { retryAfterMillis: 1_000 }), now)
    assert.strictEqual(found && Duration.toSeconds(found), 1)
  })
})
