import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as View from "../../src/cli/View.ts"
import { SessionId, TurnId } from "../../src/domain/Ids.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import * as Cost from "../../src/domain/Cost.ts"
import * as Usage from "../../src/domain/Usage.ts"
import { capture } from "./capture.ts"
import { display } from "./display.ts"

const delta = (text: string): RunEvent => ({ _tag: "TextDelta", text })
const step = (step: number): RunEvent => ({ _tag: "StepStarted", step })
const tool = (path: string): ReadonlyArray<RunEvent> => [
  { _tag: "ToolStarted", callId: path, name: "read_file", params: { path } },
  { _tag: "ToolFinished", callId: path, name: "read_file", status: "ok", output: "{\"content\":\"x\"}", durationMillis: 3 }
]
const finished = (text: string): RunEvent => ({
  _tag: "RunFinished",
  sessionId: SessionId.make("s1"),
  turnId: TurnId.make("t1"),
  exit: "text_response",
  text,
  steps: 2,
  provider: "p",
  model: "m",
  usage: Usage.zero,
  cost: Cost.spent(Cost.nothing)
})

const project = Effect.fnUntraced(function*(events: ReadonlyArray<RunEvent>, live = true) {
  const { output, stderr, stdout } = capture()
  const view = View.text(output)
  view.prepare({ display, live })
  yield* view.events(events)
  view.note?.("Warning: odd")
  yield* view.end({ exitCode: 0, sessionId: "s1", text: "", usage: Usage.zero, cost: Cost.spent(Cost.nothing), error: undefined })
  assert.isUndefined(view.live, "nothing moves where nobody looks")
  return [stdout(), stderr()]
})

describe("TextView", () => {
  it.effect("the answer is on stdout as it was written, what the agent does on stderr", () =>
    Effect.gen(function*() {
      const events = [step(1), delta("Let me look."), ...tool("a.txt"), step(2), delta("It is"), delta(" **red**."), finished("It is **red**.")]
      assert.deepStrictEqual(yield* project(events), [
        "Let me look.\n\nIt is **red**.\n",
        "\n┊ ✓ read_file a.txt · 3 ms\n\nWarning: odd\n"
      ])
    }))

  it.effect("a text that ends with a line break gets no second one", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* project([step(1), delta("a\n"), finished("a\n")]), ["a\n", "\nWarning: odd\n"])
    }))

  it.effect("a text that may still be replaced is shown when it is final", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* project([step(1), delta("secret"), finished("[removed]")], false), ["[removed]\n", "\nWarning: odd\n"])
    }))
})
