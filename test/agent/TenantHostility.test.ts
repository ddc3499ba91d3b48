// Tenants under hostile conditions: names that stores cannot tell apart, long names, names of paths, and a clock that is
// set back while a run is in flight.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as TestClock from "effect/testing/TestClock"
import { makeLedgerWriter } from "../../src/agent/TenantLedgerWriter.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import { locateWorkspace } from "../../src/store/TenantFolder.ts"
import { CurrentTenant, formatTenantFolder } from "../../src/store/TenantScope.ts"
import { TenantLedger, layerMemory } from "../../src/store/tenants/TenantLedger.ts"

const names = [
  "../../etc",
  "a/b",
  "a\\b",
  "..",
  ".",
  "~",
  "CON",
  "acme\n",
  "acme ",
  "ACME",
  "acme",
  "ａｃｍｅ",
  "é",
  "e\u0301",
  "",
  "__proto__",
  "x".repeat(10_000),
  "x".repeat(10_001),
  "x'; DROP TABLE tenant_sums; --"
]

describe("a tenant with a hostile name", () => {
  it.effect("is apart from all others, and has a folder below the folder of tenants", () =>
    Effect.gen(function* () {
      const paths = yield* Path.Path
      const places = names.map((name) => locateWorkspace(paths, "/home", name))
      assert.strictEqual(new Set(places).size, names.length)
      for (const [at, place] of places.entries()) {
        assert.isTrue(paths.resolve(place).startsWith("/home/tenants/"), names[at])
        assert.match(formatTenantFolder(names[at] ?? ""), /^[a-z0-9_-]{1,64}$/u)
      }
      const { usage, within } = yield* Tenants.Tenants
      for (const name of names) assert.strictEqual(yield* within(name, CurrentTenant), name)
      assert.deepStrictEqual(yield* usage(), [])
    }).pipe(Effect.provide([NodeServices.layer, Tenants.layer({ lookup: (id) => Effect.succeed({ id }) })]))
  )

  it.effect("is refused if stores cannot tell its name from another one", () =>
    Effect.gen(function* () {
      const { within } = yield* Tenants.Tenants
      for (const name of ["a\ud800", "a\udc00", "a\0b"]) {
        const refused = yield* Effect.flip(within(name, Effect.void))
        assert(refused._tag === "TenantRefused" && refused.reason === "limits", name)
        assert.include(refused.message, "the id of tenant")
      }
    }).pipe(Effect.provide(Tenants.layer({ lookup: (id) => Effect.succeed({ id }) })))
  )

  it.effect("is not repeated in full by a refusal", () => {
    const id = "x".repeat(10_000)
    return Effect.gen(function* () {
      const { within } = yield* Tenants.Tenants
      const busy = yield* Effect.flip(within(id, within(id, Effect.void)))
      assert(busy._tag === "TenantRefused" && busy.reason === "busy")
      const unknown = yield* Effect.flip(within(`${id}y`, Effect.void))
      const invalid = yield* Effect.flip(within(`${id}z`, Effect.void))
      for (const { message } of [busy, unknown, invalid]) assert.isBelow(message.length, 300)
    }).pipe(
      Effect.provide(
        Tenants.layerFrom([
          { id, concurrentRuns: 1 },
          { id: `${id}z`, concurrentRuns: -1 }
        ])
      )
    )
  })
})

describe("a place of a run", () => {
  it.effect("is renewed while the clock of its process is an hour behind", () =>
    Effect.gen(function* () {
      let renewed = 0
      const ledger = yield* TenantLedger
      const writer = yield* makeLedgerWriter({
        ...ledger,
        renew: (ids, expiresIn) =>
          Effect.andThen(
            Effect.sync(() => void renewed++),
            ledger.renew(ids, expiresIn)
          )
      })
      const clock = yield* Clock.Clock
      let behind = 0
      const late: Clock.Clock = {
        ...clock,
        sleep: (duration) => clock.sleep(duration),
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() - behind,
        currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now - behind)
      }
      yield* TestClock.setTime(Date.UTC(2026, 10, 30, 12))
      yield* Effect.provideService(writer.holdPlace("place"), Clock.Clock, late)
      behind = 3_600_000
      yield* TestClock.adjust("2 minutes")
      assert.isAtLeast(renewed, 2)
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory)))
  )
})
