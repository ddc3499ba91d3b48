// The parts of the OpenTelemetry exporter one by one.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Tracer from "effect/Tracer"
import * as Prompt from "effect/ai/Prompt"
import type * as Cost from "../../src/base/domain/Cost.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as Attributes from "../../src/observe/otel/Attributes.ts"
import * as Conventions from "../../src/observe/otel/Conventions.ts"
import * as Content from "../../src/observe/otel/Content.ts"
import * as OtelSettings from "../../src/observe/otel/OtelSettings.ts"
import * as Sampler from "../../src/observe/otel/Sampler.ts"
import * as TracerSpans from "../../src/observe/otel/TracerSpans.ts"
import * as RunSpans from "../../src/observe/RunSpans.ts"
import type * as RunTree from "../../src/observe/RunTree.ts"
import { effectProp } from "../support/property.ts"
import * as Otlp from "./support/otlpWire.ts"
import { sentOf } from "./support/sentMessages.ts"

describe("Sampler", () => {
  const span = (sampled: boolean, traceId = "0af7651916cd43dd8448eb211c80319c") =>
    Tracer.externalSpan({ traceId, spanId: "b7ad6b7169203331", sampled })

  it("decides by name, by the span above, and by the id of the trace alike for all", () => {
    const decide = (name: Sampler.Name, parent?: Tracer.AnySpan, chance = 0.5) =>
      Sampler.fromName(name, 0.25)(
        parent,
        parent?.traceId ??
          `${"0".repeat(18)}${Math.floor(chance * 2 ** 24)
            .toString(16)
            .padStart(6, "0")}${"0".repeat(8)}`
      )
    assert.deepStrictEqual([decide("always_on", span(false)), decide("always_off", span(true))], [true, false])
    assert.deepStrictEqual(
      [decide("parentbased_always_on"), decide("parentbased_always_on", span(false))],
      [true, false]
    )
    assert.deepStrictEqual(
      [decide("parentbased_always_off"), decide("parentbased_always_off", span(true))],
      [false, true]
    )
    assert.deepStrictEqual(
      [decide("traceidratio", undefined, 0.2), decide("traceidratio", undefined, 0.3)],
      [true, false]
    )
    assert.deepStrictEqual(
      [decide("parentbased_traceidratio", undefined, 0.2), decide("parentbased_traceidratio", span(true), 0.9)],
      [true, true]
    )
    const low = span(true, `${"f".repeat(18)}${"1".padEnd(14, "0")}`)
    const high = span(true, `${"0".repeat(18)}${"f".repeat(14)}`)
    assert.deepStrictEqual(
      [decide("traceidratio", low, 0.9), decide("traceidratio", high, 0)],
      [true, false],
      "by its last 56 bits"
    )
  })
})

describe("OtelSettings", () => {
  const read = (variables: Readonly<Record<string, string>>) => OtelSettings.fromVariables(variables)

  it("stands in for what is absent as the specification says", () => {
    const { settings, warnings } = read({})
    assert.deepStrictEqual(warnings, [])
    const absent = {
      headers: {},
      compression: undefined,
      exportIntervalMillis: undefined,
      maxBatchSize: undefined,
      shutdownMillis: undefined
    }
    const standard = { ...absent, encoding: "protobuf", timeoutMillis: 10_000 } as const
    assert.deepStrictEqual(settings?.exports, {
      TRACES: { ...standard, url: "http://localhost:4318/v1/traces" },
      METRICS: { ...standard, url: "http://localhost:4318/v1/metrics" },
      LOGS: { ...standard, url: "http://localhost:4318/v1/logs" }
    })
    assert.isUndefined(settings?.temporality)
    assert.deepInclude(settings?.variables, {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318",
      OTEL_SERVICE_NAME: "hermes"
    })
    assert.deepInclude(settings, { captureContent: false, parent: undefined })
    assert.notProperty(
      read({ OTEL_RESOURCE_ATTRIBUTES: "a=b, service.name=mine" }).settings?.variables,
      "OTEL_SERVICE_NAME"
    )
    assert.deepInclude(read({ OTEL_SERVICE_NAME: "mine" }).settings?.variables, { OTEL_SERVICE_NAME: "mine" })
  })

  it("a signal's own variable counts before the general one", () => {
    const { settings } = read({
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: "http/protobuf",
      OTEL_EXPORTER_OTLP_TIMEOUT: "500",
      OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "100",
      OTEL_METRICS_EXPORTER: " None "
    })
    assert.deepStrictEqual(Object.keys(settings?.exports ?? {}), ["TRACES", "LOGS"])
    assert.deepInclude(settings?.exports.TRACES, { encoding: "json", timeoutMillis: 100, shutdownMillis: 100 })
    assert.deepInclude(settings?.exports.LOGS, { encoding: "protobuf", timeoutMillis: 500, shutdownMillis: 500 })
  })

  it("metrics and logs have addresses, headers and a pace of their own", () => {
    const { settings, warnings } = read({
      OTEL_EXPORTER_OTLP_ENDPOINT: "https://c/base?key=1",
      OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: "http://logs/x",
      OTEL_EXPORTER_OTLP_METRICS_HEADERS: "m=1",
      OTEL_EXPORTER_OTLP_HEADERS: "a=1",
      OTEL_METRIC_EXPORT_INTERVAL: "50",
      OTEL_METRIC_EXPORT_TIMEOUT: "70",
      OTEL_BLRP_SCHEDULE_DELAY: "60",
      OTEL_BLRP_MAX_EXPORT_BATCH_SIZE: "5",
      OTEL_EXPORTER_OTLP_LOGS_COMPRESSION: "gzip",
      OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "Delta"
    })
    assert.deepStrictEqual(warnings, [])
    assert.deepInclude(settings?.exports.METRICS, {
      url: "https://c/base/v1/metrics?key=1",
      headers: { m: "1" },
      compression: undefined,
      exportIntervalMillis: 50,
      maxBatchSize: undefined,
      shutdownMillis: 70
    })
    assert.deepInclude(settings?.exports.LOGS, {
      url: "http://logs/x",
      headers: { a: "1" },
      compression: "gzip",
      exportIntervalMillis: 60,
      maxBatchSize: 5,
      shutdownMillis: undefined
    })
    assert.strictEqual(settings?.temporality, "delta")
    assert.deepStrictEqual(
      read({
        OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "lowmemory",
        OTEL_METRIC_EXPORT_INTERVAL: "soon"
      }).warnings.toSorted(),
      [
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE must be delta or cumulative: it is ignored",
        "OTEL_METRIC_EXPORT_INTERVAL must be a number above 0: it is ignored"
      ]
    )
  })

  it("only true disables, and only what says so captures", () => {
    assert.isUndefined(read({ OTEL_SDK_DISABLED: " TRUE " }).settings)
    assert.isDefined(read({ OTEL_SDK_DISABLED: "1" }).settings)
    const captures = (value: string) =>
      read({ OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: value }).settings?.captureContent
    assert.deepStrictEqual(["true", "SPAN_ONLY", "span_and_event", "event_only", "false", "yes"].map(captures), [
      true,
      true,
      true,
      false,
      false,
      false
    ])
  })

  it("traces have the pace and the headers of the variables; the conventions can be pinned", () => {
    const { settings, warnings } = read({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318/base/",
      OTEL_EXPORTER_OTLP_HEADERS: "a=b%20c, d=e",
      OTEL_BSP_SCHEDULE_DELAY: "100",
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "x",
      OTEL_EXPORTER_OTLP_COMPRESSION: "gzip",
      OTEL_SEMCONV_STABILITY_OPT_IN: "http/dup,gen_ai/dup"
    })
    assert.deepStrictEqual(settings?.traces, {
      url: "http://c:4318/base/v1/traces",
      headers: { a: "b c", d: "e" },
      compression: "gzip",
      exportIntervalMillis: 100,
      maxBatchSize: undefined
    })
    assert.isTrue(settings?.duplicateNames)
    assert.deepStrictEqual(warnings, ["OTEL_BSP_MAX_EXPORT_BATCH_SIZE must be a number above 0: it is ignored"])
    const latest = read({ OTEL_SEMCONV_STABILITY_OPT_IN: "gen_ai_latest_experimental" }).settings
    assert.deepStrictEqual([latest?.duplicateNames, latest?.conventions.version], [false, "genai 0.1.0"])
    assert.deepStrictEqual([read({}).settings?.conventions.version, read({}).settings?.agentUsage], ["1.41.1", false])
    assert.isTrue(read({ HERMES_OTEL_AGENT_USAGE: "true" }).settings?.agentUsage)
    assert.strictEqual(read({ OTEL_SEMCONV_STABILITY_OPT_IN: "gen_ai_1" }).warnings.length, 1)
    assert.strictEqual(read({}).settings?.variables["OTEL_SERVICE_VERSION"], RunSpans.scope.version)
  })

  it("every name of a version is in its published table, or has our own prefix", () => {
    const names = Object.keys(Conventions.standard.attributes)
    for (const [value, version] of Object.entries(Otlp.published)) {
      const { attributes, metrics, tokens } = Conventions.selectTable([value])
      assert.deepStrictEqual(Object.keys(attributes), names, value)
      const isForeign = (known: object) => (name: string) => !Object.hasOwn(known, name) && !name.startsWith("hermes.")
      assert.deepStrictEqual(Object.values(attributes).filter(isForeign(version.attributes)), [], value)
      assert.deepStrictEqual(Object.values(metrics).filter(isForeign(version.metrics)), [], value)
      const { typeLabel: _, ...counted } = tokens
      assert.deepStrictEqual(
        Object.values(counted)
          .flat()
          .map(({ name }) => name)
          .filter(isForeign(version.metrics)),
        [],
        value
      )
    }
  })

  it("what can not be read is one warning that names it, and no value", () => {
    const { settings, warnings } = read({
      OTEL_EXPORTER_OTLP_ENDPOINT: "secret://x",
      OTEL_EXPORTER_OTLP_TIMEOUT: "soon",
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc"
    })
    assert.deepStrictEqual(warnings.map((line) => line.split(" ")[0]).toSorted(), [
      "OTEL_EXPORTER_OTLP_ENDPOINT",
      "OTEL_EXPORTER_OTLP_PROTOCOL",
      "OTEL_EXPORTER_OTLP_TIMEOUT"
    ])
    assert.notInclude(warnings.join(), "secret")
    assert.strictEqual(settings?.variables["OTEL_EXPORTER_OTLP_ENDPOINT"], "http://localhost:4318")
  })
})

describe("Content", () => {
  const asked = (body: Readonly<Record<string, unknown>>) => Content.readRequest(body as never)
  const hello = { role: "user", parts: [{ type: "text", content: "hello" }] }
  const called = { role: "assistant", parts: [{ type: "tool_call", id: "c", name: "echo", arguments: { x: 1 } }] }
  const given = { type: "tool_call_response", id: "c", response: "1" }
  const system = [{ type: "text", content: "be kind" }]

  it("the requests of all four protocols say the same", () => {
    assert.deepStrictEqual(
      asked({
        messages: [
          { role: "system", content: "be kind" },
          { role: "user", content: "hello" },
          {
            role: "assistant",
            content: null,
            tool_calls: [{ id: "c", type: "function", function: { name: "echo", arguments: '{"x":1}' } }]
          },
          { role: "tool", tool_call_id: "c", content: "1" }
        ]
      }),
      { system, messages: [hello, called, { role: "tool", parts: [given] }] }
    )
    assert.deepStrictEqual(
      asked({
        system: [{ type: "text", text: "be kind" }],
        messages: [
          { role: "user", content: [{ type: "text", text: "hello" }] },
          { role: "assistant", content: [{ type: "tool_use", id: "c", name: "echo", input: { x: 1 } }] },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "1" }] }
        ]
      }),
      { system, messages: [hello, called, { role: "user", parts: [given] }] }
    )
    assert.deepStrictEqual(
      asked({
        instructions: "be kind",
        input: [
          { role: "user", content: [{ type: "input_text", text: "hello" }] },
          { type: "function_call", call_id: "c", name: "echo", arguments: '{"x":1}' },
          { type: "function_call_output", call_id: "c", output: "1" }
        ]
      }),
      { system, messages: [hello, called, { role: "tool", parts: [given] }] }
    )
    assert.deepStrictEqual(
      asked({
        system: [{ text: "be kind" }],
        messages: [
          { role: "user", content: [{ text: "hello" }] },
          { role: "assistant", content: [{ toolUse: { toolUseId: "c", name: "echo", input: { x: 1 } } }] },
          { role: "user", content: [{ toolResult: { toolUseId: "c", content: [{ text: "1" }] } }] }
        ]
      }),
      { system, messages: [hello, called, { role: "user", parts: [{ ...given, response: [{ text: "1" }] }] }] }
    )
  })

  it("what nobody knows is kept as it is, and arguments that are no JSON too", () => {
    const image = { type: "image_url", image_url: { url: "data:…" } }
    assert.deepStrictEqual(asked({ messages: [{ role: "user", content: [image] }, "text", 7] }).messages, [
      { role: "user", parts: [image] },
      { role: "user", parts: [{ type: "text", content: "text" }] },
      { role: "user", parts: [{ type: "text", content: 7 }] }
    ])
    assert.deepStrictEqual(asked({}), { system: [], messages: [] })
    const answer = Content.makeAnswerMessage(
      [
        { type: "text", text: "hi" },
        { type: "reasoning", text: "hm" },
        { type: "tool-call", id: "c", name: "echo", params: "{broken" }
      ],
      "tool_calls"
    )
    assert.deepStrictEqual(answer, {
      role: "assistant",
      finish_reason: "tool_calls",
      parts: [
        { type: "reasoning", content: "hm" },
        { type: "text", content: "hi" },
        { type: "tool_call", id: "c", name: "echo", arguments: "{broken" }
      ]
    })
  })

  it("messages of the record have the same form; a file is described", () => {
    const of = (...messages: ReadonlyArray<Prompt.Message>) =>
      Object.fromEntries(
        Object.entries(Content.makeInputAttributes(sentOf(messages), undefined)).map(([name, value]) => [
          name,
          String(value)
        ])
      )
    assert.deepStrictEqual(
      of(
        Prompt.systemMessage({ content: "be kind" }),
        Prompt.userMessage({
          content: [Prompt.textPart({ text: "hello" }), Prompt.filePart({ mediaType: "image/png", data: "QUJD" })]
        }),
        Prompt.assistantMessage({
          content: [Prompt.toolCallPart({ id: "c", name: "echo", params: { x: 1 }, providerExecuted: false })]
        }),
        Prompt.toolMessage({
          content: [
            Prompt.toolResultPart({ id: "c", name: "echo", isFailure: false, result: "1", providerExecuted: false })
          ]
        })
      ),
      {
        "gen_ai.input.messages": JSON.stringify([
          {
            role: "user",
            parts: [...hello.parts, { type: "file", modality: "image", mime_type: "image/png", size: 4 }]
          },
          called,
          { role: "tool", parts: [given] }
        ]),
        "gen_ai.system_instructions": JSON.stringify(system)
      }
    )
    const rewritten = { system: "be kind", messages: [{ role: "user", content: "hello" }] }
    assert.deepStrictEqual(Content.makeInputAttributes(sentOf([]), rewritten), {
      "gen_ai.input.messages": JSON.stringify([hello]),
      "gen_ai.system_instructions": JSON.stringify(system)
    })
  })
})

describe("Attributes and outcomes", () => {
  const options = { agentName: "a", captureContent: false }
  const nothing = { sent: () => sentOf([]) }
  const run: RunTree.Run = {
    kind: "run",
    sessionId: "s",
    turnId: "t",
    startedAt: 1000,
    start: undefined,
    endedAt: 2000,
    end: undefined,
    child: undefined,
    messages: [],
    steps: [],
    sideTasks: [],
    asides: [],
    children: []
  }
  const attempt = (
    route: Partial<RunTree.Attempt["start"]["route"]>,
    end: Partial<NonNullable<RunTree.Attempt["end"]>> = {}
  ): RunTree.Attempt => ({
    kind: "attempt",
    run,
    step: undefined,
    call: undefined,
    startedAt: 1000,
    endedAt: 1500,
    start: {
      _tag: "AttemptStarted",
      apiRequestId: "r",
      step: 1,
      attempt: 0,
      messages: [],
      parameters: { temperature: 0.5 },
      route: { provider: "x", model: "m", apiMode: "chat_completions", ...route }
    },
    end: { _tag: "AttemptEnded", apiRequestId: "r", status: "answered", answer: [], ...end }
  })
  const at = (node: RunTree.Node, more: Partial<Attributes.Options> = {}) =>
    Attributes.toAttributes(node, RunSpans.getOutcome(node), nothing, { ...options, ...more })
  const call = (name: string, end: Partial<NonNullable<RunTree.Call["end"]>>, output = ""): RunTree.Call => ({
    kind: "call",
    run,
    step: undefined,
    parent: undefined,
    id: "c",
    name,
    args: {},
    startedAt: 1000,
    start: undefined,
    endedAt: 1200,
    end: { _tag: "CallEnded", callId: "c", name, status: "ok", ran: true, durationMillis: 200, output, ...end },
    result: undefined,
    approvals: [],
    changes: [],
    children: [],
    calls: []
  })

  it("providers and servers have the names of the conventions, the earlier ones too where they are wanted", () => {
    assert.deepStrictEqual(
      ["bedrock", "openai-codex", "gemini", "anthropic", "constructor"].map(
        (provider) => at(attempt({ provider }))["gen_ai.provider.name"]
      ),
      ["aws.bedrock", "openai", "gcp.gemini", "anthropic", "constructor"]
    )
    assert.deepInclude(at(attempt({ baseUrl: "https://api.example/v1" })), {
      "server.address": "api.example",
      "server.port": 443,
      "gen_ai.request.temperature": 0.5
    })
    assert.deepInclude(at(attempt({ baseUrl: "http://127.0.0.1:8080/v1" })), {
      "server.address": "127.0.0.1",
      "server.port": 8080
    })
    assert.notProperty(at(attempt({})), "server.address")
    assert.notProperty(at(attempt({ provider: "bedrock" })), "gen_ai.system")
    assert.strictEqual(at(attempt({ provider: "bedrock" }), { duplicate: true })["gen_ai.system"], "aws.bedrock")
  })

  it("a cost that nobody knows is no attribute", () => {
    const dollars = (cost: Cost.Spent) => at(attempt({}, { cost }))["hermes.cost_usd"]
    assert.deepStrictEqual(
      [
        dollars({ usd: null, status: "unknown", source: "none" }),
        dollars({ usd: 0.5, status: "estimated", source: "user_override" }),
        dollars({ usd: 0, status: "included", source: "none" })
      ],
      [undefined, 0.5, 0]
    )
    const [known, unknown] = [
      attempt({}, { usage: Usage.zero, cost: { usd: 0.5, status: "estimated", source: "user_override" } }),
      attempt({}, { usage: Usage.zero, cost: { usd: null, status: "unknown", source: "none" } })
    ]
    const ofRun = (...sideTasks: ReadonlyArray<RunTree.Attempt>) =>
      at({ ...run, sideTasks: Array.from(sideTasks) })["hermes.total.cost_usd"]
    assert.deepStrictEqual([ofRun(), ofRun(known, known), ofRun(known, unknown)], [undefined, 1, undefined])
    const shared = at({ ...run, sideTasks: [known, known] }, { agentUsage: true })
    assert.deepStrictEqual([shared["hermes.cost_usd"], shared["hermes.total.cost_usd"]], [1, undefined])
  })

  it("a call of a tool of an MCP server says so", () => {
    const blocked = at(call("mcp__files__read_it", {}))
    assert.deepInclude(blocked, {
      "hermes.mcp.server": "files",
      "hermes.mcp.tool": "read_it",
      "gen_ai.tool.name": "mcp__files__read_it"
    })
    assert.notProperty(blocked, "mcp.method.name", "it was never asked")
    const event = {
      _tag: "McpRequested",
      callId: "c",
      server: "Files",
      method: "resources/read",
      uri: "file:///a",
      protocol: "2025-11-25",
      address: "h",
      port: 80
    } as const
    const asked = at({ ...call("mcp__files__read_resource", {}), mcp: { at: 1, event } })
    assert.deepInclude(asked, {
      "mcp.method.name": "resources/read",
      "mcp.resource.uri": "file:///a",
      "hermes.mcp.server": "Files",
      "server.address": "h",
      "server.port": 80
    })
    assert.notProperty(asked, "gen_ai.prompt.name")
    assert.notProperty(at(call("read_file", {})), "mcp.method.name")
  })

  it("each part of a run says whether it went well, wrong, or was cut short", () => {
    const of = (node: RunTree.Node) => {
      const outcome = RunSpans.getOutcome(node)
      return outcome._tag === "Failed" ? outcome.failure.type : outcome._tag
    }
    const failure = { type: "RateLimitError", message: "slow down", reason: "rate_limit" }
    const ended = (exit: NonNullable<RunTree.Run["end"]>["exit"]): RunTree.Run => ({
      ...run,
      end: { _tag: "RunEnded", exit, steps: 1, usage: Usage.zero, cost: { usd: 0, status: "unknown", source: "none" } }
    })
    const child = (status: string): RunTree.Child => ({
      kind: "child",
      parent: run,
      call: undefined,
      startedAt: 1,
      endedAt: 2,
      run: undefined,
      start: {
        _tag: "ChildStarted",
        subagentId: "a",
        sessionId: Ids.SessionId.make("c"),
        goal: "g",
        role: "leaf",
        background: false
      },
      end: { _tag: "ChildEnded", subagentId: "a", sessionId: Ids.SessionId.make("c"), status, durationMillis: 1 }
    })
    assert.deepStrictEqual(
      [
        of(attempt({})),
        of(attempt({}, { status: "failed", failure })),
        of(attempt({}, { status: "interrupted" })),
        of({ ...attempt({}), end: undefined }),
        of(call("x", {})),
        of(call("x", { status: "cancelled" })),
        of(call("x", { status: "blocked", reason: "fence" })),
        of(call("x", { status: "error" })),
        of(child("partial")),
        of(child("timeout")),
        of(child("interrupted")),
        of(ended("text_response")),
        of(ended("max_iterations_reached")),
        of(ended("failed")),
        of(ended("interrupted_by_user")),
        of(run)
      ],
      [
        "Done",
        "rate_limit",
        "Cut",
        "Cut",
        "Done",
        "Cut",
        "fence",
        "tool_error",
        "Done",
        "timeout",
        "Cut",
        "Done",
        "Done",
        "failed",
        "Cut",
        "Cut"
      ]
    )
    const outcome = RunSpans.getOutcome(call("x", { status: "error" }, JSON.stringify({ error: "no such file" })))
    const [error] = Exit.match(TracerSpans.toExit(outcome), { onFailure: Cause.prettyErrors, onSuccess: () => [] })
    assert.deepStrictEqual([error?.name, error?.message], ["tool_error", "no such file"])
  })
})

describe("the input of an attempt", () => {
  const Said = Schema.Struct({
    role: Schema.Literals(["user", "assistant", "system", "lost"]),
    length: Schema.Literals([0, 10, 5000, Content.maxRepeatedChars - 60, Content.maxRepeatedChars + 1])
  })
  const messageOf = ({ length, role }: typeof Said.Type): Prompt.Message | undefined => {
    const text = "é".repeat(length)
    if (role === "lost") return undefined
    return role === "system"
      ? Prompt.systemMessage({ content: text })
      : role === "user"
        ? Prompt.userMessage({ content: [Prompt.textPart({ text })] })
        : Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })
  }
  const textOf = (message: Prompt.Message): string => Content.toJsonText(Content.toMessage(message))

  effectProp(
    "is what came behind the last answer, and before it as many messages as fit, however a list grows",
    { requests: Schema.Array(Schema.Array(Said).check(Schema.isMaxLength(4))).check(Schema.isMaxLength(8)) },
    ({ requests }) =>
      Effect.sync(() => {
        const list: Array<Prompt.Message | undefined> = []
        for (const more of requests) {
          list.push(...more.map(messageOf))
          const said = list.filter(
            (message) => message !== undefined && message.role !== "system"
          ) as ReadonlyArray<Prompt.Message>
          const fresh = said.length > 2 ? said.slice(0, 1) : []
          const input = Content.makeInputAttributes({ ...sentOf(list), fresh }, undefined)
          const known = said.findLastIndex(({ role }) => role === "assistant") + 1
          let first = known
          let chars = 0
          while (first > 0 && chars + textOf(said[first - 1] ?? assert.fail()).length <= Content.maxRepeatedChars)
            chars += textOf(said[--first] ?? assert.fail()).length
          const shown = [...fresh.filter(() => first > 0), ...said.slice(first)]
          assert.strictEqual(String(input["gen_ai.input.messages"]), `[${shown.map(textOf).join(",")}]`)
          assert.strictEqual(input["hermes.input.omitted_messages"] ?? 0, said.length - shown.length)
        }
      })
  )
})
