import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Availability from "../../src/tools/ToolRegistry.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"

const plain = Tool.make("always", { success: Schema.String })

/** A registry with a tool that is always there, and one that is there when a check says so. */
const registryOf = (check: Effect.Effect<boolean, unknown>) => {
  const toolkit = Toolkit.make(
    plain,
    Tool.make("sometimes", { success: Schema.String }).annotate(Annotations.Available, check)
  )
  const handlers = toolkit.toLayer({ always: () => Effect.succeed("a"), sometimes: () => Effect.succeed("s") })
  return Effect.map(Layer.build(ToolRegistry.layer([Toolset.make("set", toolkit, handlers)])), (context) =>
    Context.get(context, ToolRegistry.ToolRegistry).snapshot(ToolRegistry.everything)
  )
}

describe("Availability", () => {
  it.effect("a tool that can not be used is left out, and comes back", () =>
    Effect.gen(function* () {
      let isThere = false
      const snapshot = yield* registryOf(Effect.sync(() => isThere))
      const without = yield* snapshot
      assert.deepStrictEqual(without.names, ["always"])
      assert.deepStrictEqual(
        without.definitions.map(({ name }) => name),
        ["always"]
      )
      assert.isUndefined(without.get("sometimes"))
      assert.strictEqual(yield* snapshot, without)
      isThere = true
      yield* TestClock.adjust(Availability.availabilityHolds)
      const whole = yield* snapshot
      assert.deepStrictEqual(whole.names, ["always", "sometimes"])
      assert.strictEqual(yield* snapshot, whole)
    })
  )

  it.effect("a result holds for half a minute", () =>
    Effect.gen(function* () {
      let asked = 0
      const watch = Availability.watchAvailability(
        "t",
        Effect.sync(() => ++asked > 0)
      )
      yield* watch
      yield* TestClock.adjust(Availability.availabilityHolds - 1)
      assert.isTrue(yield* watch)
      assert.strictEqual(asked, 1)
      yield* TestClock.adjust(1)
      yield* watch
      assert.strictEqual(asked, 2)
    })
  )

  it.effect("a failure within a minute of a success is a flake, a later one is not", () =>
    Effect.gen(function* () {
      let isThere = true
      const watch = Availability.watchAvailability(
        "t",
        Effect.suspend(() => (isThere ? Effect.succeed(true) : Effect.fail("down")))
      )
      assert.isTrue(yield* watch)
      isThere = false
      yield* TestClock.adjust(Availability.availabilityHolds)
      assert.isTrue(yield* watch)
      yield* TestClock.adjust(Availability.availabilityHolds)
      assert.isFalse(yield* watch)
    })
  )

  it.effect("38 a check that fails, dies or hangs says no, and the others are offered", () =>
    Effect.gen(function* () {
      const checks: ReadonlyArray<Effect.Effect<boolean, unknown>> = [
        Effect.fail("down"),
        Effect.die(new Error("a bug")),
        Effect.sync(() => JSON.parse("{"))
      ]
      for (const check of checks) {
        assert.deepStrictEqual((yield* yield* registryOf(check)).names, ["always"])
      }
      const hanging = yield* Effect.forkChild(yield* registryOf(Effect.never))
      yield* TestClock.adjust(Availability.availabilityDeadline)
      assert.deepStrictEqual((yield* Fiber.join(hanging)).names, ["always"])
    })
  )
})
