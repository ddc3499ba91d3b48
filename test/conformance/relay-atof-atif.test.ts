// The cases of the ATOF and ATIF document that need whole programs, and the NeMo Relay document's excerpts ("must
// contain"). Cases of single rules are in test/observe, by their number.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import type { LlmRequest } from "../../src/middleware/Middleware.ts"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as RecordEntries from "../observe/support/recordEntries.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Recorded from "../observe/support/recorded.ts"
import * as Runs from "../observe/support/runs.ts"
import { machine } from "../support/hermes.ts"
import { runScript } from "../support/runScript.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const sound = (value: unknown): Atif.Trajectory => {
  assert.deepStrictEqual(
    AtifCheck.check(value).filter(({ severity }) => severity === "error"),
    []
  )
  return value as Atif.Trajectory
}

/** The program with the document's variables, the plugin enabled; what it wrote. */
const example = (query: string, toolsets: string, files: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const { at, hermes, keep, put } = yield* machine
    keep("config.yaml", "plugins:\n  enabled:\n    - observability/trace\n")
    for (const [name, content] of Object.entries(files)) put(name, content)
    const ended = yield* hermes(
      ["chat", "--query", query, "--toolsets", toolsets, "--max-turns", "8", "--quiet", "--accept-hooks", "--yolo"],
      {
        env: {
          HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
          HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY: at("atof"),
          HERMES_NEMO_RELAY_ATOF_FILENAME: "run-atof.jsonl",
          HERMES_NEMO_RELAY_ATOF_MODE: "overwrite",
          HERMES_NEMO_RELAY_ATIF_ENABLED: "1",
          HERMES_NEMO_RELAY_ATIF_OUTPUT_DIRECTORY: at("atif"),
          HERMES_NEMO_RELAY_ATIF_FILENAME_TEMPLATE: "run-atif-{session_id}.json",
          HERMES_NEMO_RELAY_ATIF_AGENT_NAME: "Hermes Agent E2E",
          HERMES_NEMO_RELAY_ATIF_AGENT_VERSION: "docs-example",
          HERMES_NEMO_RELAY_ATIF_SUBAGENT_EXPORT_MODE: "all"
        }
      }
    )
    assert.strictEqual(ended.code, 0, ended.stderr)
    const stream = Atof.parse(readFileSync(join(at("atof"), "run-atof.jsonl"), "utf8"))
    assert.deepStrictEqual(Atof.check(stream), [])
    const id = /^session_id: (\S+)$/mu.exec(ended.stderr)?.[1] ?? ""
    const written = readdirSync(at("atif"))
    const readTrajectory = (session: string): Atif.Trajectory =>
      sound(JSON.parse(readFileSync(join(at("atif"), `run-atif-${session}.json`), "utf8")))
    const trajectory = readTrajectory(id)
    const converted = AtifConvert.convert(stream.events, { agentName: "Hermes Agent E2E" }).trajectories
    assert.deepStrictEqual(converted.map(Recorded.substance), [Recorded.substance(trajectory)], "live and converted")
    assert.deepStrictEqual(Recorded.refusals(stream.events), [])
    return {
      stdout: ended.stdout,
      events: stream.events,
      tools: stream.events.filter((event) => event.kind === "scope" && event.category === "tool"),
      trajectory,
      written,
      readTrajectory
    }
  })

describe("the document's examples", () => {
  it.live("11 and 23 two read_file calls in one message, executed by the program", () =>
    Effect.gen(function* () {
      const { stdout, tools, trajectory } = yield* example(
        "Use exactly two read_file tool calls in the same assistant message. Read alpha.txt and beta.txt. Do not call terminal. " +
          "After both tool results are available, reply with exactly: parallel tools complete.",
        "file",
        { "alpha.txt": "docs_parallel_alpha_function\n", "beta.txt": "docs_parallel_beta_function\n" }
      )
      assert.strictEqual(stdout, "parallel tools complete.\n")
      assert.deepStrictEqual(
        tools.map((event) => event.kind === "scope" && event.scope_category),
        ["start", "start", "end", "end"]
      )
      assert.isTrue(tools.every(({ name }) => name === "read_file"))
      assert.deepInclude(trajectory.agent, { name: "Hermes Agent E2E", version: "docs-example" })
      const step = trajectory.steps.find((one) => one.tool_calls)
      assert.deepStrictEqual(
        step?.tool_calls?.map((call) => [call.function_name, call.arguments["path"]]),
        [
          ["read_file", "alpha.txt"],
          ["read_file", "beta.txt"]
        ]
      )
      const results = step?.observation?.results
      for (const [index, word] of ["alpha", "beta"].entries()) {
        const id = step?.tool_calls?.[index]?.tool_call_id
        const result = results?.find(({ source_call_id: source }) => source === id)
        assert.include(String(result?.content), `docs_parallel_${word}_function`)
      }
      assert.deepInclude(trajectory.steps.at(-1), { source: "agent", message: "parallel tools complete." })
    })
  )

  it.live("5 and 26 one terminal call, executed by the program", () =>
    Effect.gen(function* () {
      const { stdout, tools, trajectory } = yield* example(
        "Use the terminal tool exactly once to run printf middleware_execution_ok. Then reply with exactly the command output.",
        "terminal"
      )
      assert.strictEqual(stdout, "middleware_execution_ok\n")
      const end = tools[1]
      assert.isString(end?.data)
      assert.deepInclude(JSON.parse(String(end?.data)), {
        output: "middleware_execution_ok",
        exit_code: 0,
        error: null
      })
      assert.strictEqual(end?.metadata?.["status"], "ok")
      const step = trajectory.steps.find((one) => one.tool_calls)
      assert.deepInclude(step?.tool_calls?.[0], { function_name: "terminal" })
      assert.deepInclude(step?.tool_calls?.[0]?.arguments, { command: "printf middleware_execution_ok" })
      assert.strictEqual(step?.observation?.results[0]?.content, end?.data)
    })
  )

  it.live("10, 52, 53, 58 and 62 a delegation, executed by the program", () =>
    Effect.gen(function* () {
      const { events, written, readTrajectory, stdout, tools, trajectory } = yield* example(
        "Use delegate_task exactly once. Ask the child subagent to use the terminal tool exactly once to run printf docs_nested_leaf_function. " +
          "After the child returns, reply with exactly: parent received nested subagent result.",
        "delegation,terminal"
      )
      assert.strictEqual(stdout, "parent received nested subagent result.\n")
      assert.deepStrictEqual(
        tools.map((event) => [event.name, event.kind === "scope" && event.scope_category]),
        [
          ["delegate_task", "start"],
          ["terminal", "start"],
          ["terminal", "end"],
          ["delegate_task", "end"]
        ]
      )
      const nested = trajectory.subagent_trajectories?.[0]
      const mark = events.find(({ name }) => name === "hermes.subagent.start")
      assert.deepInclude(mark?.metadata, {
        parent_session_id: trajectory.session_id,
        session_id: nested?.session_id,
        child_role: "leaf",
        parent_trajectory_id: trajectory.trajectory_id,
        child_trajectory_id: nested?.trajectory_id
      })
      assert.isString(mark?.metadata?.["subagent_id"])
      assert.deepStrictEqual(
        trajectory.steps.flatMap(
          (one) => one.observation?.results.flatMap(({ subagent_trajectory_ref: refs }) => refs ?? []) ?? []
        ),
        [{ trajectory_id: nested?.trajectory_id ?? null, session_id: nested?.session_id ?? null }]
      )
      assert.deepInclude(nested?.steps[2]?.tool_calls?.[0], { function_name: "terminal" })
      assert.deepInclude(JSON.parse(String(nested?.steps[2]?.observation?.results[0]?.content)), {
        output: "docs_nested_leaf_function",
        exit_code: 0
      })
      assert.strictEqual(written.length, 2)
      assert.deepStrictEqual(readTrajectory(nested?.session_id ?? ""), nested)
      assert.strictEqual(trajectory.steps.at(-1)?.message, "parent received nested subagent result.")
    })
  )

  it("10, 52 and 62 a delegation, as its events tell it", () => {
    const record = RecordEntries.make({ name: "Hermes Agent E2E", version: "docs-example" })
    const [parent, child] = ["docs-parent-session", "docs-child-session"]
    const goal = "Run the command `printf docs_nested_leaf_function` using the terminal tool."
    const delegate = { id: "call_delegate", name: "delegate_task", args: { goal, toolsets: ["terminal"] } }
    const terminal = { id: "call_terminal", name: "terminal", args: { command: "printf docs_nested_leaf_function" } }
    const link = { session: child, subagentId: "sa-0-docs", goal }
    const output = '{"output":"docs_nested_leaf_function","exit_code":0,"error":null}'
    const route = { model: "qwen3.6:35b", provider: "custom" }
    record.begin(parent, "Use delegate_task exactly once.")
    record.ask(parent, { ...route, calls: [delegate] })
    record.call(parent, delegate)
    record.child(parent, delegate.id, link)
    record.begin(child, goal, { session: parent, callId: delegate.id, subagentId: link.subagentId })
    record.ask(child, { ...route, calls: [terminal] })
    record.call(child, terminal)
    record.result(child, terminal, output)
    record.ask(child, { ...route, text: "done" })
    record.end(child)
    record.childEnded(parent, link)
    record.result(parent, delegate, '{"results":[{"status":"completed"}]}')
    record.ask(parent, { ...route, text: "parent received nested subagent result." })
    record.end(parent)
    record.close()
    const { events } = record
    assert.deepStrictEqual(Atof.check({ events, faults: [] }), [])

    const place = (wanted: (event: Atof.Event) => boolean): number => events.findIndex(wanted)
    const order = [
      place((event) => event.kind === "scope" && event.name === "delegate_task" && event.scope_category === "start"),
      place((event) => event.name === "hermes.subagent.start"),
      place((event) => event.kind === "scope" && event.name === "terminal" && event.scope_category === "end"),
      place((event) => event.kind === "scope" && event.name === "delegate_task" && event.scope_category === "end")
    ]
    assert.deepStrictEqual(
      order,
      order.toSorted((a, b) => a - b)
    )
    assert.deepInclude(events[order[0] ?? -1]?.metadata, { session_id: parent, tool_call_id: "call_delegate" })
    assert.deepStrictEqual(events[order[0] ?? -1]?.data, delegate.args)
    assert.deepInclude(events[order[1] ?? -1]?.metadata, {
      parent_session_id: parent,
      session_id: child,
      subagent_id: "sa-0-docs",
      child_role: "leaf",
      parent_trajectory_id: parent,
      child_trajectory_id: child
    })
    assert.strictEqual(events[order[2] ?? -1]?.data, output)
    assert.deepInclude(events[order[3] ?? -1]?.metadata, {
      session_id: parent,
      tool_call_id: "call_delegate",
      status: "ok"
    })

    const [trajectory, ...more] = AtifConvert.convert(events).trajectories
    assert.deepStrictEqual(more, [])
    sound(trajectory)
    assert.deepInclude(trajectory?.agent, {
      name: "Hermes Agent E2E",
      version: "docs-example",
      model_name: "qwen3.6:35b"
    })
    assert.deepStrictEqual(trajectory?.steps[1]?.observation?.results[0]?.subagent_trajectory_ref, [
      { trajectory_id: child, session_id: child }
    ])
    assert.strictEqual(trajectory?.steps.at(-1)?.message, "parent received nested subagent result.")
    const nested = trajectory?.subagent_trajectories?.[0]
    assert.deepInclude(nested?.steps[1]?.tool_calls?.[0], { function_name: "terminal", arguments: terminal.args })
    assert.strictEqual(nested?.steps[1]?.observation?.results[0]?.content, output)
  })
})

describe("what goes wrong", () => {
  it.live("13 a process that is killed during a tool leaves whole lines and an open tool", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const { signal } = yield* runScript("../observe/support/crash.ts", [directory])
      assert.strictEqual(signal, "SIGKILL")
      const text = readFileSync(join(directory, "events.jsonl"), "utf8")
      assert.isTrue(text.endsWith("\n"))
      const stream = Atof.parse(text)
      const issues = Atof.check(stream)
      assert.deepStrictEqual(
        issues.map(({ message, severity }) => [severity, message]),
        [
          ["warning", "hermes-session-killed: it has no end"],
          ["warning", "die: it has no end"]
        ]
      )
      const [trajectory] = AtifConvert.convert(stream.events).trajectories
      assert.deepStrictEqual(
        sound(trajectory).steps.map(({ source }) => source),
        ["system", "user", "agent"]
      )
    })
  )

  it("14 arguments that are no JSON are written as what can be said of them", () => {
    const record = RecordEntries.make(Runs.agent)
    const cycle: Record<string, unknown> = { big: 10n, when: new Date(0), nothing: undefined }
    cycle["self"] = cycle
    let deep: unknown = "end"
    for (let n = 0; n < 10_000; n++) deep = { deep }
    const call = { id: "c", name: "t", args: { cycle, deep } }
    record.begin("s", "go")
    record.ask("s", { calls: [{ ...call, args: {} }] })
    record.call("s", call)
    record.result("s", call, cycle)
    record.close()
    const start = record.events.find((event) => event.kind === "scope" && event.category === "tool")
    const text = JSON.stringify(start?.data)
    assert.include(text, "circular")
    assert.include(text, "depth limit")
    assert.include(text, '"big":"10"')
    for (const event of record.events) assert.isTrue(Atof.encode(event)._tag === "Success")
  })

  it.effect("19 a secret in the headers of a request is in no event and in no trajectory", () =>
    Effect.gen(function* () {
      const { events, plugin } = Runs.collector()
      const secret = `sk-${"proj-abcdefghijklmnopqrstuvwxyz0123456789"}`
      yield* Effect.scoped(
        Effect.gen(function* () {
          const headers = Plain.llmRequest({ name: "headers" }, (call) => ({
            request: {
              ...(call["request"] as object),
              extra_headers: { authorization: `Bearer ${secret}`, "x-trace": secret }
            }
          })) as LlmRequest
          const runtime = Runtime.layer({
            provider: Scripted.layer([Scripted.complete("ok")]),
            plugins: [plugin],
            middleware: [headers]
          })
          yield* Effect.provide(Agent.run({ prompt: `my key is ${secret}` }), runtime)
        })
      )
      const request = events.find((event) => event.kind === "scope" && event.category === "llm")
      assert.property(request?.data, "extra_headers")
      assert.notInclude(JSON.stringify(events), secret)
      assert.notInclude(JSON.stringify(AtifConvert.convert(events)), secret)
    })
  )
})
