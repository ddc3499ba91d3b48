import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { Agent, FileTools, RunRecord, Runtime, RunTelemetry } from "../../src/index.ts"

// Stands in for the tracer of an application: Otlp of `effect/observability`, or the OpenTelemetry SDK.
const names: Array<string> = []
const tracer = Tracer.make({
  span: (options) => {
    names.push(options.name)
    return new Tracer.NativeSpan(options)
  }
})

const runtime = Runtime.layer({ tools: [FileTools.toolset], ...RunTelemetry.make({ agentName: "reader" }) })

const program = Effect.gen(function* () {
  const { sessionId, usage } = yield* Agent.run({ prompt: "Read the file package.json" })
  console.log(usage.outputTokens > 0)

  // Every run is in the record, with secrets masked; exporters and pages are made of it.
  const record = yield* RunRecord.RunRecord
  const entries = yield* Stream.runCollect(record.read({ sessionId, kinds: ["CallEnded", "RunEnded"] }))
  for (const { event } of entries) {
    if (event._tag === "CallEnded") console.log(`${event.name}: ${event.status}`)
    if (event._tag === "RunEnded") console.log(`${event.exit} after ${event.steps} steps`)
  }
})

await program.pipe(Effect.withTracer(tracer), Effect.provide(runtime), Effect.runPromise)
// => true
// => read_file: ok
// => text_response after 2 steps
console.log(
  names
    .filter((name) => /^(?:invoke_agent|step|execute_tool)/.test(name))
    .toSorted()
    .join(", ")
)
// => execute_tool read_file, invoke_agent reader, step 1, step 2
