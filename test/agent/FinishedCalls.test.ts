// A call that has ended is stored with its result, even if its run is interrupted before the result is stored.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as Hook from "../../src/hooks/Hook.ts"

import { Provider } from "../../src/models/provider/Provider.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as LongResult from "../../src/tools/LongResult.ts"
import * as ResultText from "../../src/tools/ResultText.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const Produce = Tool.make("produce", {
  description: "Returns a value",
  parameters: Schema.Struct({ name: Schema.String }),
  success: Schema.Unknown
}).annotate(Annotations.PathArguments, ["name"])
const toolkit = Toolkit.make(Produce)

/** A value that reports that it is read, which happens when the call has ended and its result is rendered. */
const makeObserved = (read: () => void, length: number) =>
  Object.defineProperty({}, "text", {
    enumerable: true,
    get: () => {
      read()
      return "word ".repeat(length / 5)
    }
  })

interface Setup {
  readonly value: (read: () => void) => unknown
  readonly keep?: (kept: () => void) => Effect.Effect<string>
  readonly hooks?: (called: () => void) => ReadonlyArray<Hook.Hook>
  readonly calls?: number
}

/** Interrupts a run when it has reached the point that the setup reports. Returns the stored results. */
const interruptAt = ({ calls = 1, hooks, keep, value }: Setup) => {
  const reached = Deferred.makeUnsafe<void>()
  const report = (): void => void Deferred.doneUnsafe(reached, Effect.void)
  const names = Array.from({ length: calls }, (_, index) => `c${index}`)
  const fake = Fake.make(Fake.calls(...names.map((name) => Fake.call(name, "produce", { name: `/tmp/${name}` }))))
  const keeper: ResultText.Keeper = { keep: () => keep?.(report) ?? Effect.fail("nothing is stored") }
  const layer = Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    tools: [Toolset.make("test", toolkit, toolkit.toLayer({ produce: () => Effect.sync(() => value(report)) }))],
    hooks: hooks?.(report) ?? [],
    cwd: "/tmp"
  })
  const session = SessionId.make("s1")
  return Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: session }))
    yield* Deferred.await(reached)
    const interrupted = yield* Effect.forkChild(Fiber.interrupt(fiber))
    yield* Effect.yieldNow
    // Observers have a deadline.
    yield* TestClock.adjust("1 hour")
    yield* Fiber.join(interrupted)
    const messages = yield* SessionStore.use((store) => store.messages(session))
    assert.strictEqual(fake.asked.length, 1)
    return messages.flatMap((message) =>
      message.role === "tool"
        ? message.content.flatMap((part) => (part.type === "tool-result" ? [String(part.result)] : []))
        : []
    )
  }).pipe(Effect.provide(layer), Effect.provideService(ResultText.ResultKeeper, keeper))
}

const long = 2 * LongResult.atOnce

describe("a call that has ended", () => {
  it.effect("keeps its result when the run is interrupted while the result is rendered", () =>
    Effect.gen(function* () {
      const [result] = yield* interruptAt({ value: (read) => makeObserved(read, long) })
      assert.include(result, "word word")
      assert.include(result, "Truncated")
    })
  )

  it.effect("keeps its result when the run is interrupted while the result is written to a file", () =>
    Effect.gen(function* () {
      const keep = (kept: () => void) =>
        Effect.sync(kept).pipe(Effect.andThen(Effect.yieldNow), Effect.andThen(Effect.yieldNow), Effect.as("/kept.txt"))
      const [result] = yield* interruptAt({ value: () => "word ".repeat(30_000), keep })
      assert.include(result, "/kept.txt")
    })
  )

  it.effect("keeps its result beside other calls", () =>
    Effect.gen(function* () {
      const results = yield* interruptAt({ value: (read) => makeObserved(read, long), calls: 3 })
      assert.strictEqual(results.length, 3)
      assert.isAtLeast(results.filter((result) => result.includes("word word")).length, 1)
    })
  )

  it.effect("keeps its result when the run is interrupted while an observer waits", () =>
    Effect.gen(function* () {
      const hooks = (called: () => void) => [
        Hook.on("post_tool_call", () => Effect.andThen(Effect.sync(called), Effect.never))
      ]
      const results = yield* interruptAt({ value: () => "all of it", hooks })
      assert.deepStrictEqual(results, ["all of it"])
    })
  )

  it.effect("has no result when the run is interrupted while a hook may still change it", () =>
    Effect.gen(function* () {
      const hooks = (called: () => void) => [
        Hook.on("transform_tool_result", () => Effect.andThen(Effect.sync(called), Effect.never))
      ]
      const results = yield* interruptAt({ value: () => "all of it", hooks })
      assert.deepStrictEqual(results, [Conversation.mayHaveHappenedResult])
    })
  )
})
