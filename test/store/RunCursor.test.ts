// Cursors of hostile runs: ids of calls that a model made up, and cursors that a client changed.
import { assert, describe, it } from "@effect/vitest"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as RunCursor from "../../src/store/RunCursor.ts"

const start = (callId: string): RunEvent => ({ _tag: "ToolStarted", callId, name: "look", params: {} })
const finish = (callId: string): RunEvent => ({
  _tag: "ToolFinished",
  callId,
  name: "look",
  status: "ok",
  output: "",
  durationMillis: 0
})

/** Returns the cursor after the calls, and what a reader that returns with it receives of them. */
const leaveAfter = (seen: ReadonlyArray<RunEvent>, all: ReadonlyArray<RunEvent>) => {
  const position = [{ _tag: "StepStarted", step: 1 } as const, ...seen].reduce(
    RunCursor.advancePosition,
    RunCursor.makeStart("run")
  )
  const cursor = RunCursor.formatCursor(position)
  const parsed = RunCursor.parseCursor(cursor)
  const rest = parsed === undefined ? undefined : RunCursor.makeRest(parsed)
  return {
    cursor,
    rest: rest && [{ _tag: "StepStarted", step: 1 } as const, ...all].flatMap(rest.take).map(({ _tag }) => _tag)
  }
}

describe("cursors", () => {
  for (const [name, id] of Object.entries({
    "half a character": "c\ud800",
    "100 000 characters": "c".repeat(100_000),
    separators: "a,b;c|d\n%2C",
    "a name of every object": "__proto__"
  }))
    it(`a call whose id is ${name}`, () => {
      const { cursor, rest } = leaveAfter([start(id)], [start(id), finish(id)])
      assert.match(cursor, /^[\x21-\x7e]{1,400}$/u)
      assert.deepStrictEqual(rest, ["ToolFinished"])
    })

  it("a step with a thousand calls", () => {
    const ids = Array.from({ length: 1000 }, (_, index) => `call_${index}_${"x".repeat(40)}`)
    const events = ids.flatMap((id) => [start(id), finish(id)])
    const { cursor, rest } = leaveAfter(events.slice(0, -1), events)
    assert.isBelow(cursor.length, 16_000)
    assert.deepStrictEqual(rest, ["ToolFinished"])
  })

  for (const [name, cursor] of Object.entries({
    nothing: "",
    "an invalid escape": "run%;1",
    "a number that is too long": "run;99999999999999999999",
    "another part": "run;1;;;;;;;;x",
    "too many characters": `run;1;;;;;${"a,".repeat(40_000)}`
  }))
    it(`refuses ${name}`, () => assert.isUndefined(RunCursor.parseCursor(cursor)))
})
