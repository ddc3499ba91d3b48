// hermes-effect as a runner of the peer benchmark: `Runtime.layer()` as an application uses it from the package root,
// an agent for each model name, a fresh session for each run. The default export is a runtime with nothing but the
// tool; `variants` are others.
import * as Effect from "effect/Effect"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Agent, ChatCompletions, Delegate, Hooks, Middleware, Runtime, SessionStore, Toolset } from "../../src/index.ts"
import { LangfusePlugin, OtelPlugin, TracePlugin } from "../../src/kit/entry/observability.ts"
import type { RunInput } from "../../src/agent/RunInput.ts"

interface Options {
  readonly tool: (text: string) => string | Promise<string>
  readonly middlewares: number
  readonly system: string
  readonly prompt: string
}

/** What a variant adds to the runtime. */
interface Variant {
  readonly name: string
  /** Where sessions are kept. */
  readonly store: "memory" | "sqlite"
  /** No-op observers. */
  readonly listeners?: number
  /** No-op wrappers around each tool call. */
  readonly wrappers?: number
  /** OpenTelemetry, Langfuse, ATOF and ATIF of every run. */
  readonly exporters?: boolean
}

type Service = ManagedRuntime.ManagedRuntime<Agent.Agent | SessionStore.SessionStore, unknown>

// Without annotations, as most tools of applications are.
const Echo = Tool.make("echo", {
  description: "Echo the text back",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
})
const toolkit = Toolkit.make(Echo)

const passModel = Middleware.llmExecution({ name: "pass", wrap: (next) => (request) => next(request) })
const passTool = Middleware.toolExecution({ name: "pass", wrap: (next) => (args) => next(args) })

const nothing = () => Effect.void
const listener = (index: number) =>
  Hooks.observer(
    { label: `listener ${index}` },
    { pre_api_request: nothing, post_api_request: nothing, post_tool_call: nothing }
  )

class Runner {
  readonly name: string
  readonly kind = "peer"
  readonly middleware = "typed wrappers around each attempt and each tool call"
  readonly coldStart = ["../../src/index.ts", "openai"]
  readonly installDir = "../.."
  readonly #variant: Variant
  readonly #runtimes = new Map<string, Service>()
  #url = ""
  #options: Options = { tool: (text) => text, middlewares: 0, system: "", prompt: "" }
  #directory: string | undefined

  constructor(variant: Variant) {
    this.#variant = variant
    this.name = variant.name
  }

  async setup(url: string, options: Options): Promise<void> {
    this.#url = url
    this.#options = options
  }

  #file(name: string): string {
    return join((this.#directory ??= mkdtempSync(join(tmpdir(), "hermes-bench-"))), name)
  }

  #store() {
    return this.#variant.store === "memory"
      ? SessionStore.layerMemory
      : SessionStore.layerSqlite({ path: this.#file(`${this.#runtimes.size}.db`) })
  }

  #plugins() {
    if (this.#variant.exporters !== true) return []
    const directory = this.#file(`traces-${this.#runtimes.size}`)
    return [
      OtelPlugin.make({
        OTEL_EXPORTER_OTLP_ENDPOINT: this.#url,
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true"
      }),
      LangfusePlugin.make({ publicKey: "pk-lf-1", secretKey: Redacted.make("sk-lf-1"), baseUrl: this.#url }),
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
  }

  #runtime(model: string): Service {
    const known = this.#runtimes.get(model)
    if (known !== undefined) return known
    const { middlewares, tool } = this.#options
    const handlers = toolkit.toLayer({
      echo: ({ text }) => {
        const said = tool(text)
        return typeof said === "string" ? Effect.succeed(said) : Effect.promise(() => said)
      }
    })
    const runtime = ManagedRuntime.make(
      Runtime.layer({
        provider: ChatCompletions.layer({ provider: "custom", model, baseUrl: this.#url, apiKey: Redacted.make("x") }),
        tools: model.startsWith("children-")
          ? [Toolset.make("bench", toolkit, handlers), Delegate.toolset]
          : [Toolset.make("bench", toolkit, handlers)],
        middleware: [
          ...Array.from({ length: middlewares }, () => [passModel, passTool]).flat(),
          ...Array.from({ length: this.#variant.wrappers ?? 0 }, () => passTool)
        ],
        hooks: Array.from({ length: this.#variant.listeners ?? 0 }, (_, index) => listener(index)),
        plugins: this.#plugins(),
        delegation: { maxConcurrentChildren: 1000 },
        store: this.#store(),
        cwd: "/tmp",
        maxIterations: 1000
      })
    )
    this.#runtimes.set(model, runtime)
    return runtime
  }

  /** The text of a run. What a store keeps in memory is removed: nobody wants it any longer. */
  #run(model: string, streaming: boolean): Promise<string> {
    const { prompt, system } = this.#options
    const input: RunInput = { prompt, systemPrompt: system, streaming }
    const run =
      this.#variant.store === "sqlite"
        ? Effect.map(Agent.run(input), ({ text }) => text)
        : Effect.flatMap(Agent.run(input), ({ sessionId, text }) =>
            Effect.as(
              SessionStore.SessionStore.use((store) => store.remove(sessionId)),
              text
            )
          )
    return this.#runtime(model).runPromise(run)
  }

  runLoop(k: number): Promise<string> {
    return this.#run(`loop-${k}`, false)
  }

  runFanout(n: number): Promise<string> {
    return this.#run(`fanout-${n}`, false)
  }

  runLoopStream(k: number): Promise<string> {
    return this.#run(`loop-${k}`, true)
  }

  runStream(n: number, onDelta: (text: string) => void, kind: "stream" | "trickle" = "stream"): Promise<void> {
    const { prompt, system } = this.#options
    return this.#runtime(`${kind}-${n}`).runPromise(
      Stream.runForEachArray(Agent.stream({ prompt, systemPrompt: system }), (events) =>
        Effect.sync(() => {
          for (const event of events) {
            if (event._tag === "TextDelta") onDelta(event.text)
          }
        })
      )
    )
  }

  /** One prompt after the other in one session. */
  async runSession(prompts: number, onPrompt: (index: number) => void): Promise<void> {
    const { prompt, system } = this.#options
    const runtime = this.#runtime("loop-0")
    let sessionId: RunInput["sessionId"]
    for (let index = 0; index < prompts; index++) {
      onPrompt(index)
      const input: RunInput = { prompt, systemPrompt: system, ...(sessionId === undefined ? {} : { sessionId }) }
      sessionId = (await runtime.runPromise(Agent.run(input))).sessionId
    }
  }

  runChildren(n: number, k: number): Promise<unknown> {
    return this.#run(`children-${n}-${k}`, false)
  }

  runGate(): Promise<unknown> {
    return this.#run("gate-1", false)
  }

  openSession(k: number): Promise<unknown> {
    const { prompt, system } = this.#options
    return this.#runtime(`loop-${k}`).runPromise(
      Effect.map(Agent.run({ prompt, systemPrompt: system }), ({ sessionId }) => sessionId)
    )
  }

  async close(): Promise<void> {
    for (const runtime of this.#runtimes.values()) await runtime.dispose()
    if (this.#directory !== undefined) rmSync(this.#directory, { recursive: true, force: true })
  }
}

/**
 * The runtime as it is embedded: by itself, with a database, with observers, wrappers and exporters that do nothing of
 * use.
 */
export const variants: ReadonlyArray<Variant> = [
  { name: "hermes-effect", store: "memory" },
  { name: "SQLite", store: "sqlite" },
  { name: "ten listeners", store: "memory", listeners: 10 },
  { name: "ten wrappers", store: "memory", wrappers: 10 },
  { name: "exporters", store: "memory", exporters: true }
]

/** A runner of a variant. */
export const make = (name: string): Runner => {
  const variant = variants.find((one) => one.name === name)
  if (variant === undefined) throw new Error(`no runner ${name}`)
  return new Runner(variant)
}

export default make("hermes-effect")
