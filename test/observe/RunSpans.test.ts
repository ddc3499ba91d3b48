// Spans of the run record: what belongs where and when it is over, whoever exports it; whole, and the same live and
// from a store.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { writeFileSync } from "node:fs"
import {
  Agent,
  Approvals,
  Delegate,
  FileTools,
  Ids,
  Runtime,
  Scripted,
  SessionStore,
  TerminalTools,
  Toolset,
  Usage
} from "../../src/index.ts"
import { LangfusePlugin, OtelPlugin, RecordEvent } from "../../src/kit/entry/observability.ts"
import { Auxiliary } from "../../src/kit/entry/routing.ts"
import { ExecuteCode } from "../../src/kit/entry/tools/code.ts"
import * as LangfuseSettings from "../../src/observe/langfuse/LangfuseSettings.ts"
import * as Observations from "../../src/observe/langfuse/Observations.ts"
import * as OtelSettings from "../../src/observe/otel/OtelSettings.ts"
import * as SpanEncoding from "../../src/observe/otlp/SpanEncoding.ts"
import * as LiveSpans from "../../src/observe/LiveSpans.ts"
import * as RunSpans from "../../src/observe/RunSpans.ts"
import * as RunTree from "../../src/observe/RunTree.ts"
import * as StoredRuns from "../../src/observe/StoredRuns.ts"
import { scaleRuns } from "../support/effort.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { all, collector, json, names, type Seen, trees, type WireSpan } from "./support/collector.ts"
import * as Otlp from "./support/otlpWire.ts"
import { live } from "./support/shownSpans.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const view: RunSpans.View = {
  hasSteps: true,
  trace: ({ turnId }) => ({ traceId: RunSpans.makeTraceId(turnId), parentSpanId: undefined, sampled: true }),
  name: (node) =>
    node.kind === "attempt"
      ? `attempt ${node.start.apiRequestId}`
      : node.kind === "step"
        ? `step ${node.number}`
        : node.kind === "call"
          ? `call ${node.id}`
          : node.kind === "run"
            ? `run ${node.turnId}`
            : node.kind,
  attributes: () => ({})
}

/**
 * Spans of entries that are told one by one; checks that all that is opened is closed once, and inside of what it is
 * in.
 */
const told = () => {
  const spans: Array<RunSpans.Span> = []
  const open = new Map<string, RunSpans.SpanHead>()
  const known = new Set<string>()
  const showing = live(view, {
    open: (head) => {
      assert.isFalse(known.has(head.spanId), `${head.name} begins once`)
      if (head.parentSpanId !== undefined && head.node.kind !== "attempt")
        assert.isTrue(known.has(head.parentSpanId), `what ${head.name} is in began before`)
      known.add(head.spanId)
      open.set(head.spanId, head)
    },
    close: (span) => {
      assert.isTrue(open.delete(span.spanId), `${span.name} is over once`)
      spans.push(span)
    }
  })
  let at = 1000
  const tell = (turnId: string, ...events: ReadonlyArray<RecordEvent.RecordEvent>) =>
    showing.add(
      events.map((event) => ({
        sessionId: Ids.SessionId.make(`s-${turnId}`),
        turnId: Ids.TurnId.make(turnId),
        at: (at += 10),
        event
      }))
    )
  type Shape = string | readonly [string, ReadonlyArray<unknown>]
  const shape = (parent?: string): ReadonlyArray<Shape> =>
    spans
      .filter(({ parentSpanId }) => parentSpanId === parent)
      .toSorted((a, b) => a.startedAt - b.startedAt || a.order - b.order)
      .map(({ name, outcome, spanId }) => {
        const label = `${name}: ${outcome._tag}`
        const below = shape(spanId)
        return below.length === 0 ? label : [label, below]
      })
  return { open, spans, tell, shape, close: () => showing.close((at += 10)) }
}

const started: RecordEvent.RecordEvent = {
  _tag: "RunStarted",
  version: 1,
  source: "library",
  platform: "library",
  provider: "p",
  model: "m",
  cwd: "/",
  resumed: false
}
const ended: RecordEvent.RecordEvent = {
  _tag: "RunEnded",
  exit: "text_response",
  text: "done",
  steps: 1,
  usage: Usage.zero,
  cost: { usd: null, status: "unknown", source: "none" }
}
const asked = (apiRequestId: string, step: number, more: object = {}): RecordEvent.RecordEvent => ({
  _tag: "AttemptStarted",
  apiRequestId,
  step,
  attempt: 0,
  route: { provider: "p", model: "m", apiMode: "chat_completions" },
  messages: [],
  parameters: {},
  ...more
})
const answered = (apiRequestId: string): RecordEvent.RecordEvent => ({
  _tag: "AttemptEnded",
  apiRequestId,
  status: "answered",
  answer: []
})
const failed = (apiRequestId: string): RecordEvent.RecordEvent => ({
  _tag: "AttemptEnded",
  apiRequestId,
  status: "failed",
  answer: [],
  failure: { type: "E", message: "no", reason: "overloaded" }
})
const begun = (callId: string, more: object = {}): RecordEvent.RecordEvent => ({
  _tag: "CallStarted",
  callId,
  name: "t",
  args: {},
  apiRequestId: "a",
  parallel: false,
  ...more
})
const over = (callId: string, more: object = {}): RecordEvent.RecordEvent => ({
  _tag: "CallEnded",
  callId,
  name: "t",
  status: "ok",
  ran: true,
  durationMillis: 1,
  ...more
})

describe("RunSpans", () => {
  it("a run in steps, with parallel calls that end in another order", () => {
    const { open, shape, tell } = told()
    tell(
      "t",
      started,
      asked("a1", 1),
      failed("a1"),
      asked("a2", 1),
      answered("a2"),
      begun("x"),
      begun("y"),
      over("y"),
      over("x")
    )
    tell("t", asked("a3", 2), answered("a3"), ended)
    assert.deepStrictEqual(shape(), [
      [
        "run t: Done",
        [
          ["step 1: Done", ["attempt a1: Failed", "attempt a2: Done", "call x: Done", "call y: Done"]],
          ["step 2: Done", ["attempt a3: Done"]]
        ]
      ]
    ])
    assert.strictEqual(open.size, 0)
  })

  it("children are under the call that delegated to them, also when two delegate at once", () => {
    const { open, shape, tell } = told()
    const child = (session: string) => ({ subagentId: session, sessionId: Ids.SessionId.make(`s-${session}`) })
    tell("p", started, asked("a", 1), answered("a"), begun("d1"), begun("d2"))
    for (const [id, callId] of [
      ["c2", "d2"],
      ["c1", "d1"]
    ] as const) {
      tell("p", { _tag: "ChildStarted", callId, ...child(id), goal: "g", role: "leaf", background: false })
    }
    tell("c1", started, asked("c1-a", 1))
    tell("c2", started, asked("c2-a", 1), answered("c2-a"), ended)
    tell("c1", { ...ended, exit: "interrupted" })
    tell(
      "p",
      { _tag: "ChildEnded", ...child("c1"), status: "interrupted", durationMillis: 1 },
      { _tag: "ChildEnded", ...child("c2"), status: "completed", durationMillis: 1 }
    )
    tell("p", over("d1"), over("d2"), ended)
    assert.deepStrictEqual(shape(), [
      [
        "run p: Done",
        [
          [
            "step 1: Done",
            [
              "attempt a: Done",
              ["call d1: Done", [["child: Cut", [["step 1: Done", ["attempt c1-a: Cut"]]]]]],
              ["call d2: Done", [["child: Done", [["step 1: Done", ["attempt c2-a: Done"]]]]]]
            ]
          ]
        ]
      ]
    ])
    assert.strictEqual(open.size, 0)
  })

  it("an approval and the calls and side tasks of a tool are in its call", () => {
    const { shape, tell } = told()
    tell(
      "t",
      started,
      asked("a", 1),
      answered("a"),
      begun("x"),
      { _tag: "ApprovalDecided", callId: "x", subject: "rm", choice: "once", waitedMillis: 5 },
      begun("y", { parentCallId: "x" }),
      asked("v", 1, { task: "vision", callId: "x" }),
      answered("v"),
      over("y", { parentCallId: "x", output: "1" }),
      over("x"),
      ended
    )
    assert.deepStrictEqual(shape(), [
      [
        "run t: Done",
        [["step 1: Done", ["attempt a: Done", ["call x: Done", ["approval: Done", "call y: Done", "attempt v: Done"]]]]]
      ]
    ])
  })

  it("a side task is under its run, also when the run is over, and makes no run of its own", () => {
    const { shape, spans, tell } = told()
    tell("t", started, asked("x", 0, { task: "title" }), answered("x"), asked("a", 1), answered("a"), ended)
    tell("t", asked("y", 0, { task: "title" }), answered("y"))
    tell("other", asked("z", 0, { task: "title" }), answered("z"))
    assert.deepStrictEqual(shape(), [
      ["run t: Done", ["attempt x: Done", ["step 1: Done", ["attempt a: Done"]], "attempt y: Done"]]
    ])
    assert.strictEqual(spans.find(({ name }) => name === "attempt z")?.parentSpanId, RunSpans.makeRunSpanId("other"))
    assert.isFalse(spans.some(({ name }) => name === "run other"))
  })

  it("a run whose beginning is not in the record has a span all the same", () => {
    const { shape, tell } = told()
    tell("t", asked("a", 1), answered("a"), ended)
    assert.deepStrictEqual(shape(), [["run t: Done", [["step 1: Done", ["attempt a: Done"]]]]])
  })

  it("a call that the model made and nobody ran has a span with what it was told", () => {
    const { shape, tell } = told()
    tell(
      "t",
      started,
      asked("a", 1),
      answered("a"),
      over("x", { status: "error", ran: false, reason: "unknown_tool" }),
      ended
    )
    assert.deepStrictEqual(shape(), [["run t: Done", [["step 1: Done", ["attempt a: Done", "call x: Failed"]]]]])
  })

  it("what is open is ended in the end, once", () => {
    const { close, open, shape, tell } = told()
    tell("t", started, asked("a", 1), answered("a"), begun("x"))
    tell("t", {
      _tag: "ChildStarted",
      callId: "x",
      subagentId: "c",
      sessionId: Ids.SessionId.make("s-c"),
      goal: "g",
      role: "leaf",
      background: false
    })
    tell("c", started, asked("b", 1))
    close()
    close()
    assert.deepStrictEqual(shape(), [
      [
        "run t: Cut",
        [["step 1: Cut", ["attempt a: Done", ["call x: Cut", [["child: Cut", [["step 1: Cut", ["attempt b: Cut"]]]]]]]]]
      ]
    ])
    assert.strictEqual(open.size, 0)
  })

  it("views of one tree of runs have the same spans; one that fails, or that leaves early, is missed by no other", () => {
    const failures: Array<unknown> = []
    const runs = LiveSpans.make((error) => failures.push(error))
    const closed = (): { readonly names: Array<string>; readonly sink: LiveSpans.Sink } => {
      const names: Array<string> = []
      return {
        names,
        sink: { close: ({ name, outcome, spanId }) => void names.push(`${spanId} ${name}: ${outcome._tag}`) }
      }
    }
    const [early, whole] = [closed(), closed()]
    runs.show(view, {
      close: () => {
        throw new Error("no")
      }
    })
    const leave = runs.show(view, early.sink)
    const stop = runs.show(view, whole.sink)
    const tell = (...events: ReadonlyArray<RecordEvent.RecordEvent>) =>
      runs.add(
        events.map((event, at) => ({ sessionId: Ids.SessionId.make("s"), turnId: Ids.TurnId.make("t"), at, event }))
      )
    tell(started, asked("a", 1), answered("a"), asked("b", 2))
    leave(10)
    tell(answered("b"), ended)
    stop(20)
    const bare = (names: ReadonlyArray<string>) => names.map((name) => name.slice(17))
    assert.sameMembers(bare(early.names), [
      "attempt a: Done",
      "step 1: Done",
      "attempt b: Cut",
      "step 2: Cut",
      "run t: Cut"
    ])
    assert.sameMembers(bare(whole.names), [
      "attempt a: Done",
      "step 1: Done",
      "attempt b: Done",
      "step 2: Done",
      "run t: Done"
    ])
    assert.sameMembers(
      early.names.map((name) => name.slice(0, 16)),
      whole.names.map((name) => name.slice(0, 16))
    )
    assert.strictEqual(failures.length, whole.names.length)
  })

  it("arguments that are too deep to be written are those of one span", () => {
    let deep: unknown = 1
    for (let n = 0; n < 50_000; n++) deep = [deep]
    const { settings } = OtelSettings.fromVariables(variables("http://127.0.0.1:1"))
    assert.isDefined(settings)
    for (const by of [
      settings === undefined ? view : OtelPlugin.makeView(settings),
      Observations.makeView(LangfuseSettings.complete(keys))
    ]) {
      const spans: Array<RunSpans.Span> = []
      const showing = live(by, { close: (span) => spans.push(span) })
      const answer: RecordEvent.RecordEvent = {
        _tag: "AttemptEnded",
        apiRequestId: "b",
        status: "answered",
        answer: [{ type: "tool-call", id: "z", name: "t", params: deep }]
      }
      const events = [
        started,
        asked("a", 1),
        answered("a"),
        asked("b", 1),
        answer,
        begun("x", { args: deep }),
        over("x", { parentCallId: "none", output: "" }),
        begun("y"),
        over("y"),
        ended
      ]
      showing.add(
        events.map((event, n) => ({ sessionId: Ids.SessionId.make("s"), turnId: Ids.TurnId.make("t"), at: n, event }))
      )
      assert.includeMembers(
        spans.map(({ spanId }) => spanId),
        [
          RunSpans.makeRunSpanId("t"),
          RunSpans.makeAttemptSpanId("b"),
          RunSpans.makeCallSpanId("a", "x"),
          RunSpans.makeCallSpanId("a", "y")
        ]
      )
    }
  })

  it("a run whose process died ends with the last thing that was heard of it", () => {
    const events = [started, asked("a", 1), answered("a"), begun("x")]
    const entries = events.map((event, n) => ({
      sessionId: Ids.SessionId.make("s"),
      turnId: Ids.TurnId.make("t"),
      at: 1000 + n,
      event
    }))
    const spans = RunSpans.fromTree(RunTree.fromEntries(entries), view)
    assert.deepStrictEqual(
      spans.map(({ endedAt, name, outcome }) => [name, outcome._tag, endedAt]),
      [
        ["step 1", "Cut", 1003],
        ["attempt a", "Done", 1002],
        ["call x", "Cut", 1003],
        ["run t", "Cut", 1003]
      ]
    )
  })

  it("the sessions that nothing happens in are kept in a bounded number", () => {
    const { open, spans, tell } = told()
    for (let n = 0; n < LiveSpans.idleSessions + 10; n++)
      tell(`t${n}`, started, asked(`a${n}`, 1), answered(`a${n}`), ended)
    tell("t0", asked("late", 0, { task: "title" }), answered("late"))
    assert.strictEqual(
      spans.find(({ name }) => name === "attempt late")?.parentSpanId,
      RunSpans.makeRunSpanId("t0"),
      "also of a run that is forgotten"
    )
    assert.strictEqual(open.size, 0)
  })
})

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)
const echo = Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(`${text} again`) }))

const variables = (url: string) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  OTEL_METRICS_EXPORTER: "none",
  OTEL_LOGS_EXPORTER: "none",
  OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true"
})
const keys = { publicKey: "pk-lf-1", secretKey: Redacted.make("sk-lf-1") }

/** A runtime that exports to both, and keeps its sessions in a file. */
const exporting = (url: string, path: string, turns: ReadonlyArray<Scripted.Turn>) =>
  Runtime.layer({
    provider: Scripted.layer([...turns]),
    tools: [echo, Delegate.toolset, ExecuteCode.toolset, FileTools.toolset, TerminalTools.toolset],
    instructions: `Be good. ${"ä€😀 ".repeat(8000)}`,
    retry: RetryPolicy.make({ base: 0, cap: 0 }),
    approvals: Approvals.layerCallback(() => Effect.succeed("once")),
    store: SessionStore.layerSqlite({ path }),
    plugins: [OtelPlugin.make(variables(url)), LangfusePlugin.make({ ...keys, baseUrl: url })]
  })

/** The spans of a stored session as they would be sent. */
const stored = (path: string, sessionId: string, by: RunSpans.View) =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    const session = yield* Effect.fromOption(yield* store.get(Ids.SessionId.make(sessionId)))
    const spans: ReadonlyArray<WireSpan> = JSON.parse(
      JSON.stringify(RunSpans.fromTree(yield* StoredRuns.read(session), by).map(SpanEncoding.toJson))
    )
    return spans
  }).pipe(Effect.provide(SessionStore.layerSqlite({ path })))

const views = (url: string): ReadonlyArray<readonly [string, RunSpans.View]> => {
  const { settings } = OtelSettings.fromVariables(variables(url))
  return [
    ["/v1/traces", settings === undefined ? view : OtelPlugin.makeView(settings)],
    ["/api/public/otel/v1/traces", Observations.makeView(LangfuseSettings.complete(keys))]
  ]
}

/** Spans of either encoding in one form. */
const canonical = (spans: ReadonlyArray<WireSpan>): ReadonlyArray<WireSpan> =>
  // The form of a span has its members, in another order; all of these spans have attributes.
  spans.map((span) => Otlp.canonical(span, "Span") as WireSpan)

/** Names the first difference between spans that were sent and spans of the store; texts are long. */
const difference = (given: ReadonlyArray<WireSpan>, stored: ReadonlyArray<WireSpan>): string | undefined => {
  const [sent, kept] = [canonical(given), canonical(stored)]
  if (sent.length !== kept.length) return `${sent.length} spans sent, ${kept.length} kept`
  const byId = new Map(sent.map((span) => [span.spanId, span]))
  for (const { attributes, name, spanId, ...rest } of kept) {
    const other = byId.get(spanId)
    if (other === undefined) return `${name} was not sent`
    const { attributes: given, name: label, spanId: _, ...more } = other
    if (name !== label || JSON.stringify(rest) !== JSON.stringify(more))
      return `${name}: ${JSON.stringify(rest)} and ${JSON.stringify(more)}`
    const texts = new Map(given.map(({ key, value }) => [key, JSON.stringify(value)]))
    if (texts.size !== attributes.length)
      return `${name}: ${attributes.map(({ key }) => key).join()} and ${[...texts.keys()].join()}`
    for (const { key, value } of attributes) {
      if (texts.get(key) !== JSON.stringify(value))
        return `${name}, ${key}: ${JSON.stringify(value).slice(0, 300)} and ${texts.get(key)?.slice(0, 300)}`
    }
  }
  return undefined
}

const find = (root: Seen | undefined, name: string): Seen | undefined =>
  root && all(root).find((seen) => seen.name === name)

const call = (id: string, name: string, params: object) => Scripted.complete({ toolCalls: [{ id, name, params }] })

describe("exporters of spans", () => {
  it.live("runs with every kind of part are sent live as they stand in the store", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const directory = yield* temporaryDirectory
      const path = `${directory}/state.db`
      writeFileSync(`${directory}/a.txt`, "content\n")
      const { sessionId } = yield* Effect.gen(function* () {
        const result = yield* Agent.run({ prompt: "go", streaming: true, cwd: directory })
        const messages = [Prompt.userMessage({ content: [Prompt.textPart({ text: "Title this" })] })]
        const { sessionId, turnId } = result
        yield* Auxiliary.Auxiliary.use(({ call }) =>
          call("title", { messages, context: { sessionId, turnId, taskId: Ids.TaskId.make(sessionId) } })
        )
        return result
      }).pipe(
        Effect.provide(
          exporting(server.url, path, [
            Scripted.fail(new AiError.InternalProviderError({ description: "busy" })),
            Scripted.complete({
              text: "both",
              toolCalls: [
                { id: "c1", name: "echo", params: { text: "a" } },
                { id: "c2", name: "nope", params: {} }
              ]
            }),
            call("c1", "delegate_task", { goal: "look" }),
            call("c1", "echo", { text: "b" }),
            Scripted.complete("found"),
            call("c3", "execute_code", { code: "read_file({ path: 'a.txt' })", language: "javascript" }),
            call("c4", "terminal", { command: "rm -rf ./not-there-at-all" }),
            Scripted.complete("done"),
            Scripted.complete("A title")
          ])
        )
      )
      for (const [place, by] of views(server.url)) {
        const sent = server.spans(place)
        assert.isUndefined(difference(sent, yield* stored(path, sessionId, by)), place)
      }
      const [root, ...more] = trees(server.spans("/v1/traces"))
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(root && names(root), [
        "invoke_agent hermes",
        ["step 1", "chat scripted", "chat scripted", "execute_tool echo", "execute_tool nope"],
        [
          "step 2",
          "chat scripted",
          [
            "execute_tool delegate_task",
            ["invoke_agent hermes", ["step 1", "chat scripted", "execute_tool echo"], ["step 2", "chat scripted"]]
          ]
        ],
        ["step 3", "chat scripted", ["execute_tool execute_code", "approval", "execute_tool read_file"]],
        ["step 4", "chat scripted", ["execute_tool terminal", "approval"]],
        ["step 5", "chat scripted"],
        "chat scripted"
      ])
      for (const { at, name } of root === undefined ? [] : all(root)) {
        assert.strictEqual(at["gen_ai.provider.name"], "scripted", name)
        assert.notProperty(at, "hermes.cost_usd", "nobody knows the price of the scripted model")
      }
      assert.deepInclude(find(root, "execute_tool nope")?.at, {
        "error.type": "unknown_tool",
        "hermes.tool.status": "error"
      })
      const [turn, ...others] = trees(server.spans("/api/public/otel/v1/traces"))
      assert.deepStrictEqual(others, [])
      assert.strictEqual(turn?.children.at(-1)?.name, "LLM call: title")
    })
  )

  const long = "ä€😀 \n".repeat(15_000)
  it.live("texts of 100 kB are whole in OpenTelemetry; in Langfuse the system prompt and the arguments are", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const path = `${yield* temporaryDirectory}/state.db`
      yield* Agent.run({ prompt: `say ${long}` }).pipe(
        Effect.provide(exporting(server.url, path, [call("c", "echo", { text: long }), Scripted.complete(long)]))
      )
      const [root] = trees(server.spans("/v1/traces"))
      const tool = find(root, "execute_tool echo")
      assert.deepStrictEqual(json(tool, "gen_ai.tool.call.arguments"), { text: long })
      assert.isTrue(tool?.at["gen_ai.tool.call.result"] === `${long} again`)
      assert.deepStrictEqual(json(root, "gen_ai.output.messages"), [
        { role: "assistant", parts: [{ type: "text", content: long }], finish_reason: "stop" }
      ])
      const chats = (root === undefined ? [] : all(root)).filter(({ name }) => name === "chat scripted")
      const chat = chats.at(-1)
      // A message is whole in the span of the call that was first sent it, an answer in the span of its call.
      assert.deepStrictEqual(
        chats.map((one) => json(one, "gen_ai.input.messages")),
        [
          [{ role: "user", parts: [{ type: "text", content: `say ${long}` }] }],
          [{ role: "tool", parts: [{ type: "tool_call_response", id: "c", response: `${long} again` }] }]
        ]
      )
      assert.deepStrictEqual(
        chats.map((one) => one.at["hermes.input.omitted_messages"]),
        [undefined, 2]
      )
      assert.deepStrictEqual(json(chats[0], "gen_ai.output.messages"), [
        {
          role: "assistant",
          parts: [{ type: "tool_call", id: "c", name: "echo", arguments: { text: long } }],
          finish_reason: "tool_calls"
        }
      ])
      const system = JSON.stringify(json(chat, "gen_ai.system_instructions"))
      assert.isTrue(system.includes("ä€😀 ".repeat(8000).trim()))
      const [turn] = trees(server.spans("/api/public/otel/v1/traces"))
      assert.deepStrictEqual(json(find(turn, "Tool: echo"), "langfuse.observation.input"), { text: long })
      assert.match(
        String(find(turn, "Tool: echo")?.at["langfuse.observation.output"]),
        /\.\.\. \[truncated \d+ chars\]$/u
      )
      const generation = JSON.stringify(json(find(turn, "LLM call 2"), "langfuse.observation.input"))
      assert.isTrue(generation.includes("ä€😀 ".repeat(8000).trim()))
      assert.isTrue(generation.includes(JSON.stringify(long).slice(1, -1)), "arguments of the call")
    })
  )

  it.live("a long session that goes on elsewhere is shown with all of its messages", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const turns = Array.from({ length: scaleRuns(100) }, (_, n) => n)
      const elsewhere = yield* collector()
      const { sessionId } = yield* Effect.gen(function* () {
        for (const n of turns.slice(1)) yield* Agent.run({ prompt: `question ${n}`, sessionId: "long" })
        return yield* Agent.run({ prompt: `question ${turns.length}`, sessionId: "long" })
      }).pipe(
        Effect.provide(
          exporting(
            elsewhere.url,
            path,
            turns.map((n) => Scripted.complete(`answer ${n + 1}`))
          )
        )
      )
      const server = yield* collector()
      yield* Agent.run({ prompt: "last", sessionId }).pipe(
        Effect.provide(exporting(server.url, path, [Scripted.complete("end")]))
      )
      const [root, ...more] = trees(server.spans("/v1/traces"))
      assert.deepStrictEqual(more, [])
      const input: ReadonlyArray<{ parts: ReadonlyArray<{ content: string }> }> = JSON.parse(
        String(find(root, "chat scripted")?.at["gen_ai.input.messages"])
      )
      assert.deepStrictEqual(
        input.map(({ parts }) => parts[0]?.content),
        [...turns.flatMap((n) => [`question ${n + 1}`, `answer ${n + 1}`]), "last"]
      )
      const found = trees(elsewhere.spans("/api/public/otel/v1/traces"))
      assert.strictEqual(found.length, turns.length, "one root for each turn")
      assert.deepStrictEqual(
        new Set(found.map(({ span }) => span.traceId)),
        new Set([Observations.makeTraceId("long")])
      )
      for (const [place, by] of views(server.url)) {
        assert.isUndefined(
          difference([...elsewhere.spans(place), ...server.spans(place)], yield* stored(path, sessionId, by)),
          place
        )
      }
    })
  )
})
