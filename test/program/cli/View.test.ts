import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as View from "../../../src/program/cli/View.ts"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { RunEvent } from "../../../src/base/domain/RunEvent.ts"
import * as Cost from "../../../src/base/domain/Cost.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import { capture } from "./capture.ts"
import { display } from "./display.ts"
import { machine } from "../../support/hermes.ts"

const delta = (text: string): RunEvent => ({ _tag: "TextDelta", text })
const step = (step: number): RunEvent => ({ _tag: "StepStarted", step })
const tool = (path: string): ReadonlyArray<RunEvent> => [
  { _tag: "ToolStarted", callId: path, name: "read_file", params: { path } },
  { _tag: "ToolFinished", callId: path, name: "read_file", status: "ok", output: '{"content":"x"}', durationMillis: 3 }
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
  cost: Cost.toSpent(Cost.nothing)
})

const project = Effect.fnUntraced(function* (events: ReadonlyArray<RunEvent>, live = true) {
  const { output, stderr, stdout } = capture()
  const view = View.makeTextView(output)
  view.prepare({ display, live })
  yield* view.events(events)
  view.note?.("Warning: odd")
  yield* view.end({
    exitCode: 0,
    sessionId: "s1",
    text: "",
    usage: Usage.zero,
    cost: Cost.toSpent(Cost.nothing),
    error: undefined
  })
  assert.isUndefined(view.live, "nothing moves where nobody looks")
  return [stdout(), stderr()]
})

describe("the text view", () => {
  it.effect("the answer is on stdout as it was written, what the agent does on stderr", () =>
    Effect.gen(function* () {
      const events = [
        step(1),
        delta("Let me look."),
        ...tool("a.txt"),
        step(2),
        delta("It is"),
        delta(" **red**."),
        finished("It is **red**.")
      ]
      assert.deepStrictEqual(yield* project(events), [
        "Let me look.\n\nIt is **red**.\n",
        "\n┊ ✓ read_file a.txt · 3 ms\n\nWarning: odd\n"
      ])
    })
  )

  it.effect("a text that ends with a line break gets no second one", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* project([step(1), delta("a\n"), finished("a\n")]), ["a\n", "\nWarning: odd\n"])
    })
  )

  it.effect("a text that may still be replaced is shown when it is final", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* project([step(1), delta("secret"), finished("[removed]")], false), [
        "[removed]\n",
        "\nWarning: odd\n"
      ])
    })
  )
})

const shown = Effect.fnUntraced(function* (...events: ReadonlyArray<RunEvent>) {
  const { output, stderr, stdout } = capture()
  const view = View.makeQuietView(output)
  yield* view.events(events)
  yield* view.end({
    exitCode: 0,
    sessionId: "s1",
    text: "Done.",
    usage: Usage.zero,
    cost: Cost.toSpent(Cost.nothing),
    error: undefined
  })
  return [stdout(), stderr()]
})

describe("the quiet view", () => {
  it.effect("stdout is the final text; what goes well is not told", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* shown(
          { _tag: "StepStarted", step: 1 },
          { _tag: "TextDelta", text: "Do" },
          { _tag: "Notice", level: "info", message: "another key" }
        ),
        ["Done.\n", ""]
      )
    })
  )

  it.effect("what delays the answer is on stderr, a line each, without secrets and control characters", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* shown(
          {
            _tag: "Waiting",
            reason: "a: sk-abcdefghijklmnopqrstuvwxyz0123456789 \u001b[2J\nrefused",
            millis: 1_500,
            attempt: 2,
            maxAttempts: 3
          },
          { _tag: "Heartbeat", waitedMillis: 30_000 },
          { _tag: "Notice", level: "warning", message: "a (m) cannot answer: continuing with b (m)" }
        ),
        [
          "Done.\n",
          "┊ a: sk-a…89 ␛[2J refused: retrying in 2 s, attempt 2 of 3\n" +
            "┊ no output from the model, 30 s into its answer; still waiting\n" +
            "! a (m) cannot answer: continuing with b (m)\n"
        ]
      )
    })
  )

  it.live("an address where nobody listens is told at once, and given up soon", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "model:\n  provider: custom\n  default: m\n  base_url: http://127.0.0.1:1/v1\n")
      const { code, stderr, stdout } = yield* hermes(["chat", "-q", "hi", "--quiet"])
      assert.deepStrictEqual([code, stdout], [1, ""])
      const said = "nothing listens at 127.0.0.1:1: start the server or correct the base URL"
      assert.deepStrictEqual(stderr.split("\n").slice(1), [
        `┊ custom: ${said}: retrying in 2 s, attempt 2 of 3`,
        `┊ custom: ${said}: retrying in 2 s, attempt 3 of 3`,
        `Error: ${said}`,
        ""
      ])
    })
  )
})
