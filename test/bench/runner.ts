// hermes-effect as a runner of the peer benchmark: an agent for each model name, a fresh session for each run, the memory
// store, and nothing registered but the tool.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunInput } from "../../src/agent/RunInput.ts"
import type { SessionId } from "../../src/domain/Ids.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as ChatCompletions from "../../src/provider/ChatCompletions.ts"
import * as ModelRouter from "../../src/routing/ModelRouter.ts"
import * as SessionStore from "../../src/session/SessionStore.ts"
import * as ToolRegistry from "../../src/tool/ToolRegistry.ts"
import * as Toolset from "../../src/tool/Toolset.ts"

interface Options {
  readonly tool: (text: string) => string | Promise<string>
  readonly middlewares: number
  readonly system: string
  readonly prompt: string
}

type Runtime = ManagedRuntime.ManagedRuntime<Agent.Agent | SessionStore.SessionStore, unknown>

interface Instance {
  opts: Options
  url: string
  runtimes: Map<string, Runtime>
  runtime(model: string): Runtime
  run(model: string, streaming: boolean): Promise<string>
}

const Echo = Tool.make("echo", {
  description: "Echo the text back",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)

const passModel = Middleware.llmExecution({ name: "pass", wrap: (next) => (request) => next(request) })
const passTool = Middleware.toolExecution({ name: "pass", wrap: (next) => (args) => next(args) })

/** The text of a run whose session nobody wants any longer. */
const answer = (input: RunInput) =>
  Effect.flatMap(Agent.run(input), ({ sessionId, text }) =>
    Effect.as(Effect.flatMap(SessionStore.SessionStore, (store) => store.remove(sessionId)), text))

export default {
  name: "hermes-effect",
  kind: "peer",
  middleware: "typed wrappers around each attempt and each tool call",
  coldStart: ["../../src/agent/Agent.ts", "../../src/provider/ChatCompletions.ts", "../../src/session/SessionStore.ts", "openai"],
  installDir: "../..",

  async setup(this: Instance, url: string, opts: Options) {
    this.opts = opts
    this.url = url
    this.runtimes = new Map()
  },

  runtime(this: Instance, model: string): Runtime {
    let runtime = this.runtimes.get(model)
    if (runtime === undefined) {
      const { middlewares, tool } = this.opts
      const handlers = toolkit.toLayer({
        echo: ({ text }) => {
          const said = tool(text)
          return typeof said === "string" ? Effect.succeed(said) : Effect.promise(() => said)
        }
      })
      const provider = ChatCompletions.layer({
        provider: "custom",
        model,
        baseUrl: this.url,
        apiKey: Redacted.make("x")
      })
      const middleware = Array.from({ length: middlewares }, () => [passModel, passTool]).flat()
      runtime = ManagedRuntime.make(
        Agent.layer({ cwd: "/tmp", maxIterations: 1000, middleware }).pipe(
          Layer.provideMerge(Layer.mergeAll(
            ModelRouter.layer.pipe(Layer.provide(provider)),
            SessionStore.layerMemory,
            ToolRegistry.layer([Toolset.make("bench", toolkit, handlers)])
          ))
        )
      )
      this.runtimes.set(model, runtime)
    }
    return runtime
  },

  run(this: Instance, model: string, streaming: boolean): Promise<string> {
    const { prompt, system } = this.opts
    return this.runtime(model).runPromise(answer({ prompt, systemPrompt: system, streaming }))
  },

  runLoop(this: Instance, k: number) {
    return this.run(`loop-${k}`, false)
  },
  runFanout(this: Instance, n: number) {
    return this.run(`fanout-${n}`, false)
  },
  runLoopStream(this: Instance, k: number) {
    return this.run(`loop-${k}`, true)
  },
  runStream(this: Instance, n: number, onDelta: (text: string) => void, kind: "stream" | "trickle" = "stream") {
    const { prompt, system } = this.opts
    return this.runtime(`${kind}-${n}`).runPromise(
      Stream.runForEachArray(Agent.stream({ prompt, systemPrompt: system }), (events) =>
        Effect.sync(() => {
          for (const event of events) {
            if (event._tag === "TextDelta") onDelta(event.text)
          }
        }))
    )
  },
  openSession(this: Instance, k: number): Promise<SessionId> {
    const { prompt, system } = this.opts
    return this.runtime(`loop-${k}`).runPromise(
      Effect.map(Agent.run({ prompt, systemPrompt: system }), ({ sessionId }) => sessionId)
    )
  }
}
