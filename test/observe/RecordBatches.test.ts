// Groups of entries for exporters: when they come, that all get the same, and what a failure costs.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { SessionId, TurnId } from "../../src/base/domain/Ids.ts"
import type { Entry } from "../../src/base/domain/RecordEvent.ts"
import * as RecordBatches from "../../src/observe/RecordBatches.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import { isClockWarning } from "../support/clockWarnings.ts"

const notice = (message: string): Entry => ({
  sessionId: SessionId.make("s"),
  turnId: TurnId.make("t"),
  at: 1,
  event: { _tag: "Notice", level: "info", message }
})
const secret = "abcdefghijklmnop1"
const textOf = ({ event }: Entry): string => (event._tag === "Notice" ? event.message : event._tag)

const listening = Effect.gen(function* () {
  const groups: Array<ReadonlyArray<Entry>> = []
  const { listen } = yield* RecordBatches.ofRecord
  yield* listen((entries) => void groups.push(entries))
  return groups
})

describe("RecordBatches", () => {
  it.effect("entries after a pause come at once, those of a pause together, to all the same and without secrets", () =>
    Effect.gen(function* () {
      const record = yield* RunRecord.RunRecord
      const [one, two] = [yield* listening, yield* listening]
      const texts = () => one.map((group) => group.map(textOf))
      yield* record.append([notice("a"), notice(`API_KEY=${secret}`)])
      yield* TestClock.adjust(0)
      assert.strictEqual(texts()[0]?.[0], "a")
      // The record keeps what only an export takes out.
      const kept = yield* Stream.runCollect(record.read())
      assert.include(kept.map(textOf).join(), secret)
      assert.match(texts()[0]?.[1] ?? "", /^API_KEY=/u)
      assert.notInclude(texts()[0]?.[1], secret)
      yield* record.append([notice("b")])
      yield* record.append([notice("c")])
      yield* TestClock.adjust("99 millis")
      assert.strictEqual(one.length, 1)
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(texts()[1], ["b", "c"])
      assert.isTrue(one.every((group, index) => group.every((entry, at) => entry === two[index]?.[at])))
    }).pipe(Effect.scoped, Effect.provide(RunRecord.layerMemory()))
  )

  it.effect("a listener that ends gets what has come, and nothing after that", () =>
    Effect.gen(function* () {
      const record = yield* RunRecord.RunRecord
      const scope = yield* Scope.make()
      const groups = yield* Scope.provide(listening, scope)
      yield* record.append([notice("a")])
      yield* TestClock.adjust(0)
      yield* record.append([notice("b")])
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(
        groups.map((group) => group.map(textOf)),
        [["a"], ["b"]]
      )
      yield* record.append([notice("c")])
      yield* TestClock.adjust("1 second")
      assert.strictEqual(groups.length, 2)
    }).pipe(Effect.provide(RunRecord.layerMemory()))
  )

  it.effect("a listener that fails is a warning, and later entries come", () =>
    Effect.gen(function* () {
      const record = yield* RunRecord.RunRecord
      const told: Array<unknown> = []
      const logger = Logger.make(({ message }) => {
        if (!isClockWarning(message)) told.push(message)
      })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const seen: Array<string> = []
          const { listen } = yield* RecordBatches.ofRecord
          yield* listen((entries) => {
            if (entries.some((entry) => textOf(entry) === "a")) throw new Error("no")
            seen.push(...entries.map(textOf))
          })
          yield* record.append([notice("a")])
          yield* TestClock.adjust("1 second")
          yield* record.append([notice("b")])
          yield* TestClock.adjust("1 second")
          assert.deepStrictEqual(seen, ["b"])
        })
      ).pipe(Effect.provide(Logger.layer([logger])))
      assert.strictEqual(told.length, 1)
      assert.include(String(told[0]), "cannot be exported")
    }).pipe(Effect.provide(RunRecord.layerMemory()))
  )
})
