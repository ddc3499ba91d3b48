// The hand-off of a run's events to the reader of its stream: at once, in order, whole, and with a bound.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as EventHandoff from "../../src/agent/EventHandoff.ts"
import { effectProp } from "../support/property.ts"

/** Reads a stream to its end; what it got, array by array. */
const reading = <E>(stream: Stream.Stream<number, E>) => {
  const got: Array<ReadonlyArray<number>> = []
  return Effect.map(
    Effect.forkChild(
      Stream.runForEachArray(stream, (events) => Effect.sync(() => void got.push(events))),
      { startImmediately: true }
    ),
    (fiber) => ({ fiber, got })
  )
}

describe("EventHandoff", () => {
  it.effect("a reader that waits has the events before the offer returns, in the arrays of the offers", () =>
    Effect.gen(function* () {
      const { end, offer, stream } = EventHandoff.make<number, never>(4)
      const { fiber, got } = yield* reading(stream)
      yield* offer([1])
      assert.deepStrictEqual(got, [[1]])
      yield* offer([])
      yield* offer([2, 3])
      assert.deepStrictEqual(got, [[1], [2, 3]])
      yield* end(Exit.void)
      yield* Fiber.join(fiber)
    })
  )

  it.effect("what is offered while nobody waits comes at once, before the end or the failure behind it", () =>
    Effect.gen(function* () {
      for (const exit of [Exit.void, Exit.fail("no")]) {
        const { end, offer, stream } = EventHandoff.make<number, string>(10)
        yield* offer([1, 2])
        yield* offer([3])
        yield* end(exit)
        yield* offer([4])
        const { fiber, got } = yield* reading(stream)
        assert.deepStrictEqual([yield* Fiber.await(fiber), got], [exit, [[1, 2, 3]]])
      }
    })
  )

  it.effect("the interruption of a run is that of its reader", () =>
    Effect.gen(function* () {
      const { end, stream } = EventHandoff.make<number, never>(10)
      const { fiber } = yield* reading(stream)
      yield* end(Exit.failCause(Cause.interrupt(1)))
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
    })
  )

  it.effect("whoever is too far ahead waits until the reader took what is there, or has left", () =>
    Effect.gen(function* () {
      const { close, offer, stream } = EventHandoff.make<number, never>(2)
      yield* offer([1])
      const waiting = [
        yield* Effect.forkChild(offer([2, 3]), { startImmediately: true }),
        yield* Effect.forkChild(offer([4]), { startImmediately: true })
      ]
      assert.deepStrictEqual(
        waiting.map((fiber) => fiber.pollUnsafe()),
        [undefined, undefined]
      )
      const { fiber, got } = yield* reading(stream)
      yield* Effect.forEach(waiting, Fiber.join)
      assert.deepStrictEqual(got, [[1, 2, 3, 4]])
      yield* Fiber.interrupt(fiber)
      const left = yield* Effect.forkChild(offer([5, 6]), { startImmediately: true })
      assert.isUndefined(left.pollUnsafe())
      yield* close
      yield* Fiber.join(left)
      yield* offer([7, 8, 9])
    })
  )

  effectProp(
    "keeps every event once and in its order, whoever is faster",
    {
      sizes: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 }))),
      slow: Schema.Array(Schema.Boolean)
    },
    ({ sizes, slow }) =>
      Effect.gen(function* () {
        const { end, offer, stream } = EventHandoff.make<number, never>(5)
        const pauseAt = (index: number) =>
          slow[index % Math.max(1, slow.length)] === true ? Effect.yieldNow : Effect.void
        let next = 0
        const writer = Effect.forEach(sizes, (size, index) =>
          Effect.andThen(offer(Array.from({ length: size }, () => next++)), pauseAt(index))
        ).pipe(Effect.andThen(end(Exit.void)))
        let taken = 0
        const reader = Stream.runFold(
          Stream.tap(stream, () => pauseAt(taken++)),
          () => [] as ReadonlyArray<number>,
          (all, event) => [...all, event]
        )
        const [read] = yield* Effect.all([reader, writer], { concurrency: 2 })
        assert.deepStrictEqual(
          read,
          Array.from({ length: next }, (_, index) => index)
        )
      }),
    { arbitrary: { runs: 60 } }
  )
})
