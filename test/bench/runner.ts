// hermes-effect as a runner of the peer benchmark: `Runtime.layer()` as an application uses it from the package root, an agent for
// each model name, a fresh session for each run. The default export is a runtime with nothing but the tool; `variants` are others.
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
import { Agent, ChatCompletions, Hooks, Middleware, Runtime, SessionStore, Toolset } from "../../src/index.ts"
import type { RunInput } from "../../src/index.ts"

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
  readonly listeners: number
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
  Hooks.observer({ label: `listener ${index}` }, { pre_api_request: nothing, post_api_request: nothing, post_tool_call: nothing })

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

  #store() {
    if (this.#variant.store === "memory") return SessionStore.layerMemory
    this.#directory ??= mkdtempSync(join(tmpdir(), "hermes-bench-"))
    return SessionStore.layerSqlite({ path: join(this.#directory, `${this.#runtimes.size}.db`) })
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
    const runtime = ManagedRuntime.make(Runtime.layer({
      provider: ChatCompletions.layer({ provider: "custom", model, baseUrl: this.#url, apiKey: Redacted.make("x") }),
      tools: [Toolset.make("bench", toolkit, handlers)],
      middleware: Array.from({ length: middlewares }, () => [passModel, passTool]).flat(),
      hooks: Array.from({ length: this.#variant.listeners }, (_, index) => listener(index)),
      store: this.#store(),
      cwd: "/tmp",
      maxIterations: 1000
    }))
    this.#runtimes.set(model, runtime)
    return runtime
  }

  /** The text of a run. What a store keeps in memory is removed: nobody wants it any longer. */
  #run(model: string, streaming: boolean): Promise<string> {
    const { prompt, system } = this.#options
    const input: RunInput = { prompt, systemPrompt: system, streaming }
    const run = this.#variant.store === "sqlite"
      ? Effect.map(Agent.run(input), ({ text }) => text)
      : Effect.flatMap(Agent.run(input), ({ sessionId, text }) => Effect.as(SessionStore.SessionStore.use((store) => store.remove(sessionId)), text))
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
        }))
    )
  }

  openSession(k: number): Promise<string> {
    const { prompt, system } = this.#options
    return this.#runtime(`loop-${k}`).runPromise(Effect.map(Agent.run({ prompt, systemPrompt: system }), ({ sessionId }) => sessionId))
  }

  async close(): Promise<void> {
    for (const runtime of this.#runtimes.values()) await runtime.dispose()
    if (this.#directory !== undefined) rmSync(this.#directory, { recursive: true, force: true })
  }
}

const memory = new Runner({ name: "hermes-effect", store: "memory", listeners: 0 })

/** The runtime as it is embedded: by itself, with a database, with ten observers. */
export const variants: ReadonlyArray<Runner> = [
  memory,
  new Runner({ name: "SQLite", store: "sqlite", listeners: 0 }),
  new Runner({ name: "ten listeners", store: "memory", listeners: 10 })
]

export default memory
