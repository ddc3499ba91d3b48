import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { Agent, FileTools, Runtime, RunTelemetry } from "../src/index.ts"

// Whatever traces an application traces its agents. Here it is a tracer that prints; in production
// `effect/observability` Otlp, the OpenTelemetry SDK, or the plugin observability/otel with the variables OTEL_*.
const spans: Array<Tracer.Span> = []
const tracer = Tracer.make({
  span: (options) => {
    const span = new Tracer.NativeSpan(options)
    spans.push(span)
    return span
  }
})

const runtime = Runtime.layer({ tools: [FileTools.toolset], ...RunTelemetry.make({ agentName: "reader" }) })

await Agent.run({ prompt: "Read the file package.json" }).pipe(
  Effect.withSpan("my request"),
  Effect.withTracer(tracer),
  Effect.provide(runtime),
  Effect.runPromise
)

const depth = (span: Tracer.AnySpan): number =>
  span._tag === "Span" && Option.isSome(span.parent) ? 1 + depth(span.parent.value) : 0

for (const span of spans) {
  const isOurs = span.name === "my request" || /^(?:invoke_agent|step|chat|execute_tool) /.test(span.name)
  if (isOurs) console.log("  ".repeat(depth(span)) + span.name)
}
