import * as Effect from "effect/Effect"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { Agent, type AgentError, FileTools, Runtime } from "../../src/index.ts"

// Layers are built once, on first use, and closed by `dispose`.
const agents = ManagedRuntime.make(
  Runtime.layer({ instructions: "Answer briefly.", tools: [FileTools.toolset], maxIterations: 10 })
)

const first = await agents.runPromise(Agent.run({ prompt: "Reply exactly: noted" }))
const second = await agents.runPromise(Agent.run({ prompt: "Reply exactly: still here", sessionId: first.sessionId }))
console.log(first.text, second.text, first.sessionId === second.sessionId)
// => noted still here true

const explain = (error: AgentError.AgentError): string =>
  error._tag === "InvalidInput" ? error.message : `failed: ${error._tag}`
const refused = Agent.run({ prompt: " " }).pipe(
  Effect.map(({ exit, text }) => `${exit}: ${text}`),
  Effect.catch((error) => Effect.succeed(explain(error)))
)
console.log(await agents.runPromise(refused))
// => the prompt is empty: say what the agent should do

await agents.dispose()
