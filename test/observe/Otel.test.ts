// What a collector gets of real runs, and what becomes of a run when it gets nothing.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Conventions from "../../src/observe/otel/Conventions.ts"
import * as Content from "../../src/observe/otel/Content.ts"
import * as OtelPlugin from "../../src/observe/OtelPlugin.ts"
import * as RunSpans from "../../src/observe/RunSpans.ts"
import * as RunTelemetry from "../../src/observe/RunTelemetry.ts"
import type { Plugin } from "../../src/agent/plugin/Plugin.ts"
import * as Offline from "../../src/models/provider/Offline.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Auxiliary from "../../src/models/routing/Auxiliary.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import type { RunRecord } from "../../src/store/RunRecord.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as ExecuteCode from "../../src/tools/builtin/ExecuteCode.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as McpServers from "../../src/tools/mcp/McpServers.ts"
import * as McpSdkClient from "../../src/tools/mcp/McpSdkClient.ts"
import { withWarnings } from "../hooks/support/events.ts"
import { scaleRuns } from "../support/effort.ts"
import { machine } from "../support/hermes.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { fixtureOf } from "../tools/mcp/support/servers.ts"
import { all, type Answer, attributes, collector, names, type Received, type Seen } from "./support/collector.ts"
import * as Runs from "./support/runs.ts"

type Variables = Readonly<Record<string, string>>

/** A collector, and a runtime that exports to it; what was exported is there when the runs are done. */
const traced = <A, E>(
  variables: Variables,
  turns: ReadonlyArray<Scripted.Turn>,
  runs: Effect.Effect<A, E, Agent.Agent>,
  answer?: (index: number) => Answer
) =>
  Effect.gen(function* () {
    const server = yield* collector(answer)
    const { layer } = Runs.runtime(turns, [], [], [OtelPlugin.make(environment(server.url, variables))])
    const value = yield* Effect.provide(runs, layer)
    return { ...server, value }
  })

const environment = (url: string, more: Variables): Variables => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  ...more
})

const find = (root: Seen | undefined, name: string): Seen | undefined =>
  root && all(root).find((seen) => seen.name === name)

interface Point {
  readonly attributes: Parameters<typeof attributes>[0]
  readonly sum?: number
  readonly count?: number
  readonly asDouble?: number
  readonly explicitBounds?: ReadonlyArray<number>
}

/** The points of a metric, as it was exported last. */
const points = (
  requests: ReadonlyArray<Received>,
  name: string
): ReadonlyArray<Point & { readonly at: Readonly<Record<string, unknown>> }> => {
  const last = requests.findLast(({ path }) => path === "/v1/metrics")
  const body: {
    resourceMetrics: ReadonlyArray<{
      scopeMetrics: ReadonlyArray<{
        metrics: ReadonlyArray<{
          name: string
          unit: string
          histogram?: { dataPoints: ReadonlyArray<Point> }
          sum?: { dataPoints: ReadonlyArray<Point> }
        }>
      }>
    }>
  } = JSON.parse(last?.body ?? '{"resourceMetrics":[]}')
  return body.resourceMetrics
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
    .filter((metric) => metric.name === name)
    .flatMap(({ histogram, sum }) => (histogram ?? sum)?.dataPoints ?? [])
    .map((point) => ({ ...point, at: attributes(point.attributes) }))
}

const logs = (requests: ReadonlyArray<Received>) =>
  requests
    .filter(({ path }) => path === "/v1/logs")
    .flatMap(({ body }) => {
      const {
        resourceLogs
      }: {
        resourceLogs: ReadonlyArray<{
          scopeLogs: ReadonlyArray<{
            logRecords: ReadonlyArray<{
              body: { stringValue: string }
              severityText: string
              traceId?: string
              spanId?: string
            }>
          }>
        }>
      } = JSON.parse(body)
      return resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords))
    })

const tracesOff: Variables = { OTEL_METRICS_EXPORTER: "none", OTEL_LOGS_EXPORTER: "none" }

describe("OpenTelemetry", () => {
  it.live("a run in steps, with the names of the GenAI conventions", () =>
    Effect.gen(function* () {
      const { requests, trees } = yield* traced(
        { OTEL_SERVICE_NAME: "svc", OTEL_RESOURCE_ATTRIBUTES: "team=core", OTEL_EXPORTER_OTLP_HEADERS: "x-key=abc" },
        Runs.parallel,
        Agent.run({ prompt: "both please", sessionId: "s1", streaming: true })
      )
      const [root, ...more] = trees()
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(root && names(root), [
        "invoke_agent hermes",
        ["step 1", "chat scripted", "execute_tool slow", "execute_tool echo"],
        ["step 2", "chat scripted"]
      ])
      assert.deepInclude(root?.at, {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "hermes",
        "gen_ai.conversation.id": "s1",
        "hermes.exit": "text_response",
        "hermes.completed": true,
        "hermes.platform": "library"
      })
      const chat = find(root, "chat scripted")
      assert.strictEqual(chat?.span.kind, 3, "a client")
      assert.deepInclude(chat?.at, {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.stream": true,
        "gen_ai.usage.input_tokens": 720,
        "gen_ai.usage.output_tokens": 80,
        "gen_ai.usage.cache_read.input_tokens": 200,
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "hermes.step": 1,
        "hermes.retry_count": 0
      })
      assert.isNumber(chat?.at["gen_ai.response.time_to_first_chunk"])
      assert.isAtLeast(Number(root?.at["hermes.total.output_tokens"]), 81, "the sum of its calls")
      assert.notProperty(root?.at, "gen_ai.usage.output_tokens")
      assert.deepInclude(find(root, "execute_tool slow")?.at, {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "slow",
        "gen_ai.tool.call.id": "call_alpha",
        "hermes.tool.status": "ok"
      })
      const request = requests.find(({ path }) => path === "/v1/traces")
      assert.strictEqual(request?.headers["x-key"], "abc")
      const {
        resourceSpans: [first]
      }: {
        resourceSpans: ReadonlyArray<{ schemaUrl: string; resource: { attributes: Parameters<typeof attributes>[0] } }>
      } = JSON.parse(request?.body ?? "")
      assert.deepInclude(attributes(first?.resource.attributes ?? []), {
        "service.name": "svc",
        "service.version": RunSpans.scope.version,
        team: "core"
      })
      assert.strictEqual(first?.schemaUrl, Conventions.standard.schemaUrl)
      for (const signal of ["traces", "metrics", "logs"]) {
        const body = requests.findLast(({ path }) => path === `/v1/${signal}`)?.body ?? ""
        assert.include(body, `"scope":${JSON.stringify(RunSpans.scope)}`, signal)
        assert.notInclude(body, '{"key":"unit"', "no label but those of the conventions")
      }
    })
  )

  it.live("tokens, durations, the time to the first chunk and errors are counted", () =>
    Effect.gen(function* () {
      const error = new AiError.InvalidRequestError({ description: "no" })
      const { requests } = yield* traced(
        { OTEL_TRACES_SAMPLER: "always_off" },
        [...Runs.parallel, Scripted.fail(error)],
        Effect.andThen(Agent.run({ prompt: "a", streaming: true }), Effect.exit(Agent.run({ prompt: "b" })))
      )
      const of = (name: string) => points(requests, name)
      const tokens = of("gen_ai.client.token.usage")
      const sum = (type: string) => tokens.find(({ at }) => at["gen_ai.token.type"] === type)
      assert.isAtLeast(sum("input")?.sum ?? 0, 720)
      assert.deepInclude(sum("output")?.at, { "gen_ai.operation.name": "chat", "gen_ai.request.model": "scripted" })
      assert.deepStrictEqual(tokens[0]?.explicitBounds?.slice(0, 4), [1, 4, 16, 64])
      const durations = of("gen_ai.client.operation.duration")
      assert.sameDeepMembers(
        durations.map(({ at, count }) => [at["error.type"], count]),
        [
          ["format_error", 1],
          [undefined, 2]
        ]
      )
      assert.deepStrictEqual(
        of("gen_ai.client.operation.time_to_first_chunk").map(({ count }) => count),
        [2]
      )
      assert.sameDeepMembers(
        of("gen_ai.execute_tool.duration").map(({ at, count }) => [at["gen_ai.tool.name"], count]),
        [
          ["echo", 1],
          ["slow", 1]
        ]
      )
      assert.sameDeepMembers(
        of("gen_ai.invoke_agent.duration").map(({ at, count }) => [at["error.type"], count]),
        [
          ["failed", 1],
          [undefined, 1]
        ]
      )
      assert.sameDeepMembers(
        of("hermes.errors").map(({ asDouble, at }) => [at["gen_ai.operation.name"], at["error.type"], asDouble]),
        [
          ["chat", "format_error", 1],
          ["invoke_agent", "failed", 1]
        ]
      )
      assert.isFalse(
        requests.some(({ path }) => path === "/v1/traces"),
        "numbers count without traces"
      )
    })
  )

  it.live("log records say how runs ended and what went wrong, in their spans", () =>
    Effect.gen(function* () {
      const error = new AiError.InvalidRequestError({ description: "no such model" })
      const { requests, trees } = yield* traced(
        {},
        [Scripted.complete("fine"), Scripted.fail(error)],
        Effect.andThen(Agent.run({ prompt: "a" }), Effect.exit(Agent.run({ prompt: "b" })))
      )
      const [good, bad] = trees()
      const lines = logs(requests).map(({ body, severityText, spanId }) => [
        severityText,
        body.stringValue.split(":")[0],
        spanId
      ])
      assert.deepInclude(lines, ["Info", "invoke_agent hermes", good?.span.spanId])
      assert.deepInclude(lines, ["Warn", "chat scripted failed", find(bad, "chat scripted")?.span.spanId])
      assert.deepInclude(lines, ["Error", "invoke_agent hermes failed", bad?.span.spanId])
      assert.strictEqual(bad?.span.status.code, 2)
      assert.strictEqual(find(bad, "chat scripted")?.at["error.type"], "model_not_found")
    })
  )

  it.live("what is logged inside of a call is exported too, in the span of the call", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const chatty = Middleware.toolExecution({
        name: "chatty",
        wrap:
          (next, { toolName }) =>
          (args) =>
            Effect.tap(next(args), () => Effect.logWarning(`inside ${toolName}`))
      })
      const { layer } = Runs.runtime(Runs.parallel, [], [chatty], [OtelPlugin.make(environment(server.url, {}))])
      const warnings = yield* withWarnings((warnings) =>
        Effect.as(Effect.provide(Agent.run({ prompt: "both" }), layer), warnings)
      )
      const [root] = server.trees()
      const said = logs(server.requests).filter(({ body }) => body.stringValue.startsWith("inside"))
      assert.sameDeepMembers(
        said.map(({ body, spanId }) => [body.stringValue, spanId]),
        ["slow", "echo"].map((name) => [`inside ${name}`, find(root, `execute_tool ${name}`)?.span.spanId])
      )
      assert.sameMembers([...warnings], ["inside slow", "inside echo"], "and said where it was said before")
    })
  )

  it.live("what was said is exported when it is asked for, and without secrets", () =>
    Effect.gen(function* () {
      const planted = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
      const turns = [
        Scripted.complete({
          text: "let me",
          reasoning: "hm",
          toolCalls: [{ id: "c", name: "echo", params: { text: `api_key=${planted}` } }]
        }),
        Scripted.complete("the answer")
      ]
      const run = Agent.run({ prompt: `my question, ${planted}` })
      const without = yield* traced({}, turns, run)
      const silent = without.requests.map(({ body }) => body).join("")
      for (const text of ["my question", "the answer", "let me", planted]) assert.notInclude(silent, text)
      const { requests, trees } = yield* traced(
        { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" },
        turns,
        run
      )
      assert.notInclude(requests.map(({ body }) => body).join(""), planted)
      const [root] = trees()
      const read = (seen: Seen | undefined, key: string): unknown => JSON.parse(String(seen?.at[key]))
      assert.deepInclude(read(root, "gen_ai.output.messages"), {
        role: "assistant",
        parts: [{ type: "text", content: "the answer" }],
        finish_reason: "stop"
      })
      const [first, second] = root === undefined ? [] : all(root).filter(({ name }) => name === "chat scripted")
      const [said] = read(first, "gen_ai.output.messages") as ReadonlyArray<{ parts: ReadonlyArray<{ type: string }> }>
      assert.deepStrictEqual(
        said?.parts.map(({ type }) => type),
        ["reasoning", "text", "tool_call"]
      )
      assert.isString(first?.at["gen_ai.system_instructions"])
      const asked = read(second, "gen_ai.input.messages") as ReadonlyArray<{
        role: string
        parts: ReadonlyArray<{ type: string }>
      }>
      assert.deepStrictEqual(
        asked.map(({ parts, role }) => [role, parts.at(-1)?.type]),
        [
          ["user", "text"],
          ["assistant", "tool_call"],
          ["tool", "tool_call_response"]
        ]
      )
      assert.isString(find(root, "execute_tool echo")?.at["gen_ai.tool.call.arguments"])
      assert.isString(find(root, "execute_tool echo")?.at["gen_ai.tool.call.result"])
    })
  )

  it.live(
    "what a span repeats of the conversation is bounded, and every message is whole in the span of the call that was first sent it",
    () =>
      Effect.gen(function* () {
        const count = 60
        const long = (n: number) => `${"x".repeat(2000)} question ${n}`
        const turns = Array.from({ length: count }, (_, n) => Scripted.complete(`${"y".repeat(1000)} answer ${n}`))
        const capturing = { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true", ...tracesOff }
        const runs = Effect.forEach(
          [...turns.keys(), count],
          (n) => Agent.run({ prompt: n === count ? "z".repeat(50_000) : long(n), sessionId: "s" }),
          { discard: true }
        )
        const { trees } = yield* traced(capturing, [...turns, Scripted.complete("end")], runs)
        const chats = trees().map((root) => find(root, "chat scripted"))
        const texts = chats.map((chat) => String(chat?.at["gen_ai.input.messages"]))
        const asked = texts.map((text): ReadonlyArray<{ role: string; parts: ReadonlyArray<{ content: string }> }> =>
          JSON.parse(text)
        )
        asked.slice(0, count).forEach((messages, n) => assert.strictEqual(messages.at(-1)?.parts[0]?.content, long(n)))
        assert.strictEqual(asked[count]?.at(-1)?.parts[0]?.content.length, 50_000, "what is new is whole")
        for (const [index, text] of texts.slice(0, count).entries())
          assert.isAtMost(text.length, Content.maxRepeatedChars + 3000, String(index))
        chats.forEach((chat, n) =>
          assert.strictEqual(
            (asked[n]?.length ?? 0) + Number(chat?.at["hermes.input.omitted_messages"] ?? 0),
            2 * n + 1
          )
        )
        assert.isAbove(asked[count - 1]?.length ?? 0, 15, "the newest of what came before are there")
        const limited = yield* traced(
          { ...capturing, OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT: "100" },
          [Scripted.complete("y".repeat(500))],
          Agent.run({ prompt: long(1) })
        )
        const values = limited
          .spans()
          .flatMap(({ attributes }) => attributes.map(({ value }) => value.stringValue?.length ?? 0))
        assert.strictEqual(Math.max(...values), 100)
      })
  )

  it.live("an approval is a span of its tool call; a command is in the trace of its call", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const call = (id: string, command: string) => ({ id, name: "terminal", params: { command } })
      const layer = Runtime.layer({
        provider: Scripted.layer([
          Scripted.complete({ toolCalls: [call("c1", 'echo "<$TRACEPARENT>"')] }),
          Scripted.complete({ toolCalls: [call("c2", "rm -rf ./not-there-at-all")] }),
          Scripted.complete("done")
        ]),
        tools: [TerminalTools.toolset],
        approvals: Approvals.layerCallback(() => Effect.succeed("deny")),
        plugins: [
          OtelPlugin.make(
            environment(server.url, { ...tracesOff, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" })
          )
        ]
      })
      yield* Effect.provide(Agent.run({ prompt: "go" }), layer)
      const [root] = server.trees()
      const tools = root === undefined ? [] : all(root).filter(({ name }) => name === "execute_tool terminal")
      assert.include(
        String(tools[0]?.at["gen_ai.tool.call.result"]),
        `<00-${tools[0]?.span.traceId}-${tools[0]?.span.spanId}-01>`
      )
      const approval = tools[1]?.children[0]
      assert.deepInclude(approval?.at, { "hermes.approval.choice": "deny", "gen_ai.tool.call.id": "c2" })
      assert.deepInclude(tools[1]?.at, { "hermes.tool.status": "blocked", "error.type": "approval_denied" })
    })
  )

  it.live("a call that a script makes is in the call of the script", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const directory = yield* temporaryDirectory
      writeFileSync(join(directory, "a.txt"), "content\n")
      const code = "console.log(read_file({ path: 'a.txt' }).content, process.env.TRACEPARENT)"
      const layer = Runtime.layer({
        provider: Scripted.layer([
          Scripted.complete({
            toolCalls: [{ id: "c1", name: "execute_code", params: { code, language: "javascript" } }]
          }),
          Scripted.complete("done")
        ]),
        tools: [ExecuteCode.toolset, FileTools.toolset],
        approvals: Approvals.layerCallback(() => Effect.succeed("once")),
        plugins: [
          OtelPlugin.make(
            environment(server.url, { ...tracesOff, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" })
          )
        ]
      })
      yield* Effect.provide(Agent.run({ prompt: "go", cwd: directory }), layer)
      const script = find(server.trees()[0], "execute_tool execute_code")
      assert.deepStrictEqual(script && names(script), [
        "execute_tool execute_code",
        "approval",
        "execute_tool read_file"
      ])
      assert.include(String(script?.at["gen_ai.tool.call.result"]), `${script?.span.traceId}-${script?.span.spanId}-01`)
    })
  )

  it.live("a call of an MCP server's tool says so, and hands the server its own span", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const content = { ...tracesOff, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" }
      const runtime = Runtime.layer({
        provider: Scripted.layer([
          Scripted.complete({ toolCalls: [{ id: "c1", name: "mcp__x__environment", params: {} }] }),
          Scripted.complete("done")
        ]),
        approvals: Approvals.layerCallback(() => Effect.succeed("once")),
        plugins: [OtelPlugin.make(environment(server.url, content))]
      })
      const layer = McpServers.layer({ x: fixtureOf("good") }).pipe(
        Layer.provideMerge(runtime),
        Layer.provide(McpSdkClient.layer),
        Layer.provide(NodeServices.layer)
      )
      yield* Effect.provide(Agent.run({ prompt: "go" }), layer)
      const tool = find(server.trees()[0], "execute_tool mcp__x__environment")
      assert.deepInclude(tool?.at, {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2024-11-05",
        "network.transport": "pipe",
        "hermes.mcp.server": "x",
        "hermes.mcp.tool": "environment"
      })
      assert.include(String(tool?.at["gen_ai.tool.call.result"]), `00-${tool?.span.traceId}-${tool?.span.spanId}-01`)
    })
  )

  it.live("the trace that the program was started in, and its sampling, hold", () =>
    Effect.gen(function* () {
      const [traceId, spanId] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"]
      const run = (flags: string, more: Variables = {}) =>
        traced(
          { TRACEPARENT: `00-${traceId}-${spanId}-${flags}`, ...tracesOff, ...more },
          [Scripted.complete("x")],
          Agent.run({ prompt: "a" })
        )
      const [root] = (yield* run("01")).trees()
      assert.deepStrictEqual([root?.span.traceId, root?.span.parentSpanId], [traceId, spanId])
      assert.deepStrictEqual((yield* run("00")).trees(), [])
      assert.strictEqual((yield* run("00", { OTEL_TRACES_SAMPLER: "always_on" })).trees().length, 1)
      assert.strictEqual((yield* run("zz")).trees()[0]?.span.parentSpanId, undefined, "nonsense leads nowhere")
      const stateful = (yield* run("01", { TRACESTATE: "rojo=00f067aa0ba902b7" })).spans()
      assert.deepStrictEqual(
        stateful.map(({ traceState }) => traceState),
        ["rojo=00f067aa0ba902b7", "rojo=00f067aa0ba902b7", "rojo=00f067aa0ba902b7"]
      )
      assert.isTrue(
        (yield* run("01", { TRACESTATE: "no state" })).spans().every(({ traceState }) => traceState === undefined)
      )
    })
  )

  it.live("many sessions at once, each with a child, make as many right trees", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const directory = yield* temporaryDirectory
      const count = scaleRuns(50)
      for (let n = 0; n < count; n++) writeFileSync(join(directory, `file${n}.txt`), `content ${n}\n`)
      const prompt = (n: number) =>
        `Use delegate_task exactly once. Ask the child subagent to use the read_file tool exactly once to read file${n}.txt. ` +
        `After the child returns, reply with exactly: session ${n} is done.`
      const layer = Runtime.layer({
        provider: Offline.layer(),
        tools: [FileTools.toolset, Delegate.toolset],
        plugins: [
          OtelPlugin.make(
            environment(server.url, { ...tracesOff, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" })
          )
        ]
      })
      yield* Effect.forEach(
        Array.from({ length: count }, (_, n) => n),
        (n) => Agent.run({ prompt: prompt(n), sessionId: `session-${n}`, cwd: directory }),
        { concurrency: "unbounded" }
      ).pipe(Effect.provide(layer))
      const found = server.trees()
      assert.strictEqual(found.length, count)
      assert.strictEqual(new Set(found.map(({ span }) => span.traceId)).size, count)
      for (const root of found) {
        const session = String(root.at["gen_ai.conversation.id"])
        const n = session.slice("session-".length)
        const chat = find(root, "step 1")?.children[0]?.name ?? ""
        assert.deepStrictEqual(names(root), [
          "invoke_agent hermes",
          [
            "step 1",
            chat,
            [
              "execute_tool delegate_task",
              ["invoke_agent hermes", ["step 1", chat, "execute_tool read_file"], ["step 2", chat]]
            ]
          ],
          ["step 2", chat]
        ])
        assert.isTrue(all(root).every(({ span }) => span.traceId === root.span.traceId))
        const read = find(root, "execute_tool read_file")
        assert.include(String(read?.at["gen_ai.tool.call.arguments"]), `file${n}.txt`)
        assert.include(String(read?.at["gen_ai.tool.call.result"]), `content ${n}`)
        assert.notStrictEqual(read?.at["gen_ai.conversation.id"], session)
      }
    })
  )

  it.live("an interrupted run is exported, with all that was open in it", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const { hanging, layer } = Runs.runtime(
        [Scripted.complete({ toolCalls: [{ id: "c", name: "hang" }] })],
        [],
        [],
        [OtelPlugin.make(environment(server.url, tracesOff))]
      )
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(Agent.run({ prompt: "wait" }))
        yield* Deferred.await(hanging)
        yield* Fiber.interrupt(fiber)
      }).pipe(Effect.provide(layer))
      const [root] = server.trees()
      assert.deepStrictEqual(root && names(root), [
        "invoke_agent hermes",
        ["step 1", "chat scripted", "execute_tool hang"]
      ])
      assert.deepInclude(root?.at, { "hermes.interrupted": true, "hermes.exit": "interrupted" })
      assert.strictEqual(find(root, "execute_tool hang")?.at["hermes.tool.status"], "cancelled")
    })
  )

  it.live("the standard protocol is protobuf; what is disabled or none exports nothing", () =>
    Effect.gen(function* () {
      const run = Agent.run({ prompt: "a" })
      const { requests } = yield* traced({ OTEL_EXPORTER_OTLP_PROTOCOL: "" }, [Scripted.complete("x")], run)
      assert.sameMembers([...new Set(requests.map(({ path }) => path))], ["/v1/traces", "/v1/metrics", "/v1/logs"])
      assert.isTrue(requests.every(({ headers }) => headers["content-type"] === "application/x-protobuf"))
      for (const off of [
        { OTEL_SDK_DISABLED: "true" },
        { OTEL_TRACES_EXPORTER: "none", OTEL_METRICS_EXPORTER: "none", OTEL_LOGS_EXPORTER: "none" }
      ]) {
        assert.deepStrictEqual((yield* traced(off, [Scripted.complete("x")], run)).requests, [])
      }
    })
  )
})

describe("a collector in trouble", () => {
  const told = (answer: (index: number) => Answer, variables: Variables = {}) =>
    withWarnings((warnings) =>
      Effect.map(traced(variables, [Scripted.complete("fine")], Agent.run({ prompt: "hi" }), answer), ({ value }) => ({
        text: value.text,
        warnings: [...warnings]
      }))
    )

  it.live("that refuses, or is down, or never answers is one warning, and the run is as it was", () =>
    Effect.gen(function* () {
      const refusing = yield* told(() => ({ status: 401 }))
      assert.deepStrictEqual([refusing.text, refusing.warnings.length], ["fine", 1])
      assert.match(
        refusing.warnings[0] ?? "",
        /^otel: telemetry is lost, http:\/\/127\.0\.0\.1:\d+ answered with status 401: check OTEL_EXPORTER_OTLP_ENDPOINT/u
      )
      const down = yield* told(() => ({}), { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" })
      assert.deepStrictEqual([down.text, down.warnings.length], ["fine", 1])
      assert.match(down.warnings[0] ?? "", /cannot be reached/u)
      const hanging = yield* told(() => "hang", { OTEL_EXPORTER_OTLP_TIMEOUT: "200" })
      assert.deepStrictEqual([hanging.text, hanging.warnings.length], ["fine", 1])
    })
  )

  it.live("variables that can not be read are one warning each", () =>
    Effect.gen(function* () {
      const { text, warnings } = yield* told(() => ({}), {
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "nonsense",
        OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json",
        OTEL_METRICS_EXPORTER: "prometheus",
        OTEL_TRACES_SAMPLER: "jaeger_remote",
        OTEL_TRACES_SAMPLER_ARG: "2"
      })
      assert.strictEqual(text, "fine")
      assert.deepStrictEqual(
        warnings.map((line) => /^otel: (\w+) must be/u.exec(line)?.[1]),
        [
          "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
          "OTEL_METRICS_EXPORTER",
          "OTEL_EXPORTER_OTLP_PROTOCOL",
          "OTEL_TRACES_SAMPLER",
          "OTEL_TRACES_SAMPLER_ARG"
        ]
      )
    })
  )
})

describe("Telemetry in an application", () => {
  it.live("spans go to the application's tracer, under its own span, and what happens in a call is in its span", () =>
    Effect.gen(function* () {
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const registry = new Map()
      const { plugins } = RunTelemetry.make({ agentName: "helper" })
      const { layer } = Runs.runtime(Runs.parallel, [], [], plugins)
      yield* Agent.run({ prompt: "both" }).pipe(
        Effect.withSpan("my request"),
        Effect.provide(layer),
        Effect.withTracer(tracer),
        Effect.provideService(Metric.MetricRegistry, registry)
      )
      const mine = spans.find(({ name }) => name === "my request")
      const run = spans.find(({ name }) => name === "invoke_agent helper")
      assert.strictEqual(run && Option.getOrUndefined(run.parent)?.spanId, mine?.spanId)
      assert.isTrue(spans.every(({ status }) => status._tag === "Ended"))
      assert.isTrue([...registry.keys()].some((key) => String(key).includes("gen_ai.client.token.usage")))
      // What the tool of the application traces is in the span of its call.
      const tool = spans.find(({ name }) => name === "execute_tool echo")
      const inner = spans.find(({ name }) => name === "in the tool")
      const above: Array<string> = []
      let at: Tracer.AnySpan | undefined = inner
      while (at !== undefined) {
        above.push(at.spanId)
        at = at._tag === "Span" ? Option.getOrUndefined(at.parent) : undefined
      }
      assert.include(above, tool?.spanId)
      assert.isFalse(
        tool?.attributes.has("parameters"),
        "Effect's toolkits write arguments on the span that they are in"
      )
    })
  )

  it.live(
    "children, calls of scripts, approvals and side tasks are where they are for an exporter, and every span ends once",
    () =>
      Effect.gen(function* () {
        const server = yield* collector()
        const directory = yield* temporaryDirectory
        writeFileSync(join(directory, "a.txt"), "content\n")
        const spans: Array<Tracer.Span> = []
        const ended: Array<string> = []
        const tracer = Tracer.make({
          span: (options) => {
            const span = new Tracer.NativeSpan(options)
            const { end } = span
            span.end = (...given) => {
              ended.push(span.spanId)
              end.apply(span, given)
            }
            spans.push(span)
            return span
          }
        })
        const call = (id: string, name: string, params: object) => ({ id, name, params })
        const run = (turns: ReadonlyArray<Scripted.Turn>, plugin: Plugin<RunRecord>, database: string) =>
          Effect.gen(function* () {
            const { sessionId, turnId } = yield* Agent.run({ prompt: "go", cwd: directory, sessionId: "s" })
            const messages = [Prompt.userMessage({ content: [Prompt.textPart({ text: "Title this" })] })]
            yield* Auxiliary.Auxiliary.use((auxiliary) =>
              auxiliary.call("title", { messages, context: { sessionId, turnId, taskId: Ids.TaskId.make(sessionId) } })
            )
          }).pipe(
            Effect.provide(
              Layer.fresh(
                Runtime.layer({
                  provider: Scripted.layer([...turns]),
                  tools: [ExecuteCode.toolset, FileTools.toolset, Delegate.toolset],
                  approvals: Approvals.layerCallback(() => Effect.succeed("once")),
                  store: SessionStore.layerSqlite({ path: join(directory, database) }),
                  plugins: [plugin]
                })
              )
            )
          )
        const turns: ReadonlyArray<ReadonlyArray<Scripted.Turn>> = [
          [
            Scripted.complete({
              toolCalls: [call("c1", "delegate_task", { goal: "one" }), call("c2", "read_file", { path: "a.txt" })]
            }),
            Scripted.complete({ toolCalls: [call("c1", "read_file", { path: "a.txt" })] }),
            Scripted.complete("found"),
            Scripted.complete({
              toolCalls: [call("c3", "execute_code", { code: "read_file({ path: 'a.txt' })", language: "javascript" })]
            }),
            Scripted.complete("done"),
            Scripted.complete("A title")
          ],
          [
            Scripted.complete({ toolCalls: [call("c1", "delegate_task", { goal: "two" })] }),
            Scripted.complete("found"),
            Scripted.complete("done"),
            Scripted.complete("A title")
          ]
        ]
        for (const answers of turns)
          yield* run(answers, RunTelemetry.makePlugin({ captureContent: true }), "traced.db").pipe(
            Effect.withTracer(tracer)
          )
        for (const answers of turns)
          yield* run(answers, OtelPlugin.make(environment(server.url, tracesOff)), "exported.db")
        const own = spans.filter(({ name }) => /^(?:invoke_agent|step|chat|execute_tool|approval)/u.test(name))
        assert.strictEqual(new Set(ended).size, ended.length)
        assert.isTrue(own.every(({ status }) => status._tag === "Ended"))
        const below = (parent: string | undefined): ReadonlyArray<unknown> =>
          own
            .filter((span) => {
              const above = Option.getOrUndefined(span.parent)?.spanId
              return parent === undefined ? !own.some(({ spanId }) => spanId === above) : above === parent
            })
            .map(({ name, spanId }) => {
              const inner = below(spanId)
              return inner.length === 0 ? name : [name, ...inner]
            })
        const sorted = (tree: unknown): unknown =>
          Array.isArray(tree)
            ? [
                tree[0],
                ...tree
                  .slice(1)
                  .map(sorted)
                  .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
              ]
            : tree
        assert.deepStrictEqual(below(undefined).map(sorted), server.trees().map(names).map(sorted))
        const child = own.find(
          ({ name, parent }) => name.startsWith("invoke_agent") && Option.getOrUndefined(parent) !== undefined
        )
        assert.strictEqual(child?.attributes.get("hermes.child.status"), "completed")
      })
  )

  it.live(
    "beside observability/otel it is one warning and one set of spans, whichever comes first; a second collector gets all",
    () =>
      Effect.gen(function* () {
        const run = Effect.fnUntraced(function* (first: "exporter" | "tracer", targets: 1 | 2 = 1) {
          const servers = [yield* collector(), yield* collector()]
          const spans: Array<Tracer.NativeSpan> = []
          const tracer = Tracer.make({
            span: (options) => {
              const span = new Tracer.NativeSpan(options)
              spans.push(span)
              return span
            }
          })
          const exporters = servers.slice(0, targets).map(({ url }) => OtelPlugin.make(environment(url, tracesOff)))
          const own = targets === 1 ? [RunTelemetry.makePlugin()] : []
          const { layer } = Runs.runtime(
            Runs.parallel,
            [],
            [],
            first === "tracer" ? [...own, ...exporters] : [...exporters, ...own]
          )
          const warnings = yield* withWarnings((warnings) =>
            Effect.as(Effect.withTracer(Effect.provide(Agent.run({ prompt: "both" }), layer), tracer), warnings)
          )
          const made = spans.filter(({ name }) => /^(?:invoke_agent|step|chat|execute_tool)/u.test(name))
          return { warnings: [...warnings], made: made.length, exported: servers.map(({ spans }) => spans().length) }
        })
        const warning = [
          "Two plugins would export the same spans; they are exported once: use Telemetry or enable observability/otel, not both."
        ]
        assert.deepStrictEqual(yield* run("tracer"), { warnings: warning, made: 7, exported: [0, 0] })
        assert.deepStrictEqual(yield* run("exporter"), { warnings: warning, made: 0, exported: [7, 0] })
        assert.deepInclude(yield* run("exporter", 2), { warnings: [], exported: [7, 7] })
      })
  )

  it.live("without a tracer nothing is kept, and nothing is handed on", () =>
    Effect.gen(function* () {
      const layer = Runtime.layer({
        provider: Scripted.layer([
          Scripted.complete({
            toolCalls: [{ id: "c", name: "terminal", params: { command: 'echo "<$TRACEPARENT>"' } }]
          }),
          Scripted.complete("x")
        ]),
        tools: [TerminalTools.toolset],
        ...RunTelemetry.make()
      })
      const events: Array<unknown> = []
      yield* Effect.provide(
        Agent.run({ prompt: "a", onEvent: (more) => Effect.sync(() => void events.push(...more)) }),
        Layer.fresh(layer)
      )
      assert.include(JSON.stringify(events), "<>")
    })
  )
})

describe("the program with observability/otel", () => {
  it.live("is enabled by its key, and exports what the variables say", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const { hermes, keep } = yield* machine
      keep(".env", `OTEL_EXPORTER_OTLP_ENDPOINT=${server.url}\n`)
      const enabled = yield* hermes(["plugins", "enable", "observability/otel"])
      assert.strictEqual(enabled.code, 0, enabled.stderr)
      const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
      const ended = yield* hermes(["chat", "-Q", "-q", "Reply exactly ok"], {
        env: { OTEL_EXPORTER_OTLP_PROTOCOL: "http/json", TRACEPARENT: traceparent }
      })
      assert.deepStrictEqual([ended.code, ended.stdout], [0, "ok\n"], ended.stderr)
      const [root] = server.trees()
      assert.deepInclude(root?.at, { "hermes.platform": "cli", "hermes.completed": true })
      assert.strictEqual(root?.span.parentSpanId, "b7ad6b7169203331")
    })
  )
})
