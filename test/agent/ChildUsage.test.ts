// What children take is in the sums of every run and session above them, however those ended, and told when it is paid.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as AiError from "effect/ai/AiError"
import * as Agent from "../../src/agent/Agent.ts"
import { Children } from "../../src/agent/Children.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RunEvent, UsageReported } from "../../src/base/domain/RunEvent.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { delegate, isChild, say, setup } from "../support/delegation.ts"
import * as Fake from "../support/fakeModel.ts"

const s1 = SessionId.make("s1")

const stored = Effect.fnUntraced(function* (id: string) {
  const store = yield* SessionStore
  const { usage } = Option.getOrThrow(yield* store.get(SessionId.make(id)))
  const models = yield* store.usageByModel(SessionId.make(id))
  assert.strictEqual(
    models.reduce((count, { usage }) => count + usage.requestCount, 0),
    usage.requestCount
  )
  return usage
})

const listening = () => {
  const events: Array<RunEvent> = []
  const reported = () => events.flatMap((event) => (event._tag === "UsageReported" ? [event] : []))
  return { events, reported, onEvent: (some: ReadonlyArray<RunEvent>) => Effect.sync(() => void events.push(...some)) }
}

describe("what children take", () => {
  it.effect("is in the session of the parent and of its parent, in each once", () => {
    const { layer } = setup(({ prompt, results }) => {
      if (results > 0) return say("done")
      if (!isChild(prompt)) return delegate({ goal: "outer", role: "orchestrator" })
      return prompt.startsWith("outer") ? delegate({ goal: "inner" }) : say("inner is done")
    })
    return Effect.gen(function* () {
      const { onEvent, reported } = listening()
      const { usage } = yield* Agent.run({ prompt: "go", sessionId: "s1", onEvent })
      assert.strictEqual(usage.requestCount, 5)
      assert.deepStrictEqual(yield* stored("s1"), usage)
      assert.deepStrictEqual(
        reported().reduce((sum, event) => Usage.add(sum, event.usage), Usage.zero),
        usage
      )
      const store = yield* SessionStore
      const sessions = yield* store.list({ source: "subagent" })
      const counts = sessions.map(({ usage }) => usage.requestCount).sort()
      assert.deepStrictEqual(counts, [1, 3])
      const [model] = yield* store.usageByModel(s1)
      assert.strictEqual(model?.usage.requestCount, 5)
    }).pipe(Effect.provide(layer))
  })

  it.effect("is there when the run fails after them", () => {
    const refused = Fake.failure(new AiError.AuthenticationError({ kind: "InvalidKey" }))
    const { layer } = setup(({ prompt, results }) =>
      isChild(prompt) ? say("seven") : results === 0 ? delegate({ goal: "count" }) : Effect.fail(refused)
    )
    return Effect.gen(function* () {
      const { onEvent, reported } = listening()
      yield* Effect.flip(Agent.run({ prompt: "go", sessionId: "s1", onEvent }))
      assert.strictEqual((yield* stored("s1")).requestCount, 2)
      assert.strictEqual(reported().length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("is there when the run is interrupted while they work", () => {
    const second = Deferred.makeUnsafe<void>()
    const { layer } = setup(({ prompt, results }) => {
      if (!isChild(prompt)) return delegate({ goal: "count" })
      return results === 0
        ? Effect.succeed(Fake.callsAnswer(Fake.call("e1", "echo", { text: "x" })))
        : Effect.andThen(Deferred.succeed(second, undefined), Effect.never)
    })
    return Effect.gen(function* () {
      const { onEvent, reported } = listening()
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s1", onEvent }))
      yield* Deferred.await(second)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual((yield* stored("s1")).requestCount, 2)
      assert.strictEqual(reported().length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect(
    "is told to the run that sent them to the background while it goes on, and in its session afterwards too",
    () => {
      const [first, next, asked] = [
        Deferred.makeUnsafe<void>(),
        Deferred.makeUnsafe<void>(),
        Deferred.makeUnsafe<void>()
      ]
      const { layer } = setup(({ prompt, results }) => {
        if (isChild(prompt)) {
          return results === 0
            ? Effect.andThen(
                Deferred.await(first),
                Effect.succeed(Fake.callsAnswer(Fake.call("e1", "echo", { text: "x" })))
              )
            : Effect.andThen(Deferred.succeed(asked, undefined), Effect.andThen(Deferred.await(next), say("seven")))
        }
        // Answers only when the child's first call is paid for.
        return results === 0
          ? delegate({ goal: "count", background: true })
          : Effect.andThen(Deferred.succeed(first, undefined), Effect.andThen(Deferred.await(asked), say("ok")))
      })
      return Effect.gen(function* () {
        const { events, onEvent, reported } = listening()
        const after: Array<UsageReported> = []
        const onUsageAfter = (events: ReadonlyArray<UsageReported>) => Effect.sync(() => void after.push(...events))
        const { usage } = yield* Agent.run({ prompt: "go", sessionId: "s1", onEvent, onUsageAfter })
        assert.strictEqual(usage.requestCount, 3)
        assert.deepStrictEqual(
          reported().map(({ origin }) => origin?.startsWith("sa-") ?? false),
          [false, true, false]
        )
        assert.deepStrictEqual(
          reported().reduce((sum, event) => Usage.add(sum, event.usage), Usage.zero),
          usage
        )
        yield* Deferred.succeed(next, undefined)
        yield* (yield* Children).arrived(s1)
        // The last event stays the last, and the spending is told apart.
        assert.strictEqual(events.at(-1)?._tag, "RunFinished")
        assert.deepStrictEqual(
          after.map(({ origin, usage }) => [origin?.startsWith("sa-"), usage.requestCount]),
          [[true, 1]]
        )
        assert.strictEqual((yield* stored("s1")).requestCount, 4)
      }).pipe(Effect.provide(layer))
    }
  )
})
