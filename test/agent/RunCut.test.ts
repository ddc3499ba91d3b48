// The end of the record of an interrupted run whose resources take long: it does not wait for them, and what they leave
// is still told by every view.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Delegate, RunRecord, Runtime, Scripted, Toolset } from "../../src/index.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as FromRuns from "../../src/observe/atif/FromRuns.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as AtofRuns from "../../src/observe/atof/FromRuns.ts"
import * as RunTree from "../../src/observe/RunTree.ts"

const Hang = Tool.make("hang", { parameters: Schema.Struct({}), success: Schema.String }).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Hang)

/** A tool that begins, and then ignores its interruption until it is released. */
const hanging = (begun: Deferred.Deferred<void>, released: Deferred.Deferred<void>) =>
  Toolset.make(
    "hang",
    toolkit,
    toolkit.toLayer({
      hang: () =>
        Effect.uninterruptible(
          Effect.andThen(Deferred.succeed(begun, undefined), Effect.as(Deferred.await(released), "late"))
        )
    })
  )

const call = (name: string, params: object) => Scripted.complete({ toolCalls: [{ name, params }] })

const kinds = (tags: ReadonlyArray<string>) => tags.filter((tag) => !/Message|Offered|Attempt|Notice/u.test(tag))

const cut = (turns: ReadonlyArray<Scripted.Turn>) =>
  Effect.gen(function* () {
    const begun = yield* Deferred.make<void>()
    const released = yield* Deferred.make<void>()
    return yield* Effect.gen(function* () {
      const record = yield* RunRecord.RunRecord
      const read = Effect.map(Stream.runCollect(record.read()), (entries) => entries.map(({ event }) => event._tag))
      const run = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s" }))
      yield* Deferred.await(begun)
      const interruption = yield* Effect.forkChild(Fiber.interrupt(run))
      yield* TestClock.adjust("1 second")
      const early = yield* read
      yield* Deferred.succeed(released, undefined)
      yield* Fiber.join(interruption)
      const entries = yield* Stream.runCollect(record.read())
      return { early, entries }
    }).pipe(
      Effect.provide(
        Runtime.layer({ provider: Scripted.layer(turns), tools: [hanging(begun, released), Delegate.toolset] })
      )
    )
  })

describe("the record of a run whose tool ignores interruption", () => {
  it.effect("ends without it, once, and views have the result that is stored later", () =>
    Effect.gen(function* () {
      const { early, entries } = yield* cut([call("hang", {})])
      assert.deepStrictEqual(kinds(early), ["RunStarted", "CallStarted", "CallEnded", "RunEnded"])
      assert.deepStrictEqual(kinds(entries.map(({ event }) => event._tag)), [...kinds(early)])
      const events = AtofRuns.toEvents(entries, { name: "a" })
      assert.deepStrictEqual(Atof.check({ events, faults: [] }), [])
      const trajectory = FromRuns.buildTrajectory(RunTree.fromEntries(entries), "s")
      const [converted] = AtifConvert.convert(events).trajectories
      const results = (one: typeof trajectory) =>
        one?.steps.flatMap(({ observation }) => observation?.results.map(({ content }) => content) ?? [])
      assert.lengthOf(results(trajectory) ?? [], 1)
      assert.notStrictEqual(results(trajectory)?.[0], "")
      assert.deepStrictEqual(results(converted), results(trajectory))
      assert.strictEqual(trajectory?.extra?.["interrupted"], true)
    })
  )

  it.effect("ends with its child first", () =>
    Effect.gen(function* () {
      const { early, entries } = yield* cut([call("delegate_task", { goal: "sub" }), call("hang", {})])
      assert.deepStrictEqual(kinds(early), [
        "RunStarted",
        "CallStarted",
        "ChildStarted",
        "RunStarted",
        "CallStarted",
        "CallEnded",
        "RunEnded",
        "ChildEnded",
        "CallEnded",
        "RunEnded"
      ])
      assert.deepStrictEqual(kinds(entries.map(({ event }) => event._tag)), [...kinds(early)])
      assert.deepStrictEqual(Atof.check({ events: AtofRuns.toEvents(entries, { name: "a" }), faults: [] }), [])
    })
  )
})
