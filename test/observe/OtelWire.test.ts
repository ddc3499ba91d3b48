// All that a collector gets is OTLP by its public definition, under names of the semantic conventions or under our own.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import { createServer } from "node:http"
import * as Agent from "../../src/agent/Agent.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import * as Conventions from "../../src/observe/otel/Conventions.ts"
import * as OtelPlugin from "../../src/observe/OtelPlugin.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Auxiliary from "../../src/models/routing/Auxiliary.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as ExecuteCode from "../../src/tools/builtin/ExecuteCode.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as McpServers from "../../src/tools/mcp/McpServers.ts"
import * as McpSdkClient from "../../src/tools/mcp/McpSdkClient.ts"
import { everythingHttp, section } from "../tools/mcp/support/servers.ts"
import * as OtlpForeign from "./support/otlpForeign.ts"
import * as Otlp from "./support/otlpWire.ts"

interface KeyValue {
  readonly key: string
  readonly value: object
}
interface Exemplar {
  readonly traceId: string
  readonly spanId: string
  readonly asDouble: number
}
interface Point {
  readonly attributes?: ReadonlyArray<KeyValue>
  readonly exemplars?: ReadonlyArray<Exemplar>
  readonly explicitBounds?: ReadonlyArray<number>
}
interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: ReadonlyArray<KeyValue>
  readonly events?: ReadonlyArray<{ readonly attributes?: ReadonlyArray<KeyValue> }>
}
interface Metric {
  readonly name: string
  readonly unit: string
  readonly histogram?: { readonly dataPoints: ReadonlyArray<Point> }
  readonly sum?: { readonly dataPoints: ReadonlyArray<Point> }
}
interface Resource {
  readonly resource: { readonly attributes: ReadonlyArray<KeyValue> }
}
interface Bodies {
  readonly traces: ReadonlyArray<{
    readonly resourceSpans: ReadonlyArray<
      Resource & {
        readonly schemaUrl: string
        readonly scopeSpans: ReadonlyArray<{ readonly spans: ReadonlyArray<Span> }>
      }
    >
  }>
  readonly metrics: ReadonlyArray<{
    readonly resourceMetrics: ReadonlyArray<
      Resource & { readonly scopeMetrics: ReadonlyArray<{ readonly metrics: ReadonlyArray<Metric> }> }
    >
  }>
  readonly logs: ReadonlyArray<{
    readonly resourceLogs: ReadonlyArray<
      Resource & {
        readonly scopeLogs: ReadonlyArray<{
          readonly logRecords: ReadonlyArray<{ readonly attributes?: ReadonlyArray<KeyValue> }>
        }>
      }
    >
  }>
}

const kinds = { traces: "TracesData", metrics: "MetricsData", logs: "LogsData" } as const

/** Requests of one runtime, decoded and without a complaint. */
const sent = <A, E, R>(variables: Readonly<Record<string, string>>, run: (url: string) => Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const all: Record<keyof typeof kinds, Array<unknown>> = { traces: [], metrics: [], logs: [] }
    /** Each protobuf body as this project's tests read it, and as protobuf's own implementation does. */
    const foreign: Array<readonly [ours: unknown, theirs: unknown]> = []
    const url = yield* Effect.map(
      Effect.acquireRelease(
        Effect.callback<ReturnType<typeof createServer>>((resume) => {
          const server = createServer((request, response) => {
            const chunks: Array<Buffer> = []
            request.on("data", (chunk: Buffer) => chunks.push(chunk))
            request.on("end", () => {
              const kind = (request.url ?? "").slice("/v1/".length)
              const body = Buffer.concat(chunks)
              if (kind === "traces" || kind === "metrics" || kind === "logs") {
                const isJson = variables["OTEL_EXPORTER_OTLP_PROTOCOL"] === "http/json"
                all[kind].push(isJson ? JSON.parse(body.toString("utf8")) : Otlp.decode(body, kinds[kind]))
                if (!isJson) {
                  const both = [Otlp.decode(body, kinds[kind]), OtlpForeign.decode(body, kinds[kind])] as const
                  foreign.push([Otlp.canonical(both[0], kinds[kind]), Otlp.canonical(both[1], kinds[kind])])
                }
              }
              response.writeHead(200, { "content-type": "application/json" }).end("{}")
            })
          })
          server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) =>
          Effect.callback<void>((resume) => {
            server.closeAllConnections()
            server.close(() => resume(Effect.void))
          })
      ),
      (server) => {
        const address = server.address()
        return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
      }
    )
    yield* run(url)
    for (const [ours, theirs] of foreign) assert.deepStrictEqual(theirs, ours)
    for (const kind of ["traces", "metrics", "logs"] as const) {
      assert.deepStrictEqual(
        all[kind].flatMap((body) => Otlp.complaints(body, kinds[kind])),
        []
      )
    }
    // They are what the definition says.
    return all as unknown as Bodies
  })

const call = (id: string, name: string, params: object) => ({ id, name, params })

/**
 * A run with everything that spans are made of: parallel and failed calls, an approval, a script, a child, a side task,
 * a failure.
 */
const everything = (variables: Readonly<Record<string, string>>) =>
  sent(variables, (url) =>
    Effect.gen(function* () {
      const { sessionId, turnId } = yield* Agent.run({ prompt: "go", cwd: import.meta.dirname, streaming: true })
      const messages = [Prompt.userMessage({ content: [Prompt.textPart({ text: "Title this" })] })]
      yield* Auxiliary.Auxiliary.use((auxiliary) =>
        auxiliary.call("title", { messages, context: { sessionId, turnId, taskId: Ids.TaskId.make(sessionId) } })
      )
      yield* Effect.exit(Agent.run({ prompt: "fail" }))
    }).pipe(
      Effect.provide(
        Runtime.layer({
          provider: Scripted.layer([
            Scripted.complete({
              text: "several",
              reasoning: "hm",
              usage: { input: 520, output: 80, cacheRead: 200, reasoning: 4 },
              toolCalls: [
                call("c1", "read_file", { path: "OtelWire.test.ts" }),
                call("c2", "read_file", { path: "nowhere" }),
                call("c3", "terminal", { command: "rm -rf ./not-there-at-all" })
              ]
            }),
            Scripted.complete({ toolCalls: [call("c4", "delegate_task", { goal: "one" })] }),
            Scripted.complete("found"),
            Scripted.complete({
              toolCalls: [
                call("c5", "execute_code", { code: "read_file({ path: 'OtelWire.test.ts' })", language: "javascript" })
              ]
            }),
            Scripted.complete("done"),
            Scripted.complete("A title"),
            Scripted.fail(new AiError.InvalidRequestError({ description: "no such model" }))
          ]),
          tools: [FileTools.toolset, TerminalTools.toolset, Delegate.toolset, ExecuteCode.toolset],
          approvals: Approvals.layerCallback(() => Effect.succeed("once")),
          plugins: [OtelPlugin.make({ OTEL_EXPORTER_OTLP_ENDPOINT: url, ...variables })]
        })
      )
    )
  )

/** A run that calls a tool and reads a resource of the published server over HTTP. */
const mcp = (variables: Readonly<Record<string, string>>) =>
  sent(variables, (url) =>
    Effect.gen(function* () {
      const server = yield* everythingHttp("streamableHttp")
      const runtime = Runtime.layer({
        provider: Scripted.layer([
          Scripted.complete({
            toolCalls: [
              call("c1", "mcp__Every_1__echo", { message: "hi" }),
              call("c2", "mcp__Every_1__list_resources", {})
            ]
          }),
          Scripted.complete("done")
        ]),
        approvals: Approvals.layerCallback(() => Effect.succeed("once")),
        plugins: [OtelPlugin.make({ OTEL_EXPORTER_OTLP_ENDPOINT: url, ...variables })]
      })
      const layer = McpServers.layer({ "Every 1": section({ url: server }) }).pipe(
        Layer.provideMerge(runtime),
        Layer.provide(McpSdkClient.layer),
        Layer.provide(NodeServices.layer)
      )
      yield* Effect.provide(Agent.run({ prompt: "go" }), layer)
    })
  )

const own = /^hermes\./u

describe("the checker", () => {
  it("finds what is not of the protocol or of no convention", () => {
    const span = {
      traceId: "0".repeat(32),
      spanId: "b7ad6b7169203331",
      name: 1,
      kind: 9,
      startTimeUnixNano: "1",
      flagz: 1
    }
    assert.deepStrictEqual(
      Otlp.complaints({ resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] }, "TracesData").map((line) =>
        line.replace(/^.*spans\./u, "")
      ),
      ["traceId: no id", "name: no string", "kind: no SpanKind", "flagz: unknown field"]
    )
    assert.throws(() => Otlp.decode(Buffer.from([0x7a, 0x00]), "TracesData"), /unknown field 15/u)
    const attributes = [
      { key: "gen_ai.usage.input_tokens", value: { stringValue: "1" } },
      { key: "gen_ai.system", value: { stringValue: "x" } }
    ]
    assert.deepStrictEqual(Otlp.strangers(attributes, own), [
      "gen_ai.usage.input_tokens is a stringValue",
      "gen_ai.system is in no convention"
    ])
  })
})

describe("requests to MCP servers", () => {
  it.live(
    "are told in the spans and metrics of their calls by the names of the conventions, whatever a tool is called for the model",
    () =>
      Effect.gen(function* () {
        const { metrics, traces } = yield* mcp({ OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" })
        const spans = traces.flatMap(({ resourceSpans }) =>
          resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
        )
        const facts = (attributes: ReadonlyArray<KeyValue>) =>
          Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0] as unknown]))
        const at = (name: string) => facts(spans.find((span) => span.name === name)?.attributes ?? [])
        const echo = at("execute_tool mcp__Every_1__echo")
        assert.deepInclude(echo, {
          "mcp.method.name": "tools/call",
          "hermes.mcp.server": "Every 1",
          "hermes.mcp.tool": "echo",
          "network.transport": "tcp",
          "server.address": "127.0.0.1"
        })
        assert.match(String(echo["mcp.session.id"]), /^[\w-]{8,}$/u)
        assert.match(String(echo["mcp.protocol.version"]), /^\d{4}-\d\d-\d\d$/u)
        assert.strictEqual(at("execute_tool mcp__Every_1__list_resources")["mcp.method.name"], "resources/list")
        for (const { attributes } of spans) assert.deepStrictEqual(Otlp.strangers(attributes, own), [])
        const points = metrics.flatMap(({ resourceMetrics }) =>
          resourceMetrics.flatMap(({ scopeMetrics }) =>
            scopeMetrics.flatMap(({ metrics }) =>
              metrics
                .filter(({ name }) => name === "mcp.client.operation.duration")
                .flatMap(({ histogram }) => histogram?.dataPoints ?? [])
            )
          )
        )
        const labels = points.map(({ attributes = [] }) => facts(attributes))
        assert.sameMembers(
          labels.map((one) => one["mcp.method.name"]),
          ["tools/call", "resources/list"]
        )
        const allowed = Otlp.conventions.metrics["mcp.client.operation.duration"]?.attributes ?? []
        for (const one of labels)
          assert.deepStrictEqual(
            Object.keys(one).filter((key) => !allowed.includes(key)),
            []
          )
      })
  )
})

for (const encoding of ["http/protobuf", "http/json"]) {
  describe(`OTLP over ${encoding}`, () => {
    it.live("has messages of the protocol, and names of the conventions or our own, sorted", () =>
      Effect.gen(function* () {
        const { logs, metrics, traces } = yield* everything({
          OTEL_EXPORTER_OTLP_PROTOCOL: encoding,
          OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true",
          TRACEPARENT: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          TRACESTATE: "rojo=00f067aa0ba902b7"
        })
        const resources = traces.flatMap(({ resourceSpans }) => resourceSpans)
        const spans = resources.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
        assert.isAbove(resources.length, 0)
        assert.isTrue(resources.every(({ schemaUrl }) => schemaUrl === Conventions.standard.schemaUrl))
        assert.match(Conventions.standard.schemaUrl, /\/1\.41\.1$/u, "the version that semconv.json is of")
        for (const { attributes, name } of spans) {
          const keys = attributes.map(({ key }) => key)
          assert.deepStrictEqual(keys, keys.toSorted(), name)
          assert.deepStrictEqual(Otlp.strangers(attributes, own), [], name)
          assert.include(keys, "gen_ai.provider.name", name)
        }
        const names = spans.map(({ name }) => name.split(" ")[0])
        assert.deepStrictEqual([...new Set(names)].toSorted(), [
          "approval",
          "chat",
          "execute_tool",
          "invoke_agent",
          "step"
        ])
        assert.strictEqual(
          names.filter((name) => name === "invoke_agent").length,
          3,
          "two runs and a child; a title is none"
        )
        assert.deepStrictEqual(
          spans.flatMap(({ events = [] }) => events.flatMap(({ attributes = [] }) => Otlp.strangers(attributes, own))),
          []
        )
        for (const { resource } of [
          ...resources,
          ...metrics.flatMap(({ resourceMetrics }) => resourceMetrics),
          ...logs.flatMap(({ resourceLogs }) => resourceLogs)
        ]) {
          assert.deepStrictEqual(Otlp.strangers(resource.attributes, own), [])
          assert.includeMembers(
            resource.attributes.map(({ key }) => key),
            ["service.name", "service.version"]
          )
        }
        const records = logs.flatMap(({ resourceLogs }) =>
          resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords))
        )
        assert.isAbove(records.length, 0)
        for (const { attributes = [] } of records) assert.deepStrictEqual(Otlp.strangers(attributes, own), [])
      })
    )

    it.live("has the names before 1.37 beside the current ones where they are asked for, and nowhere else", () =>
      Effect.gen(function* () {
        const asked = { OTEL_EXPORTER_OTLP_PROTOCOL: encoding, OTEL_SEMCONV_STABILITY_OPT_IN: "http/dup,gen_ai/dup" }
        const { metrics, traces } = yield* everything(asked)
        const spans = traces.flatMap(({ resourceSpans }) =>
          resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
        )
        for (const { attributes, name } of spans) {
          const keys = attributes.map(({ key }) => key)
          assert.deepStrictEqual(keys, keys.toSorted(), name)
          const values = new Map(attributes.map(({ key, value }) => [key, value]))
          assert.isDefined(values.get("gen_ai.system"), name)
          assert.deepStrictEqual(values.get("gen_ai.system"), values.get("gen_ai.provider.name"), name)
          assert.deepStrictEqual(
            Otlp.strangers(
              attributes.filter(({ key }) => key !== "gen_ai.system"),
              own
            ),
            [],
            name
          )
        }
        assert.notInclude(JSON.stringify(metrics), "gen_ai.system")
      })
    )

    for (const value of Object.keys(Otlp.published)) {
      it.live(`has under ${value} the names of that version or our own, with its schema`, () =>
        Effect.gen(function* () {
          const version = Otlp.published[value] ?? Otlp.conventions
          const { logs, metrics, traces } = yield* everything({
            OTEL_EXPORTER_OTLP_PROTOCOL: encoding,
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true",
            OTEL_SEMCONV_STABILITY_OPT_IN: `http/dup,${value}`
          })
          const { schemaUrl } = Conventions.selectTable([value])
          const spans = traces.flatMap(({ resourceSpans }) =>
            resourceSpans.flatMap((one) => {
              assert.strictEqual(one.schemaUrl, schemaUrl)
              return one.scopeSpans.flatMap((scope) => scope.spans)
            })
          )
          assert.isAbove(spans.length, 0)
          for (const { attributes, name } of spans) {
            const keys = attributes.map(({ key }) => key)
            assert.deepStrictEqual(keys, keys.toSorted(), name)
            assert.deepStrictEqual(Otlp.strangers(attributes, own, version), [], name)
            if (name.startsWith("invoke_agent"))
              assert.deepStrictEqual(
                keys.filter((key) => version.removedFromAgents?.includes(key) === true),
                [],
                name
              )
          }
          const all = metrics.flatMap(({ resourceMetrics }) =>
            resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics))
          )
          assert.isAbove(all.length, 0)
          for (const { histogram, name, sum, unit } of all) {
            const convention = version.metrics[name]
            if (convention === undefined) assert.match(name, own)
            else assert.strictEqual(unit, convention.unit)
            for (const { attributes = [] } of (histogram ?? sum)?.dataPoints ?? [])
              assert.deepStrictEqual(
                attributes
                  .map(({ key }) => key)
                  .filter((key) => !own.test(key) && convention?.attributes.includes(key) === false),
                [],
                name
              )
          }
          const records = logs.flatMap(({ resourceLogs }) =>
            resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords))
          )
          for (const { attributes = [] } of records)
            assert.deepStrictEqual(Otlp.strangers(attributes, own, version), [])
          // A sum over all spans counts each token once.
          const count = (select: (name: string) => boolean) =>
            spans
              .filter(({ name }) => select(name))
              .flatMap(({ attributes }) => attributes.filter(({ key }) => key === "gen_ai.usage.output_tokens")).length
          assert.isAbove(
            count((name) => name.startsWith("chat")),
            0
          )
          assert.strictEqual(
            count((name) => !name.startsWith("chat")),
            0
          )
        })
      )
    }

    it.live("has metrics with the units and labels of the conventions, and exemplars that lead to their spans", () =>
      Effect.gen(function* () {
        const { metrics, traces } = yield* everything({ OTEL_EXPORTER_OTLP_PROTOCOL: encoding })
        const spans = new Map(
          traces.flatMap(({ resourceSpans }) =>
            resourceSpans.flatMap(({ scopeSpans }) =>
              scopeSpans.flatMap(({ spans }) =>
                spans.map((span) => [`${span.traceId} ${span.spanId}`, span.name] as const)
              )
            )
          )
        )
        const all = metrics.flatMap(({ resourceMetrics }) =>
          resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
        )
        const begin: Readonly<Record<string, string>> = {
          "gen_ai.client.token.usage": "chat",
          "gen_ai.client.operation.duration": "chat",
          "gen_ai.client.operation.time_to_first_chunk": "chat",
          "gen_ai.execute_tool.duration": "execute_tool",
          "gen_ai.invoke_agent.duration": "invoke_agent"
        }
        assert.includeMembers(
          all.map(({ name }) => name),
          [...Object.keys(begin), "hermes.errors"]
        )
        for (const { histogram, name, sum, unit } of all) {
          const convention = Otlp.conventions.metrics[name]
          const points = (histogram ?? sum)?.dataPoints ?? []
          for (const { attributes = [], exemplars = [] } of points) {
            assert.isAbove(exemplars.length, 0, name)
            for (const { spanId, traceId } of exemplars)
              assert.isTrue(spans.get(`${traceId} ${spanId}`)?.startsWith(begin[name] ?? ""), name)
            assert.deepStrictEqual(Otlp.strangers(attributes, own), [], name)
            if (convention !== undefined)
              assert.deepStrictEqual(
                attributes.map(({ key }) => key).filter((key) => !convention.attributes.includes(key)),
                [],
                name
              )
          }
          if (convention === undefined) assert.match(name, own)
          else assert.strictEqual(unit, convention.unit)
          const [{ exemplars = [], explicitBounds = [] } = {}] = points
          const buckets = exemplars.map(({ asDouble }) => explicitBounds.findIndex((bound) => asDouble <= bound))
          assert.strictEqual(new Set(buckets).size, buckets.length, "one of each bucket")
        }
        for (const [filter, variables] of [
          ["always_off", {}],
          ["trace_based", { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" }]
        ] as const) {
          const without = yield* everything({
            OTEL_EXPORTER_OTLP_PROTOCOL: encoding,
            OTEL_METRICS_EXEMPLAR_FILTER: filter,
            ...variables
          })
          assert.include(JSON.stringify(without.metrics), "gen_ai.execute_tool.duration")
          assert.notInclude(JSON.stringify(without.metrics), "exemplars", filter)
        }
      })
    )
  })
}
