import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { SessionId, TaskId } from "../../src/base/domain/Ids.ts"
import * as ProcessEvents from "../../src/tools/builtin/terminal/ProcessEvents.ts"

const event = (sessionId: string, processId: string): ProcessEvents.ProcessEvent => ({
  _tag: "WatchDemoted",
  processId,
  sessionId: SessionId.make(sessionId),
  taskId: TaskId.make("t"),
  command: "x",
  at: 0
})

it.effect("a session takes its own events, in order, and waits for one that is not there yet", () =>
  Effect.gen(function* () {
    const events = yield* ProcessEvents.make
    const waiting = yield* events.take(SessionId.make("b")).pipe(Effect.forkChild)
    yield* events.publish(event("a", "1"))
    yield* events.publish(event("a", "2"))
    assert.isUndefined(waiting.pollUnsafe())
    yield* events.publish(event("b", "3"))
    assert.strictEqual((yield* Fiber.join(waiting)).processId, "3")
    assert.deepStrictEqual(
      (yield* events.drain(SessionId.make("a"))).map(({ processId }) => processId),
      ["1", "2"]
    )
    assert.deepStrictEqual(yield* events.drain(SessionId.make("a")), [])
  })
)

it.effect("with nobody there to take them, the oldest events are forgotten", () =>
  Effect.gen(function* () {
    const events = yield* ProcessEvents.make
    for (let n = 0; n <= ProcessEvents.capacity; n++) yield* events.publish(event("a", String(n)))
    const kept = yield* events.drain(SessionId.make("a"))
    assert.strictEqual(kept.length, ProcessEvents.capacity)
    assert.strictEqual(kept[0]?.processId, "1")
  })
)
