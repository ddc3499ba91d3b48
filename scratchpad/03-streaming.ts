import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Agent, FileTools, Runtime } from "../src/index.ts"

const events = Agent.stream({ prompt: "Read the file package.json" })

await events.pipe(
  Stream.runForEach((event) => {
    switch (event._tag) {
      case "ToolStarted":
        return Console.log(`→ ${event.name}`)
      case "ToolFinished":
        return Console.log(`← ${event.name}: ${event.status}`)
      case "RunFinished":
        return Console.log(`${event.exit} after ${event.steps} steps`)
      default:
        return Effect.void
    }
  }),
  Effect.provide(Runtime.layer({ tools: [FileTools.toolset] })),
  Effect.runPromise
)
