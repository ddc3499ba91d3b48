// The entries of a session in memory are read as they were written, also after the oldest were dropped.
import { assert, describe, it } from "@effect/vitest"
import * as Ids from "../../src/base/domain/Ids.ts"
import type { Entry } from "../../src/base/domain/RecordEvent.ts"
import { SessionLog } from "../../src/store/SessionLog.ts"

const sessionId = Ids.SessionId.make("s")

const makeEntry = (turn: string, at: number): Entry => ({
  sessionId,
  turnId: Ids.TurnId.make(turn),
  at,
  event: { _tag: "Notice", level: "info", message: `${turn} ${at}` }
})

/** Two turns that take turns. */
const entries = ["a", "a", "b", "a", "b", "b", "a"].map((turn, at) => makeEntry(turn, at))

const fill = (): SessionLog => {
  const log = new SessionLog(sessionId)
  entries.forEach((entry, index) => log.add(entry, index * 10))
  return log
}

describe("the log of a session", () => {
  it("returns the entries with their positions", () => {
    assert.deepStrictEqual(
      fill().list(),
      entries.map((entry, index) => ({ entry, position: index * 10 }))
    )
  })

  it("drops the entries up to any position, and continues", () => {
    for (let number = 0; number <= entries.length; number++) {
      const log = fill()
      const dropped = log.dropUntil(number * 10 - 1, () => undefined)
      assert.deepStrictEqual(dropped, entries.slice(0, number))
      for (const turn of ["a", "c"]) {
        const added = makeEntry(turn, 100)
        log.add(added, 1_000 + log.size)
        assert.deepStrictEqual(log.list().at(-1)?.entry, added)
      }
      assert.deepStrictEqual(
        log.list().map(({ entry }) => entry),
        [...entries.slice(number), makeEntry("a", 100), makeEntry("c", 100)]
      )
      assert.strictEqual(log.size, entries.length - number + 2)
    }
  })

  it("stores the key of content once, until the content is dropped", () => {
    const log = fill()
    assert.deepStrictEqual([log.addKey("k"), log.addKey("k")], [true, false])
    log.dropUntil(0, () => "k")
    assert.isTrue(log.addKey("k"))
  })
})
