// Tenants at a shared key: calls that wait are admitted in turns, so that many calls of one tenant do not starve another.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as RateLimitGate from "../../../src/models/routing/RateLimitGate.ts"

/** A gate whose key accepts few calls: one was refused, so that others wait. */
const makeGate = Effect.gen(function* () {
  const limits = yield* RateLimitGate.makeLimits
  const now = yield* Clock.currentTimeMillis
  const slot = limits.take("key", now)
  if (slot === undefined) return assert.fail("the first call is admitted at once")
  limits.refused(slot, Duration.seconds(1), now)
  const admitted: Array<string> = []
  const call = (tenant: string | undefined, name: string) =>
    Effect.gen(function* () {
      let taken: RateLimitGate.Slot | undefined
      yield* limits.enter("key", { place: limits.place(), tenant }, (slot) => {
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
      const behind = limits.expected("key", now, "noisy")
      const fair = limits.expected("key", now, "quiet")
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
