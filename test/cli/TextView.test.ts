import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TextView from "../../src/cli/TextView.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import * as Usage from "../../src/domain/Usage.ts"
import { capture } from "./capture.ts"
import { display } from "./display.ts"

const delta = (text: string): RunEvent => ({ _tag: "TextDelta", text })
const step = (step: number): RunEvent => ({ _tag: "StepStarted", step })
const tool = (path: string): ReadonlyArray<RunEvent> => [
  { _tag: "ToolStarted", callId: path, name: "read_file", params: { path } },
  { _tag: "ToolFinished", callId: path, name: "read_file", status: "ok", output: "{\"content\":\"x\"}", durationMillis: 3 }
]

const project = Effect.fnUntraced(function*(
  events: ReadonlyArray<RunEvent>,
  { live = true, more = {}, text = "" }: { live?: boolean; more?: Partial<typeof display>; text?: string } = {}
) {
  const { output, stderr, stdout } = capture()
  const view = TextView.make(output)
  view.prepare({ display: { ...display, ...more }, live })
  yield* view.events(events)
  yield* view.end({ exitCode: 0, sessionId: "s1", text, usage: Usage.zero, error: undefined })
  return [stdout(), stderr()]
})

describe("TextView", () => {
  it.effect("the answer is on stdout and ends with a line break, what the agent does on stderr", () =>
    Effect.gen(function*() {
      const events = [step(1), delta("Let me look."), ...tool("a.txt"), step(2), delta("It is"), delta(" red.")]
      assert.deepStrictEqual(yield* project(events, { text: "It is red." }), [
        "Let me look.\n\nIt is red.\n",
        "┊ read_file a.txt (3 ms)\n"
      ])
    }))

  it.effect("a text that ends with a line break gets no second one", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* project([step(1), delta("a\n")], { text: "a\n" }), ["a\n", ""])
      assert.deepStrictEqual(yield* project([]), ["", ""])
    }))

  it.effect("display.tool_progress says which tools are told", () =>
    Effect.gen(function*() {
      const events = [...tool("a"), ...tool("b")]
      const told = (toolProgress: typeof display.toolProgress) =>
        Effect.map(project(events, { more: { toolProgress } }), ([, stderr]) => stderr)
      assert.strictEqual(yield* told("off"), "")
      assert.strictEqual(yield* told("new"), "┊ read_file a (3 ms)\n")
      assert.strictEqual(yield* told("all"), "┊ read_file a (3 ms)\n┊ read_file b (3 ms)\n")
      assert.include(yield* told("verbose"), "┊ read_file a (3 ms)\n{\"content\":\"x\"}\n")
    }))

  it.effect("reasoning is shown where it is wanted, on stderr", () =>
    Effect.gen(function*() {
      const events: ReadonlyArray<RunEvent> = [{ _tag: "ReasoningDelta", text: "hm" }]
      assert.deepStrictEqual(yield* project(events), ["", ""])
      assert.deepStrictEqual(yield* project(events, { more: { showReasoning: true } }), ["", "hm"])
    }))

  it.effect("waits and notices are told", () =>
    Effect.gen(function*() {
      const [, stderr] = yield* project([
        { _tag: "Waiting", reason: "rate limit", millis: 2100, attempt: 2, maxAttempts: 3 },
        { _tag: "Notice", level: "warning", message: "something is odd" }
      ])
      assert.strictEqual(stderr, "┊ waiting 3 s: rate limit (try 2 of 3)\nWarning: something is odd\n")
    }))

  it.effect("a text that may still be replaced is shown when it is final", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* project([step(1), delta("secret")], { live: false, text: "[removed]" }), ["[removed]\n", ""])
    }))
})
