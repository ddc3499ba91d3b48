// The canonical examples of the NeMo Relay document, executed by the program as they are printed there, over the native
// library: its model is a server of the tests, its directories are temporary, and everything else is to the letter.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { LLMock } from "@copilotkit/aimock"
import type { ChildProcess } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as Atof from "../../src/observe/Atof.ts"
import { mock } from "../models/provider/Ask.ts"
import { machine, sessionIdOf } from "../support/hermes.ts"
import { assertContains } from "./support/excerpt.ts"
import { preload } from "./support/library.ts"

const config = (url: string) => `model:
  provider: custom
  default: qwen3.6:35b
  base_url: ${url}/v1
  api_key: ollama
plugins:
  enabled:
    - observability/nemo_relay
delegation:
  max_spawn_depth: 2
  max_concurrent_children: 2
  child_timeout_seconds: 180
  model: qwen3.6:35b
  provider: custom
  base_url: ${url}/v1
  api_key: ollama
`

interface Example {
  readonly query: string
  readonly toolsets: string
  readonly turns: number
  readonly answers: (server: LLMock) => void
  readonly files?: Readonly<Record<string, string>>
  /** The variables that the document sets; `{dir}` is the directory of the example. */
  readonly env: Readonly<Record<string, string>>
  /** Names that the document gives sessions, in the order in which they begin. */
  readonly sessions: ReadonlyArray<string>
  /** A file on whose appearance the program is interrupted. */
  readonly interrupted?: string
}

/** Interrupts a program when a file is there. */
const interrupt = (file: string) => {
  let isWaiting = false
  return (_: string, child: ChildProcess): void => {
    if (isWaiting) return
    isWaiting = true
    const wait = setInterval(() => {
      if (!existsSync(file)) return
      clearInterval(wait)
      // A second time would mean: at once.
      child.kill("SIGINT")
    }, 20)
    child.once("close", () => clearInterval(wait))
  }
}

/** Runs one, and reads what it left under `atof` and `atif`, with the document's names for its sessions. */
const execute = ({ answers, env, files = {}, interrupted, query, sessions, toolsets, turns }: Example) =>
  Effect.gen(function* () {
    const server = yield* mock
    answers(server)
    const { at, cwd, hermes, keep, put } = yield* machine
    keep("config.yaml", config(server.url))
    for (const [name, content] of Object.entries(files)) put(name, content.replaceAll("{dir}", cwd))
    const ended = yield* hermes(
      [
        "chat",
        "--query",
        query,
        "--provider",
        "custom",
        "--model",
        "qwen3.6:35b",
        "--toolsets",
        toolsets,
        "--max-turns",
        String(turns),
        ...(interrupted === undefined ? ["--quiet"] : ["--format", "stream-json"]),
        "--accept-hooks"
      ],
      {
        ...(interrupted === undefined ? {} : { onOutput: interrupt(at(interrupted)) }),
        env: {
          NODE_OPTIONS: preload,
          ...Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value.replaceAll("{dir}", cwd)]))
        }
      }
    )
    assert.strictEqual(ended.code, interrupted === undefined ? 0 : 130, ended.stderr)
    const read = (folder: string) =>
      readdirSync(at(folder))
        .toSorted()
        .map((name) => ({ name, text: readFileSync(join(at(folder), name), "utf8") }))
    const raw = read("atof")
    const began = raw
      .flatMap(({ text }) => Atof.parse(text).events)
      .flatMap((event) =>
        event.kind === "scope" && event.category === "agent" && event.scope_category === "start"
          ? [String(event.metadata?.["session_id"])]
          : []
      )
    const named = (text: string) => began.reduce((all, id, index) => all.replaceAll(id, sessions[index] ?? id), text)
    const events = raw.flatMap(({ text }) => Atof.parse(named(text)).events)
    const stream = { events, faults: [] }
    return {
      stdout: ended.stdout,
      stderr: named(ended.stderr),
      session: sessionIdOf(named(ended.stderr)),
      stream,
      trajectories: read("atif")
        .map(({ name, text }) => ({ name: named(name), trajectory: JSON.parse(named(text)) as Atif.Trajectory }))
        .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    }
  })

const errors = (trajectory: unknown) => AtifCheck.check(trajectory).filter(({ severity }) => severity === "error")

const call = (id: string, name: string, args: object) => ({ id, name, arguments: JSON.stringify(args) })

const own = (name: string) => ({
  HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
  HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY: "{dir}/atof",
  HERMES_NEMO_RELAY_ATOF_FILENAME: `${name}-atof.jsonl`,
  HERMES_NEMO_RELAY_ATIF_ENABLED: "1",
  HERMES_NEMO_RELAY_ATIF_OUTPUT_DIRECTORY: "{dir}/atif",
  HERMES_NEMO_RELAY_ATIF_FILENAME_TEMPLATE: `${name}-atif-{session_id}.json`,
  HERMES_NEMO_RELAY_ATIF_AGENT_NAME: "Hermes Agent E2E",
  HERMES_NEMO_RELAY_ATIF_AGENT_VERSION: "docs-example"
})

const delegation: Example = {
  query:
    "Use delegate_task exactly once. Ask the child subagent to use the terminal tool exactly once to run printf docs_nested_leaf_function. " +
    "After the child returns, reply with exactly: parent received nested subagent result.",
  toolsets: "delegation,terminal",
  turns: 10,
  sessions: ["docs-parent-session", "docs-child-session"],
  env: {
    ...own("nested-subagent"),
    HERMES_NEMO_RELAY_ATOF_MODE: "overwrite",
    HERMES_NEMO_RELAY_ATIF_SUBAGENT_EXPORT_MODE: "all"
  },
  answers: (server) => {
    server.on(
      { userMessage: "Use delegate_task", hasToolResult: false },
      {
        toolCalls: [
          call("call_delegate", "delegate_task", {
            goal: "Run the command `printf docs_nested_leaf_function` using the terminal tool.",
            toolsets: ["terminal"]
          })
        ]
      }
    )
    server.on(
      { userMessage: "Use delegate_task", hasToolResult: true },
      { content: "parent received nested subagent result." }
    )
    server.on(
      { userMessage: "Run the command", hasToolResult: false },
      { toolCalls: [call("call_terminal", "terminal", { command: "printf docs_nested_leaf_function" })] }
    )
    server.on({ userMessage: "Run the command", hasToolResult: true }, { content: "docs_nested_leaf_function" })
  }
}

const terminal: Example = {
  query:
    "Use the terminal tool exactly once to run printf middleware_execution_ok. Then reply with exactly the command output.",
  toolsets: "terminal",
  turns: 4,
  sessions: ["middleware-demo-session"],
  env: { HERMES_NEMO_RELAY_PLUGINS_TOML: "{dir}/nemo-relay/plugins.toml" },
  files: {
    "nemo-relay/plugins.toml": `version = 1

[[components]]
kind = "observability"
enabled = true

[components.config]
version = 1

[components.config.atof]
enabled = true
output_directory = "{dir}/atof"
filename = "middleware-events.jsonl"
mode = "overwrite"

[components.config.atif]
enabled = true
output_directory = "{dir}/atif"
filename_template = "middleware-trajectory-{session_id}.json"
agent_name = "Hermes Middleware E2E"
agent_version = "local"

[[components]]
kind = "adaptive"
enabled = true

[components.config.tool_parallelism]
mode = "observe_only"
`
  },
  answers: (server) => {
    server.on(
      { userMessage: "terminal tool", hasToolResult: false },
      { toolCalls: [call("call_terminal", "terminal", { command: "printf middleware_execution_ok" })] }
    )
    server.on({ userMessage: "terminal tool", hasToolResult: true }, { content: "middleware_execution_ok" })
  }
}

describe("the document's examples", () => {
  it.live("10, 52, 58 and 62 a delegated subagent's tool call", () =>
    Effect.gen(function* () {
      const { session, stdout, stream, trajectories } = yield* execute(delegation)
      assert.strictEqual(session, "docs-parent-session")
      assert.strictEqual(stdout, "parent received nested subagent result.\n")
      assert.deepStrictEqual(Atof.check(stream), [])
      assertContains(stream.events, [
        {
          kind: "scope",
          category: "tool",
          name: "delegate_task",
          scope_category: "start",
          metadata: { session_id: "docs-parent-session", tool_call_id: "call_delegate" },
          data: {
            goal: "Run the command `printf docs_nested_leaf_function` using the terminal tool.",
            toolsets: ["terminal"]
          }
        },
        {
          kind: "mark",
          name: "hermes.subagent.start",
          metadata: { parent_session_id: "docs-parent-session", session_id: "docs-child-session", child_role: "leaf" }
        },
        {
          kind: "scope",
          category: "tool",
          name: "terminal",
          scope_category: "end",
          metadata: { session_id: "docs-child-session", tool_call_id: "call_terminal", status: "ok" },
          data: '{"output":"docs_nested_leaf_function","exit_code":0,"error":null}'
        },
        {
          kind: "scope",
          category: "tool",
          name: "delegate_task",
          scope_category: "end",
          metadata: { session_id: "docs-parent-session", tool_call_id: "call_delegate", status: "ok" }
        }
      ])
      const mark = stream.events.find(({ name }) => name === "hermes.subagent.start")
      assert.match(String(mark?.metadata?.["subagent_id"]), /^sa-0-/u)
      assert.deepStrictEqual(
        trajectories.map(({ name }) => name),
        ["nested-subagent-atif-docs-child-session.json", "nested-subagent-atif-docs-parent-session.json"]
      )
      for (const { trajectory } of trajectories) assert.deepStrictEqual(errors(trajectory), [])
      assertContains(trajectories[1]?.trajectory, {
        schema_version: "ATIF-v1.7",
        session_id: "docs-parent-session",
        agent: { name: "Hermes Agent E2E", version: "docs-example", model_name: "qwen3.6:35b" },
        steps: [
          {
            source: "agent",
            tool_calls: [{ function_name: "delegate_task" }],
            observation: {
              results: [
                {
                  subagent_trajectory_ref: [{ session_id: "docs-child-session" }],
                  content: '{"results":[{"status":"completed","tool_trace":[{"tool":"terminal","status":"ok"}]}]}'
                }
              ]
            }
          },
          { source: "agent", message: "parent received nested subagent result." }
        ],
        subagent_trajectories: [
          {
            session_id: "docs-child-session",
            steps: [
              {
                source: "agent",
                tool_calls: [{ function_name: "terminal", arguments: { command: "printf docs_nested_leaf_function" } }],
                observation: {
                  results: [{ content: '{"output":"docs_nested_leaf_function","exit_code":0,"error":null}' }]
                }
              }
            ]
          }
        ]
      })
      assert.deepStrictEqual(
        trajectories[1]?.trajectory.subagent_trajectories,
        trajectories.slice(0, 1).map(({ trajectory }) => trajectory)
      )
    })
  )

  it.live("11 and 23 parallel tool calls", () =>
    Effect.gen(function* () {
      const { session, stdout, stream, trajectories } = yield* execute({
        query:
          "Use exactly two read_file tool calls in the same assistant message. Read alpha.txt and beta.txt. Do not call terminal. " +
          "After both tool results are available, reply with exactly: parallel tools complete.",
        toolsets: "file",
        turns: 8,
        sessions: ["docs-parallel-session"],
        files: { "alpha.txt": "docs_parallel_alpha_function\n", "beta.txt": "docs_parallel_beta_function\n" },
        env: { ...own("parallel-tools"), HERMES_NEMO_RELAY_ATOF_MODE: "overwrite" },
        answers: (server) => {
          server.on(
            { userMessage: "read_file", hasToolResult: false },
            {
              toolCalls: [
                call("call_alpha", "read_file", { path: "alpha.txt" }),
                call("call_beta", "read_file", { path: "beta.txt" })
              ]
            }
          )
          server.on({ userMessage: "read_file", hasToolResult: true }, { content: "parallel tools complete." })
        }
      })
      assert.strictEqual(session, "docs-parallel-session")
      assert.strictEqual(stdout, "parallel tools complete.\n")
      assert.deepStrictEqual(Atof.check(stream), [])
      const tool = (end: string, id: string, more: object) => ({
        kind: "scope",
        category: "tool",
        name: "read_file",
        scope_category: end,
        metadata: { session_id: "docs-parallel-session", tool_call_id: id, ...more }
      })
      assertContains(stream.events, [
        {
          kind: "scope",
          category: "llm",
          name: "custom",
          scope_category: "end",
          data: {
            assistant_message: {
              tool_calls: [
                { id: "call_alpha", name: "read_file", arguments: '{"path":"alpha.txt"}' },
                { id: "call_beta", name: "read_file", arguments: '{"path":"beta.txt"}' }
              ]
            },
            finish_reason: "tool_calls"
          }
        },
        { ...tool("start", "call_alpha", {}), data: { path: "alpha.txt" } },
        { ...tool("start", "call_beta", {}), data: { path: "beta.txt" } }
      ])
      // Which of the two is done first is the disk's business; the document's run had beta before alpha.
      for (const word of ["alpha", "beta"]) {
        assertContains(stream.events, [tool("end", `call_${word}`, { status: "ok" })])
        const end = stream.events.find(
          (event) =>
            event.kind === "scope" &&
            event.scope_category === "end" &&
            event.metadata?.["tool_call_id"] === `call_${word}`
        )
        assert.match(JSON.parse(String(end?.data)).content, new RegExp(`1\\|docs_parallel_${word}_function\\n$`, "u"))
      }
      const [written] = trajectories
      assert.deepStrictEqual(
        trajectories.map(({ name }) => name),
        ["parallel-tools-atif-docs-parallel-session.json"]
      )
      assert.deepStrictEqual(errors(written?.trajectory), [])
      assertContains(written?.trajectory, {
        schema_version: "ATIF-v1.7",
        session_id: "docs-parallel-session",
        agent: { name: "Hermes Agent E2E", version: "docs-example", model_name: "qwen3.6:35b" },
        steps: [
          {
            source: "agent",
            tool_calls: [
              { tool_call_id: "call_alpha", function_name: "read_file", arguments: { path: "alpha.txt" } },
              { tool_call_id: "call_beta", function_name: "read_file", arguments: { path: "beta.txt" } }
            ]
          },
          { source: "agent", message: "parallel tools complete." }
        ]
      })
      const results = written?.trajectory.steps.flatMap(({ observation }) => observation?.results ?? []) ?? []
      const order = stream.events.flatMap((event) =>
        event.kind === "scope" && event.category === "tool" && event.scope_category === "end"
          ? [event.category_profile?.["tool_call_id"]]
          : []
      )
      assert.deepStrictEqual(
        results.map(({ source_call_id: id }) => id),
        order,
        "results stand in the order in which calls were over"
      )
      for (const word of ["alpha", "beta"]) {
        assert.include(
          JSON.stringify(results.find(({ source_call_id: id }) => id === `call_${word}`)),
          `docs_parallel_${word}_function`
        )
      }
    })
  )

  it.live("64, 67 and 74 adaptive middleware: the library executes the calls and writes both files", () =>
    Effect.gen(function* () {
      const { session, stdout, stream, trajectories } = yield* execute(terminal)
      assert.strictEqual(session, "middleware-demo-session")
      assert.strictEqual(stdout, "middleware_execution_ok\n")
      assert.deepStrictEqual(
        Atof.check(stream).map(({ message }) => message),
        ["events are in a scope that is not in the stream"],
        "the library's own root"
      )
      // The `data` of a start is what is executed: this library has no place for the mode there, which stands in the
      // metadata.
      assertContains(stream.events, [
        {
          kind: "scope",
          category: "llm",
          name: "custom",
          scope_category: "start",
          metadata: { session_id: "middleware-demo-session", mode: "observe_only" }
        },
        {
          kind: "scope",
          category: "tool",
          name: "terminal",
          scope_category: "start",
          metadata: { session_id: "middleware-demo-session", tool_call_id: "call_terminal", mode: "observe_only" }
        },
        {
          kind: "scope",
          category: "tool",
          name: "terminal",
          scope_category: "end",
          metadata: { session_id: "middleware-demo-session", tool_call_id: "call_terminal", status: "ok" },
          data: '{"output":"middleware_execution_ok","exit_code":0,"error":null}'
        }
      ])
      const count = (category: string) =>
        stream.events.filter((event) => event.kind === "scope" && event.category === category).length
      assert.deepStrictEqual([count("llm"), count("tool"), count("agent")], [4, 2, 2], "each execution once")
      assertContains(stream.events, [
        { kind: "mark", name: "hermes.turn.start" },
        { kind: "mark", name: "hermes.turn.end" },
        { kind: "mark", name: "hermes.session.end" }
      ])
      const [written] = trajectories
      assert.strictEqual(trajectories.length, 1)
      assert.match(written?.name ?? "", /^middleware-trajectory-[\da-f-]{36}\.json$/u)
      assert.deepStrictEqual(errors(written?.trajectory), [])
      // The library names a trajectory by its root scope; the session is in its `extra`.
      assertContains(written?.trajectory, {
        schema_version: "ATIF-v1.7",
        extra: { nemo_relay: { session_id: "middleware-demo-session" } },
        agent: { name: "Hermes Middleware E2E", version: "local", model_name: "qwen3.6:35b" },
        steps: [
          {
            source: "agent",
            tool_calls: [{ function_name: "terminal", arguments: { command: "printf middleware_execution_ok" } }],
            observation: {
              results: [
                {
                  source_call_id: "call_terminal",
                  content: '{"output":"middleware_execution_ok","exit_code":0,"error":null}'
                }
              ]
            }
          },
          { source: "agent", message: "middleware_execution_ok" }
        ]
      })
      const [converted] = AtifConvert.convert(stream.events).trajectories
      assert.deepStrictEqual(errors(converted), [])
      assert.deepInclude(converted, { session_id: "middleware-demo-session" })
    })
  )
})

describe("calls that the library executes", () => {
  it.live("20 one that nobody approves is a mark with the decision and no pair; the model is told of the denial", () =>
    Effect.gen(function* () {
      const { stdout, stream, trajectories } = yield* execute({
        ...terminal,
        answers: (server) => {
          server.on(
            { userMessage: "terminal tool", hasToolResult: false },
            { toolCalls: [call("call_terminal", "terminal", { command: "rm -rf build" })] }
          )
          server.on({ userMessage: "terminal tool", hasToolResult: true }, { content: "not allowed" })
        }
      })
      assert.strictEqual(stdout, "not allowed\n")
      assertContains(stream.events, [
        {
          kind: "mark",
          name: "hermes.approval.response",
          data: null,
          metadata: { session_id: "middleware-demo-session", choice: "deny" }
        }
      ])
      assert.deepStrictEqual(
        stream.events.filter((event) => event.kind === "scope" && event.category === "tool"),
        []
      )
      const asked = stream.events.findLast(
        (event) => event.kind === "scope" && event.category === "llm" && event.scope_category === "start"
      )
      assert.match(JSON.stringify(asked?.data), /"role":"tool".*(denied|approv)|(denied|approv).*"role":"tool"/u)
      for (const { trajectory } of trajectories) assert.deepStrictEqual(errors(trajectory), [])
    })
  )

  it.live("46 one that is interrupted has its end in the file, and so have the session and its trajectory", () =>
    Effect.gen(function* () {
      const { stream, trajectories } = yield* execute({
        ...terminal,
        interrupted: "started",
        answers: (server) => {
          server.on(
            { userMessage: "terminal tool" },
            { toolCalls: [call("call_terminal", "terminal", { command: "touch started; sleep 60" })] }
          )
        }
      })
      assertContains(stream.events, [
        { category: "tool", name: "terminal", scope_category: "start" },
        { category: "tool", name: "terminal", scope_category: "end", metadata: { status: "error" } },
        { category: "agent", scope_category: "end" }
      ])
      assert.deepStrictEqual(
        Atof.check(stream).map(({ message }) => message),
        ["events are in a scope that is not in the stream"]
      )
      assert.strictEqual(trajectories.length, 1)
      for (const { trajectory } of trajectories) assert.deepStrictEqual(errors(trajectory), [])
    })
  )
})

describe("without the library", () => {
  it.live("68 the program says so once, and the files that the variables ask for are written all the same", () =>
    Effect.gen(function* () {
      const { stderr, stdout, stream, trajectories } = yield* execute({
        ...delegation,
        env: { ...delegation.env, TEST_WITHOUT_RELAY: "1" }
      })
      assert.strictEqual(stdout, "parent received nested subagent result.\n")
      assert.strictEqual(stderr.match(/NeMo Relay is not installed here/gu)?.length, 1)
      assert.deepStrictEqual(Atof.check(stream), [])
      assert.strictEqual(trajectories.length, 2)
    })
  )
})
