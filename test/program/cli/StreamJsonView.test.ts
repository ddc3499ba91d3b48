import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as StreamJsonView from "../../../src/program/cli/StreamJsonView.ts"
import type { RunSummary } from "../../../src/program/cli/View.ts"
import * as Cost from "../../../src/base/domain/Cost.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import type { RunEvent } from "../../../src/base/domain/RunEvent.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import { capture } from "./capture.ts"
import { display } from "./display.ts"

type Line = Record<string, unknown>

const lines = (text: string): ReadonlyArray<Line> =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line))

const delta = (text: string): RunEvent => ({ _tag: "TextDelta", text })
const step = (step: number): RunEvent => ({ _tag: "StepStarted", step })
const started: RunEvent = { _tag: "ToolStarted", callId: "c1", name: "read_file", params: { path: "a" } }
const finished = (output: string, more: Partial<Extract<RunEvent, { _tag: "ToolFinished" }>> = {}): RunEvent => ({
  _tag: "ToolFinished",
  callId: "c1",
  name: "read_file",
  status: "ok",
  output,
  durationMillis: 12.4,
  ...more
})

const ending: RunSummary = {
  exitCode: 0,
  sessionId: "s1",
  text: "",
  usage: Usage.zero,
  cost: Cost.toSpent(Cost.nothing),
  error: undefined
}

const project = Effect.fnUntraced(function* (
  events: ReadonlyArray<RunEvent>,
  end: Partial<RunSummary> = {},
  live = true
) {
  const { output, stdout } = capture()
  const view = StreamJsonView.make(output)
  yield* view.begin({ model: "m", sessionId: "s1" })
  view.prepare({ display, live })
  yield* TestClock.adjust("250 millis")
  for (const event of events) yield* view.events([event])
  yield* view.end({ ...ending, ...end })
  return lines(stdout())
})

describe("StreamJsonView", () => {
  it.effect("what children do has lines of its own", () =>
    Effect.gen(function* () {
      const sessionId = SessionId.make("c1")
      const found = yield* project([
        { _tag: "SubagentStarted", subagentId: "sa-0", sessionId, goal: "count" },
        { _tag: "SubagentProgress", subagentId: "sa-0", text: "terminal" },
        {
          _tag: "SubagentFinished",
          subagentId: "sa-0",
          sessionId,
          goal: "count",
          status: "partial",
          toolCount: 1,
          durationMillis: 9.6,
          usage: { ...Usage.zero, inputTokens: 7, outputTokens: 2 }
        }
      ])
      const about = { type: "subagent", timestamp: 250, subagent_id: "sa-0" }
      assert.deepStrictEqual(found.slice(1, -1), [
        { ...about, subtype: "start", session_id: "c1", goal: "count" },
        { ...about, subtype: "progress", text: "terminal" },
        {
          ...about,
          subtype: "stop",
          session_id: "c1",
          status: "partial",
          tool_count: 1,
          tokens: { input: 7, output: 2 },
          duration_ms: 10
        }
      ])
    })
  )

  it.effect("one object per line, each with its time", () =>
    Effect.gen(function* () {
      const usage = { ...Usage.zero, inputTokens: 3, outputTokens: 4, cacheReadTokens: 5, cacheWriteTokens: 6 }
      const found = yield* project([step(1), started, finished("ok"), step(2), delta("Hi"), delta("\n there ")], {
        text: "Hi\n there ",
        usage,
        cost: { usd: 0.0046, status: "estimated", source: "official_docs_snapshot" }
      })
      assert.deepStrictEqual(found, [
        { type: "system", timestamp: 0, subtype: "init", model: "m", session_id: "s1" },
        { type: "tool_use", timestamp: 250, name: "read_file", tool_call_id: "c1", input: { path: "a" } },
        {
          type: "tool_result",
          timestamp: 250,
          name: "read_file",
          tool_call_id: "c1",
          output: "ok",
          duration_ms: 12,
          is_error: false,
          view: { kind: "text", outcome: "done" }
        },
        { type: "text", timestamp: 250, text: "Hi" },
        { type: "text", timestamp: 250, text: "\n there " },
        {
          type: "result",
          timestamp: 250,
          session_id: "s1",
          exit_code: 0,
          text: "Hi\n there ",
          tokens: { input: 3, output: 4, total: 18, cache_read: 5, cache_write: 6 },
          estimated_cost_usd: 0.0046,
          cost_status: "estimated",
          cost_source: "official_docs_snapshot",
          duration_ms: 250
        }
      ])
    })
  )

  it.effect("the deltas together are the text of the result, also over several steps", () =>
    Effect.gen(function* () {
      const found = yield* project(
        [step(1), delta("Let me look."), started, finished("x"), step(2), delta("Red"), delta(".")],
        { text: "Red." }
      )
      const deltas = found.filter(({ type }) => type === "text").map(({ text }) => text)
      assert.strictEqual(deltas.join(""), "Let me look.\n\nRed.")
      assert.strictEqual(found.at(-1)?.["text"], deltas.join(""))
    })
  )

  it.effect("so they are when the final text is another one than the model's", () =>
    Effect.gen(function* () {
      const found = yield* project([step(1), delta("secret")], { text: "[removed]" }, false)
      assert.deepStrictEqual(
        found.filter(({ type }) => type === "text").map(({ text }) => text),
        ["[removed]"]
      )
      assert.strictEqual(found.at(-1)?.["text"], "[removed]")
    })
  )

  it.effect("the result of a tool is cut at 5000 characters, never inside of one", () =>
    Effect.gen(function* () {
      const found = yield* project([
        started,
        ...["x".repeat(5000), "x".repeat(5001), `${"x".repeat(4999)}😀`].map((output) => finished(output))
      ])
      const outputs = found.flatMap(({ output, type }) => (type === "tool_result" ? [String(output)] : []))
      assert.deepStrictEqual(outputs, ["x".repeat(5000), `${"x".repeat(5000)}…`, `${"x".repeat(4999)}…`])
    })
  )

  it.effect("a call that never ran has a use without input", () =>
    Effect.gen(function* () {
      const found = yield* project([finished("blocked", { status: "blocked" })])
      assert.deepStrictEqual(
        found.slice(1, 3).map(({ timestamp: _, ...line }) => line),
        [
          { type: "tool_use", name: "read_file", tool_call_id: "c1" },
          {
            type: "tool_result",
            name: "read_file",
            tool_call_id: "c1",
            output: "blocked",
            duration_ms: 12,
            is_error: true,
            view: { kind: "text", outcome: "refused", note: "blocked" }
          }
        ]
      )
    })
  )

  it.effect(
    "text that is taken back is replaced by the whole text so far, and the result has the final text once",
    () =>
      Effect.gen(function* () {
        const replaced = (stepId: number, text: string): RunEvent => ({ _tag: "TextReplaced", stepId, text })
        const told = (found: ReadonlyArray<Line>) =>
          found
            .slice(1)
            .flatMap(({ step_id, text, type }) =>
              type === "text" || type === "text_replaced" || type === "result" ? [[type, step_id, text]] : []
            )
        const steps = [step(1), delta("Let me look."), started, finished("x"), step(2), delta("It is "), delta("red.")]
        assert.deepStrictEqual(
          told(
            yield* project([...steps, replaced(2, "It is [removed]."), delta(" Bye.")], {
              text: "It is [removed]. Bye."
            })
          ).slice(3),
          [
            ["text_replaced", 2, "Let me look.\n\nIt is [removed]."],
            ["text", undefined, " Bye."],
            ["result", undefined, "Let me look.\n\nIt is [removed]. Bye."]
          ]
        )
        assert.deepStrictEqual(told(yield* project([...steps, replaced(2, "")])).slice(3), [
          ["text_replaced", 2, "Let me look."],
          ["result", undefined, "Let me look."]
        ])
        // An answer of two steps, replaced as one.
        assert.deepStrictEqual(
          told(
            yield* project([step(1), delta("one "), step(2), delta("two"), replaced(1, "three")], { text: "three" })
          ).slice(2),
          [
            ["text_replaced", 1, "three"],
            ["result", undefined, "three"]
          ]
        )
        // Where deltas are held back nothing is taken back.
        assert.deepStrictEqual(told(yield* project([...steps, replaced(2, "No.")], { text: "No." }, false)), [
          ["text", undefined, "No."],
          ["result", undefined, "No."]
        ])
      })
  )

  it.effect("an answer of several steps is in the result once", () =>
    Effect.gen(function* () {
      const found = yield* project([step(1), delta("one "), step(2), delta("two")], { text: "one two" })
      assert.deepInclude(found.at(-1), { text: "one \n\ntwo" })
    })
  )

  it.effect("a run that was cut has a result with what there is, and why", () =>
    Effect.gen(function* () {
      const found = yield* project([step(1), delta("Half a")], { exitCode: 130, error: "interrupted" })
      assert.deepInclude(found.at(-1), { exit_code: 130, text: "Half a", error: "interrupted" })
    })
  )
})
