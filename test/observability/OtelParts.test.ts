// The parts of the OpenTelemetry exporter one by one.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Tracer from "effect/Tracer"
import type { Fields } from "../../src/observability/atof/Facts.ts"
import * as Attributes from "../../src/observability/otel/Attributes.ts"
import * as Content from "../../src/observability/otel/Content.ts"
import * as OtelSettings from "../../src/observability/otel/OtelSettings.ts"
import * as Sampler from "../../src/observability/otel/Sampler.ts"
import * as Spans from "../../src/observability/otel/Spans.ts"

describe("Sampler", () => {
  const span = (sampled: boolean, traceId = "0af7651916cd43dd8448eb211c80319c") => Tracer.externalSpan({ traceId, spanId: "b7ad6b7169203331", sampled })

  it("decides by name, by the span above, and by the trace alike for all", () => {
    const decide = (name: Sampler.Name, parent?: Tracer.AnySpan, chance = 0.5) => Sampler.of(name, 0.25)(parent, chance)
    assert.deepStrictEqual([decide("always_on", span(false)), decide("always_off", span(true))], [true, false])
    assert.deepStrictEqual([decide("parentbased_always_on"), decide("parentbased_always_on", span(false))], [true, false])
    assert.deepStrictEqual([decide("parentbased_always_off"), decide("parentbased_always_off", span(true))], [false, true])
    assert.deepStrictEqual([decide("traceidratio", undefined, 0.2), decide("traceidratio", undefined, 0.3)], [true, false])
    assert.deepStrictEqual([decide("parentbased_traceidratio", undefined, 0.2), decide("parentbased_traceidratio", span(true), 0.9)], [true, true])
    const low = span(true, `${"f".repeat(18)}${"1".padEnd(14, "0")}`)
    const high = span(true, `${"0".repeat(18)}${"f".repeat(14)}`)
    assert.deepStrictEqual([decide("traceidratio", low, 0.9), decide("traceidratio", high, 0)], [true, false], "by its last 56 bits")
  })
})

describe("OtelSettings", () => {
  const read = (variables: Readonly<Record<string, string>>) => OtelSettings.fromVariables(variables)

  it("stands in for what is absent as the specification says", () => {
    const { settings, warnings } = read({})
    assert.deepStrictEqual(warnings, [])
    assert.deepStrictEqual(settings?.exports, {
      TRACES: { encoding: "protobuf", timeoutMillis: 10_000 },
      METRICS: { encoding: "protobuf", timeoutMillis: 10_000 },
      LOGS: { encoding: "protobuf", timeoutMillis: 10_000 }
    })
    assert.deepInclude(settings?.variables, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318", OTEL_SERVICE_NAME: "hermes" })
    assert.deepInclude(settings, { captureContent: false, parent: undefined })
    assert.notProperty(read({ OTEL_RESOURCE_ATTRIBUTES: "a=b, service.name=mine" }).settings?.variables, "OTEL_SERVICE_NAME")
    assert.deepInclude(read({ OTEL_SERVICE_NAME: "mine" }).settings?.variables, { OTEL_SERVICE_NAME: "mine" })
  })

  it("a signal's own variable counts before the general one", () => {
    const { settings } = read({
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json", OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: "http/protobuf",
      OTEL_EXPORTER_OTLP_TIMEOUT: "500", OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "100", OTEL_METRICS_EXPORTER: " None "
    })
    assert.deepStrictEqual(settings?.exports, { TRACES: { encoding: "json", timeoutMillis: 100 }, LOGS: { encoding: "protobuf", timeoutMillis: 500 } })
  })

  it("only true disables, and only what says so captures", () => {
    assert.isUndefined(read({ OTEL_SDK_DISABLED: " TRUE " }).settings)
    assert.isDefined(read({ OTEL_SDK_DISABLED: "1" }).settings)
    const captures = (value: string) => read({ OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: value }).settings?.captureContent
    assert.deepStrictEqual(["true", "SPAN_ONLY", "span_and_event", "event_only", "false", "yes"].map(captures), [true, true, true, false, false, false])
  })

  it("what can not be read is one warning that names it, and no value", () => {
    const { settings, warnings } = read({ OTEL_EXPORTER_OTLP_ENDPOINT: "secret://x", OTEL_EXPORTER_OTLP_TIMEOUT: "soon", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" })
    assert.deepStrictEqual(warnings.map((line) => line.split(" ")[0]).toSorted(), [
      "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TIMEOUT"
    ])
    assert.notInclude(warnings.join(), "secret")
    assert.strictEqual(settings?.variables["OTEL_EXPORTER_OTLP_ENDPOINT"], "http://localhost:4318")
  })
})

describe("Content", () => {
  const asked = (body: Fields) => Content.asked({ request: { method: "POST", body: body as never } })
  const hello = { role: "user", parts: [{ type: "text", content: "hello" }] }
  const called = { role: "assistant", parts: [{ type: "tool_call", id: "c", name: "echo", arguments: { x: 1 } }] }
  const given = { type: "tool_call_response", id: "c", response: "1" }
  const system = [{ type: "text", content: "be kind" }]

  it("the requests of all four protocols say the same", () => {
    assert.deepStrictEqual(
      asked({
        messages: [
          { role: "system", content: "be kind" }, { role: "user", content: "hello" },
          { role: "assistant", content: null, tool_calls: [{ id: "c", type: "function", function: { name: "echo", arguments: "{\"x\":1}" } }] },
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
          { type: "function_call", call_id: "c", name: "echo", arguments: "{\"x\":1}" },
          { type: "function_call_output", call_id: "c", output: "1" }
        ]
      }),
      { system, messages: [hello, called, { role: "tool", parts: [given] }] }
    )
    assert.deepStrictEqual(
      asked({ system: [{ text: "be kind" }], messages: [
        { role: "user", content: [{ text: "hello" }] },
        { role: "assistant", content: [{ toolUse: { toolUseId: "c", name: "echo", input: { x: 1 } } }] },
        { role: "user", content: [{ toolResult: { toolUseId: "c", content: [{ text: "1" }] } }] }
      ] }),
      { system, messages: [hello, called, { role: "user", parts: [{ ...given, response: [{ text: "1" }] }] }] }
    )
  })

  it("what nobody knows is kept as it is, and arguments that are no JSON too", () => {
    const image = { type: "image_url", image_url: { url: "data:…" } }
    assert.deepStrictEqual(asked({ messages: [{ role: "user", content: [image] }, "text", 7] }).messages, [
      { role: "user", parts: [image] }, { role: "user", parts: [{ type: "text", content: "text" }] }, { role: "user", parts: [{ type: "text", content: 7 }] }
    ])
    assert.deepStrictEqual(asked({}), { system: [], messages: [] })
    const answer = Content.answer({ finish_reason: "tool_calls", response: { assistant_message: { reasoning_content: "hm", content: "hi", tool_calls: [{ id: "c", function: { name: "echo", arguments: "{broken" } }] } } })
    assert.deepStrictEqual(answer, {
      role: "assistant", finish_reason: "tool_calls",
      parts: [{ type: "reasoning", content: "hm" }, { type: "text", content: "hi" }, { type: "tool_call", id: "c", name: "echo", arguments: "{broken" }]
    })
  })
})

describe("Attributes and endings", () => {
  const options = { agentName: "a", captureContent: false }

  it("providers and servers have the names of the conventions", () => {
    const at = (provider: string, base_url = "") => Attributes.opening("model", { provider, base_url, model: "m" }, options)
    assert.deepStrictEqual(["bedrock", "openai-codex", "gemini", "anthropic", "constructor"].map((name) => at(name)["gen_ai.provider.name"]), [
      "aws.bedrock", "openai", "gcp.gemini", "anthropic", "constructor"
    ])
    assert.deepInclude(at("x", "https://api.example/v1"), { "server.address": "api.example", "server.port": 443 })
    assert.deepInclude(at("x", "http://127.0.0.1:8080/v1"), { "server.address": "127.0.0.1", "server.port": 8080 })
    assert.notProperty(at("x"), "server.address")
  })

  it("each event says whether it went well, wrong, or was cut short", () => {
    const of = (ending: string, payload: Fields) => {
      const outcome = Spans.outcomeOf(ending, payload)
      return outcome._tag === "Failed" ? outcome.failure.type : outcome._tag
    }
    assert.deepStrictEqual(
      [
        of("post_api_request", {}), of("api_request_error", { reason: "rate_limit" }), of("api_request_error", { reason: "interrupted" }),
        of("post_tool_call", { status: "ok" }), of("post_tool_call", { status: "cancelled" }), of("post_tool_call", { status: "blocked", error_type: "fence" }),
        of("subagent_stop", { child_status: "partial" }), of("subagent_stop", { child_status: "timeout" }), of("subagent_stop", { child_status: "interrupted" }),
        of("on_session_end", { completed: true, reason: "text_response" }), of("on_session_end", { completed: false, reason: "max_iterations_reached" }),
        of("on_session_end", { reason: "failed" }), of("on_session_end", { interrupted: true }), of("interrupted", {})
      ],
      ["Done", "rate_limit", "Cut", "Done", "Cut", "fence", "Done", "timeout", "Cut", "Done", "Done", "failed", "Cut", "Cut"]
    )
    const failed = Spans.exitOf({ _tag: "Failed", failure: { type: "fence", message: "no" } })
    const [error] = Exit.isFailure(failed) ? Cause.prettyErrors(failed.cause) : []
    assert.deepStrictEqual([error?.name, error?.message], ["fence", "no"])
  })
})
