// Tenants at a shared key: calls that wait are admitted in turns, so that many calls of one tenant do not starve another.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as RateLimitGate from "../../../src/models/routing/RateLimitGate.ts"

/** A call whose tokens are not limited. */
const unlimited = (tenant: string | undefined): RateLimitGate.QueuedCall => ({ tenant, tokens: () => 0 })

/** A gate whose key accepts few calls: one was refused, so that others wait. */
const makeGate = Effect.gen(function* () {
  const limits = yield* RateLimitGate.makeLimits
  const now = yield* Clock.currentTimeMillis
  const slot = limits.take("key", unlimited(undefined), now)
  if (slot === undefined) return assert.fail("the first call is admitted at once")
  limits.refused(slot, Duration.seconds(1), now)
  const admitted: Array<string> = []
  const call = (tenant: string | undefined, name: string) =>
    Effect.gen(function* () {
      let taken: RateLimitGate.Slot | undefined
      yield* limits.enter("key", { ...unlimited(tenant), place: limits.place() }, (slot) => {
        taken = slot
      })
      admitted.push(name)
      if (taken !== undefined) limits.accepted(taken, yield* Clock.currentTimeMillis)
    })
  const start = (tenant: string | undefined, name: string) =>
    Effect.forkChild(call(tenant, name), { startImmediately: true })
  return { limits, admitted, start }
})

const storm = Array.from({ length: 100 }, (_, index) => `storm ${index}`)

describe("the queue of a key", () => {
  it.effect("admits a tenant's single call among the first of another's storm of a hundred", () =>
    Effect.gen(function* () {
      const { admitted, limits, start } = yield* makeGate
      const now = yield* Clock.currentTimeMillis
      const fibers = yield* Effect.forEach(storm, (name) => start("noisy", name))
      const behind = limits.expected("key", unlimited("noisy"), now)
      const fair = limits.expected("key", unlimited("quiet"), now)
      assert.isBelow(fair, behind / 10)
      const single = yield* start("quiet", "single")
      yield* TestClock.adjust("10 minutes")
      yield* Fiber.await(single)
      assert.isAtMost(admitted.indexOf("single"), 1)
      yield* Effect.forEach(fibers, Fiber.await)
      // The calls of one tenant keep their order.
      assert.deepStrictEqual(
        admitted.filter((name) => name !== "single"),
        storm
      )
    })
  )

  it.effect("admits a tenant's single call among the first if the provider states its limits", () =>
    Effect.gen(function* () {
      const limits = yield* RateLimitGate.makeLimits
      const now = yield* Clock.currentTimeMillis
      const headers: Readonly<Record<string, string>> = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "60s"
      }
      limits.told("key", (name) => headers[name], now)
      const admitted: Array<readonly [name: string, at: number]> = []
      const start = (tenant: string, name: string) =>
        Effect.forkChild(
          limits
            .enter("key", { ...unlimited(tenant), place: limits.place() }, () => undefined)
            .pipe(
              Effect.andThen(Clock.currentTimeMillis),
              Effect.tap((at) => Effect.sync(() => admitted.push([name, at - now])))
            ),
          { startImmediately: true }
        )
      const fibers = yield* Effect.forEach(storm, (name) => start("noisy", name))
      const single = yield* start("quiet", "single")
      assert.strictEqual(limits.take("key", unlimited("late"), now), undefined)
      yield* TestClock.adjust("10 minutes")
      yield* Effect.forEach([single, ...fibers], Fiber.await)
      assert.deepStrictEqual(admitted.slice(0, 3), [
        ["storm 0", 1_000],
        ["single", 2_000],
        ["storm 1", 3_000]
      ])
      assert.deepStrictEqual(admitted.length, storm.length + 1)
    })
  )

  it.effect("admits tenants in turns, and calls without a tenant as one more line", () =>
    Effect.gen(function* () {
      const { admitted, start } = yield* makeGate
      const lines = { a: ["a1", "a2", "a3", "a4"], b: ["b1", "b2"], none: ["n1", "n2"] }
      for (const name of lines.a) yield* start("a", name)
      for (const name of lines.b) yield* start("b", name)
      for (const name of lines.none) yield* start(undefined, name)
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(admitted, ["a1", "b1", "n1", "a2", "b2", "n2", "a3", "a4"])
    })
  )

  it.effect("goes on when the next call is given up", () =>
    Effect.gen(function* () {
      const { admitted, start } = yield* makeGate
      yield* start("a", "a1")
      const next = yield* start("b", "b1")
      yield* start("a", "a2")
      yield* Fiber.interrupt(next)
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(admitted, ["a1", "a2"])
    })
  )
})
