// What belongs where, and when it is over, whoever exports it.
import { assert, describe, it } from "@effect/vitest"
import type { Fields } from "../../src/observability/atof/Facts.ts"
import * as Tracker from "../../src/observability/span/Tracker.ts"

interface Node {
  readonly label: string
  readonly children: Array<Node>
  ending: string | undefined
}

const tracked = (hasSteps = false, capacity?: number) => {
  const roots: Array<Node> = []
  const notes: Array<string> = []
  const tracker = Tracker.make<Node>({
    hasSteps,
    open: (kind, payload, parent) => {
      const id = payload["tool_call_id"] ?? payload["child_session_id"] ?? payload["turn_id"] ?? ""
      const node: Node = { label: `${kind} ${String(kind === "model" ? payload["api_request_id"] : kind === "step" ? payload["api_call_count"] : id)}`, children: [], ending: undefined }
      if (parent === undefined) roots.push(node)
      else parent.children.push(node)
      assert.isUndefined(parent?.ending, "nothing begins in what is over")
      return node
    },
    note: ({ label }, event) => notes.push(`${label}: ${event}`),
    close: (node, ending) => {
      assert.isUndefined(node.ending, `${node.label} is over once`)
      assert.isTrue(node.children.every((child) => child.ending !== undefined), "children first")
      node.ending = ending
    }
  }, capacity)
  const run = (event: string, turn: string, more: Fields = {}) =>
    tracker.record(event, { session_id: `s-${turn}`, task_id: `s-${turn}`, turn_id: turn, ...more })
  return { roots, notes, tracker, run }
}

type Shape = string | readonly [string, ReadonlyArray<unknown>]
const shape = ({ children, ending, label }: Node): Shape => {
  const text = `${label}: ${ending ?? "open"}`
  return children.length === 0 ? text : [text, children.map(shape)]
}

describe("Tracker", () => {
  it("a run in steps, with parallel tools that end in another order", () => {
    const { roots, run } = tracked(true)
    run("pre_llm_call", "t")
    run("pre_api_request", "t", { api_request_id: "a1", api_call_count: 1 })
    run("api_request_error", "t", { api_request_id: "a1", retryable: true, retry_count: 0, max_retries: 3 })
    run("pre_api_request", "t", { api_request_id: "a1b", api_call_count: 1 })
    run("post_api_request", "t", { api_request_id: "a1b", assistant_tool_call_count: 2 })
    run("pre_tool_call", "t", { tool_call_id: "x", tool_name: "one" })
    run("pre_tool_call", "t", { tool_call_id: "y", tool_name: "one" })
    run("post_tool_call", "t", { tool_call_id: "y", tool_name: "one" })
    run("post_tool_call", "t", { tool_call_id: "x", tool_name: "one" })
    run("pre_api_request", "t", { api_request_id: "a2", api_call_count: 2 })
    run("post_api_request", "t", { api_request_id: "a2", assistant_tool_call_count: 0 })
    run("post_llm_call", "t")
    run("on_session_end", "t")
    assert.deepStrictEqual(roots.map(shape), [["run t: on_session_end", [
      ["step 1: over", ["model a1: api_request_error", "model a1b: post_api_request", "tool x: post_tool_call", "tool y: post_tool_call"]],
      ["step 2: over", ["model a2: post_api_request"]]
    ]]])
  })

  it("children are under the call that delegated to them, also when two delegate at once", () => {
    const { notes, roots, run, tracker } = tracked()
    run("pre_llm_call", "p")
    for (const call of ["d1", "d2"]) run("pre_tool_call", "p", { tool_call_id: call, tool_name: "delegate_task" })
    for (const call of ["d2", "d1"]) {
      tracker.record("subagent_start", { parent_session_id: "s-p", parent_turn_id: "p", parent_tool_call_id: call, child_session_id: `s-${call}` })
    }
    for (const call of ["d1", "d2"]) {
      run("pre_llm_call", call)
      run("pre_api_request", call, { api_request_id: `${call}-a`, api_call_count: 1 })
    }
    run("post_api_request", "d2", { api_request_id: "d2-a", assistant_tool_call_count: 0 })
    run("on_session_end", "d2")
    for (const call of ["d1", "d2"]) {
      tracker.record("subagent_stop", { child_session_id: `s-${call}` })
      tracker.record("on_session_finalize", { session_id: `s-${call}` })
      run("post_tool_call", "p", { tool_call_id: call, tool_name: "delegate_task" })
    }
    run("on_session_end", "p")
    assert.deepStrictEqual(roots.map(shape), [["run p: on_session_end", [
      ["tool d1: post_tool_call", [["child s-d1: subagent_stop", ["model d1-a: interrupted"]]]],
      ["tool d2: post_tool_call", [["child s-d2: subagent_stop", ["model d2-a: post_api_request"]]]]
    ]]])
    assert.includeMembers(notes, ["child s-d1: pre_llm_call", "child s-d2: on_session_end"])
    assert.strictEqual(tracker.size(), 0)
  })

  it("an approval is in its call, and one without a call in the run", () => {
    const { roots, run } = tracked()
    run("pre_llm_call", "t")
    run("pre_tool_call", "t", { tool_call_id: "x", tool_name: "terminal" })
    // Approvals name no task.
    run("pre_approval_request", "t", { task_id: "", tool_call_id: "x" })
    run("pre_approval_request", "t", { task_id: "", tool_call_id: "", pattern_key: "p" })
    run("post_approval_response", "t", { task_id: "", tool_call_id: "x" })
    run("on_session_end", "t")
    assert.deepStrictEqual(roots.map(shape), [["run t: on_session_end", [
      ["tool x: interrupted", ["approval x: post_approval_response"]], "approval : interrupted"
    ]]])
  })

  it("side calls are in the run of their session, and leave its steps and its turn alone", () => {
    const { roots, run, tracker } = tracked(true)
    run("pre_llm_call", "t")
    run("pre_llm_call", "other")
    const side = (event: string, turn: string, more: Fields = {}) =>
      tracker.record(event, { session_id: "s-t", task_id: "s-t", turn_id: turn, platform: "auxiliary:title", api_call_count: 1, ...more })
    side("pre_api_request", "t:title:1", { api_request_id: "x" })
    run("pre_api_request", "t", { api_request_id: "a1", api_call_count: 1 })
    side("api_request_error", "t:title:1", { api_request_id: "x", retryable: true, retry_count: 0, max_retries: 1 })
    side("pre_api_request", "t:title:1", { api_request_id: "y" })
    assert.strictEqual(tracker.model("t:title:1", "y")?.label, "model y")
    side("post_api_request", "t:title:1", { api_request_id: "y", assistant_tool_call_count: 0 })
    assert.isUndefined(tracker.model("t:title:1", "a1"), "its turn is forgotten")
    side("pre_api_request", "t:title:2", { api_request_id: "z" })
    run("on_session_end", "t")
    run("on_session_end", "other")
    side("pre_api_request", "t:title:3", { api_request_id: "late" })
    side("post_api_request", "t:title:3", { api_request_id: "late", assistant_tool_call_count: 0 })
    assert.deepStrictEqual(roots.map(shape), [
      ["run t: on_session_end", [
        "model x: api_request_error",
        ["step 1: over", ["model a1: interrupted", "model y: post_api_request", "model z: interrupted"]]
      ]],
      "run other: on_session_end",
      ["run t:title:3: over", ["model late: post_api_request"]]
    ])
    assert.strictEqual(tracker.size(), 0)
  })

  it("a run whose beginning was not heard is over with the answer that asks for nothing more", () => {
    const { roots, run, tracker } = tracked()
    run("pre_api_request", "t", { api_request_id: "a", api_call_count: 1 })
    run("api_request_error", "t", { api_request_id: "a", retryable: true, retry_count: 0, max_retries: 1 })
    run("pre_api_request", "t", { api_request_id: "b", api_call_count: 1 })
    assert.strictEqual(tracker.size(), 1)
    run("post_api_request", "t", { api_request_id: "b", assistant_tool_call_count: 0 })
    run("pre_tool_call", "t", { tool_call_id: "late" })
    assert.deepStrictEqual(roots.map(shape), [["run t: over", ["model a: api_request_error", "model b: post_api_request"]]])
    assert.strictEqual(tracker.size(), 0)
  })

  it("what is open is found by its ids, and ended in the end", () => {
    const { roots, run, tracker } = tracked()
    run("pre_llm_call", "t")
    run("pre_api_request", "t", { api_request_id: "a", api_call_count: 1 })
    run("pre_tool_call", "t", { tool_call_id: "x" })
    assert.deepStrictEqual([tracker.model("t", "a")?.label, tracker.tool("t", "x")?.label, tracker.tool("t", "y")], ["model a", "tool x", undefined])
    tracker.close()
    tracker.close()
    assert.deepStrictEqual(roots.map(shape), [["run t: interrupted", ["model a: interrupted", "tool x: interrupted"]]])
    assert.isUndefined(tracker.model("t", "a"))
  })

  it("when there are too many runs, the one that has been silent for longest is ended", () => {
    const { roots, run } = tracked(false, 2)
    run("pre_llm_call", "a")
    run("pre_llm_call", "b")
    run("pre_api_request", "a", { api_request_id: "x", api_call_count: 1 })
    run("pre_llm_call", "c")
    assert.deepStrictEqual(roots.map(({ ending }) => ending), [undefined, "interrupted", undefined])
  })
})
