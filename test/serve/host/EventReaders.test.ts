// Readers that are slow: what is put together, what is cut off, who is waited for.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import type { RunEvent } from "../../../src/base/domain/RunEvent.ts"
import * as EventReaders from "../../../src/serve/host/EventReaders.ts"
import type { HostEvent } from "../../../src/serve/host/HostEvent.ts"
import { drain } from "./liveSession.ts"
import { isClockWarning } from "../../support/clockWarnings.ts"

const run = (...events: ReadonlyArray<RunEvent>): HostEvent => ({ _tag: "RunEvents", turn: 1, events })
const text = (text: string): RunEvent => ({ _tag: "TextDelta", text })
const thought = (text: string): RunEvent => ({ _tag: "ReasoningDelta", text })
const step = (step: number): RunEvent => ({ _tag: "StepStarted", step })
const notice: HostEvent = { _tag: "Notice", level: "info", message: "n" }

const runEvents = (events: ReadonlyArray<HostEvent>): ReadonlyArray<RunEvent> =>
  events.flatMap((event) => (event._tag === "RunEvents" ? event.events : []))

describe("EventReaders", () => {
  it.effect("a reader that keeps up gets every delta as it was", () =>
    Effect.gen(function* () {
      const readers = EventReaders.make()
      const reader = yield* readers.subscribe()
      for (let index = 0; index < 100; index++) readers.publish(run(text("a"), text("b")))
      assert.strictEqual(runEvents(drain(reader)).length, 200)
    })
  )

  it.effect("deltas are put together for one that is far behind, and nothing else, and nothing is lost", () =>
    Effect.gen(function* () {
      const readers = EventReaders.make()
      const slow = yield* readers.subscribe()
      const quick = yield* readers.subscribe()
      let all = ""
      const tools: Array<number> = []
      for (let index = 0; index < 4000; index++) {
        all += `${index} `
        if (index % 1000 === 0) tools.push(index)
        readers.publish(run(...(index % 1000 === 0 ? [step(index)] : []), text(`${index} `), thought("t")))
        assert.isAtLeast(runEvents(drain(quick)).length, 2)
      }
      readers.publish(notice)
      readers.publish(run(text("end"), text(".")))
      const seen = drain(slow)
      const events = runEvents(seen)
      // Deltas of two kinds that take turns cannot be put together.
      assert.isAtMost(events.length, 10_010)
      assert.strictEqual(events.map((event) => (event._tag === "TextDelta" ? event.text : "")).join(""), `${all}end.`)
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "StepStarted" ? [event.step] : [])),
        tools
      )
      assert.strictEqual(seen.at(-2), notice)
      for (let index = 0; index < 3000; index++) readers.publish(run(text("x")))
      const merged = runEvents(drain(slow))
      assert.isAtMost(merged.length, EventReaders.mergeBeyond + 2)
      assert.strictEqual(merged.map((event) => (event._tag === "TextDelta" ? event.text : "")).join("").length, 3000)
    })
  )

  it.effect("one that stays behind gets what it has and then a typed error; the others get all", () =>
    Effect.gen(function* () {
      const readers = EventReaders.make()
      const stuck = yield* readers.subscribe()
      const other = yield* readers.subscribe()
      let seen = 0
      for (let index = 0; index < EventReaders.maxEvents + 100; index++) {
        readers.publish(notice)
        seen += drain(other).length
      }
      assert.strictEqual(seen, EventReaders.maxEvents + 100)
      assert.isAtMost(drain(stuck).length, EventReaders.maxEvents + 1)
      const error = yield* Effect.flip(stuck.take)
      assert.isTrue(error instanceof EventReaders.ReaderLagged)
      assert.include(String(error), "cut off")
    })
  )

  it.effect("one text that grows without an end is cut off too", () =>
    Effect.gen(function* () {
      const readers = EventReaders.make()
      const stuck = yield* readers.subscribe()
      const piece = "x".repeat(1024 * 1024)
      for (let index = 0; index < 40; index++) readers.publish(run(text(piece)))
      const length = runEvents(drain(stuck)).reduce(
        (sum, event) => sum + (event._tag === "TextDelta" ? event.text.length : 0),
        0
      )
      assert.isAtMost(length, EventReaders.maxCharacters + piece.length)
      assert.isTrue((yield* Effect.flip(stuck.take)) instanceof EventReaders.ReaderLagged)
    })
  )

  it.effect("one that wants to be waited for is waited for, and is not cut off", () =>
    Effect.gen(function* () {
      const readers = EventReaders.make()
      const slow = yield* readers.subscribe({ whenBehind: "wait" })
      yield* readers.caughtUp
      for (let index = 0; index < EventReaders.maxEvents + 100; index++) readers.publish(notice)
      const waits = yield* Effect.forkChild(readers.caughtUp)
      yield* Effect.yieldNow
      assert.strictEqual(waits.pollUnsafe(), undefined)
      assert.strictEqual(drain(slow).length, EventReaders.maxEvents + 100)
      yield* Fiber.join(waits)
    })
  )

  it.effect("a reader that leaves holds nobody up, and the end ends all", () =>
    Effect.gen(function* () {
      const readers = EventReaders.make()
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* readers.subscribe({ whenBehind: "wait" })
          for (let index = 0; index < 1000; index++) readers.publish(notice)
        })
      )
      yield* readers.caughtUp
      const { take } = yield* readers.subscribe()
      readers.publish(notice)
      readers.end()
      assert.strictEqual(yield* take, notice)
      assert.strictEqual((yield* Effect.exit(take))._tag, "Failure")
    })
  )

  it.effect("an event that cannot be told is logged, and the next ones follow to the end", () =>
    Effect.gen(function* () {
      const logged: Array<unknown> = []
      const logger = Logger.make(({ message }) => {
        if (!isClockWarning(message)) logged.push(message)
      })
      const readers = EventReaders.make()
      const reader = yield* readers.subscribe({ whenBehind: "wait", atMost: 0 })
      const told: Array<string> = []
      const tell = (event: HostEvent) =>
        Effect.sync(() => {
          if (event._tag === "RunEvents") throw new Error("no form for it")
          told.push(event._tag)
        })
      const telling = yield* Effect.forkChild(
        Effect.provide(EventReaders.forEachEvent(reader, tell), Logger.layer([logger]))
      )
      readers.publish(run(text("a")))
      yield* readers.caughtUp
      readers.publish(notice)
      yield* readers.caughtUp
      readers.end()
      yield* Fiber.join(telling)
      assert.deepStrictEqual(told, ["Notice"])
      assert.include(String(logged[0]), "the event RunEvents of a live session could not be told")
    })
  )
})
