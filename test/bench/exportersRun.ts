// A process of `npm run bench:exporters`: sessions one after another, each with a layer of its own, as an application
// makes it. Arguments: off, on (all plugins that export) or telemetry (Effect's exporter, with the spans and metrics of
// `RunTelemetry`), turns, address of the server, directory of the files. Prints milliseconds of CPU.
import type * as Index from "../../src/index.ts"
import type * as Observability from "../../src/kit/entry/observability.ts"
import { join } from "node:path"

/** Milliseconds of CPU, from building the layer to its end. */
export interface Sample {
  /** In a process that has not done anything else. */
  readonly first: number
  /** In the same process, after that: the mean of several, because a collection of garbage falls into one of them. */
  readonly later: number
}

const [exporters = "off", turns = "20", url = "", directory = ""] = process.argv.slice(2)

const dist = join(import.meta.dirname, "../../dist")
const library = (await import(join(dist, "index.js"))) as typeof Index
const { Agent, ChatCompletions, Runtime, RunTelemetry, Toolset } = library
const observability = (await import(join(dist, "kit/entry/observability.js"))) as typeof Observability
const { LangfusePlugin, OtelPlugin, TracePlugin } = observability
const Effect = await import("effect/Effect")
const Redacted = await import("effect/Redacted")
const Schema = await import("effect/Schema")
const Tool = await import("effect/ai/Tool")
const Toolkit = await import("effect/ai/Toolkit")

const Echo = Tool.make("echo", {
  description: "Echo the text back",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)

const plugins = () => [
  OtelPlugin.make({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" }),
  LangfusePlugin.make({ publicKey: "pk-lf-1", secretKey: Redacted.make("sk-lf-1"), baseUrl: url }),
  TracePlugin.make({
    agent: { name: "bench", version: "1" },
    atof: { directory, filename: "events.jsonl", mode: "append" },
    atif: {
      directory,
      filenameTemplate: "{session_id}.json",
      agentName: "bench",
      agentVersion: "1",
      subagents: "embedded"
    }
  })
]

const parts = {
  provider: ChatCompletions.layer({
    provider: "custom",
    model: `loop-${turns}`,
    baseUrl: `${url}/v1`,
    apiKey: Redacted.make("x")
  }),
  tools: [Toolset.make("bench", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))],
  maxIterations: 1000
} as const

const telemetry = async () => {
  const [Http, Layer, Otlp] = await Promise.all([
    import("effect/http/FetchHttpClient"),
    import("effect/Layer"),
    import("effect/observability/Otlp")
  ])
  const exporting = Otlp.layer({ baseUrl: url, resource: { serviceName: "bench" } }).pipe(
    Layer.provide([Http.layer, RunTelemetry.layerProtobuf])
  )
  return Layer.provideMerge(Runtime.layer({ ...parts, ...RunTelemetry.make({ captureContent: true }) }), exporting)
}

const layer = async () =>
  exporters === "telemetry"
    ? telemetry()
    : exporters === "on"
      ? Runtime.layer({ ...parts, plugins: plugins() })
      : Runtime.layer(parts)

const session = async (): Promise<number> => {
  const before = process.cpuUsage()
  const { text } = await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Go." }), await layer()))
  const { system, user } = process.cpuUsage(before)
  if (text !== `done: ${turns} tool results seen.`) throw new Error(`wrong answer: ${text}`)
  return (system + user) / 1000
}

/** Sessions after the first one. */
const laterSessions = 4

const first = await session()
let sum = 0
for (let n = 0; n < laterSessions; n++) sum += await session()
const sample: Sample = { first, later: sum / laterSessions }
process.stdout.write(JSON.stringify(sample))
process.exit(0)
