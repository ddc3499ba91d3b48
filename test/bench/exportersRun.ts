// A process of `npm run bench:exporters`: two sessions one after another, each with a layer of its own, as an application makes it.
// Arguments: off or on, turns, address of the server, directory of the files. Prints milliseconds of CPU of each session.
import type * as Index from "../../src/index.ts"
import { join } from "node:path"

/** Milliseconds of CPU, from building the layer to its end. */
export interface Sample {
  /** In a process that has not done anything else. */
  readonly first: number
  /** In the same process, after that. */
  readonly later: number
}

const [exporters = "off", turns = "20", url = "", directory = ""] = process.argv.slice(2)

const library = (await import(join(import.meta.dirname, "../../dist/index.js"))) as typeof Index
const { Agent, ChatCompletions, LangfusePlugin, OtelPlugin, Runtime, Toolset, TracePlugin } = library
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
    atif: { directory, filenameTemplate: "{session_id}.json", agentName: "bench", agentVersion: "1", subagents: "embedded" }
  })
]

const parts = {
  provider: ChatCompletions.layer({ provider: "custom", model: `loop-${turns}`, baseUrl: `${url}/v1`, apiKey: Redacted.make("x") }),
  tools: [Toolset.make("bench", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))],
  maxIterations: 1000
} as const

const session = async (): Promise<number> => {
  const before = process.cpuUsage()
  const { text } = await Effect.runPromise(
    Effect.provide(Agent.run({ prompt: "Go." }), exporters === "on" ? Runtime.layer({ ...parts, plugins: plugins() }) : Runtime.layer(parts))
  )
  const { system, user } = process.cpuUsage(before)
  if (text !== `done: ${turns} tool results seen.`) throw new Error(`wrong answer: ${text}`)
  return (system + user) / 1000
}

const sample: Sample = { first: await session(), later: await session() }
process.stdout.write(JSON.stringify(sample))
process.exit(0)
