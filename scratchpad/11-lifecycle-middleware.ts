import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Middleware, Runtime, Scripted, Toolset } from "../src/index.ts"
import { LlmFailover, Logging, LongToolOutput } from "../src/kit/entry/middleware.ts"

// Every example of the lifecycle document. A class with the methods of the document, in its own spelling.
class AuditMiddleware {
  readonly name = "AuditMiddleware"

  after_model({ parsedResponse }: Middleware.AfterModelInput) {
    console.log("Model emitted", parsedResponse.toolCalls.length, "tool calls")
    return Middleware.noChanges
  }

  after_tool({ toolName, toolOutput }: Middleware.AfterToolInput) {
    console.log("Tool", toolName, "returned", toolOutput)
    return Middleware.noChanges
  }
}

// A method that wraps the call, in the other spelling.
const counted = Middleware.lifecycle({
  name: "counted",
  wrapModelCall: (next) => (params) => {
    console.log("Calling LLM with", params.call.messages.length, "messages")
    return next(params)
  }
})

// A reminder in every call. `messages` would store it, `promptMessages` sends it in this call only.
const prefix = Middleware.lifecycle({
  name: "prefix",
  beforeModel: ({ promptMessages }) =>
    Middleware.withModifications({
      promptMessages: [
        ...promptMessages,
        Prompt.userMessage({ content: [Prompt.textPart({ text: "Reminder: stay within budget." })] })
      ]
    })
})

const toolFilter = Middleware.lifecycle({
  name: "toolFilter",
  afterModel: ({ parsedResponse }) =>
    Middleware.withModifications({
      parsedResponse: {
        ...parsedResponse,
        toolCalls: parsedResponse.toolCalls.filter(({ name }) => name !== "system_command")
      }
    })
})

const clampInput = Middleware.lifecycle({
  name: "clampInput",
  beforeTool: ({ toolInput }) => Middleware.withModifications({ toolInput: { timeout: 30, ...toolInput } })
})

// The rest of what `with_modifications` is shown with: a tool's output, and the agent's final reply.
const reshaped = Middleware.lifecycle({
  name: "reshaped",
  afterTool: ({ toolOutput }) => Middleware.withModifications({ toolOutput: { text: toolOutput } }),
  afterAgent: ({ agentResponse }) =>
    Middleware.withModifications({ agentResponse: agentResponse.replace("sk-123", "[redacted]") })
})

// The bundled ones, made in code as the document makes them.
const failover = LlmFailover.make({
  trigger: { status_codes: [500, 502, 503], exception_types: ["RateLimitError"] },
  fallback_providers: [
    { name: "backup", llm_config: { base_url: "https://backup.example.com/v1", api_key: "sk-xxx" } }
  ],
  circuit_breaker: { failure_threshold: 3, recovery_timeout_seconds: 60 }
})

const longToolOutput = LongToolOutput.make({
  maxOutputChars: 10_000,
  headLines: 50,
  tailLines: 30,
  tempDir: "/tmp/nexau_tool_outputs",
  bypassToolNames: ["execute_bash"]
})

const Run = Tool.make("run", {
  description: "Runs",
  parameters: Schema.Struct({ timeout: Schema.optionalKey(Schema.Number) }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Run)
const tools = Toolset.make(
  "run",
  toolkit,
  toolkit.toLayer({ run: ({ timeout }) => Effect.succeed(`ran for ${timeout} s`) })
)

const model = Scripted.layer([
  Scripted.complete({
    toolCalls: [
      { name: "run", params: {} },
      { name: "system_command", params: {} }
    ]
  }),
  Scripted.complete("the key is sk-123")
])

// The first is outermost: `before…` first to last, `after…` last to first.
const program = Agent.run({ prompt: "Run it" }).pipe(
  Effect.provide(
    Runtime.layer({
      provider: model,
      tools: [tools],
      middleware: [
        Logging.make(),
        failover,
        longToolOutput,
        Middleware.lifecycle(new AuditMiddleware()),
        counted,
        prefix,
        toolFilter,
        clampInput,
        reshaped
      ]
    })
  )
)

// The lines of Logging go nowhere here.
const quiet = Effect.provide(program, Logger.layer([]))

console.log((await Effect.runPromise(quiet)).text)
