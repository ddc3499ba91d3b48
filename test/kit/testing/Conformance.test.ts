// Rules without a test runner: how they break, and how tests are made of them.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import * as Check from "../../../src/kit/testing/Check.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"

class Box extends Context.Service<Box, { readonly content: Array<number> }>()("test/Box") {}

const rules = [
  Conformance.makeRule(
    "box",
    "is empty",
    Box.use(({ content }) => Effect.sync(() => Check.equals(content, [])))
  ),
  Conformance.makeRule(
    "box",
    "is filled",
    Box.use(({ content }) => Effect.sync(() => void content.push(1)))
  ),
  Conformance.makeRule(
    "box",
    "breaks by a comparison",
    Effect.sync(() => Check.equals({ a: [1, new Set(["b"])] }, { a: [1, new Set(["c"])] }, "the set"))
  ),
  Conformance.makeRule("box", "breaks by a failure", Effect.fail(new Error("gone"))),
  Conformance.makeTimedRule(
    "time",
    "moves when it is told to",
    Effect.gen(function* () {
      const before = yield* Clock.currentTimeMillis
      yield* TestClock.adjust("1 hour")
      Check.equals((yield* Clock.currentTimeMillis) - before, 3_600_000)
    })
  )
]

describe("Conformance", () => {
  it.live("a report has the end of each rule, each on a subject of its own", () =>
    Effect.gen(function* () {
      const results = yield* Conformance.runRules(
        rules,
        Layer.sync(Box, () => ({ content: [] }))
      )
      assert.deepStrictEqual(
        results.map(({ broken, name }) => [name, broken?.message]),
        [
          ["is empty", undefined],
          ["is filled", undefined],
          ["breaks by a comparison", 'the set: {"a":[1,{}]} should be {"a":[1,{}]}'],
          ["breaks by a failure", "breaks by a failure: gone"],
          ["moves when it is told to", undefined]
        ]
      )
      assert.deepStrictEqual(results[2]?.broken?.actual, { a: [1, new Set(["b"])] })
      const unmade = yield* Conformance.runRules(
        rules.slice(0, 1),
        Layer.effect(Box, Effect.fail(new Error("no box here")))
      )
      assert.deepStrictEqual(
        unmade.map(({ broken }) => broken?.message),
        ["is empty: no box here"]
      )
    })
  )

  it.live("any runner gets a test of each rule, without the exceptions; a shared subject is given up behind them", () =>
    Effect.promise(async () => {
      const tests = new Map<string, () => Promise<void>>()
      const after: Array<() => Promise<void>> = []
      const runner: Conformance.Runner = { test: (name, run) => tests.set(name, run), after: (run) => after.push(run) }
      let closed = 0
      const subject = Layer.effect(
        Box,
        Effect.as(
          Effect.addFinalizer(() => Effect.sync(() => void closed++)),
          { content: [] }
        )
      )
      const names = Conformance.register(runner, rules, subject, {
        sharing: "all",
        exceptions: { "breaks by a failure": "it has none" }
      })
      assert.deepStrictEqual(names, [
        "box: is empty",
        "box: is filled",
        "box: breaks by a comparison",
        "time: moves when it is told to"
      ])
      assert.deepStrictEqual(Array.from(tests.keys()), names)
      await tests.get("box: is filled")?.()
      const refused = await tests
        .get("box: is empty")?.()
        .then(
          () => undefined,
          (error: unknown) => error
        )
      assert.instanceOf(refused, Check.RuleBroken)
      for (const run of after) await run()
      assert.strictEqual(closed, 1)
    })
  )

  it.live("an interrupted rule is interrupted, and not broken", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(Conformance.makeRule("box", "ends", Effect.interrupt).check)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
    })
  )

  it("checks that do not hold say both values", () => {
    const broken: ReadonlyArray<readonly [() => void, string]> = [
      [() => Check.holds(false, "it is open"), "it is open"],
      [() => Check.includes("abc", "x"), '"abc" should contain "x"'],
      [() => Check.includes(undefined, "x"), 'undefined should contain "x"'],
      [() => Check.excludes("abc", "b"), '"abc" should not contain "b"'],
      [() => Check.matches("abc", /^b/), '"abc" should match /^b/'],
      [() => Check.hasFields({ a: 1, b: 2 }, { a: 2 }), '{"a":1} should be {"a":2}'],
      [() => Check.hasFields({ a: 1 }, { b: undefined }), "{} should be {}"],
      [() => Check.includesAll([1, 2], [2, 3]), "3 should be one of [1,2]"],
      [() => Check.equals(new Uint8Array([1]), new Uint8Array([2])), "1 bytes should be 1 bytes"]
    ]
    for (const [run, message] of broken) assert.throws(run, message)
    Check.hasFields({ a: 1, b: 2 }, { a: 1 })
    Check.includesAll([1, [2]], [[2]])
  })
})
