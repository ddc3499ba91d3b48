// Exporters handle long batches of entries in slices, between which other fibers run.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { SessionId, TurnId } from "../../src/base/domain/Ids.ts"
import type { Entry } from "../../src/base/domain/RecordEvent.ts"
import { forEachSlice, sliceChars } from "../../src/observe/EntrySlices.ts"

const makeNotice = (length: number, index: number): Entry => ({
  at: index,
  sessionId: SessionId.make("s1"),
  turnId: TurnId.make("t1"),
  event: { _tag: "Notice", level: "info", message: "x".repeat(length) }
})

const collectSlices = (entries: ReadonlyArray<Entry>) => {
  const slices: Array<ReadonlyArray<Entry>> = []
  return Effect.as(
    forEachSlice(entries, (slice) => Effect.sync(() => void slices.push(slice))),
    slices
  )
}

describe("slices of entries", () => {
  it.effect("end after a number of characters, and keep every entry in order", () =>
    Effect.gen(function* () {
      const entries = [1, 2 * sliceChars, 1, 1, sliceChars, 1].map(makeNotice)
      const slices = yield* collectSlices(entries)
      assert.deepStrictEqual(
        slices.map(({ length }) => length),
        [2, 3, 1]
      )
      assert.deepStrictEqual(slices.flat(), entries)
    })
  )

  it.effect("are one for a batch of usual size, which is not copied, and for an empty one", () =>
    Effect.gen(function* () {
      const entries = Array.from({ length: 100 }, (_, index) => makeNotice(100, index))
      const slices = yield* collectSlices(entries)
      assert.strictEqual(slices[0], entries)
      assert.deepStrictEqual(yield* collectSlices([]), [[]])
    })
  )

  it.effect("let another fiber run between them", () =>
    Effect.gen(function* () {
      let turns = 0
      const other = yield* Effect.forkChild(
        Effect.forever(
          Effect.andThen(
            Effect.sync(() => void turns++),
            Effect.yieldNow
          )
        )
      )
      const slices = yield* collectSlices(Array.from({ length: 20 }, (_, index) => makeNotice(sliceChars, index)))
      yield* Fiber.interrupt(other)
      assert.strictEqual(slices.length, 20)
      // The scheduler may run two slices in a row.
      assert.isAtLeast(turns, 10)
    })
  )
})
