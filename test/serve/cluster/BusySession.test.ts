// Durable work on a session that another run owns waits for it: nothing is done twice, and no attempt is lost.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as DurableRun from "../../../src/serve/cluster/DurableRun.ts"
import * as Runs from "../../../src/serve/cluster/Runs.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { Runtime, SessionStore, Toolset } from "../../../src/index.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as BatchRow from "../../../src/research/batch/BatchRow.ts"
import type { Row } from "../../../src/research/batch/Dataset.ts"
import * as Fake from "../../support/fakeModel.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const toolkit = Toolkit.make(Tool.make("effect", { parameters: Schema.Struct({}), success: Schema.String }))

/** An agent whose tool takes until `release`, and the times that it ran. */
const setUp = Effect.gen(function* () {
  const [begun, release] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
  const ran: Array<string> = []
  const fake = Fake.make(Fake.calls(Fake.call("a", "effect", {})), Fake.text("done"))
  const store = SessionStore.layerMemory
  const layer = Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    store,
    tools: [
      Toolset.make(
        "test",
        toolkit,
        toolkit.toLayer({
          effect: () =>
            Effect.sync(() => void ran.push("effect")).pipe(
              Effect.andThen(Deferred.succeed(begun, undefined)),
              Effect.andThen(Deferred.await(release)),
              Effect.as("did it")
            )
        })
      )
    ]
  }).pipe(Layer.provideMerge(Layer.mergeAll(store, NodeServices.layer)))
  return { begun, release, ran, fake, layer }
})

/** Lets a fiber wait for four minutes of the test's clock, and tests that it still does. */
const waits = <A, E>(fiber: Fiber.Fiber<A, E>) =>
  Effect.gen(function* () {
    for (let minute = 0; minute < 4; minute++) {
      yield* TestClock.adjust("1 minute")
      yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
    }
    assert.isUndefined(fiber.pollUnsafe())
  })

const finishes = Effect.fnUntraced(function* <A, E>(fiber: Fiber.Fiber<A, E>) {
  for (let round = 0; round < 200 && fiber.pollUnsafe() === undefined; round++) {
    yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
    yield* TestClock.adjust("5 seconds")
  }
  return yield* Fiber.join(fiber)
})

const row: Row = { id: "r", index: 0, line: 0, file: "rows.jsonl", digest: "d", fields: { prompt: "go" } }

describe("work on a busy session", () => {
  it.effect("a turn is done once, by its owner; the runner that waited has the same answer", () =>
    Effect.gen(function* () {
      const { begun, fake, layer, ran, release } = yield* setUp
      const turn = DurableRun.run({ sessionId: "s", firstPosition: 0, prompt: "go", isFirst: true })
      const answers = yield* Effect.provide(
        Effect.gen(function* () {
          const owner = yield* Effect.forkChild(turn)
          yield* Deferred.await(begun)
          const second = yield* Effect.forkChild(turn)
          yield* waits(second)
          yield* Deferred.succeed(release, undefined)
          return [yield* finishes(owner), yield* finishes(second)]
        }),
        layer
      )
      assert.deepStrictEqual(
        answers.map(({ text }) => text),
        ["done", "done"]
      )
      assert.deepStrictEqual(ran, ["effect"])
      assert.lengthOf(fake.executed, 2)
    })
  )

  it.effect("a row of a batch is done once, in the session of its attempt", () =>
    Effect.gen(function* () {
      const { begun, fake, layer, ran, release } = yield* setUp
      const directory = yield* temporaryDirectory
      const attempt = BatchRow.run(
        row,
        { number: 1, goesOn: false },
        {
          directory,
          promptField: "prompt",
          getToolsets: () => ["test"],
          disabledToolsets: [],
          getRowBatch: () => 0,
          knownTools: [],
          ephemeralSystemPrompt: undefined,
          maxIterations: undefined,
          needsReasoning: false,
          withAtif: false,
          keepsWorkspaces: true,
          prepare: () => Effect.void
        }
      )
      const sessions = yield* Effect.provide(
        Effect.gen(function* () {
          const owner = yield* Effect.forkChild(attempt)
          yield* Deferred.await(begun)
          const second = yield* Effect.forkChild(attempt)
          yield* waits(second)
          yield* Deferred.succeed(release, undefined)
          yield* finishes(owner)
          yield* finishes(second)
          return yield* (yield* SessionStore.SessionStore).list({ limit: 10 })
        }),
        layer
      )
      assert.deepStrictEqual(
        sessions.map(({ id }) => id),
        [SessionId.make("batch-r-1")]
      )
      assert.deepStrictEqual(ran, ["effect"])
      assert.lengthOf(fake.executed, 2)
    })
  )
})

describe("a run that ends its runners", () => {
  const request = { id: "one", batch: "b", kind: "turn", sessionId: "s", input: "{}", retries: 0 }

  it.live("counts starts in a row that came no further; a new message or a paused attempt begins the count anew", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/runs.db`
      yield* Effect.gen(function* () {
        const runs = yield* Runs.Runs
        yield* runs.add(request)
        const stalls = (messages: number) =>
          Effect.map(runs.start("one", "runner", messages), (started) => started?.stalls)
        assert.deepStrictEqual([yield* stalls(1), yield* stalls(1), yield* stalls(1)], [0, 1, 2])
        assert.deepStrictEqual([yield* stalls(3), yield* stalls(3)], [0, 1])
        assert.isFalse(yield* runs.pause("one", 4))
        assert.isTrue(yield* runs.pause("one", 5))
        assert.strictEqual(yield* stalls(3), 0)
      }).pipe(Effect.provide(Runs.layerSqlite(path)))
    })
  )
})
