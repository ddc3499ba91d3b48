// Entries of concurrent sessions, which arrive step by step, in the order of their times.
import { assert, describe, it } from "@effect/vitest"
import * as Cost from "../../src/base/domain/Cost.ts"
import type * as RecordEvent from "../../src/base/domain/RecordEvent.ts"
import { SessionId, TurnId } from "../../src/base/domain/Ids.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as EntryOrder from "../../src/observe/EntryOrder.ts"

const entry = (session: string, at: number, text: string): RecordEvent.Entry => ({
  sessionId: SessionId.make(session),
  turnId: TurnId.make(`turn of ${session}`),
  at,
  event: { _tag: "Notice", level: "info", message: text }
})
const started = (session: string, at: number): RecordEvent.Entry => ({
  ...entry(session, at, ""),
  event: {
    _tag: "RunStarted",
    version: 1,
    source: "test",
    platform: "test",
    provider: "p",
    model: "m",
    cwd: "/",
    resumed: false
  }
})

const ended = (session: string, at: number): RecordEvent.Entry => ({
  ...entry(session, at, ""),
  event: { _tag: "RunEnded", exit: "text_response", steps: 1, usage: Usage.zero, cost: Cost.toSpent(Cost.nothing) }
})
const task = (session: string, at: number, tag: "AttemptStarted" | "AttemptEnded"): RecordEvent.Entry => ({
  ...entry(session, at, ""),
  event:
    tag === "AttemptEnded"
      ? { _tag: tag, apiRequestId: `${session}:api:2`, status: "answered", answer: [] }
      : {
          _tag: tag,
          apiRequestId: `${session}:api:2`,
          step: 2,
          attempt: 0,
          task: "summary",
          route: { provider: "p", model: "m", apiMode: "chat_completions" },
          messages: [],
          parameters: {}
        }
})

const texts = (entries: ReadonlyArray<RecordEvent.Entry>): ReadonlyArray<string> =>
  entries.map(({ event, sessionId }) =>
    event._tag === "Notice" ? event.message : `${sessionId} ${event._tag === "RunStarted" ? "starts" : event._tag}`
  )

describe("the order of entries", () => {
  it("is that of time over all sessions, and that of arrival in each session and at equal times", () => {
    const arrived = [
      entry("b", 3, "b3"),
      entry("b", 5, "b5"),
      // Stored in a later transaction, but before the next entry of its session.
      entry("a", 4, "a4"),
      entry("a", 1, "a1"),
      entry("c", 4, "c4"),
      entry("b", 5, "b5 again")
    ]
    assert.deepStrictEqual(texts(EntryOrder.sortEntries(arrived)), ["b3", "a4", "a1", "c4", "b5", "b5 again"])
  })

  it("waits for entries of other active runs, and for no time if one run is active", () => {
    const order = EntryOrder.makeOrder()
    order.addEntries([started("a", 1000), entry("a", 1001, "a1")])
    assert.deepStrictEqual(texts(order.takeEntries(1001)), ["a starts", "a1"])
    order.addEntries([started("b", 1010), entry("b", 1050, "b1")])
    const soon = 1140
    assert.deepStrictEqual(texts(order.takeEntries(soon)), ["b starts"])
    assert.isFalse(order.isEmpty())
    order.addEntries([entry("a", 1045, "a2")])
    assert.deepStrictEqual(texts(order.takeEntries(soon + 20)), ["a2", "b1"])
    assert.isTrue(order.isEmpty())
    order.addEntries([entry("a", 1300, "a3"), entry("b", 1200, "b2")])
    assert.deepStrictEqual(texts(order.takeEntries()), ["b2", "a3"])
  })

  it("waits for the side tasks of a run that has ended, which arrive behind entries of other runs", () => {
    const order = EntryOrder.makeOrder()
    order.addEntries([started("a", 1000), started("b", 1000), ended("a", 1010)])
    order.addEntries([entry("b", 1040, "b1")])
    assert.deepStrictEqual(texts(order.takeEntries(1050)), [])
    order.addEntries([task("a", 1020, "AttemptStarted")])
    assert.deepStrictEqual(texts(order.takeEntries(1130)), ["a starts", "b starts", "a RunEnded", "a AttemptStarted"])
    // The task is still open.
    order.addEntries([entry("b", 1200, "b2"), task("a", 1190, "AttemptEnded")])
    assert.deepStrictEqual(texts(order.takeEntries(1201)), ["b1", "a AttemptEnded", "b2"])
    order.addEntries([entry("b", 1300, "b3")])
    assert.deepStrictEqual(texts(order.takeEntries(1300)), ["b3"])
  })
})
