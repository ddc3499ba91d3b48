// Rows of a trace: what names them, what they show first, which of them failed, and attempts that belong together.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as AiError from "effect/ai/AiError"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import * as Atif from "../../src/observe/Atif.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as Trace from "../../src/observe/Trace.ts"
import * as TraceStats from "../../src/observe/TraceStats.ts"
import * as Diff from "../../src/observe/trace/Diff.ts"
import * as Pool from "../../src/observe/trace/Pool.ts"
import { isFailed, type Row } from "../../src/observe/trace/Row.ts"
import { describeToolEnding } from "../../src/observe/trace/ToolEnding.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Recorded from "./support/recorded.ts"

const busy = Scripted.fail(new AiError.InternalProviderError({ description: "busy" }))

const ofEvents = (events: ReadonlyArray<Atof.Event>): ReadonlyArray<Row> =>
  Trace.buildRows({ _tag: "Events", events, faults: [] }, Pool.make())

/** Events with a microsecond between them. */
const stream = (...all: ReadonlyArray<{ readonly [key: string]: unknown }>): ReadonlyArray<Atof.Event> =>
  all.map((fields, index) =>
    Result.getOrThrow(
      Atof.decode({ atof_version: "0.1", data: null, ...fields, timestamp: 1_750_000_000_000_000 + index })
    )
  )
const scope = (
  half: "start" | "end",
  category: string,
  uuid: string,
  parent: string | null,
  name: string,
  more: object = {}
) => ({ kind: "scope", scope_category: half, category, uuid, parent_uuid: parent, name, attributes: [], ...more })

describe("rows", () => {
  it("of copied context are in no sum: they happened elsewhere", () => {
    const call = {
      tool_calls: [{ tool_call_id: "c", function_name: "look", arguments: {} }],
      observation: { results: [{ source_call_id: "c", content: "seen" }] }
    }
    const trajectory = Result.getOrThrow(
      Atif.decode({
        schema_version: "ATIF-v1.7",
        session_id: "s",
        agent: { name: "a", version: "1" },
        steps: [
          { step_id: 1, source: "user", message: "before", is_copied_context: true },
          { step_id: 2, source: "agent", message: "", is_copied_context: true, ...call },
          { step_id: 3, source: "user", message: "and now" },
          { step_id: 4, source: "agent", message: "", model_name: "m", ...call }
        ]
      })
    )
    const rows = Trace.buildRows(Trace.fromTrajectory(trajectory), Pool.make())
    assert.deepStrictEqual(
      rows.map(({ copied, kind }) => [kind, copied]),
      [
        ["agent", undefined],
        ["user", true],
        ["llm", true],
        ["tool", true],
        ["user", undefined],
        ["llm", undefined],
        ["tool", undefined]
      ]
    )
    assert.deepInclude(TraceStats.computeStats(rows), { agents: 1, turns: 1, modelCalls: 1, toolCalls: 1 })
  })

  it.effect(
    "of events and of their trajectory: goals name agents, models name model calls, attempts are inside of the last",
    () =>
      Effect.gen(function* () {
        const { events, trajectory } = yield* Recorded.views(
          [
            busy,
            busy,
            Scripted.complete({
              toolCalls: [{ id: "d", name: "delegate_task", params: { tasks: [{ goal: "read the logs" }] } }]
            }),
            Scripted.complete("child done"),
            Scripted.complete("all done")
          ],
          Effect.gen(function* () {
            const fiber = yield* Effect.forkChild(Agent.run({ prompt: "why did it stop?" }))
            yield* TestClock.adjust("1 minute")
            return (yield* Fiber.join(fiber)).sessionId
          })
        )
        for (const rows of [ofEvents(events), Trace.buildRows(Trace.fromTrajectory(trajectory), Pool.make())]) {
          const agents = rows.filter(({ kind }) => kind === "agent")
          assert.deepStrictEqual(
            agents.map(({ name }) => name),
            ["why did it stop?", "read the logs"]
          )
          assert.strictEqual(agents[0]?.text, trajectory.session_id)
          const calls = rows.filter(({ kind }) => kind === "llm")
          assert.deepStrictEqual(new Set(calls.map(({ name }) => name)), new Set(["scripted"]))
          const failed = calls.filter(isFailed)
          assert.strictEqual(failed.length, 2)
          for (const row of failed) {
            assert.strictEqual(rows[row.parent]?.kind, "llm")
            assert.isFalse(isFailed(rows[row.parent] ?? row))
            assert.include(row.text, "busy")
          }
          assert.strictEqual(failed[0]?.parent, failed[1]?.parent)
        }
      })
  )

  it("of a model call begin with the answer; definitions of tools come after it, closed", () => {
    const [, row] = ofEvents(
      stream(
        scope("start", "agent", "A", null, "agent"),
        scope("start", "llm", "L", "A", "openai", {
          data: { model: "gpt-x", messages: [{ role: "user", content: "hi" }], tools: [{ name: "a" }, { name: "b" }] }
        }),
        scope("end", "llm", "L", "A", "openai", {
          data: {
            content: "hello",
            reasoning_content: "hm",
            tool_calls: [{ id: "1", function: { name: "a", arguments: "{}" } }]
          }
        })
      )
    )
    assert.deepInclude(row, { name: "gpt-x", text: "hello" })
    assert.deepStrictEqual(
      row?.details.map(({ folded = false, title }) => [title, folded]),
      [
        ["Answer", false],
        ["Reasoning", false],
        ["Calls a", false],
        ["Messages", false],
        ["Request", false],
        ["Tool definitions (2)", true],
        ["Response", true]
      ]
    )
  })

  it("that failed say their error; a command with another exit code than 0 is no success", () => {
    const tool = (id: string, data: unknown, metadata: object = {}) => [
      scope("start", "tool", id, "A", "terminal", { data: { command: "make" } }),
      scope("end", "tool", id, "A", "terminal", { data, metadata })
    ]
    const rows = ofEvents(
      stream(
        scope("start", "agent", "A", null, "agent"),
        ...tool("1", JSON.stringify({ output: "building\nno rule to make target", exit_code: 2, error: null })),
        ...tool(
          "2",
          JSON.stringify({
            output: "",
            exit_code: 1,
            error: null,
            exit_code_meaning: "No matches found (not an error)"
          })
        ),
        ...tool("3", { output: "fine", exit_code: 0, error: null }),
        ...tool("4", JSON.stringify({ error: "no such file" }), { status: "error" }),
        ...tool("5", "said otherwise", { status: "error", error_message: "timed out" }),
        scope("start", "llm", "L", "A", "m"),
        scope("end", "llm", "L", "A", "m", { metadata: { status: "error", error_message: "529 overloaded" } })
      )
    )
    assert.deepStrictEqual(
      rows.slice(1).map((row) => [row.status, row.text, isFailed(row)]),
      [
        ["exit 2", "no rule to make target", true],
        ["exit 1: No matches found (not an error)", '{"command":"make"}', false],
        ["ok", '{"command":"make"}', false],
        ["error", "no such file", true],
        ["error", "timed out", true],
        ["error", "529 overloaded", true]
      ]
    )
  })

  it("take an exit code from the result of a command alone, not from a text that holds one", () => {
    assert.deepStrictEqual(describeToolEnding("ok", '1|{"exit_code": 1}', undefined), {
      status: "ok",
      error: undefined
    })
    assert.deepStrictEqual(describeToolEnding("ok", JSON.stringify({ content: '{"exit_code": 1}' }), undefined), {
      status: "ok",
      error: undefined
    })
    assert.deepStrictEqual(describeToolEnding("cancelled", JSON.stringify({ exit_code: 130 }), undefined), {
      status: "cancelled",
      error: undefined
    })
  })

  it("of two runs are paired whatever model answered and whatever they were asked", () => {
    const run = (prompt: string, model: string) =>
      ofEvents(
        stream(
          scope("start", "agent", "A", null, "agent", { metadata: { session_id: prompt } }),
          { kind: "mark", uuid: "m", parent_uuid: "A", name: "hermes.turn.start", metadata: { user_message: prompt } },
          scope("start", "llm", "L", "A", "x", { data: { model, messages: [] } }),
          scope("end", "llm", "L", "A", "x", { data: { content: "done" } }),
          scope("end", "agent", "A", null, "agent")
        )
      )
    assert.deepStrictEqual(
      Diff.compareRows(run("a", "m1"), run("a", "m1")).map(({ state }) => state),
      ["same", "same", "same"]
    )
    assert.deepStrictEqual(
      Diff.compareRows(run("a", "m1"), run("b", "m2")).map(({ state }) => state),
      ["same", "changed", "changed"]
    )
  })
})
