// References of model calls: exact, whatever of their messages changes.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Prompt from "effect/ai/Prompt"
import { SessionStoreError } from "../../../src/base/domain/AgentError.ts"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type * as RecordEvent from "../../../src/base/domain/RecordEvent.ts"
import * as RecordTimes from "../../../src/base/domain/RecordTimes.ts"
import * as RunRecorder from "../../../src/base/domain/RunRecorder.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"

const said = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

const recorder = (history: ReadonlyArray<Prompt.Message>, more: Partial<Parameters<typeof RunRecorder.make>[0]> = {}) =>
  RunRecorder.make({
    sessionId: SessionId.make("s"),
    turnId: TurnId.make("t"),
    history,
    now: () => 0,
    hash: (text) => `#${text.length}`,
    sink: () => Effect.void,
    ...more
  })

describe("times of a run's entries", () => {
  it.effect("runs that start in the same millisecond are told apart by their starts, in their order", () =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      yield* TestClock.setTime(1_800_000_000_000)
      const times = Array.from({ length: 50 }, () => RecordTimes.makeStartTimes(clock))
      const starts = times.map((time) => time())
      assert.deepStrictEqual(
        starts,
        starts.toSorted((a, b) => a - b)
      )
      assert.strictEqual(new Set(starts).size, 50)
      assert.deepStrictEqual(
        times.map((time) => time()),
        starts.map(() => starts.at(-1)),
        "entries of the first millisecond are not before any run that has started"
      )
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(times[7]?.(), 1_800_000_000_001)
      assert.strictEqual(RecordTimes.makeStartTimes(clock)(), 1_800_000_000_001)
    })
  )

  it.effect("a clock that was set back counts from its new time", () =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      yield* TestClock.setTime(1_800_000_000_000)
      const time = RecordTimes.makeStartTimes(clock)
      yield* TestClock.setTime(1_700_000_000_000)
      assert.strictEqual(time(), 1_700_000_000_000)
      assert.strictEqual(RecordTimes.makeStartTimes(clock)(), 1_700_000_000_000)
    })
  )
})

describe("entries that are passed on", () => {
  const ended = {
    _tag: "RunEnded",
    exit: "interrupted",
    steps: 0,
    usage: Usage.zero,
    cost: { status: "unknown", usd: undefined, source: "none" } as never
  } as const

  for (const how of ["cut", "flush"] as const) {
    it.effect(`are not lost if the fiber that passes them on is interrupted: ${how}`, () =>
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const slow = yield* Deferred.make<void>()
        const stored: Array<string> = []
        const { cut, flush, write } = recorder([], {
          isHeard: () => how === "flush",
          sink: (entries) =>
            Deferred.succeed(begun, undefined).pipe(
              Effect.andThen(Deferred.await(slow)),
              Effect.andThen(Effect.sync(() => stored.push(...entries.map(({ event }) => event._tag))))
            )
        })
        write({ _tag: "Notice", level: "info", message: "first" })
        const passing = yield* Effect.forkChild(how === "flush" ? flush : cut(() => [ended]))
        yield* Deferred.await(begun)
        const interruption = yield* Effect.forkChild(Fiber.interrupt(passing))
        yield* Effect.yieldNow
        yield* Deferred.succeed(slow, undefined)
        yield* Fiber.join(interruption)
        assert.deepStrictEqual(stored, how === "flush" ? ["Notice"] : ["Notice", "RunEnded"])
      })
    )
  }
})

describe("references of a model call", () => {
  it("name a message that was replaced in the middle", () => {
    const [a, b, c] = [said("a"), said("b"), said("c")]
    const { references } = recorder([a, b, c])
    assert.deepStrictEqual(references([a, b, c]), [[0, 2]])
    const other = said("something else")
    const [first, middle, last] = references([a, other, c])
    assert.deepStrictEqual([first, typeof middle, last], [0, "string", 2])
    assert.deepStrictEqual(references([a, b, c]), [[0, 2]])
  })

  it("name copies of stored messages by their place, whatever was put between them", () => {
    const [system, nudge] = [Prompt.systemMessage({ content: "be kind" }), said("remember")]
    const all = ["a", "b", "c"].map(said)
    const copies = ["a", "b", "c"].map(said)
    const entries: Array<string> = []
    const { flush, references } = recorder(all, {
      sink: (more) => Effect.sync(() => void entries.push(...more.map(({ event }) => event._tag)))
    })
    assert.deepStrictEqual(references([system, ...copies, nudge]), [
      "#" + JSON.stringify(system).length,
      [0, 2],
      "#" + JSON.stringify(nudge).length
    ])
    Effect.runSync(flush)
    assert.deepStrictEqual(entries, ["MessageAppended", "MessageAppended"], "nothing that is stored is written again")
  })

  it("name copies of results that the request moved beside their calls", () => {
    const all = ["call", "result c", "result a", "result b"].map(said)
    const [call, c, a, b] = all.map(({ content }) => Prompt.userMessage({ content }))
    assert.deepStrictEqual(
      recorder(all).references([call, a, b, c].flatMap((one) => (one === undefined ? [] : [one]))),
      [0, [2, 3], 1]
    )
  })

  it("follow a list that grows, shrinks and is copied", () => {
    const all = Array.from({ length: 5 }, (_, index) => said(String(index)))
    const { references } = recorder(all)
    assert.deepStrictEqual(references(all.slice(0, 3)), [[0, 2]])
    assert.deepStrictEqual(references(all), [[0, 4]])
    assert.deepStrictEqual(references(all.slice(0, 2)), [[0, 1]])
    assert.deepStrictEqual(references([]), [])
    assert.deepStrictEqual(references(all.slice(1)), [[1, 4]])
  })
})

describe("a write to the session", () => {
  const notice = (message: string) => ({ _tag: "Notice", level: "info", message }) as const

  /** A recorder over one kind of transaction, with the notices that each sink got. */
  const inTransaction = (together: RunRecorder.Together | undefined) => {
    const sunk: Array<ReadonlyArray<string>> = []
    const made = recorder([], {
      together,
      sink: (entries) =>
        Effect.sync(
          () => void sunk.push(entries.map(({ event }) => (event._tag === "Notice" ? event.message : event._tag)))
        )
    })
    made.write(notice("before"))
    const stored = made.storing(Effect.succeed(7), (position) => made.write(notice(`stored at ${position}`)))
    return { made, stored, sunk }
  }

  it.effect("takes the record with it, and what follows from the write", () =>
    Effect.gen(function* () {
      const { made, stored, sunk } = inTransaction((writes) => writes)
      assert.strictEqual(yield* stored, 7)
      yield* made.flush
      assert.deepStrictEqual(sunk, [["before", "stored at 7"]])
    })
  )

  it.effect("that runs again, because the place was busy, hands over the same", () =>
    Effect.gen(function* () {
      const { made, stored, sunk } = inTransaction((writes) => Effect.andThen(writes, writes))
      yield* stored
      yield* made.flush
      assert.deepStrictEqual(sunk, [
        ["before", "stored at 7"],
        ["before", "stored at 7"]
      ])
    })
  )

  it.effect("that comes to nothing leaves what was written before it for the next", () =>
    Effect.gen(function* () {
      const full = new SessionStoreError({ operation: "append", message: "the disk is full" })
      const { made, stored, sunk } = inTransaction((writes) => Effect.andThen(writes, Effect.fail(full)))
      assert.strictEqual(yield* Effect.flip(stored), full)
      made.write(notice("after"))
      yield* made.flush
      assert.deepStrictEqual(sunk, [
        ["before", "stored at 7"],
        ["before", "after"]
      ])
    })
  )

  it.effect(
    "that was postponed is done with the next one, its events where it was written, also when that runs again",
    () =>
      Effect.gen(function* () {
        const { made, stored, sunk } = inTransaction((writes) => Effect.andThen(writes, writes))
        let written = 0
        yield* made.postponed(
          Effect.sync(() => ++written),
          () => made.write(notice("postponed"))
        )
        made.write(notice("between"))
        assert.strictEqual(written, 0)
        yield* stored
        yield* made.settled
        assert.strictEqual(written, 2)
        const all = ["before", "postponed", "between", "stored at 7"]
        assert.deepStrictEqual(sunk, [all, all])
      })
  )

  it.effect(
    "that was postponed is never given up: a flush that fails leaves it and the record, and the next write fails or does it",
    () =>
      Effect.gen(function* () {
        const full = new SessionStoreError({ operation: "append", message: "the disk is full" })
        let isFull = true
        const { made, stored, sunk } = inTransaction((writes) =>
          Effect.andThen(
            Effect.suspend(() => (isFull ? Effect.fail(full) : Effect.void)),
            writes
          )
        )
        yield* made.postponed(Effect.succeed(3), (position) => made.write(notice(`postponed at ${position}`)))
        yield* made.flush
        assert.deepStrictEqual(sunk, [])
        assert.strictEqual(yield* Effect.flip(stored), full)
        assert.strictEqual(yield* Effect.flip(made.settled), full)
        isFull = false
        yield* made.settled
        yield* made.settled
        assert.deepStrictEqual(sunk, [["before", "postponed at 3"]])
      })
  )

  it.effect("is done once, when its run is interrupted behind the commit", () =>
    Effect.gen(function* () {
      const committed = yield* Deferred.make<void>()
      const { made, stored, sunk } = inTransaction((writes) =>
        Effect.tap(writes, () => Effect.andThen(Deferred.succeed(committed, undefined), Effect.yieldNow))
      )
      let written = 0
      yield* made.postponed(
        Effect.sync(() => ++written),
        () => made.write(notice("postponed"))
      )
      const fiber = yield* Effect.forkChild(made.settled)
      yield* Deferred.await(committed)
      yield* Fiber.interrupt(fiber)
      yield* stored
      assert.strictEqual(written, 1)
      assert.deepStrictEqual(sunk, [["before", "postponed"], ["stored at 7"]])
    })
  )

  it.effect("that stands apart from the record does not hand it over", () =>
    Effect.gen(function* () {
      const { made, stored, sunk } = inTransaction(undefined)
      yield* stored
      assert.deepStrictEqual(sunk, [])
      yield* made.flush
      assert.deepStrictEqual(sunk, [["before", "stored at 7"]])
    })
  )
})

describe("a record that is cut", () => {
  const started = (id: string): RecordEvent.RecordEvent => ({
    _tag: "CallStarted",
    callId: id,
    name: "sleep",
    args: {},
    apiRequestId: "a",
    parallel: false
  })
  const ended = (id: string, status: "ok" | "cancelled"): RecordEvent.RecordEvent => ({
    _tag: "CallEnded",
    callId: id,
    name: "sleep",
    status,
    ran: true,
    durationMillis: 0
  })
  const child: RecordEvent.RecordEvent = {
    _tag: "ChildStarted",
    subagentId: "sa",
    sessionId: SessionId.make("c"),
    goal: "g",
    role: "leaf",
    background: false
  }
  const childEnded: RecordEvent.RecordEvent = {
    _tag: "ChildEnded",
    subagentId: "sa",
    sessionId: SessionId.make("c"),
    status: "interrupted",
    durationMillis: 1
  }
  const over: RecordEvent.RecordEvent = {
    _tag: "RunEnded",
    exit: "interrupted",
    steps: 1,
    usage: Usage.zero,
    cost: { status: "unknown", usd: undefined, source: "none" } as never
  }
  const tag = ({ event, sessionId }: RecordEvent.Entry): string =>
    event._tag === "CallEnded" ? `${sessionId} ${event.callId} ${event.status}` : `${sessionId} ${event._tag}`

  it.effect("ends what is open, children first and once, and later ends are ignored", () =>
    Effect.gen(function* () {
      const written: Array<RecordEvent.Entry> = []
      const sink = (entries: ReadonlyArray<RecordEvent.Entry>) => Effect.sync(() => void written.push(...entries))
      const own = recorder([], { sink })
      const below = recorder([], { sink, sessionId: SessionId.make("c") })
      own.write(started("done"), () => ended("done", "cancelled"))
      own.write(ended("done", "ok"))
      own.write(started("open"), () => ended("open", "cancelled"))
      own.write(child, () => childEnded)
      own.cutBefore(
        SessionId.make("c"),
        below.cut(() => [over])
      )
      own.cutBefore(SessionId.make("other"), Effect.die("not a child of this run"))
      below.write(started("inner"), () => ended("inner", "cancelled"))
      yield* own.flush
      const pending = [ended("open", "cancelled"), ended("never began", "cancelled"), over]
      yield* own.cut(() => pending)
      yield* own.cut(() => pending)
      for (const late of [ended("open", "ok"), ended("never began", "ok"), childEnded, over]) own.write(late)
      own.write({ _tag: "Notice", level: "info", message: "late" })
      below.write(over)
      own.appended("tool", 0, [said("late")])
      yield* own.flush
      yield* below.flush
      assert.deepStrictEqual(written.map(tag), [
        "s CallStarted",
        "s done ok",
        "s CallStarted",
        "s ChildStarted",
        "c CallStarted",
        "c inner cancelled",
        "c RunEnded",
        "s ChildEnded",
        "s open cancelled",
        "s never began cancelled",
        "s RunEnded",
        "s MessageAppended"
      ])
    })
  )

  it.effect("is not cut after the end of the run", () =>
    Effect.gen(function* () {
      const written: Array<RecordEvent.Entry> = []
      const own = recorder([], { sink: (entries) => Effect.sync(() => void written.push(...entries)) })
      own.write(over)
      yield* own.cut(() => [over])
      yield* own.flush
      assert.deepStrictEqual(written.map(tag), ["s RunEnded"])
    })
  )
})
